"""Name the operators that only TorchScript has: ``torch.ops.aten`` has them, and no dispatcher does.

``data/torchscript.txt`` is made by ``tools/record_torchscript.py``: names of operators, and of overloads after a dot.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

PATH: Final = Path(__file__).with_name("data") / "torchscript.txt"


def may_have(name: str) -> bool:
    """Whether TorchScript may have an operator (``aten::len``), or an overload (``aten::add.str``)."""
    base, _, overload = name.partition(".")
    return base in _read_words() or f".{overload}" in _read_words()


@functools.cache
def _read_words() -> frozenset[str]:
    """Read the names from the data of the package."""
    return frozenset(PATH.read_text("utf-8").split())
