"""A table of operators as its format describes it: what is shared, what is numbered, what each build has of its own."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.json import decode
from msgspec.structs import replace

from abiscan.dispatch.operators import Fallback, Kernel, Operator, Operators, Place
from tests.tables import operator_table

EMPTY = Operators(
    operators={}, kernels=(), fallbacks=(), namespaces={}, classes=frozenset(), keys={}, aliases={}, gaps=()
)
SOURCE = "/pytorch/aten/src/ATen/R.cpp"


def packed(*builds: Operators) -> list[Any]:
    """The sections of a file: the names, what is shared with the sets of builds, and the blocks of operators."""
    (file,) = operator_table(*builds).files
    names, shared = (decode(file.read(file.section(name).start)) for name in ("names", "shared"))
    shared["sets"] = [file.set(number) for number in range(file.set_count)]
    return [names, shared, *(decode(file.read(block)) for block in file.section("operators"))]


def with_kernels(*kernels: Kernel) -> Operators:
    return replace(EMPTY, kernels=kernels)


def kernel(key: str | None, line: int | None = None, file: str | None = None, name: str = "aten::a") -> Kernel:
    return Kernel(name, key, None, None, False, file, line)


def defining(*names: str, file: str | None = None, line: int | None = None) -> Operators:
    return replace(EMPTY, operators={name: Operator(name, None, (), file, line) for name in names})


def keys_of(*builds: Operators) -> list[str]:
    """The keys of the only row's kernels, in the order of the table."""
    _, shared, (row,) = packed(*builds)
    return [shared["keys"][number] for number in row[3][::5]]


def test_operators_are_in_blocks_of_16() -> None:
    names = [f"aten::op{number:03}" for number in range(34)]
    table = operator_table(defining(*reversed(names)))
    listed, _, *blocks = packed(defining(*reversed(names)))
    assert table.meta == [0]
    assert [[row[0] for row in block] for block in blocks] == [names[:16], names[16:32], names[32:]]
    assert [name for name, _ in listed] == names


def test_an_operator_in_each_block_is_found() -> None:
    names = [f"aten::op{number:03}" for number in range(34)]
    table = operator_table(defining(*names))
    for name in (names[0], names[15], names[16], names[31], names[32], names[33]):
        assert table.operators(0, [name]).operators.keys() == {name}
    for absent in ("aten::a", "aten::op016x", "zzz::z"):
        assert table.operators(0, [absent]).operators == {}


def test_the_same_kernel_in_two_builds_is_one() -> None:
    _, shared, (row,) = packed(with_kernels(kernel("CPU")), with_kernels(kernel("CPU")))
    key, type_, fallthrough, place, builds = row[3]
    assert shared["keys"][key] == "CPU"
    assert (type_, fallthrough) == (0, 0)
    assert place == [0, None, 2]  # no file; no line, in both builds
    assert shared["files"] == [None]
    assert shared["sets"][builds] == 0b11


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        ("AB", "AB", "AB"),
        ("AC", "ABC", "ABC"),
        ("ABC", "AC", "ABC"),
        ("A", "BA", "BA"),
        ("AB", "BA", "ABA BAB"),  # the order of registration counts: one of them is there twice
        ("AA", "A", "AA"),
        ("A", "AA", "AA"),
    ],
)
def test_kernels_are_merged_in_their_order(first: str, second: str, merged: str) -> None:
    one, other = (with_kernels(*map(kernel, text)) for text in (first, second))
    assert "".join(keys_of(one, other)) in merged.split()
    for build, text in enumerate((first, second)):
        table = operator_table(one, other)
        assert "".join(str(each.key) for each in table.operators(build).kernels) == text


def test_lines_are_stored_in_runs_of_builds() -> None:
    lines = (5, 5, 7, None, None, 5)
    _, shared, (row,) = packed(*(with_kernels(kernel("CPU", line, SOURCE)) for line in lines))
    file, *runs = row[3][3]
    assert runs == [5, 2, 7, 1, None, 2, 5, 1]
    assert shared["files"][file] == "aten/src/ATen/R.cpp"


