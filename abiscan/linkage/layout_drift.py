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
from abiscan.linkage.shared_types import CLASS_MAP, TYPE_KIND, Touch, TypeUse, find_touches, made_type
from abiscan.regex import regex
from abiscan.torches import embedded, layouts, string_abi
from abiscan.torches.layout_changes import LayoutChange, SlotChange, change_between, method_name, slots_between
from abiscan.torches.layouts import ReleaseLayouts
from abiscan.torches.torch_layouts import TorchLayouts

if TYPE_CHECKING:
    from abiscan.binary.elf import SharedObject
    from abiscan.binary.typeinfo import CxxClass
    from abiscan.registrations import CustomClass, Library, RegisteredKernel, RegisteredOperator, Registrations

_STRING: Final = regex(r"\bbasic_string\b|\bstd::list\b")
"""What differs between the two: _GLIBCXX_USE_CXX11_ABI is also about lists."""

_ELSEWHERE: Final = regex(
    r"^(?:std::(?:vector|unique_ptr|shared_ptr|weak_ptr|function|(?:unordered_)?(?:map|set))|c10::intrusive_ptr)<|[*&]$"
)
"""Types of members that have the same size whatever they refer to."""

_NAMES: Final = regex(r"(?:\w+::)+\w+")

CROSSING: Final = (
    *("torch::CppFunction", "c10::FunctionSchema", "torch::Library", "c10::RegisterOperators::Options"),
    *("c10::optional<c10::DispatchKey>", "c10::detail::infer_schema::ArgumentDef", TYPE_KIND, CLASS_MAP),
)
"""What is passed to torch with each registration, by torch/library.h, its predecessor, and torch/custom_class.h."""

_CONTAINER: Final = regex(r"8optionalI|8ArrayRefI|St6vectorI|4ListI|4DictI|St5tuple|St13unordered_map")
"""In the C++ type of a kernel: what torch has types for that inlined code makes."""

_ALLOCATES: Final = (TypeUse.CONSTRUCTS, TypeUse.BY_VALUE, TypeUse.ELEMENTS, TypeUse.DERIVES)
_PASSES: Final = (TypeUse.CONSTRUCTS, TypeUse.BY_VALUE, TypeUse.ELEMENTS, TypeUse.REFERS)


class Certainty(enum.Enum):
    """When a difference is harmful."""

    AT_LOAD = "when it is loaded"
    ON_USE = "when it is used"
    POSSIBLE = "if inlined code reads a member that moved"


class TypeDrift(Struct, frozen=True, kw_only=True):
    """A class that the extension shares with torch, with a different layout in this torch.

    :ivar change: both layouts, and how they differ
    :ivar certainty: when that is harmful
    :ivar touches: where the extension shares the class
    """

    change: LayoutChange
    certainty: Certainty
    touches: tuple[Touch, ...]


class TableDrift(Struct, frozen=True, kw_only=True):
    """A class of torch whose vtable has other functions in its slots in this torch.

    :ivar base: the class
    :ivar derived: the extension's classes that derive from it
    :ivar misplaced: slots in which the extension's vtables have a different function than torch calls
    :ivar missing: slots past the end of the extension's vtables
    """

    base: str
    derived: tuple[CxxClass, ...]
    misplaced: tuple[SlotChange, ...]
    missing: tuple[SlotChange, ...]


