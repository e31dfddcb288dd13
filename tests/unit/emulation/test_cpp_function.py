"""What torch itself is asked about the objects that its code makes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.cpp_function import CPP_FUNCTION_WORDS, Function, read_function, read_optional_key
from abiscan.emulation.loader import BASE
from abiscan.emulation.recovery import Recovery
from abiscan.emulation.schema_objects import Schema

SAMPLES = Path(__file__).parents[3] / "sample_binaries" / "registrations"
FALLTHROUGH = "_ZN3c1018fallthrough_kernelEPNS_14OperatorKernelERKNS_14OperatorHandleENS_14DispatchKeySetEPSt6vectorINS_6IValueESaIS7_EE"  # noqa: E501


@pytest.mark.parametrize(
    ("value", "wide", "expected"),
    [
        (0x0001_0B01, False, 11),  # a key of 8 bits; what follows is not the optional's
        (0x0031_8A01, True, 49),  # a key of 16 bits after a byte that is no one's
        (0x0031_0001, None, 49),
        (0x0000_0B01, None, 11),
        (0x0031_8A00, True, None),
        (0x0001_0B00, False, None),
        (0x0000_FF01, True, None),  # Undefined
    ],
)
def test_the_key_of_an_optional_with_its_flag_first(value: int, wide: bool | None, expected: int | None) -> None:
    assert read_optional_key(value, flag_first=True, wide=wide) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(1 << 16 | 49, 49), (49, None), (1 << 16, None), (0xCCCC_CCCD << 16 | 0x1FF, 0x1FF)]
)
def test_the_key_of_an_optional_with_its_value_first(value: int, expected: int | None) -> None:
    assert read_optional_key(value, flag_first=False) == expected


@pytest.fixture
def recovery() -> Iterator[Recovery]:
    file = ElfFile.open(SAMPLES / "library.so")
    made = Recovery(file, file.facts(), None)
    yield made
    made.close()


class Kernel:
    """The parts of a ``torch::CppFunction`` of 2.1: its words are key, functor, three functions, signature, schema."""

    def __init__(self, recovery: Recovery) -> None:
        self.recovery, self.process = recovery, recovery.process
        self.codes = self.process.images[0].initialisers()
        while len(self.codes) < 3:
            self.codes.append(self.codes[-1] + 4)
        self.functor = self.process.store(
            struct.pack("<4Q", self.process.bind("_ZTV7Functor") + 16, 1, self.codes[2], 0)
        )
        self.signature = self.process.bind("_ZTIFvvE")
        self.holder = self.process.allocate(256)
        self.schema = Schema.inferred("f", (), ())
        recovery.state.schemas.write(self.holder, self.schema)

    def read(self, *words: int, flag_first: bool = False) -> Function:
        place = self.process.allocate(8 * 24)
        self.process.machine.write(place, struct.pack(f"<{len(words)}Q", *words))
        return read_function(self.recovery.state, place, CPP_FUNCTION_WORDS, flag_first=flag_first)


def test_a_kernel_whose_optionals_have_their_flags_first(recovery: Recovery) -> None:
    """Up to 2.0: the flag of the signature is the word before it, of which one byte counts."""
    kernel = Kernel(recovery)
    boxed, unboxed = kernel.codes[:2]
    parts = (0x0501, kernel.functor, boxed, unboxed)
    found = kernel.read(*parts, 0xCCCC_CC01, kernel.signature, kernel.holder, 0, 0, flag_first=True)
    assert (found.key, found.signature, found.schema, found.boxed) == (5, "FvvE", kernel.schema, False)
    # Right behind the functions, of which the last one is in the place of no flag.
    shorter = kernel.read(0x0501, kernel.functor, boxed, 0xCCCC_CC01, kernel.signature, 0, 0, 0, 0, flag_first=True)
    assert (shorter.signature, shorter.schema) == ("FvvE", None)
    empty = kernel.read(*parts, 0xCCCC_CC00, kernel.signature, 1, kernel.holder, 0, flag_first=True)
    assert empty.signature is None
    two = kernel.read(*parts, 2, kernel.signature, 1, 0, 0, flag_first=True)
    assert two.signature is None


def test_the_last_word_of_a_kernel(recovery: Recovery) -> None:
    """It has no flag behind it; and a schema that the extension makes itself is there up to 1.5 alone."""
    kernel = Kernel(recovery)
    boxed, unboxed = kernel.codes[:2]
    no_flag = kernel.read(0, kernel.functor, boxed, unboxed, 0, 0, 0, 0, kernel.signature, 1)
    assert no_flag.signature is None
    old = kernel.process.allocate(256)
    last = kernel.read(0, kernel.functor, boxed, unboxed, 0, kernel.signature, 1, kernel.holder, old)
    assert (last.signature, last.schema) == ("FvvE", kernel.schema)


def test_how_far_the_functions_of_a_kernel_reach(recovery: Recovery) -> None:
    """Behind the boxed function are at most two: unboxed, and unboxed for symbolic sizes (from 1.13 on)."""
    kernel = Kernel(recovery)
    first, second, third = kernel.codes[:3]
    found = kernel.read(0, 0, first, 0, second, third, 0, 0, 0)
    assert (found.boxed, found.unboxed) == (False, None)
    assert found.addresses == (first - BASE, second - BASE)
    beyond = kernel.read(0, 0, first, 0, 0, third, 0, 0, 0)
    assert (beyond.boxed, beyond.addresses) == (True, (first - BASE,))


def test_a_kernel_with_all_its_parts(recovery: Recovery) -> None:
    kernel = Kernel(recovery)
    boxed, unboxed, made_from = kernel.codes[:3]
    found = kernel.read(1 << 16 | 5, kernel.functor, boxed, unboxed, 0, kernel.signature, 1, kernel.holder, 0)
    assert (found.key, found.signature, found.schema) == (5, "FvvE", kernel.schema)
    assert (found.boxed, found.fallthrough) == (False, False)
    assert found.unboxed == (kernel.functor, unboxed)
    assert found.addresses == (boxed - BASE, unboxed - BASE, made_from - BASE)


def test_members_that_are_not_set_are_not_read(recovery: Recovery) -> None:
    """They hold old contents of the stack: a signature without its flag, and a schema at another place."""
    kernel = Kernel(recovery)
    boxed, unboxed, _ = kernel.codes[:3]
    without_flag = kernel.read(0, kernel.functor, boxed, unboxed, 0, kernel.signature, 0, kernel.holder, 0)
    assert (without_flag.key, without_flag.signature, without_flag.schema) == (None, None, kernel.schema)
    kernel.read(0, kernel.functor, boxed, unboxed, 0, kernel.signature, 1, kernel.holder, 0)  # where a schema is
    elsewhere = kernel.read(0, kernel.functor, boxed, unboxed, kernel.holder, kernel.signature, 1, 0, 0)
    assert (elsewhere.signature, elsewhere.schema) == (None, None)
    no_function = kernel.read(0, kernel.functor, boxed, unboxed, 0, kernel.process.bind("_ZTI7NoType"), 1, 0, 0)
    assert no_function.signature is None


def test_kernels_without_a_type(recovery: Recovery) -> None:
    kernel = Kernel(recovery)
    boxed = kernel.codes[0]
    found = kernel.read(1 << 16 | 5, 0, boxed, 0, 0, 0, 0, 0, 0)
    assert (found.boxed, found.fallthrough, found.unboxed) == (True, False, None)
    assert found.addresses == (boxed - BASE,)
    through = kernel.read(1 << 16 | 5, 0, kernel.process.bind(FALLTHROUGH), 0, 0, 0, 0, 0, 0)
    assert (through.boxed, through.fallthrough, through.addresses) == (False, True, ())
    # Up to 1.8 the functor is a shared_ptr: two words.
    two_words = kernel.read(1 << 16 | 5, kernel.functor, 0x1234, boxed, kernel.codes[1], 0, 0, 0, 0)
    assert two_words.unboxed == (kernel.functor, kernel.codes[1])
    assert not two_words.boxed


@pytest.mark.parametrize("at", [7, 9, 11])
def test_where_the_last_member_begins_tells_releases_apart(recovery: Recovery, at: int) -> None:
    """An empty string points to the characters inside it, which begin with a NUL, and is of no length."""
    place = recovery.process.allocate(8 * 24)
    words = [0] * 16
    words[at : at + 3] = [place + 8 * (at + 2), 0, 0xCCCC_CC00]
    recovery.process.machine.write(place, struct.pack("<16Q", *words))
    read_function(recovery.state, place, CPP_FUNCTION_WORDS, flag_first=False)
    assert recovery.recorder.debug_at == {8 * at}
    # One that is not empty, or points elsewhere, tells nothing; nor does one that the double has made.
    recovery.recorder.debug_at.clear()
    for other in ((place + 8 * (at + 2), 1, 0), (place + 8 * (at + 2), 0, 0x41), (place, 0, 0)):
        recovery.process.machine.write(place + 8 * at, struct.pack("<3Q", *other))
        read_function(recovery.state, place, CPP_FUNCTION_WORDS, flag_first=False)
    recovery.process.machine.write(place, struct.pack("<16Q", *words))
    recovery.state.doubled.add(place)
    read_function(recovery.state, place, CPP_FUNCTION_WORDS, flag_first=False)
    assert recovery.recorder.debug_at == set()


def test_which_schemas_share_their_arguments(recovery: Recovery) -> None:
    """Nobody changes those of kernels; those of a method, which has a name, are moved from."""
    process, schemas, strings = recovery.process, recovery.state.schemas, recovery.state.strings

    def arguments_of(schema: Schema) -> int:
        place = process.allocate(schemas.size)
        schemas.write(place, schema)
        return process.machine.word(place + 2 * strings.size)

    kernel, other = Schema.inferred("", ("int",), ()), Schema.inferred("", ("float",), ())
    method = Schema.inferred("ns.Class.method", ("int",), ())
    assert arguments_of(kernel) == arguments_of(Schema.inferred("", ("int",), ()))
    assert arguments_of(kernel) != arguments_of(other)
    assert arguments_of(method) != arguments_of(method)
