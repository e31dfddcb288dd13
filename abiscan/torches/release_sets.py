"""In which embedded releases a name may be: one look at the table answers for all of them.

A package is read for every release, and most of the names that it uses are in all of them. The table has the set of
releases of each mark, a number with one bit for each (see ``blocks``), so that a few operations on numbers tell
for which releases a name has to be looked at more closely. What is answered here may leave out releases that have a
name, and never says that a release may have one which certainly lacks it: ``TorchNames.has`` is the closer look.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from abiscan.inputs.version import TorchVersion
from abiscan.python.torch_api.compiled_names import ADDED_SINCE, WRITTEN
from abiscan.python.torch_api.torch_classes import CLASSES
from abiscan.python.torch_api.torch_names import (
    CLASS,
    CORE,
    FUNCTIONS,
    OPEN,
    TYPING_NAMES,
    is_core,
    list_prefixes,
    may_bring,
)
from abiscan.torches.marks import MarkTable

PATCHED: Final = "=patched"
"""The entry that has the names which code of torch sets on what it imports."""
UNLOADED: Final = "=unloaded"
"""The entry that has the modules which no code imports that ``import torch`` imports, and no function there."""
COMPILED: Final = "=compiled"
"""What the entries begin with that have the names which compiled code may give to what it makes, by their last two
characters."""
_MOST_STARS: Final = 6
"""From how many modules to the next a star is followed."""


class ReleaseSets:
    """The releases in which names may be, as sets of bits."""

    def __init__(self, table: MarkTable) -> None:
        self._table = table
        self._all = (1 << len(table.columns)) - 1
        self.doubtful = functools.lru_cache(maxsize=16)(self._doubtful_uses)
        """Returns dotted names, each with the releases of which it is not shown that the name may be there."""
        self.in_unloaded = functools.lru_cache(maxsize=16)(self._unloaded_modules)
        """Returns the dotted names that are such a module or in one, each with that and with the releases."""
        self.mentioning = functools.lru_cache(maxsize=4096)(self._find_mentioning)
        """Returns releases in which a module, or a class, may have a name."""
        self.with_module = functools.lru_cache(maxsize=4096)(table.columns_with)
        """Returns the releases that have a module."""
        self.with_compiled = functools.lru_cache(maxsize=4096)(self._find_compiled)
        """Returns the releases in which a text of the library, or a name in a stub, ends in a name."""
        self.without_function = functools.lru_cache(maxsize=4096)(self._find_removed)
        """Returns the releases after the last one that lists a compiled function; none if no release lists it."""
        self._reached = functools.lru_cache(maxsize=4096)(self._find_reached)
        """Returns the releases in which each part of a dotted name may be there, or follows one that is no module."""
        self._since = functools.lru_cache(maxsize=128)(self._releases_since)
        self._stars = functools.lru_cache(maxsize=1024)(self._star_imports)

    def patching(self, name: str) -> int:
        """Return the releases in which code of torch sets an attribute of that name on what it imports."""
        return self._table.columns_with(PATCHED, name)

    def _doubtful_uses(self, uses: frozenset[str]) -> Sequence[tuple[str, int]]:
        doubts = ((use, self._all & ~self._reached(use)) for use in sorted(uses))
        return [(use, bits) for use, bits in doubts if bits]

    def _unloaded_modules(self, uses: frozenset[str]) -> Sequence[tuple[str, str, int]]:
        modules = self._table.marks_of(UNLOADED)
        return [(use, name, modules[name]) for use in sorted(uses) for name in list_prefixes(use) if name in modules]

    def _find_reached(self, use: str) -> int:
        owner, *parts = use.split(".")
        reached, ended = self._all, 0
        for part in parts:
            reached &= self.mentioning(owner, part)
            owner = f"{owner}.{part}"
            if not is_core(owner) and owner not in CLASSES:  # of another object, nothing is known
                ended |= reached & ~self.with_module(owner)
                reached &= self.with_module(owner)
        return reached | ended

    def _find_mentioning(self, owner: str, name: str, depth: int = _MOST_STARS) -> int:
        if is_core(owner):
            removed = self.without_function(name) if owner in {CORE, FUNCTIONS} else 0
            return (self.with_compiled(name) & ~removed) | self.patching(name)
        entry = f"{CLASS}{owner}" if owner in CLASSES else owner
        bits = self.with_module(f"{owner}.{name}")
        if owner == "torch" and name in ADDED_SINCE:
            return bits | self.with_added(name)
        for mark in (name, f"{name}?", OPEN):
            bits |= self._table.columns_with(entry, mark)
        is_written = self.is_written(f"{owner}.{name}")
        for star, with_star in self._stars(entry) if depth else ():
            if may_bring(star, name) and not (is_written and is_core(star)):
                # A method may stay where the function has gone: ``absolute_``.
                is_method = owner in CLASSES and is_core(star)
                named = self.with_compiled(name) if is_method else self.mentioning(star, name, depth - 1)
                bits |= with_star & named
        return bits

    def with_added(self, name: str) -> int:
        """Return the releases that have an element type, or an exception, which came later."""
        return self._since(TorchVersion(ADDED_SINCE[name]))

    @functools.cached_property
    def _versions(self) -> Sequence[TorchVersion]:
        """The release of each column."""
        return list(map(TorchVersion, self._table.columns))

    def _releases_since(self, first: TorchVersion) -> int:
        return sum(1 << column for column, version in enumerate(self._versions) if version >= first)

    def is_written(self, name: str) -> bool:
        """Whether a name is that of a module in Python of some release, and of no function that is compiled.

        A release without that module has nothing else of the name. Nor is anything compiled called like those of
        ``typing``, which modules of torch import, although TorchScript has them as texts; nor like an element type,
        an exception, or a function in Python, before there is that.
        """
        owner, _, last = name.rpartition(".")
        if owner == "torch" and (last in ADDED_SINCE or last in WRITTEN):
            return True
        return last in TYPING_NAMES or (
            bool(self._table.columns_with(name)) and not self._table.columns_with(FUNCTIONS, last)
        )

    def _star_imports(self, entry: str) -> Sequence[tuple[str, int]]:
        """Return the modules of a package from which one takes all names, each with the releases in which it does."""
        star = f"*{entry.removeprefix(CLASS).partition('.')[0]}"
        marks = self._table.marks_of(entry).items()
        # Few marks begin so: they are not split to see it.
        return [(mark[1:], bits) for mark, bits in marks if mark.startswith(star) and mark.partition(".")[0] == star]

    def _find_removed(self, name: str) -> int:
        # The list names functions late (``spmm``), but not one leaves it that torch keeps: what else the library has of
        # the name (``torch._C._fft.fft_rfft`` ends in ``rfft``) is in other modules.
        listing = self._table.columns_with(FUNCTIONS, name)
        listed = [version for column, version in enumerate(self._versions) if listing >> column & 1]
        return self._since(max(listed)) & ~listing if listed else 0

    def _find_compiled(self, name: str) -> int:
        # An entry for each two last characters keeps small what is decompressed for one name.
        return self._table.columns_with_ending(f"{COMPILED}{name[-2:]}", name)
