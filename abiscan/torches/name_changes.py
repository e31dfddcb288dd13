"""Which Python names came, went or changed between two embedded releases of torch."""

from __future__ import annotations

import sys
import typing
from collections.abc import Collection, Iterator
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from abiscan.python.torch_api.torch_names import CLASS, FUNCTIONS, TorchNames, is_core
from abiscan.torches import embedded_names
from abiscan.torches.marks import Marks

_IMPORTED: Final = frozenset({*sys.stdlib_module_names, *dir(typing), "annotations", "log", "logger", "np", "torch"})
"""What modules import for themselves: it is theirs, but nobody takes it from them."""

_Names: TypeAlias = Annotated[
    tuple[Annotated[str, Meta(min_length=1)], ...], Meta(extra_json_schema={"uniqueItems": True})
]


class SignatureChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A function with other parameters, as they are written; ``=`` stands for a default."""

    name: str
    old: str
    new: str


class NameChanges(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The names that surely came or went, and the functions with other parameters, sorted.

    Of a module that came or went, the names in it are left out.

    :ivar added: modules, and names in them
    :ivar signatures: the functions with other parameters
    """

    added: _Names = ()
    removed: _Names = ()
    signatures: tuple[SignatureChange, ...] = ()


def name_changes(old: str, new: str, used: Collection[str] | None = None) -> NameChanges | None:
    """Compare the public names of two releases; None if those of either are not known.

    :param used: the dotted names that a package uses, private ones too, which limit the comparison
    """
    before, after = embedded_names.names(old), embedded_names.names(new)
    if before is None or after is None:
        return None
    # ``torch.a.b`` uses ``torch.a`` as well: a change of any prefix breaks it.
    prefixes = None if used is None else {use[: end or None] for use in used for end in _prefix_ends(use)}

    def is_meant(name: str) -> bool:
        return _is_public(name) if prefixes is None else name in prefixes

    table = embedded_names.table()
    was = _Side(names=before, bit=1 << table.numbers[old])
    now = _Side(names=after, bit=1 << table.numbers[new])
    added, removed, signatures = set[str](), set[str](), list[SignatureChange]()
    for module, marks in table.items():
        removed.update(filter(is_meant, _only_in(was, now, module, marks)))
        added.update(filter(is_meant, _only_in(now, was, module, marks)))
        signatures += (change for change in _signature_changes(was, now, module, marks) if is_meant(change.name))
    return NameChanges(added=tuple(sorted(added)), removed=tuple(sorted(removed)), signatures=tuple(signatures))


class _Side(Struct, frozen=True, kw_only=True):
    """One of the two releases, and the bit that stands for it in each set of releases."""

    names: TorchNames
    bit: int


def _prefix_ends(name: str) -> Iterator[int]:
    """Yield where the prefixes of a dotted name end; 0 for the whole name."""
    yield 0
    position = name.find(".")
    while position >= 0:
        yield position
        position = name.find(".", position + 1)


def _is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


def _only_in(side: _Side, other: _Side, module: str, marks: Marks) -> Iterator[str]:
    """Yield what of a module one release certainly has, and another one lacks: the module itself, or names."""
    if module.startswith(("=", CLASS)) or not marks.get(".", 0) & side.bit:
        return
    owner = "torch" if module == FUNCTIONS else module
    # Nothing is said of the names in a module that is not there at all.
    if not is_core(module) and not marks["."] & other.bit:
        # Of a module that is gone, its folder says it all.
        if module == "torch" or other.names.has_module(module.rpartition(".")[0]):
            yield from [module] if other.names.has_module(module) is False else ()
        return
    # The marks of the table say little of what stars bring in: both sides must be sure before a change is reported.
    for name in (mark for mark, bits in marks.items() if bits & side.bit and not bits & other.bit):
        if (
            name.isidentifier()
            and name not in _IMPORTED
            and side.names.has(owner, name)
            and other.names.lacks(owner, name)
        ):
            yield f"{owner}.{name}"


def _signature_changes(old: _Side, new: _Side, module: str, marks: Marks) -> Iterator[SignatureChange]:
    """Yield the functions of a module whose parameters are known in both releases, and differ."""
    functions = [(mark, bits) for mark, bits in marks.items() if "(" in mark]
    before, after = (
        dict(_split_parameters(mark) for mark, bits in functions if bits & side.bit) for side in (old, new)
    )
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            yield SignatureChange(name=f"{module}.{name}", old=before[name], new=after[name])


def _split_parameters(mark: str) -> tuple[str, str]:
    name, _, parameters = mark.partition("(")
    return name, parameters
