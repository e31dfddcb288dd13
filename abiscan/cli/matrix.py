"""``abiscan matrix``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn, TextIO

import click

import abiscan
from abiscan.cli.common import (
    errors_reported,
    explain_strict,
    make_console,
    make_page,
    report_unread,
    show_progress,
    write_result,
)
from abiscan.cli.lock import LockOptions, find_locks, list_locked, lock_options
from abiscan.cli.options import (
    cpu_option,
    each_file_option,
    fail_options,
    gpu_options,
    index_options,
    jobs_option,
    python_option,
    report_options,
    system_option,
    torches_option,
    verbose_option,
)
from abiscan.cli.process import print_notice
from abiscan.cli.reporting import ReportingCommand
from abiscan.findings import Effect
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.session import Session


@click.command(cls=ReportingCommand)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@torches_option(
    "torches",
    "A torch to check on (repeatable): a release number, a version specifier ('>=2.4,<2.7'), a folder or a wheel. "
    "Default: all embedded releases.",
)
@python_option("Look up installed packages in this Python.")
@index_options
@click.option(
    "--versions",
    metavar="SPEC",
    help="TARGET is the name of a package: check these of its versions ('>=0.20', all) on each release.",
)
@report_options("text", "json", "html", "markdown")
@fail_options("Exit with 1 if any finding has this effect or a worse one.")
@click.option("--gpus", "shows_gpus", is_flag=True, help="Also show which GPUs the extension has code for.")
@gpu_options
@cpu_option
@system_option
@each_file_option
@lock_options
@jobs_option("The number of processes that share the targets, or the extensions and torches of a single one.")
@verbose_option("Show why it fails, and every clue to the torch it was built for.")
def matrix(
    *,
    targets: tuple[str, ...],
    torches: tuple[str, ...],
    versions: str | None,
    python: str | None,
    index: IndexOptions,
    form: str,
    output: Path | None,
    fail_on: str,
    strict: bool,
    shows_gpus: bool,
    gpus: tuple[str, ...],
    driver: str | None,
    cpus: tuple[str, ...],
    system: str | None,
    each_file: bool,
    lock_choice: LockOptions,
    jobs: int,
    verbose: bool,
) -> None:
    """Show which torch releases an extension works on.

    TARGET is a shared object, a program, a wheel, a folder, NAME==VERSION, the name of an installed package, or a lock:
    what uses torch in it. Each extension in it is checked on each release, as by `abiscan check`. Also shows which
    torch it was built for, and what to require.

    \b
    Examples:
      abiscan matrix torchvision-0.20.1-cp311-cp311-manylinux1_x86_64.whl
      abiscan matrix _C.so -v
      abiscan matrix dist/*.whl --torch 2.8.0 --torch 2.9.1
      abiscan matrix _C.so --torch 2.9.1 --gpus
      abiscan matrix dist/*.whl --format html --output matrix.html
      abiscan matrix torchaudio --versions '>=2.6' --format markdown
      abiscan matrix uv.lock --python-version 3.12 --torch '>=2.9'

    \b
    Exit codes:
      0  no finding at or above --fail-on on any of the releases
      1  at least one finding at or above --fail-on
      2  usage error, or an input that cannot be read
      3  a verdict is unknown
    """
    if versions is not None:
        if len(targets) > 1:
            raise click.UsageError("--versions takes the name of one package")
        _show_versions(targets[0], versions, torches, python, index, form, output)
    # ``_show_versions`` does not return, so from here on it is the table of extensions.
    locks = find_locks(targets, lock_choice)
    with errors_reported(), show_progress("checking") as progress:
        session = Session.of_user(progress, jobs=jobs, index=index)
        result = abiscan.matrix(
            list_locked(locks, lock_choice, session) if locks else targets,
            torches,
            python=python,
            # Only the HTML page shows evidence; without it, a cell takes a fraction of the time.
            explained=form == "html",
            each_file=each_file,
            gpus=gpus if gpus or shows_gpus else None,
            driver=driver,
            cpus=cpus,
            system=system,
            session=session,
        )

    def write_text(stream: TextIO) -> None:
        from abiscan.report import matrix_text

        matrix_text.render_matrix(result, make_page(stream), verbose=verbose)

    def write_html(stream: TextIO) -> None:
        from abiscan.report import matrix_html

        stream.write(matrix_html.render_page(result))

    def write_markdown(stream: TextIO) -> None:
        from abiscan.report import matrix_markdown

        stream.write(matrix_markdown.render_matrix(result))

    write_result(result, form, output, {"text": write_text, "html": write_html, "markdown": write_markdown})
    report_unread(result.unchecked)
    if strict:
        cells = (cell for row in result.rows for cell in row.results.values())
        explain_strict(str(gap) for cell in cells for gap in cell.unexpected_gaps)
    sys.exit(result.exit_code(Effect(fail_on), strict=strict))


def _show_versions(
    name: str,
    versions: str,
    torches: tuple[str, ...],
    python: str | None,
    index: IndexOptions,
    form: str,
    output: Path | None,
) -> NoReturn:
    """Show the versions of a package by releases, and exit."""
    with errors_reported(), show_progress("reading the index") as progress:
        session = Session.of_user(progress, index=index)
        table = abiscan.version_table(name, versions, torches, python=python, session=session)
    from abiscan.report import versions_text

    def write_text(stream: TextIO) -> None:
        versions_text.render_table(table, make_console(stream))

    def write_markdown(stream: TextIO) -> None:
        stream.write(versions_text.render_markdown(table))

    def write_html(stream: TextIO) -> None:
        stream.write(versions_text.render_page(table))

    write_result(table, form, output, {"text": write_text, "markdown": write_markdown, "html": write_html})
    if form != "json":
        print_notice(f"{table.bytes_read / 1e6:.1f} MB read")
    sys.exit(table.exit_code)
