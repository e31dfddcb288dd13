"""The dynamic symbols of an object, from its beginning alone.

Linkers put the symbols, their names and the relocations at the beginning of a file. The dynamic section, which says
where they are, is near the end, so for a file that can only be read from the beginning, such as a compressed one, they
are found by their form. They are believed only if everything fits: every name has an end, and the hash table in front
of them has the hashes of the symbols that the object defines. Files of other linkers, or files that were rewritten
after linking (``patchelf`` moves the names to the end), do not fit.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from abiscan.binary.elf import Machine, SharedObject
from abiscan.binary.loadable import MAGIC
from abiscan.binary.machines import MACHINES
from abiscan.regex import regex

_PAGE: Final = 4096
_SIZES: Final = (512 << 10, 2 << 20)
"""How much is read if the tables share a segment with the code; the references that are found by then count."""
_HEADER: Final = 64
_SYMBOL: Final = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, section, value, size
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr: type, flags, offset, vaddr, paddr, filesz, memsz, align
_NO_SYMBOL: Final = bytes(_SYMBOL.size)  # the first one of every table
_MOST_SYMBOLS: Final = 1 << 20
_LOCAL, _GLOBAL, _WEAK, _UNIQUE = 0, 1, 2, 10
_LARGEST_TYPE: Final = 10
_SECTION: Final = 3  # a local STT_SECTION, which has no name
_NAMES: Final = regex(rb"\0(?:[\x21-\x7e]+\0)+\0")
_CHECKED: Final = 16


class DynamicNames(Struct, frozen=True, kw_only=True):
    """The names that an object looks up and defines.

    :ivar undefined: those that the loader has to find, as far as they are known
    :ivar defined: all that it defines
    :ivar strings: has the names of the libraries that it needs, among others
    """

    machine: Machine
    undefined: tuple[str, ...]
    defined: frozenset[str]
    strings: bytes

    @classmethod
    def of(cls, facts: SharedObject) -> DynamicNames:
        """Return those of an object that was read completely."""
        return cls(
            machine=facts.machine,
            undefined=tuple(reference.name for reference in facts.references if not reference.weak),
            defined=frozenset(facts.symbols.starting_with("")),
            strings=b"".join(name.encode() + b"\0" for name in facts.needed),
        )

    def may_need(self, library: str) -> bool:
        """Whether the object may need a library of that name."""
        return library.encode() + b"\0" in self.strings


def names_at_beginning(head: Callable[[int], bytes]) -> DynamicNames | None:
    """Return the dynamic names of an object; None if they cannot be found at its beginning.

    :param head: returns the first bytes of the file, as many as it is asked for
    """
    first_bytes = head(_PAGE)
    machine = _read_machine(first_bytes)
    if machine is None:
        return None
    end = _end_of_tables(first_bytes)
    names = None
    # With the code in a segment of its own, the first segment ends with the tables, and nothing beyond it is needed.
    for size in [end] if end < _SIZES[-1] else _SIZES:
        first_bytes = head(size)
        names = _read_names(first_bytes, machine)
        if len(first_bytes) < size:
            break
    return names


def _end_of_tables(first_bytes: bytes) -> int:
    """Return the end of the segment that begins with the header: the symbols and the relocations are in it."""
    table, count = struct.unpack_from("<Q", first_bytes, 32)[0], struct.unpack_from("<H", first_bytes, 56)[0]
    headers = first_bytes[table : table + count * _SEGMENT.size]
    segments = _SEGMENT.iter_unpack(headers[: len(headers) // _SEGMENT.size * _SEGMENT.size])
    return max((offset + size for kind, _, offset, _, _, size, _, _ in segments if kind == 1 and not offset), default=0)


def _read_machine(first_bytes: bytes) -> Machine | None:
    is_64_bit = first_bytes.startswith(MAGIC + b"\2\1") and len(first_bytes) > _HEADER
    return MACHINES.get(int.from_bytes(first_bytes[18:20], "little")) if is_64_bit else None


def _read_names(first_bytes: bytes, machine: Machine) -> DynamicNames | None:
    """Return the names, if the symbols and all of their names are in ``first_bytes``."""
    start = first_bytes.find(_NO_SYMBOL, _HEADER)
    while start >= 0:
        # The table is aligned, and begins with an entry of zeros. So does much else, so its entries are checked.
        start += -start % 8
        if first_bytes[start : start + _SYMBOL.size] == _NO_SYMBOL and (symbols := _read_symbols(first_bytes, start)):
            names_start = start + _SYMBOL.size * (len(symbols) + 1)
            match = _NAMES.match(first_bytes, names_start)
            names = _check_hashes(first_bytes, machine, start, symbols, match) if match else None
            if names is not None:
                return names
        start = first_bytes.find(_NO_SYMBOL, start + 1)
    return None


def _read_symbols(first_bytes: bytes, start: int) -> list[tuple[int, ...]]:
    """Return the entries after the first one, as far as they have the form of symbols."""
    symbols: list[tuple[int, ...]] = []
    position = start + _SYMBOL.size
    while position + _SYMBOL.size <= len(first_bytes) and len(symbols) < _MOST_SYMBOLS:
        symbol = _SYMBOL.unpack_from(first_bytes, position)
        name, info, visibility, *_ = symbol
        # Only a local section has no name. Of the bits of ``st_other`` besides visibility, 0x80 marks functions of
        # AArch64 with another calling convention.
        if (
            name >= len(first_bytes)
            or (name == 0) is not (info == _SECTION)
            or info >> 4 not in (_LOCAL, _GLOBAL, _WEAK, _UNIQUE)
            or visibility & 0x7C
        ):
            break
        if info & 0xF > _LARGEST_TYPE:
            break
        symbols.append(symbol)
        position += _SYMBOL.size
    return symbols


def _check_hashes(
    first_bytes: bytes, machine: Machine, start: int, symbols: list[tuple[int, ...]], names: re.Match[bytes]
) -> DynamicNames | None:
    strings = names.group()
    if any(symbol[0] >= len(strings) - 1 for symbol in symbols):
        return None
    texts = [strings[symbol[0] : strings.index(b"\0", symbol[0])] for symbol in symbols]
    defined = [index for index, symbol in enumerate(symbols) if symbol[3] and symbol[1] >> 4 != _LOCAL]
    if not defined or not _ends_with_hashes(first_bytes, start, [texts[index] for index in defined[-_CHECKED:]]):
        return None
    # A reference counts if some word behind the names is the ``r_info`` of a relocation of it: symbol, type.
    first = names.end() + -names.end() % 8
    words = set(memoryview(first_bytes)[first : len(first_bytes) & ~7].cast("Q")) if first < len(first_bytes) else set()
    undefined = [
        text
        for number, (text, symbol) in enumerate(zip(texts, symbols, strict=True), 1)
        if not symbol[3]
        and symbol[1] >> 4 == _GLOBAL
        and any(number << 32 | kind in words for kind in machine.traits.lookups)
    ]
    return DynamicNames(
        machine=machine,
        undefined=tuple(text.decode() for text in undefined),
        defined=frozenset(texts[index].decode() for index in defined),
        strings=strings,
    )


def _ends_with_hashes(first_bytes: bytes, end: int, names: list[bytes]) -> bool:
    """Whether the GNU hash table that ends there has the hashes of these names last, in order."""
    if end < 4 * (len(names) + 1):
        return False
    # The table of symbols is aligned to eight bytes, the chains before it to four.
    for padding in (0, 4):
        chain = struct.unpack_from(f"<{len(names)}I", first_bytes, end - padding - 4 * len(names))
        if all(word | 1 == _gnu_hash(name) | 1 for word, name in zip(chain, names, strict=True)):
            return True
    return False


def _gnu_hash(name: bytes) -> int:
    """Return the hash of ``DT_GNU_HASH``."""
    value = 5381
    for byte in name:
        value = value * 33 + byte & 0xFFFF_FFFF
    return value
