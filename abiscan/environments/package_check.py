"""One package checked on one torch, as ``check`` does it: the worst result, and which torch it would work with."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from packaging.utils import canonicalize_name

from abiscan.environments.model import Unmet
from abiscan.errors import NoExtensionError
from abiscan.extension.built_for import span
from abiscan.extension.examined import examine
from abiscan.findings import Effect, Finding
from abiscan.gpu.devices import Hardware
from abiscan.inputs.files import Wheel
from abiscan.inputs.packages import Distribution, FetchedWheel, is_library
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source
from abiscan.inputs.version import TorchVersion
from abiscan.pipelines.check import check_targets
from abiscan.python.package.model import Raised
from abiscan.results.check import Result
from abiscan.results.package import PackageResult, PackageVerdict
from abiscan.results.verdict import Verdict
from abiscan.rules import RULES
from abiscan.rules.symbols import KINDS
from abiscan.torches import embedded
from abiscan.torches.torch import ReleaseNumber, TorchChoice
from abiscan.verdict.systems import system_of
from abiscan.verdict.torch_set import CheckRequest, TorchSet

if TYPE_CHECKING:
    from abiscan.verdict.other_imports import OtherImports

# How many of the candidate releases are tried: each takes as long as a check, and users need only one.
_TRIED: Final = 6


class Fitness(enum.Enum):
    """What becomes of a package on a torch."""

    WORKS = "works"
    FAILS = "fails"
    UNKNOWN = "unknown"


# Users of a package that works without a part of it are told by the package itself, if at all.
_FITS: Final = {
    PackageVerdict.IMPORT_FAILS: Fitness.FAILS,
    PackageVerdict.CORRUPTS: Fitness.FAILS,
    PackageVerdict.UNKNOWN: Fitness.UNKNOWN,
}


class CheckedPackage(Struct, frozen=True, kw_only=True):
    """The results for the extensions of one package, the worst first, and the verdict on it if it is one.

    A package that is Python code alone has no results.
    """

    results: tuple[Result, ...]
    package: PackageResult | None = None

    @property
    def fitness(self) -> Fitness:
        """Whether it works: the one question that every hook acts on. A target that is no package is its files."""
        if self.package is not None:
            return _FITS.get(self.package.verdict, Fitness.WORKS)
        if self.failing:
            return Fitness.FAILS
        # A failure outweighs a gap: one extension that does not load is enough to know the answer.
        unread = any(result.verdict is Verdict.UNKNOWN for result in self.results)
        return Fitness.UNKNOWN if unread else Fitness.WORKS

    @property
    def failing(self) -> tuple[Result, ...]:
        """The results of extensions that do not load, or are not safe to use."""
        return tuple(result for result in self.results if result.is_broken)

    @property
    def failing_rules(self) -> frozenset[str]:
        """The rules that these extensions violate, without those that only take note of something."""
        return frozenset(
            finding.rule for result in self.failing for finding in result.findings if finding.effect is not Effect.NOTE
        )

    @property
    def torch_kind(self) -> str | None:
        """The kind of torch whose libraries they lack: ``CUDA``; None if they lack none."""
        missing = (
            evidence.subject
            for result in self.failing
            for finding in result.findings
            if finding.rule == "missing-library" and finding.effect is not Effect.NOTE
            for evidence in finding.evidence
        )
        return next((kind for name in missing for word, kind in KINDS if word in name), None)

    @property
    def error(self) -> str:
        """What users see when they import the package; else the loader's error for the worst extension."""
        if self.package is not None:
            return str(self.package.error or self.package.summary)
        worst = self.results[0]
        if worst.predicted_error:
            return str(worst.predicted_error)
        finding = worst_finding(worst)
        return finding.message if finding else next((gap.reason for gap in worst.gaps), "could not be checked")


class Problem(Struct, frozen=True, kw_only=True):
    """A package that will not work with the torch that will be there.

    ``source`` is the wheel that would be installed, or what is installed already. ``other_change`` is what else would
    change, if the package fails for that and not for the torch.

    :ivar unmet: the requirements that are not met, its own and those of what it requires
    :ivar requires: the canonical names of everything installed that it requires, directly or not
    :ivar cause: the distribution that it fails for, which fails itself
    :ivar uses_torch: whether another torch can make a difference
    :ivar other: a requirement of what it needs although its metadata do not say so: the numpy that it was compiled for,
        or something that it requires; the release of a distribution that still has a module
    """

    name: str
    version: str
    source: Source
    checked_package: CheckedPackage
    other_change: str | None = None
    unmet: tuple[Unmet, ...] = ()
    requires: frozenset[str] = frozenset()
    cause: str | None = None
    uses_torch: bool = True
    other: str | None = None

    @property
    def key(self) -> str:
        """Its canonical name."""
        return canonicalize_name(self.name)

    @property
    def lacks_nothing(self) -> bool:
        """Whether everything that it requires is there, in some version."""
        return all(item.there is not None for item in self.unmet)

    def __str__(self) -> str:
        installed = "the installed " if isinstance(self.source, Distribution) else ""
        return f"{installed}{self.name} {self.version}"