def test_a_build_without_an_item_has_no_line_of_it() -> None:
    without = with_kernels()
    _, shared, (row,) = packed(with_kernels(kernel("CPU", 5, SOURCE)), without, with_kernels(kernel("CPU", 6, SOURCE)))
    assert row[3][3][1:] == [5, 1, 6, 1]
    assert shared["sets"][row[3][4]] == 0b101


@pytest.mark.parametrize(
    ("file", "root", "stored"),
    [
        ("/pytorch/aten/src/ATen/R.cpp", "/pytorch/", "aten/src/ATen/R.cpp"),
        ("/w/b/build/aten/src/ATen/R.cpp", "/w/b/", "build/aten/src/ATen/R.cpp"),
        ("/w/torch/csrc/x.cpp", "/w/", "torch/csrc/x.cpp"),
        ("/elsewhere/x.cpp", "", "=/elsewhere/x.cpp"),
        ("../aten/src/ATen/R.cpp", "../", "aten/src/ATen/R.cpp"),
        (None, "", None),
    ],
)
def test_a_file_is_stored_below_the_folder_of_the_build(file: str | None, root: str, stored: str | None) -> None:
    found = with_kernels(kernel("CPU", 1, file))
    _, shared, _ = packed(found)
    assert (shared["roots"], shared["files"]) == ([root], [stored])
    assert operator_table(found).operators(0).kernels == found.kernels


def test_the_folder_of_a_build_is_that_of_most_of_its_files() -> None:
    files = ["/other/aten/src/A.cpp", "/pytorch/aten/src/B.cpp", "/pytorch/torch/csrc/C.cpp"]
    _, shared, _ = packed(with_kernels(*(kernel(str(line), line, file) for line, file in enumerate(files))))
    assert shared["roots"] == ["/pytorch/"]
    assert set(shared["files"]) == {"=/other/aten/src/A.cpp", "aten/src/B.cpp", "torch/csrc/C.cpp"}


def block_of(count: int, line: int, key: str = "CPU", namespace: str = "aten") -> list[Kernel]:
    """``count`` registrations at one line, as in ``TORCH_LIBRARY_IMPL(aten, CPU, m)``."""
    return [kernel(key, line, SOURCE, f"{namespace}::{key}{line}x{number}") for number in range(count)]


@pytest.mark.parametrize(("count", "shared_places"), [(3, 0), (4, 1), (5, 1)])
def test_four_registrations_at_one_line_are_a_block(count: int, shared_places: int) -> None:
    _, shared, rows = packed(with_kernels(*block_of(count, 10)))
    assert len(shared["places"]) == shared_places
    assert {type(row[3][3]) for row in rows} == {int if shared_places else list}


def test_a_block_keeps_its_place_when_its_line_changes() -> None:
    """Each kernel refers to the block; only the block has the lines, one for each build."""

    def at(line: int) -> Operators:
        kernels = [each._replace(operator=f"aten::x{number}") for number, each in enumerate(block_of(4, line))]
        return with_kernels(*kernels)

    _, shared, rows = packed(at(10), at(20))
    (((_, *runs), builds),) = shared["places"]
    assert runs == [10, 1, 20, 1]
    assert shared["sets"][builds] == 0b11
    assert {row[3][3] for row in rows} == {0}
    table = operator_table(at(10), at(20))
    assert {each.line for each in table.operators(0).kernels} == {10}
    assert {each.line for each in table.operators(1).kernels} == {20}


def test_blocks_of_one_key_are_told_apart_by_their_order() -> None:
    both = with_kernels(*block_of(4, 30), *block_of(4, 10))
    _, shared, _ = packed(both)
    assert sorted(runs[1] for runs, _ in shared["places"]) == [10, 30]
    assert set(operator_table(both).operators(0).kernels) == set(both.kernels)


def test_blocks_of_other_keys_and_namespaces_are_others() -> None:
    found = with_kernels(*block_of(4, 10), *block_of(4, 10, key="CUDA"), *block_of(4, 10, namespace="prims"))
    _, shared, _ = packed(found)
    assert len(shared["places"]) == 3


