"""The operators that only TorchScript has, for ``abiscan/dispatch/data/torchscript.txt``: asked of the installed torch.

    python -m tools.record_torchscript

No dispatcher knows them, but ``torch.ops.aten`` has them. The file has the names of all releases that were asked.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from abiscan.dispatch.torchscript import PATH
from abiscan.torches import embedded_operators

_ASK: Final = """
import torch
known = set(torch._C._dispatch_get_all_op_names())
for schema in torch._C._jit_get_all_schemas():
    name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
    if name not in known and schema.name.startswith(("aten::", "prim::")):
        print(name)
"""


def main() -> None:
    """Ask, and add what is new."""
    asked = subprocess.run([sys.executable, "-W", "ignore", "-c", _ASK], capture_output=True, text=True, check=True)
    everywhere = {name.partition(".")[0] for name in embedded_operators.table().all_names}
    overloads = {name.partition(".")[2] for name in embedded_operators.table().all_names}
    words = set(PATH.read_text("utf-8").split()) if PATH.exists() else set()
    for name in asked.stdout.split():
        base, _, overload = name.partition(".")
        words |= ({base} - everywhere) | ({f".{overload}"} if overload and overload not in overloads else set())
    PATH.write_text("".join(f"{word}\n" for word in sorted(words)), "utf-8")


if __name__ == "__main__":
    main()
