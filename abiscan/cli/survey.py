"""``abiscan survey``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

import abiscan
from abiscan.cli.common import blame_option, errors_reported, make_console, output_to
from abiscan.cli.options import (
    ReportFile,
    more_reports_option,
    python_option,
    quiet_option,
    refuse_both,
    torches_option,
)
from abiscan.cli.reporting import ReportingCommand
from abiscan.inputs import destination

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from abiscan.results.survey import SurveySummary

_FORMATS: Final = ("html", "markdown", "parquet")


@click.command(cls=ReportingCommand)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@torches_option(
    "torches",
    "A torch to check on (repeatable): a release number, a version specifier ('>=2.4,<2.7'), a folder or a wheel. "
    "Default: the torch of the current environment.",
)
@python_option("Use the torch and the installed packages of this Python.")
@click.option(
    "--output",
    type=ReportFile(),
    required=True,
    metavar="FILE",
    help="Append the answers to FILE; skip those that it already has.",
)
@more_reports_option(*_FORMATS)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="The number of processes. Default: one for each processor.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Let the workers of this dask scheduler do the work: tcp://HOST:PORT, or the file that it wrote.",
)
@quiet_option("Show neither progress nor a summary.")
def survey(
    *,
    targets: tuple[str, ...],
    torches: tuple[str, ...],
    python: str | None,
    output: Path,
    reports: list[tuple[str, Path]],
    jobs: int | None,
    scheduler: str | None,
    quiet: bool,
) -> None:
    """Check thousands of targets, each by itself.

    The answers are kept as lines of JSON. TARGET is what `abiscan check` takes, a folder (which stands for the wheels
    in it, at any depth), or a list: a .txt file, or - for stdin, with one target in each line. Each answer, for one
    target on one torch, is a line as soon as it is known. An interrupted survey resumes where it stopped; a file that
    changed since then is checked again.

    \b
    Examples:
      abiscan survey wheels/ --torch 2.13.0 --output results.jsonl
      abiscan survey wheels/ --torch '>=2.9' --output results.jsonl --report html=summary.html
      abiscan survey names.txt --torch 2.12.1 --torch 2.13.0 --output results.jsonl --jobs 8
      abiscan survey wheels/ --torch 2.13.0 --output results.jsonl --scheduler tcp://10.0.0.5:8786

    \b
    Exit codes, for all answers in the output:
      0  nothing stops an import, ends the process or corrupts memory
      1  something does
      2  usage error, or a target that cannot be read
      3  a verdict is unknown
    """
    refuse_both("--torch", torches, "--python", python)
    refuse_both("--jobs", jobs, "--scheduler", scheduler)
    with errors_reported():
        with _show_progress(quiet=quiet) as progress:
            result = abiscan.survey(
                targets, torches, output=output, python=python, jobs=jobs, scheduler=scheduler, progress=progress
            )
        # Over all answers in the file, those of earlier runs included.
        for form, file in reports:
            _write_report(result, form, file)
        if not quiet:
            from abiscan.report import survey_text

            with output_to(None) as stream:
                survey_text.render_summary(result, make_console(stream))
    sys.exit(result.exit_code)


@contextlib.contextmanager
def _show_progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Provide a bar with the rate and the remaining time, on a terminal.

    :return: a function to call with the number of targets that are done, and of all
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich import progress as bars
    from rich.console import Console

    # Targets per second, since a survey takes hours and its answers come in any order.
    columns = (bars.BarColumn(), bars.MofNCompleteColumn(), _make_rate_column(), bars.TimeRemainingColumn())
    with bars.Progress(*columns, console=Console(stderr=True)) as item:
        task = item.add_task("", total=None)  # until the targets are counted

        def show_done(done: int, total: int) -> None:
            item.update(task, completed=done, total=total)

        yield show_done


def _write_report(result: SurveySummary, form: str, file: Path) -> None:
    if form == "parquet":
        from abiscan.report import survey_parquet

        with blame_option("--report"), destination.write_whole(file) as table:
            survey_parquet.write_table(result.entries, table, str(file))
        return
    with output_to(file, "--report") as stream:
        if form == "html":
            from abiscan.report import survey_html

            stream.write(survey_html.render_page(result))
        else:
            from abiscan.report import survey_markdown

            stream.write(survey_markdown.render_markdown(result))


def _make_rate_column() -> ProgressColumn:
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.1f}/s" if task.speed else "")

    return Rate()
