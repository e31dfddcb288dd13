"""The JSON document of ``abiscan check``, and a line of ``abiscan survey``; other documents share parts of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, TypeVar

from msgspec import UNSET, UnsetType

from abiscan.findings import Confidence, Effect, Finding
from abiscan.models.model import ModelFormat
from abiscan.results.cpus import CpuJson
from abiscan.results.document import JsonObject
from abiscan.results.fields import Distinct, RuleName, Sha256, Text
from abiscan.results.model import ModelOperatorJson
from abiscan.results.needs import VersionNeeds
from abiscan.results.package import (
    ImportFailure,
    ModuleResult,
    MostLikely,
    PackageResult,
    PackageVerdict,
    UsedLibraryJson,
    VerdictCondition,
)
from abiscan.results.rule_page import page_of
from abiscan.results.unchecked import Unchecked
from abiscan.results.verdict import PredictedError, Verdict

_Finding = TypeVar("_Finding", bound="FindingJson")


class EvidenceJson(JsonObject, frozen=True, kw_only=True):
    """One piece of evidence for a finding.

    :ivar since: the first release of torch that has the name; left out where it is in the oldest one
    :ivar until: the last release of torch that has the name; left out where it is in the newest one
    """

    subject: str
    readable: str | None
    object: str | None
    instead: str | None
    since: str | None = None
    until: str | None = None


class FindingJson(JsonObject, frozen=True, kw_only=True):
    """One problem, with all its evidence.

    :ivar page: the page of the rule in the documentation of abiscan
    """

    rule: RuleName
    effect: Effect
    message: Text
    evidence: Sequence[EvidenceJson]
    fix: Text
    says: str | None
    symptom: str | None
    confidence: Literal["possible"] | UnsetType = UNSET
    page: str


class SuppressedJson(FindingJson, frozen=True, kw_only=True):
    """A finding that the user accepts."""

    reason: Text
    source: str | None


class GapJson(JsonObject, frozen=True, kw_only=True):
    """Something that could not be analysed."""

    stage: str
    reason: str
    expected: bool = False
    rules: Sequence[str] = ()


def finding_json(finding: Finding, form: type[_Finding] = FindingJson, **own: Any) -> _Finding:  # type: ignore[assignment]
    """Return what documents have of a finding.

    :param own: the fields of ``form`` that it has not
    """
    evidence = [EvidenceJson.of(evidence) for evidence in finding.evidence]
    confidence = UNSET if finding.confidence is Confidence.CERTAIN else finding.confidence.value
    return form.of(finding, evidence=evidence, confidence=confidence, page=page_of(finding.rule), **own)


class CallErrorJson(JsonObject, frozen=True, kw_only=True):
    """The error of a call that ends a program which starts."""

    how: Literal["aborts"]
    object: str | None
    message: Text
    signal: int | None = None
    exact: bool = True


class ResultJson(JsonObject, frozen=True, kw_only=True):
    """The result for one extension.

    :ivar machine: what it is built for: ``aarch64``, ``Windows on x86_64``
    :ivar named_system: there if the user named a system: its name
    :ivar before_torch: there if the import of an extension module raises an ImportError where torch is not imported
        before: its text
    """

    target: str
    path: str
    sha256: Sha256 | None
    torch: str | None
    torch_build: str | None
    torch_cuda: str | None
    verdict: Verdict
    predicted_error: PredictedError | None
    undefined_symbols: Distinct
    external: Distinct
    findings: Sequence[FindingJson]
    cpu: CpuJson | None
    needs: VersionNeeds
    gaps: Sequence[GapJson]
    suppressed: Sequence[SuppressedJson]
    other_builds: Mapping[str, Verdict] | UnsetType = UNSET
    call_error: CallErrorJson | UnsetType = UNSET
    before_torch: str | UnsetType = UNSET
    machine: str | None = None
    named_system: str | UnsetType = UNSET
    uses_torch: bool = True


class PackageResultJson(JsonObject, frozen=True, kw_only=True):
    """What is known of a package, or of a saved model.

    :ivar kind: there for a saved model, like the fields below, down to the warnings
    :ivar format: how the model was saved
    :ivar saved_by: the torch that saved the model, if the file names it
    :ivar fails_at: the call that fails, null if none does
    :ivar operators: the operators that the model calls
    :ivar classes: the custom classes that the model needs
    :ivar devices: the devices that the file names
    :ivar warnings: what torch prints as it loads the model, and goes on
    :ivar machine: what its libraries are built for: ``aarch64``, ``Windows on x86_64``; null if it has none, or several
    :ivar named_system: there if the user named a system: its name
    :ivar findings: findings about the package as a whole, such as its metadata
    """

    target: str
    name: Text
    version: str | None
    torch: str | None
    torch_build: str | None
    module: str | None
    verdict: PackageVerdict
    error: ImportFailure | None
    built_for: Sequence[str]
    libraries: Sequence[UsedLibraryJson]
    modules: Sequence[ModuleResult]
    lost_modules: Sequence[str]
    missing_operators: Distinct
    lacking: Sequence[str]
    not_installed: Sequence[str]
    conditions: Sequence[VerdictCondition]
    undecided: Sequence[str]
    most_likely: MostLikely | None
    gaps: Sequence[str]
    kind: Literal["model"] | UnsetType = UNSET
    format: ModelFormat | UnsetType = UNSET
    saved_by: str | UnsetType | None = UNSET
    fails_at: str | UnsetType | None = UNSET
    operators: Sequence[ModelOperatorJson] | UnsetType = UNSET
    classes: Sequence[str] | UnsetType = UNSET
    devices: Sequence[str] | UnsetType = UNSET
    warnings: Sequence[str] | UnsetType = UNSET
    needs: Sequence[str] = ()
    other_builds: Mapping[str, PackageVerdict] | UnsetType = UNSET
    findings: Sequence[FindingJson]
    machine: str | None = None
    named_system: str | UnsetType = UNSET


def package_result_json(package: PackageResult) -> PackageResultJson:
    """Return what documents have of the result for a package."""
    model = package.model
    of_model = {name: getattr(model, name, UNSET) for name in _MODEL_FIELDS}
    if model is not None:
        of_model |= {"kind": "model", "operators": [ModelOperatorJson.of(operator) for operator in model.operators]}
    return PackageResultJson.of(
        package,
        libraries=[UsedLibraryJson.of(library) for library in package.libraries],
        gaps=(*package.gaps, *([package.unread] if package.unread else [])),
        **of_model,
        other_builds=package.other_builds or UNSET,
        findings=[finding_json(finding) for finding in package.own_findings],
        named_system=package.named_system or UNSET,
    )


_MODEL_FIELDS: Final = ("kind", "format", "saved_by", "fails_at", "operators", "classes", "devices", "warnings")


class SystemJson(JsonObject, frozen=True, kw_only=True):
    """The system that ``--system`` names.

    :ivar name: as the user named it
    :ivar glibc: its version
    :ivar libstdcxx: N of the newest GLIBCXX_N
    :ivar cxxabi: N of the newest CXXABI_N
    :ivar libgcc: N of the newest GCC_N
    :ivar zlib: N of the newest ZLIB_N
    """

    name: str
    glibc: str | None
    libstdcxx: str | None
    cxxabi: str | None
    libgcc: str | None
    zlib: str | None


class ReportJson(JsonObject, frozen=True, kw_only=True):
    """The document of ``abiscan check``."""

    packages: Sequence[PackageResultJson]
    results: Sequence[ResultJson]
    unchecked: Sequence[Unchecked]
    system: SystemJson | UnsetType = UNSET


_Answer: TypeAlias = Literal[
    "works", "works-without", "corrupts", "import-fails", "unknown", "loads", "fails", "unreadable", "no-extension"
]


class SurveyJson(JsonObject, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of what ``abiscan survey`` writes.

    :ivar target: as the user, a folder or a list named it
    :ivar sha256: of the target; null if it is not one file, or was not read
    :ivar verdict: that on the package, or the worst on the files of a target that is none
    :ivar exit_code: that of abiscan check for this target and torch
    :ivar package: as in ``packages`` of abiscan check
    :ivar results: as in abiscan check
    :ivar unchecked: why there is no answer
    """

    target: Text
    sha256: Sha256 | None
    torch: Text
    verdict: _Answer
    exit_code: Literal[0, 1, 2, 3]
    package: PackageResultJson | None
    results: Sequence[ResultJson]
    unchecked: Unchecked | None