class LayoutDrift(Struct, frozen=True, kw_only=True):
    """All differences between the layouts of one object and those of this torch.

    :ivar name: the base name of the object
    :ivar built_for: the likeliest release that it was built for, the newest of ``candidates``
    :ivar candidates: the releases that it may have been built for, oldest first
    :ivar types: the classes whose layout differs, whichever of the candidates it was built for
    :ivar tables: the classes whose vtable differs
    :ivar doubts: classes that may differ, depending on which candidate it was built for
    :ivar unknown: the shared classes whose layout in this torch is unknown
    :ivar unknown_at_load: those of them that are passed with registrations while the object is loaded
    :ivar why_unknown: why no compiler laid out the unknown classes from torch's headers; None if there is no reason
    :ivar basis: why its layouts are those of releases, if this torch is not embedded; else None
    :ivar compared: with a basis, the classes for which this matters, each with the release that stands in
    :ivar compiled: the classes that a compiler laid out from torch's headers
    :ivar uncompared: shared classes with a ``std::string`` in them, if the object was compiled with a ``std::string``
        that no known build of those releases has
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


class SharedClasses(Struct, frozen=True, kw_only=True):
    """One object that is loaded, and the classes that it shares with any torch.

    :ivar name: the base name of the object
    :ivar machine: the machine that it is for
    :ivar classes: the classes whose type information it contains
    :ivar touches: the places where it shares a class, by class
    :ivar registrations: what it registers; None for an object that registers nothing
    :ivar candidates: the releases that it may have been built for, oldest first
    :ivar cxx11: whether its ``std::string`` is that of C++11; None if that is unknown
    """

    name: str
    machine: Machine
    classes: tuple[CxxClass, ...]
    touches: Mapping[str, tuple[Touch, ...]]
    registrations: Registrations | None
    candidates: tuple[TorchVersion, ...]
    cxx11: bool | None = None


def collect_shared(
    name: str,
    facts: SharedObject,
    classes: tuple[CxxClass, ...],
    registrations: Registrations | None,
    candidates: tuple[TorchVersion, ...],
) -> SharedClasses:
    """Collect the classes that an object shares with torch.

    :param classes: the classes whose type information it contains
    """
    touches_by_type: dict[str, list[Touch]] = defaultdict(list)
    for touch in find_touches(filter(is_torch_symbol, sorted(facts.imports)), _torch_functions(facts), classes):
        touches_by_type[touch.type].append(touch)
    return SharedClasses(
        name=name,
        machine=facts.machine,
        classes=classes,
        touches={type_: tuple(type_touches) for type_, type_touches in touches_by_type.items()},
        registrations=registrations,
        candidates=candidates,
        cxx11=string_abi.of_names(facts.imports),
    )


def compare_layouts(shared: SharedClasses, target: TorchLayouts) -> LayoutDrift | None:
    """Compare the torch that an object was built for with another; return None if it shares no class.

    If it is unknown what the object was built for, so is how the classes were laid out that registrations pass.

    :param target: the layouts of the other torch
    """
    machine = shared.machine
    # Each candidate is read as if it were the one that the object was built for. What differs in all of these readings
    # is certain; what differs in some of them is a doubt.
    candidates = _matching_releases(
        shared, [str(release) for release in shared.candidates if layouts.is_known(str(release), machine)]
    )
    if not candidates:
        passed = tuple(name for name in CROSSING if _is_class(name) and _passed_at_load(shared, name))
        return _drift_of_unknown_build(shared, passed) if passed else None
    uncompared = tuple(_classes_uncompared(shared, candidates, target))
    readings = [_drifts_of_types(shared, candidate, target, uncompared) for candidate in candidates]
    unknown = sorted(
        _classes_unknown(shared, candidates[-1], target), key=lambda name: not _passed_at_load(shared, name)
    )
    # Only differences from every release that it may have been built for are certain; the newest is the likeliest.
    certain = {name for name in readings[-1] if all(name in reading for reading in readings)}
    harmful = {name for reading in readings for name, drift in reading.items() if drift.certainty in _HARMFUL}
    return LayoutDrift(
        name=shared.name,
        built_for=candidates[-1],
        candidates=tuple(candidates),
        types=tuple(drift for name, drift in sorted(readings[-1].items()) if name in certain),
        tables=tuple(_drifts_of_tables(shared, candidates, target)),
        doubts=tuple(sorted(harmful - certain)),
        unknown=tuple(unknown),
        unknown_at_load=tuple(name for name in (*unknown, *uncompared) if _passed_at_load(shared, name)),
        why_unknown=next((why for name in unknown if (why := target.gap_of(name))), None),
        basis=target.basis,
        compared=tuple(_classes_compared(shared, candidates[-1], target)) if target.basis else (),
        compiled=tuple(_classes_compiled(shared, candidates[-1], target)),
        uncompared=uncompared,
    )


def _drift_of_unknown_build(shared: SharedClasses, passed: tuple[str, ...]) -> LayoutDrift:
    """Return the drift of an object of which it is unknown what it was built for."""
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


def _classes_compared(shared: SharedClasses, built_for: str, target: TorchLayouts) -> Iterator[tuple[str, str]]:
    """Yield the classes whose layout in ``target`` is known from a release, with that release."""
    for name in sorted(shared.touches):
        release = target.release_of(name)
        if release is not None and layouts.find_layout(name, built_for, shared.machine) is not None:
            yield name, release


def _classes_compiled(shared: SharedClasses, built_for: str, target: TorchLayouts) -> Iterator[str]:
    """Yield the classes whose layout in ``target`` was read from its headers."""
    for name in sorted(shared.touches):
        if (
            target.release_of(name) is None
            and target.source_of(name)
            and layouts.find_layout(name, built_for, shared.machine) is not None
        ):
            yield name


def _classes_unknown(shared: SharedClasses, built_for: str, target: TorchLayouts) -> Iterator[str]:
    """Yield the shared classes, bases of the object's own among them, whose layout in ``target`` is unknown."""
    for name in sorted(shared.touches):
        if (
            _is_class(name)
            and target.source_of(name) is None
            and layouts.find_layout(name, built_for, shared.machine) is not None
        ):
            yield name


