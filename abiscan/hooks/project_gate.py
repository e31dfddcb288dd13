"""Whether a command of a project's tool may go ahead, in lines for the user."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from packaging.utils import canonicalize_name

from abiscan.environments.lock_comparison import compare_locks
from abiscan.environments.locked import list_systems
from abiscan.errors import InputError, UnclearPlanError, UnreachableError
from abiscan.hooks.lock_fitting import list_proposals
from abiscan.hooks.project_copy import ProjectCopy
from abiscan.hooks.project_tool import ProjectCommand, ProjectTool, find_root
from abiscan.hooks.project_tools import UV
from abiscan.hooks.uv import Uv
from abiscan.index.system import System
from abiscan.inputs import interpreter, observed_fs, packages
from abiscan.inputs.session import Session
from abiscan.locks.listed import ListedLock
from abiscan.locks.model import Lock, ProjectPart
from abiscan.locks.reading import read_lock
from abiscan.report.lock_text import change_sentence
from abiscan.results.lock import LockComparison, OutcomeChange
from abiscan.words import first_line, listed


class ProjectCheck(Struct, frozen=True, kw_only=True):
    """Messages for the user, one line each: ``problems`` prevent the command, ``notes`` do not."""

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Plan(Struct, frozen=True, kw_only=True):
    """What a command would make of a project: its lock before and after, and the environments that count."""

    tool: ProjectTool
    command: ProjectCommand
    copy: ProjectCopy
    old: Lock
    new: Lock
    part: ProjectPart
    systems: tuple[System, ...]


def check_project(tool: ProjectTool, command: ProjectCommand, session: Session) -> ProjectCheck:
    """Check what a command would make of a project, before it does it.

    :raises InstallerError: the tool itself fails
    :raises UnclearPlanError: it is not clear what it would do
    :raises AbiscanError: a lock, or what it names, cannot be read
    """
    root = find_root(tool, command.folder)
    if root is None or command.harmless:  # the tool says what is wrong; nothing is installed
        return ProjectCheck()
    with tempfile.TemporaryDirectory(prefix="abiscan-") as folder:
        session.progress("locking a copy of the project")
        try:
            copy = ProjectCopy(tool, root, Path(folder))
        except OSError as error:
            problem = f"cannot be copied, so that it could be locked: {error.filename}: {error.strerror}"
            raise UnclearPlanError(str(root), problem) from error
        if not command.frozen:
            copy.run(command)
        if not observed_fs.is_file(copy.lock):
            return ProjectCheck()
        new = read_lock(copy.lock)
        there = root / tool.lock
        old: Lock = read_lock(there) if observed_fs.is_file(there) else ListedLock(path=there, entries=())
        python = copy.find_python(command)
        part = part_of_project(command, new)
        systems = _systems_of(new, python, part)
        plan = _Plan(tool=tool, command=command, copy=copy, old=old, new=new, part=part, systems=systems)
        # What was broken before is no fault of a lock; but nobody installs it anew.
        installed = _installed(root, python, tool) if command.kind.installs else None
        return _check_plan(plan, installed, session)


def _check_plan(plan: _Plan, installed: dict[str, str] | None, session: Session) -> ProjectCheck:
    comparison = compare_locks(plan.old, plan.new, plan.systems, plan.part, session)
    worse = [*comparison.worse]
    worse += [item for item in comparison.still if installed is not None and _is_new(item, installed)]
    notes = [f"not known: {change_sentence(item, comparison)}: {item.error}" for item in comparison.unknown]
    notes += [
        f"{change_sentence(item, comparison)}, as before: see abiscan check {plan.tool.lock}"
        for item in comparison.still
        if item not in worse
    ]
    problems: list[str] = []
    if worse:
        problems += _explain(worse, comparison)
        try:
            problems.append(_way_out(worse, plan, session))
        except UnreachableError as error:
            problems.append(f"did not look for versions that work: {error.subject}: {error.problem}")
    return ProjectCheck(problems=tuple(problems), notes=tuple(map(first_line, notes)))


def part_of_project(command: ProjectCommand, lock: Lock) -> ProjectPart:
    """Return what of the project is installed; more than that, where an option takes something away."""
    extras = lock.extras if command.all_extras else tuple(name for name in command.extras if name in lock.extras)
    asked = {*command.groups, *command.only}
    if command.without:
        asked |= {name for name in lock.defaults if name not in command.without}
    groups = lock.groups if command.all_groups else tuple(name for name in lock.groups if name in asked)
    return ProjectPart(extras=extras, groups=groups, dev=command.dev and not command.without and not command.only)


def _systems_of(lock: Lock, python: str | None, part: ProjectPart) -> tuple[System, ...]:
    if python is not None:
        try:
            tag = interpreter.ask_interpreter(python)[0].tag
            system = System.of((tag.major, tag.minor))
            if lock.admits(system):
                return (system,)
        except InputError:  # the tool will say so
            pass
    return list_systems(lock, [], [], part)


def _installed(root: Path, python: str | None, tool: ProjectTool) -> dict[str, str]:
    """Return the versions that are installed in the environment of a project."""
    if tool.environment is not None:
        place = root / (observed_fs.read_variable(f"{tool.program.upper()}_PROJECT_ENVIRONMENT") or tool.environment)
    elif python is not None:
        place = Path(python).parent.parent
    else:
        return {}
    sites = sorted((place / "lib").glob("python3*/site-packages"))
    return {canonicalize_name(item.name): item.version for item in packages.list_installed(list(map(str, sites)))}


def _is_new(change: OutcomeChange, installed: dict[str, str]) -> bool:
    return installed.get(change.name) != change.version


def _explain(worse: Sequence[OutcomeChange], comparison: LockComparison) -> Iterator[str]:
    for item in worse:
        because = f"because of {item.cause}: " if item.cause else ""
        error = f": {because}{first_line(item.error)}" if item.error else ""
        yield f"{change_sentence(item, comparison)}{error}"


def _way_out(worse: Sequence[OutcomeChange], plan: _Plan, session: Session) -> str:
    """Return the smallest change after which nothing is worse, in the words of the tool: it was locked and examined."""
    names = [item.name for item in worse if item.cause is None and item.after is not None]
    resolving = plan.command.resolving
    options = Uv().index_options(list(resolving)) if plan.tool is UV else []
    for proposal in list_proposals(names, plan.new, plan.systems[0], plan.part, options, session, before=plan.old):
        pins, of_index = proposal.pins, proposal.of_index
        session.progress(f"trying {plan.tool.format_addition(pins, of_index=of_index)}")
        if plan.copy.add(pins, resolving, of_index=of_index):
            comparison = compare_locks(plan.old, read_lock(plan.copy.lock), plan.systems, plan.part, session)
            if not comparison.worse and not any(item.name in names for item in comparison.still):
                return f"this works: {plan.tool.format_addition(pins, of_index=of_index)}"
    return f"found no versions on the index that work together: looked for {listed(names)}"
