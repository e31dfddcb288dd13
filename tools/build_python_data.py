"""Make ``abiscan/torches/data/pythons.txt``: the Pythons that the package index has wheels of a torch release for.

python -m tools.build_python_data
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from packaging.version import Version

from abiscan.torches import embedded, pythons

OUTPUT: Final = Path(pythons.__file__).with_name("data") / "pythons.txt"
MINORS: Final = tuple(f"3.{minor}" for minor in range(5, 16))
PLATFORMS: Final = tuple(
    f"{tag}_{machine}"
    for machine in ("x86_64", "aarch64")
    for tag in ("manylinux1", "manylinux2014", "manylinux_2_17", "manylinux_2_28", "linux")
)


def releases(python: str) -> set[str]:
    """The releases that pip finds a wheel of for a Python (``3.11``)."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    # Some releases ask for the last patch release of an old Python.
    exact = ["--python-version", f"{python}.99", "--only-binary=:all:", "--abi", f"cp{python.replace('.', '')}"]
    old_abi = ["--abi", f"cp{python.replace('.', '')}m"]  # up to 3.7
    command = [sys.executable, "-m", "pip", "index", "versions", "torch", "--pre", *exact, *old_abi, *platforms]
    listing = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"Available versions: (.*)", listing)
    return {str(Version(text).public) for text in found.group(1).split(", ")} if found else set()


def write() -> None:
    """Write the file, for the releases that are embedded."""
    by_python = {python: releases(python) for python in MINORS}
    lines = []
    for version in map(str, embedded.versions()):
        found = [python for python, known in by_python.items() if version in known]
        if not found:
            raise SystemExit(f"no wheel of torch {version} for any Python")
        lines.append(f"{version} {' '.join(found)}\n")
    OUTPUT.write_text("".join(lines), "utf-8")


if __name__ == "__main__":
    write()
