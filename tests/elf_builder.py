"""Minimal ELF objects in pure Python: a few hundred bytes that say exactly what a test wants them to say.

They are real enough for ``ld.so`` to load (``oracle/test_loader.py`` does), so that what a test expects of them can be
held against the loader itself. Layouts are those of the gABI, chapters 4 and 5, and of the LSB for symbol versions.
There are no sections: a loader needs none.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

EM_X86_64: Final = 62
EM_AARCH64: Final = 183
ET_REL, ET_EXEC, ET_DYN = 1, 2, 3
STB_LOCAL, STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE = 0, 1, 2, 10
STT_OBJECT, STT_FUNC, STT_TLS = 1, 2, 6
STV_DEFAULT, STV_INTERNAL, STV_HIDDEN, STV_PROTECTED = 0, 1, 2, 3
SHN_ABS: Final = 0xFFF1
DF_1_PIE: Final = 0x0800_0000

_DT = {
    "NEEDED": 1, "PLTRELSZ": 2, "HASH": 4, "STRTAB": 5, "SYMTAB": 6, "RELA": 7, "RELASZ": 8, "RELAENT": 9, "STRSZ": 10,
    "SYMENT": 11, "SONAME": 14, "RPATH": 15, "PLTREL": 20, "JMPREL": 23, "RUNPATH": 29, "RELRSZ": 35, "RELR": 36,
    "RELRENT": 37, "GNU_HASH": 0x6FFFFEF5,
    "VERSYM": 0x6FFFFFF0, "FLAGS_1": 0x6FFFFFFB, "VERDEF": 0x6FFFFFFC, "VERDEFNUM": 0x6FFFFFFD, "VERNEED": 0x6FFFFFFE,
    "VERNEEDNUM": 0x6FFFFFFF, "AUXILIARY": 0x7FFFFFFD, "FILTER": 0x7FFFFFFF,
}  # fmt: skip
_PT_GNU_STACK: Final = 0x6474E551
_RELOCATIONS: Final = {EM_X86_64: {"dyn": 1, "plt": 7}, EM_AARCH64: {"dyn": 257, "plt": 1026}}  # *_64/ABS64, JUMP_SLOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Defined:
    """A symbol with a definition. ``hidden`` is ``name@VERSION`` rather than ``name@@VERSION``."""

    name: str
    version: str | None = None
    hidden: bool = False
    binding: int = STB_GLOBAL
    visibility: int = STV_DEFAULT
    type: int = STT_OBJECT
    size: int = 8
    value: int | None = None
    section: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Undefined:
    """A symbol without one. ``version`` is (file, version); ``relocation`` the table that names it, None for none."""

    name: str
    version: tuple[str, str] | None = None
    weak: bool = False
    relocation: Literal["dyn", "plt"] | None = "dyn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Elf:
    """What to build.

    ``undefined`` are relocated in this order, and stand in the symbol table in the opposite one. ``version_needs`` are
    (file, version, weak) beyond those of ``undefined``; ``version_definitions`` beyond those of ``defined``, and None
    for no such table. ``filtees`` stand before ``needed``. ``texts`` are strings among the data; ``relr`` has the
    words of a table of packed relocations; ``size`` pads the file.
    """

    machine: int = EM_X86_64
    type: int = ET_DYN
    soname: str | None = None
    filtees: tuple[tuple[Literal["AUXILIARY", "FILTER"], str], ...] = ()
    needed: tuple[str, ...] = ()
    rpath: str | None = None
    runpath: str | None = None
    build_id: bytes | None = None
    defined: tuple[Defined, ...] = ()
    undefined: tuple[Undefined, ...] = ()
    version_definitions: tuple[str, ...] | None = None
    version_needs: tuple[tuple[str, str, bool], ...] = ()
    hash: Literal["gnu", "sysv", "none"] = "gnu"
    flags_1: int = 0
    texts: tuple[bytes, ...] = ()
    relr: tuple[int, ...] | None = None
    size: int = 0

    def build(self) -> bytes:
        """The bytes of the object."""
        return _Builder(self).build()

    def write(self, path: Path) -> Path:
        """Write it to ``path``, whose folder is made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.build())
        return path


def exports(*names: str) -> tuple[Defined, ...]:
    """Plain definitions of these names."""
    return tuple(Defined(name=name) for name in names)


def uses(*names: str) -> tuple[Undefined, ...]:
    """Plain references to these names."""
    return tuple(Undefined(name=name) for name in names)


