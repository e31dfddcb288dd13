"""The doubles of torch, each called as an extension calls it, with the names that the samples import.

Signatures: ``torch/library.h``, ``torch/csrc/stable/c/shim.h``, ``ATen/core/dispatch/Dispatcher.h``,
``ATen/core/op_registration/infer_schema.h``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.arch.aarch64 import Aarch64
from abiscan.emulation.doubles import torch_types
from abiscan.emulation.doubles.torch_types import Types
from abiscan.emulation.emulator import Stop
from abiscan.emulation.loader import BASE
from abiscan.emulation.recovery import Recovery
from abiscan.emulation.schema_objects import Schema
from abiscan.registrations import LibraryKind

SAMPLES = Path(__file__).parents[3] / "sample_binaries" / "registrations"
CXX11 = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
LIBRARY = {
    "library": f"_ZN5torch7LibraryC1ENS0_4KindE{CXX11}St8optionalIN3c1011DispatchKeyEEPKcj",
    "library_1_11_0": "_ZN5torch7LibraryC1ENS0_4KindESsN3c108optionalINS2_11DispatchKeyEEEPKcj",
}
DEFINE = (
    "_ZNR5torch7Library4_defEON3c1014FunctionSchemaEPNS1_12OperatorNameERKSt6vectorINS_10headeronly3TagESaIS8_EE"
    "NS_17_RegisterOrVerifyE"
)
THROWS = "_ZN3c1010Dispatcher17findSchemaOrThrowEPKcS2_"
FIND = "_ZN3c1010Dispatcher10findSchemaERKNS_12OperatorNameE"


class Torch:
    """A process with torch's doubles, of an extension for one release."""

    def __init__(self, name: str) -> None:
        file = ElfFile.open(SAMPLES / f"{name}.so")
        self.recovery = Recovery(file, file.facts(), None)
        self.process, self.state, self.recorder = self.recovery.process, self.recovery.state, self.recovery.recorder
        self.process.call_limit = 10_000
        self.machine = self.process.machine

    def call(self, name: str, *arguments: int) -> int:
        return self.machine.start(self.process.bind(name), arguments, 100_000)

    def text(self, content: str) -> int:
        return self.process.store(content.encode() + b"\0")

    def string(self, content: str) -> int:
        address = self.process.allocate(self.state.strings.size)
        self.state.strings.create(self.process, address, content.encode())
        return address

    def library(self, namespace: str = "ns", kind: int = 0, key: int = 0, line: int = 7) -> int:
        this = self.process.allocate(256)
        version = "library" if not self.state.flag_first else "library_1_11_0"
        self.call(LIBRARY[version], this, kind, self.string(namespace), key, self.text("x.cpp"), 1 << 32 | line)
        return this


@pytest.fixture
def torch() -> Iterator[Torch]:
    made = Torch("library")
    yield made
    made.recovery.close()


@pytest.fixture
def old() -> Iterator[Torch]:
    """Of 1.11: the flag of an optional comes first, and strings are those that are copied on write."""
    made = Torch("library_1_11_0")
    yield made
    made.recovery.close()


# torch::Library


@pytest.mark.parametrize(("kind", "expected"), [(0, "def"), (1, "impl"), (2, "fragment"), (0x102, "fragment")])
def test_a_library_is_opened(torch: Torch, kind: int, expected: str) -> None:
    """``Library(Kind, std::string ns, optional<DispatchKey>, const char* file, uint32_t line)``."""
    this = torch.library("ns", kind, key=1 << 16 | 5)
    (library,) = torch.recorder.registered().libraries
    assert library.kind is LibraryKind(expected)
    assert (library.namespace, library.dispatch_key, library.file, library.line) == ("ns", 5, "x.cpp", 7)
    # Inlined code reads its kind, and its namespace, which is optional.
    assert torch.machine.word(this) == kind & 0xFF
    assert torch.state.string(this + 8) == "ns"
    assert torch.machine.word(this + 8 + 32) & 0xFF == 1
    # What it has registered is a vector behind the texts, the file and the line: destructors end what that holds.
    begin, end, capacity = torch.machine.words(this + 96, 3)
    assert (begin > 0, end - begin, capacity) == (True, 32, end)


def test_a_library_of_an_older_torch(old: Torch) -> None:
    """The flag of an optional is before its value; the key has 8 bits."""
    this = old.library("ns", 1, key=0x0501)
    assert old.recorder.registered().libraries[0].dispatch_key == 5
    assert old.machine.word(this + 8) == 1
    assert old.state.string(this + 16) == "ns"
    # Up to 1.6 the optional is passed by its address.
    place = 0x7D_FFFF_0000
    old.machine.write(place, b"\1\6\xcc\xcc")
    old.library("ns", 1, key=place)
    assert old.recorder.registered().libraries[1].dispatch_key == 6


