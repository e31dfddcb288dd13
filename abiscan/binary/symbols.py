"""The symbols that an ELF object exports, by name.

A name is looked up in the hash table of the object, as ``ld.so`` does: decoding the symbol table of a large library
takes longer than everything else that is read of it. Terms and layouts are those of the ELF gABI, chapter 4.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import operator
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

SYMBOL: Final = struct.Struct("<IBBHQQ")
"""Elf64_Sym: name, info (binding and type), other (visibility), section, value, size."""

UNDEFINED: Final = 0  # SHN_UNDEF
HIDDEN_VERSION: Final = 0x8000
_SHN_ABS: Final = 0xFFF1
_BINDINGS: Final = (1, 2, 10)  # STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE
_TYPES: Final = (0, 1, 2, 5, 6, 10)  # STT_NOTYPE, OBJECT, FUNC, COMMON, TLS, GNU_IFUNC
_DEFINING: Final = frozenset(binding << 4 | kind for binding in _BINDINGS for kind in _TYPES)  # values of ``st_info``
_STT_TLS: Final = 6
_STB_LOCAL, _STB_WEAK = 0, 2
_UNSEEN: Final = frozenset((1, 2))  # STV_INTERNAL, STV_HIDDEN
_HASH_HEADER: Final = struct.Struct("<4I")  # buckets, first hashed symbol, words of the Bloom filter, its shift
_SYSV_HEADER: Final = struct.Struct("<2I")  # buckets, symbols
_END_OF_CHAIN: Final = 1
_MOST_HASHED: Final = 128
_SAMPLE: Final = 32
_SEARCHES: Final = 16  # for prefixes, which together take about as long as to decode all names and sort them
_SYMBOLS_PER_LOOKUP: Final = 4  # as long as one lookup takes, which is mostly the hash, so many symbols are decoded


class Definition(NamedTuple):
    """One definition of a symbol that other objects can bind to.

    :ivar version: its ``version_key``; None if the object has no versions, or the symbol belongs to the base version
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

    def starting_with(self, *prefixes: str) -> Iterator[str]:
        """Yield the names that begin with one of ``prefixes``, in any order; no prefix may begin another one."""

    def find_lost(self) -> Iterator[LostSymbol]:
        """Yield what the object defines and refers to, and ``ld.so`` does not find in it, in the order of use."""


class LostSymbol(Struct, frozen=True, kw_only=True):
    """A symbol that the object defines and refers to, and that its hash table does not lead to.

    :ivar place: how many references of the object come before the one to it
    :ivar version: its ``version_key``
    """

    name: str
    version: str | None
    weak: bool
    place: int


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

    def starting_with(self, *prefixes: str) -> Iterator[str]:
        """Yield the names that begin with one of ``prefixes``."""
        return (name for name in self._definitions if name.startswith(prefixes))

    def find_lost(self) -> Iterator[LostSymbol]:
        """Yield nothing: every definition is found."""
        return iter(())


def version_key(name: str, stored_hash: int) -> str:
    """Return what a version is compared by: its name, together with its hash if that is not the one of the name.

    ``ld.so`` compares the hash that is stored with a version, and then the name (glibc, ``match_symbol`` in
    elf/dl-version.c, ``check_match`` in elf/dl-lookup.c).
    """
    return name if sysv_hash(name.encode("utf-8", "surrogatepass")) == stored_hash else f"{name}#{stored_hash:08x}"