def _classes_uncompared(shared: SharedClasses, candidates: Sequence[str], target: TorchLayouts) -> Iterator[str]:
    """Yield the classes with a ``std::string``, if no release that the object may be built for has the object's.

    With the string of another torch, it does not load there anyway.
    """
    if shared.cxx11 is None or shared.cxx11 is not target.string:
        return
    if shared.cxx11 not in (embedded.uses_cxx11_strings(candidate, shared.machine) for candidate in candidates):
        yield from (name for name in sorted(shared.touches) if _holds_string(name, candidates[-1], shared.machine))


def _is_class(name: str) -> bool:
    """Tell whether headers declare it as a class: only then a torch that is not embedded has a layout of it."""
    return name not in (TYPE_KIND, CLASS_MAP) and "<" not in name


def _holds_string(name: str, release: str, machine: Machine, seen: frozenset[str] = frozenset()) -> bool:
    """Tell whether an object of a class has a ``std::string`` inside, and not behind a pointer."""
    layout = layouts.find_layout(name, release, machine) if name not in seen else None
    if layout is None:
        return False
    types = [base.name for base in layout.bases] + [field.type for field in layout.fields]
    return any(
        _STRING.search(type_)
        or any(_holds_string(part, release, machine, seen | {name}) for part in _NAMES.findall(type_))
        for type_ in types
        if not _ELSEWHERE.search(type_)
    )


def _passed_at_load(shared: SharedClasses, name: str) -> bool:
    """Tell whether objects of a class are passed to torch while the object is loaded."""
    uses = {touch.use for touch in shared.touches.get(name, ())}
    return name in CROSSING and bool(uses & {*_PASSES}) and _crosses_at_load(name, shared.registrations)


_HARMFUL: Final = (Certainty.AT_LOAD, Certainty.ON_USE)


def _torch_functions(facts: SharedObject) -> Iterable[str]:
    """List the torch functions that an object defines: inline code of headers, compiled into it."""
    # Itanium C++ ABI, <nested-name>: N [<CV-qualifiers>] [<ref-qualifier>] <prefix>; K is const, R and O are & and &&.
    prefixes = ("_ZN2at", "_ZNK2at", "_ZN3c10", "_ZNK3c10", "_ZN5torch", "_ZNK5torch", "_ZNKR3c10", "_ZNO3c10")
    return sorted(facts.symbols.starting_with(*prefixes))


def _matching_releases(shared: SharedClasses, candidates: Sequence[str]) -> list[str]:
    """Keep the releases that match the object's own vtables and the objects that it creates; keep all if none match."""
    machine, debug_offset = shared.machine, shared.registrations.debug_at if shared.registrations else None
    fitting = [
        release
        for release in candidates
        if all(_matches_vtable(cxx_class, release, machine) for cxx_class in shared.classes)
        and debug_offset in (None, _debug_at(release, machine))
    ]
    return fitting or list(candidates)


def _debug_at(release: str, machine: Machine) -> int | None:
    """Return the offset of ``torch::CppFunction::debug_`` in a release, in bytes; None if that is unknown."""
    function = layouts.find_layout("torch::CppFunction", release, machine)
    return next((field.offset for field in function.fields if field.name == "debug_"), None) if function else None


def _matches_vtable(cxx_class: CxxClass, release: str, machine: Machine) -> bool:
    """Tell whether a class of the object has torch's functions in the slots that a release has them in."""
    for mangled, slots in ((cxx_class.name, cxx_class.slots), *cxx_class.tables):
        name = demangle_type(mangled)
        expected = layouts.find_vtable(name, release, machine)
        for slot, function in zip(slots, expected.slots if expected else (), strict=False):
            # If a slot is not overridden, its symbol is the function of the base class.
            function_name = _method_of(slot.symbol, name)
            if function_name is not None and function_name != method_name(function):
                return False
    return True


def _method_of(symbol: str | None, class_: str) -> str | None:
    """Return the name of the member function that a symbol is; None if it is a destructor, or of another class."""
    if symbol is None:
        return None
    parts = class_.split("::")
    # Itanium C++ ABI: a <source-name> is its length in decimal, then the identifier. Destructors are D0 to D2 instead,
    # so they have no digits here.
    encoded = "".join(f"{len(part)}{part}" for part in parts)
    for prefix in (f"_ZN{encoded}", f"_ZNK{encoded}"):
        encoded_name = symbol.removeprefix(prefix)
        digits = len(encoded_name) - len(encoded_name.lstrip("0123456789"))
        if encoded_name != symbol and digits:
            return encoded_name[digits : digits + int(encoded_name[:digits])]
    return None


