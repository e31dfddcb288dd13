"""The C++ classes of an object, read from its type information and vtables, even if it is stripped.

Layouts are those of the Itanium C++ ABI: 2.9.5 (``std::type_info`` and its kinds) and 2.5 (virtual tables).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from abiscan.binary.elf import ElfFile, Tag
from abiscan.errors import NotElfError
from abiscan.regex import regex

_KINDS: Final = {
    "_ZTVN10__cxxabiv117__class_type_infoE": "none",
    "_ZTVN10__cxxabiv120__si_class_type_infoE": "single",
    "_ZTVN10__cxxabiv121__vmi_class_type_infoE": "several",
}
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELA_WORDS: Final = 3
_EXECUTABLE: Final = 1  # PF_X
_MOST_BASES: Final = 64
_DEEPEST: Final = 16  # bases of bases
_VIRTUAL: Final = 1  # __virtual_mask of abi::__base_class_type_info
_OFFSET_SHIFT: Final = 8
_MOST_SLOTS: Final = 1_000
_NAME: Final = regex(rb"\*?([\x21-\x7e]{1,8192})\0")


class Slot(NamedTuple):
    """An entry of a virtual table.

    :ivar symbol: the function's, None if it has none
    :ivar own: whether the object defines it
    """

    symbol: str | None
    own: bool


class BaseTable(NamedTuple):
    """The virtual table that a class has for one of its bases: the base's functions, then perhaps others."""

    base: str
    slots: tuple[Slot, ...]


class CxxClass(NamedTuple):
    """A class whose type information is in the object. Names are mangled type names (``N2at6TensorE``).

    :ivar bases: the direct bases, the first of them at offset 0 unless it is empty or not polymorphic
    :ivar slots: the primary virtual table, empty if it is not in the object
    :ivar tables: one for each base, with no slots if there is none, and for the bases behind one whose own table is not
        in the object
    """

    name: str
    bases: tuple[str, ...]
    slots: tuple[Slot, ...]
    tables: tuple[BaseTable, ...]


def classes(file: ElfFile) -> tuple[CxxClass, ...]:
    """Return the classes of an object, by name.

    :raises NotElfError: a table is damaged
    """
    return _Reader(file).read()


class _Target(NamedTuple):
    """The value of a word after relocation: the symbol (None for a plain address) and the address in this object."""

    symbol: str | None
    address: int | None


class _BasePlace(NamedTuple):
    """A base in the type information of a class: the word that refers to it, and where it is in an object.

    ``offset`` is in bytes; for a virtual base, it leads from the address of the virtual table to the word that has it.
    """

    word: int
    offset: int
    virtual: bool


class _Table(NamedTuple):
    """A virtual table: the address that objects have of it, and its functions."""

    start: int
    slots: tuple[Slot, ...]


