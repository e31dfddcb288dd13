"""``abiscan diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import click

import abiscan
from abiscan.cli.common import errors_reported, make_console, show_progress, write_result
from abiscan.cli.options import complete_torch, index_options, machine_option, report_options, verbose_option
from abiscan.cli.reporting import ReportingCommand
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.session import Session


@click.command(cls=ReportingCommand)
@click.argument("old", metavar="SPEC", shell_complete=complete_torch)
@click.argument("new", metavar="SPEC", shell_complete=complete_torch)
@click.option("--used-by", metavar="TARGET", help="Only compare what this extension or package uses.")
@machine_option
@index_options
@report_options("text", "json")
@verbose_option("Show every symbol.")
def diff(
    index: IndexOptions,
    *,
    old: str,
    new: str,
    used_by: str | None,
    machine: str,
    form: str,
    output: Path | None,
    verbose: bool,
) -> None:
    """Show what changed between two torches.

    Compares symbols, operators, dispatch keys, kernels, class layouts and Python names. SPEC is a release number, a
    torch folder or a wheel.

    \b
    Examples:
      abiscan diff 2.8.0 2.9.1
      abiscan diff 2.8.0 2.9.1 --used-by _C.so -v
      abiscan diff old/site-packages/torch new/site-packages/torch --format json
    """
    with errors_reported(), show_progress("comparing") as progress:
        comparison = abiscan.diff(
            old, new, used_by=used_by, machine=machine, session=Session.of_user(progress, index=index)
        )

    def write_text(stream: TextIO) -> None:
        from abiscan.report import diff_text

        diff_text.render_comparison(comparison, make_console(stream), verbose=verbose, of_extension=used_by is not None)

    write_result(comparison, form, output, {"text": write_text})
