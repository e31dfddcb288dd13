"""``std::string`` in both layouts: each double returns, and leaves behind, what libstdc++ itself does."""

from __future__ import annotations

import ctypes
import itertools
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.doubles import finder
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.doubles.libstdcxx import LIBSTDCXX
from abiscan.emulation.process import EmulatedProcess
from abiscan.emulation.strings import COW, CXX11, StringAbi

SAMPLE: Final = Path(__file__).parents[3] / "sample_binaries" / "registrations" / "library.so"
CLASSES: Final = {
    CXX11: ("NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE", "S4_", "S3_"),
    COW: ("NSs", "Ss", "SaIcE"),
}  # the class, itself in its own signatures, its allocator there
NPOS: Final = 2**64 - 1
TEXTS: Final = (b"", b"short", b"exactly 15 char", b"a text of twenty-eight bytes")
ALLOCATOR: Final = object()
# Members that only the doubles of the present layout have.
PRESENT: Final = ("K7_M_dataEv", "5beginEv", "K6cbeginEv", "K5frontEv", "3endEv", "K4cendEv")


@dataclass(frozen=True)
class Other:
    """A string that is passed by reference."""

    text: bytes


Argument = int | bytes | Other | object


class Real:
    """The library in this process."""

    def __init__(self, abi: StringAbi) -> None:
        self.abi = abi
        self.keep: list[ctypes.Array[ctypes.c_char]] = []
        try:
            self.library = ctypes.CDLL("libstdc++.so.6")
        except OSError:
            pytest.skip("needs libstdc++.so.6")

    def room(self, content: bytes) -> int:
        self.keep.append(ctypes.create_string_buffer(content))
        return ctypes.addressof(self.keep[-1])

    def string(self, text: bytes) -> int:
        here = self.room(bytes(64))
        self.call(mangled(self.abi, "C1EPKcmRK{a}"), here, self.room(text), len(text), self.room(b""))
        return here

    def call(self, name: str, *arguments: int) -> int:
        function = self.library[name]
        function.argtypes, function.restype = [ctypes.c_void_p] * len(arguments), ctypes.c_size_t
        return int(function(*arguments))

    def text(self, string: int) -> bytes:
        data = self.data(string)
        size = ctypes.c_size_t.from_address(string + 8 if self.abi is CXX11 else data - 24).value
        return ctypes.string_at(data, size)

    def data(self, string: int) -> int:
        return ctypes.c_size_t.from_address(string).value


class Double:
    """The doubles, in an emulated process."""

    def __init__(self, abi: StringAbi, process: EmulatedProcess) -> None:
        self.abi, self.process = abi, process

    def room(self, content: bytes) -> int:
        return self.process.store(content + b"\0")

    def string(self, text: bytes) -> int:
        here = self.process.allocate(64)
        self.abi.create(self.process, here, text)
        return here

    def call(self, name: str, *arguments: int) -> int:
        return self.process.machine.start(self.process.bind(name), arguments, 100_000)

    def text(self, string: int) -> bytes:
        return self.abi.read(self.process, string)

    def data(self, string: int) -> int:
        return self.process.machine.word(string)


@pytest.fixture(params=[CXX11, COW], ids=["cxx11", "cow"])
def abi(request: pytest.FixtureRequest) -> StringAbi:
    found: StringAbi = request.param
    return found


@pytest.fixture
def double(abi: StringAbi) -> Iterator[Double]:
    file = ElfFile.open(SAMPLE)
    process = EmulatedProcess(file, file.facts().machine, finder((LIBC, LIBSTDCXX)), lambda *_: None)
    process.call_limit = 1_000_000
    yield Double(abi, process)
    process.close()


@pytest.fixture
def real(abi: StringAbi) -> Real:
    return Real(abi)


