"""What torch itself needs of the processor to be imported, as far as that was recorded."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final, NamedTuple

from abiscan.binary.elf import Machine

_TABLE: Final = Path(__file__).with_name("torches.txt")


class _Line(NamedTuple):
    """A line of the table: what the releases from ``first`` to ``last``, both included, need on a machine."""

    machine: Machine
    first: tuple[int, int]
    last: tuple[int, int]
    features: tuple[str, ...]


def torch_needs(machine: Machine, minor_version: tuple[int, int] | None) -> tuple[str, ...]:
    """Return the features without which a release of torch cannot be imported; empty if none are known.

    :param minor_version: ``(2, 13)``; None if the release is not known
    """
    if minor_version is None:
        return ()
    lines = (line for line in _table_lines() if line.machine is machine and line.first <= minor_version <= line.last)
    return next((line.features for line in lines), ())


@functools.cache
def _table_lines() -> list[_Line]:
    results = []
    for text in _TABLE.read_text("utf-8").splitlines():
        if text and not text.startswith("#"):
            words, _, features = text.partition(":")
            machine, first, last = words.split()
            results.append(_Line(Machine(machine), _minor(first), _minor(last), tuple(features.split())))
    return results


def _minor(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)
