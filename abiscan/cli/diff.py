"""``abiscan diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import click

import abiscan
from abiscan.cli.common import errors_reported, make_console, show_progress, write_result
from abiscan.cli.lock import LockOptions, compare_lock_files, lock_options
from abiscan.cli.options import complete_torch, index_options, machine_option, report_options, verbose_option
from abiscan.cli.reporting import ReportingCommand
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.kinds import is_lock_name
from abiscan.inputs.session import Session


@click.command(cls=ReportingCommand)
@click.argument("old", metavar="SPEC", shell_complete=complete_torch)
@click.argument("new", metavar="SPEC", shell_complete=complete_torch)
@click.option("--used-by", metavar="TARGET", help="Only compare what this extension or package uses.")
@machine_option
@index_options
@report_options("text", "json", "markdown")
@lock_options
@verbose_option("Show every symbol.")
def diff(
    index: IndexOptions,
    *,
    lock_choice: LockOptions,
    old: str,
    new: str,
    used_by: str | None,
    machine: str,
    form: str,
    output: Path | None,
    verbose: bool,
) -> None:
    """Show what changed between two torches, or two locks.

    Compares symbols, operators, dispatch keys, kernels, class layouts and Python names. SPEC is a release number, a
    torch folder or a wheel.

    For two locks of a project, such as uv.lock, it shows what becomes better and worse: which packages that work with
    torch under the old lock no longer do under the new one. --format markdown writes text for a pull request.

    \b
    Examples:
      abiscan diff 2.8.0 2.9.1
      abiscan diff 2.8.0 2.9.1 --used-by _C.so -v
      abiscan diff old/site-packages/torch new/site-packages/torch --format json
      abiscan diff base/uv.lock uv.lock --format markdown

    \b
    Exit codes of two locks:
      0  nothing becomes worse
      1  something does
      2  usage error, or a lock or a package that cannot be read
      3  something that changes could not be checked
    """
    if is_lock_name(old) and is_lock_name(new):
        compare_lock_files(Path(old), Path(new), lock_choice, index=index, form=form, output=output)
    if form == "markdown" or lock_choice != LockOptions():
        raise click.UsageError("--format markdown and the options for locks are for two locks")
    with errors_reported(), show_progress("comparing") as progress:
        comparison = abiscan.diff(
            old, new, used_by=used_by, machine=machine, session=Session.of_user(progress, index=index)
        )

    def write_text(stream: TextIO) -> None:
        from abiscan.report import diff_text

        diff_text.render_comparison(comparison, make_console(stream), verbose=verbose, of_extension=used_by is not None)

    write_result(comparison, form, output, {"text": write_text})
