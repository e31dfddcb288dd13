"""The doubles of the C and C++ libraries, each called as emulated code calls it, on both architectures."""

from __future__ import annotations

import ctypes
import itertools
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.doubles import Doubles, finder
from abiscan.emulation.doubles import libc as libc_double
from abiscan.emulation.doubles.cpython import CPYTHON, fill_datum
from abiscan.emulation.doubles.cxx_strings import CXX_STRINGS
from abiscan.emulation.doubles.exceptions import EXCEPTIONS
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.doubles.libstdcxx import LIBSTDCXX
from abiscan.emulation.doubles.numbers import NUMBERS as NUMBER_DOUBLES
from abiscan.emulation.doubles.streams import STREAMS as STREAM_DOUBLES
from abiscan.emulation.doubles.system import SYSTEM
from abiscan.emulation.emulator import ProcessTermination, Stop
from abiscan.emulation.process import Call, EmulatedProcess
from abiscan.emulation.strings import COW, CXX11, StringAbi, abi_in, abi_of
from abiscan.regex import beginnings

SAMPLES = Path(__file__).parents[3] / "sample_binaries" / "registrations"
CXX11_CLASS = "St7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE"


@pytest.fixture(params=["library", "library_aarch64"])
def process(request: pytest.FixtureRequest) -> Iterator[EmulatedProcess]:
    file = ElfFile.open(SAMPLES / f"{request.param}.so")
    found = EmulatedProcess(
        file,
        file.facts().machine,
        finder((EXCEPTIONS, LIBC, NUMBER_DOUBLES, STREAM_DOUBLES, CXX_STRINGS, LIBSTDCXX, SYSTEM, CPYTHON)),
        fill_datum,
    )
    found.call_limit = 10_000
    yield found
    found.close()


def call(process: EmulatedProcess, name: str, *arguments: int) -> int:
    return process.machine.start(process.bind(name), arguments, 100_000)


def call_for_object(process: EmulatedProcess, name: str, *arguments: int) -> int:
    """Call a function that returns an object; the address of the object."""
    room = process.allocate(256)
    if process.arch.hidden_result is None:
        call(process, name, room, *arguments)
    else:
        process.machine.vm.reg_write(process.arch.hidden_result, room)
        call(process, name, *arguments)
    return room


def text(process: EmulatedProcess, content: bytes) -> int:
    return process.store(content + b"\0")


def signed(value: int, bits: int = 64) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def test_memory(process: EmulatedProcess) -> None:
    machine = process.machine
    source, target = process.store(b"0123456789"), process.allocate(16)
    assert call(process, "memcpy", target, source, 4) == target
    assert call(process, "memset", target + 4, ord("x"), 3) == target + 4
    assert machine.read(target, 8) == b"0123xxx\0"
    assert call(process, "memmove", target + 1, target, 4) == target + 1
    assert machine.read(target, 5) == b"00123"
    assert call(process, "memchr", source, ord("7"), 10) == source + 7
    assert call(process, "memchr", source, ord("z"), 10) == 0
    assert signed(call(process, "memcmp", source, target, 2)) > 0


def test_the_arguments_of_a_list(process: EmulatedProcess) -> None:
    """Two of the numbers are left in saved registers, the third is in the stack; the lists are those of the ABIs."""
    saved = process.store(struct.pack("<6Q", 0, 0, 0, 0, 11, 22))
    stack = process.store(struct.pack("<QQ", 33, 44))
    if process.arch.hidden_result is None:
        arguments = process.store(struct.pack("<IIQQ", 32, 48, stack, saved))
    else:
        arguments = process.store(struct.pack("<QQQii", stack, saved + 48, 0, -16, 0))
    target, form = process.allocate(32), text(process, b"%d, %d, %d, %d")
    assert call(process, "vsnprintf", target, 32, form, arguments) == 14
    assert process.machine.text(target) == b"11, 22, 33, 44"
    # LSB, __vsnprintf_chk: a flag and the size of the buffer come before the format.
    assert call(process, "__vsnprintf_chk", target, 7, 1, 32, form, arguments) == 14
    assert process.machine.text(target) == b"11, 22"


def test_a_text_without_a_translation_is_itself(process: EmulatedProcess) -> None:
    hello = text(process, b"hello")
    assert call(process, "gettext", hello) == hello
    assert call(process, "dcgettext", text(process, b"domain"), hello, 5) == hello


def test_mapped_memory_begins_a_page(process: EmulatedProcess) -> None:
    address = call(process, "mmap", 0, 0x2000, 7, 0x22, (1 << 64) - 1, 0)
    assert address % 0x1000 == 0
    assert process.machine.read(address, 0x2000) == bytes(0x2000)
    assert process.size_of(address) == 0x2000
    largest = call(process, "mmap", 0, 1 << 26, 7, 0x22, (1 << 64) - 1, 0)
    assert process.size_of(largest) == 1 << 26


@pytest.mark.parametrize("name", ["malloc", "_Znwm", "_Znam"])
def test_allocations_are_apart_aligned_and_cleared(process: EmulatedProcess, name: str) -> None:
    first, second = call(process, name, 24), call(process, name, 1)
    assert first % 16 == second % 16 == 0
    assert second >= first + 24
    assert process.machine.read(first, 24) == bytes(24)
    assert process.allocate(8) >= second + 1
    large = call(process, name, 0x20_0000)
    assert process.machine.read(large + 0x20_0000 - 8, 8) == bytes(8)


def test_reallocation_keeps_the_content(process: EmulatedProcess) -> None:
    first = call(process, "malloc", 4)
    process.machine.write(first, b"abcd")
    assert process.machine.read(call(process, "realloc", first, 64), 8) == b"abcd\0\0\0\0"


def test_a_giant_allocation_stops(process: EmulatedProcess) -> None:
    with pytest.raises(Stop, match="allocation of"):
        call(process, "_Znwm", 1 << 40)


def test_a_giant_string_stops(process: EmulatedProcess) -> None:
    with pytest.raises(Stop, match=f"string of {1 << 60} bytes"):
        call(process, "_ZNSs12_S_constructEmcRKSaIcE", 1 << 60, ord("x"))


def test_string_functions_of_libc(process: EmulatedProcess) -> None:
    hello, upper = text(process, b"hello, world"), text(process, b"HELLO")
    assert call(process, "strlen", hello) == 12
    assert signed(call(process, "strcmp", hello, upper), 32) > 0
    assert call(process, "strncasecmp", hello, upper, 5) == 0
    assert call(process, "strchr", hello, ord("o")) == hello + 4
    assert call(process, "strrchr", hello, ord("o")) == hello + 8
    assert call(process, "strstr", hello, text(process, b"wor")) == hello + 7
    copy = call(process, "strdup", hello)
    call(process, "strcat", call(process, "strcpy", copy, text(process, b"ab")), text(process, b"cd"))
    assert process.machine.text(copy) == b"abcd"


@pytest.mark.parametrize("content", [b"42", b"  -17xyz", b"0x1f", b"0755", b"none", b"+8"])
@pytest.mark.parametrize("base", [0, 10, 16])
def test_numbers_are_read_as_the_c_library_reads_them(process: EmulatedProcess, content: bytes, base: int) -> None:
    library = ctypes.CDLL(None)
    library.strtol.restype = ctypes.c_long
    end = process.allocate(8)
    start = text(process, content)
    buffer = ctypes.create_string_buffer(content)
    real_end = ctypes.c_char_p()
    assert signed(call(process, "strtol", start, end, base)) == library.strtol(buffer, ctypes.byref(real_end), base)
    rest = process.machine.text(process.machine.word(end))
    assert rest == real_end.value


