"""Whether a command of uv for a project may go ahead, in lines for the user."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec.structs
from msgspec import Struct
from packaging.utils import canonicalize_name

from abiscan.environments.lock_comparison import compare_locks
from abiscan.environments.locked import find_build, list_systems
from abiscan.errors import InputError, UnclearPlanError, UnreachableError
from abiscan.hooks.fitting import newest_fitting
from abiscan.hooks.uv import Uv
from abiscan.hooks.uv_project import LOCK, ProjectCopy, UvCommand, find_root
from abiscan.index.client import System
from abiscan.inputs import interpreter, observed_fs, packages
from abiscan.inputs.session import Session
from abiscan.locks.listed import ListedLock
from abiscan.locks.model import Lock, ProjectPart
from abiscan.locks.uv_lock import UvLock
from abiscan.report.lock_text import change_sentence
from abiscan.results.lock import LockComparison, OutcomeChange
from abiscan.torches.torch import ReleaseNumber
from abiscan.words import first_line, listed


class ProjectCheck(Struct, frozen=True, kw_only=True):
    """Messages for the user, one line each: ``problems`` prevent the command, ``notes`` do not."""

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_project(uv: Uv, command: UvCommand, session: Session) -> ProjectCheck:
    """Check what a command would make of a project, before it does it.

    :raises InstallerError: uv itself fails
    :raises UnclearPlanError: it is not clear what uv would do
    :raises AbiscanError: a lock, or what it names, cannot be read
    """
    root = find_root(command.folder)
    if root is None or command.harmless:  # uv says what is wrong; nothing is installed
        return ProjectCheck()
    with tempfile.TemporaryDirectory(prefix="abiscan-") as folder:
        session.progress("locking a copy of the project")
        try:
            copy = ProjectCopy(root, Path(folder), uv.executable)
        except OSError as error:
            problem = f"cannot be copied, so that it could be locked: {error.filename}: {error.strerror}"
            raise UnclearPlanError(str(root), problem) from error
        if not command.frozen:
            copy.run(command)
        if not observed_fs.is_file(copy.lock):
            return ProjectCheck()
        new = UvLock.read(copy.lock)
        there = root / LOCK
        old: Lock = UvLock.read(there) if observed_fs.is_file(there) else ListedLock(path=there, entries=())
        part = _part_of(command, new)
        python = copy.find_python(command)
        systems = _systems_of(new, python, part)
        comparison = compare_locks(old, new, systems, part, session)
        worse = [*comparison.worse]
        # What was broken before is no fault of a lock; but nobody installs it anew.
        installed = _installed(root) if command.name in ("sync", "run") else None
        worse += [item for item in comparison.still if installed is not None and _is_new(item, installed)]
        notes = [f"not known: {change_sentence(item, comparison)}: {item.error}" for item in comparison.unknown]
        notes += [
            f"{change_sentence(item, comparison)}, as before: see abiscan check {LOCK}"
            for item in comparison.still
            if item not in worse
        ]
        if not worse:
            return ProjectCheck(notes=tuple(map(first_line, notes)))
        problems = [*_explain(worse, comparison)]
        try:
            problems += _way_out(worse, copy, old, new, systems, part, python, command, uv, session)
        except UnreachableError as error:
            problems.append(f"did not look for versions that work: {error.subject}: {error.problem}")
        return ProjectCheck(problems=tuple(problems), notes=tuple(map(first_line, notes)))


def _part_of(command: UvCommand, lock: UvLock) -> ProjectPart:
    """Return what of the project is installed; more than that, where an option takes something away."""
    extras = lock.extras if command.all_extras else tuple(name for name in command.part.extras if name in lock.extras)
    groups = lock.groups if command.all_groups else tuple(name for name in command.part.groups if name in lock.groups)
    return msgspec.structs.replace(command.part, extras=extras, groups=groups)


def _systems_of(lock: UvLock, python: str | None, part: ProjectPart) -> tuple[System, ...]:
    if python is not None:
        try:
            tag = interpreter.ask_interpreter(python)[0].tag
            system = System.of((tag.major, tag.minor))
            if lock.admits(system):
                return (system,)
        except InputError:  # uv will say so
            pass
    return list_systems(lock, [], [], part)


def _installed(root: Path) -> dict[str, str]:
    """Return the versions that are installed in the environment of a project."""
    place = observed_fs.read_variable("UV_PROJECT_ENVIRONMENT") or ".venv"
    sites = sorted((root / place / "lib").glob("python3*/site-packages"))
    return {canonicalize_name(item.name): item.version for item in packages.list_installed(list(map(str, sites)))}


def _is_new(change: OutcomeChange, installed: dict[str, str]) -> bool:
    return installed.get(change.name) != change.version


def _explain(worse: Sequence[OutcomeChange], comparison: LockComparison) -> Iterator[str]:
    for item in worse:
        because = f"because of {item.cause}: " if item.cause else ""
        error = f": {because}{first_line(item.error)}" if item.error else ""
        yield f"{change_sentence(item, comparison)}{error}"


def _index_options(lock: UvLock) -> Iterator[str]:
    """Yield where the packages of a lock come from, as pip spells it: indexes, and folders of wheels."""
    urls = [place for place in lock.registries if "://" in place]
    for option, url in zip(("--index-url", *["--extra-index-url"] * len(urls)), urls, strict=False):
        yield from (option, url)
    if not urls:
        yield "--no-index"
    for place in lock.registries:
        if place not in urls:
            yield from ("--find-links", str(lock.path.parent / place))


def _way_out(
    worse: Sequence[OutcomeChange],
    copy: ProjectCopy,
    old: Lock,
    new: UvLock,
    systems: Sequence[System],
    part: ProjectPart,
    python: str | None,
    command: UvCommand,
    uv: Uv,
    session: Session,
) -> Iterator[str]:
    """Yield the smallest change after which nothing is worse, in the words of uv: it was locked and examined."""
    names = [item.name for item in worse if item.cause is None and item.after is not None]
    locked = {item.name: item for item in new.select(systems[0], part)}
    build = find_build(locked["torch"], locked, systems[0]) if "torch" in locked else None
    proposals: list[list[str]] = []
    if names and build is not None:
        session.progress(f"looking for versions of {listed(names)} that work with torch {build}")
        options = [*_index_options(new), *uv.index_options(list(command.resolving))]
        fitting = newest_fitting(names, ReleaseNumber(build), python, options, session)
        proposals += [[f"{name}=={version}" for name, version in fitting.items()]] if fitting else []
    before = next((item.version for item in old.select(systems[0], ProjectPart()) if item.name == "torch"), None)
    if before is not None and before != locked["torch"].version:
        proposals.append([f"torch=={before}"])
    for pins in proposals:
        session.progress(f"trying uv add {' '.join(pins)}")
        if copy.add(pins, command.resolving):
            comparison = compare_locks(old, UvLock.read(copy.lock), systems, part, session)
            if not comparison.worse and not any(item.name in names for item in comparison.still):
                yield "this works: uv add " + " ".join(f"'{pin}'" for pin in pins)
                return
    yield f"found no versions on the index that work together: looked for {listed(names)}"
