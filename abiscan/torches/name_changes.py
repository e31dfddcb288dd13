"""Which Python names came, went or changed between two embedded releases of torch."""

from __future__ import annotations

import sys
import typing
from collections.abc import Collection, Iterator
from typing import Final

from msgspec import Struct

from abiscan.python.torch_names import CLASS, FUNCTIONS, TorchNames, is_core
from abiscan.torches import embedded_names

_IMPORTED: Final = frozenset({*sys.stdlib_module_names, *dir(typing), "annotations", "log", "logger", "np", "torch"})
"""What modules import for themselves: it is theirs, but nobody takes it from them."""


class SignatureChange(Struct, frozen=True, kw_only=True):
    """A function with other parameters, as they are written; ``=`` stands for a default."""

    name: str
    old: str
    new: str


class NameChanges(Struct, frozen=True, kw_only=True):
    """The names that surely came or went, and the functions with other parameters, sorted.

    Of a module that came or went, the names in it are left out.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    signatures: tuple[SignatureChange, ...] = ()


def name_changes(old: str, new: str, used: Collection[str] | None = None) -> NameChanges | None:
    """Compare the public names of two releases; None if those of either are not known.

    :param used: the dotted names that a package uses, private ones too, which limit the comparison
    """
    before, after = embedded_names.names(old), embedded_names.names(new)
    if before is None or after is None:
        return None
    # ``torch.a.b`` uses ``torch.a`` as well: a change of any prefix breaks it.
    prefixes = None if used is None else {use[: end or None] for use in used for end in _list_ends(use)}

    def is_meant(name: str) -> bool:
        return _is_public(name) if prefixes is None else name in prefixes

    return NameChanges(
        added=tuple(sorted(set(filter(is_meant, _only_in(after, before, new, old))))),
        removed=tuple(sorted(set(filter(is_meant, _only_in(before, after, old, new))))),
        signatures=tuple(change for change in _list_signatures(old, new) if is_meant(change.name)),
    )


def _list_ends(name: str) -> Iterator[int]:
    """Yield where the prefixes of a dotted name end; 0 for the whole name."""
    yield 0
    position = name.find(".")
    while position >= 0:
        yield position
        position = name.find(".", position + 1)


def _is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


def _only_in(names: TorchNames, second_names: TorchNames, release: str, second: str) -> Iterator[str]:
    """Yield the modules and names that one release certainly has, and another one lacks."""
    table = embedded_names.table()
    bit, other_bit = (1 << table.releases.index(number) for number in (release, second))
    for module, marks in table.modules():
        if module.startswith(("=", CLASS)) or not marks.get(".", 0) & bit:
            continue
        owner = "torch" if module == FUNCTIONS else module
        # Nothing is said of the names in a module that is not there at all.
        if not is_core(module) and not marks["."] & other_bit:
            # Of a module that is gone, its folder says it all.
            if module == "torch" or second_names.has_module(module.rpartition(".")[0]):
                yield from [module] if second_names.has_module(module) is False else ()
            continue
        # The marks of the table say little of what stars bring in: both sides must be sure before a change is reported.
        for name in (mark for mark, bits in marks.items() if bits & bit and not bits & other_bit):
            if (
                name.isidentifier()
                and name not in _IMPORTED
                and names.has(owner, name)
                and second_names.lacks(owner, name)
            ):
                yield f"{owner}.{name}"


def _list_signatures(old: str, new: str) -> Iterator[SignatureChange]:
    """Yield the functions whose parameters are known in both releases, and differ."""
    table = embedded_names.table()
    bits = [1 << table.releases.index(number) for number in (old, new)]
    for module, marks in table.modules():
        functions = {mark: of_mark for mark, of_mark in marks.items() if "(" in mark}
        sides = [dict(_split_parameters(mark) for mark, of_mark in functions.items() if of_mark & bit) for bit in bits]
        for name in sorted(sides[0].keys() & sides[1].keys()):
            if sides[0][name] != sides[1][name]:
                yield SignatureChange(name=f"{module}.{name}", old=sides[0][name], new=sides[1][name])


def _split_parameters(mark: str) -> tuple[str, str]:
    name, _, parameters = mark.partition("(")
    return name, parameters
