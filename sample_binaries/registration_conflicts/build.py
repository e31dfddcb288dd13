"""Build the extensions of this folder against the torch of the running interpreter.

    python build.py [name ...]

One source makes several files: ``duplicate_def-equal.so`` is ``duplicate_def.cpp`` compiled with ``-DEQUAL``. With a
torch up to 1.6 the extensions of that time are built instead, into ``mini_ipex/built_for_1.4.0`` and so on. Runs on
Python 3.8 and newer with the standard library; torch is not imported, and no path of the building machine enters a
file.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
CASES: Final = {
    "duplicate_def": ("equal", "older"),
    "duplicate_library": ("torch", "twice"),
    "duplicate_fallback": ("direct", "alias", "accepted"),
    "blank_names": ("",),
    "kernel_signature_mismatch": ("arity", "passing", "symint"),
    "kernel_schema_mismatch": ("arguments", "returns", "argument_type", "return_type", "kernel_first"),
    "impl_without_def": ("",),
    "kernel_override": ("",),
    "bad_schema_string": ("type", "syntax", "name_only"),
    "stable_errors": ("reopened", "key", "syntax", "kernel", "quoted", "quoted_type", "quoted_kernel"),
    "initialiser_ends_process": ("uncaught", "torch_error", "caught"),
    "custom_class_conflict": ("",),
    "registry_conflict": (
        *("backend", "hooks", "hooks_twice", "generator", "storage", "storage_named", "storage_device"),
        *("settings", "settings_torch", "key", "key_twice", "key_torch", "key_priority", "override"),
    ),
    "module_init": ("pybind11", "bare"),
    "several_conflicts": ("none", "one", "two", "three"),
    "unread_registration": ("",),
    "library_block_misuse": (
        *("fragment_of_all", "def_of_all", "def_with_key", "def_in_impl", "schema_namespace", "no_schema"),
        *("kernel_namespace", "kernel_namespace_of_all", "kernel_key"),
        *("fallback_in_def", "fallback_without_key", "fallback_of_namespace"),
    ),
}
OTHER: Final = {"dispatch_key_drift": "2.12.1"}
OLD: Final = {
    "mini_ipex": ("1.4.0", "1.5.0", "1.6.0"),
    "old_checks": ("1.4.0", "1.5.0", "1.6.0"),
    "register_operators": ("1.4.0", "1.6.0"),
}
FLAGS: Final = (
    *("-O1", "-g0", "-fPIC", "-fvisibility-inlines-hidden", "-shared", "-s"),
    "-Wl,--no-as-needed",
)
# What torch's CppExtension of that time sets, for wheels with the old std::string.
OLD_FLAGS: Final = ("-std=c++14", "-D_GLIBCXX_USE_CXX11_ABI=0", "-fvisibility=hidden", "-w")


def compile_source(source: Path, built: Path, torch: Path, *flags: str) -> None:
    """Compile one source against the headers and libraries in torch's folder."""
    python = sysconfig.get_paths()["include"]
    subprocess.run(
        [
            *(os.environ.get("CXX", "g++"), *FLAGS, *flags, f"-frandom-seed={built.name}"),
            *(f"-ffile-prefix-map={torch}=torch", f"-ffile-prefix-map={python}=python"),
            *(source.name, "-o", str(built)),
            *(f"-I{torch / 'include'}", f"-I{torch / 'include/torch/csrc/api/include'}", f"-I{python}"),
            *(f"-L{torch / 'lib'}", "-ltorch" if "-std=c++14" in flags else "-ltorch_cpu", "-lc10"),
        ],
        cwd=source.parent,
        check=True,
    )
    print(built.relative_to(HERE))


def main() -> None:
    """Build the sources named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description="Build the extensions of this folder.")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join((*CASES, *OLD)))
    names = parser.parse_args().names
    spec = find_spec("torch")
    if spec is None or spec.submodule_search_locations is None:
        raise SystemExit("the running interpreter has no torch")
    torch = Path(spec.submodule_search_locations[0]).resolve()
    version = (torch / "version.py").read_text("utf-8").partition("__version__ = '")[2].partition("'")[0]
    if version in OLD["mini_ipex"]:
        define = f"-DTORCH_{version[:3].replace('.', '_')}"
        for name in names or OLD:
            if version in OLD[name]:
                built = HERE / name / f"built_for_{version}" / f"{name}.so"
                compile_source(HERE / name / f"{name}.cpp", built, torch, *OLD_FLAGS, define)
        return
    for name in names or OTHER:
        if version.partition("+")[0] == OTHER.get(name):
            compile_source(HERE / f"{name}.cpp", HERE / f"{name}.so", torch, "-std=c++20")
    if version.partition("+")[0] in OTHER.values():
        return
    for name in names or CASES:
        for case in CASES[name]:
            built = HERE / (f"{name}-{case}.so" if case else f"{name}.so")
            compile_source(HERE / f"{name}.cpp", built, torch, "-std=c++20", f"-D{case.upper() or 'ONLY'}")


if __name__ == "__main__":
    main()
