"""The way out of a broken environment: for each cause, the smallest change after which it is gone.

What distributions require and lack is installed first, with builds for the kind of torch that is there, then the numpy
that they were compiled for and whatever else they need in another version, then another version of them, and only then
another torch. Each proposal is planned by pip, and the environment that it leads to is examined before it is shown.
Users wait for all of that, so it ends after some seconds; what is left then is named.
"""

from __future__ import annotations

import _weakrefset
import contextlib
import itertools
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import FrameType, MappingProxyType
from typing import Final

import msgspec.structs
from msgspec import Struct
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from abiscan.environments.model import Unmet
from abiscan.environments.package_check import Problem
from abiscan.errors import AbiscanError, InputError
from abiscan.hooks import arguments
from abiscan.hooks.changes import list_changes
from abiscan.hooks.install import Inspection, Inspector, InstallerError
from abiscan.hooks.pip import Pip
from abiscan.hooks.plan import Plan
from abiscan.hooks.pytorch_index import is_on_own_index, is_read, list_wanted, name_unread, words_of
from abiscan.hooks.solution import Solution, Task, UnverifiedSolution, solve
from abiscan.inputs import interpreter, packages
from abiscan.inputs.session import Session
from abiscan.inputs.version import number_of
from abiscan.results.changes import PackageChange
from abiscan.results.doctor import Remedy
from abiscan.words import listed