@pytest.mark.parametrize(
    ("form", "content", "kind"),
    [
        (b"%d", b"-7", ctypes.c_int),
        (b"%i", b"-0x1f", ctypes.c_int),
        (b"%x", b"ff", ctypes.c_uint),
        (b"%u", b"4000000000", ctypes.c_uint),
        (b"%hd", b"-2", ctypes.c_short),
        (b"%hhd", b"-128", ctypes.c_byte),
        (b"%ld", b"-9000000000", ctypes.c_long),
    ],
)
def test_numbers_are_scanned_as_the_c_library_scans_them(
    process: EmulatedProcess, form: bytes, content: bytes, kind: type[Any]
) -> None:
    real = kind(0x55)
    assert ctypes.CDLL(None).sscanf(content, form, ctypes.byref(real)) == 1
    place = process.store(bytes(16))
    assert call(process, "sscanf", text(process, content), text(process, form), place) == 1
    assert process.machine.read(place, 16) == bytes(real).ljust(16, b"\0")


@pytest.mark.parametrize(
    ("form", "values"),
    [
        (b"%d|%5d|%-5d|", (7, -3, 4)),
        (b"%05d|%+d|% d|", (12, 12, 12)),
        (b"%u|%x|%#x|", (2**32 - 1, 255, 255)),
        (b"%X|%o|%c", (255, 8, 65)),
        (b"%ld|%lu|%zu|", (-5, 5, 6)),
        (b"%%|%.3d|%*d", (7, 6, 42)),
    ],
)
def test_formats_are_those_of_the_c_library(process: EmulatedProcess, form: bytes, values: tuple[int, ...]) -> None:
    real, room = ctypes.create_string_buffer(128), process.allocate(128)
    length = ctypes.CDLL(None).snprintf(real, ctypes.c_size_t(128), form, *map(ctypes.c_long, values))
    assert call(process, "snprintf", room, 128, text(process, form), *values) == length
    assert process.machine.text(room) == real.value


def formatted(process: EmulatedProcess, form: bytes, *values: int) -> bytes:
    """What the doubles of ``printf`` make of arguments, wherever these are passed."""
    given = (value % 2**64 for value in values)
    called = cast("Call", SimpleNamespace(machine=process.machine))
    arguments = cast("Any", SimpleNamespace(integer=lambda: next(given)))
    return libc_double.format_text(called, form, arguments)


@pytest.mark.parametrize(
    ("form", "values"),
    [
        (b"%*d|%-*d|%*d|", (6, 42, 6, 42, -6, 42)),
        (b"%.*d|%.*d|%.d|", (3, 7, -3, 7, 0)),
        (b"%hhd|%hd|%hhu|%hu|", (300, 70_000, -1, -1)),
        (b"%d|%u|%x|", (2**32 + 7, 2**32 + 7, -(2**40))),
        (b"%d|%d", (2**31, 2**31 - 1)),
        (b"%ld|%lld|%zd|%jd|%td", (2**62, -(2**62), 2**40, -(2**63), 2**33)),
        (b"%lu|%llx|%zX|%lo", (2**64 - 1, 2**62, 2**63, 2**63)),
        (b"%c|%4c|%-4c|", (0x141, 66, 67)),
        (b"%p|%14p|%-14p|%p", (0x1234, 0x5678, 0x9ABC, 0)),
        (b"%*p|%*c|", (-8, 0x1234, 2**32 + 5, 65)),
        (b"%d " * 100, tuple(range(100))),
    ],
)
def test_modifiers_of_formats(process: EmulatedProcess, form: bytes, values: tuple[int, ...]) -> None:
    real = ctypes.create_string_buffer(1024)
    ctypes.CDLL(None).snprintf(real, ctypes.c_size_t(1024), form, *map(ctypes.c_long, values))
    assert formatted(process, form, *values) == real.value


@pytest.mark.parametrize(
    "form", [b"%2000000000d", b"%-2000000000d", b"%.2000000000d", b"%02000000000f", b"%.2000000000f", b"%4000000s" * 2]
)
def test_a_format_cannot_take_all_memory(process: EmulatedProcess, form: bytes) -> None:
    with pytest.raises(Stop, match=r"^snprintf of "):
        call(process, "snprintf", 0, 0, text(process, form), 0, 0)


def test_a_width_from_an_argument_cannot_take_all_memory(process: EmulatedProcess) -> None:
    with pytest.raises(Stop, match=r"^snprintf of 2147483647 bytes"):
        call(process, "snprintf", 0, 0, text(process, b"%*d"), 2**31 - 1, 7)


@pytest.mark.parametrize("kind", "diuxXo")
def test_every_form_of_a_number(process: EmulatedProcess, kind: str) -> None:
    """Flags, widths and precisions in every combination, as glibc prints them."""
    marks = ("", "-", "0", "+", " ", "#", "-0", "+0", "#0", "+ ")
    combined = itertools.product(marks, ("", "1", "6"), ("", ".", ".0", ".1", ".3"))
    forms = [f"%{flags}{width}{precision}{kind}" for flags, width, precision in combined]
    form, real = "|".join(forms).encode(), ctypes.create_string_buffer(4096)
    for number in (0, 7, -7):
        given = [ctypes.c_int(number)] * len(forms)
        ctypes.CDLL(None).snprintf(real, ctypes.c_size_t(4096), form, *given)
        found = formatted(process, form, *[number] * len(forms))
        assert dict(zip(forms, found.split(b"|"), strict=True)) == dict(zip(forms, real.value.split(b"|"), strict=True))


def test_formats_with_texts(process: EmulatedProcess) -> None:
    room, word = process.allocate(128), text(process, b"word")
    assert call(process, "snprintf", room, 6, text(process, b"<%s|%7s|%.2s>"), word, word, word) == 17
    assert process.machine.text(room) == b"<word"
    form = b"%s|%7s|%-7s|%.2s|%7.2s|%-7.2s|%.s|%.9s|%2s|"
    real = ctypes.create_string_buffer(128)
    ctypes.CDLL(None).snprintf(real, ctypes.c_size_t(128), form, *[ctypes.c_char_p(b"word")] * 9)
    assert formatted(process, form, *[word] * 9) == real.value
    assert formatted(process, b"%.*s|%.*s", 3, word, -1, word) == b"wor|word"  # C11, 7.21.6.1: as if there were none
    assert formatted(process, b"%.*s", 2**31 - 1, word) == b"word"
    assert call(process, "snprintf", room, 128, text(process, b"%s"), 0) == len("(null)")  # as glibc
    process.machine.write(room, b"....")
    assert call(process, "snprintf", room, 0, text(process, b"%s"), word) == 4  # C11, 7.21.6.5: nothing is written
    assert process.machine.read(room, 4) == b"...."
    assert call(process, "snprintf", 0, 0, text(process, b"%s"), word) == 4


@pytest.mark.parametrize("name", ["atoi", "atol", "atoll"])
@pytest.mark.parametrize("content", [b"42", b"  -17xyz", b"0x1f", b"0755", b"none", b"+8", b""])
def test_decimal_numbers(process: EmulatedProcess, name: str, content: bytes) -> None:
    real = getattr(ctypes.CDLL(None), name)
    real.restype = ctypes.c_long if name != "atoi" else ctypes.c_int
    bits = 32 if name == "atoi" else 64
    assert signed(call(process, name, text(process, content), 8, 16), bits) == real(content)


def test_a_number_whose_end_is_not_asked_for(process: EmulatedProcess) -> None:
    assert call(process, "strtol", text(process, b"12x"), 0, 10) == 12