@pytest.mark.parametrize(
    ("namespace", "kind", "reason"),
    [("ns", 3, "torch::Library of kind 3"), ("", 0, "a torch::Library without a namespace")],
)
def test_what_is_no_library(torch: Torch, namespace: str, kind: int, reason: str) -> None:
    with pytest.raises(Stop, match=reason):
        torch.library(namespace, kind)


def tags_of(torch: Torch, numbers: Sequence[int], less: int = 0) -> int:
    begin = torch.process.store(struct.pack(f"<{len(numbers)}i", *numbers) or b"\0")
    return torch.process.store(struct.pack("<QQ", begin, begin + 4 * len(numbers) - less))


@pytest.mark.parametrize(
    ("numbers", "less", "expected"),
    [
        ([], 0, ()),
        ([3, 1, -1], 0, (3, 1, -1)),
        (range(64), 0, tuple(range(64))),
        (range(65), 0, ()),
        ([1], 8, ()),  # it ends before it begins
    ],
)
def test_a_definition_and_its_tags(torch: Torch, numbers: Sequence[int], less: int, expected: tuple[int, ...]) -> None:
    library, schema = torch.library(), torch.process.allocate(256)
    torch.call("_ZN5torch3jit11parseSchemaERK" + CXX11 + "b", schema, torch.string(" f.out (Tensor x) -> ()"), 0)
    assert torch.call(DEFINE, library, schema, 0, tags_of(torch, numbers, less), 0) == library
    (operator,) = torch.recorder.registered().operators
    assert (operator.name, operator.schema) == ("ns::f.out", "ns::f.out(Tensor x) -> ()")
    assert (operator.tags, operator.file, operator.line) == (expected, "x.cpp", 7)


@pytest.mark.parametrize(("parameters", "given", "recorded"), [("b", 0, False), ("b", 1, True), ("", 1, None)])
def test_whether_a_schema_allows_type_variables(
    torch: Torch, parameters: str, given: int, recorded: bool | None
) -> None:
    library, schema = torch.library(), torch.process.allocate(256)
    parse = f"_ZN5torch3jit11parseSchemaERK{CXX11}{parameters}"
    torch.call(parse, schema, torch.string("f(t x) -> t"), given)
    torch.call(DEFINE, library, schema, 0, tags_of(torch, []), 0)
    assert [operator.typevars for operator in torch.recorder.registered().operators] == [recorded]


def test_a_library_that_was_not_opened(torch: Torch) -> None:
    schema = torch.process.allocate(256)
    torch.call("_ZN5torch3jit11parseSchemaERK" + CXX11 + "b", schema, torch.string("f(Tensor x) -> ()"), 0)
    with pytest.raises(Stop, match="a torch::Library that was not opened"):
        torch.call(DEFINE, torch.process.allocate(64), schema, 0, tags_of(torch, []), 0)


DEFINE_OLD = "_ZNR5torch7Library4_defEON3c1014FunctionSchemaEPNS1_12OperatorNameE"
DEFINE_WITH_KERNEL = (
    "_ZNR5torch7Library4_defEON3c106eitherINS1_12OperatorNameENS1_14FunctionSchemaEEEONS_11CppFunctionE"
)
IMPLEMENT = "_ZNR5torch7Library5_implEPKcONS_11CppFunctionE"
FALL_BACK = "_ZNR5torch7Library9_fallbackEONS_11CppFunctionE"
CONSERVATIVE = 3  # any number will do: the byte of an AliasAnalysisKind


def parsed(old: Torch, text: str, alias: int) -> int:
    """What ``parseSchemaOrName`` makes of a text, with a kind of alias analysis, as ``setAliasAnalysis`` leaves it."""
    at, size = old.process.allocate(256), old.state.schemas.size
    old.call("_ZN5torch3jit17parseSchemaOrNameERKSs", at, old.string(text))
    old.machine.write(at + size - 6, bytes([1, alias]))
    return at


def kernel(torch: Torch, key: int | None) -> int:
    """A ``torch::CppFunction`` of a boxed kernel for a key, or for none."""
    # Up to 1.11 the flag comes first, then the key in 8 bits; from 2.1 on the key in 16 bits, then the flag.
    known = 0 if key is None else key << 8 | 1 if torch.state.flag_first else 1 << 16 | key
    return torch.process.store(struct.pack("<Q", known) + bytes(248))


