"""The Python names of one release, as a table of many has them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from abiscan.python.language.module_names import ModuleNames
from abiscan.python.torch_api.compiled_names import ADDED_SINCE
from abiscan.python.torch_api.torch_names import of_marks
from abiscan.torches.marks import SEPARATOR, MarkTable
from abiscan.torches.release_sets import UNLOADED, ReleaseSets


class ReleaseNames:
    """One column of a table of names."""

    def __init__(self, names: MarkTable, sets: ReleaseSets, column: int) -> None:
        self._table, self._sets = names, sets
        self._column, self._bit = column, 1 << column
        self._modules: dict[str, ModuleNames | None] = {}

    def module(self, name: str) -> ModuleNames | None:
        """Return what is known of a module."""
        if name not in self._modules:
            names = _find_module(self._table.lines_in(name, self._column))
            if name == "torch" and names is not None:
                added = {name for name in ADDED_SINCE if self._sets.with_added(name) & self._bit}
                names = replace(names, there=names.there | added)
            self._modules[name] = names
        return self._modules[name]

    def is_module(self, name: str) -> bool:
        """Whether it is a file."""
        return bool(self._sets.with_module(name) & self._bit)

    def is_unloaded(self, name: str) -> bool:
        """Whether nothing that ``import torch`` imports may import it."""
        return bool(self._table.columns_with(UNLOADED, name) & self._bit)

    def in_unloaded(self, uses: frozenset[str]) -> Mapping[str, str]:
        """Return the names that are such a module or in one, each with the outermost."""
        uses_in_unloaded = [(use, module) for use, module, bits in self._sets.in_unloaded(uses) if bits & self._bit]
        return dict(reversed(uses_in_unloaded))

    def is_package(self, name: str) -> bool:
        """Whether it is a folder."""
        module = self.module(name)
        return module is not None and module.is_package

    def mentions(self, owner: str, name: str) -> bool:
        """Whether the marks of all releases show that a module may have a name."""
        return bool(self._sets.mentioning(owner, name) & self._bit)

    def doubtful(self, uses: frozenset[str]) -> Sequence[str]:
        """Return the dotted names of which the marks of all releases do not show that they may be there."""
        return [use for use, bits in self._sets.doubtful(uses) if bits & self._bit]

    def is_patched(self, name: str) -> bool:
        """Whether code of torch sets an attribute of that name."""
        return bool(self._sets.patching(name) & self._bit)

    def is_compiled(self, name: str) -> bool:
        """Whether a text in the library, or a stub, ends in it."""
        return bool(self._sets.with_compiled(name) & self._bit)

    def is_removed(self, name: str) -> bool:
        """Whether an earlier release lists a function of that name, and neither this one nor a later one does."""
        return bool(self._sets.without_function(name) & self._bit)


@functools.lru_cache(maxsize=4096)
def _find_module(lines: tuple[str, ...]) -> ModuleNames | None:
    """Return what some lines of the table say of their module. Most releases that follow each other have the same
    ones.
    """
    return of_marks(frozenset(SEPARATOR.join(lines).split(SEPARATOR) if lines else ()))
