"""``c10::Type`` objects and registries in memory: those that are made here, and those that inlined code makes.

Layouts: ``ATen/core/jit_type.h``, ``ATen/core/qualified_name.h``, ``c10/util/Registry.h``, bits/hashtable_policy.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.doubles import finder
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.doubles.torch_registries import FilledRegistries, _entry, function_name
from abiscan.emulation.process import Call, EmulatedProcess
from abiscan.emulation.recorder import Recorder
from abiscan.emulation.standard_types import StandardTypes
from abiscan.emulation.strings import COW, CXX11, StringAbi
from abiscan.emulation.torch_state import TorchState
from abiscan.emulation.type_objects import TypeObjects, printed_type

SAMPLE = Path(__file__).parents[3] / "sample_binaries" / "registrations" / "library.so"
CLASS = "__torch__.torch.classes.ns.Name"


@pytest.fixture
def process() -> Iterator[EmulatedProcess]:
    file = ElfFile.open(SAMPLE)
    found = EmulatedProcess(file, file.facts().machine, finder((LIBC,)), lambda *_: None)
    yield found
    found.close()


@pytest.fixture
def types(process: EmulatedProcess) -> TypeObjects:
    return TypeObjects(StandardTypes(process=process, strings=CXX11, flag_first=False))


@pytest.mark.parametrize(
    ("mangled", "printed"),
    [
        ("_ZTVN3c107IntTypeE", "int"),
        ("_ZN3c1010TensorType3getEv", "Tensor"),
        ("_ZN3c1013StreamObjType3getEv", "Stream"),
        ("_ZTVN3c1011AnyListTypeE", "list"),
        ("_ZN3c108NoneType3getEv", "NoneType"),
        ("_ZN3c1010LayoutType3getEv", "Layout"),
        ("_ZN2at6TensorD1Ev", ""),
    ],
)
def test_how_a_type_without_parameters_prints(mangled: str, printed: str) -> None:
    assert printed_type(mangled) == printed


def test_there_is_one_object_for_a_type(process: EmulatedProcess, types: TypeObjects) -> None:
    address = types.object_of("int[]?")
    assert types.object_of("int[]?") == address != types.object_of("int[]")
    assert types.text(address) == "int[]?"
    assert types.is_type(address)
    assert process.name_at(process.machine.word(address)) == "_ZTVN3c104TypeE of a double"
    assert process.machine.word(address) % 8 == 0
    assert process.size_of(address) >= 192


@pytest.mark.parametrize("flag_first", [False, True])
@pytest.mark.parametrize("strings", [CXX11, COW], ids=["cxx11", "cow"])
def test_a_class_has_a_qualified_name(process: EmulatedProcess, strings: StringAbi, flag_first: bool) -> None:
    """An ``optional`` of the parts of the name, all of it, all but the last part, and that."""
    types = TypeObjects(StandardTypes(process=process, strings=strings, flag_first=flag_first))
    machine, size = process.machine, strings.size
    at = types.object_of(CLASS) + 32
    assert machine.read(at if flag_first else at + 24 + 3 * size, 1) == b"\1"
    name = at + 8 if flag_first else at
    begin, end, capacity = machine.words(name, 3)
    assert end == capacity
    parts = [strings.read(process, part) for part in range(begin, end, size)]
    assert parts == [b"__torch__", b"torch", b"classes", b"ns", b"Name"]
    texts = [strings.read(process, name + 24 + number * size) for number in range(3)]
    assert texts == [CLASS.encode(), b"__torch__.torch.classes.ns", b"Name"]
    assert types.qualified_name(at - 32) == CLASS
    # The name is where code may change it.
    strings.create(process, name + 24, b"__torch__.another")
    assert types.qualified_name(at - 32) == "__torch__.another"
    strings.create(process, name + 24, b"")
    assert types.qualified_name(at - 32) == "?"
    machine.write(name + 24, b"\xff" * size)
    assert types.qualified_name(at - 32) == "?"


def test_a_shared_pointer_never_loses_its_last_owner(process: EmulatedProcess, types: TypeObjects) -> None:
    """bits/shared_ptr_base.h: a virtual pointer, then two counts of 32 bits."""
    address, place = types.object_of("int"), process.allocate(16)
    types.write_shared(place, address)
    pointed, control = process.machine.words(place, 2)
    assert (pointed, control) == types.shared(address)
    assert types.shared(types.object_of("float"))[1] == control != types.passed_on
    for block in (control, types.passed_on):
        table, uses, weak = struct.unpack("<QII", process.machine.read(block, 16))
        assert process.name_at(table) == "virtual table of a control block"
        assert table % 8 == 0
        assert min(uses, weak) > 1 << 20


def inlined(process: EmulatedProcess, kind: str, *words: int) -> int:
    """A type that inlined code has made: its virtual pointer, a weak pointer to itself, what it consists of."""
    address = process.allocate(12 * 8)
    table = process.bind(f"_ZTVN3c10{len(kind)}{kind}E") + 16
    process.machine.write(address, struct.pack(f"<{4 + len(words)}Q", table, address, 7, 0x1_0000_0005, *words))
    return address


def test_a_container_is_known_by_its_class(process: EmulatedProcess, types: TypeObjects) -> None:
    number, text, tensor = (types.object_of(name) for name in ("int", "str", "Tensor"))
    control = types.passed_on
    cases = {
        inlined(process, "ListType", number, control): "int[]",
        inlined(process, "OptionalType", tensor, control): "Tensor?",
        inlined(process, "DictType", text, control, tensor, control): "Dict(str, Tensor)",
        inlined(process, "DictType", text, control): "?",
        inlined(process, "FutureType", tensor, control): "Future(Tensor)",
        inlined(process, "ListType", 0, 0): "?",
        inlined(process, "TupleType", number, control, text, control): "(int, str)",  # up to 1.10
        inlined(process, "BoolType"): "bool",
        inlined(process, "StorageType"): "Storage",
    }
    for address, expected in cases.items():
        assert types.is_type(address)
        assert types.text(address) == expected
    # What lies behind an object is not a part of it; and not every release has a weak pointer in it.
    vector = process.store(struct.pack("<QQ", tensor, control))
    assert types.text(inlined(process, "ListType", number, control, vector, vector + 16)) == "int[]"
    bare = process.allocate(12 * 8)
    process.machine.write(bare, struct.pack("<QQQ", process.bind("_ZTVN3c108ListTypeE") + 16, number, control))
    assert types.text(bare) == "int[]"
    pair = process.allocate(12 * 8)
    table = process.bind("_ZTVN3c109TupleTypeE") + 16
    process.machine.write(pair, struct.pack("<QQQQ", table, vector, vector + 16, vector + 16))
    assert types.text(pair) == "(Tensor)"
    process.machine.write(pair, struct.pack("<QQQQQQQ", table, vector, vector, vector, 0, number, control))
    assert types.text(pair) == "(int)"  # an empty vector holds no types
    nested = inlined(process, "ListType", inlined(process, "OptionalType", tensor, control), control)
    assert types.text(nested) == "Tensor?[]"


@pytest.mark.parametrize(("count", "known"), [(1, True), (3, True), (64, True), (65, False)])
def test_the_elements_of_a_tuple_are_in_a_vector(
    process: EmulatedProcess, types: TypeObjects, count: int, known: bool
) -> None:
    """``TypePtr``s of two words; the vector lies somewhere behind the head."""
    control, names = types.passed_on, ["int", "str", "Tensor"]
    elements = [types.object_of(names[number % 3]) for number in range(count)]
    content = b"".join(struct.pack("<QQ", element, control) for element in elements)
    vector = process.store(content)
    found = types.text(inlined(process, "TupleType", vector, vector + 16 * count, vector + 16 * count))
    expected = ", ".join(names[number % 3] for number in range(count))
    assert found == (f"({expected})" if known else "()")
    # What is no whole number of them, or holds something else, is no such vector.
    assert types.text(inlined(process, "TupleType", vector, vector + 16 * count + 8, 0)) == "()"
    process.machine.set_word(vector, 0x1234)
    assert types.text(inlined(process, "TupleType", vector, vector + 16 * count, 0)) == "()"


def test_what_is_no_type(process: EmulatedProcess, types: TypeObjects) -> None:
    whole = inlined(process, "IntType")
    copy = process.allocate(32) + 4
    process.machine.set_word(copy, process.machine.word(whole))
    other = process.store(struct.pack("<QQ", process.bind("_ZTVN3c106detail8ListImplE") + 16, 0))
    nothing = process.store(bytes(16))
    for address in (copy, other, nothing, 0, 0x1230, 0x1234_5678_9ABC_DEF0, process.image.base):
        assert not types.is_type(address)
        assert types.text(address) == "?"


def test_a_type_that_the_code_has_made_is_handed_out_from_then_on(process: EmulatedProcess, types: TypeObjects) -> None:
    made, another = (inlined(process, "ListType", types.object_of("int"), types.passed_on) for _ in range(2))
    assert types.adopt(made) == types.adopt(another) == "int[]"
    assert types.object_of("int[]") == made
    own = types.object_of("float")
    assert types.adopt(own) == "float"
    assert types.object_of("float") == own
    assert types.adopt(0x1230) == "?"
    assert types.object_of("?") != 0x1230
    # A constructor that was called says what an object is.
    constructed = process.allocate(64)
    types.name(constructed, "(int, str)")
    assert types.text(constructed) == "(int, str)"
    assert process.name_at(process.machine.word(constructed)) == "_ZTVN3c104TypeE of a double"
    assert process.machine.word(constructed) % 8 == 0
    table = process.machine.word(constructed)
    assert process.name_at(process.machine.word(table)) == "virtual function of _ZTVN3c104TypeE of a double"


# Registries


@pytest.fixture
def state(process: EmulatedProcess) -> TorchState:
    return TorchState(process, frozenset(), Recorder())


def test_an_empty_table(state: TorchState) -> None:
    """As libstdc++ leaves a new ``std::unordered_map`` (bits/hashtable.h): with one bucket of its own, its last word,
    or so many, each empty, of which as many elements have room as there are buckets.
    """
    machine, at = state.process.machine, state.process.allocate(64)
    machine.write(at, b"\xcc" * 64)
    state.write_table(at)
    one = struct.pack("<f", 1.0) + b"\0" * 4
    assert machine.read(at, 64) == struct.pack("<QQQQ8sQQQ", at + 48, 1, 0, 0, one, 0, 0, 0xCCCC_CCCC_CCCC_CCCC)
    state.write_table(at, 13)
    buckets = machine.word(at)
    assert machine.read(at + 8, 56) == struct.pack("<QQQ8sQQQ", 13, 0, 0, one, 13, 0, 0xCCCC_CCCC_CCCC_CCCC)
    assert buckets not in range(at, at + 64)
    assert machine.read(buckets, 8 * 13) == bytes(8 * 13)


def put(state: TorchState, table: int, key: bytes | int, value: int = 0) -> None:
    """Insert as ``std::unordered_map`` does into an empty bucket: the new node becomes the first."""
    process, machine = state.process, state.process.machine
    node = process.allocate(64)
    first, count = machine.words(table + 16, 2)
    machine.set_word(node, first)
    if isinstance(key, bytes):
        CXX11.create(process, node + 8, key)
        behind = node + 8 + 32
    else:
        machine.write(node + 8, struct.pack("<i", key))
        behind = node + 8 + 4
    machine.write(behind, struct.pack("<iI", value, 0xCCCC_CCCC))
    machine.set_word(table + 16, node)
    machine.set_word(table + 24, count + 1)


def test_entries_of_a_registry_and_their_priorities(state: TorchState) -> None:
    """Three tables: creators, priorities 56 bytes behind, help texts."""
    registries = FilledRegistries(state)
    registry = registries.table("C10FlagsRegistry")
    assert registries.entries(registry) == []
    for key, priority in ((b"first", 2), (b"second", 1), (b"nonsense", 77), (b"third", 3)):
        put(state, registry, key)
        put(state, registry + 56, key, priority)
    put(state, registry, b"without")
    expected = [("first", 2), ("second", 1), ("nonsense", None), ("third", 3), ("without", None)]
    assert registries.entries(registry) == expected


def test_entries_by_numbers(state: TorchState) -> None:
    registries = FilledRegistries(state)
    registry = registries.table("C10_something")
    for key, priority in ((20, 1), (-1, 3)):
        put(state, registry, key)
        put(state, registry + 56, key, priority)
    assert registries.entries(registry) == [(20, 1), (-1, 3)]


def test_what_was_entered_is_recorded_and_then_gone(state: TorchState) -> None:
    """It is recorded before what is registered next, and code that enters it again finds no such entry."""
    registries, recorder = FilledRegistries(state), state.recorder
    one, other = registries.table("One"), registries.table("Other")
    assert one != other
    assert registries.table("One") == one
    put(state, one, b"a")
    put(state, one + 56, b"a", 2)
    recorder.fallback(None, 5, fallthrough=False)
    put(state, other, b"b")
    registries.collect()
    registries.collect()
    found = [(entry.what, entry.key, entry.priority, entry.order) for entry in recorder.registered().registries]
    assert found == [("One", "a", 2, 0), ("Other", "b", None, 2)]
    assert recorder.registered().fallbacks[0].order == 1
    assert registries.entries(one) == registries.entries(other) == []


def test_a_registry_that_is_nonsense_has_an_end(state: TorchState) -> None:
    registries = FilledRegistries(state)
    registry, machine = registries.table("One"), state.process.machine
    node = state.process.allocate(64)
    CXX11.create(state.process, node + 8, b"ring")
    machine.set_word(node, node)
    machine.write(registry + 16, struct.pack("<QQ", node, 1 << 40))
    assert len(registries.entries(registry)) == 10_000
    machine.write(registry + 16, struct.pack("<QQ", 0, 5))
    assert registries.entries(registry) == []
    machine.write(registry + 16, struct.pack("<QQ", 0x1234, 5))
    assert registries.entries(registry) == []


@pytest.mark.parametrize(
    ("places", "expected"), [((1, None), (0x42, None)), ((0, 2), (0x41, 0x43)), ((None, None), (None, None))]
)
def test_a_call_that_enters_something(
    state: TorchState, places: tuple[int | None, int | None], expected: tuple[int | None, int | None]
) -> None:
    """Keys and priorities are numbers of one byte; what else is in their registers means nothing."""
    call = cast("Call", SimpleNamespace(argument=(0x141, 0x242, 0x343).__getitem__))
    _entry("registry", *places)(FilledRegistries(state), call)
    (entry,) = state.recorder.registered().registries
    assert (entry.what, entry.key, entry.priority) == ("registry", *expected)


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_ZN3c1016C10FlagsRegistryB5cxx11Ev", "C10FlagsRegistry"),
        ("_ZN2at1fEv", "f"),
        ("_ZN5torch8profiler4impl12someRegistryEv", "someRegistry"),
    ],
)
def test_the_name_of_a_registry(mangled: str, name: str) -> None:
    assert function_name(mangled) == name