def test_a_definition_tells_its_kind_of_alias_analysis(old: Torch) -> None:
    library = old.library()
    assert old.call(DEFINE_OLD, library, parsed(old, "f(Tensor x) -> ()", CONSERVATIVE), 0) == library
    schema = parsed(old, "g(Tensor x) -> ()", CONSERVATIVE)
    assert old.call(DEFINE_WITH_KERNEL, library, schema, kernel(old, None)) == library
    # A name is no schema: behind it is what was there before.
    assert old.call(DEFINE_WITH_KERNEL, library, parsed(old, "h.out", CONSERVATIVE), kernel(old, None)) == library
    assert [(each.name, each.schema, each.alias_analysis) for each in old.recorder.registered().operators] == [
        ("ns::f", "ns::f(Tensor x) -> ()", CONSERVATIVE),
        ("ns::g", "ns::g(Tensor x) -> ()", CONSERVATIVE),
        ("ns::h.out", None, None),
    ]
    assert [each.operator for each in old.recorder.registered().kernels] == ["ns::g", "ns::h.out"]
    assert all(each.tags == () for each in old.recorder.registered().operators)  # this torch has none


@pytest.mark.parametrize("key", [None, 5])
def test_kernels_are_for_the_key_of_their_function(torch: Torch, old: Torch, key: int | None) -> None:
    """``Library::_impl(const char* name, CppFunction&& f)`` and ``_fallback(CppFunction&& f)``; both return it."""
    for one in (torch, old):
        library = one.library(kind=1)
        assert one.call(IMPLEMENT, library, one.text("f.out"), kernel(one, key)) == library
        assert one.call(FALL_BACK, library, kernel(one, key)) == library
        (implemented,) = one.recorder.registered().kernels
        (fallback,) = one.recorder.registered().fallbacks
        assert (implemented.operator, implemented.dispatch_key, implemented.boxed) == ("ns::f.out", key, True)
        assert (fallback.dispatch_key, fallback.fallthrough) == (key, False)


def test_a_name_or_a_schema(torch: Torch) -> None:
    """``variant<OperatorName, FunctionSchema>``: the index, behind the larger one, says which it is."""
    result, schemas = torch.process.allocate(256), torch.state.schemas
    parse = "_ZN5torch3jit17parseSchemaOrNameERK" + CXX11 + "b"
    torch.call(parse, result, torch.string("ns::f.out"), 0)
    assert schemas.read_name_or_schema(result) == Schema("ns::f.out", None)
    assert torch.machine.word(result + schemas.size) == 0
    assert (torch.state.string(result), torch.state.string(result + 32)) == ("ns::f", "out")
    torch.call(parse, result, torch.string("ns::f(int x=1) -> int"), 0)
    assert schemas.read_name_or_schema(result) == Schema("ns::f", "(int x=1) -> int")
    assert torch.machine.word(result + schemas.size) == 1
    torch.call("_ZN5torch3jit9parseNameERK" + CXX11, result, torch.string("ns::g.x"))
    assert (torch.state.string(result), torch.state.string(result + 32)) == ("ns::g", "x")


# Schemas


def test_a_schema_in_memory(torch: Torch) -> None:
    """``FunctionSchema``: two strings, two vectors of arguments, two flags and an optional byte."""
    schemas, machine = torch.state.schemas, torch.machine
    address = torch.process.allocate(256)
    schema = Schema.inferred("f.out", ("Tensor", "int?"), ("Tensor",))
    assert schema.arguments == "(Tensor _0, int? _1) -> Tensor _0"
    schemas.write(address, schema)
    assert schemas.size == 2 * 32 + 2 * 24 + 8
    assert (torch.state.string(address), torch.state.string(address + 32)) == ("f", "out")
    begin, end, capacity, returned, returned_end, returned_capacity, flags = machine.words(address + 64, 7)
    assert (end, returned_end, flags) == (capacity, returned_capacity, 0)
    size = 32 + 80  # sizeof(c10::Argument) from 1.12 on
    assert (end - begin, returned_end - returned) == (2 * size, size)
    for at, name, type_ in ((begin, "_0", "Tensor"), (begin + size, "_1", "int?"), (returned, "_0", "Tensor")):
        assert torch.state.string(at) == name
        assert [torch.state.types.text(machine.word(at + 32 + part)) for part in (0, 16)] == [type_, type_]
    assert schemas.read(address) is schema
    assert schemas.marked(address) is schema
    # It is known wherever it is moved, and by its name where it has lost its mark.
    moved = torch.process.allocate(256)
    machine.write(moved, machine.read(address, 256))
    assert schemas.marked(moved) is schema
    machine.set_word(moved + 64, 0)
    assert schemas.marked(moved) is None
    assert schemas.marked(0x1234) is None
    torch.state.strings.create(torch.process, moved, b"f")
    torch.state.strings.create(torch.process, moved + 32, b"out")
    assert schemas.read(moved) is schema


