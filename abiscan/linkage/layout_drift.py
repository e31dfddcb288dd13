"""Classes that an extension shares with torch, but that had a different layout when it was compiled.

No symbol shows this: everything resolves, but one side writes where the other does not read, or past the end of an
object that the other has allocated.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.binary.mangling import demangle_type
from abiscan.binary.ownership import is_torch_symbol
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.model import LoadError
from abiscan.linkage.shared_types import Touch, TypeUse, touches
from abiscan.regex import regex
from abiscan.torches import embedded, layouts, string_abi
from abiscan.torches.layout_changes import LayoutChange, SlotChange, change_between, method, slots_between
from abiscan.torches.layouts import ReleaseLayouts
from abiscan.torches.torch_layouts import TorchLayouts

if TYPE_CHECKING:
    from abiscan.binary.elf import SharedObject
    from abiscan.binary.typeinfo import CxxClass
    from abiscan.emulation.model import Library, RegisteredKernel, RegisteredOperator, Registrations

_STRING: Final = regex(r"\bbasic_string\b|\bstd::list\b")
"""What differs between the two: _GLIBCXX_USE_CXX11_ABI is also about lists."""

_ELSEWHERE: Final = regex(
    r"^(?:std::(?:vector|unique_ptr|shared_ptr|weak_ptr|function|(?:unordered_)?(?:map|set))|c10::intrusive_ptr)<|[*&]$"
)
"""Types of members that have the same size whatever they refer to."""

_NAMES: Final = regex(r"(?:\w+::)+\w+")

CROSSING: Final = ("torch::CppFunction", "c10::FunctionSchema", "torch::Library", "c10::RegisterOperators::Options")
"""The classes whose objects are passed to torch with each registration, by torch/library.h and by its predecessor."""

_ALLOCATES: Final = (TypeUse.CONSTRUCTS, TypeUse.BY_VALUE, TypeUse.ELEMENTS, TypeUse.DERIVES)
_PASSES: Final = (TypeUse.CONSTRUCTS, TypeUse.BY_VALUE, TypeUse.ELEMENTS, TypeUse.REFERS)


class Certainty(enum.Enum):
    """When a difference is harmful."""

    AT_LOAD = "when it is loaded"
    ON_USE = "when it is used"
    POSSIBLE = "if inlined code reads a member that moved"


class TypeDrift(Struct, frozen=True, kw_only=True):
    """A class that the extension shares with torch, with a different layout in this torch."""

    change: LayoutChange
    certainty: Certainty
    touches: tuple[Touch, ...]


class TableDrift(Struct, frozen=True, kw_only=True):
    """A class of torch, the base of ``derived``, with other functions in the slots of its vtable in this torch.

    ``misplaced`` are slots in which the extension's vtables have a different function than torch calls; ``missing`` are
    those past the end of its vtables.
    """

    base: str
    derived: tuple[CxxClass, ...]
    misplaced: tuple[SlotChange, ...]
    missing: tuple[SlotChange, ...]


class LayoutDrift(Struct, frozen=True, kw_only=True):
    """All differences for one object, ``name``, built for the torch ``built_for``.

    ``doubts`` are classes that may differ, depending on which of ``candidates`` the object was built for. ``unknown``
    are the shared classes whose layout in this torch is unknown, ``unknown_at_load`` those of them that are passed with
    registrations while the object is loaded. If this torch is not embedded, ``basis`` says why its layouts are those of
    releases, and ``compared`` has the classes for which this matters, each with such a release. ``compiled`` are those
    that a compiler laid out from its headers; ``why_unknown`` says why it did not. ``uncompared`` are shared classes
    with a ``std::string`` in them, of an object that was compiled with another one than the releases that are known.
    """

    name: str
    built_for: str
    candidates: tuple[str, ...]
    types: tuple[TypeDrift, ...]
    tables: tuple[TableDrift, ...]
    doubts: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    unknown_at_load: tuple[str, ...] = ()
    why_unknown: str | None = None
    basis: str | None = None
    compared: tuple[tuple[str, str], ...] = ()
    compiled: tuple[str, ...] = ()
    uncompared: tuple[str, ...] = ()

    @property
    def at_load(self) -> tuple[TypeDrift, ...]:
        """The differences that are harmful while the object is loaded."""
        return tuple(drift for drift in self.types if drift.certainty is Certainty.AT_LOAD)


class Shared(Struct, frozen=True, kw_only=True):
    """One object that is loaded, and the classes that it shares with any torch.

    ``touches`` are the places where it shares a class, by class; ``registrations`` are None for an object that
    registers nothing; ``candidates`` are the releases that it may have been built for, oldest first; ``cxx11`` is its
    ``std::string``, None if that is unknown.
    """

    name: str
    machine: Machine
    classes: tuple[CxxClass, ...]
    touches: Mapping[str, tuple[Touch, ...]]
    registrations: Registrations | None
    candidates: tuple[TorchVersion, ...]
    cxx11: bool | None = None


def shared(
    name: str,
    facts: SharedObject,
    classes: tuple[CxxClass, ...],
    registrations: Registrations | None,
    candidates: tuple[TorchVersion, ...],
) -> Shared:
    """The classes that an object shares with torch.

    :param classes: the classes whose type information it contains
    """
    touches_by_type: dict[str, list[Touch]] = defaultdict(list)
    for touch in touches(filter(is_torch_symbol, sorted(facts.imports)), _functions(facts), classes):
        touches_by_type[touch.type].append(touch)
    return Shared(
        name=name,
        machine=facts.machine,
        classes=classes,
        touches={type_: tuple(type_touches) for type_, type_touches in touches_by_type.items()},
        registrations=registrations,
        candidates=candidates,
        cxx11=string_abi.of_names(facts.imports),
    )


def layout_drift(shared: Shared, target: TorchLayouts) -> LayoutDrift | None:
    """The differences between the torch that an object was built for and another; None if it shares no class.

    If it is unknown what the object was built for, so is how the classes were laid out that registrations pass.

    :param target: the layouts of the other torch
    """
    machine = shared.machine
    candidates = _fitting(
        shared, [str(release) for release in shared.candidates if layouts.is_known(str(release), machine)]
    )
    if not candidates:
        passed = tuple(name for name in CROSSING if _passed_at_load(shared, name))
        return _undecided(shared, passed) if passed else None
    uncompared = tuple(_uncompared(shared, candidates, target))
    readings = [_types(shared, candidate, target, uncompared) for candidate in candidates]
    unknown = sorted(_unknown(shared, candidates[-1], target), key=lambda name: not _passed_at_load(shared, name))
    # Only differences from every release that it may have been built for are certain; the newest is the likeliest.
    certain = {name for name in readings[-1] if all(name in reading for reading in readings)}
    harmful = {name for reading in readings for name, drift in reading.items() if drift.certainty in _HARMFUL}
    return LayoutDrift(
        name=shared.name,
        built_for=candidates[-1],
        candidates=tuple(candidates),
        types=tuple(drift for name, drift in sorted(readings[-1].items()) if name in certain),
        tables=tuple(_tables(shared, candidates, target)),
        doubts=tuple(sorted(harmful - certain)),
        unknown=tuple(unknown),
        unknown_at_load=tuple(name for name in (*unknown, *uncompared) if _passed_at_load(shared, name)),
        why_unknown=next((why for name in unknown if (why := target.gap_of(name))), None),
        basis=target.basis,
        compared=tuple(_compared(shared, candidates[-1], target)) if target.basis else (),
        compiled=tuple(_compiled(shared, candidates[-1], target)),
        uncompared=uncompared,
    )


def _undecided(shared: Shared, passed: tuple[str, ...]) -> LayoutDrift:
    return LayoutDrift(
        name=shared.name,
        built_for="(unknown)",
        candidates=(),
        types=(),
        tables=(),
        doubts=(),
        unknown=passed,
        unknown_at_load=passed,
    )


def _compared(shared: Shared, built_for: str, target: TorchLayouts) -> Iterator[tuple[str, str]]:
    """The classes whose layout in ``target`` is known from a release, with that release."""
    for name in sorted(shared.touches):
        release = target.release_of(name)
        if release is not None and layouts.layout(name, built_for, shared.machine) is not None:
            yield name, release


def _compiled(shared: Shared, built_for: str, target: TorchLayouts) -> Iterator[str]:
    """The classes whose layout in ``target`` was read from its headers."""
    for name in sorted(shared.touches):
        if (
            target.release_of(name) is None
            and target.source_of(name)
            and layouts.layout(name, built_for, shared.machine) is not None
        ):
            yield name


def _unknown(shared: Shared, built_for: str, target: TorchLayouts) -> Iterator[str]:
    """The classes that an object shares with torch, bases of its own among them, whose layout there is unknown."""
    for name in sorted(shared.touches):
        if target.source_of(name) is None and layouts.layout(name, built_for, shared.machine) is not None:
            yield name


def _uncompared(shared: Shared, candidates: Sequence[str], target: TorchLayouts) -> Iterator[str]:
    """The classes with a ``std::string``, if no release that the object may be built for has the object's.

    With the string of another torch, it does not load there anyway.
    """
    if shared.cxx11 is None or shared.cxx11 is not target.string:
        return
    if shared.cxx11 not in (embedded.uses_cxx11_strings(candidate, shared.machine) for candidate in candidates):
        yield from (name for name in sorted(shared.touches) if _holds_string(name, candidates[-1], shared.machine))


def _holds_string(name: str, release: str, machine: Machine, seen: frozenset[str] = frozenset()) -> bool:
    layout = layouts.layout(name, release, machine) if name not in seen else None
    if layout is None:
        return False
    types = [base.name for base in layout.bases] + [field.type for field in layout.fields]
    return any(
        _STRING.search(type_)
        or any(_holds_string(part, release, machine, seen | {name}) for part in _NAMES.findall(type_))
        for type_ in types
        if not _ELSEWHERE.search(type_)
    )


def _passed_at_load(shared: Shared, name: str) -> bool:
    ways = {touch.use for touch in shared.touches.get(name, ())}
    return name in CROSSING and bool(ways & {*_PASSES}) and _crosses_at_load(name, shared.registrations)


_HARMFUL: Final = (Certainty.AT_LOAD, Certainty.ON_USE)


def _functions(facts: SharedObject) -> Iterable[str]:
    prefixes = ("_ZN2at", "_ZNK2at", "_ZN3c10", "_ZNK3c10", "_ZN5torch", "_ZNK5torch", "_ZNKR3c10", "_ZNO3c10")
    return sorted({name for prefix in prefixes for name in facts.symbols.starting_with(prefix)})


def _fitting(shared: Shared, candidates: Sequence[str]) -> list[str]:
    """The releases that match the object's own virtual tables and the objects it creates; all if none match."""
    machine, debug_offset = shared.machine, shared.registrations.debug_at if shared.registrations else None
    fitting = [
        release
        for release in candidates
        if all(_agrees(cxx_class, release, machine) for cxx_class in shared.classes)
        and debug_offset in (None, _debug_at(release, machine))
    ]
    return fitting or list(candidates)


