"""Locks as targets: ``abiscan check uv.lock``, ``abiscan matrix uv.lock``, ``abiscan diff OLD.lock NEW.lock``."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO, TypeVar, cast

import click
from msgspec import Struct

from abiscan.cli.common import errors_reported, make_console, show_progress, write_result
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.kinds import is_lock_name
from abiscan.inputs.session import Session

if TYPE_CHECKING:
    from abiscan.index.client import System
    from abiscan.locks.model import Lock, ProjectPart

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FORMATS: Final = ("text", "json", "markdown")


class LockOptions(Struct, frozen=True, kw_only=True):
    """Which part of a project is asked for, and for which environments, in the words of uv."""

    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    no_dev: bool = False
    pythons: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()

    @property
    def selection(self) -> ProjectPart:
        """What of the project is asked for."""
        from abiscan.locks.model import ProjectPart

        return ProjectPart(extras=self.extras, groups=self.groups, dev=not self.no_dev)

    def systems_of(self, lock: Lock) -> tuple[System, ...]:
        """Return the environments that are asked for.

        :raises InputError: the lock is for none of them
        """
        from abiscan.environments.locked import list_systems
        from abiscan.locks.platform_names import platform_tag_of, python_of

        pythons, platforms = list(map(python_of, self.pythons)), list(map(platform_tag_of, self.platforms))
        return list_systems(lock, pythons, platforms, self.selection)


def lock_options(command: _Command) -> _Command:
    """Return the options for locks: parameter ``lock_choice``."""

    @functools.wraps(command)
    def call(
        *words: Any,
        extra: tuple[str, ...],
        group: tuple[str, ...],
        no_dev: bool,
        python_version: tuple[str, ...],
        python_platform: tuple[str, ...],
        **parameters: Any,
    ) -> Any:
        choice = LockOptions(
            extras=extra, groups=group, no_dev=no_dev, pythons=python_version, platforms=python_platform
        )
        return command(*words, lock_choice=choice, **parameters)

    options = (
        click.option("--extra", multiple=True, metavar="EXTRA", help="Of a lock: include this extra (repeatable)."),
        click.option("--group", multiple=True, metavar="GROUP", help="Of a lock: include this group (repeatable)."),
        click.option("--no-dev", is_flag=True, help="Of a lock: leave out the groups that are installed by default."),
        click.option(
            "--python-version",
            multiple=True,
            metavar="VERSION",
            help="Of a lock: this Python, such as 3.12 (repeatable). Default: all that it is for.",
        ),
        click.option(
            "--python-platform",
            multiple=True,
            metavar="PLATFORM",
            help="Of a lock: this platform, such as linux, aarch64-unknown-linux-gnu, macos or windows (repeatable). "
            "Default: this one.",
        ),
    )
    for option in reversed(options):
        call = option(call)
    return cast("_Command", call)


def find_lock(targets: Sequence[str], choice: LockOptions) -> Path | None:
    """Return the lock that a command is about, None if its targets are something else.

    :raises click.UsageError: there is something beside the lock, or an option for locks and no lock
    """
    locks = [target for target in targets if is_lock_name(target)]
    if not locks:
        if choice != LockOptions():
            raise click.UsageError(
                "--extra, --group, --no-dev, --python-version and --python-platform are for locks, such as uv.lock"
            )
        return None
    if len(targets) > 1:
        raise click.UsageError(f"{locks[0]} is a lock, which is checked by itself")
    return Path(locks[0])


def check_lock_file(
    path: Path,
    choice: LockOptions,
    *,
    index: IndexOptions,
    form: str,
    output: Path | None,
    jobs: int,
    hardware: tuple[Sequence[str], str | None, Sequence[str], str | None],
    strict: bool,
) -> NoReturn:
    """Run ``check`` for a lock, and exit.

    :param hardware: the GPUs, their driver, the processors and the system that it is checked for
    """
    _require_format(form, _FORMATS)
    with errors_reported(), show_progress("reading the lock") as progress:
        from abiscan.environments.locked import check_lock
        from abiscan.locks.reading import read_lock
        from abiscan.verdict.hardware import hardware_of

        lock = read_lock(path)
        session = Session.of_user(progress, jobs=jobs, index=index, cpus=tuple(hardware[2]))
        asked = hardware_of(*hardware) if any(hardware) else None
        report = check_lock(lock, choice.systems_of(lock), choice.selection, session, asked)

    def write_text(stream: TextIO) -> None:
        from abiscan.report import lock_text

        lock_text.render_lock(report, make_console(stream))

    def write_markdown(stream: TextIO) -> None:
        from abiscan.report import lock_markdown

        stream.write(lock_markdown.render_lock_markdown(report))

    write_result(report, form, output, {"text": write_text, "markdown": write_markdown})
    code = report.exit_code
    sys.exit(1 if strict and code == 3 else code)


def compare_lock_files(
    old: Path, new: Path, choice: LockOptions, *, index: IndexOptions, form: str, output: Path | None
) -> NoReturn:
    """Run ``diff`` for two locks, and exit."""
    with errors_reported(), show_progress("reading the locks") as progress:
        from abiscan.environments.lock_comparison import compare_locks
        from abiscan.inputs.system import count_processors
        from abiscan.locks.reading import read_lock

        locks = read_lock(old), read_lock(new)
        session = Session.of_user(progress, jobs=count_processors(), index=index)
        comparison = compare_locks(*locks, choice.systems_of(locks[1]), choice.selection, session)

    def write_text(stream: TextIO) -> None:
        from abiscan.report import lock_text

        lock_text.render_comparison(comparison, make_console(stream))

    def write_markdown(stream: TextIO) -> None:
        from abiscan.report import lock_markdown

        stream.write(lock_markdown.render_comparison_markdown(comparison))

    write_result(comparison, form, output, {"text": write_text, "markdown": write_markdown})
    sys.exit(comparison.exit_code)


def _require_format(form: str, formats: Sequence[str]) -> None:
    if form not in formats:
        raise click.UsageError(f"--format {form} is not for locks; choose {', '.join(formats)}")
