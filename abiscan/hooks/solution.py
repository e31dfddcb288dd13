"""The way out: versions that work together, found with the checks themselves.

The installer's own resolver proposes the newest versions whose metadata fit together (``Candidates``); what it proposes
is checked by the bytes (``Inspector``). What fails is excluded, and the resolver asked again: the search itself is that
of ``abiscan fit`` (``pipelines/version_search``). At the end, the command that the user will type is planned and
checked as a whole, so it is not refused in turn.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec.structs
from msgspec import Struct
from packaging.utils import canonicalize_name

from abiscan.environments.package_check import Problem, list_fitting
from abiscan.errors import InputError
from abiscan.hooks import arguments
from abiscan.hooks.candidates import Candidates
from abiscan.hooks.changes import list_changes
from abiscan.hooks.fitting import newest_fitting
from abiscan.hooks.install import Inspection, Inspector, Installer, InstallerError
from abiscan.hooks.plan import Plan, Planned
from abiscan.hooks.pytorch_index import is_read, options_for
from abiscan.hooks.strangers import Known, explain_strangers
from abiscan.inputs import interpreter, packages
from abiscan.inputs.isolation import turn_of
from abiscan.inputs.packages import Distribution
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source, name_of
from abiscan.inputs.version import TorchVersion, number_of
from abiscan.pipelines.version_search import find_combination
from abiscan.results.changes import PackageChange
from abiscan.torches.torch import ReleaseNumber, TorchOf
from abiscan.words import listed

# A resolver takes seconds each time, and so does a check.
_MAX_PROPOSALS: Final = 8
# A package of hundreds of megabytes is not worth a search: users wait for one line.
_MAX_BYTES: Final = 600 << 20


class Solution(Struct, frozen=True, kw_only=True):
    """Arguments of ``install`` that work.

    ``without_files`` says that the user's files of requirements or constraints, which exclude it, are left out.
    ``torch`` is the version of the torch that it changes to, None if it does not change it. ``newest`` says that the
    versions in it are the newest that work, as far as that is known. ``changes`` are those that it makes.
    """

    words: tuple[str, ...]
    without_files: bool
    torch: str | None
    newest: str | None = None
    changes: tuple[PackageChange, ...] = ()


class Task(Struct, frozen=True, kw_only=True):
    """What is to be solved.

    ``words`` are the arguments of ``install`` that the user gave; ``plan`` is what they would do, and ``broken`` the
    packages that would not work; ``torch`` is the full version of the torch that would be there. ``stays`` are the
    canonical names of those that no index is to replace. ``same_torch`` says whether the torch stays; None for either.
    """

    words: Sequence[str]
    plan: Plan
    broken: Sequence[Problem]
    torch: str
    stays: frozenset[str] = frozenset()
    same_torch: bool | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The canonical names of the broken packages."""
        return tuple(dict.fromkeys(canonicalize_name(problem.name) for problem in self.broken))

    @property
    def other_kind(self) -> bool:
        """Whether something is broken because it was built for another kind of torch (CUDA, CPU)."""
        return any(problem.checked_package.torch_kind for problem in self.broken)

    @property
    def urls(self) -> dict[str, str]:
        """What paths and URLs in the arguments stand for."""
        return {
            planned.url.partition("#")[0]: canonicalize_name(planned.name)
            for planned in self.plan.packages
            if planned.url is not None
        }


class UnverifiedSolution(Struct, frozen=True, kw_only=True):
    """Arguments of ``install`` that a search has come to, before what they lead to is known.

    ``plan`` is what they would do, None as long as that is not known either.
    """

    words: tuple[str, ...]
    plan: Plan | None = None


def _drop(_: UnverifiedSolution) -> None:
    """Nobody asks for what is not verified."""


def solve(
    task: Task,
    installer: Installer,
    inspector: Inspector,
    session: Session,
    announce: Callable[[UnverifiedSolution], None] = _drop,
) -> Solution | None:
    """Return the first solution in the order of how little it changes.

    With the torch that is there, or that the user asked for: other versions of the packages. Then another torch, for
    the versions that the user asked for. Then a newer one. Then any.

    :param announce: called with each proposal before it is verified, which takes time
    :raises UnreachableError: an index cannot be read, so nothing can be said about what is there
    """
    session.progress("looking for versions that work together")
    with tempfile.TemporaryDirectory(prefix="abiscan-") as folder:
        search = _Search(task, installer, inspector, session, Path(folder), announce)
        return next(search.solutions(), None)


