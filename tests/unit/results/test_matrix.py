"""What a table of releases says: the sign of a cell, which build it is for, and what to require."""

from __future__ import annotations

import pytest

from abiscan.extension.built_for import BuiltFor
from abiscan.findings import Effect
from abiscan.report.matrix_markdown import render_matrix
from abiscan.results.check import Result
from abiscan.results.matrix import (
    Matrix,
    PackageRow,
    Row,
    cuda_versions,
    describe_problem,
    format_advice,
    format_cell,
    format_legend,
    format_working,
)
from abiscan.results.package import ConditionKind, PackageResult, PackageVerdict, VerdictCondition
from abiscan.results.unchecked import Unchecked
from abiscan.results.verdict import Verdict
from tests.unit.report.reports import failure, finding, result

WORKS, WITHOUT, UNKNOWN = PackageVerdict.WORKS, PackageVerdict.WORKS_WITHOUT, PackageVerdict.UNKNOWN
FAILS, CORRUPTS = PackageVerdict.IMPORT_FAILS, PackageVerdict.CORRUPTS
CPU, CUDA = "2.9.1+cpu", "2.9.1+cu128"
UNMET = VerdictCondition(kind=ConditionKind.LIBRARY, name="libcuda.so.1", why="it needs CUDA", met=None)


def row(results: dict[str, Result], path: str = "_C.so", target: str = "x.whl") -> Row:
    return Row(target=target, path=path, built_for=BuiltFor(releases=(), clues=()), declared=None, results=results)


def package(*verdicts: tuple[str, PackageVerdict], unmet: bool = False, target: str = "x.whl") -> PackageRow:
    results = {
        torch: PackageResult(
            target=target,
            name="x",
            version="1.0",
            torch=torch,
            torch_build=torch,
            module="x",
            verdict=verdict,
            conditions=(UNMET,) if unmet else (),
        )
        for torch, verdict in verdicts
    }
    return PackageRow(target=target, name="x", version="1.0", declared=None, results=results)


def matrix(*rows: Row | PackageRow, releases: tuple[str, ...] = ("2.8.0", "2.9.1"), **more: object) -> Matrix:
    files = tuple(item for item in rows if isinstance(item, Row))
    packages = tuple(item for item in rows if isinstance(item, PackageRow))
    fields: dict[str, object] = {"suggestions": {"x.whl": "torch>=2.9"}, **more}
    return Matrix(rows=files, packages=packages, releases=releases, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verdicts", "unmet", "cell"),
    [
        (((CPU, WORKS), (CUDA, WORKS)), False, "✓"),
        (((CPU, FAILS), (CUDA, WORKS)), False, "✓ CUDA"),
        (((CPU, WORKS), (CUDA, WITHOUT)), False, "✓ CPU"),
        (((CPU, UNKNOWN), (CUDA, FAILS)), False, "? CPU"),
        (((CPU, FAILS), (CUDA, CORRUPTS)), False, "✗"),
        (((CPU, WITHOUT),), False, "◐"),
        (((CPU, WORKS), (CUDA, FAILS)), True, "✓* CPU"),
        (((CPU, FAILS), (CUDA, FAILS)), True, "✗"),
        ((), False, "·"),
    ],
)
def test_the_best_build_of_a_release_counts(
    verdicts: tuple[tuple[str, PackageVerdict], ...], unmet: bool, cell: str
) -> None:
    (column,) = matrix(releases=(CPU, CUDA)).columns
    assert (column.release, format_cell(package(*verdicts, unmet=unmet), column)) == ("2.9.1", cell)


@pytest.mark.parametrize(
    ("value", "sign", "problem"),
    [
        (result(), "✓", None),
        (failure(), "✗", "_C.so: undefined symbol: f"),
        (result(call_error="no f"), "◐", "a call fails: no f"),
        (result(findings=(finding(Effect.NOTE), finding(Effect.CORRUPTS, message="bad"))), "✗", "bad"),
        (result(verdict=Verdict.UNKNOWN), "?", "unknown"),
    ],
)
def test_a_file_alone(value: Result, sign: str, problem: str | None) -> None:
    (column,) = matrix(releases=("2.9.1",)).columns
    assert (format_cell(row({"2.9.1": value}), column), describe_problem(value)) == (sign, problem)


def test_two_folders_with_one_release_have_columns_of_their_own() -> None:
    assert [column.release for column in matrix(releases=("2.9.1+git1", "2.9.1+git2", "2.8.0")).columns] == [
        *("2.9.1+git1", "2.9.1+git2", "2.8.0")
    ]


def test_a_release_counts_if_all_files_of_a_target_work_on_one_build() -> None:
    good, bad = result(), failure()
    one = row({"2.8.0": good, "2.9.1": good}, "a.so")
    assert format_working(matrix(one, row({"2.8.0": bad, "2.9.1": good}, "b.so")), "x.whl") == "2.9.1"
    assert format_working(matrix(one, row({"2.8.0": bad, "2.9.1": bad}, "b.so", "y.whl")), "x.whl") == "2.8.0-2.9.1"
    # A file for a machine that a release has no build for does not speak against it.
    assert format_working(matrix(one, row({"2.9.1": good}, "b.so")), "x.whl") == "2.8.0-2.9.1"
    parts = package(("2.8.0", WITHOUT), ("2.9.1", FAILS))
    assert format_working(matrix(parts), "x.whl") == "2.8.0"
    assert format_working(matrix(package(("2.8.0", WITHOUT), ("2.9.1", WORKS))), "x.whl") == "2.9.1"


