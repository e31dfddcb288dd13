"""The image of one object in the emulated address space, loaded page by page on first access.

Of a library of 400 MB the initialisers touch a few MB, so nothing is mapped up front: a page is copied from the file
when something touches it, and just that page's relocations are applied. Formats are those of the ELF gABI, chapters
4 and 5; relocation types come from ``arch``.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from abiscan import native
from abiscan.binary.elf import ElfFile, Tag
from abiscan.emulation.arch import Arch
from abiscan.emulation.emulator import PAGE_SIZE
from abiscan.errors import NotElfError
from abiscan.regex import regex

if TYPE_CHECKING:
    from abiscan.native._core import Links

BASE: Final = 0x10_0000_0000  # of the object's address 0
SPACING: Final = 0x1_0000_0000  # between the objects of a process

_PT_TLS: Final = 7
_PT_GNU_EH_FRAME: Final = 0x6474_E550
_PF_X, _PF_W = 1, 2
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_ADDRESS: Final = struct.Struct("<Q")
_PROGRAM_HEADER: Final = struct.Struct("<IIQQQQQQ")
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_WORD: Final = 0xFFFF_FFFF_FFFF_FFFF
_CHOOSING: Final = regex(rb"[\x1a\x2a]")  # st_info of a global and a weak STT_GNU_IFUNC
_TEXT: Final = regex(rb"[^\0]*")
_LONGEST_ARRAY: Final = 1 << 19  # of initialisers, in bytes

# Module numbers for __tls_get_addr: offsets count from the object's own block, or from the thread pointer.
OWN_MODULE, OTHER_MODULE = 1, 2

_WEAK: Final = 2  # STB_WEAK
_UNIQUE: Final = 10  # STB_GNU_UNIQUE
# Weak references that nothing on a modern system defines: ld.so leaves zero, and the code tests for it.
_NEVER_DEFINED: Final = frozenset(
    {"__gmon_start__", "_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "_Jv_RegisterClasses"}
)


class Symbol(NamedTuple):
    """An entry of the dynamic symbol table.

    :ivar value: an address in the file's own space
    :ivar unique: whether the process has one definition at most (``STB_GNU_UNIQUE``)
    :ivar weak: whether it need not have one
    """

    name: str
    value: int
    size: int
    type: int
    defined: bool
    unique: bool = False
    weak: bool = False


class Slots(NamedTuple):
    """The words that lead to imported functions: addresses, in the file's own space, with the function of each.

    :ivar by_stub: those for the stub of the function in the procedure linkage table, which alone jumps through them
    :ivar others: those through which code may call, too
    """

    by_stub: dict[int, str]
    others: dict[int, str]


class SymbolSlots(NamedTuple):
    """The same, with the numbers of the symbols in their table."""

    by_stub: dict[int, int]
    others: dict[int, int]


class Header(NamedTuple):
    """The part of a program header that matters here."""

    address: int
    offset: int
    file_size: int
    size: int


class Image:
    """One object.

    :param bind: returns the address for references to an imported symbol
    :param bind_tls: returns the offset of an imported thread-local variable from the thread pointer
    :param resolver: returns the address of a stub for the function that a resolver chooses (``STT_GNU_IFUNC``)
    :param number: the number of the object in the process; each has its own addresses and thread-local variables
    :param tls_taken: the size of the thread-local variables of the objects before it, in bytes
    """

    def __init__(
        self,
        file: ElfFile,
        arch: Arch,
        bind: Callable[[str], int],
        bind_tls: Callable[[str], int],
        resolver: Callable[[int], int],
        *,
        number: int = 0,
        tls_taken: int = 0,
    ) -> None:
        self.file = file
        # An executable of the kind ET_EXEC has its addresses in its code; all else lies where it is put.
        self.base = 0 if file.is_fixed else BASE + number * SPACING
        self.module = OWN_MODULE if not number else OTHER_MODULE + number
        self._tls_taken = tls_taken
        self.may_lack: Callable[[str], bool] = lambda _: False
        """Whether nobody knows if the process has a function or datum that may be missing."""
        self.unknown_words: list[tuple[int, str]] = []  # where the addresses of those go, in pages that were asked for
        self._lacking: dict[int, str] = {}  # those, by the number of the symbol
        self.patches: dict[int, bytes] = {}  # code that replaces the object's own, by emulated address
        self._arch = arch
        self._bind, self._bind_tls, self._resolver = bind, bind_tls, resolver
        self._symbols: dict[int, Symbol] = {}
        self._mentioned: dict[bytes, bool] = {}
        self._addresses: dict[int, int] = {}
        self._symbol_table = file.tail_at(file.dynamic[Tag.SYMTAB]) if Tag.SYMTAB in file.dynamic else memoryview(b"")
        self._strings = file.tail_at(file.dynamic[Tag.STRTAB]) if Tag.STRTAB in file.dynamic else memoryview(b"")
        table = file.tail_at(file.dynamic[Tag.GNU_HASH]) if Tag.GNU_HASH in file.dynamic else memoryview(b"")
        self._hashes = table[: len(table) & ~3].cast("I")
        # Of the table only what follows is cast to words: a damaged size leaves up to three bytes behind.
        self.size = max((segment.address + segment.size for segment in file.segments), default=0)
        self._code, self._writable = (
            [
                range(self.base + segment.address, self.base + segment.address + segment.size)
                for segment in file.segments
                if segment.flags & flag
            ]
            for flag in (_PF_X, _PF_W)
        )
        headers = self._program_headers()
        self.tls = headers.get(_PT_TLS)
        frames = headers.get(_PT_GNU_EH_FRAME)
        self.frame_header = self.base + frames.address if frames else None
        self._relocations = self._read_relocations()
        self._relocated: dict[int, frozenset[int]] = {}
        self._extra = self._read_relative()

    def _program_headers(self) -> dict[int, Header]:
        content = self.file.data
        offset, size, count = struct.unpack_from("<Q14xHH", content, 32)
        headers = {}
        for index in range(count):
            kind, _, file_offset, address, _, file_size, memory_size, _ = _PROGRAM_HEADER.unpack_from(
                content, offset + index * size
            )
            headers[kind] = Header(address, file_offset, file_size, memory_size)
        return headers

    # Relocations, kept as indexes into the two tables by the page that they patch

    def _read_relocations(self) -> dict[int, list[int]]:
        file = self.file
        self._tables: list[memoryview] = []
        # A library has hundreds of thousands of relocations, and a run touches few of its pages: here they are only
        # sorted, by the page of their place, and read when that page is asked for. Indexes count through both tables.
        by_page: dict[int, list[int]] = defaultdict(list)
        start = 0
        for address_tag, size_tag in ((Tag.RELA, Tag.RELASZ), (Tag.JMPREL, Tag.PLTRELSZ)):
            table = file.table(address_tag, size_tag)
            words = table[: len(table) // 24 * 24].cast("Q")
            self._tables.append(words)
            if native.is_available():
                from abiscan.native._core import by_page as sorted_by_page

                for page, indexes in sorted_by_page(words.tobytes(), start).items():
                    by_page[page] += indexes
            else:
                for index, offset in enumerate(words[::3].tolist(), start):
                    by_page[offset >> 12].append(index)
            start += len(words) // 3
        return by_page

    def _read_relative(self) -> dict[int, list[int]]:
        """Return the addresses to which only the base is added (gABI, DT_RELR: an address, then bitmaps for the words
        after it).
        """
        table = self.file.table(Tag.RELR, Tag.RELRSZ)
        by_page: dict[int, list[int]] = defaultdict(list)
        following = 0
        for word in table[: len(table) // 8 * 8].cast("Q").tolist():
            # An even entry is an address itself; an odd one is a bitmap for the 63 words behind those before (gABI,
            # DT_RELR).
            if word & 1 == 0:
                by_page[word >> 12].append(word)
                following = word + 8
                continue
            offset, left = following, word >> 1
            while left:
                if left & 1:
                    by_page[offset >> 12].append(offset)
                offset, left = offset + 8, left >> 1
            following += 63 * 8
        return by_page

    # Symbols

    def symbol(self, index: int) -> Symbol:
        """Return an entry of the dynamic symbol table."""
        if index not in self._symbols:
            name_at, info, _, section, value, size = _SYMBOL.unpack_from(self._symbol_table, index * _SYMBOL.size)
            self._symbols[index] = Symbol(
                self._name(name_at), value, size, info & 0xF, section != 0, info >> 4 == _UNIQUE, info >> 4 == _WEAK
            )
        return self._symbols[index]

    def _is_defined(self, index: int) -> bool:
        """Whether the object itself defines a symbol of the table."""
        return self._sections[index] != 0

    @functools.cached_property
    def _sections(self) -> memoryview:
        """The section of each symbol, 0 where another object defines it: to unpack one takes four times as long."""
        whole = len(self._symbol_table) // _SYMBOL.size * _SYMBOL.size
        return self._symbol_table[:whole].cast("H")[3::12]

    @functools.cached_property
    def _types(self) -> memoryview:
        """The type and the binding of each symbol."""
        whole = len(self._symbol_table) // _SYMBOL.size * _SYMBOL.size
        return self._symbol_table[4 : whole : _SYMBOL.size]

    def _name(self, offset: int) -> str:
        match = _TEXT.match(self._strings, offset)
        return match[0].decode("utf-8", "backslashreplace") if match else ""

    def address_of(self, symbol: Symbol) -> int:
        """Return the address for a reference to ``symbol``."""
        if symbol.defined:
            address = self.base + symbol.value
            return self._resolver(address) if symbol.type == _STT_GNU_IFUNC else address
        return 0 if not symbol.name or symbol.name in _NEVER_DEFINED else self._bind(symbol.name)

    def mentions(self, name: bytes) -> bool:
        """Whether any dynamic symbol, defined or not, has a name with this part; no name is decoded."""
        if name not in self._mentioned:  # code that throws asks each time
            self._mentioned[name] = re.search(re.escape(name), self._names) is not None
        return self._mentioned[name]

    @property
    def _names(self) -> memoryview:
        """The table of strings, without what follows it."""
        return self.file.table(Tag.STRTAB, Tag.STRSZ)

    # Pages

    def contains(self, address: int) -> bool:
        """Whether ``address``, in the emulated space, belongs to the object."""
        return self.base <= address < self.base + self.size

    def is_relocated(self, address: int) -> bool:
        """Whether a relocation fills the word at ``address``, in the emulated space."""
        offset = address - self.base
        return offset in self._relocated_in(offset >> 12)

    def _relocated_in(self, page: int) -> frozenset[int]:
        """Return the words of a page that relocations fill."""
        if page not in self._relocated:
            first, second = self._tables
            second_from = len(first) // 3
            self._relocated[page] = frozenset(
                first[3 * index] if index < second_from else second[3 * (index - second_from)]
                for index in self._relocations.get(page, ())
            )
        return self._relocated[page]

    def is_writable(self, address: int) -> bool:
        """Whether ``address``, in the emulated space, is in a segment that code may write."""
        return any(address in place for place in self._writable)

    def is_code(self, address: int) -> bool:
        """Whether ``address``, in the emulated space, is in an executable segment."""
        # Half a million calls for a large library: a generator would take twice as long.
        for code in self._code:  # noqa: SIM110 - see above
            if address in code:
                return True
        return False

    def page(self, address: int) -> tuple[bytes, bool, bool] | None:
        """Return the relocated content of the page at ``address``, and whether it is writable, and executable.

        None if it is not in the object.
        """
        start = address - self.base
        content, flags = bytearray(PAGE_SIZE), None
        for segment in self.file.segments:
            # Two segments may share a page; the part of it behind the file's bytes is zero (gABI, "Program Loading").
            low, high = max(segment.address, start), min(segment.address + segment.size, start + PAGE_SIZE)
            if low >= high:
                continue
            flags = (flags or 0) | segment.flags
            high = max(low, min(high, segment.address + segment.file_size))
            at = segment.offset + low - segment.address
            content[low - start : high - start] = self.file.data[at : at + high - low]
        if flags is None:
            return None
        # Words of DT_RELR have their addend where they lie, so they come first: the other tables bring theirs along
        # (RELA).
        for offset in self._extra.get(start >> 12, ()):
            self._patch(content, offset - start, self._word(content, offset - start) + self.base)
        self._relocate_page(content, start)
        for address, code in self.patches.items():
            if address & -PAGE_SIZE == start + self.base:
                self._patch_code(content, address - self.base - start, code)
        return bytes(content), bool(flags & _PF_W), bool(flags & _PF_X)

    @staticmethod
    def _patch_code(content: bytearray, at: int, code: bytes) -> None:
        content[at : at + len(code)] = code[: PAGE_SIZE - at]

    @staticmethod
    def _word(content: bytearray, at: int) -> int:
        return int.from_bytes(content[at : at + 8], "little")

    @staticmethod
    def _patch(content: bytearray, at: int, value: int) -> None:
        """Store a word; if it straddles two pages, the part beyond the first is dropped."""
        contents = (value & _WORD).to_bytes(8, "little")
        content[at : at + 8] = contents[: PAGE_SIZE - at]

    def _relocate_page(self, content: bytearray, start: int) -> None:
        arch, (first, second) = self._arch, self._tables
        # Nearly all relocations are relative or name a symbol, and there may be many: their common case is inlined.
        base, relative, by_symbol, addresses = self.base, arch.relative, (arch.absolute, *arch.slots), self._addresses
        store, last, second_from = _ADDRESS.pack_into, PAGE_SIZE - _ADDRESS.size, len(first) // 3
        for index in self._relocations.get(start >> 12, ()):  # as little as possible for each
            words, at = (first, 3 * index) if index < second_from else (second, 3 * (index - second_from))
            place, info, addend = words[at] - start, words[at + 1], words[at + 2]
            kind, number = info & 0xFFFF_FFFF, info >> 32
            try:
                if kind == relative:
                    value = base + addend
                elif kind in by_symbol:
                    value = (addresses[number] if number in addresses else self._address_of(number)) + addend
                else:
                    self._relocate(content, place, kind, number, addend)
                    continue
            except (struct.error, NotElfError):
                continue  # a relocation that names no symbol changes nothing
            if place <= last:
                store(content, place, value & _WORD)
            else:
                self._patch(content, place, value)
            # Zero would mean that nothing defines the function, which is not known: a test of the word is a test of
            # that.
            if number in self._lacking:
                self.unknown_words.append((base + words[at], self._lacking[number]))

    def _address_of(self, index: int) -> int:
        """Return the address for a reference to a symbol of the table; the most common case does not need its name."""
        if index not in self._addresses:
            _, info, _, section, value, _ = _SYMBOL.unpack_from(self._symbol_table, index * _SYMBOL.size)
            is_defined = section and info & 0xF != _STT_GNU_IFUNC
            self._addresses[index] = self.base + value if is_defined else self._import(index)
        return self._addresses[index]

    def _import(self, index: int) -> int:
        symbol = self.symbol(index)
        if symbol.weak and not symbol.defined and symbol.name not in _NEVER_DEFINED and self.may_lack(symbol.name):
            self._lacking[index] = symbol.name
            return 0
        return self.address_of(symbol)

    def _relocate(self, content: bytearray, at: int, kind: int, symbol_index: int, addend: int) -> None:
        arch = self._arch
        if kind == arch.irelative:
            self._patch(content, at, self._resolver((self.base + addend) & _WORD))
        elif kind == arch.tls_module:
            # Without a symbol, the module is the object itself: a local-dynamic access ("ELF Handling For TLS", 4.3).
            is_own = not symbol_index or self.symbol(symbol_index).defined
            self._patch(content, at, self.module if is_own else OTHER_MODULE)
        elif kind == arch.tls_offset:
            symbol = self.symbol(symbol_index)
            offset = symbol.value if symbol.defined or not symbol_index else self._bind_tls(symbol.name)
            self._patch(content, at, offset + addend)
        elif kind == arch.tls_thread_offset:
            self._patch(content, at, self._tls_offset(symbol_index) + addend)
        elif kind == arch.tls_descriptor:
            self._patch(content, at, self._bind("__tlsdesc_resolve"))
            self._patch(content, at + 8, self._tls_offset(symbol_index) + addend)

    def _tls_offset(self, symbol_index: int) -> int:
        """Return the offset from the thread pointer of a thread-local variable."""
        symbol = self.symbol(symbol_index)
        if symbol_index and not symbol.defined:
            return self._bind_tls(symbol.name)
        return self.tls_start + symbol.value

    @property
    def tls_start(self) -> int:
        """The offset from the thread pointer of the object's own thread-local variables."""
        # The two variants of "ELF Handling For Thread-Local Storage", chapter 3: x86-64 has II, AArch64 has I.
        if self._arch.thread_pointer_offset:  # variant I: above the thread pointer
            return self._arch.thread_pointer_offset + self._tls_taken
        return -self.tls_end

    @property
    def tls_end(self) -> int:
        """The size of the thread-local variables of this object and those before it, in bytes."""
        return self._tls_taken + ((self.tls.size + 63) & ~63 if self.tls else 0)

    # Where execution starts

    def slots_of(self, names: Callable[[str], bool], *, own: bool = False) -> Slots:
        """Return the words that lead to imported functions with such names.

        :param own: to those that the object defines itself, and that another object may preempt
        """
        numbers = self._make_slots(lambda index: self._is_defined(index) is own and names(self.symbol(index).name))
        return Slots(*({slot: self.symbol(index).name for slot, index in part.items()} for part in numbers))

    def import_slots(self) -> SymbolSlots:
        """Return the words that lead to imported functions, with the numbers of their symbols."""
        return self._make_slots(lambda index: not self._is_defined(index))

    def _make_slots(self, is_selected: Callable[[int], bool]) -> SymbolSlots:
        slots = SymbolSlots({}, {})
        for table in self._tables:
            # The columns are cut out of the table as a whole: to unpack each entry takes much longer.
            halves = table.cast("B").cast("I")  # a relocation: offset, type, symbol, addend, in six of them
            kinds = enumerate(halves[2::6].tolist())
            entries = [(at, kind, halves[6 * at + 3]) for at, kind in kinds if kind in self._arch.slots]
            requested = set(filter(is_selected, {index for _, _, index in entries}))
            for at, kind, index in entries:
                if index in requested:
                    selected = slots.by_stub if kind == self._arch.stub_slot else slots.others
                    selected[table[3 * at]] = index
        return slots

    def add_links(self, links: Links) -> bool:
        """Add the words that relocations fill; False if a table is damaged, or its end is not known."""
        symbols = bytes(self._symbol_table[: self._symbol_count() * _SYMBOL.size])
        kinds = (self._arch.relative, self._arch.absolute, *self._arch.slots)
        if not all(links.add_relocations(table.tobytes(), symbols, *kinds) for table in self._tables):
            return False
        for at in itertools.chain.from_iterable(self._extra.values()):
            links.add_pointer(at, int.from_bytes(self.file.bytes_at(at, 8), "little"))
        return True

    def own_pointers(self) -> dict[int, int]:
        """Return the words that relocations fill with addresses of the object itself: both in the file's own space."""
        pointers = {}
        with_symbol = (self._arch.absolute, *self._arch.slots)
        for table in self._tables:
            for offset, info, addend in zip(*(table[part::3].tolist() for part in range(3)), strict=True):
                kind = info & 0xFFFF_FFFF
                if kind == self._arch.relative:
                    pointers[offset] = addend
                elif kind in with_symbol:
                    # A table may refer to hundreds of thousands of symbols, whose names do not matter here.
                    _, _, _, section, value, _ = _SYMBOL.unpack_from(self._symbol_table, (info >> 32) * _SYMBOL.size)
                    if section:
                        pointers[offset] = value + addend
        for at in itertools.chain.from_iterable(self._extra.values()):
            pointers[at] = int.from_bytes(self.file.bytes_at(at, 8), "little")
        return pointers

    def find(self, name: str) -> Symbol | None:
        """Return the object's definition of ``name``, looked up as ld.so does, in the hash table of DT_GNU_HASH.

        The table: number of buckets, first symbol in it, words and shift of a Bloom filter, the filter, the buckets
        (first symbol each), then a hash per symbol whose lowest bit ends a chain (binutils, bfd/elflink.c).
        """
        if not self._hashes:
            return None
        count, first, filter_words, _ = self._hashes[:4]
        requested = 5381
        for byte in name.encode():
            requested = (requested * 33 + byte) & 0xFFFF_FFFF
        buckets = 4 + 2 * filter_words
        index = self._hashes[buckets + requested % count] if count else 0
        while index >= max(first, 1):  # an empty bucket is zero
            stored_hash = self._hashes[buckets + count + index - first]
            # The lowest bit of a stored hash ends the chain, so it is no part of the comparison.
            if stored_hash | 1 == requested | 1:
                symbol = self.symbol(index)
                if symbol.name == name:
                    return symbol if symbol.defined else None
            if stored_hash & 1:
                break
            index += 1
        return None

    def definitions(self, *patterns: re.Pattern[bytes]) -> list[Symbol]:
        """Return the symbols that the object defines whose whole names match one of the patterns.

        They are searched for in the string table, for that is many times faster than to look at each name.
        """
        if not self._hashes:
            return []
        starts = {match.start() for pattern in patterns for match in pattern.finditer(self._names)}
        first, end = self._hashed_symbols()
        table = self._symbol_table[first * _SYMBOL.size : end * _SYMBOL.size]
        names = table[: len(table) // _SYMBOL.size * _SYMBOL.size].cast("I")[::6].tolist()
        symbols = (self.symbol(index) for index, name in enumerate(names, first) if name in starts)
        return [
            symbol
            for symbol in symbols
            if symbol.defined and any(pattern.fullmatch(symbol.name.encode()) for pattern in patterns)
        ]

    def _hashed_symbols(self) -> tuple[int, int]:
        """Return the bounds of the part of the symbol table that the hash table covers: all defined symbols."""
        count, first, filter_words, _ = self._hashes[:4]
        chains = 4 + 2 * filter_words + count
        last = max(self._hashes[chains - count : chains], default=0)
        while last >= first and chains + last - first < len(self._hashes):
            last += 1
            if self._hashes[chains + last - 1 - first] & 1:
                break
        return first, last

    def definition_of(self, name: str) -> int | None:
        """Return the address, in the file's own space, of a symbol that the object defines."""
        # Linkers keep a name that another one ends with inside that one.
        places = {match.start() for match in re.finditer(re.escape(name.encode()) + b"\0", self._names)}
        if not places:
            return None
        count = self._symbol_count() or len(self._symbol_table) // _SYMBOL.size
        names = self._symbol_table[: count * _SYMBOL.size].cast("I")[::6].tolist()
        symbols = (self.symbol(index) for index, at in enumerate(names) if at in places)
        return next((symbol.value for symbol in symbols if symbol.defined), None)

    def nearest_symbol(self, address: int) -> str | None:
        """Return the exported function that contains or precedes ``address``, in the file's own space."""
        position = bisect.bisect_left(self._functions, address + 1 << 32)
        return self.symbol(self._functions[position - 1] & 0xFFFF_FFFF).name if position else None

    def symbol_around(self, address: int) -> str | None:
        """Return the exported function that ``address`` lies in, in the file's own space."""
        name = self.nearest_symbol(address)
        symbol = self.find(name) if name else None
        return name if symbol is not None and symbol.value <= address < symbol.value + symbol.size else None

    @functools.cached_property
    def _functions(self) -> list[int]:
        """The addresses of the exported functions, in order; in the low 32 bits their indexes in the symbol table."""
        count = self._symbol_count()
        table = self._symbol_table[: count * _SYMBOL.size]
        kinds, sections = table[4 :: _SYMBOL.size].tolist(), table.cast("H")[3 :: _SYMBOL.size // 2].tolist()
        values = table.cast("Q")[1 :: _SYMBOL.size // 8].tolist()
        entries = enumerate(zip(values, kinds, sections, strict=True))
        return sorted(
            [value << 32 | index for index, (value, kind, section) in entries if section and kind & 15 == _STT_FUNC]
        )

    def _symbol_count(self) -> int:
        """Return an upper bound of the number of symbols: linkers put the string table after the symbol table.

        0 where it lies before that, or there is none.
        """
        dynamic, most = self.file.dynamic, len(self._symbol_table) // _SYMBOL.size
        if Tag.SYMTAB not in dynamic or Tag.STRTAB not in dynamic:
            return 0
        return min(most, len(range(dynamic[Tag.SYMTAB], dynamic[Tag.STRTAB], _SYMBOL.size)))

    def initialisers(self) -> list[int]:
        """Return what runs while the object is loaded, as emulated addresses, in that order.

        It is DT_PREINIT_ARRAY, of the object that is opened, DT_INIT, and DT_INIT_ARRAY (glibc, ``_dl_init``).
        """
        dynamic = self.file.dynamic
        init = [self.base + dynamic[Tag.INIT]] if dynamic.get(Tag.INIT) else []
        before = self._functions_in(Tag.PREINIT_ARRAY, Tag.PREINIT_ARRAYSZ) if Tag.PREINIT_ARRAY in dynamic else []
        return [*before, *init, *self._functions_in(Tag.INIT_ARRAY, Tag.INIT_ARRAYSZ)]

    def choosing(self) -> dict[int, int | None]:
        """Return the functions that choose others while the object is relocated (``STT_GNU_IFUNC``), in that order.

        Each comes with how many relocations are done before; None for all, as before those of R_X86_64_IRELATIVE and
        its like (glibc, ``elf_dynamic_do_Rela`` in elf/do-rel.h).
        """
        # There are few of them, if any, among hundreds of thousands of relocations.
        halves = [table.cast("B").cast("I") for table in self._tables]  # offset, type, symbol, addend, in six of them
        symbols = set(itertools.chain.from_iterable(part[3::6].tolist() for part in halves)) - {0}
        chosen = set(filter(self._is_chosen, symbols))
        if not chosen and not any(self._arch.irelative in part[2::6].tolist() for part in halves):
            return {}
        functions: dict[int, int | None] = {}
        last: dict[int, int | None] = {}
        infos, addends = (list(itertools.chain(*(table[at::3].tolist() for table in self._tables))) for at in (1, 2))
        for number, info in enumerate(infos):
            if info & 0xFFFF_FFFF == self._arch.irelative:
                last[(self.base + addends[number]) & _WORD] = None
            elif info >> 32 in chosen:
                functions.setdefault(self.base + self.symbol(info >> 32).value, number)
        return {**last, **functions}

    def _is_chosen(self, index: int) -> bool:
        """Whether a symbol of the object stands for what a function chooses."""
        return self._types[index] & 0xF == _STT_GNU_IFUNC and self._is_defined(index)

    def choosing_for_others(self) -> Iterator[tuple[str, int]]:
        """Yield the functions that choose exported ones, if another object refers to those, each with a name.

        The symbol table is shorter than it may be: some names may be none that the object exports.
        """
        kinds = bytes(self._symbol_table[4 : self._symbol_count() * _SYMBOL.size : _SYMBOL.size])
        places = (match.start() for match in _CHOOSING.finditer(kinds))
        return ((item.name, self.base + item.value) for item in map(self.symbol, places) if item.defined)

    def is_relocated_by(self, name: str, count: int) -> bool:
        """Whether one of the first relocations fills in the address of an imported function."""
        infos = itertools.chain(*(table[1::3].tolist() for table in self._tables))
        return any(info >> 32 and self.symbol(info >> 32).name == name for info in itertools.islice(infos, count))

    def _functions_in(self, address_tag: Tag, size_tag: Tag) -> list[int]:
        """Return the entries of a table of functions."""
        dynamic, functions = self.file.dynamic, list[int]()
        address, size = dynamic.get(address_tag, 0), min(dynamic.get(size_tag, 0), _LONGEST_ARRAY)
        pages: dict[int, bytes] = {}
        # The file has zeros here, or addends: the addresses are those that relocations put there, so the pages are
        # read.
        for at in range(address, address + size // 8 * 8, 8):
            page = (self.base + at) & -PAGE_SIZE
            if page not in pages:
                loaded = self.page(page)
                if loaded is None:
                    break
                pages[page] = loaded[0]
            start = self.base + at - page
            functions.append(int.from_bytes(pages[page][start : start + 8], "little"))
        return functions
