"""What ``import torch`` registers from Python code, for some of the embedded releases.

``data/python`` is made by ``tools/record_python.py`` from running torches. Its keys are dispatch keys, and the marks of
one the operators that have a kernel for it; the marks of ``DEFINITION`` are defined. See ``marks``.
"""

from __future__ import annotations

import functools
from typing import Final

from abiscan.inputs.version import TorchVersion
from abiscan.torches.marks import MarkTable

DEFINITION: Final = "definition"
"""The key that is no dispatch key."""


@functools.cache
def definitions(release: TorchVersion | None) -> frozenset[str] | None:
    """Return the operators that Python code of a release defines as torch is imported, with overloads.

    None if that is not recorded.
    """
    column = table().numbers.get(release.base_version if release else "")
    return None if column is None else frozenset(table().marks_in(DEFINITION, column))


@functools.cache
def namespaces() -> frozenset[str]:
    """Return the namespaces in which Python code of some release defines operators."""
    return frozenset(name.partition("::")[0] for name in table().marks_of(DEFINITION))


@functools.cache
def table() -> MarkTable:
    """Return the data, opened on first use."""
    return MarkTable.of("python")