def mangled(abi: StringAbi, member: str) -> str:
    """``{s}`` is the string itself, ``{a}`` its allocator; a member that begins with K is const."""
    class_, itself, allocator = CLASSES[abi]
    const = "K" if member.startswith("K") else ""
    class_ = class_.replace("N", f"N{const}", 1)
    return f"_Z{class_}{member.removeprefix('K').format(s=itself, a=allocator)}"


def came_of(side: Real | Double, member: str, text: bytes, arguments: tuple[Argument, ...], kind: str) -> object:
    """The text and the result of a call: what the result is, ``kind`` says."""
    this, others, passed = side.string(text), [], []
    for argument in arguments:
        if isinstance(argument, int):
            passed.append(argument)
        elif isinstance(argument, bytes):
            passed.append(side.room(argument))
        elif isinstance(argument, Other):
            others.append(side.string(argument.text))
            passed.append(others[-1])
        else:
            passed.append(side.room(b""))
    result = side.call(mangled(side.abi, member), this, *passed)
    meaning: object = None
    if kind == "this":
        meaning = result == this
    elif kind == "place":
        meaning = result - side.data(this)
    elif kind == "part":
        meaning = result - this
    elif kind == "sign":
        low = result & 0xFFFF_FFFF
        meaning = (low != 0) - 2 * (low >> 31)
    elif kind == "number":
        meaning = result
    elif kind == "bool":
        meaning = result & 0xFF
    return side.text(this), meaning, [side.text(other) for other in others]