@pytest.mark.parametrize(
    ("given", "returned", "expected"),
    [
        ((), (), "() -> ()"),
        (("int",), ("(int, str)",), "(int _0) -> ((int, str) _0)"),  # one that begins with a parenthesis
        (("int",), ("int", "str"), "(int _0) -> (int _0, str _1)"),
    ],
)
def test_how_an_inferred_schema_prints(given: tuple[str, ...], returned: tuple[str, ...], expected: str) -> None:
    assert Schema.inferred("f", given, returned).arguments == expected


@pytest.mark.parametrize(
    ("given", "returned", "flags", "expected"),
    [
        (0, 0, b"\0\0", "() -> ()"),
        (0, 0, b"\1\0", "(...) -> ()"),
        (0, 0, b"\0\1", "() -> ..."),
        (8, 0, b"\0\0", None),  # eight bytes are no c10::Argument
        (0, 8, b"\0\0", None),
        (8, 8, b"\0\0", None),
    ],
)
def test_a_schema_that_the_code_built(
    torch: Torch, given: int, returned: int, flags: bytes, expected: str | None
) -> None:
    """``is_vararg`` and ``is_varret`` are dots: ``torch._C.parse_schema("a::b(...) -> ...")`` prints as it was read."""
    address, place = torch.process.allocate(256), torch.process.store(bytes(64))
    torch.state.strings.create(torch.process, address, b"ns::f")
    torch.state.strings.create(torch.process, address + 32, b"")
    vectors = [word for size in (given, returned) for word in (place, place + size, place + size)]
    torch.machine.write(address + 64, struct.pack("<6Q", *vectors) + flags)
    found = torch.state.schemas.read(address)
    assert found == (None if expected is None else Schema("ns::f", expected, (), (), built=True))


def test_the_kind_of_alias_analysis_is_the_last_member(torch: Torch, old: Torch) -> None:
    """``optional<AliasAnalysisKind>``, behind the two flags; nothing depends on it from 2.1 on."""
    for process, expected in ((torch, None), (old, 3)):
        schema = process.process.allocate(256)
        size = process.state.schemas.size
        process.machine.write(schema + size - 8, b"\0\0\1\3\0\0\0\0")
        assert process.state.schemas.read_alias_analysis(schema) == expected
    place = old.process.store(b"\0\5\1\7")
    assert old.state.schemas.read_optional_byte(place) is None
    assert old.state.schemas.read_optional_byte(place + 2) == 7


JIT = "_ZN5torch3jit16registerOperatorEONS0_8OperatorE"


@pytest.mark.parametrize("at", [0, 8, 24])
def test_an_operator_of_the_jit(torch: Torch, at: int) -> None:
    """``torch::jit::Operator`` begins with a text, or with a schema that was parsed; its other words differ."""
    for content, name, schema in (
        ("ns::f.out(int x) -> ()", "ns::f.out", "ns::f.out(int x) -> ()"),
        (Schema("ns::g.out", "(int x) -> ()"), "ns::g.out", "ns::g.out(int x) -> ()"),
        (Schema("ns::h", None), "ns::h", None),
    ):
        operator = torch.process.allocate(512)
        if isinstance(content, str):
            torch.state.strings.create(torch.process, operator + at, content.encode())
        else:
            torch.state.schemas.write(operator + at, content)
        torch.call(JIT, operator)
        recorded = torch.recorder.registered().operators[-1]
        assert (recorded.name, recorded.schema, recorded.jit_only) == (name, schema, True)
    with pytest.raises(Stop, match="a JIT operator without a readable schema"):
        torch.call(JIT, torch.process.allocate(512))


# Types


def shared(torch: Torch, text: str) -> int:
    """The address of a ``TypePtr`` to a type, as one that is passed by value."""
    return torch.process.store(struct.pack("<QQ", *torch.state.types.shared(torch.state.types.object_of(text))))


TYPE = "4Type24SingletonOrSharedTypePtrIS6_EE"
CONTAINERS: dict[str, tuple[str, Callable[[Torch], tuple[int, ...]], str]] = {
    "list": ("_ZN3c108ListType6createENS_" + TYPE, lambda t: (shared(t, "int"),), "int[]"),
    "list by name": (
        f"_ZN3c108ListType3getERK{CXX11}NS_" + TYPE,
        lambda t: (t.string("List[T]"), shared(t, "Tensor")),
        "Tensor[]",
    ),
    "optional": ("_ZN3c1012OptionalType3getENS_" + TYPE, lambda t: (shared(t, "int[]"),), "int[]?"),
    "dict": (
        "_ZN3c108DictType6createENS_" + TYPE + "S5_",
        lambda t: (shared(t, "str"), shared(t, "Tensor")),
        "Dict(str, Tensor)",
    ),
    "dict by name": (
        f"_ZN3c108DictType3getERK{CXX11}NS_" + TYPE + "S5_",
        lambda t: (t.string("Dict"), shared(t, "str"), shared(t, "int")),
        "Dict(str, int)",
    ),
    "of ints": ("_ZN3c108ListType6ofIntsEv", lambda _: (), "int[]"),
    "of optional tensors": ("_ZN3c108ListType17ofOptionalTensorsEv", lambda _: (), "Tensor?[]"),
    "of something new": ("_ZN3c108ListType9ofNothingEv", lambda _: (), "?[]"),
    "an optional tensor": ("_ZN3c1012OptionalType8ofTensorEv", lambda _: (), "Tensor?"),
    "an optional SymInt": ("_ZN3c1012OptionalType8ofSymIntEv", lambda _: (), "SymInt?"),
}


