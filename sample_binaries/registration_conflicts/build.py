"""Build the extensions of this folder against the torch of the running interpreter.

    python build.py [name ...]

One source makes several files: ``duplicate_def-equal.so`` is ``duplicate_def.cpp`` compiled with ``-DEQUAL``. Only the
standard library is used, torch is not imported, and no path of the building machine enters a file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
CASES: Final = {
    "duplicate_def": ("equal", "older"),
    "duplicate_library": ("torch", "twice"),
    "duplicate_fallback": ("direct", "alias"),
    "kernel_signature_mismatch": ("arity", "passing", "symint"),
    "kernel_schema_mismatch": ("arguments", "returns", "argument_type", "return_type", "kernel_first"),
    "impl_without_def": ("",),
    "kernel_override": ("",),
    "bad_schema_string": ("type", "syntax", "name_only"),
    "custom_class_conflict": ("",),
    "library_block_misuse": (
        *("fragment_of_all", "def_of_all", "def_with_key", "def_in_impl", "schema_namespace", "no_schema"),
        *("kernel_namespace", "kernel_namespace_of_all", "kernel_key"),
        *("fallback_in_def", "fallback_without_key", "fallback_of_namespace"),
    ),
}
FLAGS: Final = (
    *("-std=c++20", "-O1", "-g0", "-fPIC", "-fvisibility-inlines-hidden", "-shared", "-s"),
    "-Wl,--no-as-needed",
)


def main() -> None:
    """Build the sources named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description="Build the extensions of this folder.")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(CASES))
    spec = find_spec("torch")
    if spec is None or spec.submodule_search_locations is None:
        raise SystemExit("the running interpreter has no torch")
    torch = Path(spec.submodule_search_locations[0]).resolve()
    for name in parser.parse_args().names or CASES:
        for case in CASES[name]:
            built = f"{name}-{case}.so" if case else f"{name}.so"
            subprocess.run(
                [
                    *(os.environ.get("CXX", "g++"), *FLAGS, f"-frandom-seed={built}"),
                    *(f"-ffile-prefix-map={torch}=torch", f"-D{case.upper() or 'ONLY'}", f"{name}.cpp", "-o", built),
                    *(f"-I{torch / 'include'}", f"-I{torch / 'include/torch/csrc/api/include'}"),
                    *(f"-L{torch / 'lib'}", "-ltorch_cpu", "-lc10"),
                ],
                cwd=HERE,
                check=True,
            )
            print(built)


if __name__ == "__main__":
    main()
