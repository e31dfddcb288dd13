"""Make ``abiscan/dispatch/data/keys.txt``: the dispatch keys of every release, by number, as it names them itself.

``c10::toString(DispatchKey)`` of each release's own libc10.so is run in the emulator for every number. The wheels are
fetched with pip: those for aarch64 where there are any, for they are small; the numbers are the same. Each libc10.so
stays in the work folder, so a second run only fetches what is new. A line holds for a minor version.

    python -m tools.build_key_data
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from packaging.version import Version

from abiscan.binary.elf import ElfFile, Machine
from abiscan.dispatch import keys
from abiscan.emulation import recover_torch
from tools.build_release_data import VERSIONS, fetch

OUTPUT: Final = Path(keys.__file__).with_name("data") / "keys.txt"

UNNAMED: Final = {
    "1.5": {18: "PrivateUse1_TensorId"},
    "1.6": {13: "QuantizedCUDA", 21: "PrivateUse1", 22: "PrivateUse2", 23: "PrivateUse3"},
    "1.8": {37: "AutogradXPU"},
    "1.9": {37: "AutogradXPU"},
    "1.10": {52: "AutocastCPU"},
}
"""Keys of ``c10/core/DispatchKey.h`` for which ``toString`` of these releases has no case."""


def library(version: str, folder: Path) -> Path:
    """The libc10.so of a release."""
    path = folder / version / "libc10.so"
    if not path.exists():
        for machine in (Machine.AARCH64, Machine.X86_64):
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                package = fetch(version, machine, Path(scratch))
                if package is not None:
                    path.parent.mkdir(exist_ok=True)
                    shutil.move(package / "lib" / "libc10.so", path)
                    break
    return path


def main() -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("corpus/libc10"), help="where the libraries stay")
    work = parser.parse_args().work
    work.mkdir(parents=True, exist_ok=True)
    lines: dict[str, str] = {}
    for version in VERSIONS:
        minor = ".".join(version.split(".")[:2])
        file = ElfFile.open(library(version, work))
        names = {**recover_torch({"libc10.so": file}, file.machine).keys, **UNNAMED.get(minor, {})}
        text = " ".join(f"{number}:{name}" for number, name in sorted(names.items()))
        if lines.setdefault(minor, text) != text:
            raise SystemExit(f"torch {version} numbers its keys otherwise than the releases before it of {minor}")
    ordered = sorted(lines.items(), key=lambda item: Version(item[0]))
    OUTPUT.write_text("".join(f"{minor} {text}\n" for minor, text in ordered), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