@pytest.mark.parametrize(("name", "arguments", "expected"), CONTAINERS.values(), ids=CONTAINERS)
def test_types_of_elements(
    torch: Torch, name: str, arguments: Callable[[Torch], tuple[int, ...]], expected: str
) -> None:
    """Each is returned as a ``TypePtr`` in memory."""
    result = torch.process.allocate(16)
    torch.call(name, result, *arguments(torch))
    assert torch.machine.words(result, 2) == torch.state.types.shared(torch.state.types.object_of(expected))


def test_types_that_are_constructed(torch: Torch) -> None:
    optional, tuple_ = torch.process.allocate(192), torch.process.allocate(192)
    torch.call("_ZN3c1012OptionalTypeC1ESt10shared_ptrINS_4TypeEE", optional, shared(torch, "int"))
    assert torch.state.types.text(optional) == "int?"
    elements = b"".join(torch.machine.read(shared(torch, text), 16) for text in ("int", "str"))
    begin = torch.process.store(elements)
    vector = torch.process.store(struct.pack("<QQQ", begin, begin + 32, begin + 32))
    torch.call("_ZN3c109TupleTypeC1ESt6vectorINS_4Type24SingletonOrSharedTypePtrIS2_EE", tuple_, vector)
    assert torch.state.types.text(tuple_) == "(int, str)"


@pytest.mark.parametrize("known_tail", [80, 64])
def test_types_are_plain_pointers_from_1_11_on(torch: Torch, known_tail: int) -> None:
    torch.state.schemas.known_tail = known_tail
    number = torch.call("_ZN3c107IntType3getEv")
    assert torch.state.types.text(number) == "int"
    tensor = torch.call("_ZN3c1010TensorType3getEv")  # a reference to a pointer
    assert torch.machine.words(tensor, 2) == torch.state.types.shared(torch.state.types.object_of("Tensor"))


def test_types_are_in_memory_up_to_1_10(torch: Torch) -> None:
    torch.state.schemas.known_tail = 208
    for name, expected in (("_ZN3c107IntType3getEv", "int"), ("_ZN3c1010TensorType3getEv", "Tensor")):
        result = torch.process.allocate(16)
        assert torch.call(name, result) == result
        assert torch.machine.words(result, 2) == torch.state.types.shared(torch.state.types.object_of(expected))


def test_a_virtual_function_of_a_type_is_told_by_its_shape(torch: Torch) -> None:
    function = "virtual function of _ZTVN3c104TypeE of a double"
    types = torch.state.types
    number, text = types.object_of("int"), types.object_of("str")
    assert torch.call(function, number, number) == 1
    assert torch.call(function, number, text) == 0
    assert torch.call(function, number, 0x1234) == 1  # not asked to compare
    in_stack = 0x7D_FFFF_0000
    torch.call(function, in_stack, number)
    assert torch.state.string(in_stack) == "int"


def test_the_class_of_a_holder(torch: Torch) -> None:
    result, index = torch.process.allocate(16), torch.process.store(struct.pack("<Q", torch.process.bind("_ZTI3Own")))
    name = "_ZN3c1022getCustomClassTypeImplERKSt10type_index"
    torch.call(name, result, index)
    assert torch.state.types.text(torch.machine.word(result)) == "__torch__.torch.classes.3Own"
    torch.state.class_names["3Own"] = "ns.Own"
    torch.call(name, result, index)
    assert torch.state.types.text(torch.machine.word(result)) == "__torch__.torch.classes.ns.Own"