def explain_stays(
    problems: Sequence[Problem], plan: Plan, installer: Installer, words: Sequence[str], session: Session
) -> dict[str, str]:
    """Return the canonical names of the packages that no index is to replace, and why.

    :raises UnreachableError: an index cannot be read
    """
    known: dict[str, Known] = {}
    for problem in problems:
        name, planned = canonicalize_name(problem.name), plan.find_planned(canonicalize_name(problem.name))
        if isinstance(problem.source, Distribution):
            known[name] = Known(name=name, version=problem.version, origin=problem.source.origin)
        elif planned is not None and planned.direct:
            known[name] = Known(name=name, version=problem.version)
    reasons = explain_strangers(known.values(), plan.python, installer.index_options(words), session)
    return {name: reasons[package] for name, package in known.items() if package in reasons}


class _Mode(Struct, frozen=True, kw_only=True):
    """What a search may change: the torch (``any_torch``), the versions of the broken packages (``any_version``).

    ``newer`` says that the torch may only be a newer one.
    """

    any_torch: bool
    any_version: bool
    newer: bool = False


class _Search:
    def __init__(
        self,
        task: Task,
        installer: Installer,
        inspector: Inspector,
        session: Session,
        folder: Path,
        announce: Callable[[UnverifiedSolution], None],
    ) -> None:
        self.task = task
        self._announce = announce
        self.inspector = inspector
        self._installer = installer
        self._session = session
        self._folder = folder
        self._proposed = False
        self._fitting: dict[str, tuple[TorchVersion, ...]] = {}
        self._stays: dict[tuple[str, str], bool] = {}

    @functools.cached_property
    def _torches(self) -> tuple[str, ...]:
        return self._installer.list_versions("torch", self.task.words)

    @functools.cached_property
    def _candidates(self) -> Candidates:
        return Candidates(self._folder, self._torches, self.task.plan.find_planned("torch"))

    def solutions(self) -> Iterator[Solution]:
        task = self.task
        asked = arguments.names_package(task.words, "torch")
        same_torch = _Mode(any_torch=False, any_version=True)
        same_versions = _Mode(any_torch=True, any_version=False)
        # From the least change to the greatest, and lazily: whoever takes the first one does not pay for the others.
        # Each step may cost up to eight plans of the installer and as many checks.
        for words in self._argument_variants():
            if (
                not task.stays and task.same_torch is not False
            ):  # what does not work with this torch, and is not to be replaced, takes another torch
                if task.other_kind and (index := self._index_of_kind(words)):
                    yield from self._searched([*words, *index], same_torch)
                yield from self._fitted(words)
                yield from self._searched(words, same_torch)
            if task.same_torch is True or not self._torches:
                continue  # there is no other torch to be had
            if not asked and any(arguments.names_package(task.words, name) for name in task.names):
                yield from self._searched(words, same_versions)
            # What is not broken rarely works on an older torch.
            yield from self._searched(words, _Mode(any_torch=True, any_version=True, newer=True))
            yield from self._searched(words, _Mode(any_torch=True, any_version=True))

    def _argument_variants(self) -> Iterator[list[str]]:
        """Yield the arguments; without files that may pin what has to change."""
        words = list(self.task.words)
        yield words
        if (without := arguments.without_files(words)) != words:
            yield without

    def _fitted(self, words: Sequence[str]) -> Iterator[Solution]:
        """Yield the newest versions that work with the torch, if what else is asked for admits them."""
        task = self.task
        torch = TorchOf(task.plan.python) if task.plan.find_planned("torch") is None else ReleaseNumber(task.torch)
        options = self._installer.index_options(words)
        result = newest_fitting(task.names, torch, task.plan.python, options, self._session)
        if not result:
            return
        planned = [Planned(name=name, version=result[name], url=None, wheel=True, requires=()) for name in result]
        solution = self._verified(words, task.names, Plan(python=task.plan.python, packages=tuple(planned)))
        if solution is not None:
            yield msgspec.structs.replace(solution, newest=self._describe_newest(result))

    def _describe_newest(self, result: Mapping[str, str]) -> str:
        """Return what is said of versions that are the newest that work with the torch."""
        task = self.task
        number = number_of(task.torch)
        torch = f"the torch {number} you have" if task.plan.find_planned("torch") is None else f"torch {number}"
        pins = listed([f"{name}=={version}" for name, version in result.items()])
        return f"install {pins}: the newest that {'works' if len(result) == 1 else 'work'} with {torch}"

    def _searched(self, words: Sequence[str], mode: _Mode) -> Iterator[Solution]:
        """Yield the solution, if there is one within what may change."""
        proposals = _Proposals(self, words, mode)
        plan = find_combination(proposals, most=_MAX_PROPOSALS)
        solution = self._verified(words, proposals.names, plan) if plan is not None else None
        if solution is not None:
            yield solution

    def name_same_torch(self) -> str:
        """Return the constraint to the torch that the task is about."""
        if self.task.plan.find_planned("torch") is not None:
            return Candidates.constrain_to(number_of(self.task.torch))
        # For an installer, the torch of the public index has no local tag, although it calls itself 2.9.1+cu128.
        installed = packages.find_installed("torch", interpreter.search_path(self.task.plan.python))
        return f"torch=={installed.version if installed else number_of(self.task.torch)}"

    def find_proposal(
        self, words: Sequence[str], names: Sequence[str], constraints: Sequence[str], mode: _Mode
    ) -> Plan | None:
        """Return what the installer would choose, without downloading a torch; None if nothing satisfies all
        metadata.
        """
        changes_torch = mode.any_torch or self.task.plan.find_planned("torch") is not None
        names = [name for name in names if name not in self.task.stays]
        free = [*(names if mode.any_version else ()), *(("torch",) if changes_torch else ())]
        upgraded = [*names, "torch"] if changes_torch else names
        file = self._folder / "constraints.txt"
        file.write_text("".join(f"{line}\n" for line in constraints), encoding="utf-8")
        question = [
            *arguments.free_versions(words, free, self.task.urls),
            *self._installer.upgrade_options(upgraded),
            *("--only-binary", ":all:", "--constraint", str(file)),
            *self._candidates.options,
        ]
        plan = self._planned(question)
        # Once something was proposed with dependencies, a proposal without them would be another question.
        if plan is None and not self._proposed and arguments.ignores_dependencies(words):
            plan = self._planned([*question, "--no-deps"])  # the index may not have what the user does not want
        self._proposed = self._proposed or plan is not None
        return self._candidates.restore_real(plan) if plan is not None else None

    def _rehearsed(self, words: Sequence[str], *, changes_torch: bool) -> Plan | None:
        """Return what the installer would do, as ``_planned``; without another torch if it would download that to
        tell.
        """
        if not changes_torch or not self._installer.downloads_to_plan:
            return self._planned(words)
        plan = self._planned([*words, *self._candidates.options])
        return self._candidates.restore_real(plan) if plan is not None else None

    def inspect_plan(self, plan: Plan, names: Collection[str]) -> Inspection | None:
        """Return what would become of a plan; None if its torch cannot be read."""
        try:
            return self.inspector.inspect_plan(plan, requested=names)
        except InputError:
            return None

    def _planned(self, words: Sequence[str]) -> Plan | None:
        try:
            return self._installer.plan_install(words, silent=True)
        except (InstallerError, InputError):
            return None

    def _index_of_kind(self, words: Sequence[str]) -> list[str]:
        """Return the option for PyTorch's own index of one kind of torch, if it can be reached and has what is broken.

        The public index has only one build of each release.
        """
        kind = self.task.torch.partition("+")[2]
        option = options_for(kind)
        names = self.task.names if kind else ()
        has = any(is_read(name, self.task.torch, self._installer, [*words, *option]) for name in names)
        return option if has else []

    def stays(self, problem: Problem) -> bool:
        """Whether no index is to replace a package, of which one breaks only with what was proposed."""
        key = canonicalize_name(problem.name), problem.version
        if key not in self._stays:
            reasons = explain_stays([problem], self.task.plan, self._installer, self.task.words, self._session)
            self._stays[key] = bool(reasons)
        return self._stays[key]

    def find_older_torch(self, problem: Problem, torch: str | None) -> TorchVersion | None:
        """Return the newest release on which a package works, if it is older than the torch on which it does not."""
        here = TorchVersion.parse(torch) if torch else None
        older = [version for version in self._fits(problem.source) if here is None or version < here.of_release]
        return max(older, default=None)

    def _fits(self, source: Source) -> tuple[TorchVersion, ...]:
        """Return the releases on which a package works."""
        key = str(source)
        if key not in self._fitting:
            try:
                with turn_of(name_of(source)):
                    self._fitting[key] = tuple(
                        TorchVersion(build).of_release for build in list_fitting(source, self._session)
                    )
            except InputError:
                self._fitting[key] = ()
        return self._fitting[key]

    def _verified(self, words: Sequence[str], names: Collection[str], proposal: Plan) -> Solution | None:
        """Return the solution that a proposal leads to, if what the user will type does the same."""
        pins: dict[str, str] = {
            canonicalize_name(planned.name): planned.version
            for planned in proposal.packages
            if canonicalize_name(planned.name) in names and canonicalize_name(planned.name) not in self.task.stays
        }
        # What stays installed is pinned, too, if the user asked for another version of it: the command says what
        # happens.
        pins |= self._staying(words, [name for name in names if name not in pins])
        torch = proposal.find_planned("torch")
        if torch is not None and torch != self.task.plan.find_planned("torch"):
            pins["torch"] = torch.version
        pinned = arguments.pin_versions(words, pins, self.task.urls)
        self._announce(UnverifiedSolution(words=tuple(pinned)))
        self._session.progress(f"trying {self._installer.format_command(['install', *pinned])}")
        # The proposal was made with other arguments. Only what the user will really type proves that it works.
        plan = self._rehearsed(pinned, changes_torch="torch" in pins)
        # What is there already is what fails.
        if plan is None or not (plan.packages or plan.removed or self.task.plan.packages) or self._loses(plan):
            return None
        self._announce(UnverifiedSolution(words=tuple(pinned), plan=plan))
        inspection = self.inspect_plan(plan, names)
        if inspection is None or inspection.problems:
            return None
        options, alone = self._installer.index_options(pinned), self._installer.downloads_to_plan
        made = list_changes(plan, inspection.torch, options, self._session, files=inspection.files, torch_alone=alone)
        return msgspec.structs.replace(self._make_solution(words, pinned, pins.get("torch")), changes=made)

    def _loses(self, plan: Plan) -> bool:
        """Whether something that stays would lack what it requires, and not with what the user asked for."""
        known = {(item.subject, item.requirement) for item in self.inspector.list_lost(self.task.plan)}
        return any((item.subject, item.requirement) not in known for item in self.inspector.list_lost(plan))

    def _staying(self, words: Sequence[str], names: Iterable[str]) -> dict[str, str]:
        """Return the installed versions that a proposal keeps, of packages for which the user asked for another
        version.
        """
        search_path = interpreter.search_path(self.task.plan.python)
        asked = {*self.task.urls.values(), *(name for name in names if arguments.names_package(words, name))}
        kept = {name: packages.find_installed(name, search_path) for name in names if name in asked}
        return {name: distribution.version for name, distribution in kept.items() if distribution}

    def _make_solution(self, words: Sequence[str], pinned: Sequence[str], torch: str | None) -> Solution:
        asked = self.task.words
        without = arguments.without_files(words) == list(words) and arguments.without_files(asked) != list(asked)
        return Solution(words=tuple(pinned), without_files=without, torch=torch)


