"""Build the two libraries of this folder against the torch of the running interpreter, 2.13.0."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
FLAGS: Final = ("-std=c++20", "-O1", "-g0", "-fPIC", "-fvisibility-inlines-hidden", "-shared", "-s")


def compile_library(source: str, name: str, torch: Path, *flags: str) -> None:
    """Compile one source against the headers and libraries in torch's folder."""
    subprocess.run(
        [
            *(os.environ.get("CXX", "g++"), *FLAGS, f"-ffile-prefix-map={torch}=torch", f"-frandom-seed={name}"),
            *(source, "-o", name, f"-Wl,-soname,{name}", "-Wl,--no-as-needed"),
            *(f"-I{torch / 'include'}", f"-I{torch / 'include/torch/csrc/api/include'}"),
            *(f"-L{torch / 'lib'}", "-ltorch_cpu", "-lc10", *flags),
        ],
        cwd=HERE,
        check=True,
    )


def main() -> None:
    """Build what is needed, then what needs it."""
    spec = find_spec("torch")
    if spec is None or spec.submodule_search_locations is None:
        raise SystemExit("the running interpreter has no torch")
    torch = Path(spec.submodule_search_locations[0]).resolve()
    compile_library("provider.cpp", "libabiscan_provider.so", torch)
    compile_library("user.cpp", "abiscan_user.so", torch, "-L.", "-labiscan_provider")


if __name__ == "__main__":
    main()
