"""``abiscan fit``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final, TextIO

import click
import msgspec.structs

import abiscan
from abiscan.cli.common import errors_reported, make_table_console, show_progress, write_result
from abiscan.cli.lock import LockOptions, find_locks, fit_lock_file, part_options
from abiscan.cli.options import (
    cpu_option,
    index_options,
    python_option,
    refuse_both,
    report_options,
    system_option,
    torch_option,
    verbose_option,
)
from abiscan.cli.process import print_notice
from abiscan.cli.reporting import ReportingCommand
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.session import Session

_PLATFORM: Final = re.compile(
    r"(manylinux(1|2010|2014|_\d+_\d+)|musllinux_\d+_\d+|linux|macosx_\d+_\d+)_[a-z0-9_]+|win32|win_(amd64|arm64)"
)


def _find_platform(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _PLATFORM.fullmatch(value):
        expected = "manylinux_2_28_x86_64, macosx_14_0_arm64 or win_amd64"
        raise click.BadParameter(f"{value!r} is not the tag of a platform, such as {expected}", ctx, param)
    return value


def _python_version(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    match = re.fullmatch(r"3\.(\d{1,2})", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a version such as 3.12", ctx, param)
    return 3, int(match[1])


@click.command(cls=ReportingCommand)
@click.argument("requirements", nargs=-1, metavar="PACKAGE...")
@click.option(
    "-r",
    "--requirement",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Also find versions of the packages in this requirements file (repeatable).",
)
@torch_option(
    "The torch that the packages have to work with: a release number, latest, a torch folder or a wheel; of a version "
    "specifier ('>=2.7'), the newest release that all packages have a version for. Default: the torch of the current "
    "environment; without one, any release."
)
@python_option("Use the torch, the version and the pip settings of this Python.")
@click.option("--python-version", metavar="X.Y", callback=_python_version, help="Look for wheels for this Python.")
@click.option(
    "--platform",
    metavar="TAG",
    callback=_find_platform,
    help="Look for wheels for this platform: manylinux_2_28_aarch64.",
)
@click.option("--cuda", metavar="X.Y", help="The CUDA of the build of torch, for a release number: 12.6, or cpu.")
@cpu_option
@system_option
@index_options
@click.option("--offline", is_flag=True, help="Use only pages and wheels that are in the cache.")
@report_options("text", "json", "requirements")
@part_options
@verbose_option("Show the newer versions in a table, with the reason why each does not work.")
def fit(
    *,
    requirements: tuple[str, ...],
    files: tuple[Path, ...],
    torch: str | None,
    python: str | None,
    python_version: tuple[int, int] | None,
    platform: str | None,
    cuda: str | None,
    cpus: tuple[str, ...],
    system: str | None,
    index: IndexOptions,
    offline: bool,
    form: str,
    output: Path | None,
    lock_choice: LockOptions,
    verbose: bool,
) -> None:
    """Find the newest versions of packages that work with a torch.

    They also work with each other. PACKAGE is a name or a requirement: torchaudio, 'xformers>=0.0.30'. The versions
    come from the indexes that pip is configured for. Those that the metadata exclude are left out; of the others, the
    wheels are read in place, as far as needed, until one works. The first package's newest version counts most, then
    that of the second, and so on.

    For a lock, such as uv.lock, it finds the smallest change after which everything in it that uses torch works: other
    versions of what does not work, or another torch. It prints the command of the tool that writes the lock.

    \b
    Examples:
      abiscan fit torchaudio
      abiscan fit torchvision torchaudio xformers --torch 2.9.1
      abiscan fit torchvision torchaudio --torch '>=2.6'
      abiscan fit torchaudio --torch 2.7.1 --python-version 3.12 --platform manylinux_2_28_aarch64
      abiscan fit flash-attn --torch 2.8.0 --no-index --find-links https://example.org/flash_attn.html
      abiscan fit torchvision --torch 2.9.1 --cpu x86-64-v2
      abiscan fit torchaudio --torch 2.9.1 --system debian11
      abiscan fit -r requirements.txt --format requirements --output pins.txt
      abiscan fit uv.lock

    \b
    Exit codes:
      0  found, or nothing in the lock has to change
      1  no versions work together
      2  usage error, or an index or a wheel that cannot be read
    """
    if not requirements and not files:
        raise click.UsageError("name a package, or a file of requirements with -r")
    refuse_both("--cuda", cuda, "--python", python)
    if locks := find_locks(requirements, lock_choice):
        if len(locks) > 1:
            raise click.UsageError("only one lock at a time can be changed")
        meaningless = {"-r": files, "--python": python, "--cuda": cuda, "--system": system, "--offline": offline}
        for option, value in meaningless.items():
            refuse_both(str(locks[0]), locks, option, value)
        versions = (".".join(map(str, python_version)),) if python_version else ()
        fit_lock_file(
            locks[0],
            msgspec.structs.replace(lock_choice, pythons=versions, platforms=(platform,) if platform else ()),
            torch=torch,
            cpus=cpus,
            index=index,
            form=form,
            output=output,
        )
    with errors_reported(), show_progress("reading the index") as progress:
        if cpus or system is not None:
            from abiscan.verdict.hardware import cpu_question, hardware_of

            cpu_question(cpus)  # this processor can be read only before the targets are
            hardware_of((), None, (), system)  # a system that is not known is an error at once
        result = abiscan.fit(
            requirements,
            torch,
            files=files,
            python=python,
            python_version=python_version,
            platform=platform,
            cuda=cuda,
            index_url=index.index_url,
            extra_index_urls=index.extra_index_urls,
            find_links=index.find_links,
            no_index=index.no_index,
            offline=offline,
            session=Session.of_user(progress, cpus=cpus, system=system),
        )

    def write_text(stream: TextIO) -> None:
        from abiscan.report import fit_text

        fit_text.render_fit(result, make_table_console(stream), verbose=verbose)

    # Without an answer there is no file of pins: an empty one would install nothing without an error.
    def write_pins(stream: TextIO) -> None:
        stream.write(result.to_requirements())

    if form == "requirements" and result.obstacle is not None:
        print_notice(f"abiscan: {result.obstacle}")
        if result.torch_instead:
            print_notice(f"abiscan: torch {result.torch_instead} would work")
        sys.exit(result.exit_code)  # and the file stays as it was
    write_result(result, form, output, {"text": write_text, "requirements": write_pins})
    if form != "json":
        print_notice(f"{result.bytes_read / 1e6:.1f} MB read")
    sys.exit(result.exit_code)
