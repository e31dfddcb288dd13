"""Operators that TorchScript has before the dispatcher does, for ``abiscan/models/data/script_operators.txt``.

    python tools/record_script_operators.py
    PYTHONPATH=torches/2.5.1 LD_LIBRARY_PATH=stubs/2.5.1 python tools/record_script_operators.py

``aten::dim`` is an operator of TorchScript on every release, and one of the dispatcher only on the newest. Each run
asks the torch that it imports, and adds the names that its TorchScript has and its dispatcher has not: of operators,
and of overloads of the others, after a dot.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch

_OUTPUT: Final = Path(__file__).resolve().parent.parent / "abiscan/models/data/script_operators.txt"
_CORE: Final[Any] = torch._C  # not annotated in torch


def main() -> None:
    """Ask, and add what is new."""
    overloads = set(_CORE._dispatch_get_all_op_names())
    operators = {name.partition(".")[0] for name in overloads}
    names = set()
    for schema in _CORE._jit_get_all_schemas():
        full = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        if schema.name.startswith("aten::") and full not in overloads:
            names.add(f"{schema.name}.{schema.overload_name}" if schema.name in operators else schema.name)
    known = set(_OUTPUT.read_text("utf-8").split()) if _OUTPUT.exists() else set()
    _OUTPUT.write_text("".join(f"{name}\n" for name in sorted(known | names)), "utf-8")
    print(f"torch {torch.__version__}: {len(names - known)} new names")


if __name__ == "__main__":
    main()
