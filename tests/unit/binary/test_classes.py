"""Type information and virtual tables of C++ that are written word by word (Itanium C++ ABI, 2.5.2 and 2.9.5)."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from abiscan.binary import elf
from abiscan.binary.elf import ElfFile
from abiscan.binary.ownership import (
    cuda_runtime,
    gpu_library,
    is_of_gpu_vendor,
    may_be_with_python,
    may_name_torch,
    without_version,
)
from abiscan.binary.typeinfo import BaseTable, Slot, classes
from tests.unit.binary.test_relocations import GLOBAL, RELATIVE, SIZE, R, W, X, crafted

# What libsupc++ has for classes without a base, with one, and with several: the first word of a type information.
KINDS = {"none": "_ZTVN10__cxxabiv117__class_type_infoE", "one": "_ZTVN10__cxxabiv120__si_class_type_infoE",
         "several": "_ZTVN10__cxxabiv121__vmi_class_type_infoE"}  # fmt: skip
CODE, END = 0x800, 0x1000  # functions are there
DATA = 0x1900  # behind the tables
SEGMENTS = [(R | X, 0, END, END), (R | W, END, SIZE - END, SIZE - END)]


class Words:
    """The data of an object: words with relocations, laid out one after the other."""

    def __init__(self) -> None:
        self.symbols: list[tuple[str, int, int, int]] = [(name, GLOBAL, 0, 0) for name in KINDS.values()]
        self.rela: list[tuple[int, int, int, int]] = []
        self.content: dict[int, bytes] = {}
        self.end = DATA

    def text(self, text: str) -> int:
        at, self.end = self.end, self.end + len(text) + 1 + -(len(text) + 1) % 8
        self.content[at] = text.encode() + b"\0"
        return at

    def word(self, target: str | int | None) -> int:
        """A word that is relocated to an imported symbol, or to an address; or a plain zero."""
        at, self.end = self.end, self.end + 8
        if isinstance(target, str):
            names = [name for name, *_ in self.symbols]
            if target not in names:
                self.symbols.append((target, GLOBAL, 0, 0))
                names.append(target)
            self.rela.append((at, names.index(target) + 1, 1, 0))
        elif target is not None:
            self.rela.append((at, 0, RELATIVE, target))
        return at

    def plain(self, *values: int) -> None:
        self.content[self.end] = struct.pack(f"<{len(values)}q", *values)
        self.end += 8 * len(values)

    def type_info(self, name: str, *bases: str | int, offsets: tuple[int, ...] = (), virtual: bool = False) -> int:
        kind = ("none", "one")[len(bases)] if len(bases) < 2 and not offsets else "several"
        name_at = self.text(name)
        at = self.word(KINDS[kind])
        self.word(name_at)
        if kind == "several":
            self.content[self.end] = struct.pack("<II", 0, len(bases))
            self.end += 8
        for number, base in enumerate(bases):
            self.word(base)
            if kind == "several":
                self.plain(offsets[number] << 8 | 2 | virtual)
        return at

    def table(
        self, type_info: int, *functions: str | int | None, to_top: int = 0, offsets: tuple[int, ...] = ()
    ) -> None:
        """A virtual table; ``offsets`` of virtual bases are in front of it."""
        self.plain(*offsets, to_top)
        self.word(type_info)
        for function in functions:
            self.word(function)
        self.plain(0)

    def file(self) -> ElfFile:
        table = b"".join(struct.pack("<QQq", at, index << 32 | kind, addend) for at, index, kind, addend in self.rela)
        data = crafted(self.symbols, [(at, index, kind) for at, index, kind, _ in self.rela], segments=SEGMENTS,
                       content=self.content)  # fmt: skip
        plain = b"".join(struct.pack("<QQq", at, index << 32 | kind, 0) for at, index, kind, _ in self.rela)
        assert data.count(plain) == 1
        return ElfFile.from_bytes(data.replace(plain, table), "crafted.so")


def test_a_class_and_its_functions() -> None:
    """Those of the object, those of others, and what is pure: a table ends where no function is."""
    words = Words()
    words.table(words.type_info("1A"), CODE, "_ZN1B1fEv", "__cxa_pure_virtual", END - 1, END, CODE)
    words.table(words.type_info("1Z"), CODE, "_ZTI1A", CODE)
    (a, z) = classes(words.file())
    assert (a.name, a.bases, a.tables) == ("1A", (), ())
    assert a.slots == (
        Slot(None, True), Slot("_ZN1B1fEv", False), Slot("__cxa_pure_virtual", False), Slot(None, True),
    )  # fmt: skip
    assert z.slots == (Slot(None, True),)


def test_bases_in_the_object_and_elsewhere() -> None:
    words = Words()
    base = words.type_info("4Base")
    words.table(base, CODE)
    near, far = words.type_info("4Near", base), words.type_info("3Far", "_ZTI5Other")
    words.table(near, CODE, CODE)
    words.table(far, CODE)
    found = {one.name: one for one in classes(words.file())}
    assert {name: one.bases for name, one in found.items()} == {"4Base": (), "4Near": ("4Base",), "3Far": ("5Other",)}
    own = Slot(None, True)
    assert found["4Near"].tables == (BaseTable("4Base", (own, own)),)
    assert found["3Far"].tables == (BaseTable("5Other", (own,)),)


@pytest.mark.parametrize("virtual", [False, True])
def test_the_table_for_each_of_several_bases(*, virtual: bool) -> None:
    """A virtual base's offset is in front of the primary table, at the place that the type information names."""
    words = Words()
    offsets = (-24, -32) if virtual else (0, 16)
    both = words.type_info("4Both", "_ZTI5First", "_ZTI6Second", offsets=offsets, virtual=virtual)
    words.table(both, CODE, CODE, offsets=(16, 0) if virtual else ())
    words.table(both, "_ZN1X1gEv", to_top=-16)
    (found,) = classes(words.file())
    assert found.bases == ("5First", "6Second")
    own = Slot(None, True)
    assert found.tables == (
        BaseTable("5First", (own, own)),
        BaseTable("6Second", (Slot("_ZN1X1gEv", False),)),
    )