def cases(text: bytes) -> Iterator[tuple[str, str, tuple[Argument, ...]]]:
    """Members, what they return, and arguments; no position is behind the end, where they throw."""
    size = len(text)
    places = sorted({0, 1, size // 2, size} & set(range(size + 1)))
    for new in TEXTS:
        yield from ((member, "this", (Other(new),)) for member in ("6assignERK{s}", "aSERK{s}", "6appendERK{s}"))
        yield from (("pLERK{s}", "this", (Other(new),)), ("9_M_assignERK{s}", "", (Other(new),)))
        yield from ((member, "this", (new,)) for member in ("6assignEPKc", "aSEPKc", "6appendEPKc", "pLEPKc"))
        yield from ((member, "this", (new, len(new))) for member in ("6assignEPKcm", "6appendEPKcm"))
        yield "4swapER{s}", "", (Other(new),)
        yield from (("C1ERK{s}", "", (Other(new),)), ("C1ERK{s}mm", "", (Other(new), len(new) // 2, 3)))
        yield from (("C1EPKc" + "RK{a}", "", (new, ALLOCATOR)), ("C1EPKcmRK{a}", "", (new, len(new) // 2, ALLOCATOR)))
        yield from (("K7compareEPKc", "sign", (new,)), ("K7compareERK{s}", "sign", (Other(new),)))
        for at in places:
            yield from (("6insertEmPKc", "this", (at, new)), ("6insertEmRK{s}", "this", (at, Other(new))))
            yield "6insertEmPKcm", "this", (at, new, len(new) // 2)
            yield "6insertEmRK{s}mm", "this", (at, Other(new), len(new) // 2, 2)
            for count in (0, 2, NPOS):
                yield "7replaceEmmPKc", "this", (at, count, new)
                yield "7replaceEmmPKcm", "this", (at, count, new, len(new) // 2)
                yield "7replaceEmmRK{s}", "this", (at, count, Other(new))
        yield from (("6appendERK{s}mm", "this", (Other(new), len(new) // 2, count)) for count in (0, 2, NPOS))
    yield from (("C1Ev", "", ()), ("C1EmcRK{a}", "", (5, ord("x"), ALLOCATOR)), ("C1ERK{a}", "", (ALLOCATOR,)))
    yield from (("9push_backEc", "", (ord("!"),)), ("pLEc", "this", (0xFF,)), ("6appendEmc", "this", (20, ord("+"))))
    yield from (("6resizeEmc", "", (length, ord("."))) for length in (0, 3, 15, 16, 40))
    yield from (("6resizeEm", "", (length,)) for length in (0, 3, 40))
    yield from (("7reserveEm", "", (length,)) for length in (0, 15, 16, 100))
    for at, count in itertools.product(places, (0, 2, NPOS)):
        yield from (("5eraseEmm", "this", (at, count)), ("7replaceEmmmc", "this", (at, count, 3, ord("*"))))
    yield from ((member, "number", ()) for member in ("K4sizeEv", "K6lengthEv"))
    yield from ((member, "place", ()) for member in ("K5c_strEv", "K4dataEv"))
    yield "K5emptyEv", "bool", ()
    yield "5clearEv", "", ()
    wanted = (b"", b"t", b"tex", b"z", b"xyzzy", text[-3:], text + b"!")
    for part, at in itertools.product(wanted, (0, 1, 4, size, size + 1, NPOS)):
        yield from ((f"K{name}EPKcmm", "number", (part, at, len(part))) for name in ("4find", "5rfind"))
        yield from (("K4findEPKcm", "number", (part, at)), ("K4findERK{s}m", "number", (Other(part), at)))
        for name in ("13find_first_of", "12find_last_of", "17find_first_not_of", "16find_last_not_of"):
            yield f"K{name}EPKcmm", "number", (part, at, len(part))
    for character, at in itertools.product(b"tz ", (0, 1, 4, size, NPOS)):
        yield from ((f"K{name}Ecm", "number", (character, at)) for name in ("4find", "5rfind"))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86_64 Linux, whose libstdc++ is asked")
@pytest.mark.parametrize("text", TEXTS)
def test_a_member_does_what_libstdcxx_does(real: Real, double: Double, text: bytes) -> None:
    compared = 0
    for member, kind, arguments in cases(text):
        try:
            expected = came_of(real, member, text, arguments, kind)
        except AttributeError:  # it is always inlined, in this layout
            continue
        compared += 1
        assert came_of(double, member, text, arguments, kind) == expected, (member, arguments)
    assert compared > 300


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86_64 Linux, whose libstdc++ is asked")
@pytest.mark.parametrize("abi", [CXX11], indirect=True, ids=["cxx11"])
@pytest.mark.parametrize("text", TEXTS)
def test_a_part_of_a_string_is_where_libstdcxx_has_it(real: Real, double: Double, text: bytes) -> None:
    """What code calls that is not optimised: as pointers into the text, or from the start of the object."""
    for member in PRESENT:
        assert came_of(double, member, text, (), "place") == came_of(real, member, text, (), "place"), member
    for member, at in itertools.product(("ixEm", "KixEm", "2atEm", "K2atEm"), range(len(text))):
        assert came_of(double, member, text, (at,), "place") == came_of(real, member, text, (at,), "place"), member
    others = {"K8capacityEv": "number", "K11_M_is_localEv": "bool", "13_M_local_dataEv": "part"}
    for member, kind in {**others, "16_M_get_allocatorEv": "part"}.items():
        assert came_of(double, member, text, (), kind) == came_of(real, member, text, (), kind), member


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86_64 Linux, whose libstdc++ is asked")
@pytest.mark.parametrize("abi", [CXX11], indirect=True, ids=["cxx11"])
def test_a_part_of_a_string_is_set_where_libstdcxx_sets_it(real: Real, double: Double) -> None:
    text = b"a text of twenty-eight bytes"
    for member, value in (("9_M_lengthEm", 5), ("11_M_capacityEm", 40), ("13_M_set_lengthEm", 3)):
        there, here = real.string(text), double.string(text)
        real.call(mangled(CXX11, member), there, value)
        double.call(mangled(CXX11, member), here, value)
        expected = ctypes.string_at(there + 8, 16)
        assert double.process.machine.read(here + 8, 16) == expected, member
        assert double.process.machine.read(double.data(here), 28) == ctypes.string_at(real.data(there), 28), member