SECONDS: Final = 18
"""How much time of the processor a search may take."""
_WAITING: Final = 5
"""How many times as long it may take, where a machine is busy or an index slow."""
_SOON: Final = 0.01
"""After how many seconds a search that could not be ended is to end."""
_AGAIN: Final = 1
"""After how many seconds a search is interrupted that goes on all the same."""
_UNMET: Final = "something that is missing, or there in another version, is required"
_NEWER: Final = "a newer version is needed"
_FEW: Final = 4
"""How many packages are installed at once in the first group, which is quick to examine."""
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

    def interrupt(_: int, frame: FrameType | None) -> None:
        # What is raised where Python tidies up is printed, and lost. Not all such places are known.
        is_tidying_up = _is_tidying_up(frame)
        signal.setitimer(signal.ITIMER_PROF, _SOON if is_tidying_up else _AGAIN)
        if not is_tidying_up:
            raise OutOfTimeError

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _is_tidying_up(frame: FrameType | None) -> bool:
    """Whether code runs since an object is no longer there."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__del__" or code.co_filename in {weakref.__file__, _weakrefset.__file__}:
            return True
        frame = frame.f_back
    return False


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
    followers: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Remedies:
    """Find what to type: one command for everything that is missing, and for the rest one for each cause, or for
    several that have to change together.

    :param broken: what fails for itself, and what fails for another and lacks something
    :param stays: the distributions that no index is to replace, as ``NAME==VERSION``; what they lack may be installed
    :param torch: the full version of the torch that is there
    :param session: one of ``limit_time``, as that of the inspector is
    :param followers: the canonical names of what fails for each of those that fail for themselves
    """
    search = _Search(broken, stays, torch, pip, inspector, session, followers)
    begin = time.process_time()
    # One installation for everything takes the least time, unless there is something in it that takes all of it.
    _run_for(SECONDS * 2 / 3, search.install_all)
    is_over = not _run_for(SECONDS - (time.process_time() - begin), search.run)
    if not is_over:
        _run_for(SECONDS - (time.process_time() - begin), search.examine_followers)
    search.name_others()
    if is_over:
        search.name_lacking()
    found = map(search.add_followers, search.list_remedies())
    remedies = sorted(found, key=lambda remedy: (remedy.bytes or 0) >= _LARGE)
    solved = {name for remedy in remedies for name in remedy.remedies}
    left = (problem for problem in search.replaceable if is_over and problem.key not in solved)
    return Remedies(remedies=tuple(remedies), unfinished=tuple(left))


def _run_for(seconds: float, search: Callable[[], None]) -> bool:
    """Run a part of a search; return whether it has come to its end."""
    if seconds <= 0:
        return False
    try:
        with _interrupted_after(seconds):
            search()
    except OutOfTimeError:
        return False
    return True


class _Trial(Struct, frozen=True, kw_only=True):
    """An installation, and what becomes of the environment."""

    words: tuple[str, ...]
    plan: Plan
    inspection: Inspection


class _Refusal(Struct, frozen=True, kw_only=True):
    """An installation after which something that stays has no longer what it requires.

    :ivar names: the canonical names of what it requires
    """

    names: frozenset[str]


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
        followers: Mapping[str, Sequence[str]],
    ) -> None:
        self._broken = broken
        self._followers = followers
        self._plans: dict[str, Plan] = {}
        """The plans of installations that were examined, by their commands."""
        self._failing_then: dict[str, list[Problem]] = {}
        """Those that fail for others and still fail after a command."""
        self._torch = torch
        self._pip = pip
        self._inspector = inspector
        self._session = session
        self._small: list[Remedy] = []
        self._large: list[Remedy] = []
        self._unexamined: list[Remedy] = []
        self._trials: dict[tuple[tuple[str, ...], frozenset[str]], _Trial | _Refusal | None] = {}
        self._unplanned = set[tuple[str, ...]]()
        """Installations that there was no time to plan."""
        self._judged = set[str]()
        """Those of which it is known what installing what they lack leads to."""
        self._outgrown = set[str]()
        """Those that need another version of something than what stays."""
        self._in_vain = set[tuple[str, frozenset[str]]]()
        """Those that still fail with what they require installed, and what that is."""
        own = (problem for problem in broken if problem.cause is None)
        self.replaceable = [problem for problem in own if f"{problem.name}=={problem.version}" not in stays]

    def list_remedies(self) -> list[Remedy]:
        """Return what was found: a large download for what nothing smaller helps, and what there was no time to
        examine for what nothing else does.
        """
        found = [*self._small]
        unexamined = sorted(self._unexamined, key=lambda remedy: len(remedy.remedies), reverse=True)
        for remedy in (*sorted(self._large, key=lambda remedy: remedy.bytes or 0), *unexamined):
            same = next((number for number, other in enumerate(found) if _is_part_of(remedy, other)), None)
            if same is not None:
                found[same] = _join(found[same], remedy)
            elif not any(set(remedy.remedies) & set(other.remedies) for other in found):
                found.append(remedy)
        return found

    def _list_followers(self, remedy: Remedy) -> list[str]:
        names = (name for cause in remedy.remedies for name in self._followers.get(cause, ()))
        return [name for name in dict.fromkeys(names) if name not in remedy.remedies]

    def examine_followers(self) -> None:
        """Find out what becomes of what fails for others, once these work: it may fail for something else.

        :raises OutOfTimeError: before the end
        """
        for remedy in self.list_remedies():
            followers, plan = self._list_followers(remedy), self._plans.get(remedy.command)
            if remedy.examined and followers and plan is not None:
                with contextlib.suppress(InstallerError, InputError):
                    inspection = self._inspector.inspect_plan(plan, requested={*remedy.remedies, *followers})
                    failing = [problem for problem in inspection.problems if problem.key in followers]
                    self._failing_then[remedy.command] = failing

    def add_followers(self, remedy: Remedy) -> Remedy:
        """Return a remedy with what is known of what fails for the same reason."""
        followers, failing = self._list_followers(remedy), self._failing_then.get(remedy.command)
        if not followers or not remedy.examined:
            return remedy
        if failing is None:
            verb = "fails" if len(followers) == 1 else "fail"
            again = "for the same reason, and then perhaps for another one: run abiscan doctor again"
            more = f"{listed(followers)} {verb} {again}"
            return msgspec.structs.replace(remedy, advice="; ".join(filter(None, (remedy.advice, more))))
        texts = [
            f"{problem.name} fails then for something else: {problem.checked_package.error}" for problem in failing
        ]
        return msgspec.structs.replace(
            remedy,
            remedies=(*remedy.remedies, *(name for name in followers if name not in _keys(failing))),
            advice="; ".join(filter(None, (remedy.advice, *texts))) or None,
        )

    def name_others(self) -> None:
        """Name what several were compiled for, or import a module of, where the time was too short to try it."""
        named = {name for remedy in self.list_remedies() for name in remedy.remedies}
        for word in dict.fromkeys(problem.other for problem in self._broken if problem.other):
            words = (word, *self._session.index.words)
            if words not in self._unplanned and any(tried == words for tried, _ in self._trials):
                continue
            needing = [problem.key for problem in self._broken if problem.other == word and problem.key not in named]
            if needing:
                advice = _describe_unexamined(f"another {Requirement(word).name} is needed", needing)
                command = self._pip.format_command(["install", *words])
                self._unexamined.append(Remedy(remedies=tuple(needing), command=command, advice=advice, examined=False))
        outgrown = [item for item in self.replaceable if item.key in self._outgrown - named]
        words = self._words_to_upgrade(outgrown)
        if outgrown and (words in self._unplanned or all(tried != words for tried, _ in self._trials)):
            advice = _describe_unexamined(_NEWER, [item.name for item in outgrown])
            command = self._pip.format_command(["install", *words])
            names = tuple(item.key for item in outgrown)
            self._unexamined.append(Remedy(remedies=names, command=command, advice=advice, examined=False))

    def name_lacking(self) -> None:
        """Name what is required and not there, where the time was too short to plan its installation."""
        named = {name for remedy in self.list_remedies() for name in remedy.remedies}
        left = [problem for problem in self._broken if problem.key not in named | self._judged]
        lacking = [problem for problem in left if _is_only_lacking(problem)]
        # What fails for another reason as well is not enough for what requires it.
        while short := [item for item in lacking if not item.requires.isdisjoint(_keys(left) - _keys(lacking))]:
            lacking = [problem for problem in lacking if problem not in short]
        if not lacking:
            return
        words = words_of(list_wanted(lacking, self._torch, replacing=False))
        self._unexamined.append(
            Remedy(
                remedies=tuple(problem.key for problem in lacking),
                command=self._pip.format_command(["install", *words, *self._session.index.words]),
                advice=_describe_unexamined(_UNMET, [problem.name for problem in lacking]),
                examined=False,
            )
        )

    def install_all(self) -> None:
        """Install the numpy that something was compiled for, and all that is required and not there.

        :raises OutOfTimeError: before the end
        """
        self._install_others()
        batches = [(replacing, *self._list_batches(replacing=replacing)) for replacing in (False, True)]
        for replacing, little, _ in batches:
            self._install_required(little, replacing=replacing)
        self._upgrade_outgrown()
        for replacing, _, rest in batches:
            self._install_required(rest, replacing=replacing)

    def _list_batches(self, *, replacing: bool) -> tuple[list[Problem], list[Problem]]:
        """Return the problems in two groups: those for which little is to be installed, several at once, so that what
        takes long takes nothing from them, and the rest.
        """

        def count_wanted(problems: Sequence[Problem]) -> int:
            return len(list_wanted(problems, self._torch, replacing=replacing))

        batches: list[list[Problem]] = [[]]
        for problem in sorted(self._broken, key=lambda problem: count_wanted([problem])):
            if batches[-1] and count_wanted([*batches[-1], problem]) > _FEW:
                batches.append([])
            batches[-1].append(problem)
        # What is left takes long anyway.
        return batches[0], [*itertools.chain(*batches[1:])]

    def run(self) -> None:
        """Look for the rest, what is quick to find first; what has no way out takes nothing from the others.

        :raises OutOfTimeError: before the end
        """
        # What is there, in a build for another torch, is found in a few plans; what ``install_all`` has left, in many.
        lacking_nothing = [
            problem
            for problem in self._unsolved_for(same_torch=True)
            if not list_wanted([problem], self._torch, replacing=True)
        ]
        for problem in lacking_nothing:
            self._solve([problem], same_torch=True)
        # Its time may have ended after the first of its two steps; what was tried is not tried again.
        self.install_all()
        parts = [*_connected(self._broken), *([problem] for problem in self._broken)]
        for replacing in (False, True):
            for part in parts:
                self._install_required(part, replacing=replacing)
        # Versions that work together, with the torch that is there.
        for same_torch in (True, False):
            for problem in self._unsolved_for(same_torch=same_torch):
                if not same_torch or problem not in lacking_nothing:
                    self._solve([problem], same_torch=same_torch)
            if len(rest := self._unsolved_for(same_torch=same_torch)) > 1:  # what only changes together
                self._solve(rest, same_torch=same_torch)

    @property
    def _same_torch(self) -> str:
        return f"torch=={number_of(self._torch)}"

    @property
    def _helped(self) -> set[str]:
        return {name for remedy in self._small for name in remedy.remedies}

    @property
    def _named(self) -> set[str]:
        """What something helps that is on an index which was not read: it still fails where it is examined."""
        return {name for remedy in self._small if not remedy.examined for name in remedy.remedies}

    def _unsolved(self, problems: Sequence[Problem]) -> list[Problem]:
        return [problem for problem in problems if problem.key not in self._helped]

    def _unsolved_for(self, *, same_torch: bool) -> list[Problem]:
        return [problem for problem in self._unsolved(self.replaceable) if same_torch or problem.uses_torch]

    def _keep(self, remedy: Remedy) -> None:
        if (remedy.bytes or 0) >= _LARGE:
            self._large.append(remedy)
            return
        # What helps more stands for what helps a part of it.
        self._small = [one for one in self._small if not set(one.remedies) < set(remedy.remedies)]
        self._small.append(remedy)

    def _solve(self, group: Sequence[Problem], *, same_torch: bool) -> None:
        task = Task(
            words=self._session.index.words,
            plan=Plan(python=self._pip.python, packages=()),
            broken=group,
            torch=self._torch,
            same_torch=same_torch,
        )
        proposals = list[UnverifiedSolution]()
        try:
            solution = solve(task, self._pip, self._inspector, self._session, proposals.append)
        except OutOfTimeError:
            if proposals and same_torch:  # another torch is proposed only where it is known to help
                self._unexamined.append(self._of_proposal(proposals[-1], group))
            raise
        if solution is not None:
            remedy = _of_solution(solution, task.names, self._pip)
            if proposals and proposals[-1].plan is not None:
                self._plans[remedy.command] = proposals[-1].plan
            self._keep(remedy)

    def _install_required(self, group: Sequence[Problem], *, replacing: bool) -> None:
        """Install what distributions lack, and the builds of them for this kind of torch, as far as they work then.

        :param replacing: whether what is there in another version is replaced as well, even if something is missing
        """
        group = [
            item
            for item in group
            if (own := self._words_for(item, replacing=replacing)) and (item.key, own) not in self._in_vain
        ]
        trial: _Trial | _Refusal | None = None
        while group := self._unsolved(group):
            wanted = list_wanted(group, self._torch, replacing=replacing)
            words = words_of(wanted)
            unread = {name for name, word in wanted.items() if is_on_own_index(word) and not self._is_read(name, words)}
            if unread:
                needing = [
                    item for item in group if unread & list_wanted([item], self._torch, replacing=replacing).keys()
                ]
                if not needing:
                    return
                self._keep(name_unread(needing, list_wanted(needing, self._torch, replacing=replacing), self._pip))
                continue
            lacks = any(item.name != "torch" for problem in group for item in problem.unmet)
            reason = _UNMET if lacks else "a build for this torch is needed"
            tried = trial if isinstance(trial, _Trial) else None
            trial = self._examine([*words, *self._session.index.words], group, group, reason, tried)
            if trial is None:
                return
            if isinstance(trial, _Refusal):
                rest = [item for item in group if trial.names.isdisjoint(self._names_for(item, replacing=replacing))]
                self._judged |= _keys(group) - _keys(rest)
                if len(rest) == len(group):
                    return
                group = rest
                continue
            failing = {problem.key: problem for problem in trial.inspection.problems}
            # What fails for something that is only named is no failure of what is installed here.
            named = {name for name, problem in failing.items() if not self._named.isdisjoint({name, problem.cause})}
            if failing.keys() - named - {problem.key for problem in self._broken}:
                return  # something that works now would not
            working = [problem for problem in group if problem.key not in failing.keys() - named]
            if len(working) == len(group):
                self._keep(self._describe(group, trial))
                return
            self._note_in_vain([item for item in group if item not in working], trial, replacing=replacing)
            group = working

    def _note_in_vain(self, failing: Sequence[Problem], trial: _Trial, *, replacing: bool) -> None:
        """Note what still fails with all that it requires: it needs something else, unless what was replaced for others
        is the reason.
        """
        changes = _list_changes_alone(trial.plan)
        replaced = {canonicalize_name(change.name) for change in changes if change.before is not None}
        self._in_vain |= {
            (item.key, self._words_for(item, replacing=replacing))
            for item in failing
            if replaced <= {*self._names_for(item, replacing=replacing)}
        }

    def _install_others(self) -> None:
        """Install the numpy that several were compiled for, or the setuptools that still has a module they import: it
        changes less than another version of each.
        """
        for word in dict.fromkeys(problem.other for problem in self._broken if problem.other):
            name = Requirement(word).name
            # It may help others that name it, too: that is known only of what is examined.
            group = [item for item in self._unsolved(self._broken) if item.other == word or _names(item, name)]
            needing = [problem for problem in group if problem.other == word]
            if not needing:
                continue
            reason = f"another {name} is needed"
            trial = self._examine([word, *self._session.index.words], group, needing, reason)
            if isinstance(trial, _Refusal):
                self._outgrown |= {
                    item.key for item in self._broken if item.other == word or _requires_other(item, name)
                }
            if not isinstance(trial, _Trial):
                continue
            failing = {problem.key for problem in trial.inspection.problems}
            working = [problem for problem in group if problem.key not in failing]
            if working and not failing - {problem.key for problem in self._broken}:
                self._keep(self._describe(working, trial))

    def _upgrade_outgrown(self) -> None:
        """Install newer versions of what would need an older numpy than others that stay."""
        group = [item for item in self._unsolved(self.replaceable) if item.key in self._outgrown]
        while group:
            trial = self._examine(self._words_to_upgrade(group), group, group, _NEWER)
            if not isinstance(trial, _Trial) or _keys(trial.inspection.problems) - _keys(self._broken):
                return
            failing = _keys(trial.inspection.problems)
            working = [item for item in group if item.key not in failing]
            if len(working) == len(group):
                self._keep(self._describe(group, trial))
                return
            group = working

    def _words_to_upgrade(self, group: Sequence[Problem]) -> tuple[str, ...]:
        return ("--upgrade", *(item.name for item in group), *self._session.index.words)

    def _is_read(self, name: str, words: Sequence[str]) -> bool:
        self._session.progress(f"looking for builds of {name}")
        return is_read(name, self._torch, self._pip, words)

    def _examine(
        self,
        words: Sequence[str],
        group: Sequence[Problem],
        needing: Sequence[Problem],
        reason: str,
        known: _Trial | None = None,
    ) -> _Trial | _Refusal | None:
        """Return what an installation leads to; None if it cannot be carried out, or changes torch.

        :param needing: those of the group that need it even if there is no time to examine it
        :param reason: what they need, before "by"
        :param known: an earlier trial, with which the group works
        """
        # What is examined depends on what is asked about, too: what is known to be broken is not examined again.
        key = tuple(words), frozenset(problem.key for problem in group)
        if key not in self._trials:
            self._session.progress(f"trying {self._pip.format_command(['install', *words])}")
            self._trials[key] = None  # if the time is too short, it is so again
            # Another torch is the last resort, and not what somebody expects who installs what is missing.
            attempts = (words, (*words, self._same_torch))
            trials = (self._try(tried, group, needing, reason, known) for tried in attempts)
            trial = next((trial for trial in trials if trial is not None), None)
            self._trials[key] = trial
            # Where several cannot be installed at once, one of them may be.
            if isinstance(trial, _Trial) or (trial is None and len(group) == 1):
                self._judged |= _keys(group)
        return self._trials[key]

    def _try(
        self,
        words: Sequence[str],
        group: Sequence[Problem],
        needing: Sequence[Problem],
        reason: str,
        known: _Trial | None,
    ) -> _Trial | _Refusal | None:
        try:
            try:
                plan = self._pip.plan_install(words, silent=True)
            except OutOfTimeError:
                self._unplanned.add(tuple(words))
                raise
            if plan.find_planned("torch") is not None:
                return None
            # pip takes the newest of what is asked for, whatever others require: they are asked for their versions.
            if lost := self._inspector.list_lost(plan):
                words = [*words, *dict.fromkeys(item.requirement for item in lost)]
                refusal = _Refusal(names=frozenset(canonicalize_name(item.name) for item in lost))
                try:
                    plan = self._pip.plan_install(words, silent=True)
                except (InstallerError, InputError):
                    return refusal
                if plan.find_planned("torch") is not None or self._inspector.list_lost(plan):
                    return refusal
            if known is not None and _is_within(plan, known.plan):
                return _Trial(words=tuple(words), plan=plan, inspection=known.inspection)
            try:
                inspection = self._inspector.inspect_plan(plan, requested={problem.key for problem in group})
            except OutOfTimeError:
                command = self._pip.format_command(["install", *words])
                if met := self._list_met(plan, needing):
                    self._unexamined.append(_of_plan(plan, met, reason, command))
                raise
        except (InstallerError, InputError):
            return None
        return _Trial(words=tuple(words), plan=plan, inspection=inspection)

    def _names_for(self, problem: Problem, *, replacing: bool) -> Collection[str]:
        """Return the canonical names of what is installed for a problem."""
        return list_wanted([problem], self._torch, replacing=replacing).keys()

    def _words_for(self, problem: Problem, *, replacing: bool) -> frozenset[str]:
        """Return what is installed for a problem, as it is written on a command line."""
        return frozenset(words_of(list_wanted([problem], self._torch, replacing=replacing)))

    def _of_proposal(self, proposal: UnverifiedSolution, group: Sequence[Problem]) -> Remedy:
        """Return versions that a search has come to, where there was no time to examine what they lead to."""
        command = self._pip.format_command(["install", *proposal.words])
        reason = "another version is needed"
        if proposal.plan is not None:
            return _of_plan(proposal.plan, group, reason, command)
        names = [problem.name for problem in group]
        advice = _describe_unexamined(reason, names)
        return Remedy(remedies=tuple(problem.key for problem in group), command=command, advice=advice, examined=False)

    def _list_met(self, plan: Plan, needing: Sequence[Problem]) -> list[Problem]:
        """Return those for which an installation brings all that is known to be wrong, with what they require."""
        met = [problem for problem in needing if _meets(plan, problem)]
        left = {problem.key for problem in self._unsolved(self._broken)} - {problem.key for problem in met}
        return [problem for problem in met if problem.requires.isdisjoint(left)]

    def _describe(self, group: Sequence[Problem], trial: _Trial) -> Remedy:
        options = arguments.index_options(trial.words)
        try:
            of_trial = trial.inspection
            changes = list_changes(trial.plan, of_trial.torch, options, self._session, files=of_trial.files)
        except OutOfTimeError:  # what was examined in time counts, even if nobody knows how large it is
            changes = _list_changes_alone(trial.plan)
        command = self._pip.format_command(["install", *trial.words])
        self._plans[command] = trial.plan
        return Remedy(
            remedies=tuple(problem.key for problem in group),
            command=command,
            changes=changes,
            bytes=_sum_sizes(changes),
        )


def _is_within(plan: Plan, other: Plan) -> bool:
    """Whether another plan installs all that one does, in the same versions."""
    versions = {(canonicalize_name(item.name), item.version) for item in other.packages}
    return all((canonicalize_name(item.name), item.version) in versions for item in plan.packages)


def _requires_other(problem: Problem, name: str) -> bool:
    """Whether a distribution requires another version of one that is there."""
    own = (item for item in problem.unmet if canonicalize_name(item.subject.partition(" ")[0]) == problem.key)
    return any(item.name == name and item.there is not None for item in own)


def _names(problem: Problem, name: str) -> bool:
    """Whether the error that a distribution fails with names a package."""
    package = problem.checked_package.package
    return package is not None and name in str(package.error)


def _keys(problems: Iterable[Problem]) -> set[str]:
    return {problem.key for problem in problems}


def _connected(problems: Sequence[Problem]) -> Iterator[list[Problem]]:
    """Yield the problems in groups: one requires another, or both lack the same."""
    groups: list[list[Problem]] = []
    for problem in problems:
        near = [group for group in groups if any(_are_near(problem, other) for other in group)]
        groups = [group for group in groups if group not in near] + [[*itertools.chain(*near), problem]]
    yield from groups


def _are_near(one: Problem, other: Problem) -> bool:
    same = {item.name for item in one.unmet} & {item.name for item in other.unmet}
    return bool(same) or one.key in other.requires or other.key in one.requires


def _meets(plan: Plan, problem: Problem) -> bool:
    """Whether an installation leaves nothing unmet of what a distribution requires; torch stays, whatever it requires.

    What is replaced by another version requires what that one does.
    """
    for item in _list_needed(problem):
        planned = plan.find_planned(canonicalize_name(item.name))
        is_replaced = plan.find_planned(canonicalize_name(item.subject.partition(" ")[0])) is not None
        if is_replaced:
            continue
        if planned is None or not Requirement(item.requirement).specifier.contains(planned.version, prereleases=True):
            return False
    return True


def _is_only_lacking(problem: Problem) -> bool:
    """Whether all that is known to be wrong is that something is not there."""
    needed = _list_needed(problem)
    return problem.other is None and bool(needed) and all(item.there is None for item in needed)


def _list_needed(problem: Problem) -> list[Unmet]:
    """Return the unmet requirements that a distribution may fail for, without torch, which stays.

    If it does not find a module, that is what it fails for, and not the version of another one.
    """
    package = problem.checked_package.package
    lacks_module = bool(package and package.error and package.error.of_module)
    return [item for item in problem.unmet if item.name != "torch" and (item.there is None or not lacks_module)]


def _is_part_of(remedy: Remedy, other: Remedy) -> bool:
    """Whether another remedy changes all that one does which was not examined."""
    after = {(change.name, change.after) for change in remedy.changes}
    return not remedy.examined and bool(after) and after <= {(change.name, change.after) for change in other.changes}


def _join(remedy: Remedy, part: Remedy) -> Remedy:
    """Return a remedy for what another one is for, too, which changes no more."""
    more = tuple(name for name in part.remedies if name not in remedy.remedies)
    if not more:
        return remedy
    advice = f"the same may be enough for {listed(more)}, which there was no time to examine: run abiscan doctor again"
    both = "; ".join(filter(None, (remedy.advice, advice)))
    return msgspec.structs.replace(remedy, remedies=(*remedy.remedies, *more), advice=both)


def _of_plan(plan: Plan, group: Sequence[Problem], reason: str, command: str) -> Remedy:
    """Return the installation of what is required, where there was no time to examine what it leads to."""
    return Remedy(
        remedies=tuple(problem.key for problem in group),
        command=command,
        advice=_describe_unexamined(reason, [problem.name for problem in group]),
        changes=_list_changes_alone(plan),
        examined=False,
    )


def _list_changes_alone(plan: Plan) -> tuple[PackageChange, ...]:
    """Return what a plan changes, without what only an index knows."""
    search_path = interpreter.search_path(plan.python)
    there = {item: packages.find_installed(item.name, search_path) for item in plan.packages}
    return tuple(
        PackageChange(
            name=item.name,
            before=known.version if known else None,
            after=item.version,
            requested=item.requested,
        )
        for item, known in there.items()
    )


def _describe_unexamined(reason: str, names: Sequence[str]) -> str:
    return (
        f"{reason} by {listed(names)}: install it, and run abiscan doctor again; there was no time to examine whether"
        " it is enough"
    )


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
