"""``std::string`` in both layouts: each double returns, and leaves behind, what libstdc++ itself does."""

from __future__ import annotations

import ctypes
import itertools
import platform
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.doubles import finder
from abiscan.emulation.doubles.cxx_strings import CXX_STRINGS
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.emulator import Stop
from abiscan.emulation.process import EmulatedProcess
from abiscan.emulation.strings import COW, CXX11, StringAbi, abi_in, abi_of

SAMPLE: Final = Path(__file__).parents[3] / "sample_binaries" / "registrations" / "library.so"
CLASSES: Final = {
    CXX11: ("NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE", "S4_", "S3_"),
    COW: ("NSs", "Ss", "SaIcE"),
}  # the class, itself in its own signatures, its allocator there
WIDE: Final = "NSt7__cxx1112basic_stringIwSt11char_traitsIwESaIwEE"
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

    def __init__(self, abi: StringAbi, *, wide: bool = False) -> None:
        self.abi, self.wide = abi, wide
        self.keep: list[ctypes.Array[ctypes.c_char]] = []
        try:
            self.library = ctypes.CDLL("libstdc++.so.6")
        except OSError:
            pytest.skip("needs libstdc++.so.6")

    def room(self, content: bytes) -> int:
        self.keep.append(ctypes.create_string_buffer(units(content + b"\0", wide=self.wide)))
        return ctypes.addressof(self.keep[-1])

    def string(self, text: bytes) -> int:
        here, name = self.room(bytes(64)), mangled(self.abi, "C1EPKcmRK{a}", wide=self.wide)
        self.call(name, here, self.room(text), len(text), self.room(b""))
        return here

    def call(self, name: str, *arguments: int) -> int:
        function = self.library[name]
        function.argtypes, function.restype = [ctypes.c_void_p] * len(arguments), ctypes.c_size_t
        return int(function(*arguments))

    def text(self, string: int) -> bytes:
        data = self.data(string)
        size = ctypes.c_size_t.from_address(string + 8 if self.abi is CXX11 else data - 24).value
        return ctypes.string_at(data, 4 * size)[::4] if self.wide else ctypes.string_at(data, size)

    def data(self, string: int) -> int:
        return ctypes.c_size_t.from_address(string).value


class Double:
    """The doubles, in an emulated process."""

    def __init__(self, abi: StringAbi, process: EmulatedProcess, *, wide: bool = False) -> None:
        self.abi, self.process, self.wide = abi, process, wide

    def room(self, content: bytes) -> int:
        return self.process.store(units(content + b"\0", wide=self.wide))

    def string(self, text: bytes) -> int:
        here = self.process.allocate(64)
        if self.wide:
            local = len(text) <= 3
            place = here + 16 if local else self.room(text)
            self.process.machine.write(here, struct.pack("<3Q", place, len(text), len(text)))
            if local:
                self.process.machine.write(place, units(text + b"\0", wide=True))
        else:
            self.abi.create(self.process, here, text)
        return here

    def call(self, name: str, *arguments: int) -> int:
        return self.process.machine.start(self.process.bind(name), arguments, 100_000)

    def text(self, string: int) -> bytes:
        if self.wide:
            place, size = self.process.machine.words(string, 2)
            return self.process.machine.read(place, 4 * size)[::4] if size else b""
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
    process = EmulatedProcess(file, file.facts().machine, finder((LIBC, CXX_STRINGS)), lambda *_: None)
    process.call_limit = 1_000_000
    yield Double(abi, process)
    process.close()


@pytest.fixture
def real(abi: StringAbi) -> Real:
    return Real(abi)


def units(text: bytes, *, wide: bool) -> bytes:
    """Bytes, or a ``wchar_t`` for each."""
    return text.decode("latin-1").encode("utf-32-le") if wide else text


