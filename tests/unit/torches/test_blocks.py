"""Files of blocks: what a release adds is a file of its own, and reads as if all had been written together."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abiscan.dispatch.operators import Kernel, Operator, Operators
from abiscan.torches.blocks import MAGIC, BlockFile, Table
from abiscan.torches.marks import MarkTable
from abiscan.torches.names import ColumnNames, NameTable
from abiscan.torches.operator_table import OperatorTable
from tools import blocks, operator_packer
from tools.blocks import MARKS, NAMES, Mark, file_of, layout_of_marks, read_files

RELEASES = [f"2.{number}.0" for number in range(5)]
NAME = st.sampled_from([f"_ZN2at{number}" for number in range(12)])
MARK = st.tuples(st.sampled_from(["torch", "torch.nn", "torch.amp"]), st.sampled_from("abcdefg"))


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def put_in_turn(folder: Path, kind: blocks.Kind, content: Mapping[str, Iterable[object]]) -> None:
    """Put each column, with no file before it changed by that."""
    for column, items in content.items():
        before = bytes_of(folder) if folder.exists() else {}
        kind.put(folder, {column: items})
        after = bytes_of(folder)
        assert {name: after[name] for name in before} == before
        assert len(after) == len(before) + 1


@settings(max_examples=25)
@given(st.lists(st.sets(NAME), min_size=2, max_size=5))
def test_names_that_are_appended_read_as_those_that_are_written_together(
    tmp_path_factory: pytest.TempPathFactory, exported: list[set[str]]
) -> None:
    one, other = (tmp_path_factory.mktemp("data") for _ in range(2))
    content = dict(zip(RELEASES, exported, strict=False))
    put_in_turn(one, NAMES, content)
    NAMES.put(other, content)
    assert len(bytes_of(other)) == 1
    appended, together = NameTable(read_files(one)), NameTable(read_files(other))
    assert appended.columns == together.columns == list(content)
    assert dict(appended.by_columns()) == {bits: names for bits, names in together.by_columns().items() if names}
    for prefix in ("", "_ZN2at1", "zzz"):
        assert list(appended.starting_with(prefix)) == list(together.starting_with(prefix))
    for name in {*set[str]().union(*exported), "_ZN2at1", "absent"}:
        assert appended.columns_with(name) == together.columns_with(name)
    for column, names in enumerate(exported):
        assert set(ColumnNames(appended, column)) == names
        assert ColumnNames(appended, column) - ColumnNames(appended, 0) == names - exported[0]
    once_more = tmp_path_factory.mktemp("data")
    put_in_turn(once_more, NAMES, content)
    assert bytes_of(once_more) == bytes_of(one)


@settings(max_examples=25)
@given(st.lists(st.sets(MARK), min_size=2, max_size=5))
def test_marks_that_are_appended_read_as_those_that_are_written_together(
    tmp_path_factory: pytest.TempPathFactory, marks: list[set[Mark]]
) -> None:
    one, other = (tmp_path_factory.mktemp("data") for _ in range(2))
    content = dict(zip(RELEASES, marks, strict=False))
    put_in_turn(one, MARKS, content)
    MARKS.put(other, content)
    appended, together = MarkTable(read_files(one)), MarkTable(read_files(other))
    assert dict(appended.items()) == dict(together.items())
    for key in ("torch", "torch.nn", "torch.amp", "absent"):
        assert appended.marks_of(key) == together.marks_of(key)
        assert appended.columns_with(key) == together.columns_with(key)
        assert all(appended.columns_with(key, mark) == together.columns_with(key, mark) for mark in "abz")
    for column, own in enumerate(marks):
        assert set(appended.items_in(column)) == own


def build_of(*names: str, line: int) -> Operators:
    operators = {name: Operator(name, f"{name}() -> ()", (), "/src/aten/src/R.cpp", line) for name in names}
    kernels = tuple(Kernel(name, key, None, None, False, None, None) for name in names for key in ("CPU", "CUDA"))
    return Operators(
        operators=operators,
        kernels=kernels,
        fallbacks=(),
        namespaces={},
        classes=frozenset(),
        keys={},
        aliases={},
        gaps=(),
    )


def test_operators_that_are_appended(tmp_path: Path) -> None:
    builds = [build_of("aten::a", "aten::b", line=1), build_of("aten::b", line=2), build_of("prims::c", line=3)]
    for number, build in enumerate(builds):
        before = bytes_of(tmp_path)
        operator_packer.put(tmp_path, {f"2.{number}.0 x86_64": (number, build)})
        assert bytes_of(tmp_path).items() > before.items()
    table = OperatorTable(read_files(tmp_path))
    assert table.meta == [0, 1, 2]
    assert [table.operators(number) for number in range(3)] == builds
    assert [table.names(number) for number in range(3)] == [{*build.operators} for build in builds]
    assert [table.has_operator(number, "aten::b") for number in range(3)] == [True, True, False]
    assert [table.namespaces(number) for number in range(3)] == [{"aten"}, {"aten"}, {"prims"}]
    assert table.all_names == {"aten::a", "aten::b", "prims::c"}


def test_a_release_that_few_items_change_in_takes_few_bytes(tmp_path: Path) -> None:
    names = {f"_ZN2at6native{number:05}Ev" for number in range(20_000)}
    NAMES.put(tmp_path, {"2.0.0": names, "2.1.0": set(sorted(names)[::2])})
    NAMES.put(tmp_path, {"2.2.0": {*names, "_ZN3newEv"} - {"_ZN2at6native00007Ev"}})
    sizes = {name: len(data) for name, data in bytes_of(tmp_path).items()}
    assert sizes["1.blocks"] < 1_000 < sizes["0.blocks"]
    added = read_files(tmp_path)[1]
    assert added.head.parents == [0]


@pytest.mark.parametrize(
    ("replaced", "left", "files"),
    [("2.3.0", [], 4), ("2.1.0", [], 2), ("2.0.0", [], 1), (None, ["2.3.0"], 3), (None, ["2.1.0"], 2)],
)
def test_files_before_the_first_change_stay(replaced: str | None, left: list[str], files: int, tmp_path: Path) -> None:
    content: dict[str, set[str]] = {release: {"a", release} for release in RELEASES[:4]}
    put_in_turn(tmp_path, NAMES, content)
    before = bytes_of(tmp_path)
    NAMES.put(tmp_path, {replaced: {"b"}} if replaced else {}, left)
    after = bytes_of(tmp_path)
    assert list(map(int, sorted(name.split(".")[0] for name in after))) == list(range(files))
    kept = files - 1 if replaced or left != ["2.3.0"] else files
    assert {name: after[name] for name in sorted(after)[:kept]} == {name: before[name] for name in sorted(after)[:kept]}
    expected = {release: names for release, names in content.items() if release not in left}
    expected |= {replaced: {"b"}} if replaced else {}
    table = NameTable(read_files(tmp_path))
    assert {column: set(ColumnNames(table, number)) for column, number in table.numbers.items()} == expected


def test_a_release_that_is_removed_and_put_again(tmp_path: Path) -> None:
    content = {release: {"a", release} for release in RELEASES}
    put_in_turn(tmp_path, NAMES, content)
    before = bytes_of(tmp_path)
    NAMES.put(tmp_path, {}, RELEASES[-1:])
    assert bytes_of(tmp_path).items() < before.items()
    NAMES.put(tmp_path, {RELEASES[-1]: content[RELEASES[-1]]})
    assert bytes_of(tmp_path) == before


def test_columns_are_in_the_order_of_their_versions(tmp_path: Path) -> None:
    MARKS.put(tmp_path, {"2.10.0 x86_64": [("k", "a")], "2.9.1 x86_64": [("k", "b")], "2.9.1 aarch64": [("k", "c")]})
    assert MarkTable(read_files(tmp_path)).columns == ["2.9.1 aarch64", "2.9.1 x86_64", "2.10.0 x86_64"]


def test_keys_are_looked_up_whole() -> None:
    data = file_of(["2.0.0"], layout_of_marks({("torch", "a"): 1, ("torch.nn", "b"): 1, ("torch.nn.x", "c"): 1}))
    table = MarkTable([BlockFile(data)])
    assert [table.marks_of(key) for key in ("torch", "torch.nn", "torch.nn.x")] == [{"a": 1}, {"b": 1}, {"c": 1}]
    for absent in ("", "tor", "torch.n", "nn", "orch", "torch.nn.xy", "\n", "torch.nn\n", "torch\n0\ta", "a"):
        assert not table.marks_of(absent)
        assert not table.columns_with(absent, "a")


def test_marks_may_have_spaces() -> None:
    data = file_of(["2.0.0"], layout_of_marks({("c10::A", '[8, "unsigned long"]'): 1, ("c10::A", "x y"): 1}))
    assert MarkTable([BlockFile(data)]).marks_of("c10::A") == {'[8, "unsigned long"]': 1, "x y": 1}


WHOLE = file_of(["2.0.0"], layout_of_marks({(f"k{number}", "a"): 1 for number in range(5_000)}))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is not a file of blocks"),
        (b"something else", "is not a file of blocks"),
        (MAGIC, "is not a file of blocks"),
        (WHOLE[:20], "its index is damaged"),
        (WHOLE[:-1], "bytes instead of"),
        (WHOLE + b"?", "bytes instead of"),
    ],
    ids=["empty", "other", "magic", "index", "cut", "longer"],
)
def test_a_file_that_is_no_whole_file(data: bytes, problem: str) -> None:
    with pytest.raises(OSError, match=problem) as caught:
        BlockFile(data, "abiscan/torches/data/names/0.blocks")
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, "abiscan/torches/data/names/0.blocks")


def test_a_changed_byte_is_noticed_wherever_it_is() -> None:
    for position in range(0, len(WHOLE), len(WHOLE) // 97):
        damaged = bytearray(WHOLE)
        damaged[position] ^= 1
        with pytest.raises(OSError, match=r"damaged|not a file|bytes instead"):
            list(MarkTable([BlockFile(bytes(damaged), "0.blocks")]).items())


def test_a_look_up_reads_few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    raw = BlockFile.raw

    def reading(file: BlockFile, number: int) -> memoryview:
        read.append(number)
        return raw(file, number)

    monkeypatch.setattr(BlockFile, "raw", reading)
    table = NameTable.of("exports")
    assert table.columns_with(
        "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
    )
    assert len(read) == 3  # the head, the sets of columns, and a page of hashes


def test_every_kind_in_the_package_is_whole() -> None:
    kinds = sorted(path.name for path in blocks.DATA.iterdir() if path.is_dir())
    assert len(kinds) >= 10
    for kind in kinds:
        for file in Table.of(kind).files:
            assert all(file.raw(number) for number in range(file.block_count))
