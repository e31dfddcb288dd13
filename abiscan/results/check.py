"""The result of ``abiscan check``. Its JSON Schema is ``schema/check-v1.json``."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from abiscan.cpu.needs import CpuNeeds
from abiscan.findings import METADATA_RULES, Effect, Finding
from abiscan.gaps import Gap
from abiscan.inputs.kinds import TargetKind
from abiscan.results.document import Document, plain
from abiscan.results.needs import NO_NEEDS, VersionNeeds
from abiscan.results.package import PackageResult, PackageVerdict, UsedLibrary
from abiscan.results.unchecked import Unchecked, exit_code_of
from abiscan.results.verdict import PredictedError, Verdict, torch_in_words

if TYPE_CHECKING:
    from abiscan.results.answers import ReportAnswer
    from abiscan.results.check_document import ReportJson, ResultJson


class Suppressed(Struct, frozen=True, kw_only=True):
    """A finding that the user accepts: it is shown, but does not count as a failure.

    :ivar reason: the user's own, or that the finding is in the baseline
    :ivar source: the file that accepts it
    """

    finding: Finding
    reason: str
    source: str | None = None


class Result(Struct, frozen=True, kw_only=True):
    """The result for one extension. The verdict is about the load, even if findings are suppressed.

    :ivar target: what the user named
    :ivar path: the extension, relative to the target
    :ivar torch: public version of the torch, None if unknown
    :ivar torch_build: the same with its local version label
    :ivar machine: what it is built for: ``aarch64``, ``Windows on x86_64``; None if it cannot be read
    :ivar named_system: the system that the user named, None for this one or any
    :ivar torch_cuda: the major version of CUDA that this torch was built for
    :ivar suppressed: findings that are in the baseline or that the configuration suppresses: they do not fail the check
    :ivar other_builds: the verdicts on other builds of this release, where a release number was asked for and they
        differ
    :ivar call_error: of a program that starts: the error of a call that ends it, the first in the order of its linkage
        table
    :ivar uses_torch: false: neither it nor what it brings along uses torch
    :ivar kind: what the target is
    :ivar needs: the newest symbol versions that it needs of the system
    :ivar here: whether those were compared with the libraries of this machine
    :ivar before_torch: what the import of an extension module raises where torch is not imported before; None if
        nothing, or if users do not import it by itself
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
    needs: VersionNeeds = NO_NEEDS
    here: bool = False
    before_torch: str | None = None
    machine: str | None = None
    named_system: str | None = None

    def __str__(self) -> str:
        error = f" - {self.predicted_error.line}" if self.predicted_error else ""
        error += f", until a call fails - {self.call_error.line}" if self.call_error else ""
        aside = "" if self.uses_torch else ", but does not use torch"
        return f"{self.path}: {self.verdict.value} on {self.torch_name}{error}{aside}"

    @property
    def torch_name(self) -> str:
        """The torch in words, with the machine and the system where they are not these."""
        return torch_in_words(self.torch_build, self.machine, self.named_system)

    def is_failure(self, fail_on: Effect, *, strict: bool) -> bool:
        """Whether it has a finding at or above ``fail_on``, or with ``strict`` any gap that was not expected."""
        return (strict and bool(self.unexpected_gaps)) or any(
            finding.effect.severity >= fail_on.severity for finding in self.findings
        )

    @property
    def is_broken(self) -> bool:
        """Whether it fails or corrupts memory here; what its wheel states about other systems does not count."""
        return any(
            finding.effect.severity >= Effect.CORRUPTS.severity and finding.rule not in METADATA_RULES
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


class Report(Document, frozen=True, kw_only=True):
    """All results of a run: those of packages, and of each file. A file that belongs to no package stands alone.

    As text: a verdict for each, with the predicted error.

    :ivar packages: the targets that are packages, each on each torch; none with --each-file
    :ivar unchecked: the targets without results
    :ivar system: the system that the user named, with the newest versions of its libraries; only with ``--system``
    """

    results: tuple[Result, ...]
    packages: tuple[PackageResult, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()
    system: Mapping[str, str | None] | None = None

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.packages, *self.results, *self.unchecked)))

    @property
    def answers(self) -> tuple[ReportAnswer, ...]:
        """One for each thing that was asked about: those for packages, then those for files that belong to none."""
        from abiscan.results.answers import answers_of

        return tuple(answers_of(self))

    def to_sarif(self) -> str:
        """Return the report as a SARIF 2.1.0 document, for code scanning."""
        from abiscan.report.sarif import render_sarif
        from abiscan.rules import EVERY_RULE

        return render_sarif(self, EVERY_RULE)

    def to_junit(self, fail_on: Effect = Effect.CORRUPTS, *, strict: bool = False) -> str:
        """Return the report as a document of JUnit, for build servers; the parameters are those of ``exit_code``."""
        from abiscan.report.junit import render_junit

        return render_junit(self, fail_on, strict=strict)

    def to_markdown(self) -> str:
        """Return a table of verdicts, then the findings."""
        from abiscan.report.markdown import render_markdown

        return render_markdown(self)

    def to_frame(self) -> Any:
        """Return a ``pandas.DataFrame`` with a row for each answer.

        :raises ImportError: pandas is not installed
        """
        import pandas as pd

        fields = ("name", "torch", "machine", "verdict", "error", "cause", "fix")
        rows = [{field: getattr(entry, field) for field in fields} for entry in self.answers]
        return pd.DataFrame(rows, columns=fields)

    def _repr_html_(self) -> str:
        from abiscan.report.notebook import report_table

        return report_table(self)

    @property
    def alone(self) -> tuple[Result, ...]:
        """The results of files that belong to none of the packages."""
        packages = {_place_of(package) for package in self.packages}
        return tuple(result for result in self.results if _place_of(result) not in packages)

    def files(self, package: PackageResult) -> tuple[tuple[UsedLibrary, Result], ...]:
        """Return the libraries of a package that were checked, each with its result."""
        place = _place_of(package)
        by_path = {result.path: result for result in self.results if _place_of(result) == place}
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
        if strict and (package.gaps or package.unmet or package.verdict is PackageVerdict.UNKNOWN):
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

    def on_system(self) -> Report:
        """Return the report with the system that the user named in all of its results."""
        if self.system is None:
            return self
        name = self.system["name"]
        return replace(
            self,
            results=tuple(replace(result, named_system=name) for result in self.results),
            packages=tuple(replace(package, named_system=name) for package in self.packages),
        )

    def filled(self) -> Report:
        """Return the report with the findings of the libraries that each package uses among those of the package, and
        with what tells builds of one version apart.
        """
        builds = distinguishing_parts(self.packages)
        # dict.fromkeys: findings are frozen and hashable, and one that two libraries share is listed once.
        packages = tuple(
            replace(
                package,
                findings=tuple(dict.fromkeys((*package.own_findings, *self._of_libraries(package)))),
                apart=builds.get(package.target, ""),
            )
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

    def _contents(self) -> ReportJson:
        return report_json(self)

    def document(self) -> dict[str, Any]:
        """Return the contents of the JSON document: ``packages``, ``results`` and ``unchecked``."""
        return plain(self._contents())


class _Build(Protocol):
    """A package, or its row of a matrix."""

    @property
    def target(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str | None: ...


def joined(reports: Sequence[Report]) -> Report:
    """Return several reports on the same targets as one; what is in an earlier one is not repeated."""
    if len(reports) == 1:
        return reports[0]
    results = {(*_place_of(result), result.path): result for report in reversed(reports) for result in report.results}
    packages = {_place_of(package): package for report in reversed(reports) for package in report.packages}
    return Report(
        results=tuple(
            result
            for report in reports
            for result in report.results
            if results.pop((*_place_of(result), result.path), None)
        ),
        packages=tuple(
            package for report in reports for package in report.packages if packages.pop(_place_of(package), None)
        ),
        unchecked=tuple(dict.fromkeys(target for report in reports for target in report.unchecked)),
        system=reports[0].system if all(report.system == reports[0].system for report in reports) else None,
    ).filled()


def _place_of(item: Result | PackageResult) -> tuple[str, str | None, str | None]:
    """Return what one target is checked on: a run on several torches has a package once for each."""
    return item.target, item.torch_build, item.named_system


def distinguishing_parts(packages: Iterable[_Build]) -> dict[str, str]:
    """Return, by target, what tells builds of one version of a package apart: those parts of their names."""
    versions: dict[tuple[str, str | None], dict[str, Sequence[str]]] = {}
    for package in packages:
        parts = posixpath.basename(package.target).removesuffix(".whl").split("-")
        versions.setdefault((package.name, package.version), {})[package.target] = parts
    builds = [builds for builds in versions.values() if len(builds) > 1]
    return {
        target: "-".join(part for part in parts if any(part not in others for others in of_version.values()))
        or posixpath.dirname(target)
        for of_version in builds
        for target, parts in of_version.items()
    }


def report_json(report: Report) -> ReportJson:
    """Return what documents have of a report."""
    # Only JSON needs these types: a check that prints text does not wait for them.
    from abiscan.results.check_document import ReportJson, SystemJson, package_result_json

    return ReportJson(
        packages=[package_result_json(package) for package in report.packages],
        results=[_result_json(result) for result in report.results],
        unchecked=report.unchecked,
        system=msgspec.convert(report.system, SystemJson) if report.system else UNSET,
    )


def _result_json(result: Result) -> ResultJson:
    from abiscan.results import check_document as form
    from abiscan.results.cpus import cpu_json

    error = result.call_error
    return form.ResultJson.of(
        result,
        findings=[form.finding_json(finding) for finding in result.findings],
        cpu=result.cpu and cpu_json(result.cpu),
        gaps=[form.GapJson.of(gap) for gap in result.gaps],
        suppressed=[
            form.finding_json(item.finding, form.SuppressedJson, reason=item.reason, source=item.source)
            for item in result.suppressed
        ],
        other_builds=result.other_builds or UNSET,
        before_torch=result.before_torch or UNSET,
        named_system=result.named_system or UNSET,
        call_error=form.CallErrorJson.of(error, how=error.how.value) if error else UNSET,
    )
