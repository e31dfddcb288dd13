"""``abiscan matrix``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from abiscan.cli.common import cache_folder, errors_reported, output_to, sources, torch_choices, working
from abiscan.findings import Effect
from abiscan.inputs.interpreter import of_environment
from abiscan.inputs.store import Store
from abiscan.pipelines import matrix as pipeline
from abiscan.results.matrix import Matrix
from abiscan.rules import RULES

_FORMATS = ("text", "json", "html")


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option(
    "--torch",
    "torches",
    multiple=True,
    metavar="SPEC",
    help="A torch to check on (repeatable): a release number, a version specifier ('>=2.4,<2.7'), a folder or a wheel. "
    "Default: all embedded releases.",
)
@click.option("--python", metavar="EXE", help="Look up installed packages in this Python.")
@click.option("--format", "form", type=click.Choice(_FORMATS), default="text", show_default=True, help="Output format.")
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the report to FILE."
)
@click.option(
    "--fail-on",
    type=click.Choice([effect.value for effect in Effect]),
    default=Effect.CORRUPTS.value,
    show_default=True,
    help="Exit with 1 if any finding has this effect or a worse one.",
)
@click.option("--strict", is_flag=True, help="Also exit with 1 if something could not be checked.")
@click.option("-v", "--verbose", is_flag=True, help="Show why it fails, and every clue to the torch it was built for.")
def matrix(
    *,
    targets: tuple[str, ...],
    torches: tuple[str, ...],
    python: str | None,
    form: str,
    output: Path | None,
    fail_on: str,
    strict: bool,
    verbose: bool,
) -> None:
    """Show which torch releases an extension works on.

    TARGET is a shared object, a wheel, a folder, NAME==VERSION or the name of an installed package. Each extension in
    it is checked on each release, as by `abiscan check`. Also shows which torch it was built for, and what to require.

    \b
    Examples:
      abiscan matrix torchvision-0.20.1-cp311-cp311-manylinux1_x86_64.whl
      abiscan matrix _C.so -v
      abiscan matrix dist/*.whl --torch 2.8.0 --torch 2.9.1
      abiscan matrix dist/*.whl --format html --output matrix.html

    \b
    Exit codes:
      0  no finding at or above --fail-on on any of the releases
      1  such a finding
      2  usage error, or an input that cannot be read
      3  a verdict is unknown
    """
    environment = python or of_environment()
    with errors_reported():
        choices = [choice for spec in torches for choice in torch_choices(spec)]
        with working("checking") as progress, sources(targets, environment) as read:
            store = Store(cache_folder())
            found = pipeline.matrix(read, choices, RULES, store, explained=form == "html", progress=progress)
    _write(found, form, output, verbose=verbose)
    sys.exit(found.exit_code(Effect(fail_on), strict=strict))


def _write(found: Matrix, form: str, output: Path | None, *, verbose: bool) -> None:
    with output_to(output) as stream:
        if form == "json":
            stream.write(found.to_json())
        elif form == "html":
            from abiscan.report import matrix_html

            stream.write(matrix_html.render(found))
        else:
            from rich.console import Console

            from abiscan.report import matrix_text

            matrix_text.render(found, Console(file=stream, highlight=False), verbose=verbose)
