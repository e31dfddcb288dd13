"""The result of ``abiscan check``. Its JSON Schema is ``schema/check-v1.json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from abiscan.findings import OF_METADATA, Effect, Evidence, Finding
from abiscan.gaps import Gap
from abiscan.inputs.kinds import TargetKind
from abiscan.results.cpu import CpuNeeds
from abiscan.results.document import Document, encode_plain, give_shape
from abiscan.results.package import PackageResult, PackageVerdict, UsedLibrary
from abiscan.results.rule_page import page_of
from abiscan.results.unchecked import Unchecked, exit_code_of
from abiscan.results.verdict import How, Verdict
from abiscan.words import first_line

# The shapes of types that are defined below this room, which know nothing of JSON.
give_shape("subject readable object instead since? until?")(Evidence)
give_shape(
    "rule effect message evidence fix says symptom confidence? page", page=lambda finding: page_of(finding.rule)
)(Finding)


@give_shape("how object message signal? exact?")
class PredictedError(Struct, frozen=True, kw_only=True):
    """The first error of the load: ``object`` is the base name that its text begins with, ``message`` is the rest.

    ``exact`` is false if a part of the text cannot be predicted; a ``?`` replaces that part. ``signal`` is
    the number of the one that ends the process, where that is known.
    """

    how: How
    object: str | None
    message: str
    exact: bool = True
    signal: int | None = None

    def __str__(self) -> str:
        return f"{self.object}: {self.message}" if self.object else self.message

    @property
    def line(self) -> str:
        """The error in one line."""
        first = first_line(self.message)
        return f"{self.object}: {first}" if self.object else first


give_shape("stage reason expected? rules?")(Gap)


@give_shape("*finding reason source")
class Suppressed(Struct, frozen=True, kw_only=True):
    """A finding that the user accepts: it is shown, but does not count as a failure.

    ``reason`` is the user's own, or says that the finding is in the baseline; ``source`` is the file that says so.
    """

    finding: Finding
    reason: str
    source: str | None = None


@give_shape(
    "target path sha256 torch torch_build torch_cuda verdict predicted_error undefined_symbols external findings cpu"
    " gaps suppressed other_builds? call_error? uses_torch?"
)
class Result(Struct, frozen=True, kw_only=True):
    """The result for one extension. The verdict is about the load, even if findings are suppressed.

    ``uses_torch`` is false for a shared object that was named, but has nothing to do with torch. ``other_builds`` are
    the verdicts on other builds of the same release, by their full version, where a release number was asked for and
    they differ. ``kind`` is what the target is, ``path`` where the extension lies in it. ``call_error`` is the error of
    a call that ends a program which starts: the first that it lacks, in the order of its linkage table. ``cpu`` is what
    the load needs of the processor, None if that was not read.
    """

    target: str
    path: str
    sha256: str | None
    torch: str | None
    torch_build: str | None
    verdict: Verdict
    predicted_error: PredictedError | None
    undefined_symbols: tuple[str, ...]
    external: tuple[str, ...]
    findings: tuple[Finding, ...]
    gaps: tuple[Gap, ...]
    suppressed: tuple[Suppressed, ...] = ()
    uses_torch: bool = True
    torch_cuda: str | None = None
    other_builds: Mapping[str, Verdict] = field(default_factory=dict)
    kind: TargetKind = TargetKind.LIBRARY
    call_error: PredictedError | None = None
    cpu: CpuNeeds | None = None

    def __str__(self) -> str:
        torch = f"torch {self.torch_build}" if self.torch_build else "this torch"
        error = f" - {self.predicted_error.line}" if self.predicted_error else ""
        error += f", until a call fails - {self.call_error.line}" if self.call_error else ""
        aside = "" if self.uses_torch else ", but does not use torch"
        return f"{self.path}: {self.verdict.value} on {torch}{error}{aside}"

    def is_failure(self, fail_on: Effect, *, strict: bool) -> bool:
        """Whether it has a finding at or above ``fail_on``, or with ``strict`` any gap that was not expected."""
        return (strict and bool(self.unexpected_gaps)) or any(
            finding.effect.severity >= fail_on.severity for finding in self.findings
        )

    @property
    def is_broken(self) -> bool:
        """Whether it fails or corrupts memory here; what its wheel states about other systems does not count."""
        return any(
            finding.effect.severity >= Effect.CORRUPTS.severity and finding.rule not in OF_METADATA
            for finding in self.findings
        )

    @property
    def elsewhere(self) -> str:
        """The verdicts on other builds of the release, where they differ; empty if none does."""
        return ", ".join(f"{verdict.value} on torch {build}" for build, verdict in self.other_builds.items())

    @property
    def unexpected_gaps(self) -> tuple[Gap, ...]:
        """The gaps that ``--strict`` counts."""
        return tuple(gap for gap in self.gaps if not gap.expected)


@give_shape("packages results unchecked")
class Report(Document, frozen=True, kw_only=True):
    """All results of a run: those of ``packages``, and of each file. A file that belongs to no package stands alone.

    ``unchecked`` are the targets without results. As text: a verdict for each, with the predicted error.
    """

    results: tuple[Result, ...]
    packages: tuple[PackageResult, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.packages, *self.results, *self.unchecked)))

    @property
    def alone(self) -> tuple[Result, ...]:
        """The results of files that belong to none of the packages."""
        # With the torch: a run on several torches has a package once for each.
        targets = {(package.target, package.torch_build) for package in self.packages}
        return tuple(result for result in self.results if (result.target, result.torch_build) not in targets)

    def files(self, package: PackageResult) -> tuple[tuple[UsedLibrary, Result], ...]:
        """Return the libraries of a package that were checked, each with its result."""
        target = package.target, package.torch_build
        by_path = {result.path: result for result in self.results if (result.target, result.torch_build) == target}
        return tuple(
            (library, by_path[library.file])
            for library in package.libraries
            if library.file and library.file in by_path
        )

    def is_failure(self, package: PackageResult, fail_on: Effect, *, strict: bool) -> bool:
        """Whether a package, or with ``strict`` any gap, makes the exit code 1.

        What keeps a library from loading counts only if it keeps the package from being imported, and if not every
        finding about it is suppressed.
        """
        if strict and (package.gaps or package.verdict is PackageVerdict.UNKNOWN):
            return True
        # A library whose use depends on something unknown counts as used: silence about it could be a false calm.
        used = [result for library, result in self.files(package) if library.used is not False]
        broken = [result for result in used if result.verdict in (Verdict.FAILS, Verdict.CORRUPTS)]
        # The package fails because its libraries do. If all findings about those are suppressed, the user has accepted
        # exactly that, and the package must not fail in their place.
        counts = not broken or any(result.is_broken for result in broken)
        if counts and package.effect and package.effect.severity >= fail_on.severity:
            return True
        # A library that does not load has been counted above, by what that does to the import.
        return any(finding.effect.severity >= fail_on.severity for finding in package.own_findings) or any(
            result.is_failure(fail_on, strict=strict) for result in used if result.verdict is not Verdict.FAILS
        )

    def filled(self) -> Report:
        """Return the report with the findings of the libraries that each package uses among those of the package."""
        # dict.fromkeys: findings are frozen and hashable, and one that two libraries share is listed once.
        packages = tuple(
            replace(package, findings=tuple(dict.fromkeys((*package.own_findings, *self._of_libraries(package)))))
            for package in self.packages
        )
        return replace(self, packages=packages)

    def _of_libraries(self, package: PackageResult) -> Iterator[Finding]:
        for library, result in self.files(package):
            if library.used is not False:
                yield from result.findings

    def __repr__(self) -> str:
        return f"Report({len(self.packages)} packages, {len(self.results)} results, {len(self.unchecked)} unchecked)"

    def exit_code(self, fail_on: Effect = Effect.CORRUPTS, *, strict: bool = False) -> int:
        """Return the worst of all targets, where 1 is worse than 2, and 2 worse than 3.

        1: a finding at or above ``fail_on``, or with ``strict`` any gap; 2: a target cannot be read; 3: a verdict is
        unknown; 0 otherwise.
        """
        return exit_code_of(
            failed=any(result.is_failure(fail_on, strict=strict) for result in self.alone)
            or any(self.is_failure(package, fail_on, strict=strict) for package in self.packages),
            unknown=any(result.verdict is Verdict.UNKNOWN for result in self.alone)
            or any(package.verdict is PackageVerdict.UNKNOWN for package in self.packages),
            unchecked=self.unchecked,
        )

    def document(self) -> dict[str, Any]:
        """Return the contents of the JSON document: ``packages``, ``results`` and ``unchecked``."""
        return encode_plain(self)  # type: ignore[no-any-return]