def _debug_at(release: str, machine: Machine) -> int | None:
    function = layouts.layout("torch::CppFunction", release, machine)
    return next((field.offset for field in function.fields if field.name == "debug_"), None) if function else None


def _agrees(cxx_class: CxxClass, release: str, machine: Machine) -> bool:
    # Only of its primary base are there functions in the primary table, and which base that is depends on the others.
    for name in map(demangle_type, (cxx_class.name, *cxx_class.bases)):
        expected = layouts.vtable(name, release, machine)
        for slot, function in zip(cxx_class.slots, expected.slots if expected else (), strict=False):
            # If a slot is not overridden, its symbol is the function of the base class.
            function_name = _method_of(slot.symbol, name)
            if function_name is not None and function_name != method(function):
                return False
    return True


def _method_of(symbol: str | None, class_: str) -> str | None:
    """The name of the function if a symbol is a member function of a class, but not a destructor."""
    if symbol is None:
        return None
    parts = class_.split("::")
    encoded = "".join(f"{len(part)}{part}" for part in parts)
    for prefix in (f"_ZN{encoded}", f"_ZNK{encoded}"):
        rest = symbol.removeprefix(prefix)
        digits = len(rest) - len(rest.lstrip("0123456789"))
        if rest != symbol and digits:
            return rest[digits : digits + int(rest[:digits])]
    return None


