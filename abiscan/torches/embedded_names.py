"""The Python names of the embedded releases of torch.

``data/names`` is made by ``tools/record_names.py`` from the wheels of the releases. Its keys are modules and classes,
and a mark says what is known of one: see ``marks``.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from abiscan.inputs.version import TorchVersion
from abiscan.python.module_names import ModuleNames
from abiscan.python.torch_classes import CLASSES
from abiscan.python.torch_names import CLASS, NameSource, TorchNames, is_core, of_marks
from abiscan.torches.marks import SEPARATOR, MarkTable
from abiscan.torches.release_sets import COMPILED, UNLOADED, ReleaseSets

SOURCES: Final = "=sources"
"""The entry that has the digest of all Python files of a release: see ``digest_of``."""
_OF_BUILD: Final = "torch/version.py"


@functools.lru_cache(maxsize=4)
def names(release: str) -> TorchNames | None:
    """Return the names of an embedded release (``2.13.0``); None if it is not embedded."""
    return TorchNames(source_of(release), was_there, was_compiled, is_written) if release in table().numbers else None


def releases() -> tuple[str, ...]:
    """Return the numbers of all releases in the data, oldest first."""
    return tuple(sorted(table().columns, key=TorchVersion))


def source_of(release: str) -> NameSource:
    """Return what the table says of an embedded release."""
    return _Release(table().numbers[release])


def was_there(name: str) -> bool:
    """Whether some embedded release certainly has a name; quicker than its history."""
    owner, _, last = name.rpartition(".")
    if owner in CLASSES:
        return bool(table().marks_of(f"{CLASS}{owner}").keys() & {last, f"{last}?"})
    marks = table().marks_of(owner)
    if last in marks or table().marks_of(name):
        return True
    # Of the stars, only those of what is compiled bring names for certain.
    stars = (mark[1:] for mark in marks if mark[0] == "*" and is_core(mark[1:]))
    return any(was_there(f"{star}.{last}") for star in stars)


def was_compiled(name: str) -> bool:
    """Whether the library of some embedded release has the last part of a name as a text: a class of it, or ``torch``,
    may have had that name. A plain word may be a text for any reason, so it does not count.
    """
    owner, _, last = name.rpartition(".")
    may_be_compiled = owner == "torch" or owner in CLASSES
    return may_be_compiled and "_" in last and bool(table().columns_with(f"{COMPILED}{last[-2:]}", last))


def is_written(name: str) -> bool:
    """Whether a name is that of a module in Python of some embedded release, and of nothing that is compiled."""
    return _sets_of(table()).is_written(name)


def digest_of(files: Iterable[tuple[str, int, int]]) -> str:
    """Return what tells the Python files of a release from those of others.

    The builds of a release differ in ``torch/version.py`` alone, which is left out.

    :param files: for each file its path from the folder of packages, its size, and its CRC-32 as in a zip archive
    """
    lines = sorted(f"{path} {size} {checksum:08x}\n" for path, size, checksum in files if path != _OF_BUILD)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def release_with(digest: str) -> str | None:
    """Return the embedded release whose Python files have a digest; None if no release has it."""
    bits = table().marks_of(SOURCES).get(digest, 0)
    return table().columns[bits.bit_length() - 1] if bits else None


class _Release:
    """One column of the table."""

    def __init__(self, column: int) -> None:
        self._column, self._bit = column, 1 << column
        self._sets = _sets_of(table())
        self._modules: dict[str, ModuleNames | None] = {}

    def module(self, name: str) -> ModuleNames | None:
        """Return what is known of a module."""
        if name not in self._modules:
            self._modules[name] = _find_module(table().lines_in(name, self._column))
        return self._modules[name]

    def is_module(self, name: str) -> bool:
        """Whether it is a file."""
        return bool(self._sets.with_module(name) & self._bit)

    def is_unloaded(self, name: str) -> bool:
        """Whether nothing that ``import torch`` imports may import it."""
        return bool(table().columns_with(UNLOADED, name) & self._bit)

    def in_unloaded(self, uses: frozenset[str]) -> Mapping[str, str]:
        """Return the names that are such a module or in one, each with the outermost."""
        found = [(use, module) for use, module, bits in self._sets.in_unloaded(uses) if bits & self._bit]
        return dict(reversed(found))

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


def by_ending(texts: Iterable[str]) -> dict[str, set[str]]:
    """Group texts by their last two characters, as entries for the names that compiled code may give.

    The name may be the end of a text. So that one of a single character need not be looked for in all of them, it is an
    entry of its own.
    """
    entries: dict[str, set[str]] = {}
    for text in texts:
        entries.setdefault(f"{COMPILED}{text[-2:]}", set()).add(text)
        entries.setdefault(f"{COMPILED}{text[-1]}", set()).add(text[-1])
    return entries


@functools.lru_cache(maxsize=2)
def _sets_of(names: MarkTable) -> ReleaseSets:
    return ReleaseSets(names)


@functools.lru_cache(maxsize=4096)
def _find_module(lines: tuple[str, ...]) -> ModuleNames | None:
    """Return what some lines of the table say of their module. Most releases that follow each other have the same
    ones.
    """
    return of_marks(frozenset(mark for marks in lines for mark in marks.split(SEPARATOR)))


@functools.cache
def table() -> MarkTable:
    """Return the data, opened on first use."""
    return MarkTable.of("names")