class _Reader:
    """The relocations of one object. Lives as long as ``classes`` runs."""

    def __init__(self, file: ElfFile) -> None:
        self.file = file
        self.strings = bytes(file.table(Tag.STRTAB, Tag.STRSZ))
        self.symbols_at = file.dynamic.get(Tag.SYMTAB, 0)
        self.names: dict[int, tuple[str, int]] = {}
        table = file.table(Tag.RELA, Tag.RELASZ)
        words = table[: len(table) // (8 * _RELA_WORDS) * 8 * _RELA_WORDS].cast("Q")
        addresses, info, addend = words[0::3].tolist(), words[1::3].tolist(), words[2::3].tolist()
        self.relocations = {
            address: (index >> 32, plus) for address, index, plus in zip(addresses, info, addend, strict=True)
        }
        self.kinds: dict[int, str] = {}
        self.tables: dict[int, dict[int, _Table]] = {}

    def read(self) -> tuple[CxxClass, ...]:
        # A type information is a word that is relocated to a virtual table of libsupc++, with a name behind it: that is
        # all that is left of it in a stripped object.
        self.kinds = {address: kind for address, kind in self._type_infos() if self._type_name(address) is not None}
        self.tables = self._read_tables()
        cxx_classes = []
        for type_info in self.kinds:
            name = self._type_name(type_info)
            bases = (self._class_at(self._find_target(place.word)) for place in self._base_places(type_info))
            assert name is not None
            own = self.tables.get(type_info, {})
            primary = own[0].slots if own else ()
            tables = tuple(self._tables_of_bases(type_info, own, 0, 0))
            cxx_classes.append(CxxClass(name, tuple(base for base in bases if base), primary, tables))
        return tuple(sorted(cxx_classes))

    def _tables_of_bases(self, type_info: int, own: dict[int, _Table], start: int, depth: int) -> Iterator[BaseTable]:
        """Yield the table for each base of the part of a class that begins at ``start``.

        :param own: the tables of the class, by the offset of the part that has them
        """
        for place in self._base_places(type_info) if depth < _DEEPEST else ():
            target = self._find_target(place.word)
            name = self._class_at(target)
            offset = start + place.offset
            if place.virtual:
                # Itanium C++ ABI, 2.9.5: the offset of a virtual base is in the virtual table, at a negative index.
                table = own.get(start)
                offset = start + self._signed_word(table.start + place.offset) if table else -1
            if name is not None:
                yield BaseTable(name, own[offset].slots if offset in own else ())
            if target.address in self.kinds and target.address not in self.tables:
                yield from self._tables_of_bases(target.address, own, offset, depth + 1)

    def _type_infos(self) -> Iterator[tuple[int, str]]:
        indices: dict[int, str | None] = {}
        for address, (index, _) in self.relocations.items():
            if index:
                if index not in indices:
                    indices[index] = _KINDS.get(self._read_symbol(index)[0])
                if kind := indices[index]:
                    yield address, kind

    def _base_places(self, type_info: int) -> Iterator[_BasePlace]:
        kind = self.kinds[type_info]
        if kind == "single":
            yield _BasePlace(type_info + 16, 0, virtual=False)
        elif kind == "several":
            # Flags, number of bases, then two words for each: type, offset with flags (Itanium C++ ABI, 2.9.5).
            _, count = struct.unpack("<II", self.file.bytes_at(type_info + 16, 8))
            for number in range(min(count, _MOST_BASES)):
                word = type_info + 24 + 16 * number
                where = self._signed_word(word + 8)
                yield _BasePlace(word, where >> _OFFSET_SHIFT, virtual=bool(where & _VIRTUAL))

    def _read_tables(self) -> dict[int, dict[int, _Table]]:
        """Return the virtual tables of each class, by the offset of the part of an object that each is for.

        They lie one after the other, that for the start of an object first. Before the address of the type information,
        each has the way back to that start.
        """
        places = []
        for word in self.relocations:
            owner = self._find_target(word).address
            # In type information, the word before a reference to another class is the name, which is also relocated.
            # A virtual table: offset to top, type information, functions. An offset of zero is that of the primary one.
            if owner in self.kinds and word - 8 not in self.relocations and (to_top := self._way_to_top(word - 8)) <= 0:
                places.append((word, owner, -to_top))
        tables: dict[int, dict[int, _Table]] = {}
        group: dict[int, _Table] = {}
        of_group: int | None = None
        for word, owner, offset in sorted(places):
            table = _Table(word + 8, tuple(self._read_slots(word + 8)))
            if not table.slots:
                continue
            if not offset:
                of_group, group = owner, {0: table}
                tables.setdefault(owner, group)
            elif owner == of_group:
                group.setdefault(offset, table)
        return tables

    def _read_slots(self, start: int) -> Iterator[Slot]:
        for place in range(start, start + 8 * _MOST_SLOTS, 8):
            if place not in self.relocations:
                return
            symbol, address = self._find_target(place)
            # The table ends at the first word that is no function. One that is imported has no address here, only a
            # name.
            if symbol is None or address is not None:
                if address is None or not self._is_code(address):
                    return
            elif symbol.startswith(("_ZTI", "_ZTV")):
                return
            yield Slot(symbol, address is not None)

    def _class_at(self, target: _Target) -> str | None:
        if target.symbol is not None and target.symbol.startswith("_ZTI"):
            return target.symbol.removeprefix("_ZTI")
        return self._type_name(target.address) if target.address is not None else None

    def _type_name(self, type_info: int) -> str | None:
        """Return the name in a type information: the second word points to it."""
        symbol, address = self._find_target(type_info + 8)
        if symbol is not None and symbol.startswith("_ZTS"):
            return symbol.removeprefix("_ZTS")
        if address is None:
            return None
        try:
            match = _NAME.match(self.file.tail_at(address))
        except NotElfError:
            return None
        return match[1].decode("ascii") if match else None

    def _find_target(self, word: int) -> _Target:
        index, addend = self.relocations.get(word, (0, None))
        if index:
            name, value = self._read_symbol(index)
            return _Target(name, value + (addend or 0) if value else None)
        if addend is None:
            return _Target(None, None)
        return _Target(None, addend)

    def _read_symbol(self, index: int) -> tuple[str, int]:
        """Return the name and the address of a symbol; 0 if the object does not define it."""
        if index not in self.names:
            name_at, _, _, section, value, _ = _SYMBOL.unpack(self.file.bytes_at(self.symbols_at + 24 * index, 24))
            end = self.strings.find(b"\0", name_at)
            self.names[index] = (self.strings[name_at:end].decode("utf-8", "backslashreplace"), value if section else 0)
        return self.names[index]

    def _way_to_top(self, address: int) -> int:
        """Return the word at an address, a positive one if there is none."""
        try:
            return self._signed_word(address)
        except NotElfError:
            return 1

    def _signed_word(self, address: int) -> int:
        return int.from_bytes(self.file.bytes_at(address, 8), "little", signed=True)

    def _is_code(self, address: int) -> bool:
        return any(
            segment.flags & _EXECUTABLE and 0 <= address - segment.address < segment.size
            for segment in self.file.segments
        )
