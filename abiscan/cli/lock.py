"""Locks as targets: ``abiscan check uv.lock``, ``matrix uv.lock``, ``fit uv.lock``, ``diff OLD.lock NEW.lock``."""

from __future__ import annotations

import functools
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO, TypeVar, cast

import click
import msgspec.structs
from msgspec import Struct

from abiscan.cli.common import errors_reported, make_console, show_progress, write_result
from abiscan.cli.options import refuse_both
from abiscan.cli.process import print_notice
from abiscan.errors import InputError
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.kinds import is_lock_name
from abiscan.inputs.session import Session

if TYPE_CHECKING:
    from abiscan.cli.common import View
    from abiscan.gpu.devices import Hardware
    from abiscan.index.system import System
    from abiscan.inputs.sources import Source
    from abiscan.locks.model import Lock, ProjectPart
    from abiscan.results.lock import LockComparison, LockReport

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FORMATS: Final = ("text", "json", "markdown")


class LockOptions(Struct, frozen=True, kw_only=True):
    """Which part of a project is asked for, and for which environments, in the words of uv.

    ``base`` is the commit whose lock it is compared with, None for no comparison.
    """

    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    no_dev: bool = False
    pythons: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    base: str | None = None

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


def part_options(command: _Command) -> _Command:
    """Return the options for a part of a project: parameter ``lock_choice``."""

    @functools.wraps(command)
    def call(*words: Any, extra: tuple[str, ...], group: tuple[str, ...], no_dev: bool, **parameters: Any) -> Any:
        return command(*words, lock_choice=LockOptions(extras=extra, groups=group, no_dev=no_dev), **parameters)

    options = (
        click.option("--extra", multiple=True, metavar="EXTRA", help="Of a lock: include this extra (repeatable)."),
        click.option("--group", multiple=True, metavar="GROUP", help="Of a lock: include this group (repeatable)."),
        click.option("--no-dev", is_flag=True, help="Of a lock: leave out the groups that are installed by default."),
    )
    for option in reversed(options):
        call = option(call)
    return cast("_Command", call)