def _types(shared: Shared, built_for: str, target: TorchLayouts, uncompared: Collection[str]) -> dict[str, TypeDrift]:
    drifts = {}
    for name, class_touches in shared.touches.items():
        if name in uncompared:
            continue
        source = target.source_of(name)
        change = change_between(name, ReleaseLayouts(built_for, shared.machine), source) if source else None
        if change is None or not (change.moved or change.resized):
            continue
        certainty = _certainty(change, class_touches, shared.registrations)
        if certainty is not None:
            drifts[name] = TypeDrift(change=change, certainty=certainty, touches=class_touches)
    return drifts


def _certainty(
    change: LayoutChange, class_touches: Sequence[Touch], registrations: Registrations | None
) -> Certainty | None:
    ways = {touch.use for touch in class_touches}
    if change.name in CROSSING and ways & {*_PASSES} and _crosses_at_load(change.name, registrations):
        return Certainty.AT_LOAD
    # An object that only the extension's own code creates and uses has one layout.
    if ways & {*_ALLOCATES} - ({TypeUse.ELEMENTS} if not change.resized else set()):
        return Certainty.ON_USE
    if TypeUse.HAS_STRUCTOR in ways and ways & {*_PASSES}:
        return Certainty.ON_USE
    # If a class only grew, code that gets a pointer to it is not affected.
    return Certainty.POSSIBLE if change.moved else None


