"""The memory layouts of torch's classes, by release and name; nothing needs to be installed.

``data/layouts`` is made by ``tools/release.py`` from the headers of the releases. Its keys are classes, and a mark of
one is its layout or its virtual table, as JSON: see ``marks``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol

from msgspec.json import decode

from abiscan.binary.elf import Machine
from abiscan.inputs.version import TorchVersion
from abiscan.torches.marks import MarkTable

LAYOUT: Final = "L"
VTABLE: Final = "V"
"""What the marks of a class begin with."""


class Field(NamedTuple):
    """A member variable.

    :ivar offset: in bytes
    :ivar size: in bytes; None if its type is not a class
    """

    name: str
    offset: int
    type: str
    size: int | None


class Base(NamedTuple):
    """A direct base class and its offset in bytes."""

    name: str
    offset: int


class Layout(NamedTuple):
    """A class: direct bases and own fields in memory order.

    :ivar size: in bytes
    :ivar align: in bytes
    """

    name: str
    size: int
    align: int
    bases: tuple[Base, ...]
    fields: tuple[Field, ...]


class VTable(NamedTuple):
    """The virtual functions of a class, one per slot, as clang writes them (``void c10::Event::record(…) const``).

    ``~ [complete]`` and ``~ [deleting]`` are the destructor. Pure ones end in `` [pure]``.
    """

    name: str
    slots: tuple[str, ...]


class LayoutSource(Protocol):
    """The classes of one torch, by name."""

    def __hash__(self) -> int:
        """What is computed from it is kept."""

    def layout(self, name: str) -> Layout | None:
        """Return the memory layout of a class; None if the torch has no such class, or it is unknown."""

    def vtable(self, name: str) -> VTable | None:
        """Return the virtual functions of a class; None if it has none, or they are unknown."""


class ReleaseLayouts(NamedTuple):
    """The classes of an embedded release, by its number: ``2.6.0``."""

    release: str
    machine: Machine

    def layout(self, name: str) -> Layout | None:
        """Return the memory layout of a class; None if the release has no such class, or is not embedded."""
        return find_layout(name, self.release, self.machine)

    def vtable(self, name: str) -> VTable | None:
        """Return the virtual functions of a class; None if it has none, or the release has no such class."""
        return find_vtable(name, self.release, self.machine)


@functools.lru_cache(maxsize=16_384)
def find_layout(name: str, version: str, machine: Machine) -> Layout | None:
    """Return the memory layout of a class; None if the release has no such class, or is not embedded.

    :param name: as in ``c10::FunctionSchema``
    :param version: the number of a release, ``2.6.0``
    """
    mark = _find_mark(name, version, machine, LAYOUT)
    return None if mark is None else _read_layout(name, mark)


def find_vtable(name: str, version: str, machine: Machine) -> VTable | None:
    """Return the virtual functions of a class; None if it has none, or the release lacks the class or is not
    embedded.
    """
    mark = _find_mark(name, version, machine, VTABLE)
    return None if mark is None else VTable(name, tuple(decode(mark[1:])))


def is_known(version: str, machine: Machine) -> bool:
    """Whether the layouts of a release are embedded."""
    return _column_of(version, machine) is not None


def list_classes(version: str, machine: Machine) -> Iterator[Layout]:
    """Yield all classes of a release, by name."""
    column = _column_of(version, machine)
    if column is not None:
        for name, mark in _make_table().items_in(column):
            if mark[0] == LAYOUT:
                yield _read_layout(name, mark)


def _find_mark(name: str, version: str, machine: Machine, kind: str) -> str | None:
    """Return the mark of a class that begins with a letter; None if there is none in the release."""
    column = _column_of(version, machine)
    marks = () if column is None else _make_table().marks_in(name, column)
    return next((mark for mark in marks if mark[0] == kind), None)


@functools.lru_cache(maxsize=4096)
def _read_layout(name: str, mark: str) -> Layout:
    return as_layout(name, decode(mark[1:]))


@functools.cache
def _column_of(version: str, machine: Machine) -> int | None:
    return _make_table().numbers.get(f"{TorchVersion(version).of_release} {machine.value}")


def as_layout(name: str, row: Sequence[Any]) -> Layout:
    """Return a class from a row: size, alignment, bases, fields."""
    size, align, bases, fields = row
    return Layout(name, size, align, tuple(Base(*base) for base in bases), tuple(Field(*field) for field in fields))


@functools.cache
def _make_table() -> MarkTable:
    return MarkTable.of("layouts")
