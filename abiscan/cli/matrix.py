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
    help="A torch for a column (repeatable): a release number, several ('>=2.4,<2.7'), a folder, a wheel. "
    "Default: all releases in the package.",
)
@click.option("--python", metavar="EXE", help="Take packages by name of this Python.")
@click.option("--format", "form", type=click.Choice(_FORMATS), default="text", show_default=True, help="Form.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write it there.")
@click.option(
    "--fail-on",
    type=click.Choice([effect.value for effect in Effect]),
    default=Effect.CORRUPTS.value,
    show_default=True,
    help="Exit with 1 if any cell has a finding of this effect or a worse one.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 also if something could not be checked.")
@click.option("-v", "--verbose", is_flag=True, help="Show why it fails, and all that tells what it was built for.")
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
    """On which torch releases does it load, and what to require?

    TARGET is a shared object, a wheel, a folder, NAME==VERSION or the name of an installed package: each extension in
    it is judged on each release as `abiscan check` would. Also says which torch it was built for, as its bytes show.

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
      2  usage, or an input that cannot be read
      3  could not tell
    """
    environment = python or of_environment()
    with errors_reported():
        choices = [choice for spec in torches for choice in torch_choices(spec)]
        with working("judging") as progress, sources(targets, environment) as read:
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