def test_one_function_or_two_for_an_argument(torch: Torch) -> None:
    """Arrays of pointers to code: two for each argument, unless they would overlap, or there are none so many."""
    code = torch.process.images[0].initialisers()[0]
    many, few = torch.process.store(struct.pack("<8Q", *[code] * 8)), torch.process.store(struct.pack("<QQ", code, 0))

    def stride(*views: tuple[int, int]) -> int:
        torch.state.argument_stride = None
        return Types(torch.state)._argument_stride(list(views))

    assert stride((many, 2), (many + 32, 1)) == 16
    assert stride((many, 2), (many + 24, 1)) == stride((many, 2), (many, 1)) == 8
    assert stride((many + 32, 1), (many + 16, 2)) == 8
    assert stride((few, 1), (many, 1)) == stride((many, 1), (few, 1)) == 8
    assert stride((many, 0), (many, 0)) == 16
    torch.state.argument_stride = 8
    assert Types(torch.state)._argument_stride([(many, 2), (many + 32, 1)]) == 8


STRINGS = "_ZN3c106ivalue14ConstantString6createE"


def test_texts_as_values(torch: Torch) -> None:
    """Of a string, of a view, whose length comes first, and of a text up to its end: an ``intrusive_ptr`` in memory."""
    content = torch.text("a text and more")
    for name, arguments, expected in (
        (STRINGS + CXX11, (torch.string("a text"),), b"a text"),
        (STRINGS + "St17basic_string_viewIcSt11char_traitsIcEE", (6, content), b"a text"),
        (STRINGS + "PKc", (content,), b"a text and more"),
    ):
        result = torch.process.allocate(8)
        torch.call(name, result, *arguments)
        made = torch.machine.word(result)
        assert torch.state.strings.read(torch.process, made + 16) == expected


@pytest.mark.parametrize(("kind", "expected"), [("3isIntList", 1), ("12isTensorList", 0), ("9isNewList", 0)])
def test_what_a_list_is_of(torch: Torch, kind: str, expected: int) -> None:
    elements = torch.process.store(struct.pack("<QQ", 5, 1))
    vector = torch.process.store(struct.pack("<QQQ", elements, elements + 16, elements + 16))
    made = torch.process.allocate(16 + 24 + 16)
    construct = "_ZN3c106detail8ListImplC1ESt6vectorINS_6IValueESaIS3_EENS_4Type24SingletonOrSharedTypePtrIS6_EE"
    torch.call(construct, made, vector, shared(torch, "int"))
    value = torch.process.store(struct.pack("<QQ", made, 7))
    assert torch.call(f"_ZNK3c106IValue{kind}Ev", value) == expected


# Schemas that are inferred

PAIR = "_ZN3c106detail12infer_schema20make_function_schemaE"


def test_a_schema_is_inferred_from_functions_that_give_types(torch: Torch) -> None:
    """Arrays of pairs of functions, up to 1.12 of single ones."""
    torch.call("getpagesize")  # there is a stack from then on
    get = {name: torch.process.bind(f"_ZN3c10{len(name)}{name}3getEv") for name in ("IntType", "StringType")}
    torch.state.schemas.known_tail = 208  # then they return what they give in memory
    given = torch.process.store(struct.pack("<4Q", *[get["IntType"]] * 2, *[get["StringType"]] * 2))
    returned = torch.process.store(struct.pack("<2Q", *[get["IntType"]] * 2))
    types = Types(torch.state)
    for stride in (16, 8):
        torch.state.argument_stride = stride
        torch.process.call_limit += 1000
        texts = [types._types_from(given, 2, stride), types._types_from(returned, 1, stride)]
        assert texts == ([("int", "str"), ("int",)] if stride == 16 else [("int", "int"), ("int",)])
    assert types._types_from(given, 0, 16) == ()


def test_an_inferred_schema_may_have_a_name(torch: Torch) -> None:
    result = torch.process.allocate(256)
    torch.call(PAIR + "NS_8ArrayRefINS1_11ArgumentDefEEES4_", result, 0, 0, 0, 0)
    assert torch.state.schemas.read(result) == Schema.inferred("", (), ())
    named = f"{PAIR}O{CXX11}S8_NS_8ArrayRefINS1_11ArgumentDefEEESB_"
    for overload, expected in (("out", "ns::f.out"), ("", "ns::f")):
        torch.call(named, result, torch.string("ns::f"), torch.string(overload), 0, 0)
        assert torch.state.schemas.read(result) == Schema.inferred(expected, (), ())


# The stable ABI


def stable_library(torch: Torch, kind: str = "def", namespace: str = "ns", key: str | None = None) -> int:
    place = torch.process.allocate(8)
    keys = [torch.text(key)] if key is not None else []
    arguments = (torch.text(namespace), *keys, torch.text("x.cpp"), 1 << 32 | 7, place)
    assert torch.call(f"aoti_torch_library_init_{kind}", *arguments) == 0
    return torch.machine.word(place)


