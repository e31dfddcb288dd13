"""Where torch's internal assertions are in its source, for the embedded builds.

``data/assertions`` is made by ``make release``. Its keys are ids of messages, and the mark of one is its place.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from abiscan.binary.elf import Machine
from abiscan.torches.marks import MarkTable


@functools.cache
def assertions(build: str, machine: Machine) -> Mapping[str, str]:
    """Return the places of a build by message id; empty if they are not embedded, or the build has no such assertion.

    :param build: its full version: ``2.13.0+cpu``
    """
    column = table().numbers.get(f"{build} {machine.value}")
    return {} if column is None else dict(table().items_in(column))


@functools.cache
def table() -> MarkTable:
    """Return the data, opened on first use."""
    return MarkTable.of("assertions")
