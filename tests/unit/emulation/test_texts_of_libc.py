"""The functions of ``<string.h>`` and others: each double returns, and leaves behind, what the C library does."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.doubles import finder
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.doubles.system import SYSTEM
from abiscan.emulation.emulator import Stop
from abiscan.emulation.process import EmulatedProcess

SAMPLES: Final = Path(__file__).parents[3] / "sample_binaries" / "registrations"
TEXTS: Final = (b"", b"a", b"abc", b"abcabd", b"ABCabc", b"b", b"x\xffy\x80")
SIZES: Final = (0, 1, 3, 4, 9)
ROOM: Final = 32

Argument = int | bytes


@pytest.fixture(params=["library", "library_aarch64"])
def process(request: pytest.FixtureRequest) -> Iterator[EmulatedProcess]:
    file = ElfFile.open(SAMPLES / f"{request.param}.so")
    found = EmulatedProcess(file, file.facts().machine, finder((LIBC, SYSTEM)), lambda *_: None)
    found.call_limit = 1_000_000
    yield found
    found.close()


def real(name: str, arguments: tuple[Argument, ...], kind: str) -> tuple[object, bytes]:
    """What the C library returns, by ``kind``, and the first text afterwards."""
    function = ctypes.CDLL(None)[name]
    buffers = [ctypes.create_string_buffer(each, ROOM) for each in arguments if isinstance(each, bytes)]
    remaining = iter(buffers)
    given = [ctypes.addressof(next(remaining)) if isinstance(each, bytes) else each for each in arguments]
    function.argtypes = [ctypes.c_void_p if isinstance(each, bytes) else ctypes.c_size_t for each in arguments]
    function.restype = ctypes.c_size_t
    result = function(*given)
    copy = ctypes.string_at(result) if kind == "copy" and result else b""
    return meaning(kind, result, given[0], copy), buffers[0].raw


def double(process: EmulatedProcess, name: str, arguments: tuple[Argument, ...], kind: str) -> tuple[object, bytes]:
    given = tuple(process.store(each.ljust(ROOM, b"\0")) if isinstance(each, bytes) else each for each in arguments)
    result = process.machine.start(process.bind(name), given, 100_000)
    copy = process.machine.text(result) if kind == "copy" and result else b""
    return meaning(kind, result, given[0], copy), process.machine.read(given[0], ROOM)


def meaning(kind: str, result: int, start: int, copy: bytes) -> object:
    if kind == "place":
        return result - start if result else None
    if kind == "sign":
        low = result & 0xFFFF_FFFF
        return (low != 0) - 2 * (low >> 31)
    return copy if kind == "copy" else result


def cases() -> Iterator[tuple[str, str, tuple[Argument, ...]]]:
    for text in TEXTS:
        yield from (("strlen", "number", (text,)), ("strdup", "copy", (text,)))
        for size in SIZES:
            yield from (("strnlen", "number", (text, size)), ("strndup", "copy", (text, size)))
        for wanted, size in itertools.product(b"ac\xff\0", SIZES):
            yield "memchr", "place", (text, wanted, size)
    for first, second in itertools.product(TEXTS, TEXTS):
        yield from ((name, "sign", (first, second)) for name in ("strcmp", "strcoll", "strcasecmp"))
        yield from ((name, "place", (first, second)) for name in ("strstr", "strcasestr", "strcat", "strcpy", "stpcpy"))
        for size in SIZES:
            yield from ((name, "sign", (first, second, size)) for name in ("strncmp", "strncasecmp", "memcmp", "bcmp"))
            yield from ((name, "place", (first, second, size)) for name in ("strncpy", "memcpy", "memmove"))
            yield from (("__strncpy_chk", "place", (first, second, size, ROOM)),)
            yield from (("__memcpy_chk", "place", (first, second, size, ROOM)),)
        yield from ((f"__{name}_chk", "place", (first, second, ROOM)) for name in ("strcat", "strcpy", "stpcpy"))
    for text, size in itertools.product(TEXTS, SIZES):
        yield from (("memset", "place", (text, 0x141, size)), ("__memset_chk", "place", (text, 0x42, size, ROOM)))


def test_texts_are_handled_as_by_the_c_library(process: EmulatedProcess) -> None:
    for name, kind, arguments in cases():
        expected, found = real(name, arguments, kind), double(process, name, arguments, kind)
        if name == "bcmp":  # POSIX.1-2001: only whether it is zero is specified
            expected, found = (expected[0] != 0, expected[1]), (found[0] != 0, found[1])
        assert found == expected, (name, arguments)


@pytest.mark.parametrize(
    ("text", "base"), [(b"0x", 16), (b"0xg", 16), (b"0xg", 0), (b"0x1g", 16), (b"-0x1F ", 16), (b"zz", 36), (b"08", 0)]
)
def test_a_prefix_without_digits_is_a_zero(process: EmulatedProcess, text: bytes, base: int) -> None:
    libc, buffer, end = ctypes.CDLL(None), ctypes.create_string_buffer(text), ctypes.c_void_p()
    libc.strtol.restype = ctypes.c_long
    expected = libc.strtol(buffer, ctypes.byref(end), base)
    assert end.value is not None
    start, place = process.store(text + b"\0"), process.allocate(8)
    found = process.machine.start(process.bind("strtol"), (start, place, base), 100_000)
    assert found == expected % 2**64
    assert process.machine.word(place) - start == end.value - ctypes.addressof(buffer)


@pytest.mark.parametrize(("name", "before"), [("aligned_alloc", ()), ("memalign", ()), ("posix_memalign", (0,))])
@pytest.mark.parametrize("alignment", [8, 16, 64, 4096, 1 << 21])
def test_memory_is_aligned_as_asked(
    process: EmulatedProcess, name: str, before: tuple[int, ...], alignment: int
) -> None:
    place = process.allocate(8)
    process.allocate(24)  # what follows is not aligned by chance
    result = process.machine.start(process.bind(name), (*(place for _ in before), alignment, 40), 100_000)
    address = process.machine.word(place) if before else result
    assert address % alignment == 0
    assert result == 0 if before else address
    usable = process.machine.start(process.bind("malloc_usable_size"), (address,), 100_000)
    assert usable >= 40
    assert process.allocate(1) >= address + 40


def test_operator_new_takes_the_alignment_after_the_size(process: EmulatedProcess) -> None:
    """[new.delete.single]: ``operator new(std::size_t, std::align_val_t)``."""
    process.allocate(24)
    address = process.machine.start(process.bind("_ZnwmSt11align_val_t"), (40, 256), 100_000)
    assert address % 256 == 0
    assert process.machine.start(process.bind("malloc_usable_size"), (address,), 100_000) < 256


def test_an_array_has_room_for_all_elements(process: EmulatedProcess) -> None:
    address = process.machine.start(process.bind("calloc"), (7, 24), 100_000)
    assert process.machine.read(address, 7 * 24) == bytes(7 * 24)
    assert process.size_of(address) == 7 * 24
    assert process.allocate(1) >= address + 7 * 24


@pytest.mark.parametrize("name", ["snprintf", "sprintf", "__snprintf_chk", "__sprintf_chk"])
def test_the_checked_forms_of_printf_have_two_arguments_more(process: EmulatedProcess, name: str) -> None:
    """LSB, 13.5: the checked forms have a flag, and the size of the buffer, before the format."""
    target, form = process.store(b"." * 15 + b"\0"), process.store(b"%d<text>\0")
    size, checked = [5] if "snp" in name else [], [1, 16] if name.startswith("__") else []
    assert process.machine.start(process.bind(name), (target, *size, *checked, form, 7), 100_000) == len("7<text>")
    assert process.machine.text(target) == (b"7<te" if size else b"7<text>")


@pytest.mark.parametrize("name", ["memcmp", "memchr", "strncpy"])
def test_a_giant_size_stops(process: EmulatedProcess, name: str) -> None:
    """64 MiB are copied; a byte more is an error of what was read."""
    address = process.allocate(16)
    with pytest.raises(Stop, match=f"{name} of {2**26 + 1} bytes"):
        process.machine.start(process.bind(name), (address, 2**26 + 1, 2**26 + 1), 100_000)


def test_a_map_that_is_larger_than_all_memory_stops(process: EmulatedProcess) -> None:
    with pytest.raises(Stop):
        process.machine.start(process.bind("mmap"), (0, 2**40, 0, 0, 0, 0), 100_000)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("sysconf", (30,), 4096),  # _SC_PAGESIZE
        ("sysconf", (84,), 4),  # _SC_NPROCESSORS_ONLN
        ("sysconf", (83,), 4),  # _SC_NPROCESSORS_CONF
        ("sysconf", (9999,), 2**64 - 1),  # sysconf(3): -1 if the name is invalid
        ("getpagesize", (), 4096),
    ],
)
def test_the_machine_is_ordinary(
    process: EmulatedProcess, name: str, arguments: tuple[int, ...], expected: int
) -> None:
    assert process.machine.start(process.bind(name), arguments, 100_000) == expected


@pytest.mark.parametrize(
    ("name", "at", "text", "result", "is_known"),
    [
        ("open", 0, b"/none/at/all", 2**64 - 1, True),  # open(2): -1 on error
        ("open", 0, b"/proc/cpuinfo", 2**64 - 1, False),
        ("__xstat", 1, b"/none", 2**64 - 1, True),
        ("__xstat", 1, b"/", 2**64 - 1, False),
        ("statx", 1, b"..", 2**64 - 1, False),
        ("fopen", 0, b"none.txt", 0, True),
        ("fopen", 0, b"/dev/null", 0, False),
        ("dlopen", 0, b"libnone.so.1", 0, True),
        ("dlopen", 0, b"libtorch_cpu.so", 0, False),
        ("dlopen", 0, b"/usr/lib/libnone.so", 0, False),
        ("dlsym", 1, b"none", 0, False),
        ("getenv", 0, b"NONE", 0, True),
        ("getenv", 0, b"LANG", 0, False),
        ("sysconf", 0, b"", 2**64 - 1, False),
        ("setlocale", 1, b"xx_YY", 0, False),
    ],
)
def test_of_a_machine_only_what_every_one_has_is_known(
    process: EmulatedProcess, name: str, at: int, text: bytes, result: int, *, is_known: bool
) -> None:
    arguments = [0, 0]
    arguments[at] = process.store(text + b"\0")
    assert process.machine.start(process.bind(name), tuple(arguments), 100_000) == result
    assert bool(process.machine.taint.read) == (not is_known)


@pytest.mark.parametrize(("name", "is_set"), [(b"HOME", True), (b"MINE", True), (b"PATH", False)])
def test_a_variable_of_the_machine_has_a_value_that_nobody_knows(
    process: EmulatedProcess, name: bytes, *, is_set: bool
) -> None:
    def call(function: str, *arguments: bytes) -> int:
        places = [process.store(argument + b"\0") for argument in arguments]
        return process.machine.start(process.bind(function), (*places, 1), 100_000)

    if is_set:
        call("setenv", name, b"own")
    value = call("getenv", name)
    taint = process.machine.taint
    assert not taint.read
    assert bool(taint.label_of(value, 4)) == (not is_set)
    assert (process.machine.text(value) == b"own") == is_set
    call("clearenv")
    assert call("getenv", name) == 0


def test_what_has_a_double_is_found_by_its_name(process: EmulatedProcess) -> None:
    program = process.machine.start(process.bind("dlopen"), (0,), 100_000)
    name = process.store(b"strlen\0")
    found = process.machine.start(process.bind("dlsym"), (program, name), 100_000)
    assert process.machine.start(found, (name,), 100_000) == len("strlen")


@pytest.mark.parametrize("name", ["abort", "exit", "__stack_chk_fail"])
def test_an_end_stops_and_says_which(process: EmulatedProcess, name: str) -> None:
    with pytest.raises(Stop, match=f"the code calls {name}"):
        process.machine.start(process.bind(name), (), 100_000)


def test_the_working_directory_is_the_root(process: EmulatedProcess) -> None:
    buffer = process.store(b"." * 8)
    assert process.machine.start(process.bind("getcwd"), (buffer, 8), 100_000) == buffer
    assert process.machine.read(buffer, 3) == b"/\0."
    made = process.machine.start(process.bind("getcwd"), (0, 0), 100_000)  # getcwd(3), glibc: it allocates one
    assert process.machine.text(made) == b"/"
    assert process.size_of(made) == 2


def test_an_exception_has_a_header_before_it(process: EmulatedProcess) -> None:
    """Itanium C++ ABI, 2.2.1: the header of 128 bytes (libsupc++, unwind-cxx.h) is just before the object."""
    before = process.allocate(1)
    thrown = process.exceptions.new(24)
    assert thrown - 128 > before
    assert process.machine.read(thrown - 128, 152) == bytes(152)
    assert process.size_of(thrown - 128) == 152
    assert process.allocate(1) >= thrown + 24