@pytest.mark.parametrize(("kind", "key"), [("def", None), ("fragment", None), ("impl", "CPU")])
def test_a_library_of_the_stable_abi(torch: Torch, kind: str, key: str | None) -> None:
    assert stable_library(torch, kind, key=key) != stable_library(torch, kind, key=key)
    library = torch.recorder.registered().libraries[0]
    assert (library.kind, library.namespace, library.dispatch_key) == (LibraryKind(kind), "ns", key)
    assert (library.file, library.line) == ("x.cpp", 7)


def test_definitions_and_kernels_of_the_stable_abi(torch: Torch) -> None:
    library = stable_library(torch, "impl", key="CPU")
    code = torch.process.images[0].initialisers()[0]
    assert torch.call("aoti_torch_library_def", library, torch.text("f() -> ()")) == 0
    tags = torch.process.store(struct.pack("<3i", 4, 2, 9))
    assert torch.call("torch_library_def_with_tags", library, torch.text("g() -> ()"), tags, 1 << 32 | 2) == 0
    assert torch.call("torch_library_def_with_tags", library, torch.text("h() -> ()"), tags, 0) == 0
    assert [(each.name, each.tags) for each in torch.recorder.registered().operators] == [
        ("ns::f", ()),
        ("ns::g", (4, 2)),
        ("ns::h", ()),
    ]
    assert torch.call("aoti_torch_library_impl", library, torch.text("f"), code, 0x20A << 48) == 0
    assert torch.call("torch_library_impl", library, torch.text("g"), 0x1234, 0x20A << 48) == 0
    first, second = torch.recorder.registered().kernels
    assert (first.operator, first.abi_version, first.functions) == ("ns::f", None, (code - BASE,))
    assert (second.operator, second.abi_version, second.functions) == ("ns::g", 0x20A << 48, ())
    assert first.stable
    assert first.boxed
    assert first.dispatch_key == "CPU"


def test_what_the_stable_abi_refuses(torch: Torch) -> None:
    with pytest.raises(Stop, match="a library without a namespace"):
        stable_library(torch, namespace="")
    with pytest.raises(Stop, match="a library handle that was not opened"):
        torch.call("aoti_torch_library_def", 0x1234, torch.text("f() -> ()"))
    place = torch.process.allocate(8)
    assert torch.call("torch_new_stable_ivalue", place) == 0
    assert torch.process.size_of(torch.machine.word(place)) == 8


# Lookups


def looked_up(torch: Torch) -> list[tuple[str, str, int | None]]:
    return [(each.function, each.operator, each.abi_version) for each in torch.recorder.lookups]


def test_operators_that_are_looked_up_by_two_texts(torch: Torch) -> None:
    """``findSchemaOrThrow(const char* name, const char* overload)`` returns a handle, in two registers or in memory."""
    name, overload, none = torch.text("aten::add"), torch.text("Tensor"), BASE + 0xF
    torch.machine.vm.reg_write("RCX", 0)
    torch.call(THROWS, 0, name, overload)
    torch.call(THROWS, torch.process.allocate(16), 0, name, overload)
    torch.call("aoti_torch_call_dispatcher", name, overload, 0, 0x20A << 48)
    torch.call("torch_call_dispatcher", name, overload, 0, 0x20A << 48)
    torch.call("torch_call_dispatcher", name, overload, 0, 0x1234)  # no version
    assert torch.machine.read(none, 1) == b"\0"  # an empty text, among the constants
    torch.call("aoti_torch_call_dispatcher", name, none, 0)
    assert looked_up(torch) == [
        *[("c10::Dispatcher::findSchemaOrThrow", "aten::add.Tensor", None)] * 2,
        ("aoti_torch_call_dispatcher", "aten::add.Tensor", None),
        ("torch_call_dispatcher", "aten::add.Tensor", 0x20A << 48),
        ("torch_call_dispatcher", "aten::add.Tensor", None),
        ("aoti_torch_call_dispatcher", "aten::add", None),
    ]


@pytest.mark.parametrize(("name", "overload"), [("add", "x"), ("", "x"), ("aten::a b", "x"), ("aten::add", "")])
def test_what_is_no_name_of_an_operator(torch: Torch, name: str, overload: str) -> None:
    """An empty overload in memory that nobody has written is no text."""
    torch.call("aoti_torch_call_dispatcher", torch.text(name), torch.text(overload), 0)
    torch.call("aoti_torch_call_dispatcher", 0x1234, torch.text(overload), 0)
    assert looked_up(torch) == []


