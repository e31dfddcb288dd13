"""The result of ``abiscan matrix``: extensions by releases. Its JSON Schema is ``schema/matrix-v1.json``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from abiscan.extension.built_for import BuiltFor, Kind
from abiscan.findings import Effect
from abiscan.inputs.version import TorchVersion, number_of
from abiscan.results.check import Result
from abiscan.results.document import Document, JsonObject
from abiscan.results.fields import RuleName, Text
from abiscan.results.gpus import GpuRow, GpuRowJson, gpu_row_json
from abiscan.results.package import ImportFailure, PackageResult, PackageVerdict, VerdictCondition
from abiscan.results.stable import StableSummary, StableSummaryJson, summary_json
from abiscan.results.unchecked import Unchecked, exit_code_of
from abiscan.results.verdict import PredictedError, Verdict
from abiscan.words import ranges

_Release: TypeAlias = Text  # a release number, with its local version label if two builds are checked
_Releases: TypeAlias = Annotated[Sequence[TorchVersion], Meta(extra_json_schema={"uniqueItems": True})]


class CellJson(JsonObject, frozen=True, kw_only=True):
    """What the matrix has of an extension on a release.

    :ivar rules: rules with findings; if linking fails, the rules on registrations are not run
    :ivar torch_cuda: the major version of CUDA that this torch was built for
    """

    verdict: Verdict
    rules: Annotated[Sequence[RuleName], Meta(extra_json_schema={"uniqueItems": True})]
    torch_cuda: str | None
    predicted_error: PredictedError | None


class ClueJson(JsonObject, frozen=True, kw_only=True):
    """A clue to the torch that an extension was built for."""

    kind: Kind
    seen: Text
    releases: _Releases


class RowJson(JsonObject, frozen=True, kw_only=True):
    """One extension on all releases."""

    target: str
    path: str
    built_for: _Releases
    evidence: Sequence[ClueJson]
    declared: str | None
    cpu: str | None
    releases: Mapping[_Release, CellJson]


class ImportJson(JsonObject, frozen=True, kw_only=True):
    """What the matrix has of a package on a build of torch."""

    verdict: PackageVerdict
    error: ImportFailure | None
    conditions: Sequence[VerdictCondition]


class PackageCellJson(ImportJson, frozen=True, kw_only=True):
    """What the matrix has of a package on a release: the best of its builds, and each of them.

    :ivar rules: rules with findings about the package as a whole
    """

    rules: Annotated[Sequence[RuleName], Meta(extra_json_schema={"uniqueItems": True})]
    builds: Mapping[str, ImportJson]


class PackageRowJson(JsonObject, frozen=True, kw_only=True):
    """One package on all releases.

    :ivar declared: the requirement on torch in the metadata
    :ivar releases: by release number
    """

    target: str
    name: Text
    version: str | None
    declared: str | None
    releases: Mapping[str, PackageCellJson]


class SuggestionJson(JsonObject, frozen=True, kw_only=True):
    """What a target should require.

    :ivar target: what the user named
    :ivar requirement: the simplest one that, of the releases checked, admits those on which the whole target works;
        None if none
    """

    target: str
    requirement: Annotated[str, Meta(pattern="^torch[=<>]")] | None


class MatrixJson(JsonObject, frozen=True, kw_only=True):
    """The document of ``abiscan matrix``."""

    suggestions: Sequence[SuggestionJson]
    stable_abi: Sequence[StableSummaryJson]
    packages: Sequence[PackageRowJson]
    results: Sequence[RowJson]
    unchecked: Sequence[Unchecked]
    gpus: Sequence[GpuRowJson] | UnsetType = UNSET


class Row(Struct, frozen=True, kw_only=True):
    """One extension on all releases.

    :ivar path: the extension, relative to the target
    :ivar built_for: the releases it may have been built for, oldest first; empty if unknown
    :ivar declared: the requirement on torch in the metadata
    :ivar cpu: what its load needs of the processor (x86-64-v3); None if that is nothing, or was not read
    :ivar results: by release number, oldest first: those that exist for the machine of the extension
    """

    target: str
    path: str
    built_for: BuiltFor
    declared: str | None
    results: Mapping[str, Result]

    @property
    def cpu(self) -> str | None:
        """What its load needs of the processor: ``x86-64-v3``; None if that is nothing, or was not read."""
        needs = (result.cpu.summary for result in self.results.values() if result.cpu)
        return next(filter(None, needs), None)


class PackageRow(Struct, frozen=True, kw_only=True):
    """One package on all releases: as for ``Row``.

    :ivar apart: what tells it from other builds of its version; empty if there are none
    """

    target: str
    name: str
    version: str | None
    declared: str | None
    results: Mapping[str, PackageResult]
    apart: str = ""


class Column(Struct, frozen=True, kw_only=True):
    """One release: its number, and the names of the builds of it that were checked."""

    release: str
    builds: tuple[str, ...]


class Matrix(Document, frozen=True, kw_only=True):
    """All rows of a run, the ``releases`` that were checked, oldest first, and what to require.

    :ivar stable_abi: whether the files of each target are stable: see the document of abiscan stable
    :ivar packages: the targets that are packages; none with --each-file
    :ivar unchecked: the targets without results
    :ivar gpus: with --gpus or --gpu
    :ivar releases: those that were checked, oldest first: one with several builds is there once for each
    :ivar suggestions: for each target, the simplest requirement that admits exactly those of the releases on which the
        whole target works; None if there are none
    """

    rows: tuple[Row, ...]
    releases: tuple[str, ...]
    suggestions: Mapping[str, str | None]
    packages: tuple[PackageRow, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()
    stable_abi: Mapping[str, StableSummary] = field(default_factory=dict)
    gpus: tuple[GpuRow, ...] | None = None

    def _contents(self) -> MatrixJson:
        return MatrixJson(
            suggestions=[SuggestionJson(target=name, requirement=text) for name, text in self.suggestions.items()],
            stable_abi=[summary_json(target, summary) for target, summary in self.stable_abi.items()],
            packages=[_package_row_json(row, self.columns) for row in self.packages],
            results=[_row_json(row) for row in self.rows],
            unchecked=self.unchecked,
            gpus=UNSET if self.gpus is None else [gpu_row_json(row) for row in self.gpus],
        )

    @property
    def columns(self) -> tuple[Column, ...]:
        """The releases, oldest first; the builds of a release share a column."""
        builds: dict[str, list[str]] = {}
        for name in self.releases:
            builds.setdefault(number_of(name), []).append(name)
        return tuple(
            column
            for number, names in builds.items()
            for column in (
                [Column(release=number, builds=tuple(names))]
                # Builds share a column if their kinds tell them apart: CPU and CUDA do, two folders with one release do
                # not.
                if len({kind_of(name) for name in names}) == len(names)
                else [Column(release=name, builds=(name,)) for name in names]  # several torches on disk
            )
        )

    @property
    def targets(self) -> tuple[str, ...]:
        """Those with rows, of files or of packages, in order."""
        return tuple(dict.fromkeys([*(row.target for row in self.rows), *(row.target for row in self.packages)]))

    def package(self, target: str) -> PackageRow | None:
        """Return the row of the package that a target is; None if it is none."""
        return next((package for package in self.packages if package.target == target), None)

    @property
    def whole_rows(self) -> tuple[Row | PackageRow, ...]:
        """The packages, and the files that belong to none."""
        return (*self.packages, *(row for row in self.rows if self.package(row.target) is None))

    def to_frame(self) -> Any:
        """Return a ``pandas.DataFrame``: the verdicts by the names of rows and builds of torch; None without a build.

        :raises ImportError: pandas is not installed
        """
        import pandas as pd

        rows = self.whole_rows
        verdicts = [{name: result.verdict.value for name, result in row.results.items()} for row in rows]
        return pd.DataFrame(verdicts, index=[name_of_row(row) for row in rows], columns=list(self.releases))

    def _repr_html_(self) -> str:
        from abiscan.report.notebook import matrix_table

        return matrix_table(self)

    def __repr__(self) -> str:
        targets = len({row.target for row in self.rows})
        return f"Matrix({targets} targets, {len(self.releases)} releases, {len(self.unchecked)} unchecked)"

    def exit_code(self, fail_on: Effect = Effect.CORRUPTS, *, strict: bool = False) -> int:
        """Return the worst of all targets and releases, as ``Report.exit_code``. Of a release, its best build
        counts.
        """
        # The files of a package count through the package: it may work without some of them.
        alone = [row for row in self.rows if self.package(row.target) is None]
        results = [result for row in alone for result in row.results.values()]
        bests = [
            best
            for row in self.packages
            for column in self.columns
            if (best := best_of([row.results[name] for name in column.builds if name in row.results]))
        ]
        unknown = any(best.verdict is PackageVerdict.UNKNOWN for best in bests)
        return exit_code_of(
            failed=any(result.is_failure(fail_on, strict=strict) for result in results)
            or any(best.effect and best.effect.severity >= fail_on.severity for best in bests)
            or (strict and (unknown or any(map(has_condition, bests)))),
            unknown=unknown or any(result.verdict is Verdict.UNKNOWN for result in results),
            unchecked=self.unchecked,
        )


def _row_json(row: Row) -> RowJson:
    return RowJson.of(
        row,
        built_for=row.built_for.releases,
        evidence=[ClueJson.of(clue) for clue in row.built_for.clues],
        releases={release: CellJson.of(result, rules=rules_of(result)) for release, result in row.results.items()},
    )


def _package_row_json(row: PackageRow, columns: Sequence[Column]) -> PackageRowJson:
    """Return what the document has of a package, with the builds of each release in one cell."""
    cells = {}
    for column in columns:
        results = {name: row.results[name] for name in column.builds if name in row.results}
        if best := best_of(list(results.values())):
            builds = {result.torch_build or name: ImportJson.of(result) for name, result in results.items()}
            rules = tuple(dict.fromkeys(finding.rule for finding in best.own_findings))
            cells[column.release] = PackageCellJson.of(best, rules=rules, builds=builds)
    return PackageRowJson.of(row, releases=cells)


def is_working(result: Result) -> bool:
    """Whether an extension loads and, as far as is known, does not corrupt memory; a program lacks no function."""
    return is_loading(result) and result.call_error is None


def is_loading(result: Result) -> bool:
    """Whether an extension loads, or a program starts, and, as far as is known, does not corrupt memory."""
    return result.verdict is Verdict.LOADS and not result.is_broken


def is_importable(package: PackageResult) -> bool:
    """Whether a package can be imported and, as far as is known, does not corrupt memory."""
    return package.verdict in (PackageVerdict.WORKS, PackageVerdict.WORKS_WITHOUT)


def best_of(packages: Sequence[PackageResult]) -> PackageResult | None:
    """Return the best of the results on the builds of a release; None if there is none."""
    marks = list(MARKS)
    return min(packages, key=lambda package: (marks.index(package.verdict), bool(package.unmet)), default=None)


MARKS: Final = {
    PackageVerdict.WORKS: "✓",
    PackageVerdict.WORKS_WITHOUT: "◐",
    PackageVerdict.UNKNOWN: "?",
    PackageVerdict.CORRUPTS: "✗",
    PackageVerdict.IMPORT_FAILS: "✗",
}
"""From the best to the worst."""


def verdict_mark(result: Result | PackageResult | None) -> str:
    """Return the symbol in a cell: see ``format_legend``. None means that there is no build of the torch for the
    machine."""
    if result is None:
        return "·"
    if isinstance(result, PackageResult):
        return MARKS[result.verdict]
    if result.verdict is Verdict.UNKNOWN:
        return "?"
    if not is_loading(result):
        return "✗"
    return "✓" if is_working(result) else "◐"


def format_cell(row: Row | PackageRow, column: Column) -> str:
    """Return the symbol for the best of the builds of a release, and which of them it is for if they differ: ``✓
    CUDA``. A ``*`` follows it if all of these have a condition.
    """
    marks = {name: verdict_mark(row.results[name]) for name in column.builds if name in row.results}
    # The best build counts, since users can choose it; unknown is better than a certain failure.
    best = next((sign for sign in "✓◐?✗" if sign in marks.values()), "·")
    chosen = [name for name, sign in marks.items() if sign == best]
    star = "*" if chosen and all(has_condition(row.results[name]) for name in chosen) else ""
    # Named only if another build has another answer.
    return f"{best}{star}" if len(chosen) == len(marks) else f"{best}{star} {', '.join(map(kind_of, chosen))}"


def has_condition(result: Result | PackageResult) -> bool:
    """Whether a verdict holds on a condition that is not known to be met."""
    may_work = result.verdict not in (PackageVerdict.IMPORT_FAILS, PackageVerdict.CORRUPTS)
    return may_work and isinstance(result, PackageResult) and bool(result.unmet)


def kind_of(build: str) -> str:
    """Return what a build of torch is for, by its name; a release number alone stands for the CPU build."""
    local = build.partition("+")[2]
    return next((kind for prefix, kind in _KINDS.items() if local.startswith(prefix)), "CPU")


_KINDS: Final = {"cu": "CUDA", "rocm": "ROCm", "xpu": "XPU"}


def cuda_versions(matrix: Matrix, target: str) -> dict[str, list[str]]:
    """Return the releases by the version of CUDA that they were built for, if that is why a target fails on some."""
    results = [(name, result) for row in matrix.rows if row.target == target for name, result in row.results.items()]
    # Elsewhere, the CUDA of a torch explains nothing, and a list of versions would be noise.
    if not any("cuda-runtime-mismatch" in rules_of(result) for _, result in results):
        return {}
    version_of = {name: result.torch_cuda for name, result in results if result.torch_cuda}
    by_version: dict[str, list[str]] = {}
    for name in filter(version_of.__contains__, matrix.releases):
        by_version.setdefault(version_of[name], []).append(name)
    return by_version


def format_legend(matrix: Matrix) -> str:
    """Return the meaning of the symbols."""
    good = "✓ works  ◐ works without a part" if matrix.packages else "✓ loads"
    if any(result.call_error for row in matrix.rows for result in row.results.values()):
        good += "  ◐ starts, until a call fails"
    if any(has_condition(result) for row in matrix.packages for result in row.results.values()):
        good += "  * on a condition"
    return f"{good}  ✗ fails, or corrupts memory  ? unknown  · no build of torch for its machine"


def format_advice(matrix: Matrix, target: str, declared: str | None) -> str:
    """Return what a target requires, where it works, and what to require."""
    suggestion = matrix.suggestions.get(target)
    releases = [column.release for column in matrix.columns]
    # "·" is in all of them: a row for another machine has no build, and does not speak against a release.
    decided = _releases_with_signs(matrix, target, "✓◐·")
    undecided = [release for release in _releases_with_signs(matrix, target, "✓◐?·") if release not in decided]
    notes = [
        *([f"requires {declared}"] if declared else []),
        *([f"works on torch {format_working(matrix, target)} ({suggestion})"] if suggestion else []),
        *([f"unknown on torch {ranges(undecided, releases)}"] if undecided else []),
        *([] if suggestion or undecided else [f"works on none of torch {ranges(releases, releases)}"]),
    ]
    return "; ".join(notes)


def format_working(matrix: Matrix, target: str) -> str:
    """Return the releases with a build on which the whole target works: ``2.5.0-2.5.1``; empty if there are none."""
    good = _releases_with_signs(matrix, target, "✓·") or _releases_with_signs(matrix, target, "✓◐·")
    return ranges(good, [column.release for column in matrix.columns])


def _releases_with_signs(matrix: Matrix, target: str, signs: str) -> list[str]:
    """Return the releases for the target's machine with a build on which every row of the target has one of these
    symbols.
    """
    package = matrix.package(target)
    rows = [package] if package else [row for row in matrix.rows if row.target == target]

    def fits(build: str) -> bool:
        # A release has builds for other machines, too, about which nothing was asked.
        marks = {verdict_mark(row.results.get(build)) for row in rows}
        return marks != {"·"} and all(mark in signs for mark in marks)

    # One build has to do for all rows: an environment has one torch.
    return [column.release for column in matrix.columns if any(map(fits, column.builds))]


def name_of_row(row: Row | PackageRow) -> str:
    """Return what tables call a row."""
    if isinstance(row, Row):
        return row.path
    name = f"{row.name} {row.version}" if row.version else row.name
    return f"{name} ({row.apart})" if row.apart else name


def mark_of(row: Row | PackageRow, column: Column) -> str:
    """Return the symbol for the best of the builds of a release."""
    return format_cell(row, column)[0]


def describe_problem(result: Result | PackageResult, torch: str | None = None) -> str | None:
    """Return the first problem, in words: the load error, otherwise the worst finding; None if there is none.

    :param torch: replaces the version of the torch in it: the same for releases that differ in nothing else
    """
    text = _of_package(result) if isinstance(result, PackageResult) else _first_problem(result)
    if text is None or torch is None or result.torch is None:
        return text
    # A whole word only: 2.1.0 is also the beginning of 2.1.0.dev20230901.
    return re.sub(rf"(?<= ){re.escape(result.torch)}(\+\w+)?(?![\w.+-])", lambda _: torch, text)


def _of_package(package: PackageResult) -> str | None:
    return None if package.verdict is PackageVerdict.WORKS else str(package.error or package.summary)


def _first_problem(result: Result) -> str | None:
    if result.predicted_error:
        return str(result.predicted_error)
    if is_working(result):
        return None
    if is_loading(result):
        return f"a call fails: {result.call_error}"
    worst = max(result.findings, key=lambda finding: finding.effect.severity, default=None)
    if worst:
        return worst.message
    return result.gaps[0].reason if result.gaps else "unknown"


def rules_of(result: Result | PackageResult) -> list[str]:
    """Return the rules with findings, without repetition."""
    return list(dict.fromkeys(finding.rule for finding in result.findings))
