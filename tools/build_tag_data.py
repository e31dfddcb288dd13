"""Make ``abiscan/dispatch/data/tags.txt``: the numbers of ``at::Tag``, release by release.

Read from ``core/enum_tag.h`` in the wheels, which are fetched with pip and deleted: those for aarch64, which are small;
the header is the same everywhere. A line holds for its minor version and the newer ones up to the next line; tags count
from 0.

    python -m tools.build_tag_data
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from packaging.version import Version

from abiscan.binary.elf import Machine
from abiscan.dispatch import tags
from tools.wheels import download

OUTPUT: Final = Path(tags.__file__).with_name("data") / "tags.txt"
FIRST: Final = Version("1.13")
"""The first minor version whose headers have the enumeration."""


def minors() -> list[Version]:
    """The minor versions on the package index, oldest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", "torch"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"Available versions: (.*)", listing)
    assert found is not None, "pip did not list the versions of torch"
    versions = (Version(text) for text in found.group(1).split(", "))
    return sorted({Version(f"{version.major}.{version.minor}") for version in versions if version >= FIRST})


def enumerators(minor: Version) -> list[str]:
    """The names of ``at::Tag`` in a release of ``minor``, in the order of their numbers."""
    python = "3.8" if minor < Version("2.0") else "3.11"
    with tempfile.TemporaryDirectory() as folder:
        path = download(f"torch=={minor}.*", Path(folder), python=python, machine=Machine.AARCH64)
        assert path is not None, f"no wheel of torch {minor} for aarch64"
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if name.endswith("core/enum_tag.h"):
                    body = re.search(r"enum class Tag \{(.*?)\}", wheel.read(name).decode("utf-8"), re.DOTALL)
                    if body:
                        text = re.sub(r"//.*", "", body.group(1))
                        return [word.strip() for word in text.split(",") if word.strip()]
    raise SystemExit(f"torch {minor}: no enumeration of tags in its headers")


def main() -> int:
    """Write the file."""
    lines: list[tuple[Version, list[str]]] = []
    for minor in minors():
        names = enumerators(minor)
        if not lines or lines[-1][1] != names:
            lines.append((minor, names))
    OUTPUT.write_text("".join(f"{minor} {' '.join(names)}\n" for minor, names in lines), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