class _Builder:
    def __init__(self, elf: Elf) -> None:
        self.elf = elf
        self.strings = bytearray(b"\0")
        self.data = bytearray()  # follows the program headers
        self.dynamic: list[tuple[int, int]] = []
        names = tuple(dict.fromkeys((s.name, s.version) for s in elf.undefined))
        by_key = {(s.name, s.version): s for s in elf.undefined}
        undefined = [by_key[key] for key in reversed(names)]
        defined = list(elf.defined)
        self.buckets = max(1, len(defined) // 2)
        if elf.hash == "gnu":  # its chains are runs of the symbol table
            defined.sort(key=lambda s: _gnu_hash(s.name) % self.buckets)
        self.undefined, self.defined = undefined, defined
        self.definitions = tuple(
            dict.fromkeys((*(elf.version_definitions or ()), *(s.version for s in defined if s.version)))
        )
        needs = dict.fromkeys((*s.version, False) for s in reversed(undefined) if s.version)
        self.needs = tuple(dict.fromkeys((*elf.version_needs, *needs)))
        self.has_definitions = elf.version_definitions is not None or bool(self.definitions)

    @property
    def headers_size(self) -> int:
        return 64 + 56 * (4 if self.elf.build_id else 3)

    def string(self, text: str) -> int:
        raw = text.encode("utf-8", "surrogateescape") + b"\0"
        at = self.strings.find(b"\0" + raw)
        if at >= 0:
            return at + 1
        self.strings += raw
        return len(self.strings) - len(raw)

    def place(self, data: bytes) -> int:
        """Append ``data``; its address, which is its place in the file as well."""
        self.data += b"\0" * (-(self.headers_size + len(self.data)) % 8)
        at = self.headers_size + len(self.data)
        self.data += data
        return at

    def entry(self, tag: str, value: int) -> None:
        self.dynamic.append((_DT[tag], value))

    def build(self) -> bytes:
        elf = self.elf
        for kind, name in elf.filtees:
            self.entry(kind, self.string(name))
        for name in elf.needed:
            self.entry("NEEDED", self.string(name))
        for tag, text in (("SONAME", elf.soname), ("RPATH", elf.rpath), ("RUNPATH", elf.runpath)):
            if text is not None:
                self.entry(tag, self.string(text))
        note = struct.pack("<III4s", 4, len(elf.build_id), 3, b"GNU\0") + elf.build_id if elf.build_id else b""
        note_at = self.place(note)
        scratch = self.place(bytes(8 * (len(elf.undefined) + 1)))
        for characters in elf.texts:
            self.place(b"\0" + characters + b"\0")
        self._symbols(scratch)
        self._versions()
        self._relocations(scratch)
        if elf.relr is not None:
            self.entry("RELR", self.place(struct.pack(f"<{len(elf.relr)}Q", *elf.relr)))
            self.entry("RELRSZ", 8 * len(elf.relr))
            self.entry("RELRENT", 8)
        if elf.flags_1:
            self.entry("FLAGS_1", elf.flags_1)
        self.entry("STRTAB", self.place(bytes(self.strings)))
        self.entry("STRSZ", len(self.strings))
        table = b"".join(struct.pack("<QQ", *entry) for entry in [*self.dynamic, (0, 0)])
        dynamic_at = self.place(table)
        end = max(self.headers_size + len(self.data), elf.size)
        segments = [(1, 6, 0, end, 0x1000), (2, 6, dynamic_at, len(table), 8)]
        if note:
            segments.append((4, 4, note_at, len(note), 4))
        # As linkers do: glibc 2.41 rejects an object of x86-64 that does not say that its stack need not be executable.
        segments.append((_PT_GNU_STACK, 6, 0, 0, 16))
        header = struct.pack(
            "<4sBBBB8xHHIQQQIHHHHHH",
            *(b"\x7fELF", 2, 1, 1, 0, elf.type, elf.machine, 1, 0, 64, 0, 0, 64, 56, len(segments), 64, 0, 0),
        )
        program = b"".join(
            struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, alignment)
            for kind, flags, at, size, alignment in segments
        )
        return (header + program + bytes(self.data)).ljust(end, b"\0")

    def _symbols(self, scratch: int) -> None:
        rows = [bytes(24)]
        for reference in self.undefined:
            binding = STB_WEAK if reference.weak else STB_GLOBAL
            rows.append(struct.pack("<IBBHQQ", self.string(reference.name), binding << 4, 0, 0, 0, 0))
        for symbol in self.defined:
            value = scratch if symbol.value is None else symbol.value
            info = symbol.binding << 4 | symbol.type
            row = (self.string(symbol.name), info, symbol.visibility, symbol.section, value, symbol.size)
            rows.append(struct.pack("<IBBHQQ", *row))
        self.entry("SYMTAB", self.place(b"".join(rows)))
        self.entry("SYMENT", 24)
        if self.elf.hash == "gnu":
            self.entry("GNU_HASH", self.place(self._gnu_table()))
        elif self.elf.hash == "sysv":
            names = ["", *(s.name for s in self.undefined), *(s.name for s in self.defined)]
            self.entry("HASH", self.place(_sysv_table(names)))

    def _gnu_table(self) -> bytes:
        first = 1 + len(self.undefined)
        hashes = [_gnu_hash(s.name) for s in self.defined]
        buckets = [0] * self.buckets
        for index, value in reversed(list(enumerate(hashes))):
            buckets[value % self.buckets] = first + index
        chain = [
            value & ~1 | (index + 1 == len(hashes) or hashes[index + 1] % self.buckets != value % self.buckets)
            for index, value in enumerate(hashes)
        ]
        bloom = 0xFFFF_FFFF_FFFF_FFFF  # lets everything pass
        words = struct.pack("<IIIIQ", self.buckets, first, 1, 0, bloom)
        return words + struct.pack(f"<{len(buckets) + len(chain)}I", *buckets, *chain)

    def _versions(self) -> None:
        if not self.needs and not self.has_definitions:
            return
        numbers = {name: 2 + index for index, name in enumerate(self.definitions)}
        first_need = 2 + len(self.definitions)
        needed = {(file, version): first_need + index for index, (file, version, _) in enumerate(self.needs)}
        versym = [0]
        versym += [needed[s.version] if s.version else 1 for s in self.undefined]
        versym += [(numbers[s.version] if s.version else 1) | (0x8000 if s.hidden else 0) for s in self.defined]
        self.entry("VERSYM", self.place(struct.pack(f"<{len(versym)}H", *versym)))
        if self.has_definitions:
            names = [(1, 1, self.elf.soname or "base"), *((0, numbers[name], name) for name in self.definitions)]
            table = b""
            for place, (flags, number, name) in enumerate(names):
                after = 28 if place + 1 < len(names) else 0
                table += struct.pack("<HHHHIII", 1, flags, number, 1, _sysv_hash(name), 20, after)
                table += struct.pack("<II", self.string(name), 0)
            self.entry("VERDEF", self.place(table))
            self.entry("VERDEFNUM", len(names))
        if self.needs:
            self._version_needs(needed)

    def _version_needs(self, numbers: dict[tuple[str, str], int]) -> None:
        table = b""
        files = list(dict.fromkeys(file for file, _, _ in self.needs))
        for file in files:
            versions = [(name, weak) for other, name, weak in self.needs if other == file]
            after = 16 + 16 * len(versions) if file != files[-1] else 0
            table += struct.pack("<HHIII", 1, len(versions), self.string(file), 16, after)
            for place, (name, weak) in enumerate(versions):
                number, following = numbers[file, name], 16 if place + 1 < len(versions) else 0
                table += struct.pack("<IHHII", _sysv_hash(name), 2 * weak, number, self.string(name), following)
        self.entry("VERNEED", self.place(table))
        self.entry("VERNEEDNUM", len(files))

    def _relocations(self, scratch: int) -> None:
        numbers = {(s.name, s.version): 1 + index for index, s in enumerate(self.undefined)}
        tables: dict[str, list[bytes]] = {"dyn": [], "plt": []}
        for place, symbol in enumerate(self.elf.undefined):
            if symbol.relocation:
                info = numbers[symbol.name, symbol.version] << 32 | _RELOCATIONS[self.elf.machine][symbol.relocation]
                tables[symbol.relocation].append(struct.pack("<QQq", scratch + 8 * place, info, 0))
        if tables["dyn"]:
            self.entry("RELA", self.place(b"".join(tables["dyn"])))
            self.entry("RELASZ", 24 * len(tables["dyn"]))
            self.entry("RELAENT", 24)
        if tables["plt"]:
            self.entry("JMPREL", self.place(b"".join(tables["plt"])))
            self.entry("PLTRELSZ", 24 * len(tables["plt"]))
            self.entry("PLTREL", _DT["RELA"])


def _sysv_hash(name: str) -> int:
    value = 0
    for byte in name.encode("utf-8", "surrogateescape"):
        value = (value << 4) + byte
        high = value & 0xF000_0000
        value = (value ^ high >> 24) & ~high
    return value


def _gnu_hash(name: str) -> int:
    value = 5381
    for byte in name.encode("utf-8", "surrogateescape"):
        value = value * 33 + byte & 0xFFFF_FFFF
    return value


def _sysv_table(names: Sequence[str]) -> bytes:
    chain = [0] * len(names)
    first = 0  # one bucket: a chain of all symbols
    for index in range(len(names) - 1, 0, -1):
        chain[index], first = first, index
    return struct.pack(f"<{3 + len(names)}I", 1, len(names), first, *chain)