def test_what_is_called_once(process: EmulatedProcess) -> None:
    """``pthread_once``, and ``std::call_once``, which leaves the function in a thread-local variable."""
    machine, control = process.machine, process.store(bytes(4) + b"\xcc" * 4)
    function = process.bind("pthread_self")
    assert call(process, "pthread_once", control, function) == 0
    assert "pthread_self" in process.called
    assert machine.read(control, 8) == struct.pack("<I", 2) + b"\xcc" * 4  # nptl: __PTHREAD_ONCE_DONE
    process.called.clear()
    assert call(process, "pthread_once", control, function) == 0
    assert "pthread_self" not in process.called
    machine.set_word(process.imported_thread_variable("_ZSt11__once_call"), function)
    call(process, "__once_proxy")
    assert "pthread_self" in process.called
    assert call(process, "pthread_self") != 0


def test_keys_of_threads_differ(process: EmulatedProcess) -> None:
    places = [process.store(b"\xcc" * 8) for _ in range(2)]
    for place, return_address in zip(places, (0x1000, 0x1008), strict=True):
        made = SimpleNamespace(argument=(place,).__getitem__, machine=process.machine, return_address=return_address)
        assert libc_double._double_pthread_key_create(cast("Call", made)) == 0
    assert process.machine.read(places[0], 4) != process.machine.read(places[1], 4)
    assert process.machine.read(places[0] + 4, 4) == b"\xcc" * 4
    assert call(process, "pthread_key_create", places[0], 0) == 0


def test_objects_of_threads_are_there(process: EmulatedProcess) -> None:
    for name in ("pthread_mutex_destroy", "pthread_rwlock_init", "pthread_cond_destroy", "pthread_atfork"):
        assert call(process, name, process.allocate(64), 1) == 0


@pytest.mark.parametrize(("kind", "again"), [(0, 16), (1, 0), (2, 16)])
def test_a_recursive_mutex_is_locked_twice(process: EmulatedProcess, kind: int, again: int) -> None:
    """pthread_mutex_trylock(3p): EBUSY is 16; PTHREAD_MUTEX_RECURSIVE is 1."""
    attributes, mutex = process.store(b"\xff" * 4), process.store(b"\xff" * 40)
    assert call(process, "pthread_mutexattr_init", attributes) == 0
    assert call(process, "pthread_mutexattr_settype", attributes, kind) == 0
    assert call(process, "pthread_mutex_init", mutex, attributes) == 0
    assert call(process, "pthread_mutex_trylock", mutex) == 0
    assert call(process, "pthread_mutex_trylock", mutex) == again
    assert call(process, "pthread_mutex_init", mutex, 0) == 0
    assert call(process, "pthread_mutex_trylock", mutex) == 0


def test_what_the_kernel_tells(process: EmulatedProcess) -> None:
    """getauxval(3): ``AT_PAGESZ`` is 6; of what is not there, such as ``AT_HWCAP2``, it tells 0."""
    assert call(process, "getauxval", 6) == call(process, "getpagesize") == 4096
    assert call(process, "getauxval", 26) == call(process, "getauxval", 16) == 0


def test_a_cast_to_the_class_that_an_object_is_of(process: EmulatedProcess) -> None:
    base, derived, other = (
        process.bind(f"_ZTI{name}") for name in ("St9exception", "St13runtime_error", "St9bad_alloc")
    )
    instance = process.allocate(16)
    call(process, "_ZNSt13runtime_errorC1EPKc", instance, process.store(b"\0"))
    assert call(process, "__dynamic_cast", instance, base, derived, 0) == instance
    assert call(process, "__dynamic_cast", instance, base, other, 0) == 0


def test_once_and_guards(process: EmulatedProcess) -> None:
    guard = process.allocate(8)
    assert call(process, "__cxa_guard_acquire", guard) == 1
    call(process, "__cxa_guard_release", guard)
    assert call(process, "__cxa_guard_acquire", guard) == 0


def test_an_exception_that_nothing_catches_ends_the_process(process: EmulatedProcess) -> None:
    thrown = call(process, "__cxa_allocate_exception", 16)
    call(process, "_ZNSt13runtime_errorC1EPKc", thrown, process.store(b"no way\0"))
    with pytest.raises(ProcessTermination, match="throws std::runtime_error") as ended:
        call(process, "__cxa_throw", thrown, process.bind("_ZTISt13runtime_error"), 0)
    assert ended.value.text == "no way"


@pytest.mark.parametrize(("abi", "name"), [(CXX11, f"_ZN{CXX11_CLASS}"), (COW, "_ZNSs")], ids=["cxx11", "cow"])
class TestStrings:
    """``std::string``, by what its members leave behind."""

    def new(self, process: EmulatedProcess, abi: StringAbi, content: bytes) -> int:
        address = process.allocate(abi.size)
        abi.create(process, address, content)
        return address

    def test_round_trip(self, process: EmulatedProcess, abi: StringAbi, name: str) -> None:
        assert name.startswith("_ZN")
        for content in (b"", b"short", b"exactly 15 char", b"sixteen chars ok", b"long " * 40):
            assert abi.read(process, self.new(process, abi, content)) == content

    def test_construction(self, process: EmulatedProcess, abi: StringAbi, name: str) -> None:
        alloc = "RKSaIcE" if abi is COW else "RKS3_"
        address = process.allocate(abi.size)
        call(process, f"{name}C1EPKc{alloc}", address, text(process, b"made of a longer text"))
        assert abi.read(process, address) == b"made of a longer text"
        own = "Ss" if abi is COW else "S4_"
        copy = process.allocate(abi.size)
        call(process, f"{name}C1ERK{own}", copy, address)
        moved = process.allocate(abi.size)
        call(process, f"{name}C1EO{own}", moved, address)
        assert abi.read(process, copy) == abi.read(process, moved) == b"made of a longer text"
        assert abi.read(process, address) == b""

    def test_insert_append_and_replace(self, process: EmulatedProcess, abi: StringAbi, name: str) -> None:
        address = self.new(process, abi, b"one three")
        assert call(process, f"{name}6insertEmPKc", address, 4, text(process, b"two ")) == address
        assert abi.read(process, address) == b"one two three"
        call(process, f"{name}6appendEPKcm", address, text(process, b" four!"), 5)
        assert abi.read(process, address) == b"one two three four"
        call(process, f"{name}7replaceEmmPKcm", address, 0, 3, text(process, b"zero"), 4)
        assert abi.read(process, address) == b"zero two three four"
        call(process, f"{name}5eraseEmm", address, 4, 4)
        assert abi.read(process, address) == b"zero three four"
        call(process, f"{name}9push_backEc", address, ord("!"))
        call(process, f"{name}6resizeEmc", address, 18, ord("."))
        assert abi.read(process, address) == b"zero three four!.."

    @pytest.mark.parametrize("start", [0, 1, 2, 5, 7, 8, 2**64 - 1])
    @pytest.mark.parametrize("wanted", [b"a", b"abc", b"bca", b"c", b"z", b""])
    def test_rfind_from_a_position(
        self, process: EmulatedProcess, abi: StringAbi, name: str, wanted: bytes, start: int
    ) -> None:
        """[string.rfind]: the highest position that is at most ``start``, and at which ``wanted`` stands."""
        content = b"abcabcab"
        address, const = self.new(process, abi, content), name.replace("_ZN", "_ZNK", 1)
        places = [at for at in range(len(content) - len(wanted) + 1) if content[at:].startswith(wanted)]
        expected = max((at for at in places if at <= start), default=2**64 - 1)
        answer = call(process, f"{const}5rfindEPKcmm", address, process.store(wanted), start, len(wanted))
        assert answer % 2**64 == expected

    def test_find_and_rfind(self, process: EmulatedProcess, abi: StringAbi, name: str) -> None:
        address, const = self.new(process, abi, b"aten::add.out"), name.replace("_ZN", "_ZNK", 1)
        assert call(process, f"{const}4findEPKcmm", address, text(process, b"::"), 0, 2) == 4
        assert call(process, f"{const}4findEcm", address, ord("."), 0) == 9
        assert call(process, f"{const}5rfindEcm", address, ord("a"), 2**64 - 1) == 6
        assert signed(call(process, f"{const}4findEcm", address, ord("z"), 0)) == -1
        assert call(process, f"{const}7compareEPKc", address, text(process, b"aten::add.out")) == 0
        assert signed(call(process, f"{const}7compareEPKc", address, text(process, b"b"))) < 0
        part = call_for_object(process, f"{const}6substrEmm", address, 6, 3)
        assert abi.read(process, part) == b"add"


