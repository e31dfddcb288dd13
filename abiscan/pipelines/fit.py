"""The pipeline behind ``abiscan fit``: the newest versions of packages that work together and with a torch.

What the metadata exclude is not looked at; what they admit is checked by the bytes of the wheels.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec.structs
from msgspec import Struct
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from abiscan.cache.result_cache import answer
from abiscan.cpu.processors import Cpu, native_cpu
from abiscan.cpu.variants import admitted_cpu
from abiscan.errors import InputError, NoExtensionError, StoppedError
from abiscan.findings import Effect
from abiscan.index.client import Candidate, Index
from abiscan.index.system import System
from abiscan.inputs import isolation, memory
from abiscan.inputs.packages import RemoteWheel
from abiscan.inputs.session import Session
from abiscan.inputs.sources import name_of
from abiscan.inputs.variants import WheelVariant
from abiscan.inputs.version import TorchVersion
from abiscan.pipelines.version_search import ExactSearch
from abiscan.results.check import Result
from abiscan.results.fit import FitReport, Fitting, Rejected
from abiscan.results.package import PackageResult, PackageVerdict
from abiscan.results.verdict import Verdict
from abiscan.torches.platforms import platform_of
from abiscan.torches.torch import ReleaseNumber, TorchChoice
from abiscan.verdict.hardware import cpu_question, described, hardware_of
from abiscan.words import plural

if TYPE_CHECKING:
    from abiscan.pipelines.quick_reject import Glance


_log = logging.getLogger("abiscan.pipelines")

_MOST_WHEELS: Final = 200
"""The most wheels that one search reads."""


class Opinion(Struct, frozen=True, kw_only=True):
    """Whether a version works: ``reason`` says why not, ``note`` what it goes on without.

    If that it works is not ``proven``, ``note`` says what could not be checked.
    """

    reason: str | None = None
    note: str | None = None
    proven: bool = True


def fit_packages(
    requirements: Sequence[Requirement],
    choices: Iterable[TorchChoice],
    index: Index,
    session: Session,
    *,
    installed: bool,
    constraints: Sequence[Requirement] = (),
    variants: bool = True,
) -> FitReport:
    """Return the newest versions that satisfy the requirements and work together with one of the torches, the first
    possible.

    :param choices: the torches, the preferred first; those that the requirements exclude are left out
    :param installed: whether the torch is already there
    :param variants: whether wheels of variants count
    :raises InputError: the index cannot be read, or does not have a package
    """
    # torch itself is not searched: it is given by the caller, and its requirement only selects among the choices.
    requested = _combine_requirements(requirements, constraints)
    of_torch = requested.pop("torch", None)
    candidates = {name: index.candidates(requirement, variants=variants) for name, requirement in requested.items()}
    first: FitReport | None = None
    for choice in choices:
        attempt = _Attempt(choice, index, session, candidates)
        if of_torch is not None and not of_torch.specifier.contains(attempt.torch, prereleases=True):
            continue
        session.progress(f"looking for versions that work with torch {attempt.build}")
        result = msgspec.structs.replace(attempt.search_versions(), installed=installed)
        if result.packages:
            return result
        # If no torch fits, the answer is about the preferred one: its obstacle is what the user asked about.
        first = first or result
    if first is None:
        asked = f"torch{of_torch.specifier}" if of_torch else "the torch that was asked for"
        return FitReport(torch=None, installed=installed, obstacle=f"no torch is {asked}", bytes_read=index.bytes_read)
    return first


def torches_of_index(index: Index) -> tuple[ReleaseNumber, ...]:
    """Return the releases of torch that are on the index for this system and known here, newest first.

    :raises InputError: the index has no torch
    """
    platform = platform_of(index.system)
    known_releases = set(platform.releases())
    numbers = [
        TorchVersion(candidate.version.public)
        for candidate in index.candidates(Requirement("torch"))
        if not candidate.unfit
    ]
    return tuple(platform.build_of(str(number)) for number in dict.fromkeys(numbers) if number in known_releases)


def _combine_requirements(
    requirements: Sequence[Requirement], constraints: Sequence[Requirement]
) -> dict[str, Requirement]:
    """Return the requirements by canonical name, those for one package combined."""
    combined: dict[str, Requirement] = {}
    for requirement in requirements:
        name = canonicalize_name(requirement.name)
        constraint_so_far = combined.setdefault(name, Requirement(requirement.name))
        # The markers of files were evaluated as they were read; extras do not matter for what is compiled.
        constraint_so_far.specifier &= requirement.specifier
    for constraint in constraints:
        name = canonicalize_name(constraint.name)
        if name in combined or name == "torch":
            combined.setdefault(name, Requirement(name)).specifier &= constraint.specifier
    return combined


class _Attempt:
    """The search with one torch."""

    def __init__(
        self,
        choice: TorchChoice,
        index: Index,
        session: Session,
        candidates: dict[str, tuple[Candidate, ...]],
    ) -> None:
        self._choice = choice
        self._index = index
        self._session = session
        self._opinions: dict[Candidate, Opinion] = {}
        self._demands: dict[Candidate, dict[str, list[Requirement]]] = {}
        self._wheels_read = 0
        torch = choice.open(session.files(), session)
        self.build = torch.build or "(unknown version)"
        version = TorchVersion.parse(self.build)
        if version is None:
            raise InputError(torch.package, "does not state its version", "name a release with --torch")
        self.torch = version
        self._cpus = _variant_processors(session, index)
        self._search = ExactSearch(candidates=candidates, reason=self._find_reason, conflict=self._find_clash)

    def search_versions(self) -> FitReport:
        """Return what was found."""
        chosen = self._search.find_newest()
        obstacle = None if chosen is not None else self._describe_obstacle()
        packages = [self._make_fitting(candidate, chosen) for candidate in chosen.values()] if chosen else []
        return FitReport(
            torch=self.build,
            installed=False,
            packages=packages,
            obstacle=obstacle,
            bytes_read=self._index.bytes_read,
        )

    def _make_fitting(self, candidate: Candidate, chosen: dict[str, Candidate]) -> Fitting:
        opinion = self._make_opinion(candidate)
        newer = (item for item in self._search.candidates[candidate.name] if item.version > candidate.version)
        return Fitting(
            name=candidate.name,
            version=str(candidate.version),
            note=opinion.note,
            proven=opinion.proven,
            variant=str(candidate.variant) if candidate.variant else None,
            rejected=[Rejected(version=str(item.version), reason=self._why_not(item, chosen) or "") for item in newer],
        )

    def _why_not(self, candidate: Candidate, chosen: dict[str, Candidate]) -> str | None:
        """Return why a version is not the one; without checking what was not checked in the search."""
        if candidate.unfit or candidate in self._opinions:
            reason = candidate.unfit or self._opinions[candidate].reason
            if reason:
                return reason
        # From the cheapest question to the dearest: tags, variant, metadata, and only then the bytes of the wheel.
        excluded = self._exclude_unread(candidate)
        if excluded:
            return excluded
        conflicts = (self._find_conflict(candidate, item) for item in chosen.values() if item.name != candidate.name)
        return next(filter(None, conflicts), "does not go with any version of the others")

    def _find_reason(self, candidate: Candidate) -> str | None:
        return self._make_opinion(candidate).reason

    def _make_opinion(self, candidate: Candidate) -> Opinion:
        if candidate not in self._opinions:
            excluded = self._exclude_unread(candidate)
            self._opinions[candidate] = Opinion(reason=excluded) if excluded else self._check_wheel(candidate)
        return self._opinions[candidate]

    def _exclude_unread(self, candidate: Candidate) -> str | None:
        """Return why a version need not be looked at."""
        if candidate.unfit:
            return candidate.unfit
        if candidate.variant is not None and (excluded := self._not_admitted(candidate.variant)):
            return excluded
        required = self._index.metadata(candidate).requires_torch
        return f"requires {required}" if required is not None and not required.admits(self.torch) else None

    def _not_admitted(self, variant: WheelVariant) -> str | None:
        """Return why the properties of a variant exclude the torch or the processors."""
        if not variant.admits_torch(self.torch):
            return f"its variant {variant.label} is for {', '.join(map(str, variant.torch))}"
        machine = self._index.system.machine
        least = admitted_cpu(variant, machine) if machine else None
        if least is None:
            return None
        if not self._cpus:
            return f"its variant {variant.label} is for {least.name}: name the processor with --cpu"
        lacking = next((cpu for cpu in self._cpus if least.features - cpu.features), None)
        return f"its variant {variant.label} is for {least.name}, and {lacking.name} is not" if lacking else None

    def _find_clash(self, item: Candidate, second: Candidate) -> str | None:
        """Return why two versions do not go together with the torch, as far as their metadata say.

        So no wheel is read if the metadata of another package leave nothing for it to go with.
        """
        return self._exclude_unread(item) or self._exclude_unread(second) or self._find_conflict(item, second)

    def _find_conflict(self, item: Candidate, second: Candidate) -> str | None:
        if item.unfit or second.unfit:
            return item.unfit or second.unfit
        return self._find_demand(item, second) or self._find_demand(second, item)

    def _find_demand(self, item: Candidate, second: Candidate) -> str | None:
        """Return what a version requires of another package, if that version of it does not satisfy it."""
        # By the name of the package that is required, since each pair asks for one name out of dozens.
        if item not in self._demands:
            self._demands[item] = {}
            for requirement in self._index.requirements(item):
                self._demands[item].setdefault(canonicalize_name(requirement.name), []).append(requirement)
        for requirement in self._demands[item].get(second.name, ()):
            if not requirement.specifier.contains(second.version, prereleases=True):
                return f"{item} requires {requirement.name}{requirement.specifier}"
        return None

    def _check_wheel(self, candidate: Candidate) -> Opinion:
        """Return the verdict of the bytes: that of an earlier run, as long as nothing has changed that it depends on.

        :raises InputError: the server cannot send the wheel
        """
        system = self._index.system
        wheel = self._index.origin(candidate)
        # The origin has the hash of the file, if the index has one. The torch is there twice: as it was named, and as
        # what it turned out to be.
        question: list[object] = ["fit", *wheel, str(self._choice), self.build, system.python, system.platforms]
        if self._session.cpus:
            question.append(cpu_question(self._session.cpus))
        if self._session.system:
            question.append(described(hardware_of((), None, (), self._session.system)))
        judged = answer(self._session.folder, question, lambda: self._read_wheel(candidate), ())
        _log.debug("%s on torch %s: %s", candidate, self.build, judged.reason or judged.note or "works")
        return judged

    def _read_wheel(self, candidate: Candidate) -> Opinion:
        self._wheels_read += 1
        if self._wheels_read > _MOST_WHEELS:
            problem = f"more than {_MOST_WHEELS} wheels would have to be read"
            raise InputError(candidate.name, problem, f"narrow it down, as in '{candidate.name}>=VERSION'")
        most = sum(map(len, self._search.candidates.values()))
        read = f"{self._wheels_read} of at most {most}, {self._index.bytes_read / 1e6:.1f} MB read so far"
        self._session.progress(f"reading {candidate} for torch {self.build} ({read})")
        wheel = self._index.wheel(candidate)
        try:
            # A wheel that ended an earlier process, or meets a bug, is checked not to work, and the search goes on with
            # older ones.
            isolation.begin_target(name_of(wheel))
            memory.give_back()
            with isolation.turn_of(name_of(wheel)):
                return self._opinion_of(wheel)
        except StoppedError as error:
            return Opinion(reason=error.problem)
        except NoExtensionError:  # nothing in it was compiled for a torch
            return Opinion()

    def _opinion_of(self, wheel: RemoteWheel) -> Opinion:
        # A look at a few kilobytes first: most versions that do not work are excluded by it, without a download.
        seen = self._look_quickly(wheel)
        if seen is not None and seen.reason is not None:
            return Opinion(reason=seen.reason)
        package, results = self._check_bytes(msgspec.structs.replace(wheel, spare=seen.spare) if seen else wheel)
        # The spared libraries were left out of the check, so a verdict that involves one of them is not to be
        # trusted.
        if seen and package and any(library.path in seen.spare for library in package.libraries):
            package, results = self._check_bytes(wheel)  # the import has taken another way than it seemed to
        return form_opinion(package, results)

    def _look_quickly(self, wheel: RemoteWheel) -> Glance | None:
        """Return a look at the libraries of a wheel; None if nothing is known about its machine."""
        from abiscan.pipelines.quick_reject import reject_quickly  # not needed if all was read in an earlier run

        system = self._index.system
        return (
            reject_quickly(wheel, self._choice, self._session, system.python, system.machine)
            if system.machine
            else None
        )

    def _check_bytes(self, wheel: RemoteWheel) -> tuple[PackageResult | None, Sequence[Result]]:
        from abiscan.rules import RULES
        from abiscan.verdict.torch_set import CheckRequest, TorchSet

        torch_set = TorchSet(CheckRequest(targets=(wheel,), torches=(self._choice,), rules=tuple(RULES)), self._session)
        (torch,) = torch_set.names
        # Reading all packages that are only Python code would take minutes for a plan; few use what a torch lacks.
        if torch_set.target(wheel, torch).target.is_python and not torch_set.misses_names(wheel, torch):
            return None, ()
        results = torch_set.check(wheel, torch, with_suggestions=False)
        return torch_set.package(wheel, torch, results), results

    def _describe_obstacle(self) -> str:
        group = self._search.find_obstacle()
        torch = f"torch {self.build}"
        newest = [self._search.candidates[name][0] for name in group]
        if len(group) == 1:
            why = self._representative_reason(self._search.candidates[group[0]])
            return f"no version of {group[0]} works with {torch}: {why}{self._describe_sources(group[0])}"
        conflicts = (self._find_conflict(item, entry) for item in newest for entry in newest if item is not entry)
        why = next(filter(None, conflicts), "each has one by itself")
        return f"no versions of {' and '.join(group)} that work with {torch} go together: {why}"

    def _describe_sources(self, name: str) -> str:
        """Return which versions the index has as source code alone: they would be built here, so they may work."""
        sources = [version for version in self._index.source_versions(name) if not version.is_prerelease]
        if not sources:
            return ""
        newest = max(sources)
        verb = "is" if len(sources) == 1 else "are"
        return (
            f"; {plural(len(sources), 'other version')} {verb} source code, to be built for that torch, the newest "
            f"{newest}: abiscan check {name}=={newest} checks its Python code"
        )

    def _representative_reason(self, candidates: Sequence[Candidate]) -> str:
        """Return the reason of the newest version that was worth a look."""
        looked_at = [candidate for candidate in candidates if not candidate.unfit]
        newest = next(
            (candidate for candidate in looked_at if not self._exclude_unread(candidate)), (*looked_at, *candidates)[0]
        )
        return f"{newest.version}: {self._find_reason(newest)}"


def _variant_processors(session: Session, index: Index) -> tuple[Cpu, ...]:
    """Return the processors that variants have to be for: those that the user names, or this one, if it is for this
    system.
    """
    named = hardware_of((), None, session.cpus).cpus
    native = native_cpu() if index.system == System.of(index.system.python) else None
    return named or ((native,) if native else ())


def form_opinion(package: PackageResult | None, results: Sequence[Result]) -> Opinion:
    """Return what the verdict on a package means for a user who wants to install it.

    A package that goes on without a library counts as working if that library needs others that are not there, such as
    those of a GPU on a torch for CPUs. So does one that goes on without a submodule, which few of its users may import.
    """
    if package is None:
        failing = [result for result in results if result.verdict is not Verdict.LOADS]
        return Opinion(reason=_quote_result(failing[0])) if failing else Opinion()
    match package.verdict:
        case PackageVerdict.WORKS:
            return Opinion()
        case PackageVerdict.WORKS_WITHOUT if all(_is_absent(item.file, results) for item in package.without):
            return Opinion(note=package.summary)
        # Something may fail on an unknown machine; excluding that would exclude too much.
        case PackageVerdict.UNKNOWN if not _certainly_failing(package):
            return Opinion(note=package.summary.removeprefix("unknown - "), proven=False)
        case _:
            causes = (package.error.cause if package.error else None, *(item.error for item in package.without))
            cause = next(filter(None, causes), None)
            return Opinion(reason=f"{package.summary}; {cause}" if cause else package.summary)


def _certainly_failing(package: PackageResult) -> bool:
    """Whether a library that it may use does not load, for another reason than libraries that are not here."""
    doubtful = [
        library for library in package.libraries if library.used is not False and library.verdict is not Verdict.LOADS
    ]
    return bool(doubtful) and not package.lacking


def _is_absent(file: str | None, results: Sequence[Result]) -> bool:
    """Whether all that is wrong with a library is that one it needs is not there."""
    findings = [finding for result in results if result.path == file for finding in result.findings]
    return {finding.rule for finding in findings if finding.effect is not Effect.NOTE} == {"missing-library"}


def _quote_result(result: Result) -> str:
    return str(result.predicted_error or next(iter(result.gaps), result.verdict.value))