def check_package(
    source: Source,
    choice: TorchChoice,
    session: Session,
    others: Sequence[Source] = (),
    *,
    import_errors: Mapping[str, Raised] | None = None,
    is_sound: Callable[[str, str | None], bool] | None = None,
    hardware: Hardware | None = None,
    planned: tuple[tuple[str, str | None], ...] = (),
    any_package: bool = False,
    imports: dict[Hashable, OtherImports] | None = None,
) -> CheckedPackage | None:
    """Check one package, as ``abiscan check`` does; None if it has nothing to do with torch. What would have to be
    there for it is not looked for: that is known.

    :param others: packages that will be installed with it
    :param import_errors: what the imports of other packages are known to raise, by their modules
    :param is_sound: tells of modules of other packages, and of names from them, whether the import certainly works
    :param hardware: the GPUs and processors that it is to run on as well; by default the processors of the session
    :param planned: the versions of distributions that are to be installed alongside it: see ``Surroundings``
    :param any_package: whether it is read if it is Python code alone that does not use torch
    :param imports: what checks in one environment share: see ``CheckRequest``
    :raises InputError: it cannot be read
    """
    request = CheckRequest(
        targets=(source,),
        torches=(choice,),
        rules=tuple(RULES),
        neighbours=tuple(others),
        import_errors=import_errors or {},
        is_sound=is_sound,
        hardware=hardware or Hardware(),
        planned=planned,
        any_package=any_package,
        with_conditions=False,
        others={} if imports is None else imports,
    )
    report = check_targets(request, session)
    if not report.results and not report.packages:
        return None
    results = tuple(sorted(report.results, key=_rank_result, reverse=True))
    return CheckedPackage(results=results, package=next(iter(report.packages), None))


def may_fail(source: Source, choice: TorchChoice, session: Session) -> bool:
    """Whether a look at a package leaves it open that another torch breaks it: Python code that uses no name which
    that torch lacks need not be followed.

    :raises InputError: it cannot be read
    """
    if not is_python_alone(source):
        return True
    torches = TorchSet(CheckRequest(targets=(source,), torches=(choice,)), session)
    try:
        return torches.misses_names(source, torches.names[0])
    except NoExtensionError:  # it has nothing to do with torch
        return False


def is_python_alone(source: Source) -> bool:
    """Whether a package is Python code alone, by the names of its files; what its own name says does not count.

    :raises InputError: it cannot be read
    """
    if isinstance(source, Distribution):
        return not source.objects and not source.images
    return isinstance(source, FetchedWheel) and not any(map(is_library, Wheel(source.path).list_members()))


class MainCause(Struct, frozen=True, kw_only=True):
    """Why a package fails, before what follows from it.

    ``text`` continues a sentence about the package: ``was built for torch 2.5.1``; ``torch_kind`` is the kind of torch
    that it lacks (``CUDA``), if that is all that is wrong.
    """

    text: str
    torch_kind: str | None = None


def find_main_cause(
    source: Source, checked_package: CheckedPackage, torch: str | None, session: Session
) -> MainCause | None:
    """Return the main cause of a failure; None if the error itself is all that is known.

    :param source: what was checked
    :param torch: the full version of the torch that it was checked on
    """
    # The package itself may be sound, so which torch it was built for explains nothing.
    if not checked_package.results or (
        checked_package.package is not None and checked_package.package.fails_for_another
    ):
        return None
    built_for = _built_for(source, checked_package, session)
    here = TorchVersion.parse(torch) if torch else None
    if built_for and here is not None and not _may_be_for(here.of_release, built_for):
        return MainCause(text=f"was built for {span(built_for)}")
    kind = checked_package.torch_kind
    if kind is not None and checked_package.failing_rules == {"missing-library"}:
        return MainCause(text=f"was built for a torch with {kind}, and this one has none", torch_kind=kind)
    return None


def _built_for(source: Source, checked_package: CheckedPackage, session: Session) -> Sequence[TorchVersion]:
    """Return the releases that what fails was built for, oldest first; empty if unknown."""
    if checked_package.package is not None and checked_package.package.built_for:
        return tuple(map(TorchVersion, checked_package.package.built_for))
    failing = {result.path for result in checked_package.failing}
    origins = (origin.releases for path, origin in examine(source, session).origins.items() if path in failing)
    # Of several failing extensions, the one whose origin is known best: with the fewest releases.
    return min(filter(None, origins), key=len, default=())


def _may_be_for(torch: TorchVersion, built_for: Sequence[TorchVersion]) -> bool:
    """Whether a torch may be what an extension was built for; nothing is known about torches newer than all others."""
    newest = embedded.versions()[-1]
    return torch in built_for or (torch > newest and newest in built_for)


def worst_finding(result: Result) -> Finding | None:
    """Return the most severe finding, the first if there are several."""
    return max(result.findings, key=lambda finding: finding.effect.severity, default=None)


def _rank_result(result: Result) -> tuple[int, int]:
    finding = worst_finding(result)
    return finding.effect.severity if finding else -1, result.verdict is Verdict.UNKNOWN


def list_fitting(source: Source, session: Session) -> tuple[str, ...]:
    """Return the embedded builds on which all extensions of a package load, newest first, by full version:
    ``2.8.0+cu128``; of Python code alone, those on which it can be imported.

    Only the newest few releases that export what the package imports are checked.

    :raises InputError: it cannot be read, or has no extension of torch
    """
    target = examine(source, session, python=True).target
    builds = system_of(target).builds_for(target)
    required = target.metadata.requires_torch if target.metadata else None
    releases = {release for release, _ in builds}
    # Metadata may exclude what the code would work with; if nothing is left, they are ignored.
    admitted = {release for release in releases if required is None or required.admits(release)} or releases
    tried = sorted(admitted, reverse=True)[:_TRIED]
    candidates = (build for release, build in sorted(builds, reverse=True) if release in tried)
    return tuple(build for build in candidates if _fits_build(source, build, session))


def _fits_build(source: Source, build: str, session: Session) -> bool:
    choice = ReleaseNumber(build)
    if not may_fail(source, choice, session):
        return True
    checked_package = check_package(source, choice, session)
    return checked_package is not None and checked_package.fitness is Fitness.WORKS
