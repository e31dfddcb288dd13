"""``c10::Argument`` objects in memory, in the three layouts that they have had (``ATen/core/function_schema.h``)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.arguments import (
    ARGUMENT_WITH_PLAIN_TYPE,
    ARGUMENT_WITH_SHARED_TYPE,
    ARGUMENT_WITH_TWO_TYPES,
    Arguments,
)
from abiscan.emulation.doubles import finder
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.process import EmulatedProcess
from abiscan.emulation.standard_types import StandardTypes
from abiscan.emulation.strings import CXX11
from abiscan.emulation.type_objects import TypeObjects
from abiscan.emulation.values import Values

SAMPLE = Path(__file__).parents[3] / "sample_binaries" / "registrations" / "library.so"
SYMBOLS = {1: "alias::a", 2: "alias::b", 3: "alias::*"}
TAILS = (ARGUMENT_WITH_TWO_TYPES, ARGUMENT_WITH_PLAIN_TYPE, ARGUMENT_WITH_SHARED_TYPE)


@dataclass
class Alias:
    """``c10::AliasInfo``: the sets before and after, whether it is written, and those of the elements."""

    before: Sequence[int]
    after: Sequence[int] | None = None
    written: bool = False
    contained: Sequence[Alias] = ()


@dataclass
class Built:
    name: str
    type: str
    length: int | None = None
    default: int | None = None
    alias: Alias | None = None
    keyword_only: bool = False
    expected: str = field(default="")


class Memory:
    def __init__(self, process: EmulatedProcess) -> None:
        self.process = process
        standard = StandardTypes(process=process, strings=CXX11, flag_first=False)
        self.types = TypeObjects(standard)
        self.arguments = Arguments(standard, self.types, Values(standard), lambda number: SYMBOLS[number])

    def symbols(self, numbers: Sequence[int]) -> bytes:
        """A ``std::unordered_set<Symbol>``: its first node is its third word; what it has else does not matter."""
        node = 0
        for number in reversed(numbers):
            node = self.process.store(struct.pack("<QII", node, number, 0xCCCC_CCCC))
        return struct.pack("<QQQ", 0, 1, node).ljust(56, b"\xcc")

    def alias(self, info: Alias) -> bytes:
        content = b"".join(map(self.alias, info.contained))
        begin = self.process.store(content) if content else 0
        sets = self.symbols(info.before) + self.symbols(info.before if info.after is None else info.after)
        vector = struct.pack("<QQQ", begin, begin + len(content), begin + len(content))
        return sets + vector + bytes([info.written]).ljust(8, b"\xcc")

    def argument(self, built: Built, tail: int) -> bytes:
        process = self.process
        at = process.allocate(32)
        CXX11.create(process, at, built.name.encode())
        pointer, length = process.machine.words(at, 2)
        if pointer == at + 16:  # the text is inside, and moves along
            pointer = process.store(built.name.encode() + b"\0")
        data = struct.pack("<QQQQ", pointer, length, length, 0)
        type_ = struct.pack("<QQ", *self.types.shared(self.types.object_of(built.type)))
        if tail == ARGUMENT_WITH_TWO_TYPES:
            data += struct.pack("<QQ", *self.types.shared(self.types.object_of("NoneType")))
        data += type_
        data += struct.pack("<iB3x", built.length or 0, built.length is not None)
        data += struct.pack("<qII", built.default or 0, 1, 0) + bytes([built.default is not None]).ljust(8, b"\0")
        keyword = bytes([built.keyword_only]).ljust(8, b"\xcc")
        if tail == ARGUMENT_WITH_SHARED_TYPE:
            data += keyword + bytes([built.alias is not None]).ljust(8, b"\xcc")
            data += self.alias(built.alias) if built.alias else b"\xcc" * 144
        else:
            data += struct.pack("<Q", process.store(self.alias(built.alias)) if built.alias else 0) + keyword
        assert len(data) == 32 + tail
        return data

    def vector(self, all_of_them: Sequence[Built], tail: int, less: int = 0) -> int:
        data = b"".join(self.argument(built, tail) for built in all_of_them)
        begin = self.process.store(data)
        return self.process.store(struct.pack("<QQ", begin, begin + len(data) - less))


@pytest.fixture
def memory() -> Iterator[Memory]:
    file = ElfFile.open(SAMPLE)
    process = EmulatedProcess(file, file.facts().machine, finder((LIBC,)), lambda *_: None)
    yield Memory(process)
    process.close()


ARGUMENTS = (
    Built("self", "Tensor", expected="Tensor self"),
    Built("", "Tensor", expected="Tensor"),
    Built("size", "int[]", length=2, expected="int[2] size"),
    Built("size", "int[]", length=-1, expected="int[-1] size"),
    Built("size", "int[]", expected="int[] size"),
    Built("size", "int[]?", length=3, expected="int[3]? size"),
    Built("dim", "int", default=-7, keyword_only=True, expected="int dim=-7"),
    Built("dim", "int?", default=0, expected="int? dim=0"),
    Built("self", "Tensor", alias=Alias([1]), expected="Tensor(a) self"),
    Built("self", "Tensor", alias=Alias([1], written=True), keyword_only=True, expected="Tensor(a!) self"),
    Built("self", "Tensor?", alias=Alias([1], written=True), expected="Tensor(a!)? self"),
    Built("self", "Tensor", alias=Alias([1], [3], written=True), expected="Tensor(a! -> *) self"),
    Built("self", "Tensor", alias=Alias([1, 2]), expected="Tensor(a|b) self"),
    Built("self", "Tensor", alias=Alias([1, 2], [2, 1]), expected="Tensor(a|b) self"),
    Built("self", "Tensor", alias=Alias([]), expected="Tensor self"),
    Built("list", "Tensor[]", alias=Alias([1], contained=[Alias([2])]), expected="Tensor(b)[](a) list"),
    Built("list", "Tensor[]", alias=Alias([], contained=[Alias([1], written=True)]), expected="Tensor(a!)[] list"),
    Built("list", "Tensor[]", alias=Alias([1]), expected="Tensor[](a) list"),
)


@pytest.mark.parametrize("tail", TAILS)
def test_every_argument(memory: Memory, tail: int) -> None:
    found = memory.arguments.read(memory.vector(ARGUMENTS, tail), tail)
    assert found is not None
    assert [argument.text for argument in found] == [built.expected for built in ARGUMENTS]
    assert [(argument.name, argument.type) for argument in found] == [(built.name, built.type) for built in ARGUMENTS]
    assert [argument.keyword_only for argument in found] == [built.keyword_only for built in ARGUMENTS]


@pytest.mark.parametrize("tail", TAILS)
def test_what_is_no_vector_of_arguments(memory: Memory, tail: int) -> None:
    one = Built("self", "Tensor")
    assert memory.arguments.read(memory.vector([], tail), tail) == []
    assert memory.arguments.read(memory.vector([one], tail, less=8), tail) is None
    assert memory.arguments.read(memory.vector([one], tail, less=2 * (32 + tail)), tail) is None
    assert len(memory.arguments.read(memory.vector([one] * 256, tail), tail) or ()) == 256
    assert memory.arguments.read(memory.vector([one] * 257, tail), tail) is None


def test_a_set_with_a_ring_has_an_end(memory: Memory) -> None:
    node = memory.process.store(struct.pack("<QQ", 0, 1))
    memory.process.machine.set_word(node, node)
    assert memory.arguments._symbols_in_set(memory.process.store(struct.pack("<QQQ", 0, 1, node))) == ["a"] * 64