def test_string_layout_is_told_by_names() -> None:
    assert abi_in("_ZN5torch3jit11parseSchemaERKSs") is COW
    assert abi_in(f"_ZN5torch3jit11parseSchemaERKN{CXX11_CLASS}E") is CXX11
    assert abi_in("_ZN5torch11CppFunctionD1Ev") is None
    assert abi_of(frozenset({"_ZN5torch3jit11parseSchemaERKSs", f"_ZN{CXX11_CLASS}D1Ev"})) is COW
    assert abi_of(frozenset()) is CXX11


class Tree:
    """A ``std::set`` of numbers, as inlined code drives the functions of libstdc++."""

    def __init__(self, process: EmulatedProcess) -> None:
        self.process = process
        self.header = process.allocate(32)
        process.machine.write(self.header, struct.pack("<QQQQ", 0, 0, self.header, self.header))
        self.values: dict[int, int] = {}

    def insert(self, value: int) -> None:
        machine, node = self.process.machine, self.process.allocate(40)
        parent, at, left = self.header, machine.word(self.header + 8), True
        while at:
            parent, left = at, value < self.values[at]
            at = machine.word(at + (16 if left else 24))
        self.values[node] = value
        insert = "_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_"
        call(self.process, insert, int(left), node, parent, self.header)

    def erase(self, value: int) -> None:
        node = next(node for node, known in self.values.items() if known == value)
        name = "_ZSt28_Rb_tree_rebalance_for_erasePSt18_Rb_tree_node_baseRS_"
        assert call(self.process, name, node, self.header) == node
        del self.values[node]

    def forwards(self) -> list[int]:
        return self._walk(16, "_ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base")

    def backwards(self) -> list[int]:
        return self._walk(24, "_ZSt18_Rb_tree_decrementPSt18_Rb_tree_node_base")

    def _walk(self, first: int, step: str) -> list[int]:
        order, node = [], self.process.machine.word(self.header + first)
        for _ in self.values:
            order.append(self.values[node])
            node = call(self.process, step, node)
        return order


def test_red_black_tree_keeps_order(process: EmulatedProcess) -> None:
    tree = Tree(process)
    for value in (50, 20, 70, 10, 60, 30, 80):
        tree.insert(value)
    assert tree.forwards() == [10, 20, 30, 50, 60, 70, 80]
    assert tree.backwards() == [80, 70, 60, 50, 30, 20, 10]
    last = call(process, "_ZSt18_Rb_tree_decrementPSt18_Rb_tree_node_base", tree.header)
    assert tree.values[last] == 80
    assert process.machine.word(tree.header + 24) == last


@pytest.mark.parametrize("seed", range(6))
def test_nodes_leave_a_red_black_tree(process: EmulatedProcess, seed: int) -> None:
    """In any order, the root, the ends, and nodes with one child and with two among them."""
    numbers = list(range(12))
    random.Random(seed).shuffle(numbers)
    tree = Tree(process)
    for value in numbers:
        tree.insert(value)
    random.Random(seed + 100).shuffle(numbers)
    for gone in range(len(numbers)):
        tree.erase(numbers[gone])
        left = sorted(numbers[gone + 1 :])
        assert tree.forwards() == left
        assert tree.backwards() == left[::-1]
    assert process.machine.words(tree.header + 8, 3) == (0, tree.header, tree.header)


def test_lists_are_linked_and_swapped(process: EmulatedProcess) -> None:
    machine = process.machine
    head, first, second = (process.allocate(16) for _ in range(3))
    machine.write(head, struct.pack("<QQ", head, head))
    hook = "_ZNSt8__detail15_List_node_base7_M_hookEPS0_"
    call(process, hook, first, head)
    call(process, hook, second, head)
    assert machine.words(head, 2) == (first, second)
    assert machine.words(first, 2) == (second, head)
    call(process, "_ZNSt8__detail15_List_node_base9_M_unhookEv", first)
    assert machine.words(head, 2) == (second, second)
    assert machine.words(second, 2) == (head, head)
    other = process.allocate(16)
    machine.write(other, struct.pack("<QQ", other, other))
    call(process, "_ZNSt8__detail15_List_node_base4swapERS0_S1_", head, other)
    assert machine.words(other, 2) == (second, second)
    assert machine.words(second, 2) == (other, other)
    assert machine.words(head, 2) == (head, head)


def libstdcxx() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libstdc++.so.6")
    except OSError:
        pytest.skip("needs libstdc++.so.6")


@pytest.mark.parametrize(
    ("this", "first", "last"),
    [(0, 5, 6), (0, 5, 4), (2, 5, 7), (1, 6, 4), (3, 5, 4), (1, 2, 3), (0, 1, 3), (1, 3, 1)],
)
def test_a_part_of_a_list_is_spliced(process: EmulatedProcess, this: int, first: int, last: int) -> None:
    """As libstdc++ itself does: the lists are 0 (1, 2, 3) and 4 (5, 6, 7), a node is its successor and predecessor."""
    rings = ([0, 1, 2, 3], [4, 5, 6, 7])
    links = {ring[at]: (ring[(at + 1) % 4], ring[at - 1]) for ring in rings for at in range(4)}
    name = "_ZNSt8__detail15_List_node_base11_M_transferEPS0_S1_"

    def nodes(base: int) -> bytes:
        return b"".join(struct.pack("<QQ", base + 16 * links[node][0], base + 16 * links[node][1]) for node in range(8))

    real = ctypes.create_string_buffer(16 * 8)
    here = ctypes.addressof(real)
    ctypes.memmove(real, nodes(here), 16 * 8)
    transfer = libstdcxx()[name]
    transfer.argtypes, transfer.restype = [ctypes.c_void_p] * 3, None
    transfer(*(here + 16 * node for node in (this, first, last)))

    there = process.allocate(16 * 8)
    process.machine.write(there, nodes(there))
    call(process, name, *(there + 16 * node for node in (this, first, last)))
    expected = [word - here for word in struct.unpack("<16Q", real.raw)]
    assert [word - there for word in process.machine.words(there, 16)] == expected


TEXTS = (b"", b"a", b"abcabc", b"aaaa", b"x\xffy\xff")


@pytest.mark.parametrize("content", TEXTS)
@pytest.mark.parametrize("name", ["strchr", "strrchr", "strchrnul", "index", "rindex"])
def test_characters_are_found_as_in_the_c_library(process: EmulatedProcess, name: str, content: bytes) -> None:
    real, there = ctypes.create_string_buffer(content), text(process, content)
    here = ctypes.addressof(real)
    function = ctypes.CDLL(None)[name]
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_int], ctypes.c_void_p
    for wanted in (0, ord("a"), ord("c"), ord("z"), 0xFF, -1):
        found = function(here, wanted)
        answer = call(process, name, there, wanted & 0xFFFF_FFFF)
        assert (answer - there if answer else None) == (None if found is None else found - here), wanted