class _Proposals:
    """What the installer's resolver proposes: the candidates of a search that may change some things, and no others."""

    def __init__(self, search: _Search, words: Sequence[str], mode: _Mode) -> None:
        self._search = search
        self._words = words
        self._mode = mode
        self._oldest = TorchVersion.parse(number_of(search.task.torch)) if mode.newer else None
        self._at_least = [f"torch>={self._oldest}"] if self._oldest else []
        self._torch = self._at_least if mode.any_torch else [search.name_same_torch()]
        self._constraints: dict[str, str] = {}
        self._build: str | None = None
        self.names = list(search.task.names)
        """The packages whose versions are looked for: those that are broken, or would be."""

    def propose(self) -> Iterator[Plan]:
        """Yield what the installer would choose; nothing if it finds nothing, or too much was downloaded."""
        while self._search.inspector.downloaded <= _MAX_BYTES:
            constraints = [*self._torch, *self._constraints.values()]
            plan = self._search.find_proposal(self._words, self.names, constraints, self._mode)
            if plan is None:
                return
            yield plan

    def find_faults(self, plan: Plan) -> Sequence[Problem] | None:
        """Return the packages that would not work; None if the torch of the plan cannot be read."""
        inspection = self._search.inspect_plan(plan, self.names)
        if inspection is None:
            return None
        self._build = inspection.torch
        return inspection.problems

    def exclude(self, problems: Sequence[Problem]) -> bool:
        """Ask for an older torch if packages work on one, else for other versions of them, if those may change."""
        if self._mode.any_torch:
            older = [self._search.find_older_torch(problem, self._build) for problem in problems]
            oldest = self._oldest
            admitted = [version for version in older if version and (oldest is None or version >= oldest)]
            if admitted:
                self._torch = [*self._at_least, f"torch<={min(admitted)}"]
                return True
        for problem in problems:
            name = canonicalize_name(problem.name)
            if self._search.stays(problem):
                return False
            if name not in self.names:
                self.names.append(name)
            elif self._mode.any_version:
                self._constraints[name] = f"{name}<{number_of(problem.version)}"
            else:
                return False
        return True