def _drifts_of_types(
    shared: SharedClasses, built_for: str, target: TorchLayouts, uncompared: Collection[str]
) -> dict[str, TypeDrift]:
    """Compare the layout of each shared class in a release with that in ``target``: the drifts by class."""
    drifts = {}
    for name, class_touches in shared.touches.items():
        if name in uncompared:
            continue
        source = target.source_of(name)
        change = change_between(name, ReleaseLayouts(built_for, shared.machine), source) if source else None
        if change is None or not (change.moved or change.resized):
            continue
        touches = tuple(_touches_of_kinds(class_touches, change)) if name == TYPE_KIND else class_touches
        certainty = _decide_certainty(change, touches, shared.registrations)
        if certainty is not None:
            drifts[name] = TypeDrift(change=change, certainty=certainty, touches=touches)
    return drifts


def _touches_of_kinds(touches: Iterable[Touch], change: LayoutChange) -> Iterator[Touch]:
    """Yield where the object makes types whose number has changed."""
    old, new = ({field.name: field.offset for field in layout.fields} for layout in (change.old, change.new))
    for touch in touches:
        kind = made_type(touch.symbol) or ""
        if old.get(kind) != new.get(kind):
            yield touch


def _decide_certainty(
    change: LayoutChange, class_touches: Sequence[Touch], registrations: Registrations | None
) -> Certainty | None:
    """Decide when a change of layout is harmful, from the way the object uses the class; return None if never."""
    uses = {touch.use for touch in class_touches}
    if not uses:
        return None
    if change.name in CROSSING and uses & {*_PASSES} and _crosses_at_load(change.name, registrations):
        return Certainty.AT_LOAD
    # An object that only the extension's own code creates and uses has one layout.
    if uses & {*_ALLOCATES} - ({TypeUse.ELEMENTS} if not change.resized else set()):
        return Certainty.ON_USE
    # The extension compiled the constructor in, so it lays objects out itself; that harms once torch gets one.
    if TypeUse.HAS_STRUCTOR in uses and uses & {*_PASSES}:
        return Certainty.ON_USE
    # If a class only grew, code that gets a pointer to it is not affected.
    return Certainty.POSSIBLE if change.moved else None


def _crosses_at_load(name: str, registrations: Registrations | None) -> bool:
    """Tell whether a registration while the object is loaded passes an object of a class to torch."""
    if registrations is None:
        return False
    # With the stable ABI, torch creates the object itself.
    kernels = [kernel for kernel in registrations.kernels if kernel.abi_version is None]
    kinds: dict[str, Iterable[Library | RegisteredKernel | RegisteredOperator | CustomClass]] = {
        "torch::Library": registrations.libraries,
        "torch::CppFunction": kernels,
        "c10::FunctionSchema": (*registrations.operators, *registrations.classes),
        "c10::detail::infer_schema::ArgumentDef": (
            *(kernel for kernel in kernels if kernel.signature),
            *registrations.classes,
        ),
        "c10::RegisterOperators::Options": kernels,
        "c10::optional<c10::DispatchKey>": [library for library in registrations.libraries if not library.stable],
        # Torch compares the schema that it infers from a kernel with that of the operator.
        TYPE_KIND: [kernel for kernel in kernels if kernel.signature and _CONTAINER.search(kernel.signature)],
        CLASS_MAP: registrations.classes,
    }
    return any(registration.phase.value != "on-call" for registration in kinds[name])


def _drifts_of_tables(shared: SharedClasses, candidates: Sequence[str], target: TorchLayouts) -> Iterable[TableDrift]:
    """Yield the bases whose vtable differs between the release of every candidate and ``target``."""
    machine = shared.machine
    derived: dict[str, list[CxxClass]] = defaultdict(list)
    for cxx_class in shared.classes:
        # A torch class that is defined in a header is not the extension's own, even if its table is in the extension.
        if cxx_class.slots and layouts.find_layout(demangle_type(cxx_class.name), candidates[-1], machine) is None:
            for base in dict.fromkeys(table.base for table in cxx_class.tables if table.slots):
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


def predict_crash(drifts: Iterable[LayoutDrift], target: str | None) -> LoadError | None:
    """Predict the error of a load that passes objects with a different layout; return None if nothing is passed.

    The behaviour is undefined, so the message only says why.
    """
    for drift in drifts:
        for type_drift in drift.at_load:
            change = type_drift.change
            difference = f"{change.old.size} → {change.new.size} bytes" if change.resized else change.differences[0]
            versions = f"between torch {drift.built_for}, which {drift.name} was built for, and {target}"
            return LoadError(
                object=None, message=f"{change.name} changed {versions}: {difference}", aborts=True, exact=False
            )
    return None
