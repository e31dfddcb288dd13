"""``abiscan diff``."""

from __future__ import annotations

from pathlib import Path

import click

from abiscan.binary.elf import Machine
from abiscan.cli.common import cache_folder, errors_reported, output_to, sources
from abiscan.inputs.interpreter import of_environment
from abiscan.inputs.store import Store
from abiscan.pipelines.operators import difference


@click.command()
@click.argument("old", metavar="SPEC")
@click.argument("new", metavar="SPEC")
@click.option("--used-by", metavar="TARGET", help="Only compare what this extension uses.")
@click.option(
    "--machine",
    type=click.Choice([machine.value for machine in Machine]),
    default=Machine.X86_64.value,
    show_default=True,
    help="The machine for which to take a release number.",
)
@click.option(
    "--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True, help="Output format."
)
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write the report to FILE."
)
@click.option("-v", "--verbose", is_flag=True, help="Show every symbol.")
def diff(
    *, old: str, new: str, used_by: str | None, machine: str, form: str, output: Path | None, verbose: bool
) -> None:
    """Show what changed between two torches.

    Compares symbols, operators, dispatch keys, kernels and class layouts. SPEC is a release number, a torch folder or a
    wheel.

    \b
    Examples:
      abiscan diff 2.8.0 2.9.1
      abiscan diff 2.8.0 2.9.1 --used-by _C.so -v
      abiscan diff old/site-packages/torch new/site-packages/torch --format json
    """
    with errors_reported(), sources([used_by] if used_by else [], of_environment()) as users:
        comparison = difference(old, new, Machine(machine), next(iter(users), None), Store(cache_folder()))
    with output_to(output) as stream:
        if form == "json":
            stream.write(comparison.to_json())
        else:
            from rich.console import Console

            from abiscan.report import diff_text

            diff_text.render(comparison, Console(file=stream, highlight=False), verbose=verbose)
