"""Build the extensions of this folder against torch 2.8.0, to be loaded into a newer one.

    python build.py TORCH    # the folder of the package: its include and lib are used

Torch is not imported, and no path of the building machine enters a file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
FLAGS: Final = (
    *("-std=c++17", "-O1", "-g0", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-shared", "-s"),
    *("-Wl,--build-id=sha1", "-Wl,--no-as-needed"),
)


def main() -> None:
    """Build them all."""
    parser = argparse.ArgumentParser(description="Build the extensions of this folder.")
    parser.add_argument("torch", type=Path, help="the package folder of torch 2.8.0")
    torch = parser.parse_args().torch.resolve()
    for source in sorted(HERE.glob("*.cpp")):
        subprocess.run(
            [
                *(os.environ.get("CXX", "g++"), *FLAGS, f"-frandom-seed={source.stem}"),
                *(f"-ffile-prefix-map={torch}=torch", source.name, "-o", source.with_suffix(".so").name),
                *(f"-I{torch / 'include'}", f"-I{torch / 'include/torch/csrc/api/include'}"),
                *(f"-L{torch / 'lib'}", "-Wl,--allow-shlib-undefined", "-ltorch_cpu", "-lc10"),
            ],
            cwd=HERE,
            check=True,
        )


if __name__ == "__main__":
    main()