def _crosses_at_load(name: str, registrations: Registrations | None) -> bool:
    if registrations is None:
        return False
    # With the stable ABI, torch creates the object itself.
    kernels = [kernel for kernel in registrations.kernels if kernel.abi_version is None]
    kinds: dict[str, Iterable[Library | RegisteredKernel | RegisteredOperator]] = {
        "torch::Library": registrations.libraries,
        "torch::CppFunction": kernels,
        "c10::FunctionSchema": registrations.operators,
        "c10::RegisterOperators::Options": kernels,
    }
    return any(registration.phase.value != "on-call" for registration in kinds[name])


def _tables(shared: Shared, candidates: Sequence[str], target: TorchLayouts) -> Iterable[TableDrift]:
    machine = shared.machine
    derived: dict[str, list[CxxClass]] = defaultdict(list)
    for cxx_class in shared.classes:
        # A torch class that is defined in a header is not the extension's own, even if its table is in the extension.
        if cxx_class.slots and layouts.layout(demangle_type(cxx_class.name), candidates[-1], machine) is None:
            for base in cxx_class.bases[:1]:
                derived[demangle_type(base)].append(cxx_class)
    for base, classes in sorted(derived.items()):
        source = target.source_of(base)
        sources = [ReleaseLayouts(candidate, machine) for candidate in candidates] if source else []
        readings = [slots_between(base, candidate, source) for candidate in sources if source]
        if readings and all(readings):
            yield TableDrift(
                base=base,
                derived=tuple(classes),
                misplaced=tuple(change for change in readings[-1] if change.old is not None),
                missing=tuple(change for change in readings[-1] if change.old is None),
            )


def crash(drifts: Iterable[LayoutDrift], target: str | None) -> LoadError | None:
    """The error of a load that passes objects with a different layout: undefined, so the message only says why."""
    for drift in drifts:
        for type_drift in drift.at_load:
            change = type_drift.change
            difference = f"{change.old.size} → {change.new.size} bytes" if change.resized else change.differences[0]
            versions = f"between torch {drift.built_for}, which {drift.name} was built for, and {target}"
            return LoadError(
                object=None, message=f"{change.name} changed {versions}: {difference}", aborts=True, exact=False
            )
    return None
