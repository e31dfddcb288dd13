"""Type information of C++ in the emulated process: which types a type derives from, and where they lie in an object.

Layouts: Itanium C++ ABI, 2.9.5 (``abi::__class_type_info`` and its kind) and 2.5.2 (virtual tables).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from abiscan.emulation.emulator import Emulator
from abiscan.emulation.loader import Image

_SINGLE, _MULTIPLE, _POINTER = "__si_class_type_info", "__vmi_class_type_info", "__pointer_type_info"
_KINDS: Final = ("__class_type_info", _SINGLE, _MULTIPLE, _POINTER)
_ALL_KINDS: Final = (
    *_KINDS,
    *("__function_type_info", "__fundamental_type_info", "__enum_type_info", "__array_type_info"),
    *("__pbase_type_info", "__pointer_to_member_type_info"),
)
_ANY_TABLE: Final = "_ZTVN10__cxxabiv1"
VTABLES: Final = {kind: f"_ZTVN10__cxxabiv1{len(kind)}{kind}E" for kind in _KINDS}
_VIRTUAL, _PUBLIC = 1, 2
_MAX_BASES: Final = 64
ROOT: Final = "St9exception"
_RUNTIME, _LOGIC, _SYSTEM = "St13runtime_error", "St11logic_error", "St12system_error"
_TORCH, _DISTRIBUTED, _STORE = "N3c105ErrorE", "N3c109DistErrorE", "N3c1014DistStoreErrorE"

# The class that each class derives from, of those that the C++ library and torch throw and define themselves.
BASES: Final = {
    **dict.fromkeys((_RUNTIME, _LOGIC, "St9bad_alloc", "St8bad_cast", "St10bad_typeid", "St13bad_exception"), ROOT),
    **dict.fromkeys(("St17bad_function_call", "St12bad_weak_ptr", "St18bad_variant_access"), ROOT),
    **dict.fromkeys(("St19bad_optional_access", "N5torch3jit11ErrorReportE", _TORCH), ROOT),
    **dict.fromkeys(("St12out_of_range", "St16invalid_argument", "St12length_error", "St12domain_error"), _LOGIC),
    "St12future_error": _LOGIC,
    **dict.fromkeys(("St11range_error", "St14overflow_error", "St15underflow_error", "St11regex_error"), _RUNTIME),
    _SYSTEM: _RUNTIME,
    **dict.fromkeys(("NSt8ios_base7failureB5cxx11E", "NSt10filesystem16filesystem_errorE"), _SYSTEM),
    "NSt10filesystem7__cxx1116filesystem_errorE": _SYSTEM,
    "St20bad_array_new_length": "St9bad_alloc",
    "St12bad_any_cast": "St8bad_cast",
    **dict.fromkeys(("N3c1010IndexErrorE", "N3c1010ValueErrorE", "N3c109TypeErrorE", "N3c1011LinAlgErrorE"), _TORCH),
    **dict.fromkeys(("N3c1019NotImplementedErrorE", "N3c1018EnforceFiniteErrorE", _DISTRIBUTED), _TORCH),
    **dict.fromkeys(("N3c1016OutOfMemoryErrorE", "N3c1011SyntaxErrorE", "N3c1016AcceleratorErrorE"), _TORCH),
    **dict.fromkeys(("N3c1016DistBackendErrorE", "N3c1016DistNetworkErrorE", _STORE), _DISTRIBUTED),
    "N3c1014QueueEmptyErrorE": _STORE,
}
_WITHOUT_BASE: Final = (ROOT, "N10__cxxabiv115__forced_unwindE", "N10__cxxabiv119__foreign_exceptionE")


class _Process(Protocol):
    """The process that has the types: see ``EmulatedProcess``."""

    machine: Emulator
    images: list[Image]

    def name_at(self, address: int) -> str | None:
        """Return the imported symbol at an address."""


class Subobject(NamedTuple):
    """A type, and where it lies."""

    type: int
    address: int


class TypeInformation:
    """The type information of one process; types are addresses of ``std::type_info``."""

    def __init__(self, process: _Process) -> None:
        self._process = process
        self._tables: frozenset[int] | None = None  # those that the objects define themselves

    def name(self, type_: int) -> str:
        """Return the mangled name of a type."""
        machine = self._process.machine
        return machine.text(machine.word(type_ + 8), 1 << 16).decode("utf-8", "backslashreplace")

    def is_same(self, first: int, second: int) -> bool:
        """Whether two are one type: those of anonymous namespaces, whose names begin with ``*``, by their address."""
        return first == second or (not (name := self.name(first)).startswith("*") and name == self.name(second))

    def is_known(self, type_: int) -> bool:
        """Whether the bases of a type are known: they are in the file, or in the table."""
        imported = self._process.name_at(type_)
        # A type of the object has its bases next to it; an imported one leads out of all files that are there.
        if imported is None:
            return all(map(self.is_known, (base for base, _ in self._direct_bases(type_))))
        name = imported.removeprefix("_ZTI")
        return name in BASES or name in _WITHOUT_BASE or len(name) == 1

    def kind(self, type_: int) -> str:
        """Return the class of a ``type_info`` object, such as ``__si_class_type_info``; empty if it is another one."""
        vtable = self._process.machine.word(type_)
        name = self._process.name_at(vtable) or ""
        # The virtual pointer of a ``type_info`` tells its class: imported from libsupc++, or of a copy in the object.
        for kind in _KINDS:
            if name == VTABLES[kind] or vtable - 16 in self._own_vtables(kind):
                return kind
        return ""

    def is_virtual_table(self, address: int) -> bool:
        """Whether the virtual pointer of a ``type_info`` may be ``address``."""
        if (self._process.name_at(address) or "").startswith(_ANY_TABLE):
            return True
        if self._tables is None:
            self._tables = frozenset(table + 16 for kind in _ALL_KINDS for table in self._own_vtables(kind))
        return address in self._tables

    def _own_vtables(self, kind: str) -> Iterator[int]:
        """Yield where the objects define the virtual table of a kind themselves: with the C++ library linked
        statically.
        """
        for image in self._process.images:
            symbol = image.find(f"{_ANY_TABLE}{len(kind)}{kind}E")
            if symbol is not None and symbol.defined:
                yield image.address_of(symbol)

    def _direct_bases(self, type_: int) -> Iterator[tuple[int, int]]:
        """Yield the direct bases: type, and offset with flags as the ABI has it."""
        machine, kind = self._process.machine, self.kind(type_)
        if kind == _SINGLE:
            yield machine.word(type_ + 16), _PUBLIC
        # Flags and number of bases share a word, then two words for each base (Itanium C++ ABI, 2.9.5).
        elif kind == _MULTIPLE:
            count = min(machine.word(type_ + 16) >> 32, _MAX_BASES)
            for number in range(count):
                yield machine.words(type_ + 24 + 16 * number, 2)  # type: ignore[misc]

    def within(self, type_: int, address: int, *, private: bool = True) -> Iterator[Subobject]:
        """Yield the object of a type at ``address``, and its public bases, wherever they lie."""
        yield Subobject(type_, address)
        machine = self._process.machine
        for base, flags in self._direct_bases(type_):
            if not flags & _PUBLIC and not private:
                continue
            offset = flags >> 8
            # The offset is the upper 56 bits, with a sign.
            offset -= (offset >> 55) << 56
            # For a virtual base, it is where the virtual table has the offset to the base.
            if flags & _VIRTUAL and address:
                offset = machine.word(machine.word(address) + offset)
            place = (address + offset) & 0xFFFF_FFFF_FFFF_FFFF if address else 0  # a null pointer has null parts
            yield from self.within(base, place, private=private)

    def caught(self, requested: int, thrown: int, address: int) -> int | None:
        """Return where a handler of type ``requested`` sees what was thrown; None if it does not catch it."""
        if self.is_same(requested, thrown):
            return self._process.machine.word(address) if self.kind(thrown) == _POINTER else address
        if self.kind(requested) == _POINTER and self.kind(thrown) == _POINTER:
            return self._caught_pointer(requested, thrown, self._process.machine.word(address))
        if self.kind(requested) == _POINTER and self.name(thrown) == "Dn":
            return 0
        # A base that is there twice is ambiguous, and does not catch (C++17, [except.handle]).
        places = {
            base.address for base in self.within(thrown, address, private=False) if self.is_same(base.type, requested)
        }
        return places.pop() if len(places) == 1 else None

    def _caught_pointer(self, requested: int, thrown: int, address: int) -> int | None:
        machine = self._process.machine
        (flags, target), (own_flags, source) = (
            (machine.word(pointer + 16) & 0xFFFF_FFFF, machine.word(pointer + 24)) for pointer in (requested, thrown)
        )
        if own_flags & ~flags & 3:  # const and volatile cannot be cast away
            return None
        if self.is_same(target, source) or self.name(target) == "v":
            return address
        places = {
            base.address for base in self.within(source, address, private=False) if self.is_same(base.type, target)
        }
        return places.pop() if len(places) == 1 else None

    def dynamic_type(self, address: int) -> Subobject | None:
        """Return the whole object that contains the polymorphic object at ``address``; None if unknown."""
        machine = self._process.machine
        table = machine.word(address)
        # The two words before the functions: offset to top, type information (Itanium C++ ABI, 2.5.2).
        to_top, type_ = machine.words(table - 16, 2)
        if not type_:
            return None
        return Subobject(type_, (address + to_top) & 0xFFFF_FFFF_FFFF_FFFF)

    def cast(self, address: int, source: int, target: int) -> int | None:
        """Return ``dynamic_cast`` of the ``source`` at ``address`` to a pointer to ``target``: 0 for no; None if
        unknown.
        """
        whole = self.dynamic_type(address) if address else None
        if whole is None:
            return None
        # A ``dynamic_cast`` down from the object that is passed comes first, then across to the only public base of
        # that type (C++17, [expr.dynamic.cast]).
        result = {part.address for part in self.within(*whole, private=False) if self.is_same(part.type, target)}
        around = {
            place
            for place in result
            if any(part.address == address and self.is_same(part.type, source) for part in self.within(target, place))
        }
        places = around if len(around) == 1 else result
        if not places and not self.is_known(whole.type):
            return None
        return places.pop() if len(places) == 1 else 0
