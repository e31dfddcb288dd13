"""What changed in a class of torch from one release to another, for code that was compiled with its old layout."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from abiscan.elf import Machine
from abiscan.releases.layouts import Base, Field, Layout, classes, layout, vtable

_DEEPEST: Final = 8  # classes inside of classes
_HOLDING: Final = re.compile(
    r"(?:std::(?:vector|array|deque|list|optional)|c10::(?:optional|SmallVector))<([\w:]+)[,>]"
)


class LayoutChange(NamedTuple):
    """A class that lies otherwise in memory.

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
    """Another function in slot ``number`` of a class's virtual table: ``old``, now ``new``; None for no such slot."""

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
    own = list(_own_differences(before, after)) if before != after else []
    inner = [
        (f"{where}: {text}", moved)
        for where, moved, texts in _inside(before, old, new, machine, depth)
        for text in texts
    ]
    if before.size != after.size:
        own.insert(0, (f"{before.size} → {after.size} bytes", False))
    if before.align != after.align:
        own.insert(0, (f"aligned to {before.align} → {after.align} bytes", True))
    differences = (*own, *inner)
    if not differences:
        return None
    return LayoutChange(before, after, tuple(text for text, _ in differences), any(moved for _, moved in differences))


def _inside(
    before: Layout, old: str, new: str, machine: Machine, depth: int
) -> Iterator[tuple[str, bool, tuple[str, ...]]]:
    """Changes of the classes that a class consists of, or holds many of: where, whether anything moved, what."""
    for base in before.bases:
        if change := _change(base.name, old, new, machine, depth - 1):
            yield base.name, change.moved, change.differences
    for field in before.fields:
        held = _HOLDING.match(field.type)
        type_ = held[1] if held else field.type
        if change := _change(type_, old, new, machine, depth - 1):
            yield f"{field.name} ({type_})", change.moved or (held is not None and change.resized), change.differences


def _own_differences(before: Layout, after: Layout) -> Iterator[tuple[str, bool]]:
    """What differs in the bases and fields themselves, each with whether something moved."""
    old_bases, new_bases = ({base.name: base for base in each.bases} for each in (before, after))
    for name in {**old_bases, **new_bases}:
        yield from _base_difference(old_bases.get(name), new_bases.get(name))
    old_fields, new_fields = ({field.name: field for field in each.fields} for each in (before, after))
    renamed = _renamed(before, after)
    for name, field in new_fields.items():
        if name in old_fields:
            yield from _field_difference(old_fields[name], field)
        elif name not in renamed.values():
            yield f"{name} ({field.type}) is new at {field.offset}", False
    kept = {field.offset for name, field in new_fields.items() if name in old_fields and field == old_fields[name]}
    for name, field in old_fields.items():
        if name not in new_fields and name not in renamed:
            # A union that loses a member keeps the others where they were.
            yield (
                f"{name} ({field.type}) at {field.offset} is gone",
                field.offset not in kept or _bits(field) is not None,
            )


def _base_difference(old: Base | None, new: Base | None) -> Iterator[tuple[str, bool]]:
    if old is None or new is None:
        base = old or new
        assert base is not None
        yield f"base {base.name} is {'gone' if old else 'new'}", True
    elif old.offset != new.offset:
        yield f"base {old.name} moved from {old.offset} to {new.offset}", True


def _field_difference(old: Field, new: Field) -> Iterator[tuple[str, bool]]:
    if old.size != new.size and old.size is not None and new.size is not None:
        yield f"{new.name} ({new.type}): {old.size} → {new.size} bytes", True
    elif (old.size is None) != (new.size is None):
        yield f"{new.name}: {old.type} → {new.type}", True
    if old.offset != new.offset:
        yield f"{new.name} moved from {old.offset} to {new.offset}", True
    elif _bits(old) != _bits(new):
        yield f"{new.name} moved from bits {_bits(old)} to {_bits(new)} of byte {new.offset}", True


def _bits(field: Field) -> str | None:
    """Which bits of its byte a bit-field takes."""
    return field.type.partition(" : ")[2] or None


def _renamed(before: Layout, after: Layout) -> dict[str, str]:
    """Fields that only have another name: same type or size, at the same place."""
    old = {field.name for field in before.fields}
    new = {(field.offset, _bits(field)): field for field in after.fields if field.name not in old}
    kept = {field.name for field in after.fields}
    found = {}
    for field in before.fields:
        now = new.get((field.offset, _bits(field)))
        if (
            field.name not in kept
            and now is not None
            and (now.type == field.type or now.size == field.size is not None)
        ):
            found[field.name] = now.name
    return found