def test_a_table_of_a_part_belongs_to_the_class_before_it() -> None:
    """Two classes, each with a part at the same place; a part alone has no class."""
    words = Words()
    one = words.type_info("3One", "_ZTI1A", "_ZTI1B", offsets=(0, 8))
    two = words.type_info("3Two", "_ZTI1A", "_ZTI1B", offsets=(0, 8))
    words.table(one, "_ZN4lost1fEv", to_top=-8)
    words.table(one, CODE)
    words.table(one, "_ZN3one1fEv", to_top=-8)
    words.table(two, CODE, CODE)
    words.table(one, "_ZN4late1fEv", to_top=-8)
    words.table(two, "_ZN3two1fEv", to_top=-8)
    found = {cxx_class.name: cxx_class.tables[1].slots for cxx_class in classes(words.file())}
    assert found == {"3One": (Slot("_ZN3one1fEv", False),), "3Two": (Slot("_ZN3two1fEv", False),)}


def test_bases_of_a_base_without_a_table_of_its_own() -> None:
    words = Words()
    middle = words.type_info("6Middle", "_ZTI4Root")
    words.table(words.type_info("4Leaf", middle), CODE)
    found = {one.name: one for one in classes(words.file())}
    own = Slot(None, True)
    assert found["4Leaf"].tables == (BaseTable("6Middle", (own,)), BaseTable("4Root", (own,)))
    assert (found["6Middle"].slots, found["6Middle"].tables) == ((), (BaseTable("4Root", ()),))


def test_classes_that_are_their_own_bases_end() -> None:
    words = Words()
    first = words.type_info("1A", "_ZTI1B")
    base = first + 16
    words.rela = [(base, 0, RELATIVE, first) if row[0] == base else row for row in words.rela]
    (found,) = classes(words.file())
    assert (found.bases, len(found.tables)) == (("1A",), 16)


@pytest.mark.parametrize(
    ("name", "library", "version"),
    [
        ("libcudart.so.12", "cudart", "12"),
        ("libcublasLt.so.11.0", "cublasLt", "11.0"),
        ("libamdhip64.so.6", "amdhip64", "6"),
        ("libcudart.so", None, None),
        ("libcudart-80664282.so.10.2", None, None),
        ("libcudartx.so.12", None, None),
        ("libc.so.6", None, None),
    ],
)
def test_libraries_of_cuda_and_rocm(name: str, library: str | None, version: str | None) -> None:
    found = gpu_library(name)
    assert (found.stem if found else None, found.version if found else None) == (library, version)


def test_names_of_libraries() -> None:
    assert [cuda_runtime(name) for name in ("libcudart.so.11.0", "libcudart-80664282.so.10.2", "libcudnn.so.8")] == [
        *("11.0", "10.2", None),
    ]
    vendors = ("libcuda.so.1", "libcudnn_ops-8fa2.so.8", "libcublas-1234abcd.so.11", "libcudnn.so", "libcurl.so.4")
    assert [is_of_gpu_vendor(name) for name in vendors] == [True, False, True, True, False]
    assert [may_be_with_python(name) for name in ("libz.so.1", "libcrypto.so.1.1", "libzz.so.1", "libz.so")] == [
        *(True, True, False, False),
    ]
    assert [without_version(name) for name in ("libtorch_cpu.so.1.13", "libc10.so", "libc10", "a.so.so.1")] == [
        *("libtorch_cpu.so", "libc10.so", "libc10", "a.so"),
    ]
    assert [may_name_torch(text) for text in (b"\0memcpy\0libc.so.6\0", b"\0libtorch_cpu.so\0", b"")] == [
        *(False, True, False),
    ]


@pytest.mark.parametrize("method", ["find_in_data", "search_segment"])
def test_texts_are_found_in_pieces(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data of a large file are searched piece by piece, and a text may begin in one and end in the next."""
    monkeypatch.setattr(elf, "_PIECE", 64)
    places = [DATA, DATA + 62, DATA + 3 * 64 - 3, SIZE - 4]
    data = bytearray(crafted(segments=SEGMENTS))
    for place in places:
        data[place : place + 4] = b"here"
    path = tmp_path / "a.so"
    path.write_bytes(data)
    file = ElfFile.open(path)
    if method == "find_in_data":
        found = list(file.find_in_data(b"here"))
    else:
        found = sorted({match.start() for match in file.search_segment(re.compile(b"here"), file.segments[1], 4)})
    assert found == places
