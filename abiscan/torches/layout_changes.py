"""What changed in a class of torch from one release to another, for code that was compiled with its old layout."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from abiscan.binary.elf import Machine
from abiscan.torches.layouts import Field, Layout, classes, layout, vtable

_DEEPEST: Final = 8  # classes inside of classes
_HOLDING: Final = re.compile(
    r"(?:std::(?:vector|array|deque|list|optional)|c10::(?:optional|SmallVector))<([\w:]+)[,>]"
)
_COUNT: Final = re.compile(r"(?:std::atomic<)?(?:unsigned |signed )?(?:int|long|short|size_t|u?int\d+_t)\b")
_WORD: Final = 8


class LayoutChange(NamedTuple):
    """A class whose memory layout changed.

    ``differences`` says it field by field, in the order of the new layout. ``moved`` tells that something which the old
    layout has is elsewhere or of another size, or gone; without it, the class only gained members where the old layout
    has none.
    """

    old: Layout
    new: Layout
    differences: tuple[str, ...]
    moved: bool

    @property
    def name(self) -> str:
        """Of the class."""
        return self.new.name

    @property
    def resized(self) -> bool:
        """Whether the class has another size."""
        return self.old.size != self.new.size


class SlotChange(NamedTuple):
    """Another function in slot ``number`` of a vtable: ``old``, now ``new``; None for no such slot."""

    number: int
    old: str | None
    new: str | None


@functools.lru_cache(maxsize=16_384)
def layout_change(name: str, old: str, new: str, machine: Machine) -> LayoutChange | None:
    """What changed in a class; None for nothing, or where one of the releases has no such class.

    :param old: a release number, like ``new``
    """
    return _change(name, old, new, machine, _DEEPEST)


@functools.lru_cache(maxsize=256)
def layout_changes(old: str, new: str, machine: Machine) -> dict[str, LayoutChange]:
    """All classes that both releases have and that changed, by name."""
    found = (layout_change(known.name, old, new, machine) for known in classes(old, machine))
    return {change.name: change for change in found if change is not None}


@functools.lru_cache(maxsize=16_384)
def slot_changes(name: str, old: str, new: str, machine: Machine) -> tuple[SlotChange, ...]:
    """The slots of a class through which another function is called, lowest first; none if one release has no such."""
    before, after = vtable(name, old, machine), vtable(name, new, machine)
    if before is None or after is None:
        return ()
    length = max(len(before.slots), len(after.slots))
    pairs = zip(_filled(before.slots, length), _filled(after.slots, length), strict=True)
    changes = (SlotChange(number, was, now) for number, (was, now) in enumerate(pairs))
    return tuple(change for change in changes if method(change.old) != method(change.new))


def _filled(slots: tuple[str, ...], length: int) -> list[str | None]:
    return [*slots, *(None for _ in range(length - len(slots)))]


def method(slot: str | None) -> str | None:
    """The unqualified name of the virtual function in a slot: ``exchangeDevice``; ``~ [deleting]`` for a destructor.

    How parameters and results are spelled differs from release to release without meaning anything.
    """
    if slot is None or slot.startswith("~"):
        return slot
    return slot.partition("(")[0].rpartition("::")[2]


def _change(name: str, old: str, new: str, machine: Machine, depth: int) -> LayoutChange | None:
    before, after = layout(name, old, machine), layout(name, new, machine)
    if before is None or after is None or not depth:
        return None
    old_fields, new_fields = _flat(before, old, machine), _flat(after, new, machine)
    found = list(_differences(old_fields, new_fields)) if old_fields != new_fields else []
    for field in old_fields.values():
        held = _HOLDING.match(field.type)
        type_ = held[1] if held else field.type
        if change := _change(type_, old, new, machine, depth - 1):
            moved = change.moved or (held is not None and change.resized)
            # That the member itself has another size is said already.
            inner = change.differences[1:] if change.resized and held is None else change.differences
            found += ((f"{field.name} ({type_}): {text}", moved) for text in inner)
    if before.align != after.align:
        found.insert(0, (f"aligned to {before.align} → {after.align} bytes", True))
    if before.size != after.size:
        found.insert(0, (f"{before.size} → {after.size} bytes", False))
    if not found:
        return None
    return LayoutChange(before, after, tuple(text for text, _ in found), any(moved for _, moved in found))


def _flat(of: Layout, release: str, machine: Machine, at: int = 0) -> dict[str, Field]:
    """The members of a class by name, those of its bases among them; a base of which nothing is known is one member."""
    fields: dict[str, Field] = {}
    for base in of.bases:
        known = layout(base.name, release, machine)
        inner = _flat(known, release, machine, at + base.offset) if known else {}
        fields.update(inner or {base.name: Field(base.name, at + base.offset, base.name, None)})
    fields.update((field.name, field._replace(offset=at + field.offset)) for field in of.fields)
    return fields


def _differences(old: dict[str, Field], new: dict[str, Field]) -> Iterator[tuple[str, bool]]:
    """What differs in the members, each with whether something moved."""
    renamed = _renamed(old, new)
    for name, field in new.items():
        if name in old:
            yield from _difference(old[name], field)
        elif name not in renamed.values():
            yield f"{name} ({field.type}) is new at {field.offset}", False
    kept = {field.offset for name, field in new.items() if old.get(name) == field}
    counts = {field.offset for name, field in new.items() if name not in old and _COUNT.match(field.type)}
    for name, field in old.items():
        if name not in new and name not in renamed:
            # A union that loses a member keeps the others where they were; counters that are put together stay, too.
            stays = field.offset in kept and _bits(field) is None
            merged = _COUNT.match(field.type) is not None and any(0 <= field.offset - at < _WORD for at in counts)
            yield f"{name} ({field.type}) at {field.offset} is gone", not (stays or merged)


def _difference(old: Field, new: Field) -> Iterator[tuple[str, bool]]:
    if old.size != new.size and old.size is not None and new.size is not None:
        yield f"{new.name} ({new.type}): {old.size} → {new.size} bytes", True
    elif (old.size is None) != (new.size is None):
        yield f"{new.name}: {old.type} → {new.type}", False
    if old.offset != new.offset:
        yield f"{new.name} moved from {old.offset} to {new.offset}", True
    elif _bits(old) != _bits(new):
        yield f"{new.name} moved from bits {_bits(old)} to {_bits(new)} of byte {new.offset}", True


def _bits(field: Field) -> str | None:
    """Which bits of its byte a bit-field takes."""
    return field.type.partition(" : ")[2] or None


def _renamed(old: dict[str, Field], new: dict[str, Field]) -> dict[str, str]:
    """Members that only have another name: of the same type or size, at the same place."""
    places = {(field.offset, _bits(field)): field for name, field in new.items() if name not in old}
    found = {}
    for name, field in old.items():
        now = places.get((field.offset, _bits(field)))
        if name not in new and now is not None and (now.type == field.type or now.size == field.size is not None):
            found[name] = now.name
    return found
