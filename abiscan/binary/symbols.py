"""The symbols that an ELF object exports, by name.

A name is looked up in the hash table of the object, as ``ld.so`` does: decoding the symbol table of a large library
takes longer than everything else that is read of it. Terms and layouts are those of the ELF gABI, chapter 4.
"""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

SYMBOL: Final = struct.Struct("<IBBHQQ")
"""Elf64_Sym: name, info (binding and type), other (visibility), section, value, size."""

UNDEFINED: Final = 0  # SHN_UNDEF
HIDDEN_VERSION: Final = 0x8000
_SHN_ABS: Final = 0xFFF1
_STB_LOCAL: Final = 0
_STT_TLS: Final = 6
_STV_DEFAULT, _STV_PROTECTED = 0, 3
_HASH_HEADER: Final = struct.Struct("<4I")  # buckets, first hashed symbol, words of the Bloom filter, its shift
_END_OF_CHAIN: Final = 1
_SYMBOLS_PER_LOOKUP: Final = 4  # as long as one lookup takes, which is mostly the hash, so many symbols are decoded


class Definition(NamedTuple):
    """One definition of a symbol that other objects can bind to.

    :ivar version: None if the object has no versions, or the symbol belongs to the base version
    :ivar hidden: whether only a reference to exactly that version reaches it (``name@VERSION`` rather than
        ``name@@VERSION``)
    :ivar version_index: the symbol's index into the version tables, without the hidden bit
    :ivar type: ``STT_…``
    :ivar size: in bytes
    """

    version: str | None
    hidden: bool
    version_index: int
    type: int
    size: int


class Symbols(Protocol):
    """The definitions of one object, by name."""

    def find(self, name: str) -> tuple[Definition, ...]:
        """Return the definitions of ``name``; several if the object keeps old versions of it."""

    def starting_with(self, prefix: str) -> Iterator[str]:
        """Yield the names that begin with ``prefix``, in any order."""


class SymbolTable(Mapping[str, tuple[Definition, ...]]):
    """``Symbols`` in memory."""

    __slots__ = ("_definitions",)

    def __init__(self, definitions: Mapping[str, tuple[Definition, ...]]) -> None:
        self._definitions = definitions

    def __getitem__(self, name: str) -> tuple[Definition, ...]:
        return self._definitions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._definitions)

    def __len__(self) -> int:
        return len(self._definitions)

    def find(self, name: str) -> tuple[Definition, ...]:
        """Return the definitions of ``name``."""
        return self._definitions.get(name, ())

    def starting_with(self, prefix: str) -> Iterator[str]:
        """Yield the names that begin with ``prefix``."""
        return (name for name in self._definitions if name.startswith(prefix))


class HashTable:
    """The table of DT_GNU_HASH: which symbols have a given name.

    Source: glibc, elf/dl-lookup.c (``do_lookup_x``), elf/dl-setup_hash.c and sysdeps/generic/dl-new-hash.h.

    :param table: its bytes, and whatever follows them in the segment
    :raises struct.error: it is truncated
    """

    __slots__ = ("_bloom", "_buckets", "_chains", "_shift", "end", "first")

    first: int
    """The index of the first symbol that can be looked up. Those before it are undefined, or of this file only."""

    end: int | None
    """The index behind the last symbol; None if the table has no symbol, and so does not tell."""

    def __init__(self, table: memoryview) -> None:
        buckets, self.first, bloom_words, self._shift = _HASH_HEADER.unpack_from(table)
        words = table[_HASH_HEADER.size : len(table) & ~3]
        # Bloom filter, buckets, chains; only the end of the last chain says how long the table is.
        chains_at = 8 * bloom_words + 4 * buckets
        if chains_at > len(words):
            raise struct.error("the hash table is truncated")
        self._bloom = words[: 8 * bloom_words].cast("Q").tolist()
        self._buckets = words[8 * bloom_words : chains_at].cast("I").tolist()
        self._chains = words[chains_at:].cast("I")
        self.end = self._find_end()

    def _find_end(self) -> int | None:
        # The bucket with the highest first symbol has the last chain, and that ends with the last symbol.
        last = max(self._buckets, default=0)
        if last < self.first:
            return None
        for index in range(last, self.first + len(self._chains)):
            if self._chains[index - self.first] & _END_OF_CHAIN:
                return index + 1
        return None

    def symbols(self, name: bytes) -> Iterator[int]:
        """Yield the indexes of the symbols whose names have the hash of ``name``."""
        if not self._bloom or not self._buckets:  # on which ld.so divides by zero
            return
        value = _bernstein_hash(name)
        # Most names that are looked up are not there: two bits of the filter say so for nearly all of them.
        word = self._bloom[value >> 6 & len(self._bloom) - 1]  # the number of words is a power of two
        if not word >> (value & 63) & word >> (value >> self._shift & 63) & 1:
            return
        index = self._buckets[value % len(self._buckets)]
        if index < self.first:  # an empty chain
            return
        for hashed in self._chains[index - self.first :]:
            if (hashed ^ value) >> 1 == 0:
                yield index
            if hashed & _END_OF_CHAIN:
                return
            index += 1


