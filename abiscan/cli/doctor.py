"""``abiscan doctor``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

import click

from abiscan.cli.common import console, errors_reported, working, write
from abiscan.cli.options import python_option, quiet_option, report_options
from abiscan.inputs.interpreter import of_environment
from abiscan.inputs.session import Session

_LOG_WIDTH = 200  # a table in a log ends its lines by itself


@click.command()
@python_option("The Python of the environment. Default: the active one.")
@report_options("text", "json")
@quiet_option("Print nothing if everything fits.")
def doctor(*, python: str | None, form: str, output: Path | None, quiet: bool) -> None:
    """Does everything installed here fit the torch that is here?

    Looks at every installed package with extensions of torch, at what torch compiled on the fly, and at copies of
    torch's libraries that get in the way. One table, worst first, with what to type; one line if all is well.

    \b
    Examples:
      abiscan doctor
      abiscan doctor --python ~/venv/bin/python
      abiscan doctor --format json

    \b
    Exit codes:
      0  all is well
      1  something does not fit
      2  usage, or an environment without torch
      3  something could not be judged
    """
    from abiscan.hooks.doctor import diagnose

    with errors_reported(), working("looking for extensions of torch") as progress:
        diagnosis = diagnose(python or of_environment(), Session.of_user(progress))

    def text(stream: TextIO) -> None:
        from abiscan.report import doctor_text

        if diagnosis.ailments or not quiet:
            page = console(stream)
            if not page.is_terminal:
                page.width = _LOG_WIDTH
            doctor_text.render(diagnosis, page)

    write(diagnosis, form, output, {"text": text})
    sys.exit(diagnosis.exit_code)
