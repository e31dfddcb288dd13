"""A matrix as text: what stands in its cells, and what is said below them."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from abiscan.binary.elf import Machine
from abiscan.cpu.needs import CpuAtLoad, CpuNeeds, CpuUse
from abiscan.extension.built_for import BuiltFor, Clue, Kind
from abiscan.findings import Effect, Evidence
from abiscan.gpu.devices import Gpu
from abiscan.inputs.version import TorchVersion
from abiscan.report.matrix_text import render_matrix, titled_rows
from abiscan.results.gpus import GpuMark, GpuRow
from abiscan.results.matrix import Matrix, PackageRow, Row
from abiscan.results.package import ConditionKind, PackageResult, PackageVerdict, VerdictCondition
from abiscan.results.unchecked import Unchecked
from tests.unit.report.reports import failure, finding, result

RELEASES = ("2.7.1", "2.8.0", "2.9.1")
NOTHING = BuiltFor(releases=(), clues=())
LEGEND = "✗ fails, or corrupts memory  ? unknown  · no build of torch for its machine"


def row(path: str = "_C.so", target: str = "a.whl", *, built_for: BuiltFor = NOTHING, **fields: Any) -> Row:
    fields.setdefault("results", {"2.7.1": failure(), "2.8.0": result(), "2.9.1": result()})
    return Row(target=target, path=path, built_for=built_for, declared=None, **fields)


def package(target: str = "a.whl", name: str = "a", **fields: Any) -> PackageRow:
    verdicts = {
        "2.7.1": PackageVerdict.IMPORT_FAILS,
        "2.8.0": PackageVerdict.WORKS,
        "2.9.1": PackageVerdict.WORKS_WITHOUT,
    }
    results = {
        torch: PackageResult(
            target=target, name=name, version="1.0", torch=torch, torch_build=torch, module=name, verdict=verdict,
            **fields,
        )
        for torch, verdict in verdicts.items()
    }  # fmt: skip
    return PackageRow(target=target, name=name, version="1.0", declared="torch>=2", results=results)


def shown(*rows: Row | PackageRow, verbose: bool = False, width: int = 100, **fields: Any) -> list[str]:
    files = tuple(one for one in rows if isinstance(one, Row))
    packages = tuple(one for one in rows if isinstance(one, PackageRow))
    fields = {"releases": RELEASES, "suggestions": {"a.whl": "torch>=2.8"}, **fields}
    stream = io.StringIO()
    matrix = Matrix(rows=files, packages=packages, **fields)
    render_matrix(matrix, Console(file=stream, width=width, highlight=False), verbose=verbose)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def words(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


def test_a_file() -> None:
    lines = shown(row())
    assert lines[:2] == ["a.whl", "  _C.so: built for an unknown torch"]
    # Releases with the same answer share a column.
    assert words(lines[2:5]) == [["2.8.0"], ["2.7.1", "-", "2.9.1"], ["_C.so", "✗", "✓"]], lines
    assert lines[5:] == ["  works on torch 2.8.0-2.9.1 (torch>=2.8)", f"✓ loads  {LEGEND}"]


def test_a_package_and_its_files() -> None:
    lines = shown(package(), row())
    assert words(lines[2:4]) == [["2.7.1", "2.8.0", "2.9.1"], ["a", "1.0", "✗", "✓", "◐"]]
    assert lines[4:6] == [
        "  requires torch>=2; works on torch 2.8.0 (torch>=2.8)",
        f"✓ works  ◐ works without a part  {LEGEND}",
    ]
    assert not any(line.startswith("_C.so") for line in lines), "a file of a package is shown if it is asked for"
    assert any(line.startswith("_C.so") for line in shown(package(), row(), verbose=True))


def test_columns_that_a_terminal_has_no_room_for_come_below() -> None:
    first, second = ["2.7.1", "2.8.0"], ["a", "1.0", "✗", "✓"]
    assert words(shown(package(), width=29)[1:5]) == [first, second, ["2.9.1"], ["a", "1.0", "◐"]]
    assert words(shown(package(), width=39)[1:3]) == [[*first, "2.9.1"], [*second, "◐"]]
    assert words(shown(package(), width=16)[1:3]) == [["2.7.1"], ["a", "1.0", "✗"]], "at least one"


def test_all_targets_in_one_table() -> None:
    fails = {release: failure() for release in RELEASES}
    lines = shown(package(), row(), row(target="b.whl"), row(target="c.whl", results=fails))
    where = lines.index("3 targets: 2 of 3 rows work on some release")
    assert lines[where - 1] == ""
    # Both files have one name, so they are told apart by their targets; of a package, its files do not count.
    assert [line[:14].rstrip() for line in lines[where + 2 : where + 5]] == ["a 1.0", "b.whl: _C.so", "c.whl: _C.so"]
    assert [name for _, name in titled_rows(Matrix(rows=(row(),), releases=RELEASES, suggestions={}))] == ["_C.so"]
    assert not any("targets:" in line for line in shown(package(), row()))


def test_what_a_verdict_depends_on() -> None:
    needs = VerdictCondition(kind=ConditionKind.LIBRARY, name="libcuda.so.1", why="it needs CUDA", met=None)
    lines = shown(package(conditions=(needs,)))
    (condition,) = (line for line in lines if line.startswith("  * "))
    assert condition.startswith("  * 2.8.0-2.9.1: ")
    assert "libcuda.so.1" in condition
    assert "* on a condition" in lines[-1]
    assert not any(line.startswith("  * ") for line in shown(package()))


def test_what_fails_later() -> None:
    places = [Evidence(subject=f"a/m.py:{line}") for line in (1, 2, 3)]
    fields: dict[str, Any] = {"message": "torch.gone is no attribute of torch", "evidence": tuple(places)}
    late = finding(Effect.CALL_FAILS, rule="missing-torch-name", **fields)
    (line,) = (line for line in shown(package(own_findings=(late,))) if "missing-torch-name" in line)
    assert line == "  missing-torch-name 2.7.1-2.9.1: torch.gone (a/m.py:1, a/m.py:2, and 1 more)"
    noted = finding(Effect.NOTE, rule="missing-torch-name", **fields)
    other = finding(Effect.CALL_FAILS, rule="undefined-symbol", **fields)
    assert not any("torch.gone" in line for line in shown(package(own_findings=(noted, other))))


def test_what_files_were_built_for() -> None:
    def built(*releases: str, clues: tuple[Clue, ...] = ()) -> BuiltFor:
        return BuiltFor(releases=tuple(map(TorchVersion, releases)), clues=clues)

    def clue(kind: Kind, seen: str, *releases: str) -> Clue:
        return Clue(kind=kind, seen=seen, releases=tuple(map(TorchVersion, releases)))

    imports = clue(Kind.IMPORTS, "uses _ZN3c103fooEv", "2.8.0", "2.9.1")
    headers = clue(Kind.HEADERS, "names a header", "2.8.0")
    sibling = clue(Kind.SIBLINGS, "its sibling", "2.9.1")
    one = built("2.8.0", clues=(imports, headers, sibling))
    assert shown(row(built_for=one))[1:3] == ["  _C.so: built for torch 2.8.0", "    names a header: torch 2.8.0"]
    assert shown(row(built_for=one), verbose=True)[2:5] == [
        "    uses c10::foo(): torch 2.8.0-2.9.1",
        "    names a header: torch 2.8.0",
        "    its sibling: torch 2.9.1",
    ]
    alike = shown(row("a.so", built_for=one), row("b.so", built_for=one))
    assert alike[1] == "  all files: built for torch 2.8.0"
    packaged = shown(package(), row("a.so", built_for=one), row("b.so", built_for=one))
    assert [line for line in packaged if "built for" in line] == ["  all files: built for torch 2.8.0"]
    differ = (row("a.so", built_for=one), row("b.so", built_for=one), row("c.so", built_for=built("2.9.1")))
    assert [line for line in shown(*differ) if "built for" in line] == [
        "  a.so and 1 more: built for torch 2.8.0",
        "  c.so: built for torch 2.9.1",
    ]
    assert [line for line in shown(package(), *differ) if "built for" in line] == [
        "  built for different torches, file by file (use -v to show them)"
    ]


def test_why_a_file_fails_is_said_once_for_releases_that_follow_each_other() -> None:
    fails = {"2.7.1": failure(torch="2.7.1"), "2.8.0": failure(torch="2.8.0"), "2.9.1": result()}
    lines = shown(row(results=fails), verbose=True)
    assert [line for line in lines if "undefined symbol" in line] == [
        "  _C.so ✗ 2.7.1-2.8.0: _C.so: undefined symbol: f"
    ]
    assert not any("undefined symbol" in line for line in shown(row(results=fails)))


def test_what_files_need_of_a_processor() -> None:
    def needing(path: str, *features: str) -> Row:
        place: dict[str, Any] = {"address": 1, "symbol": None, "initialiser": 1, "source": None, "in_module": False}
        uses = tuple(CpuUse(feature=feature, **place) for feature in features)
        needs = CpuNeeds(machine=Machine.X86_64, files={path: CpuAtLoad(uses=uses)})
        return row(path, results={"2.8.0": result(cpu=needs)})

    # The levels are those of the x86-64 psABI: AVX2 is in v3.
    assert "  needs x86-64-v3 to load" in shown(needing("a.so", "avx2"), needing("b.so", "avx2"))
    lines = shown(needing("a.so", "avx2"), needing("b.so"), needing("c.so", "avx512f"))
    assert [line for line in lines if "to load" in line] == [
        "  needs x86-64-v3 to load: a.so",
        "  needs x86-64-v4 to load: c.so",
    ]


def test_operators_by_gpus() -> None:
    gpus = (Gpu(name="9.0", capability=90), Gpu(name="12.0", capability=120), Gpu(name="gfx942", gfx="gfx942"))
    native, ptx, some, none = GpuMark.NATIVE, GpuMark.JIT, GpuMark.SOME, GpuMark.NONE
    operators = {"a::f": (native, ptx, none), "a::g": (native, ptx, none), "a::h": (some, none, none)}
    of_a = GpuRow(
        target="a.whl", path="_C.so", gpus=gpus, file=(native, ptx, none), operators=operators, gaps=("it is so",)
    )
    lines = shown(row(), gpus=(of_a, GpuRow(**{**vars_of(of_a), "target": "other.whl", "path": "other.so"})))
    where = lines.index("  _C.so by GPU:")
    assert lines[where + 1 : where + 6] == [
        "    9.0  12.0  gfx942",
        "      ◐     ✗       ✗   a::h",
        "      ✓     P       ✗   a::f, a::g",
        "  ✓ has code  P has PTX, which the driver translates  ◐ some kernels have code  ✗ has no code",
        "  gap[gpu]: it is so",
    ]
    assert not any("other.so" in line for line in lines)
    whole = shown(row(), gpus=(GpuRow(**{**vars_of(of_a), "operators": {}}),))
    assert "      ✓     P       ✗   the whole file" in whole
    assert "      ✓     P       ✗   a::g" in shown(row(), gpus=(of_a,), verbose=True)


def vars_of(gpu_row: GpuRow) -> dict[str, Any]:
    return {name: getattr(gpu_row, name) for name in ("target", "path", "gpus", "file", "operators", "gaps")}


def test_what_else_is_said_of_a_target() -> None:
    mismatch = finding(rule="cuda-runtime-mismatch")
    results = {
        "2.7.1": failure(torch_cuda="12.6", findings=(mismatch,)),
        "2.8.0": result(torch_cuda="12.8"),
        "2.9.1": result(torch_cuda="12.8"),
    }
    lines = shown(row(results=results), stable_abi={"a.whl": "uses nothing else"})
    assert "  CUDA 12.6: torch 2.7.1; CUDA 12.8: torch 2.8.0-2.9.1" in lines
    assert "  stable ABI: uses nothing else (abiscan stable)" in lines
    assert not any("CUDA" in line for line in shown(row(results={"2.8.0": result(torch_cuda="12.8")})))


def test_names_and_texts_are_lines_however_narrow_the_output_is() -> None:
    path = f"{'long/' * 12}_C.so"
    unread = Unchecked(target="u.whl", problem=f"is for {'another ' * 9}system", fix="use it", readable=True)
    lines = shown(row(path), width=20, unchecked=(unread,))
    assert any(line.startswith(f"{path} ") for line in lines)
    assert sum("another system" in line for line in lines) == 1
