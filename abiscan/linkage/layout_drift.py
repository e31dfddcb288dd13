"""Classes that an extension shares with torch, but was compiled with a different layout for.

No symbol shows it: everything resolves, and one side writes where the other does not look, or past the end of what the
other has allocated.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from abiscan.binary.elf import Machine
from abiscan.binary.mangling import demangle_type
from abiscan.binary.ownership import is_torch_symbol
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.model import LoadError
from abiscan.linkage.shared_types import Touch, TypeUse, touches
from abiscan.torches import layouts
from abiscan.torches.layout_changes import LayoutChange, SlotChange, layout_change, method, slot_changes

if TYPE_CHECKING:
    from abiscan.binary.elf import SharedObject
    from abiscan.binary.typeinfo import CxxClass
    from abiscan.emulation.model import Library, RegisteredKernel, RegisteredOperator, Registrations

CROSSING: Final = ("torch::CppFunction", "c10::FunctionSchema", "torch::Library", "c10::RegisterOperators::Options")
"""The classes of which an object crosses the border with each registration: what torch/library.h makes, and before."""

_ALLOCATES: Final = (TypeUse.CONSTRUCTS, TypeUse.BY_VALUE, TypeUse.ELEMENTS, TypeUse.DERIVES)
_PASSES: Final = (TypeUse.CONSTRUCTS, TypeUse.BY_VALUE, TypeUse.ELEMENTS, TypeUse.REFERS)


class Certainty(enum.Enum):
    """When a difference does harm."""

    AT_LOAD = "when it is loaded"
    ON_USE = "when it is used"
    POSSIBLE = "if inlined code reads a member that moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeDrift:
    """A class that the extension shares with torch, with a different layout in this torch."""

    change: LayoutChange
    certainty: Certainty
    touches: tuple[Touch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDrift:
    """A class of torch, the base of ``derived``, with other functions in the slots of its vtable in this torch.

    ``misplaced`` are slots in which the extension's vtables have a different function than torch calls; ``missing`` are
    those past the end of its vtables.
    """

    base: str
    derived: tuple[CxxClass, ...]
    misplaced: tuple[SlotChange, ...]
    missing: tuple[SlotChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutDrift:
    """All of it for one object, ``name``, built for the torch ``built_for``.

    ``doubts`` are classes of which it depends on what the object was built for, of ``candidates``, whether they differ.
    """

    name: str
    built_for: str
    candidates: tuple[str, ...]
    types: tuple[TypeDrift, ...]
    tables: tuple[TableDrift, ...]
    doubts: tuple[str, ...]

    @property
    def at_load(self) -> tuple[TypeDrift, ...]:
        """What does harm as the object is loaded."""
        return tuple(drift for drift in self.types if drift.certainty is Certainty.AT_LOAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """One object that is loaded, and what it shares with torch, whichever that is.

    ``touches`` are the places where it shares a class, by class; ``registrations`` are None for an object that
    registers nothing, ``candidates`` the releases that it can have been built for, oldest first.
    """

    name: str
    machine: Machine
    classes: tuple[CxxClass, ...]
    touches: Mapping[str, tuple[Touch, ...]]
    registrations: Registrations | None
    candidates: tuple[TorchVersion, ...]


def shared(
    name: str,
    facts: SharedObject,
    classes: tuple[CxxClass, ...],
    registrations: Registrations | None,
    candidates: tuple[TorchVersion, ...],
) -> Shared:
    """What an object shares with torch.

    :param classes: those whose type information it has
    """
    found: dict[str, list[Touch]] = defaultdict(list)
    for touch in touches(filter(is_torch_symbol, sorted(facts.imports)), _functions(facts), classes):
        found[touch.type].append(touch)
    return Shared(
        name=name,
        machine=facts.machine,
        classes=classes,
        touches={type_: tuple(each) for type_, each in found.items()},
        registrations=registrations,
        candidates=candidates,
    )


def layout_drift(shared: Shared, target: str) -> LayoutDrift | None:
    """What differs between the torch that an object was built for and another; None where the layouts are not known.

    :param target: the release number of the other
    """
    machine = shared.machine
    candidates = _fitting(shared, [str(each) for each in shared.candidates if layouts.is_known(str(each), machine)])
    if not candidates or not layouts.is_known(target, machine):
        return None
    readings = [_types(shared, candidate, target) for candidate in candidates]
    # What is said holds for every release that it can have been built for; the newest of them is the likeliest.
    certain = {name for name in readings[-1] if all(name in reading for reading in readings)}
    harmful = {name for reading in readings for name, drift in reading.items() if drift.certainty in _HARMFUL}
    return LayoutDrift(
        name=shared.name,
        built_for=candidates[-1],
        candidates=tuple(candidates),
        types=tuple(drift for name, drift in sorted(readings[-1].items()) if name in certain),
        tables=tuple(_tables(shared, candidates, target)),
        doubts=tuple(sorted(harmful - certain)),
    )


_HARMFUL: Final = (Certainty.AT_LOAD, Certainty.ON_USE)


def _functions(facts: SharedObject) -> Iterable[str]:
    prefixes = ("_ZN2at", "_ZNK2at", "_ZN3c10", "_ZNK3c10", "_ZN5torch", "_ZNK5torch", "_ZNKR3c10", "_ZNO3c10")
    return sorted({name for prefix in prefixes for name in facts.symbols.starting_with(prefix)})


def _fitting(shared: Shared, candidates: Sequence[str]) -> list[str]:
    """The releases that the object itself agrees with, by its virtual tables and by what it makes; all if none do."""
    machine, made = shared.machine, shared.registrations.debug_at if shared.registrations else None
    fitting = [
        each
        for each in candidates
        if all(_agrees(own, each, machine) for own in shared.classes) and made in (None, _debug_at(each, machine))
    ]
    return fitting or list(candidates)


def _debug_at(release: str, machine: Machine) -> int | None:
    function = layouts.layout("torch::CppFunction", release, machine)
    return next((field.offset for field in function.fields if field.name == "debug_"), None) if function else None


def _agrees(own: CxxClass, release: str, machine: Machine) -> bool:
    for base in (own.name, *own.bases[:1]):
        name = demangle_type(base)
        expected = layouts.vtable(name, release, machine)
        if expected is None or not own.slots:
            continue
        for slot, function in zip(own.slots, expected.slots, strict=False):
            # The symbol of a slot that is not overridden names the function of the base that is in it.
            named = _method_of(slot.symbol, name)
            if named is not None and named != method(function):
                return False
    return True


def _method_of(symbol: str | None, class_: str) -> str | None:
    """The name of the function if a symbol is a member function of a class, no destructor."""
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


def _types(shared: Shared, built_for: str, target: str) -> dict[str, TypeDrift]:
    drifts = {}
    for name, found in shared.touches.items():
        change = layout_change(name, built_for, target, shared.machine)
        if change is None or not (change.moved or change.resized):
            continue
        certainty = _certainty(change, found, shared.registrations)
        if certainty is not None:
            drifts[name] = TypeDrift(change=change, certainty=certainty, touches=found)
    return drifts


def _certainty(change: LayoutChange, found: Sequence[Touch], registrations: Registrations | None) -> Certainty | None:
    ways = {touch.use for touch in found}
    if change.name in CROSSING and ways & {*_PASSES} and _crosses_at_load(change.name, registrations):
        return Certainty.AT_LOAD
    # An object that only code of the extension makes and sees is laid out in one way.
    if ways & {*_ALLOCATES} - ({TypeUse.ELEMENTS} if not change.resized else set()):
        return Certainty.ON_USE
    if TypeUse.HAS_STRUCTOR in ways and ways & {*_PASSES}:
        return Certainty.ON_USE
    # A class that only grew is no harm to those who are given a pointer to it.
    return Certainty.POSSIBLE if change.moved else None


def _crosses_at_load(name: str, registrations: Registrations | None) -> bool:
    if registrations is None:
        return False
    # Through the stable ABI, torch makes the object itself.
    kernels = [kernel for kernel in registrations.kernels if kernel.abi_version is None]
    kinds: dict[str, Iterable[Library | RegisteredKernel | RegisteredOperator]] = {
        "torch::Library": registrations.libraries,
        "torch::CppFunction": kernels,
        "c10::FunctionSchema": registrations.operators,
        "c10::RegisterOperators::Options": kernels,
    }
    return any(each.phase.value != "on-call" for each in kinds[name])


def _tables(shared: Shared, candidates: Sequence[str], target: str) -> Iterable[TableDrift]:
    machine = shared.machine
    derived: dict[str, list[CxxClass]] = defaultdict(list)
    for own in shared.classes:
        # A class of torch that a header defines is not the extension's, though its table may be in it, too.
        if own.slots and layouts.layout(demangle_type(own.name), candidates[-1], machine) is None:
            for base in own.bases[:1]:
                derived[demangle_type(base)].append(own)
    for base, classes in sorted(derived.items()):
        readings = [slot_changes(base, candidate, target, machine) for candidate in candidates]
        if all(readings):
            before = layouts.vtable(base, candidates[-1], machine)
            length = len(before.slots) if before else 0
            yield TableDrift(
                base=base,
                derived=tuple(classes),
                misplaced=tuple(change for change in readings[-1] if change.number < length),
                missing=tuple(change for change in readings[-1] if change.number >= length),
            )


def crash(drifts: Iterable[LayoutDrift], target: str | None) -> LoadError | None:
    """How the load ends if it passes objects with another layout: undefined, so the message only says why."""
    for drift in drifts:
        for each in drift.at_load:
            change = each.change
            difference = f"{change.old.size} → {change.new.size} bytes" if change.resized else change.differences[0]
            where = f"between torch {drift.built_for}, which {drift.name} was built for, and {target}"
            return LoadError(
                object=None, message=f"{change.name} changed {where}: {difference}", aborts=True, exact=False
            )
    return None