def test_a_build_for_another_machine_says_nothing_of_a_release() -> None:
    # torch 2.13.0 has one for macOS, on which torchvision 0.25.0 fails, and one for Linux, which was not asked.
    fails = package(("2.8.0", WORKS), (CUDA, FAILS))
    table = matrix(fails, releases=("2.8.0", CPU, CUDA))
    assert format_working(table, "x.whl") == "2.8.0"
    assert format_advice(table, "x.whl", None) == "works on torch 2.8.0 (torch>=2.9)"
    elsewhere = matrix(row({}), releases=("2.8.0", CPU), suggestions={})
    assert (format_working(elsewhere, "x.whl"), format_advice(elsewhere, "x.whl", None)) == (
        "",
        "works on none of torch 2.8.0-2.9.1",
    )


@pytest.mark.parametrize(
    ("verdict", "suggestion", "declared", "advice"),
    [
        (WORKS, "torch>=2.9", None, "works on torch 2.9.1 (torch>=2.9)"),
        (WORKS, "torch>=2.9", "torch>=2", "requires torch>=2; works on torch 2.9.1 (torch>=2.9)"),
        (UNKNOWN, None, None, "unknown on torch 2.9.1"),
        (FAILS, None, None, "works on none of torch 2.8.0-2.9.1"),
    ],
)
def test_what_to_require(verdict: PackageVerdict, suggestion: str | None, declared: str | None, advice: str) -> None:
    table = matrix(package(("2.8.0", FAILS), ("2.9.1", verdict)), suggestions={"x.whl": suggestion})
    assert format_advice(table, "x.whl", declared) == advice


def test_the_legend_has_the_signs_that_may_be_there() -> None:
    common = "✗ fails, or corrupts memory  ? unknown  · no build of torch for its machine"
    assert format_legend(matrix(row({"2.9.1": result()}))) == f"✓ loads  {common}"
    assert format_legend(matrix(row({"2.9.1": result(call_error="no f")}))) == (
        f"✓ loads  ◐ starts, until a call fails  {common}"
    )
    works = "✓ works  ◐ works without a part"
    assert format_legend(matrix(package(("2.9.1", WORKS)))) == f"{works}  {common}"
    assert format_legend(matrix(package(("2.9.1", WORKS), unmet=True))) == f"{works}  * on a condition  {common}"
    assert format_legend(matrix(package(("2.9.1", FAILS), unmet=True))) == f"{works}  {common}"


UNREAD = Unchecked(target="y.whl", problem="cut", fix="", readable=False)
STOPPED = Unchecked(target="y.whl", problem="cut", fix="", readable=False, stopped=True)
PLAIN = Unchecked(target="y.whl", problem="nothing in it", fix="", readable=True)


@pytest.mark.parametrize(
    ("rows", "unchecked", "code", "strict"),
    [
        ((package(("2.9.1", WORKS)),), (), 0, 0),
        ((package(("2.9.1", WORKS), unmet=True),), (), 0, 1),
        ((package(("2.9.1", UNKNOWN)),), (), 3, 1),
        ((package(("2.9.1", FAILS)),), (UNREAD,), 1, 1),
        ((package((CPU, FAILS), (CUDA, WORKS)),), (), 0, 0),
        ((row({"2.9.1": result(verdict=Verdict.UNKNOWN)}),), (), 3, 3),
        # The files of a package count through it.
        ((package(("2.9.1", WORKS)), row({"2.9.1": failure(findings=(finding(),))})), (), 0, 0),
        ((row({"2.9.1": failure(findings=(finding(),))}),), (), 1, 1),
        ((), (UNREAD,), 2, 2),
        ((), (STOPPED,), 3, 3),
        ((), (PLAIN,), 0, 0),
    ],
)
def test_the_exit_code(
    rows: tuple[Row | PackageRow, ...], unchecked: tuple[Unchecked, ...], code: int, strict: int
) -> None:
    table = matrix(*rows, releases=(CPU, CUDA) if rows and CUDA in rows[0].results else ("2.9.1",), unchecked=unchecked)
    assert (table.exit_code(), table.exit_code(strict=True)) == (code, strict)


def test_markdown_has_the_newest_release_first() -> None:
    table = matrix(
        package(("2.7.1", FAILS), ("2.8.0", FAILS), ("2.9.1", WORKS)),
        releases=("2.7.1", "2.8.0", "2.9.1"),
        unchecked=(PLAIN,),
    )
    lines = render_matrix(table).splitlines()
    assert lines[:3] == ["| | torch 2.9.1 | torch 2.7.1-2.8.0 |", "|---|:-:|:-:|", "| `x 1.0` | ✓ | ✗ |"]
    assert lines[-2:] == [
        r"- `x.whl`: works on torch 2.9.1 \(torch\>=2.9\)",
        "- `y.whl`: nothing to check: nothing in it",
    ]
    assert render_matrix(matrix(unchecked=(PLAIN,))).splitlines() == lines[-1:]


def test_the_cuda_of_releases_is_told_where_a_target_fails_for_it() -> None:
    of_cuda = failure(torch_cuda="12", findings=(finding(rule="cuda-runtime-mismatch"),))
    of_symbol = failure(torch_cuda="12", findings=(finding(),))
    loads, without = result(torch_cuda="13"), result()
    table = matrix(
        row({"2.8.0": of_cuda, "2.9.1": loads, "2.9.0": without}),
        row({"2.8.0": of_symbol, "2.9.1": loads}, target="y.whl"),
        releases=("2.8.0", "2.9.0", "2.9.1"),
    )
    assert cuda_versions(table, "x.whl") == {"12": ["2.8.0"], "13": ["2.9.1"]}
    assert cuda_versions(table, "y.whl") == {}
