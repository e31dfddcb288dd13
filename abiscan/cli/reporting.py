"""Commands that write reports to files which the user names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from abiscan.cli.common import blame_option
from abiscan.inputs import destination

_OUTPUT: Final = "output"
_REPORTS: Final = "reports"
_MAY_BE_REPLACED: Final = "baseline"  # a report itself, which the next one may replace


class ReportingCommand(click.Command):
    """A command that begins only if each report can be written, and if none replaces what is read, or another."""

    def invoke(self, ctx: click.Context) -> object:
        """Check the files that are named for reports, then run the command.

        :raises click.UsageError: one of them is not for a report
        """
        files = list(_report_files(ctx))
        for at, (option, file) in enumerate(files):
            with blame_option(option):
                destination.check_writable(file)
                # The process that reads targets gives up the right to write anywhere else: see ``isolation``.
                destination.claim_right(file)
                # By what they lead to, not by their names: ``./x``, ``x`` and a link to it are one file.
                for earlier_option, earlier in files[:at]:
                    if destination.lead_to_same_file(file, earlier):
                        raise click.UsageError(f"{earlier_option} and {option} name the same file, {file}")
                for value in _input_names(ctx):
                    if destination.lead_to_same_file(file, Path(value)):
                        problem = f"{option} would replace {value}, which is read; name another file"
                        raise click.UsageError(problem)
        return super().invoke(ctx)


def _report_files(ctx: click.Context) -> Iterator[tuple[str, Path]]:
    """Yield the files that reports are written to, each with its option."""
    if (output := ctx.params.get(_OUTPUT)) is not None:
        yield "--output", output
    for _, file in ctx.params.get(_REPORTS, ()):
        yield "--report", file


def _input_names(ctx: click.Context) -> Iterator[str]:
    """Yield what may be the name of something that is read."""
    for name, value in ctx.params.items():
        if name not in (_OUTPUT, _REPORTS, _MAY_BE_REPLACED):
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, str | os.PathLike):
                    yield os.fspath(part)