class SymbolLookup(Protocol):
    """A hash table: which symbols may have a given name."""

    def symbols(self, name: bytes) -> Iterator[int]:
        """Yield the indexes of the symbols that the table leads to from ``name``."""

    def find_missing(self, symbols: Collection[int], name_of: Callable[[int], bytes]) -> Iterator[int]:
        """Yield those of some symbols that the table does not lead to from their names."""


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
        # Most names that are looked up do not exist: two bits of the filter rule nearly all of them out.
        word = self._bloom[value >> 6 & len(self._bloom) - 1]  # the number of words is a power of two
        if not word >> (value & 63) & word >> (value >> (self._shift & 31) & 63) & 1:
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

    def find_missing(self, symbols: Collection[int], name_of: Callable[[int], bytes]) -> Iterator[int]:
        """Yield the symbols that their names do not lead to: none, in a table that a linker wrote."""
        if not self._bloom or not self._buckets:
            yield from symbols
            return
        # Hashing thousands of names would take longer than everything else that is read of the file, so only some are
        # checked.
        first, chains = self.first, self._chains
        step = 1 if len(symbols) <= _MOST_HASHED else len(symbols) // _SAMPLE
        for index in itertools.islice(symbols, None, None, step):
            value = _bernstein_hash(name_of(index))
            stored = chains[index - first] if first <= index < first + len(chains) else None
            if stored is None or (value ^ stored) >> 1 or not self._is_reached(index, value):
                yield index

    def _is_reached(self, index: int, value: int) -> bool:
        """Whether whoever looks for a hash comes to a symbol."""
        start = self._buckets[value % len(self._buckets)]
        if not self.first <= start <= index:
            return False
        while start < index and not self._chains[start - self.first] & _END_OF_CHAIN:
            start += 1
        word = self._bloom[value >> 6 & len(self._bloom) - 1]
        return start == index and bool(word >> (value & 63) & word >> (value >> (self._shift & 31) & 63) & 1)


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


class SysvHashTable:
    """The table of DT_HASH, which ``ld.so`` uses for an object without DT_GNU_HASH.

    :param table: its bytes, and whatever follows them in the segment
    :raises struct.error: it is truncated, or a chain has no end
    """

    __slots__ = ("_buckets", "_chains")

    def __init__(self, table: memoryview) -> None:
        buckets, symbols = _SYSV_HEADER.unpack_from(table)
        words = table[_SYSV_HEADER.size : _SYSV_HEADER.size + 4 * (buckets + symbols)]
        if len(words) < 4 * (buckets + symbols):
            raise struct.error("the hash table is truncated")
        self._buckets = words[: 4 * buckets].cast("I").tolist()
        self._chains = words[4 * buckets :].cast("I").tolist()
        if symbols <= _MOST_HASHED and any(map(self._is_endless, self._buckets)):
            raise struct.error("a chain of the hash table comes back to its beginning")

    def _is_endless(self, index: int) -> bool:
        """Whether a chain has no end: ``ld.so`` then looks for ever for a name that is not in it."""
        for _ in self._chains:
            if not 0 < index < len(self._chains):
                return False
            index = self._chains[index]
        return 0 < index < len(self._chains)

    def symbols(self, name: bytes) -> Iterator[int]:
        """Yield the indexes of the symbols in the chain of ``name``."""
        if not self._buckets:
            return
        index = self._buckets[sysv_hash(name) % len(self._buckets)]
        for _ in self._chains:  # a chain that comes back to its beginning would never end
            if not 0 < index < len(self._chains):
                return
            yield index
            index = self._chains[index]

    def find_missing(self, symbols: Collection[int], name_of: Callable[[int], bytes]) -> Iterator[int]:
        """Yield the symbols that are not in the chains of their names."""
        return (index for index in symbols if index not in self.symbols(name_of(index)))


class NoHashTable:
    """No table: ``ld.so`` finds no symbol of such an object."""

    def symbols(self, _: bytes) -> Iterator[int]:
        """Yield nothing."""
        return iter(())

    def find_missing(self, symbols: Collection[int], _: Callable[[int], bytes]) -> Iterator[int]:
        """Yield all symbols."""
        return iter(symbols)