def mangled(abi: StringAbi, member: str, *, wide: bool = False) -> str:
    """``{s}`` is the string itself, ``{a}`` its allocator; a member that begins with K is const."""
    class_, itself, allocator = CLASSES[abi]
    if wide:
        name, _, signature = member.rpartition("E")
        class_, member = WIDE, f"{name}E{re.sub(r'(?<!{)c', 'w', signature)}"
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
    result = side.call(mangled(side.abi, member, wide=side.wide), this, *passed)
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
        yield from ((member, "this", (Other(new),)) for member in ("aSEO{s}", "6assignEO{s}"))
        yield "6assignERK{s}mm", "this", (Other(new), len(new) // 2, 3)
        yield from (("C1ERK{s}", "", (Other(new),)), ("C1ERK{s}mm", "", (Other(new), len(new) // 2, 3)))
        yield from (("C1EPKc" + "RK{a}", "", (new, ALLOCATOR)), ("C1EPKcmRK{a}", "", (new, len(new) // 2, ALLOCATOR)))
        yield from (("K7compareEPKc", "sign", (new,)), ("K7compareERK{s}", "sign", (Other(new),)))
        for at in places:
            yield from (("6insertEmPKc", "this", (at, new)), ("6insertEmRK{s}", "this", (at, Other(new))))
            yield "6insertEmPKcm", "this", (at, new, len(new) // 2)
            yield "6insertEmRK{s}mm", "this", (at, Other(new), len(new) // 2, 2)
            yield from (("6insertEmmc", "this", (at, 3, ord("-"))), ("K4copyEPcmm", "number", (b"." * 40, 2, at)))
            yield from (("K7compareEmmPKc", "sign", (at, 2, new)), ("K7compareEmmRK{s}", "sign", (at, 9, Other(new))))
            yield "K7compareEmmRK{s}mm", "sign", (at, 3, Other(new), len(new) // 2, 2)
            yield "K7compareEmmPKcm", "sign", (at, 3, new, len(new) // 2)
            for count in (0, 2, NPOS):
                yield "7replaceEmmPKc", "this", (at, count, new)
                yield "7replaceEmmPKcm", "this", (at, count, new, len(new) // 2)
                yield "7replaceEmmRK{s}", "this", (at, count, Other(new))
        yield from (("6appendERK{s}mm", "this", (Other(new), len(new) // 2, count)) for count in (0, 2, NPOS))
    yield from (("C1Ev", "", ()), ("C1EmcRK{a}", "", (5, ord("x"), ALLOCATOR)), ("C1ERK{a}", "", (ALLOCATOR,)))
    yield from (("aSEc", "this", (ord("?"),)), ("6assignEmc", "this", (18, ord("a"))))
    if text:
        yield "8pop_backEv", "", ()
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
            yield from ((f"K{name}EPKcm", "number", (part, at)), (f"K{name}ERK{{s}}m", "number", (Other(part), at)))
    for character, at in itertools.product(b"tz ", (0, 1, 4, size, NPOS)):
        names = ("4find", "5rfind", "13find_first_of", "12find_last_of", "17find_first_not_of", "16find_last_not_of")
        yield from ((f"K{name}Ecm", "number", (character, at)) for name in names)


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
def test_a_member_of_a_wide_string_does_what_libstdcxx_does(abi: StringAbi, double: Double, text: bytes) -> None:
    real, own = Real(abi, wide=True), Double(abi, double.process, wide=True)
    compared = 0
    for member, kind, arguments in cases(text):
        try:
            expected = came_of(real, member, text, arguments, kind)
        except AttributeError:
            continue
        compared += 1
        assert came_of(own, member, text, arguments, kind) == expected, (member, arguments)
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


CONSTRUCT = "12_M_construct"
BETWEEN = ("IPKcEEvT_S8_St20forward_iterator_tag", "IPcEEvT_S7_St20forward_iterator_tag")


@pytest.mark.parametrize("abi", [CXX11], indirect=True, ids=["cxx11"])
def test_a_string_is_constructed_in_place(double: Double) -> None:
    """Of a character and how often, of two ends, and, from GCC 15 on, of a start and a size."""
    content = double.room(b"a text of twenty-eight bytes")
    for size in (0, 3, 15, 16, 28):
        expected = double.process.machine.read(content, size)
        for member in BETWEEN:
            here = double.string(b"before")
            double.call(mangled(CXX11, CONSTRUCT + member), here, content, content + size)
            assert double.text(here) == expected
        here = double.string(b"before")
        double.call(mangled(CXX11, CONSTRUCT + "ILb1EEEvPKcm"), here, content, size)
        assert double.text(here) == expected
        double.call(mangled(CXX11, CONSTRUCT + "Emc"), here, size, ord("x"))
        assert double.text(here) == b"x" * size


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86_64 Linux, whose libstdc++ is asked")
@pytest.mark.parametrize("abi", [CXX11], indirect=True, ids=["cxx11"])
def test_room_is_made_in_a_string_as_libstdcxx_makes_it(real: Real, double: Double) -> None:
    """``_M_mutate`` puts a part in the place of another one, and leaves the length to its caller."""
    text, new = b"a text of twenty-eight bytes", b"0123456789"
    for at, count, added, has_text in itertools.product((0, 5, 28), (0, 7), (0, 4, 10), (True, False)):
        count = min(count, len(text) - at)
        there, here = real.string(text), double.string(text)
        real.call(mangled(CXX11, "9_M_mutateEmmPKcm"), there, at, count, real.room(new) if has_text else 0, added)
        double.call(mangled(CXX11, "9_M_mutateEmmPKcm"), here, at, count, double.room(new) if has_text else 0, added)
        size = len(text) - count + added
        expected, found = ctypes.string_at(real.data(there), size), double.process.machine.read(double.data(here), size)
        if not has_text:  # what is there then nobody says
            expected, found = (each[:at] + each[at + added :] for each in (expected, found))
        assert found == expected
        _, length, capacity = double.process.machine.words(here, 3)
        assert length == len(text)
        assert capacity >= size
        assert double.process.size_of(double.data(here)) > capacity


@pytest.mark.parametrize("abi", [COW], indirect=True, ids=["cow"])
def test_the_parts_of_a_text_that_is_shared(double: Double) -> None:
    """bits/cow_string.h: length, capacity and the references less one lie before the text."""
    machine, process = double.process.machine, double.process
    for capacity, old, expected in ((20, 15, 30), (40, 15, 40), (10, 15, 10), (15, 15, 15), (31, 15, 31)):
        rep = double.call("_ZNSs4_Rep9_S_createEmmRKSaIcE", capacity, old, 0)
        assert machine.words(rep, 3) == (0, expected, 0)
        assert process.size_of(rep) == 24 + expected + 1
    machine.write(rep, b"\xcc" * 56)
    double.call("_ZNSs4_Rep26_M_set_length_and_sharableEm", rep, 5)
    assert machine.word(rep) == 5
    assert machine.read(rep + 16, 8) == bytes(4) + b"\xcc" * 4
    assert machine.read(rep + 24, 7) == b"\xcc" * 5 + b"\0\xcc"
    empty = double.call("_ZNSs12_S_empty_repEv")
    double.call("_ZNSs4_Rep26_M_set_length_and_sharableEm", empty, 0)
    assert machine.read(empty, 32) == bytes(32)
    assert double.text(process.store((empty + 24).to_bytes(8, "little"))) == b""
    for member in ("10_M_refdataEv", "10_M_refcopyEv", "7_M_grabERKSaIcES2_"):
        assert double.call(f"_ZNSs4_Rep{member}", rep, 0, 0) == rep + 24


@pytest.mark.parametrize("abi", [COW], indirect=True, ids=["cow"])
def test_texts_that_are_made_one_by_one(double: Double) -> None:
    machine, process = double.process.machine, double.process
    here = double.string(b"shared text")
    rep = double.data(here) - 24
    clone = double.call("_ZNSs4_Rep8_M_cloneERKSaIcEm", rep, 0, 9)
    assert machine.words(clone - 24, 3) == (11, 20, 0)
    assert machine.text(clone) == b"shared text"
    place = process.store(b"\xcc" * 16)
    double.call("_ZNSs12_Alloc_hiderC1EPcRKSaIcE", place, clone, 0)
    assert machine.words(place, 2) == (clone, int.from_bytes(b"\xcc" * 8, "little"))
    content = double.room(b"0123456789")
    for size in (0, 1, 10):
        made = double.call("_ZNSs12_S_constructIPKcEEPcT_S3_RKSaIcESt20forward_iterator_tag", content, content + size)
        assert machine.text(made) == b"0123456789"[:size]
        repeated = double.call("_ZNSs12_S_constructEmcRKSaIcE", size, ord("x"))
        assert machine.text(repeated) == b"x" * size
        buffer = process.store(b"." * 16)
        double.call("_ZNSs13_S_copy_charsEPcPKcS1_", buffer, content, content + size)
        assert machine.read(buffer, 16) == b"0123456789"[:size].ljust(16, b".")
    double.call("_ZNSs9_M_mutateEmmm", here, 6, 1, 3)
    assert double.text(here) == b"shared\0\0\0text"


@pytest.mark.parametrize("abi", [COW], indirect=True, ids=["cow"])
def test_a_text_that_is_changed_is_no_longer_shared(double: Double) -> None:
    """The number of references is negative then, and a second request changes nothing."""
    machine, process = double.process.machine, double.process
    first = double.string(b"a text")
    second = process.store(double.data(first).to_bytes(8, "little"))
    double.call("_ZNSs12_M_leak_hardEv", second)
    own = double.data(second)
    assert own != double.data(first)
    assert double.text(first) == double.text(second) == b"a text"
    assert int.from_bytes(machine.read(own - 8, 4), "little", signed=True) < 0
    assert machine.read(double.data(first) - 8, 4) == bytes(4)
    double.call("_ZNSs7_M_leakEv", second)
    assert double.data(second) == own
    empty = double.string(b"")
    before = double.data(empty)
    double.call("_ZNSs12_M_leak_hardEv", empty)
    assert double.data(empty) == before  # of which there is one for all


def test_parts_are_copied(double: Double) -> None:
    machine, process = double.process.machine, double.process
    content = double.room(b"0123456789")
    for name in ("7_S_copyEPcPKcm", "7_S_moveEPcPKcm"):
        buffer = process.store(b"." * 8)
        double.call(mangled(CXX11, name), buffer, content, 5)
        assert machine.read(buffer, 8) == b"01234..."
        double.call(mangled(CXX11, name), buffer, 0, 0)
        assert machine.read(buffer, 8) == b"01234..."
    here = double.string(b"x")
    assert double.call(mangled(CXX11, "17_M_use_local_dataEv"), here) == here + 16


def test_the_longest_text(double: Double, abi: StringAbi) -> None:
    """16 MiB are a text, a byte more is nonsense."""
    process = double.process
    place = process.allocate(1 << 24)
    for length in (1 << 24, (1 << 24) + 1):
        if abi is CXX11:
            string = process.store(place.to_bytes(8, "little") + length.to_bytes(8, "little"))
        else:
            process.machine.set_word(place, length)
            string = process.store((place + 24).to_bytes(8, "little"))
        if length == 1 << 24:
            assert len(double.text(string)) == length
        else:
            with pytest.raises(Stop, match=f"string of {length} bytes"):
                double.text(string)


def test_what_is_no_string_is_unknown_where_that_is_asked_for(double: Double, abi: StringAbi) -> None:
    """Code that is run in isolation: what it appends to a text that nobody knows is not known either."""
    nothing = double.process.store(b"\xff" * 64)
    with pytest.raises(Stop):
        double.text(nothing)
    with pytest.raises(Stop):
        double.call(mangled(abi, "7reserveEm"), double.string(b""), 1 << 40)
    double.process.unknown_text = b"?"
    known = double.string(b"known")
    double.call(mangled(abi, "6appendERK{s}"), known, nothing)
    assert double.text(known) == b"known?"
    double.call(mangled(abi, "6appendEPKcm"), known, 0xFFFF_FFFF_FFFF, 8)
    assert double.text(known) == b"known??"
    double.call(mangled(abi, "7reserveEm"), known, 1 << 40)
    assert double.text(known) == b"known??"


def test_an_empty_text_with_room_has_a_place_of_its_own(double: Double) -> None:
    """bits/cow_string.h: only a text without capacity is the one that all share."""
    process = double.process
    empty = COW.new_text(process, b"")
    assert empty == double.call("_ZNSs12_S_empty_repEv") + 24
    roomy = COW.new_text(process, b"", 40)
    assert roomy != empty
    assert process.machine.words(roomy - 24, 3) == (0, 40, 0)
    assert process.size_of(roomy - 24) == 24 + 40 + 1
    short = COW.new_text(process, b"text", 2)
    assert process.machine.words(short - 24, 3) == (4, 4, 0)


def test_room_is_reserved(double: Double, abi: StringAbi) -> None:
    """Inlined code then writes behind the end: so much room there is, and no more than was asked for."""
    process = double.process
    for capacity in (15, 16, 100, 1 << 20):
        here = double.string(b"text")
        double.call(
            f"double of {mangled(abi, '7reserveEm')}" if abi is CXX11 else mangled(abi, "7reserveEm"), here, capacity
        )
        assert double.text(here) == b"text"
        if abi is COW:
            assert process.machine.words(double.data(here) - 24, 3) == (4, capacity, 0)
        elif capacity == 15:
            assert double.data(here) == here + 16
        else:
            assert process.machine.words(here + 8, 2) == (4, capacity)
            assert process.size_of(double.data(here)) == capacity + 1
    if abi is COW:
        empty = double.string(b"")
        double.call(mangled(abi, "7reserveEm"), empty, 0)
        assert double.text(empty) == b""


def test_the_layout_that_most_names_have() -> None:
    old = ("_ZN5torch3jit11parseSchemaERKSs", "_ZN3c1012OperatorNameC1ERKSs")
    new = ("_ZN5torch7Library3defERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",)
    assert abi_of(frozenset({*old, *new})) is COW
    assert abi_of(frozenset({*old[:1], *new})) is CXX11  # as many of each: the layout of all compilers since GCC 5
    assert abi_of(frozenset(new)) is CXX11
    assert abi_of(frozenset({"_ZNSsC1ERKSs", "malloc"})) is COW
    assert abi_of(frozenset({"_ZNSsC1ERKSs", *new})) is CXX11  # torch's own names decide
    assert abi_in("_ZN3foo3barB5cxx11Ev") is CXX11
    assert abi_in("_ZNKSs4findEcm") is COW


@pytest.mark.parametrize("abi", [COW], indirect=True, ids=["cow"])
def test_a_string_cannot_take_all_memory(double: Double) -> None:
    with pytest.raises(Stop, match="string of 1099511627776 bytes"):
        double.call("_ZNSs9_M_mutateEmmm", double.string(b"0123456789"), 1, 2, 1 << 40)