@pytest.mark.parametrize("content", TEXTS)
def test_lengths_and_copies_are_those_of_the_c_library(process: EmulatedProcess, content: bytes) -> None:
    libc, there = ctypes.CDLL(None), text(process, content)
    libc.strnlen.argtypes, libc.strnlen.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_size_t
    for most in (0, 1, len(content), len(content) + 1, 2**63):
        assert call(process, "strnlen", there, most) == libc.strnlen(content, most)
    for name in ("strcpy", "stpcpy"):
        room, target = ctypes.create_string_buffer(b"." * 15), process.store(b"." * 15 + b"\0")
        copy = libc[name]
        copy.argtypes, copy.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_void_p
        end = copy(ctypes.addressof(room), content) - ctypes.addressof(room)
        assert call(process, name, target, there) - target == end
        assert process.machine.read(target, 16) == room.raw


@pytest.mark.parametrize(("old", "new"), [(8, 64), (64, 8), (16, 16), (5, 3)])
def test_reallocation_keeps_what_fits(process: EmulatedProcess, old: int, new: int) -> None:
    first = call(process, "malloc", old)
    content = bytes(range(1, old + 1))
    process.machine.write(first, content)
    second = call(process, "realloc", first, new)
    kept = min(old, new)  # C11, 7.22.3.5: "up to the lesser of the new and old sizes"
    assert process.machine.read(second, kept) == content[:kept]
    assert call(process, "realloc", 0, new) != 0  # as malloc


def test_hash_tables_grow_by_primes(process: EmulatedProcess) -> None:
    policy = process.store(struct.pack("<fxxxxQ", 1.0, 0))
    name = "_ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm"
    second = "RDX" if process.arch.hidden_result is None else "x1"
    assert call(process, name, policy, 1, 0, 1) == 1
    buckets = process.machine.vm.reg_read(second)
    assert buckets > 1
    assert all(buckets % divisor for divisor in range(2, buckets))
    assert call(process, name, policy, buckets, 1, 1) == 0


def test_hash_tables_grow_alike_in_code_and_in_its_double(process: EmulatedProcess) -> None:
    name = "_ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm"
    second = "RDX" if process.arch.hidden_result is None else "x1"

    def ask(function: str, load: float, buckets: int, elements: int) -> tuple[int, int, int]:
        policy = process.store(struct.pack("<fxxxxQ", load, 0))
        grow = call(process, function, policy, buckets, elements, 1) & 0xFF
        return grow, process.machine.vm.reg_read(second), process.machine.word(policy + 8)

    for load, buckets, elements in itertools.product(
        (1.0, 2.0), (1, 11, 47, 63, 64, 97), (0, 10, 11, 46, 47, 126, 127)
    ):
        grow, count, limit = ask(name, load, buckets, elements)
        assert (grow, count, limit) == ask(f"double of {name}", load, buckets, elements)
        assert grow == (max(elements + 1, 11) / load >= buckets)  # a table that has nothing yet gets room for 11
        assert limit >= elements + 1
        assert not grow or (count > buckets and all(count % divisor for divisor in range(2, count)))


SIZES = (0, 1, 7, 8, 15, 16, 23, 40, 70_000)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("room", [0, 12, 16, 100])
def test_a_string_takes_a_text(process: EmulatedProcess, size: int, room: int) -> None:
    """At its end or in place of it, in its own memory, or in new one; what is behind it stays as it was."""
    machine, added = process.machine, bytes(range(1, 256)) * 300
    source = process.store(added[:size])
    for member, before, expected in (
        ("9_M_appendEPKcm", b"", added[:size]),
        ("9_M_appendEPKcm", b"0123456789", b"0123456789" + added[:size]),
        ("10_M_replaceEmmPKcm", b"", added[:size]),
        ("10_M_replaceEmmPKcm", b"0123456789", added[:size]),
    ):
        string = process.allocate(48)
        machine.write(string + 32, b"what is behind")
        CXX11.create(process, string, before)
        call(process, f"_ZN{CXX11_CLASS}7reserveEm", string, room)
        position = () if "append" in member else (0, len(before))
        assert call(process, f"_ZN{CXX11_CLASS}{member}", string, *position, source, size) == string
        assert CXX11.read(process, string) == expected
        pointer, length, capacity = machine.words(string, 3)
        assert machine.read(pointer + length, 1) == b"\0"
        assert pointer == string + 16 or capacity >= length
        assert machine.read(string + 32, 14) == b"what is behind"


def test_a_string_takes_a_part_of_itself(process: EmulatedProcess) -> None:
    string = process.allocate(32)
    CXX11.create(process, string, b"0123456789abcdef")
    own = process.machine.word(string)
    call(process, f"_ZN{CXX11_CLASS}9_M_appendEPKcm", string, own + 3, 4)
    assert CXX11.read(process, string) == b"0123456789abcdef3456"
    own = process.machine.word(string)
    call(process, f"_ZN{CXX11_CLASS}10_M_replaceEmmPKcm", string, 0, 20, own + 1, 18)
    assert CXX11.read(process, string) == b"123456789abcdef345"


def test_a_buffer_has_the_capacity_that_is_asked_for_or_twice_the_old_one(process: EmulatedProcess) -> None:
    sizes = ((20, 15, 30), (31, 15, 31), (10, 15, 10), (15, 15, 15), (70_000, 15, 70_000))
    for wanted, old, expected in sizes:
        capacity = process.store(struct.pack("<Q", wanted))
        for name in (f"_ZN{CXX11_CLASS}9_M_createERmm", f"double of _ZN{CXX11_CLASS}9_M_createERmm"):
            process.machine.set_word(capacity, wanted)
            first = call(process, name, 0, capacity, old)
            assert process.machine.word(capacity) == expected
            assert process.size_of(first) == expected + 1


@pytest.mark.parametrize("member", ["9_M_appendEPKcm", "7reserveEm"])
def test_what_is_no_string_stops(process: EmulatedProcess, member: str) -> None:
    nothing = process.store(b"\xff" * 64)
    with pytest.raises(Stop):
        call(process, f"_ZN{CXX11_CLASS}{member}", nothing, 1 << 40, 4)


def test_a_tree_with_a_ring_stops(process: EmulatedProcess) -> None:
    node = process.allocate(32)
    process.machine.write(node, struct.pack("<4Q", 1, node, node, node))
    for name in ("_ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base", "_ZSt18_Rb_tree_decrementPSt18_Rb_tree_node_base"):
        with pytest.raises(Stop, match="tree does not end"):
            call(process, name, node)


# Trees, by their nodes: parent, left, right; the first is the header, whose parent is the root, and whose left and
# right are the ends.
TREES = {
    "one": [(1, 1, 1), (0, 0, 0)],
    "a left child": [(1, 2, 1), (0, 2, 0), (1, 0, 0)],
    "a right child": [(1, 1, 2), (0, 0, 2), (1, 0, 0)],
    "both": [(1, 2, 3), (0, 2, 3), (1, 0, 0), (1, 0, 0)],
    "inner ones": [(1, 2, 3), (0, 2, 3), (1, 0, 4), (1, 5, 0), (2, 0, 0), (3, 0, 0)],
    "a line": [(1, 1, 4), (0, 0, 2), (1, 0, 3), (2, 0, 4), (3, 0, 0)],
}