@functools.lru_cache(maxsize=1 << 12)
def sysv_hash(name: bytes) -> int:
    """Return the hash of DT_HASH and of versions (gABI, chapter 5)."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF000_0000
        value = (value ^ high >> 24) & 0x0FFF_FFFF
    return value


class OwnReferences(Struct, frozen=True):
    """What an object does to symbols, its own among them.

    :ivar relocations: ``r_info`` of each kind of relocation, in order
    :ivar copied: the symbols that a program copies from libraries
    :ivar references: the numbers of those relocations that the references of the object come from
    """

    relocations: Sequence[int]
    copied: frozenset[int]
    references: Sequence[int]


class ElfSymbols(SymbolTable):
    """``Symbols`` of a file: looked up in its hash table, until decoding the whole table would have been faster.

    :param table: the dynamic symbol table
    :param versions: the DT_VERSYM entry of each symbol
    :param version_names: the versions that the object defines or needs, by index
    :param strings: the string table, in which each of the names has an end
    :param hash_table: what names are looked up in
    """

    __slots__ = (
        *("_hash_table", "_lookups_left", "_names", "_own", "_searches_left", "_strings", "_table", "_version_names"),
        "_versions",
    )

    def __init__(
        self,
        table: bytes,
        versions: Sequence[int],
        version_names: Mapping[int, str],
        strings: bytes,
        hash_table: SymbolLookup,
        own: OwnReferences,
    ) -> None:
        self._table, self._versions, self._version_names = table, versions, version_names
        self._strings, self._hash_table, self._own = strings, hash_table, own
        self._lookups_left = len(versions) // _SYMBOLS_PER_LOOKUP
        self._searches_left = _SEARCHES
        self._names: list[str] | None = None

    def __getattr__(self, name: str) -> Mapping[str, tuple[Definition, ...]]:
        if name != "_definitions":
            raise AttributeError(name)
        # Computed when the attribute is first missing, so that lookups by hash never pay for decoding all names.
        self._definitions = self._decode(zip(SYMBOL.iter_unpack(self._table), self._versions, strict=True))
        return self._definitions

    def find(self, name: str) -> tuple[Definition, ...]:
        """Return the definitions of ``name``."""
        # A name that is not UTF-8 is written with backslashes, and the bytes that these stand for are not known.
        if "\\" in name:
            return self._definitions.get(name, ())
        # The decoded table rules names out faster; a name that it has may still be unreachable by its hash.
        if self._lookups_left <= 0 and name not in self._definitions:
            return ()
        self._lookups_left -= 1
        encoded = name.encode("utf-8", "surrogatepass") + b"\0"
        # Equal hashes do not mean equal names, and a name may have several versions: look at the whole chain.
        definitions: list[Definition] = []
        for index in self._hash_table.symbols(encoded[:-1]):
            self._lookups_left -= 1  # the chains of a hostile table are long, and lead anywhere
            if index >= len(self._versions):
                continue
            symbol = SYMBOL.unpack_from(self._table, index * SYMBOL.size)
            if self._strings.startswith(encoded, symbol[0]):
                definitions += self._read_definition(symbol, self._versions[index])
        return tuple(definitions)

    def find_lost(self) -> Iterator[LostSymbol]:
        """Yield the symbols of its own that the object refers to, and that its hash table does not lead to."""
        # Column by column, since there are thousands of symbols, and in what a linker wrote nothing is lost.
        table = memoryview(self._table)
        kinds, sections, values = table.cast("H")[2::12], table.cast("H")[3::12], table.cast("Q")[1::3]
        relocated = dict.fromkeys([info >> 32 for info in self._own.relocations])
        if max(relocated, default=0) >= len(sections):  # an object without symbols, at which ld.so ends
            return
        own = [index for index in relocated if sections[index]]
        # Local symbols, and those that nobody else sees, are not looked up (glibc, ``resolve_map``).
        unseen = {kind for kind in {kinds[index] for index in own} if _is_unseen(kind)}
        if unseen:
            own = [index for index in own if kinds[index] not in unseen]
        lost = set(self._hash_table.find_missing(own, self._name_of))
        if not all(map(values.__getitem__, own)) or not {kinds[index] & 0xFF for index in own} <= _DEFINING:
            unpack = SYMBOL.unpack_from
            lost.update(index for index in own if not self._read_definition(unpack(table, index * SYMBOL.size), 0))
        for index in filter((lost - self._own.copied).__contains__, own):
            place = next(number for number, info in enumerate(self._own.relocations) if info >> 32 == index)
            yield LostSymbol(
                name=self._name_of(index).decode("utf-8", "backslashreplace"),
                version=self._version_names.get(self._versions[index] & ~HIDDEN_VERSION),
                weak=kinds[index] >> 4 & 0xF == _STB_WEAK,
                place=bisect.bisect_left(self._own.references, place),
            )

    def _name_of(self, index: int) -> bytes:
        start = SYMBOL.unpack_from(self._table, index * SYMBOL.size)[0]
        return self._strings[start : self._strings.find(b"\0", start)]

    def starting_with(self, *prefixes: str) -> Iterator[str]:
        """Yield the names that begin with one of ``prefixes``."""
        if "" in prefixes:
            return iter(self._definitions)
        # A backslash may stand for bytes that are not UTF-8: see ``find``.
        if self._searches_left > 0 and not any("\\" in prefix for prefix in prefixes):
            self._searches_left -= 1
            return iter(self._search([prefix.encode("utf-8", "surrogatepass") for prefix in prefixes]))
        if self._names is None:
            self._names = sorted(self._definitions)
        return itertools.chain.from_iterable(map(self._listed, prefixes))

    def _listed(self, prefix: str) -> list[str]:
        """Return those of the decoded names that begin with a text."""
        assert self._names is not None
        start = bisect.bisect_left(self._names, prefix)
        end = bisect.bisect_right(self._names, prefix, start, key=lambda name: name[: len(prefix)])
        return self._names[start:end]

    def _search(self, prefixes: Iterable[bytes]) -> dict[str, tuple[Definition, ...]]:
        """Return the definitions of the names that begin with some bytes; no other name is decoded."""
        strings, versions = self._strings, self._versions
        there = tuple(prefix for prefix in prefixes if prefix in strings)
        if not there:
            return {}
        starts = memoryview(self._table).cast("I")[::6].tolist()
        indexes = [index for index, start in enumerate(starts) if strings.startswith(there, start)]
        return self._decode((SYMBOL.unpack_from(self._table, i * SYMBOL.size), versions[i]) for i in indexes)

    def _decode(self, symbols: Iterable[tuple[tuple[int, ...], int]]) -> dict[str, tuple[Definition, ...]]:
        """Return the definitions of some symbols, each with its DT_VERSYM entry."""
        definitions: dict[str, tuple[Definition, ...]] = {}
        strings = self._strings
        for symbol, version in symbols:
            for definition in self._read_definition(symbol, version):
                start = symbol[0]
                name = strings[start : strings.find(b"\0", start)].decode("utf-8", "backslashreplace")
                definitions[name] = (*definitions[name], definition) if name in definitions else (definition,)
        return definitions

    def _read_definition(self, symbol: tuple[int, ...], version: int) -> tuple[Definition, ...]:
        """Return what a symbol defines, if anything.

        ``ld.so`` binds (glibc, ``do_lookup_x``) to symbols that are defined, global or weak, with default or protected
        visibility; a value of zero is valid only for thread-local and absolute symbols. Of the types, ``check_match``
        takes those of code and data.
        """
        _, info, visibility, section, value, size = symbol
        if section == UNDEFINED or info not in _DEFINING or visibility & 3 in _UNSEEN:
            return ()
        kind = info & 0xF
        if not value and kind != _STT_TLS and section != _SHN_ABS:
            return ()
        index = version & ~HIDDEN_VERSION
        return (Definition(self._version_names.get(index), bool(version & HIDDEN_VERSION), index, kind, size),)


def _is_unseen(kind: int) -> bool:
    """Whether nobody looks a symbol up, by its info and its visibility."""
    return kind >> 4 & 0xF == _STB_LOCAL or kind >> 8 & 3 in _UNSEEN
