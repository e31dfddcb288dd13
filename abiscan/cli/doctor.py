"""``abiscan doctor``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from abiscan.cli.common import cache_folder, errors_reported, output_to, working
from abiscan.inputs.interpreter import of_environment
from abiscan.inputs.store import Store


@click.command()
@click.option("--python", metavar="EXE", help="The Python of the environment. Default: the active environment.")
@click.option(
    "--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True, help="Output format."
)
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the report to FILE."
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing if there are no problems.")
def doctor(*, python: str | None, form: str, output: Path | None, quiet: bool) -> None:
    """Check that everything installed works with the installed torch.

    Checks every installed package with extensions of torch, the extensions that torch compiled on the fly, and extra
    copies of torch's libraries. Prints a table of problems, worst first, with the commands that fix them.

    \b
    Examples:
      abiscan doctor
      abiscan doctor --python ~/venv/bin/python
      abiscan doctor --format json

    \b
    Exit codes:
      0  no problems
      1  something does not work with torch
      2  usage error, or an environment without torch
      3  something could not be checked
    """
    from abiscan.hooks.doctor import diagnose

    with errors_reported(), working("looking for extensions of torch") as progress:
        diagnosis = diagnose(python or of_environment(), Store(cache_folder()), progress)
    with output_to(output) as stream:
        if form == "json":
            stream.write(diagnosis.to_json())
        elif diagnosis.ailments or not quiet:
            from rich.console import Console

            from abiscan.report import doctor_text

            console = Console(file=stream, highlight=False)
            if not console.is_terminal:
                console.width = 200  # a table, not the terminal, decides where the lines of a log end
            doctor_text.render(diagnosis, console)
    sys.exit(diagnosis.exit_code)
