"""The way out of a broken environment: for each cause, the smallest change after which it is gone.

What a distribution requires and lacks is installed first, then the build for the torch that is there, then another
version of it, and only then another torch. Each proposal is planned by pip, and the environment that it leads to is
examined before it is shown. Users wait for all of that, so it ends after some seconds; what is left then is named.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

import msgspec.structs
from msgspec import Struct
from packaging.utils import canonicalize_name

from abiscan.environments.package_check import Problem
from abiscan.errors import AbiscanError, InputError
from abiscan.hooks import arguments
from abiscan.hooks.changes import list_changes
from abiscan.hooks.install import Inspector, InstallerError
from abiscan.hooks.pip import Pip
from abiscan.hooks.plan import Plan
from abiscan.hooks.pytorch_index import name_unread_build, options_for, version_of_same_kind
from abiscan.hooks.solution import Solution, Task, solve
from abiscan.inputs.session import Session
from abiscan.results.changes import PackageChange
from abiscan.results.doctor import Remedy

SECONDS: Final = 18
"""How much time of the processor a search may take."""
_WAITING: Final = 5
"""How many times as long it may take, where a machine is busy or an index slow."""
_LARGE: Final = 1 << 30
"""A download of this many bytes is proposed only where nothing smaller helps."""


class OutOfTimeError(AbiscanError):
    """The search has taken as long as it may."""


class Remedies(Struct, frozen=True, kw_only=True):
    """The commands that were found, and what the time was too short for."""

    remedies: tuple[Remedy, ...]
    unfinished: tuple[Problem, ...] = ()


def limit_time(session: Session) -> Session:
    """Return a session for a search: no step of it begins once the time is over, but ``OutOfTimeError`` is raised."""
    begin = _time_taken()

    def announce(step: str) -> None:
        taken = [now - then for then, now in zip(begin, _time_taken(), strict=True)]
        if taken[0] > SECONDS or taken[1] > SECONDS * _WAITING:
            raise OutOfTimeError
        session.progress(step)

    return msgspec.structs.replace(session, progress=announce)


@contextlib.contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    """Raise ``OutOfTimeError`` in what takes more time of the processor, even if it is one step; not on Windows, which
    has no such timer, nor in a thread.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_: int, __: object) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _time_taken() -> tuple[float, float]:
    """Return the time of the processor that this process and those it has started have taken, and that of the clock."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system, time.monotonic()


def find_remedies(
    broken: Sequence[Problem],
    stays: Collection[str],
    torch: str,
    pip: Pip,
    inspector: Inspector,
    session: Session,
) -> Remedies:
    """Find a command for each cause, or one for several that have to change together.

    :param broken: what fails for itself
    :param stays: the distributions that no index is to replace, as ``NAME==VERSION``; what they lack may be installed
    :param torch: the full version of the torch that is there
    :param session: one of ``limit_time``, as that of the inspector is
    """
    search = _Search(broken, stays, torch, pip, inspector, session)
    is_over = False
    try:
        with _interrupted_after(SECONDS):
            search.run()
    except OutOfTimeError:
        is_over = True
    remedies = sorted(search.list_remedies(), key=lambda remedy: (remedy.bytes or 0) >= _LARGE)
    solved = {name for remedy in remedies for name in remedy.remedies}
    left = (problem for problem in search.replaceable if is_over and canonicalize_name(problem.name) not in solved)
    return Remedies(remedies=tuple(remedies), unfinished=tuple(left))


class _Search:
    """A search: what it has come to counts even if it does not end.

    :ivar replaceable: what an index may have another version of
    """

    def __init__(
        self,
        broken: Sequence[Problem],
        stays: Collection[str],
        torch: str,
        pip: Pip,
        inspector: Inspector,
        session: Session,
    ) -> None:
        self._broken = broken
        self._torch = torch
        self._pip = pip
        self._inspector = inspector
        self._session = session
        self._small: list[Remedy] = []
        self._large: list[Remedy] = []
        self.replaceable = [problem for problem in broken if f"{problem.name}=={problem.version}" not in stays]

    def list_remedies(self) -> list[Remedy]:
        """Return what was found: a large download for what nothing smaller helps."""
        helped = {name for remedy in self._small for name in remedy.remedies}
        return [*self._small, *(remedy for remedy in self._large if helped.isdisjoint(remedy.remedies))]

    def run(self) -> None:
        """Look for everything, what is quick to find first.

        :raises OutOfTimeError: before the end
        """
        for problem in self._broken:
            self._try(problem, self._remedies_of_same_kind)
        for problem in self._broken:
            self._try(problem, self._remedies_by_requirements)
        # Versions that work together, with the torch that is there; what has none takes nothing from the others.
        for same_torch in (True, False):
            for problem in self._unsolved_problems():
                self._solve([problem], same_torch=same_torch)
            if len(rest := self._unsolved_problems()) > 1:  # what only changes together
                self._solve(rest, same_torch=same_torch)

    def _unsolved_problems(self) -> list[Problem]:
        helped = {name for remedy in self._small for name in remedy.remedies}
        return [problem for problem in self.replaceable if canonicalize_name(problem.name) not in helped]

    def _try(self, problem: Problem, find: Callable[[Problem], Iterator[Remedy]]) -> None:
        """Look for a remedy until one is no large download."""
        name = canonicalize_name(problem.name)
        if any(name in remedy.remedies for remedy in self._small):
            return
        for remedy in find(problem):
            self._keep(remedy)
            if remedy in self._small:
                return

    def _keep(self, remedy: Remedy) -> None:
        (self._large if (remedy.bytes or 0) >= _LARGE else self._small).append(remedy)

    def _solve(self, group: Sequence[Problem], *, same_torch: bool) -> None:
        task = Task(
            words=self._session.index.words,
            plan=Plan(python=self._pip.python, packages=()),
            broken=group,
            torch=self._torch,
            same_torch=same_torch,
        )
        if (solution := solve(task, self._pip, self._inspector, self._session)) is not None:
            self._keep(_of_solution(solution, task.names, self._pip))

    def _remedies_by_requirements(self, problem: Problem) -> Iterator[Remedy]:
        """Yield the installation of what a distribution requires and lacks, if it works then."""
        missing = [item.requirement for item in problem.unmet if item.there is None]
        other = [item.requirement for item in problem.unmet if item.name != "torch"]
        for requirements in (missing, other) if other != missing else (missing,):
            if requirements:
                yield from self._installed(problem, requirements, self._session.index.words)

    def _remedies_of_same_kind(self, problem: Problem) -> Iterator[Remedy]:
        """Yield the same version, built for the kind of torch that is there, if that is known to be on an index of
        PyTorch's own: the public index has only the build with CUDA. It need not be one that can be read here.
        """
        version = version_of_same_kind(problem, self._torch)
        if version is None:
            return
        name, kind = canonicalize_name(problem.name), version.partition("+")[2]
        pin, index = f"{name}=={version}", options_for(kind)
        self._session.progress(f"looking for {pin}")
        # Files of folders are listed as well, so only a build of that kind shows that the index can be read.
        versions = self._pip.list_versions(name, index)
        if any(item.endswith(f"+{kind}") for item in versions):
            yield from self._installed(problem, ["--no-deps", pin], index) if version in versions else ()
            return
        yield name_unread_build(problem, version, self._pip)

    def _installed(self, problem: Problem, wanted: Sequence[str], index: Sequence[str]) -> Iterator[Remedy]:
        """Yield an installation, if a distribution works after it."""
        words = [*wanted, *index]
        name = canonicalize_name(problem.name)
        self._session.progress(f"trying {self._pip.format_command(['install', *words])}")
        try:
            plan = self._pip.plan_install(words, silent=True)
            # Another torch is the last resort, and not what somebody expects who installs what is missing.
            if plan.find_planned("torch") is not None:
                return
            inspection = self._inspector.inspect_plan(plan, requested={name})
        except (InstallerError, InputError):
            return
        if not inspection.problems:
            changes = list_changes(plan, inspection.torch, arguments.index_options(words), self._session)
            command = self._pip.format_command(["install", *words])
            yield Remedy(remedies=(name,), command=command, changes=changes, bytes=_sum_sizes(changes))


def _of_solution(solution: Solution, names: Sequence[str], pip: Pip) -> Remedy:
    return Remedy(
        remedies=tuple(names),
        command=pip.format_command(["install", *solution.words]),
        advice=solution.newest,
        changes=solution.changes,
        bytes=_sum_sizes(solution.changes),
    )


def _sum_sizes(changes: Sequence[PackageChange]) -> int | None:
    sizes = [change.size for change in changes if change.after is not None]
    return sum(size for size in sizes if size is not None) if None not in sizes else None