@pytest.mark.parametrize("nodes", TREES.values(), ids=TREES)
@pytest.mark.parametrize("name", ["increment", "decrement"])
def test_the_next_node_of_a_tree_is_that_of_libstdcxx(
    process: EmulatedProcess, nodes: list[tuple[int, int, int]], name: str
) -> None:
    def laid_out(base: int) -> bytes:
        return b"".join(
            struct.pack(
                "<4Q",
                int(at > 0),
                *(base + 32 * link if at == 0 or link or not part else 0 for part, link in enumerate(links)),
            )
            for at, links in enumerate(nodes)
        )

    member = f"_ZSt18_Rb_tree_{name}PSt18_Rb_tree_node_base"
    real, there = ctypes.create_string_buffer(32 * len(nodes)), process.allocate(32 * len(nodes))
    here = ctypes.addressof(real)
    ctypes.memmove(real, laid_out(here), 32 * len(nodes))
    process.machine.write(there, laid_out(there))
    step = libstdcxx()[member]
    step.argtypes, step.restype = [ctypes.c_void_p], ctypes.c_void_p
    for node in range(int(name == "increment"), len(nodes)):
        if name == "decrement" and node == nodes[0][1]:
            continue  # nothing is before the first
        assert call(process, member, there + 32 * node) - there == step(here + 32 * node) - here, node


def test_a_node_of_a_tree_is_black(process: EmulatedProcess) -> None:
    """bits/stl_tree.h: 1; the header alone is red, by which it is told from the root."""
    tree = Tree(process)
    tree.insert(5)
    (node,) = tree.values
    assert process.machine.words(node, 4) == (1, tree.header, 0, 0)


@pytest.mark.parametrize("name", ["_ZSt11_Hash_bytesPKvmm", "_ZSt15_Fnv_hash_bytesPKvmm"])
def test_hashes_are_those_of_libstdcxx(process: EmulatedProcess, name: str) -> None:
    real = libstdcxx()[name]
    real.argtypes, real.restype = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t], ctypes.c_size_t
    content = bytes(range(200, 256)) + b"aten::add"
    for size, seed in itertools.product((0, 1, 7, 8, 9, 16, 23, len(content)), (0, 0xC70F6907, 2**64 - 1)):
        assert call(process, name, process.store(content), size, seed) == real(content, size, seed)


def test_the_number_of_buckets_is_that_of_libstdcxx(process: EmulatedProcess) -> None:
    name = "_ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm"
    real = libstdcxx()[name]
    real.argtypes, real.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_size_t
    for load, count in itertools.product((1.0, 2.5), (*range(1, 300), 6_457, 1_000_000, 16_601_593)):
        policy = struct.pack("<f4xQ", load, 7)
        there, here = ctypes.create_string_buffer(policy), process.store(policy + b"\xcc" * 8)
        assert call(process, name, here, count) == real(ctypes.addressof(there), count)
        assert process.machine.read(here, 24) == there.raw[:16] + b"\xcc" * 8
    call(process, name, process.store(bytes(16)), 5)  # a policy that nobody has initialised


def test_a_hash_table_that_no_memory_holds_ends_the_function(process: EmulatedProcess) -> None:
    policy = process.store(struct.pack("<f4xQ", 1.0, 0))
    with pytest.raises(Stop, match="a hash table of 16601594 buckets"):
        call(process, "_ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm", policy, 16_601_594)
    rehash = "double of _ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm"
    with pytest.raises(Stop, match="a hash table of"):
        call(process, rehash, policy, 1, 1 << 50, 1)


def classic_facet(process: EmulatedProcess) -> int:
    """The ``std::ctype<char>`` of the classic locale: behind the facets, which follow a reference count."""
    (owners, facets, count) = process.machine.words(process.machine.word(call(process, "_ZNSt6locale7classicEv")), 3)
    assert owners > 1
    assert len(set(process.machine.words(facets, count))) == 1
    assert call(process, "_ZNKSt6locale2id5_M_idEv", 0) < count
    return process.machine.word(facets)


def test_the_classic_locale_classifies_as_libstdcxx(process: EmulatedProcess) -> None:
    """bits/locale_facets.h: virtual pointer, count, locale, flag, then the tables of both cases and of the classes."""
    library, facet, machine = libstdcxx(), classic_facet(process), process.machine
    classic, number_of = library["_ZNSt6locale7classicEv"], library["_ZNKSt6locale2id5_M_idEv"]
    classic.restype, number_of.restype = ctypes.c_void_p, ctypes.c_size_t
    number = number_of(ctypes.byref(ctypes.c_char.in_dll(library, "_ZNSt5ctypeIcE2idE")))
    word = ctypes.c_size_t.from_address
    real = word(word(word(classic()).value + 8).value + 8 * number).value
    assert machine.word(facet + 8) > 1
    assert machine.words(facet + 16, 2) == (0, 0)
    for offset, size in ((32, 256 * 4), (40, 256 * 4), (48, 256 * 2)):
        expected = ctypes.string_at(word(real + offset).value, size)
        assert machine.read(machine.word(facet + offset), size) == expected
    # Each character as it is, with flags that both tables are complete.
    assert machine.read(facet + 56, 514) == b"\1" + bytes(range(256)) * 2 + b"\1"
    assert call(process, "_ZSt9use_facetISt5ctypeIcEERKT_RKSt6locale", 0) == facet
    place = process.allocate(8)
    for name in ("_ZNSt6localeC1Ev", "_ZNSt6localeC2ERKS_", "_ZNSt6localeaSERKS_"):
        assert call(process, name, place, 0) == place
        assert machine.word(place) == machine.word(call(process, "_ZNKSt8ios_base6getlocEv"))


def virtual_functions(process: EmulatedProcess, instance: int) -> set[str | None]:
    table = process.machine.word(instance)
    assert table % 8 == 0
    return {process.name_at(word) for word in process.machine.words(table, 8)}


def test_the_functions_of_facets(process: EmulatedProcess) -> None:
    facet = classic_facet(process)
    members = process.machine.words(process.machine.word(facet), 10)[2:]
    upper, _, lower, _, widen = members[:5]  # behind two destructors (bits/locale_facets.h)
    for function, code, expected in ((upper, "a", "A"), (upper, "1", "1"), (lower, "Z", "z"), (widen, "q", "q")):
        assert process.machine.start(function, (facet, ord(code)), 1000) == ord(expected)
    for change, changed in ((members[1], b"RANGE"), (members[3], b"range")):
        begin = process.store(b"rAnge")
        assert process.machine.start(change, (facet, begin, begin + 5), 1000) == begin + 5
        assert process.machine.read(begin, 5) == changed
    content = process.store(b"collated")
    for abi, name in ((CXX11, "NSt7__cxx117collateIcEE"), (COW, "St7collateIcE")):
        collate = call(process, f"_ZSt9use_facetI{name}ERKT_RKSt6locale", 0)
        assert virtual_functions(process, collate) == {f"virtual function of _ZTV{name}"}
        for size in (0, 1, 8):
            made = call_for_object(process, f"virtual function of _ZTV{name}", collate, content, content + size)
            assert abi.read(process, made) == b"collated"[:size]


STREAMS = [(abi, kind) for abi in (CXX11, COW) for kind in ("19basic_ostringstream", "18basic_stringstream")]


