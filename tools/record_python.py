"""What ``import torch`` registers from Python code, for ``abiscan/torches/data/python``.

``tools.ask_torch`` asks running torches. What is registered can depend on the machine: whether it has a GPU, and
whether Triton is installed. Record without.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.torches.embedded_python import DEFINITION
from abiscan.torches.from_python import read_operators

Entry = tuple[str, str]
"""What is registered, a definition or a kernel for a dispatch key, and for which operator."""


def record(executable: str) -> Iterator[Entry]:
    """What the torch of a Python registers from Python code; the key of each kernel is known there."""
    operators = read_operators(executable)
    for operator in operators.operators.values():
        if _is_python(operator.file):
            yield DEFINITION, operator.name
    for kernel in operators.kernels:
        if _is_python(kernel.file):
            yield str(kernel.key), kernel.operator


def _is_python(file: str | None) -> bool:
    """Whether Python code registers it; up to 2.8, torch does not say which (torch/csrc/utils/python_dispatch.cpp)."""
    return file is not None and (file.endswith(".py") or file == "/dev/null")