def test_schemas_are_stored_without_the_name_of_the_operator() -> None:
    operators = {
        name: Operator(name, schema, tags, None, None)
        for name, schema, tags in (
            ("a::op", "a::op(Tensor x) -> ()", ("core",)),
            ("b::op", "odd::op(Tensor x) -> ()", ()),
            ("c::op", None, ("core",)),
            ("d::op", "d::op.out(Tensor x) -> ()", ()),  # begins with the name, but goes on
        )
    }
    _, shared, rows = packed(replace(EMPTY, operators=operators))
    assert [row[1][0][0] for row in rows] == [
        "(Tensor x) -> ()",
        "=odd::op(Tensor x) -> ()",
        None,
        "=d::op.out(Tensor x) -> ()",
    ]
    assert [shared["tags"][row[1][0][1]] for row in rows] == [["core"], [], ["core"], []]
    assert operator_table(replace(EMPTY, operators=operators)).operators(0).operators == operators


def test_what_builds_have_besides_operators() -> None:
    one = replace(
        EMPTY,
        classes=frozenset({"A"}),
        keys={1: "CPU", 0: "Undefined"},
        aliases={"Autograd": frozenset({"CPU"})},
        namespaces={"aten": Place(SOURCE, 3)},
        gaps=("lost",),
    )
    other = replace(one, classes=frozenset({"A", "B"}), gaps=(), namespaces={"aten": Place(SOURCE, 4)})
    _, shared = packed(one, other)
    sets = shared["sets"]
    keys = shared["keys"]
    assert {name: sets[builds] for name, builds in shared["classes"]} == {"A": 0b11, "B": 0b10}
    ((numbers, builds),) = shared["numbers"]
    assert ([(number, keys[key]) for number, key in numbers], sets[builds]) == ([(0, "Undefined"), (1, "CPU")], 0b11)
    assert {tuple(gaps): sets[builds] for gaps, builds in shared["gaps"]} == {("lost",): 0b01, (): 0b10}
    ((name, place, builds),) = shared["namespaces"]
    assert (name, place[1:], sets[builds]) == ("aten", [3, 1, 4, 1], 0b11)
    table = operator_table(one, other)
    assert (table.operators(0), table.operators(1)) == (one, other)


def test_a_fallback_is_a_kernel_of_no_operator() -> None:
    fallbacks = (Fallback("Meta", True, SOURCE, 7), Fallback("CPU", False, None, None), Fallback(None, True, SOURCE, 9))
    found = replace(EMPTY, fallbacks=fallbacks)
    names, shared = packed(found)
    assert names == []  # it has no name to be found by
    name, definitions, types, kernels = shared["fallbacks"]
    assert (name, definitions, types) == ("", [], [[None, None]])
    assert [shared["keys"][number] for number in kernels[::5]] == ["Meta", "CPU", None]
    assert kernels[2::5] == [1, 0, 1]  # whether it falls through
    assert [place[1:] for place in kernels[3::5]] == [[7, 1], [None, 1], [9, 1]]
    assert operator_table(found).operators(0).fallbacks == fallbacks


def test_blocks_without_a_line_come_before_those_with_one() -> None:
    """Nobody may know the line of a block: what the code says is a register that another function has set, say."""
    kernels = [kernel("CPU", line, SOURCE, name=f"aten::{letter}") for line in (7, None) for letter in "abcd"]
    found = with_kernels(*kernels)
    table = operator_table(found)
    assert {(one.operator, one.line) for one in table.operators(0).kernels} == {
        (one.operator, one.line) for one in kernels
    }
    _, shared, _ = packed(found)
    assert [place[0][1:] for place in shared["places"]] in ([[None, 1], [7, 1]], [[7, 1], [None, 1]])


def test_the_names_of_each_build() -> None:
    builds = [defining("aten::a", "aten::b"), defining("aten::b", "aten::c"), EMPTY, defining("aten::a")]
    table = operator_table(*builds)
    assert [table.names(number) for number in range(4)] == [{*found.operators} for found in builds]
    assert table.all_names == {"aten::a", "aten::b", "aten::c"}