@pytest.mark.parametrize(("abi", "kind"), STREAMS)
def test_every_kind_of_stream_keeps_what_is_written(process: EmulatedProcess, abi: StringAbi, kind: str) -> None:
    """An ``ostream`` is the first part of a ``std::ostringstream``, and 16 bytes into a ``std::stringstream``."""
    inner = "7__cxx11" if abi is CXX11 else ""
    prefix = f"{'N' if inner else ''}St{inner}{kind}IcSt11char_traitsIcESaIcEE"
    stream, machine = process.allocate(512), process.machine
    ostream = stream + (0 if "ostring" in kind else 16)
    constructor = f"_ZN{prefix.removeprefix('N')}C1Ev"
    call(process, constructor, stream)
    string = process.allocate(abi.size)
    abi.create(process, string, b"a string")
    of = "RKNSt7__cxx1112basic_stringIS4_S5_T1_EE" if abi is CXX11 else "RKSbIS4_S5_T1_E"
    put = f"_ZStlsIcSt11char_traitsIcESaIcEERSt13basic_ostreamIT_T0_ES7_{of}"
    assert call(process, put, ostream, string) == ostream
    assert call(process, "_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_c", ostream, 0x121) == ostream
    assert call(process, "_ZNSo3putEc", ostream, ord("?")) == ostream
    assert call(process, "_ZNSo5writeEPKcl", ostream, text(process, b"0123"), 0) == ostream
    assert call(process, "_ZNSo5writeEPKcl", ostream, text(process, b"0123"), 2) == ostream
    written = b"a string!?01"
    get = f"_ZNK{prefix.removeprefix('N')}3strEv"
    assert abi.read(process, call_for_object(process, get, stream)) == written
    # The put area of the buffer, which follows the virtual pointer of the ostream: where it begins, and goes on.
    begin, here, end = machine.words(ostream + 8 + 32, 3)
    assert machine.text(begin) == written
    assert here == end == begin + len(written)
    buffer = f"_ZNK{prefix.removeprefix('N').replace(kind, '15basic_stringbuf')}3strEv"
    assert abi.read(process, call_for_object(process, buffer, ostream + 8)) == written
    # Another one in the same place is empty, also where its constructor is inlined.
    call(process, constructor, stream)
    assert abi.read(process, call_for_object(process, get, stream)) == b""
    call(process, "_ZNSo3putEc", ostream, ord("?"))
    machine.write(ostream + 8 + 8, bytes(48))  # the areas of the buffer
    call(process, "_ZNSt9basic_iosIcSt11char_traitsIcEE4initEPSt15basic_streambufIcS1_E", ostream + 100, ostream + 8)
    assert abi.read(process, call_for_object(process, get, stream)) == b""


def test_what_is_written_to_the_terminal_changes_no_memory(process: EmulatedProcess) -> None:
    terminal = process.bind("_ZSt4cout")
    assert call(process, "_ZNSo3putEc", terminal, ord("?")) == terminal
    assert process.machine.read(terminal, 128) == bytes(128)


# What std::to_string and operator<< make of a register, by the letter of the type (Itanium C++ ABI, 5.1.5.2).
INTEGERS = {"i": (32, True), "j": (32, False), "l": (64, True), "m": (64, False), "x": (64, True), "y": (64, False)}
NUMBERS = (0, 1, 127, 128, 255, 256, 2**15 - 1, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63)


@pytest.mark.parametrize(("kind", "form"), INTEGERS.items())
def test_numbers_become_texts(process: EmulatedProcess, kind: str, form: tuple[int, bool]) -> None:
    bits, is_signed = form
    for number in (*NUMBERS, 2**64 - 1):
        expected = signed(number, bits) if is_signed else number % 2**bits
        made = call_for_object(process, f"_ZNSt7__cxx119to_stringE{kind}", number)
        assert CXX11.read(process, made) == b"%d" % expected


@pytest.mark.parametrize(
    ("kind", "form"), [*INTEGERS.items(), ("s", (16, True)), ("t", (16, False)), ("b", (8, False))]
)
def test_numbers_are_written_to_streams(process: EmulatedProcess, kind: str, form: tuple[int, bool]) -> None:
    bits, is_signed = form
    names = [f"_ZNSolsE{kind}"] if kind != "b" else []
    if kind in "lmxyb":
        names.append(f"_ZNSo9_M_insertI{kind}EERSoT_")
    for name, number in itertools.product(names, (*NUMBERS, 2**64 - 1)):
        stream = process.allocate(512)
        call(process, f"_ZN{STREAM_CLASS}C1Ev", stream)
        assert call(process, name, stream, number) == stream
        expected = signed(number, bits) if is_signed else number % 2**bits
        made = call_for_object(process, f"_ZNK{STREAM_CLASS}3strEv", stream)
        assert CXX11.read(process, made) == b"%d" % expected


STREAM_CLASS = "St7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEE"


def test_names_are_demangled(process: EmulatedProcess) -> None:
    """Itanium C++ ABI, 3.4: of functions and of types; -2 is the status of a name that is none."""
    status = process.store(b"\xcc" * 8)
    for name, expected in ((b"_Z1fv", b"f()"), (b"St6vectorIiSaIiEE", b"std::vector<int, std::allocator<int> >")):
        made = call(process, "__cxa_demangle", text(process, name), 0, 0, status)
        assert process.machine.text(made).replace(b">>", b"> >") == expected
        assert process.machine.read(status, 4) == bytes(4)
    assert call(process, "__cxa_demangle", text(process, b"_Znothing_"), 0, 0, status) == 0
    assert process.machine.read(status, 8) == struct.pack("<i", -2) + b"\xcc" * 4
    assert call(process, "__cxa_demangle", text(process, b"_Znothing_"), 0, 0, 0) == 0


@pytest.mark.parametrize("abi", [CXX11, COW], ids=["cxx11", "cow"])
def test_string_streams(process: EmulatedProcess, abi: StringAbi) -> None:
    inner = "7__cxx11" if abi is CXX11 else ""
    stream_class = f"NSt{inner}19basic_ostringstreamIcSt11char_traitsIcESaIcEE"
    stream = process.allocate(512)
    call(process, f"_Z{stream_class}C1Ev", stream)
    assert (
        call(process, "_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc", stream, text(process, b"n=")) == stream
    )
    call(process, "_ZNSolsEi", stream, 2**32 - 12)
    put = "_ZSt16__ostream_insertIcSt11char_traitsIcEERSt13basic_ostreamIT_T0_ES6_PKS3_l"
    call(process, put, stream, text(process, b", done."), 6)
    made = call_for_object(process, f"_ZNK{stream_class[1:]}3strEv", stream)
    assert abi.read(process, made) == b"n=-12, done"


def test_python_objects(process: EmulatedProcess) -> None:
    machine = process.machine
    made = call(process, "PyUnicode_FromString", text(process, b"abiscan"))
    assert machine.text(call(process, "PyUnicode_AsUTF8", made)) == b"abiscan"
    assert signed(machine.word(made)) > 1
    capsule = call(process, "PyCapsule_New", 0x1234, 0, 0)
    assert call(process, "PyCapsule_GetPointer", capsule, 0) == 0x1234
    assert call(process, "PyModule_AddObject", made, text(process, b"capsule"), capsule) == 0
    assert call(process, "PyObject_GetAttrString", made, text(process, b"capsule")) == capsule
    assert call(process, "PyObject_Call", made, 0, 0) not in (0, made)
    assert machine.text(call(process, "Py_GetVersion")).startswith(process.python_version.encode() + b".")
    assert machine.word(machine.word(process.bind("PyExc_RuntimeError"))) > 1


