"""Build the extensions of this folder against the torch of the running interpreter.

    python build.py

They declare the C functions themselves, so that they can record whichever version they like. Runs with the standard
library; torch is not imported.
"""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
FLAGS: Final = ("-O2", "-g0", "-fPIC", "-shared", "-s", "-Wl,--no-as-needed")


def main() -> None:
    """Build all."""
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    libraries = Path(spec.origin).parent / "lib"
    for source in sorted(HERE.glob("*.cpp")):
        built = source.with_suffix(".so").name
        command = [os.environ.get("CXX", "g++"), *FLAGS, source.name, "-o", built, f"-L{libraries}", "-ltorch_cpu"]
        subprocess.run(command, cwd=HERE, check=True)
        print(built)


if __name__ == "__main__":
    main()
