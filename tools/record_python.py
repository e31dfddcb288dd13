"""What ``import torch`` registers from Python code, for ``abiscan/torches/data/python.json.gz``.

``tools.ask_torch`` asks running torches. What is registered can depend on the machine: whether it has a GPU, and
whether Triton is installed. Record without.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Iterator, Mapping

from packaging.version import Version

from abiscan.torches.embedded_python import DEFINITION
from abiscan.torches.from_python import read_operators
from tools.data_files import moved

Entry = tuple[str, str]
"""An operator, and what is registered for it: a definition, or a kernel for a dispatch key."""


def record(executable: str) -> Iterator[Entry]:
    """What the torch of a Python registers from Python code; the key of each kernel is known there."""
    operators = read_operators(executable)
    for operator in operators.operators.values():
        if _is_python(operator.file):
            yield operator.name, DEFINITION
    for kernel in operators.kernels:
        if _is_python(kernel.file):
            yield kernel.operator, str(kernel.key)


def _is_python(file: str | None) -> bool:
    """Whether Python code registers it; up to 2.8, torch does not say which (torch/csrc/utils/python_dispatch.cpp)."""
    return file is not None and (file.endswith(".py") or file == "/dev/null")


def replaced(data: bytes, recorded: Mapping[str, Collection[Entry]], without: Collection[str] = ()) -> bytes:
    """The data file with some releases replaced or added.

    :param without: releases to leave out
    """
    known = json.loads(gzip.decompress(data))
    old = list(known["releases"])
    new = sorted(({*old} - {*without}) | {*recorded}, key=Version)
    columns = {(operator, what): int(bits, 16) for operator, what, bits in known["entries"]}
    result = moved(columns, old, new, recorded)
    rows = ",\n  ".join(sorted(json.dumps([*entry, f"{bits:x}"]) for entry, bits in result.items()))
    return gzip.compress(f'{{"releases": {json.dumps(new)},\n "entries": [\n  {rows}\n]}}\n'.encode(), 9, mtime=0)