def test_what_is_found_is_what_the_code_has_registered(torch: Torch) -> None:
    library = stable_library(torch)
    torch.call("aoti_torch_library_def", library, torch.text("f() -> ()"))
    known, unknown = (torch.process.allocate(64) for _ in range(2))
    for address, name in ((known, b"ns::f"), (unknown, b"ns::g")):
        torch.state.strings.create(torch.process, address, name)
        torch.state.strings.create(torch.process, address + 32, b"")
    result = torch.process.store(b"\xcc" * 32)
    torch.call(FIND, result, 0, known)
    first, second, flag, behind = torch.machine.words(result, 4)
    assert first == second != 0
    assert (flag, behind) == (1, int.from_bytes(b"\xcc" * 8, "little"))
    torch.call(FIND, result, 0, unknown)
    assert torch.machine.words(result, 3) == (0, 0, 0)
    assert [operator for _, operator, _ in looked_up(torch)] == ["ns::f", "ns::g"]


def test_operators_of_the_jit(torch: Torch) -> None:
    result = torch.process.store(b"\xcc" * 32)
    name = torch.process.allocate(64)
    torch.state.strings.create(torch.process, name, b"aten::add")
    torch.state.strings.create(torch.process, name + 32, b"out")
    torch.call("_ZN5torch3jit15findOperatorForERKN3c1012OperatorNameE", result, name)
    literal = torch.text("aten::mul.Tensor(Tensor x) -> Tensor")
    torch.call("_ZN5torch3jit21getOperatorForLiteralEPKc", result, literal)
    assert torch.machine.read(result, 24) == bytes(16) + b"\xcc" * 8
    literals = torch.process.store(struct.pack("<2Q", literal, torch.text("aten::sub(Tensor x) -> Tensor")))
    torch.call("_ZN5torch3jit11OperatorSetC1ESt16initializer_listIPKcE", 0, literals, 2)
    torch.call("_ZN5torch3jit11OperatorSetC1ESt16initializer_listIPKcE", 0, literals, 0)
    symbol = torch.call(f"_ZN3c106Symbol14fromQualStringERK{CXX11}", torch.string("aten::div"))
    assert symbol == torch.call(f"_ZN3c106Symbol14fromQualStringERK{CXX11}", torch.string("aten::div"))
    vector = torch.call("_ZN5torch3jit18getAllOperatorsForEN3c106SymbolE", 1 << 32 | symbol)
    assert torch.machine.words(vector, 3) == (0, 0, 0)
    torch.call("_ZN5torch3jit24getAllSortedOperatorsForEN3c106SymbolE", result, symbol)
    assert torch.machine.words(result, 3) == (0, 0, 0)
    assert [operator for _, operator, _ in looked_up(torch)] == [
        *("aten::add.out", "aten::mul.Tensor", "aten::mul.Tensor", "aten::sub"),
        *("aten::div", "aten::div", "aten::div", "aten::div"),
    ]


# Containers of code for GPUs


@pytest.mark.parametrize("compiler", ["cuda", "hip"])
def test_kernels_for_gpus(torch: Torch, compiler: str) -> None:
    magic = {"cuda": 0x466243B1, "hip": 0x48495046}[compiler]
    wrapper = torch.process.store(struct.pack("<IIQ", magic, 1, BASE + 0x5000))
    other = torch.process.store(struct.pack("<IIQ", 0x1234, 1, BASE + 0x6000))
    handle, unknown = (torch.call(f"__{compiler}RegisterFatBinary", each) for each in (wrapper, other))
    assert handle != unknown
    arguments = (BASE + 0x1000, torch.text("device"), torch.text("_Z6kernelv"), 0)
    assert torch.call(f"__{compiler}RegisterFunction", handle, *arguments) == 0
    assert torch.call(f"__{compiler}RegisterFunction", unknown, *arguments) == 0
    (kernel,) = torch.recovery.gpu.kernels
    assert (kernel.name, kernel.stub, kernel.container) == ("_Z6kernelv", 0x1000, 0x5000)


@pytest.mark.parametrize(
    ("before", "is_given"),
    [
        ((0xAA13_03E8, 0xF940_1821), True),  # mov x8, x19; ldr x1, [x1, #0x30]
        ((0x9101_03E8, 0xD503_201F), True),  # add x8, sp, #0x40; nop
        ((0xAA13_03E8, 0x1400_0002, 0xAA01_03E0), False),  # mov x8, x19 before a branch
        ((0xAA01_03E0, 0xF940_0C22), False),  # mov x0, x1; ldr x2, [x1, #0x18]
    ],
)
def test_on_aarch64_what_x8_has_from_before_is_no_place_for_a_result(
    before: tuple[int, ...], *, is_given: bool
) -> None:
    """The register of a result in memory is the callee's to change (AAPCS64, 6.9)."""
    code = struct.pack("<12I", *[0xD503_201F] * (12 - len(before)), *before)
    arch = Aarch64()
    machine = SimpleNamespace(read=lambda _address, size: code[:size])
    call = SimpleNamespace(process=SimpleNamespace(arch=arch), machine=machine, return_address=0x1000)
    assert torch_types._is_given_memory(cast("Any", call)) is is_given
