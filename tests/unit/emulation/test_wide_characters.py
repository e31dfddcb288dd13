"""The functions of ``<wchar.h>`` and ``<wctype.h>``: each double returns and leaves behind what the C library does."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.doubles import finder
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.doubles.wide_characters import WIDE_CHARACTERS
from abiscan.emulation.process import EmulatedProcess
from tests.unit.emulation.test_texts_of_libc import SAMPLES

TEXTS: Final = ("", "a", "abc", "abcabd", "ABCabc", "b", "ä€")
SIZES: Final = (0, 1, 3, 6)
ROOM: Final = 64
Argument = int | str | bytes


@pytest.fixture(params=["library", "library_aarch64"])
def process(request: pytest.FixtureRequest) -> Iterator[EmulatedProcess]:
    file = ElfFile.open(SAMPLES / f"{request.param}.so")
    found = EmulatedProcess(file, file.facts().machine, finder((WIDE_CHARACTERS, LIBC)), lambda *_: None)
    found.call_limit = 1_000_000
    yield found
    found.close()


def content(argument: str | bytes) -> bytes:
    return (argument if isinstance(argument, bytes) else argument.encode("utf-32-le")).ljust(ROOM, b"\0")


def real(name: str, arguments: Sequence[Argument], kind: str) -> tuple[object, bytes]:
    """What the C library returns, by ``kind``, and what is at the first argument afterwards."""
    function = ctypes.CDLL(None)[name]
    buffers = [ctypes.create_string_buffer(content(one), ROOM) for one in arguments if not isinstance(one, int)]
    left = iter(buffers)
    passed = [one if isinstance(one, int) else ctypes.addressof(next(left)) for one in arguments]
    function.argtypes = [ctypes.c_size_t if isinstance(one, int) else ctypes.c_void_p for one in arguments]
    function.restype = ctypes.c_size_t
    return meaning(kind, function(*passed), passed[0]), buffers[0].raw if buffers else b""


def double(process: EmulatedProcess, name: str, arguments: Sequence[Argument], kind: str) -> tuple[object, bytes]:
    passed = tuple(one if isinstance(one, int) else process.store(content(one)) for one in arguments)
    result = process.machine.start(process.bind(name), passed, 100_000)
    after = b"" if isinstance(arguments[0], int) else process.machine.read(passed[0], ROOM)
    return meaning(kind, result, passed[0]), after


def meaning(kind: str, result: int, start: int) -> object:
    if kind == "place":
        return result - start if result else None
    number = result & 0xFFFF_FFFF
    if kind == "sign":
        return (0 < number < 1 << 31) - (number >= 1 << 31)
    return number != 0 if kind == "truth" else number


CASES: Final[dict[str, tuple[str, list[Sequence[Argument]]]]] = {
    "wcslen": ("number", [(text,) for text in TEXTS]),
    "wcsnlen": ("number", list(itertools.product(TEXTS, SIZES))),
    "wcscmp": ("sign", list(itertools.product(TEXTS, TEXTS))),
    "wcsncmp": ("sign", list(itertools.product(TEXTS, TEXTS, SIZES))),
    "wmemcmp": ("sign", list(itertools.product(TEXTS, TEXTS, SIZES))),
    "wcschr": ("place", list(itertools.product(TEXTS, (0, *b"ab", 0xE4)))),
    "wcsrchr": ("place", list(itertools.product(TEXTS, (0, *b"ab", 0xE4)))),
    "wmemchr": ("place", list(itertools.product(TEXTS, (0, *b"ab", 0xE4), SIZES))),
    "wcsstr": ("place", list(itertools.product(TEXTS, TEXTS))),
    "wmemset": ("place", list(itertools.product(("abcdef",), b"xy", SIZES))),
    "wmemcpy": ("place", list(itertools.product(("abcdef",), TEXTS, SIZES))),
    "wmemmove": ("place", list(itertools.product(("abcdef",), TEXTS, SIZES))),
    "wcscpy": ("place", list(itertools.product(("abcdefgh",), TEXTS))),
    "wcpcpy": ("place", list(itertools.product(("abcdefgh",), TEXTS))),
    "wcsncpy": ("place", list(itertools.product(("abcdefgh",), TEXTS, SIZES))),
    "wcscat": ("place", list(itertools.product(TEXTS, TEXTS))),
    "towlower": ("number", [(code,) for code in range(128)]),
    "towupper": ("number", [(code,) for code in range(128)]),
    "btowc": ("number", [(code,) for code in range(128)]),
    "wctob": ("number", [(code,) for code in range(128)]),
    **{f"isw{kind}": ("truth", [(code,) for code in range(128)]) for kind in ("alpha", "digit", "space", "upper")},
    "wcstombs": ("number", list(itertools.product((b"x" * 9,), TEXTS[:-1], SIZES))),
    "mbstowcs": ("number", list(itertools.product(("xxxxxxxxx",), (b"", b"a", b"abcabd"), SIZES))),
    "mbtowc": ("number", list(itertools.product(("xy",), (b"", b"a", b"ab"), (1, 4)))),
    "wctomb": ("number", list(itertools.product((b"xy",), b"\0ab"))),
}


@pytest.mark.parametrize("name", CASES)
def test_a_double_does_what_the_c_library_does(process: EmulatedProcess, name: str) -> None:
    kind, cases = CASES[name]
    for arguments in cases:
        assert double(process, name, arguments, kind) == real(name, arguments, kind), arguments
