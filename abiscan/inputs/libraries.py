"""Libraries by base name, read on first use."""

from __future__ import annotations

import functools
from collections.abc import ItemsView, Iterator, Mapping

from abiscan.binary.elf import SharedObject
from abiscan.inputs.files import Files


class Libraries(Mapping[str, SharedObject]):
    """Base name → facts of the libraries at some paths, without those that cannot be read.

    :param paths: base name → path
    """

    def __init__(self, paths: Mapping[str, str], files: Files) -> None:
        self._paths = paths
        self._files = files

    def __getitem__(self, name: str) -> SharedObject:
        facts = self._files.object_at(self._paths[name])
        if facts is None:
            raise KeyError(name)
        return facts

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def items(self) -> ItemsView[str, SharedObject]:
        """Return all libraries, each read once."""
        return self._all.items()

    @functools.cached_property
    def _all(self) -> dict[str, SharedObject]:
        facts_by_name = ((name, self._files.object_at(path)) for name, path in self._paths.items())
        return {name: facts for name, facts in facts_by_name if facts is not None}
