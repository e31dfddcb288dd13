"""Libraries by base name, read when somebody asks for one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from abiscan.elf import SharedObject
from abiscan.files import Files


class Libraries(Mapping[str, SharedObject]):
    """Base name → facts of the libraries at some paths; those that cannot be read are not there.

    :param paths: base name → path
    """

    def __init__(self, paths: Mapping[str, str], files: Files) -> None:
        self._paths = paths
        self._files = files
        self._read: dict[str, SharedObject | None] = {}

    def __getitem__(self, name: str) -> SharedObject:
        facts = self._object(name)
        if facts is None:
            raise KeyError(name)
        return facts

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._paths if self._object(name) is not None)

    def _object(self, name: str) -> SharedObject | None:
        if name not in self._read:
            self._read[name] = self._files.object_at(self._paths[name])
        return self._read[name]

    def __len__(self) -> int:
        return sum(1 for _ in self)