_HASHED_AT_ONCE: Final = 256
_POWERS: Final = tuple(pow(33, exponent, 1 << 32) for exponent in reversed(range(_HASHED_AT_ONCE)))


@functools.lru_cache(maxsize=1 << 14)  # each object of a load is asked for the same names
def _bernstein_hash(name: bytes) -> int:
    """Return Bernstein's hash: ``value * 33 + byte`` for each byte, modulo 2**32."""
    value = 5381
    for start in range(0, len(name), _HASHED_AT_ONCE):
        # The hash is a polynomial in 33: a sum of products in C is faster than a loop over the bytes.
        part = name[start : start + _HASHED_AT_ONCE]
        added: int = sum(map(operator.mul, part, _POWERS[-len(part) :]))
        value = (value * 33 ** len(part) + added) & 0xFFFF_FFFF
    return value


class ElfSymbols(SymbolTable):
    """``Symbols`` of a file: looked up in its hash table, until decoding the whole table would have been faster.

    :param table: the dynamic symbol table
    :param versions: the DT_VERSYM entry of each symbol
    :param version_names: the versions that the object defines, by index
    :param strings: the string table, in which each of the names has an end
    :param hash_table: None if the object has no DT_GNU_HASH
    """

    __slots__ = ("_hash_table", "_lookups_left", "_strings", "_table", "_version_names", "_versions")

    def __init__(
        self,
        table: bytes,
        versions: Sequence[int],
        version_names: Mapping[int, str],
        strings: bytes,
        hash_table: HashTable | None,
    ) -> None:
        self._table, self._versions, self._version_names = table, versions, version_names
        self._strings, self._hash_table = strings, hash_table
        self._lookups_left = len(versions) // _SYMBOLS_PER_LOOKUP

    def __getattr__(self, name: str) -> Mapping[str, tuple[Definition, ...]]:
        if name != "_definitions":
            raise AttributeError(name)
        # Found missing as an attribute, so that those who look names up by hash never pay for all of them.
        self._definitions = self._decode_all()
        self._hash_table, self._table, self._versions = None, b"", ()
        return self._definitions

    def find(self, name: str) -> tuple[Definition, ...]:
        """Return the definitions of ``name``."""
        # A name that is not UTF-8 is written with backslashes, and the bytes that these stand for are not known.
        if self._hash_table is None or self._lookups_left <= 0 or "\\" in name:
            return self._definitions.get(name, ())
        self._lookups_left -= 1
        encoded = name.encode("utf-8", "surrogatepass") + b"\0"
        # Equal hashes do not mean equal names, and a name may have several versions: look at the whole chain.
        definitions: list[Definition] = []
        for index in self._hash_table.symbols(encoded[:-1]):
            self._lookups_left -= 1  # the chains of a hostile table are long
            symbol = SYMBOL.unpack_from(self._table, index * SYMBOL.size)
            if self._strings.startswith(encoded, symbol[0]):
                definitions += self._read_definition(symbol, self._versions[index])
        return tuple(definitions)

    def starting_with(self, prefix: str) -> Iterator[str]:
        """Yield the names that begin with ``prefix``."""
        return super().starting_with(prefix) if prefix.encode() in self._strings else iter(())

    def _decode_all(self) -> dict[str, tuple[Definition, ...]]:
        definitions: dict[str, tuple[Definition, ...]] = {}
        strings = self._strings
        for symbol, version in zip(SYMBOL.iter_unpack(self._table), self._versions, strict=True):
            for definition in self._read_definition(symbol, version):
                start = symbol[0]
                name = strings[start : strings.find(b"\0", start)].decode("utf-8", "backslashreplace")
                definitions[name] = (*definitions[name], definition) if name in definitions else (definition,)
        return definitions

    def _read_definition(self, symbol: tuple[int, ...], version: int) -> tuple[Definition, ...]:
        """Return what a symbol defines, if anything.

        ``ld.so`` binds (glibc, ``do_lookup_x``) to symbols that are defined, global or weak, with default or protected
        visibility; a value of zero is valid only for thread-local and absolute symbols.
        """
        _, info, visibility, section, value, size = symbol
        if section == UNDEFINED or info >> 4 == _STB_LOCAL or visibility & 3 not in (_STV_DEFAULT, _STV_PROTECTED):
            return ()
        kind = info & 0xF
        if not value and kind != _STT_TLS and section != _SHN_ABS:
            return ()
        index = version & ~HIDDEN_VERSION
        return (Definition(self._version_names.get(index), bool(version & HIDDEN_VERSION), index, kind, size),)
