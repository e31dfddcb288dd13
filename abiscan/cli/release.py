"""``abiscan release``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

import click

import abiscan
from abiscan.cli.common import errors_reported, make_page, report_unread, show_progress, write_result
from abiscan.cli.options import fail_options, jobs_option, report_options
from abiscan.cli.reporting import ReportingCommand
from abiscan.findings import Effect
from abiscan.inputs import isolation
from abiscan.inputs.session import Session


@click.command(cls=ReportingCommand)
@click.argument("targets", nargs=-1, required=True, metavar="DIST...")
@click.option(
    "--against",
    multiple=True,
    metavar="PREVIOUS",
    help="The wheels that were published last, or their folder: what is worse now is a problem (repeatable).",
)
@click.option("--write", is_flag=True, help="Write wheels with corrected metadata into DIST-corrected.")
@report_options("text", "json")
@fail_options("Exit with 1 if a problem has this effect or a worse one.")
@jobs_option("The number of processes that share the torches.")
def release(
    *,
    targets: tuple[str, ...],
    against: tuple[str, ...],
    write: bool,
    form: str,
    output: Path | None,
    fail_on: str,
    strict: bool,
    jobs: int,
) -> None:
    """Check the wheels of a release before it is published.

    DIST is a wheel, or the folder that the wheels are in. For each: what it requires of torch and on which releases it
    works, its tags and the glibc that it needs, whether it is tied to releases of torch, the GPUs that it has code for.
    For all of them: which combinations of Python and machine are missing, and what differs. Below that, what to write:
    `Requires-Dist`, tags, the stamp for its guard.

    \b
    Examples:
      abiscan release dist/
      abiscan release dist/ --against previous/
      abiscan release dist/ --write
      abiscan release dist/*.whl --format json --output release.json

    \b
    Exit codes:
      0  no problem at or above --fail-on
      1  at least one problem at or above --fail-on
      2  usage error, or a wheel that cannot be read
      3  it is unknown on which releases of torch a wheel works
    """
    with errors_reported(), show_progress("reading") as progress:
        # Before the first wheel is read: after that, nothing can be made or written elsewhere.
        folder = _folder_next_to(Path(targets[0])) if write else None
        if folder:
            folder.mkdir(exist_ok=True)
            isolation.may_write(folder)
        session = Session.of_user(progress, jobs=jobs)
        report = abiscan.release(targets, against, corrected=folder, session=session)

    def write_text(stream: TextIO) -> None:
        from abiscan.report import release_text

        release_text.render_release(report, make_page(stream), Effect(fail_on))

    write_result(report, form, output, {"text": write_text})
    report_unread(report.unchecked)
    sys.exit(report.exit_code(Effect(fail_on), strict=strict))


def _folder_next_to(dist: Path) -> Path:
    """Return the folder for corrected wheels, which no pattern for those in ``dist`` matches."""
    folder = (dist if dist.is_dir() else dist.parent).absolute()
    return folder.with_name(f"{folder.name}-corrected")
