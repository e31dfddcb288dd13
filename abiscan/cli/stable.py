"""``abiscan stable``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

import click

import abiscan
from abiscan.cli.common import errors_reported, make_console, report_unread, show_progress, write_result
from abiscan.cli.options import index_options, python_option, report_options, verbose_option
from abiscan.cli.reporting import ReportingCommand
from abiscan.errors import InputError
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.session import Session
from abiscan.inputs.version import TorchVersion


@click.command(cls=ReportingCommand)
@click.argument("targets", nargs=-1, metavar="[TARGET...]")
@click.option("--env", is_flag=True, help="Check every package of the environment that uses torch.")
@click.option(
    "--against",
    metavar="RELEASE",
    help="Exit with 1 unless everything is stable and works on this release.",
)
@python_option("The Python of the environment, and for installed packages.")
@index_options
@report_options("text", "json")
@verbose_option("Show every symbol, with what replaces it.")
def stable(
    *,
    targets: tuple[str, ...],
    env: bool,
    against: str | None,
    python: str | None,
    index: IndexOptions,
    form: str,
    output: Path | None,
    verbose: bool,
) -> None:
    """Show what ties extensions to releases of torch.

    An extension is stable if it uses nothing of torch but the C functions of its stable ABI: then one build works with
    every release from a first one on. Any symbol of C++ ties it to a few releases; for each kind, the report names what
    the stable ABI has instead, and the first release that a port would run on.

    \b
    Examples:
      abiscan stable dist/*.whl
      abiscan stable dist/*.whl --against 2.10
      abiscan stable _C.so -v
      abiscan stable --env

    \b
    Exit codes:
      0  done; with --against, everything is stable and works with that release
      1  with --against: something is tied, or needs a newer torch
      2  usage error, or an input that cannot be read
    """
    if bool(targets) == env:
        raise click.UsageError("pass TARGETs, or --env")
    with errors_reported(), show_progress("looking for symbols of torch") as progress:
        release = _parse_release(against) if against else None
        # The number was read first: a typing error in it should not cost a search.
        report = abiscan.stable(targets, environment=env, python=python, session=Session.of_user(progress, index=index))

    def write_text(stream: TextIO) -> None:
        from abiscan.report import stable_text

        stable_text.render_stability(report, make_console(stream), verbose=verbose)

    write_result(report, form, output, {"text": write_text})
    report_unread(report.unchecked)
    sys.exit(report.exit_code(release))


def _parse_release(text: str) -> TorchVersion:
    version = TorchVersion.parse(text)
    if version is None:
        raise InputError(text, "is not a release number", "pass one such as 2.10")
    return version