def test_python_keeps_dictionaries_and_attributes(process: EmulatedProcess) -> None:
    key, name = text(process, b"key"), call(process, "PyUnicode_FromString", text(process, b"key"))
    made, value = call(process, "PyDict_New"), call(process, "PyLong_FromLong", 5)
    assert call(process, "PyDict_GetItemString", made, key) == 0
    assert call(process, "PyDict_SetItemString", made, key, value) == 0
    assert call(process, "PyDict_GetItemWithError", made, name) == value
    assert call(process, "PyDict_Contains", made, name) == 1
    assert call(process, "PyDict_SetDefault", made, name, made) == value
    assert call(process, "PyInterpreterState_GetDict", 0) == call(process, "PyInterpreterState_GetDict", 0)
    # A module has what was put there; a module of others has all that is asked for.
    module, other = call(process, "PyModule_Create2", 0, 0), call(process, "PyImport_ImportModule", key)
    assert call(process, "PyObject_GetAttrString", module, key) == 0
    assert call(process, "PyObject_HasAttrString", module, key) == 0
    assert call(process, "PyObject_SetAttr", module, name, value) == 0
    assert call(process, "PyObject_GetAttrString", module, key) == value
    assert call(process, "PyObject_GetAttrString", other, key) != 0


def test_python_types_have_flags_bases_and_functions(process: EmulatedProcess) -> None:
    machine = process.machine
    text_type, base = process.bind("PyUnicode_Type"), process.bind("PyBaseObject_Type")
    made = call(process, "PyUnicode_FromString", text(process, b"x"))
    assert machine.word(made + 8) == text_type
    assert machine.word(text_type + 168) >> 28 & 1  # tp_flags, Py_TPFLAGS_UNICODE_SUBCLASS: PyUnicode_Check
    assert call(process, "PyType_IsSubtype", text_type, base) == 1
    assert call(process, "PyType_IsSubtype", text_type, process.bind("PyDict_Type")) == 0
    own = call(process, "PyType_GenericAlloc", process.bind("PyType_Type"), 0)
    machine.set_word(own + 256, text_type)  # tp_base
    assert call(process, "PyType_Ready", own) == 0
    assert machine.word(own + 304) == machine.word(text_type + 304) == process.bind("PyType_GenericAlloc")  # tp_alloc
    assert call(process, "PyType_IsSubtype", own, text_type) == 1
    function = call(process, "PyCFunction_NewEx", made, own, 0)
    assert machine.words(function + 16, 2) == (made, own)  # m_ml, m_self
    method = call(process, "PyInstanceMethod_New", function)
    assert machine.words(method + 8, 2) == (process.bind("PyInstanceMethod_Type"), function)


def test_the_private_parts_of_a_string(process: EmulatedProcess) -> None:
    """As the constructor of a string calls them when nothing is inlined."""
    machine, name = process.machine, f"_ZN{CXX11_CLASS}"
    address, content = process.allocate(32), text(process, b"text of a library")
    local = call(process, f"{name}13_M_local_dataEv", address)
    assert local == address + 16
    call(process, f"{name}12_Alloc_hiderC1EPcRKS3_", address, local, 0)
    assert call(process, f"_ZNK{CXX11_CLASS}11_M_is_localEv", address) == 1
    assert call(process, f"_ZNK{CXX11_CLASS}8capacityEv", address) == 15
    size = process.store((17).to_bytes(8, "little"))
    buffer = call(process, f"{name}9_M_createERmm", address, size, 0)
    call(process, f"{name}7_M_dataEPc", address, buffer)
    call(process, f"{name}11_M_capacityEm", address, machine.word(size))
    call(process, f"{name}13_S_copy_charsEPcPKcS7_", buffer, content, content + 17)
    call(process, f"{name}13_M_set_lengthEm", address, 17)
    assert CXX11.read(process, address) == b"text of a library"
    assert call(process, f"_ZNK{CXX11_CLASS}7_M_dataEv", address) == buffer
    assert call(process, f"{name}3endEv", address) == buffer + 17
    call(process, f"{name}5clearEv", address)
    assert call(process, f"_ZNK{CXX11_CLASS}5emptyEv", address) == 1


CODES = range(-128, 256)


@pytest.mark.parametrize(
    ("locate", "entry"),
    [
        ("__ctype_b_loc", ctypes.c_uint16),
        ("__ctype_tolower_loc", ctypes.c_int32),
        ("__ctype_toupper_loc", ctypes.c_int32),
    ],
)
def test_the_tables_behind_ctype_h(
    process: EmulatedProcess, locate: str, entry: type[ctypes.c_uint16 | ctypes.c_int32]
) -> None:
    """As glibc has them in this process, whose locale is the classic one."""
    function = getattr(ctypes.CDLL(None), locate)
    function.restype = ctypes.POINTER(ctypes.POINTER(entry))
    real, size = function().contents, ctypes.sizeof(entry)
    table = process.machine.word(call(process, locate))
    found = process.machine.read(table + CODES[0] * size, len(CODES) * size)
    assert found == b"".join(bytes(entry(real[code])) for code in CODES)
    assert call(process, locate) == call(process, locate)


@pytest.mark.parametrize(
    "name", ["isalpha", "iscntrl", "isgraph", "ispunct", "isspace", "isxdigit", "tolower", "toupper"]
)
def test_ctype_functions(process: EmulatedProcess, name: str) -> None:
    real = getattr(ctypes.CDLL(None), name)
    expected = [real(code) for code in CODES]
    # An int: what is in the upper half of its register means nothing.
    found = [signed(call(process, name, 1 << 40 | code & 0xFFFF_FFFF), 32) for code in CODES]
    if name.startswith("is"):
        expected = [bool(each) for each in expected]
    assert found == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (r"_ZN3c108ListType3getE", "_ZN3c108ListType3getE"),
        (r"_ZN3c10\d+\w+Type3getEv$", "_ZN3c10"),
        (r"virtual function of _ZTVN3c10\d", "virtual function of _ZTVN3c10"),
        (r"PyErr_|PyErr_", "PyErr_"),
        (r"\w+Py", ""),
    ],
)
def test_the_plain_beginning_of_an_expression(pattern: str, expected: str) -> None:
    assert beginnings(pattern) == (expected,)


def test_a_stream_that_is_read_ends_the_function(process: EmulatedProcess) -> None:
    """What would be read is not known, and nothing must be made of it."""
    with pytest.raises(Stop, match="reads from a stream"):
        call(process, "_ZStrsIeSt11char_traitsIcEERSt13basic_istream", process.allocate(512), process.allocate(64))


@pytest.mark.parametrize(("name", "size", "offset"), [("memchr", 4, 1), ("memrchr", 4, 3), ("memrchr", 3, 1)])
def test_the_first_or_the_last_byte_of_a_value(process: EmulatedProcess, name: str, size: int, offset: int) -> None:
    """memchr(3): of ``abcb``, and no further than ``size``."""
    start = process.store(b"abcb")
    assert call(process, name, start, ord("b"), size) == start + offset
    assert call(process, name, start, ord("x"), size) == 0
    assert call(process, name, start, ord("a"), 0) == 0


def test_a_name_is_found_in_whichever_library_has_it() -> None:
    """By its own name or by an expression, the first library first; other names in none, however they begin."""
    first, second = Doubles(), Doubles()
    first.named("memcpy")(lambda _: 1)
    first.matching(r"_ZNK?St5touch")(lambda _: 2)
    second.named("memcpy", "_ZNSt5touchEv")(lambda _: 3)
    second.matching(r"v?errx?$|_?Py[A-Z]")(lambda _: 4)
    find = finder((first, second))
    names = ("memcpy", "_ZNSt5touchEv", "_ZNKSt5touchEi", "verr", "errx", "_PyA", "PyB")
    doubles = [find(name) for name in names]
    assert [double and double(cast("Call", None)) for double in doubles] == [1, 2, 2, 4, 4, 4, 4]
    assert not any(map(find, ("memcp", "memcpyy", "_ZNSt5touc", "verry", "er", "Pya", "_ZNKR", "")))