def lock_options(command: _Command) -> _Command:
    """Return the options for locks: parameter ``lock_choice``."""

    @functools.wraps(command)
    def call(
        *words: Any,
        lock_choice: LockOptions,
        python_version: tuple[str, ...],
        python_platform: tuple[str, ...],
        **parameters: Any,
    ) -> Any:
        choice = msgspec.structs.replace(lock_choice, pythons=python_version, platforms=python_platform)
        return command(*words, lock_choice=choice, **parameters)

    options = (
        part_options,
        click.option(
            "--python-version",
            multiple=True,
            metavar="VERSION",
            help="Of a lock: this Python, such as 3.12 (repeatable). Default: all that the lock is for.",
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


def base_option(command: _Command) -> _Command:
    """Return ``--base COMMIT``: parameter ``base``."""
    return click.option(
        "--base",
        metavar="COMMIT",
        help="Of a lock: show what becomes better and worse since this commit: origin/main. Only the latter fails.",
    )(command)


def find_locks(targets: Sequence[str], choice: LockOptions) -> tuple[Path, ...]:
    """Return the locks that a command is about, none if its targets are something else.

    :raises click.UsageError: there is something besides locks, or an option for locks and no lock
    """
    locks = [target for target in targets if is_lock_name(target)]
    if not locks and choice != LockOptions():
        raise click.UsageError(
            "--extra, --group, --no-dev, --python-version, --python-platform and --base are for locks, such as uv.lock"
        )
    if locks and len(targets) > len(locks):
        raise click.UsageError(f"{locks[0]} is a lock, which is not checked together with other targets")
    return tuple(map(Path, locks))


def check_lock_files(
    paths: Sequence[Path],
    choice: LockOptions,
    *,
    index: IndexOptions,
    form: str,
    output: Path | None,
    reports: Sequence[tuple[str, Path]],
    jobs: int,
    hardware: tuple[Sequence[str], str | None, Sequence[str], str | None],
    strict: bool,
    meaningless: Mapping[str, object],
) -> NoReturn:
    """Run ``check`` for locks, and exit.

    :param reports: further formats, and their files
    :param hardware: the GPUs, their driver, the processors and the system that they are checked for
    :param meaningless: the options that mean nothing for a lock, and what was given
    """
    for option, value in meaningless.items():
        refuse_both(str(paths[0]), paths, option, value)
    formats = (*_FORMATS, "github") if choice.base is not None else _FORMATS
    for asked in (form, *(pair[0] for pair in reports)):
        if asked not in formats:
            raise click.UsageError(f"--format {asked} is not for locks; choose {', '.join(formats)}")
    if len(paths) > 1 and (form == "json" or output is not None or reports):
        raise click.UsageError("a report to a file, and --format json, are for one lock at a time")
    codes = []
    for path in paths:
        with errors_reported(), show_progress("reading the lock") as progress:
            from abiscan.verdict.hardware import hardware_of

            session = Session.of_user(progress, jobs=jobs, index=index, cpus=tuple(hardware[2]))
            asked_for = hardware_of(*hardware) if any(hardware) else None
            report = _examine(path, choice, session, asked_for)
        for report_form, file in ((form, output), *reports):
            write_result(report, report_form, file, _views_of(report))
        codes.append(report.exit_code)
    code = next((code for code in (1, 3) if code in codes), 0)
    sys.exit(1 if strict and code == 3 else code)


def _examine(
    path: Path, choice: LockOptions, session: Session, hardware: Hardware | None
) -> LockReport | LockComparison:
    from abiscan.environments.locked import check_lock
    from abiscan.locks.reading import read_lock

    lock = read_lock(path)
    systems = choice.systems_of(lock)
    if choice.base is None:
        return check_lock(lock, systems, choice.selection, session, hardware)
    from abiscan.environments.lock_comparison import compare_locks
    from abiscan.inputs.committed import read_committed
    from abiscan.locks.listed import ListedLock

    with tempfile.TemporaryDirectory(prefix="abiscan-") as folder:
        old: Lock = ListedLock(path=Path(folder, path.name), entries=())
        # The groups that uv installs by default are in the other file.
        for name in (path.name, "pyproject.toml"):
            content = read_committed(path.with_name(name), choice.base)
            if content is not None:
                Path(folder, name).write_bytes(content)
        if old.path.is_file():
            old = read_lock(old.path)
        comparison = compare_locks(old, lock, systems, choice.selection, session, hardware)
    return msgspec.structs.replace(comparison, old=f"{choice.base}:{path}")


def _views_of(report: LockReport | LockComparison) -> dict[str, View]:
    from abiscan.report import github, lock_markdown, lock_text
    from abiscan.results.lock import LockComparison

    if isinstance(report, LockComparison):
        return {
            "text": lambda stream: lock_text.render_comparison(report, make_console(stream)),
            "markdown": lambda stream: _write(stream, lock_markdown.render_comparison_markdown(report)),
            "github": lambda stream: _write(stream, github.render_lock_annotations(report)),
        }
    return {
        "text": lambda stream: lock_text.render_lock(report, make_console(stream)),
        "markdown": lambda stream: _write(stream, lock_markdown.render_lock_markdown(report)),
    }


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)


def list_locked(paths: Sequence[Path], choice: LockOptions, session: Session) -> list[Source]:
    """Return the files of what uses torch and has libraries, in the first environment of each lock.

    :raises AbiscanError: a lock, or what it names, cannot be read
    """
    from abiscan.environments.lock_store import LockStore
    from abiscan.environments.locked import make_environment
    from abiscan.locks.reading import read_lock

    store = LockStore(session)
    sources: list[Source] = []
    for path in paths:
        lock = read_lock(path)
        environment = make_environment(lock, choice.systems_of(lock)[0], choice.selection, store, session)
        sources += (source for name, source in environment.sources.items() if environment.has_libraries(name))
    return sources


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

    write_result(comparison, form, output, _views_of(comparison))
    sys.exit(comparison.exit_code)


def fit_lock_file(
    path: Path,
    choice: LockOptions,
    *,
    torch: str | None,
    cpus: tuple[str, ...],
    index: IndexOptions,
    form: str,
    output: Path | None,
) -> NoReturn:
    """Run ``fit`` for a lock, and exit."""
    with errors_reported(), show_progress("reading the lock") as progress:
        from abiscan.hooks.lock_fitting import fit_lock
        from abiscan.inputs.system import count_processors
        from abiscan.locks.reading import read_lock
        from abiscan.report import lock_text
        from abiscan.torches.torch import ReleaseNumber, torch_choice

        lock = read_lock(path)
        session = Session.of_user(progress, jobs=count_processors(), index=index, cpus=cpus)
        release = torch_choice(torch) if torch is not None else None
        if release is not None and not isinstance(release, ReleaseNumber):
            raise InputError(str(torch), "is no release of torch, which a lock could have", "pass one such as 2.9.1")
        number = release.number if release else None
        result = fit_lock(lock, choice.systems_of(lock), choice.selection, number, session)

    if form == "requirements" and result.obstacle is not None:
        print_notice(f"abiscan: {result.obstacle}")
        sys.exit(result.exit_code)  # and the file stays as it was
    views: dict[str, View] = {
        "text": lambda stream: lock_text.render_fit(result, make_console(stream)),
        "requirements": lambda stream: _write(stream, result.to_requirements()),
    }
    write_result(result, form, output, views)
    sys.exit(result.exit_code)
