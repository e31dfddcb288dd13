"""Builds the samples beside this script against the installed torch, stripped. Needs g++."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
SAMPLES = {"backend": (), "backend_with_fallback": ("-DFALLBACK",)}


def main() -> None:
    """Build both."""
    from torch.utils import cpp_extension

    includes = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    for name, flags in SAMPLES.items():
        target = f"{name}.so"
        common = ["-std=c++20", "-O2", "-fPIC", "-shared", "-w", "-Wl,-z,now", "-Wl,--build-id=none", *flags]
        paths = [f"-I{include}" for include in includes]
        paths += [f"-ffile-prefix-map={include}=include" for include in includes]
        libraries = [*(f"-L{path}" for path in cpp_extension.library_paths()), "-lc10", "-ltorch_cpu", "-ltorch"]
        compiler, strip = "g++", "strip"
        subprocess.run([compiler, *common, *paths, "backend.cpp", "-o", target, *libraries], check=True, cwd=HERE)
        subprocess.run([strip, target], check=True, cwd=HERE)


if __name__ == "__main__":
    main()
