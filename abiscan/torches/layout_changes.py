"""What changed in a torch class from one release to another, for code that was compiled with its old layout."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final, NamedTuple

from abiscan.binary.elf import Machine
from abiscan.regex import regex
from abiscan.torches.layouts import Field, Layout, LayoutSource, ReleaseLayouts, list_classes

_DEEPEST: Final = 8  # classes inside of classes
_HOLDING: Final = regex(r"(?:std::(?:vector|array|deque|list|optional)|c10::(?:optional|SmallVector))<([\w:]+)[,>]")
_COUNT: Final = regex(r"(?:std::atomic<)?(?:unsigned |signed )?(?:int|long|short|size_t|u?int\d+_t)\b")
_WORD: Final = 8

RESULT: Final = "(result)"
PASSED: Final = "(passed)"
"""What a table has besides members: the result of a function, and how an object is passed by value.

The text of their type tells them apart.
"""


class LayoutChange(NamedTuple):
    """A class whose memory layout changed.

    :ivar differences: what changed, field by field, in the order of the new layout
    :ivar moved: whether a part of the old layout moved, has a different size, or is gone; otherwise, the class only
        gained members where the old layout has none
    :ivar inherited_from: the class in which all of it happens, if that is another class, which this one contains
    """

    old: Layout
    new: Layout
    differences: tuple[str, ...]
    moved: bool
    inherited_from: str | None = None

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.new.name

    @property
    def resized(self) -> bool:
        """Whether the size of the class changed."""
        return self.old.size != self.new.size


class SlotChange(NamedTuple):
    """A different function in a slot of a vtable.

    :ivar number: that of the slot
    :ivar old: the function that was there; None if there was no such slot
    :ivar new: the function that is there now; None if there is no such slot
    """

    number: int
    old: str | None
    new: str | None


def layout_change(name: str, old: str, new: str, machine: Machine) -> LayoutChange | None:
    """Return what changed in a class; None if nothing did, or if one of the releases has no such class.

    :param old: a release number, like ``new``
    """
    return change_between(name, ReleaseLayouts(old, machine), ReleaseLayouts(new, machine))


@functools.lru_cache(maxsize=16_384)
def change_between(name: str, old: LayoutSource, new: LayoutSource) -> LayoutChange | None:
    """Return what changed in a class from one torch to another; None if nothing did, or if one of them has no such
    class.
    """
    return _find_change(name, old, new, _DEEPEST)


@functools.lru_cache(maxsize=256)
def layout_changes(old: str, new: str, machine: Machine) -> dict[str, LayoutChange]:
    """Return all classes that both releases have and that changed, by name."""
    changes = (layout_change(old_layout.name, old, new, machine) for old_layout in list_classes(old, machine))
    return {change.name: change for change in changes if change is not None}


@functools.lru_cache(maxsize=16_384)
def slots_between(name: str, old: LayoutSource, new: LayoutSource) -> tuple[SlotChange, ...]:
    """Return the vtable slots of a class that call a different function, lowest first; empty if a torch lacks the
    class.
    """
    before, after = old.vtable(name), new.vtable(name)
    if before is None or after is None:
        return ()
    length = max(len(before.slots), len(after.slots))
    pairs = zip(_fill_slots(before.slots, length), _fill_slots(after.slots, length), strict=True)
    changes = (SlotChange(number, was, now) for number, (was, now) in enumerate(pairs))
    return tuple(change for change in changes if method_name(change.old) != method_name(change.new))


def _fill_slots(slots: tuple[str, ...], length: int) -> list[str | None]:
    return [*slots, *(None for _ in range(length - len(slots)))]


def method_name(slot: str | None) -> str | None:
    """Return the unqualified name of the virtual function in a slot: ``exchangeDevice``; ``~ [deleting]`` for a
    destructor.

    The spelling of parameters and results differs between releases, but does not matter.
    """
    if slot is None or slot.startswith("~"):
        return slot
    return slot.partition("(")[0].rpartition("::")[2]


def _find_change(name: str, old: LayoutSource, new: LayoutSource, depth: int) -> LayoutChange | None:
    before, after = old.layout(name), new.layout(name)
    # The search ends at a depth: what lies deeper is not told.
    if before is None or after is None or not depth:
        return None
    old_fields, new_fields = _flatten_members(before, old), _flatten_members(after, new)
    differences = list(_member_differences(old_fields, new_fields)) if old_fields != new_fields else []
    # A change inside a member shows as the member's, with the name of the class in which it happened. If everything
    # happened in one class, users need to hear of that class alone.
    own, origins = bool(differences), set[str]()
    for field in old_fields.values():
        element = _HOLDING.match(field.type)
        type_ = element[1] if element else field.type
        if change := _find_change(type_, old, new, depth - 1):
            moved = change.moved or (element is not None and change.resized)
            # The first difference, the new size, is already reported for the member itself.
            inner = change.differences[1:] if change.resized and element is None else change.differences
            origins.add(change.inherited_from or change.name)
            differences += ((f"{field.name} ({type_}): {text}", moved) for text in inner)
    # In front of the members: what holds for the class as a whole.
    if before.align != after.align:
        differences.insert(0, (f"aligned to {before.align} → {after.align} bytes", True))
    if before.size != after.size:
        differences.insert(0, (f"{before.size} → {after.size} bytes", False))
    if not differences:
        return None
    inherited = not own and len(origins) == 1 and (before.size, before.align) == (after.size, after.align)
    return LayoutChange(
        before,
        after,
        tuple(text for text, _ in differences),
        any(moved for _, moved in differences),
        origins.pop() if inherited else None,
    )


def _flatten_members(class_layout: Layout, source: LayoutSource, offset: int = 0) -> dict[str, Field]:
    """Return the members of a class by name, including those of its bases; an unknown base counts as one member."""
    fields: dict[str, Field] = {}
    for base in class_layout.bases:
        base_layout = source.layout(base.name)
        inner = _flatten_members(base_layout, source, offset + base.offset) if base_layout else {}
        fields.update(inner or {base.name: Field(base.name, offset + base.offset, base.name, None)})
    fields.update(
        (field.name, field._replace(offset=offset + field.offset) if offset else field) for field in class_layout.fields
    )
    return fields


def _member_differences(old: dict[str, Field], new: dict[str, Field]) -> Iterator[tuple[str, bool]]:
    """Yield the differences between the members, and for each one whether something moved."""
    renamed = _match_renamed(old, new)
    for name, field in new.items():
        if name in old:
            yield from _compare_fields(old[name], field)
        elif name not in renamed.values():
            yield f"{name} ({field.type}) is new at {field.offset}", False
    # A member that is gone where another one stays was in a union with it.
    kept_offsets = {field.offset for name, field in new.items() if old.get(name) == field}
    counts = {field.offset for name, field in new.items() if name not in old and _COUNT.match(field.type)}
    for name, field in old.items():
        if name not in new and name not in renamed:
            # If a union loses a member, the others do not move; nor do counters that are merged into one word.
            stays = field.offset in kept_offsets and _find_bits(field) is None
            merged = _COUNT.match(field.type) is not None and any(0 <= field.offset - count < _WORD for count in counts)
            yield f"{name} ({field.type}) at {field.offset} is gone", not (stays or merged)


def _compare_fields(old: Field, new: Field) -> Iterator[tuple[str, bool]]:
    if new.name in (RESULT, PASSED) and old.type != new.type:
        yield f"{new.name[1:-1]}: {old.type} → {new.type}", True
    if old.size != new.size and old.size is not None and new.size is not None:
        yield f"{new.name} ({new.type}): {old.size} → {new.size} bytes", True
    elif (old.size is None) != (new.size is None):
        yield f"{new.name}: {old.type} → {new.type}", False
    if old.offset != new.offset:
        yield f"{new.name} moved from {old.offset} to {new.offset}", True
    elif _find_bits(old) != _find_bits(new):
        yield f"{new.name} moved from bits {_find_bits(old)} to {_find_bits(new)} of byte {new.offset}", True


def _find_bits(field: Field) -> str | None:
    """Return the bits of its byte that a bit-field occupies."""
    return field.type.partition(" : ")[2] or None


def _match_renamed(old: dict[str, Field], new: dict[str, Field]) -> dict[str, str]:
    """Return members that were only renamed: they have the same type or size, at the same place."""
    # A new name for the same thing at the same place changes nothing for compiled code.
    places = {(field.offset, _find_bits(field)): field for name, field in new.items() if name not in old}
    renamed = {}
    for name, field in old.items():
        renamed_field = places.get((field.offset, _find_bits(field)))
        if (
            name not in new
            and renamed_field is not None
            and (renamed_field.type == field.type or renamed_field.size == field.size is not None)
        ):
            renamed[name] = renamed_field.name
    return renamed
