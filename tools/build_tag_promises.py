"""Make the data on what the tags of a wheel promise: ``abiscan/inputs/data/{limited_api,manylinux}.txt``.

The limited API of Python comes from the package abi3info, the symbol versions of each manylinux tag from the policies
of auditwheel. Both are installed by hand, since nothing else needs them; the output depends on their versions alone.

    pip install abi3info auditwheel
    python -m tools.build_tag_promises
"""

from __future__ import annotations

import importlib
import json
import sys
from importlib import resources
from pathlib import Path
from typing import Any, Final

from abiscan.binary.elf import Machine
from abiscan.inputs import wheel_tag

FOLDER: Final = Path(wheel_tag.__file__).with_name("data")


def limited_api(abi3info: Any) -> list[str]:
    """``3.2 PyArg_Parse``: the Python since which each symbol belongs to the stable ABI."""
    symbols = {**abi3info.FUNCTIONS, **abi3info.DATAS}
    return sorted(f"{item.added.major}.{item.added.minor} {symbol.linux}" for symbol, item in symbols.items())


def manylinux(policies: list[dict[str, Any]]) -> list[str]:
    """``x86_64 2.17 GLIBC 2.13 2.14 …``: the symbol versions that each tag adds to those of the tag before."""
    lines = []
    for machine in (machine.value for machine in Machine):
        seen: set[tuple[str, str]] = set()
        for policy in policies:
            number = policy["name"].removeprefix("manylinux_").replace("_", ".")
            for family, versions in policy["symbol_versions"].get(machine, {}).items():
                added = [version for version in versions if (family, version) not in seen]
                seen |= {(family, version) for version in added}
                if added:
                    lines.append(" ".join((machine, number, family, *added)))
    return lines


def main() -> int:
    """Write both files."""
    policies = json.loads(resources.files("auditwheel").joinpath("policy/manylinux-policy.json").read_text("utf-8"))
    for name, lines in (
        ("limited_api.txt", limited_api(importlib.import_module("abi3info"))),
        ("manylinux.txt", manylinux(policies)),
    ):
        FOLDER.joinpath(name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
        print(f"{name}: {len(lines)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
