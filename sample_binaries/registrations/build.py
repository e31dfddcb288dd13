"""Builds the samples beside this script: one small extension per registration API, stripped.

    python build.py                                 against the installed torch
    python build.py --headers 1.8.1=DIR/include     adds samples of an older torch, from the headers of its wheel

Nothing is linked to torch: whatever the samples use of it stays undefined, as in an extension of a wheel. The headers
of a wheel for macOS do as well. Needs g++, and aarch64-linux-gnu-g++ for the samples of AArch64.
"""

from __future__ import annotations

import argparse
import subprocess
import sysconfig
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLD_STRINGS = "-D_GLIBCXX_USE_CXX11_ABI=0"

# (result, source, compiler, flags beyond the common ones)
CURRENT = (
    ("library", "library", "g++", ()),
    ("library_avx2", "library", "g++", ("-mavx2", "-O3")),
    ("library_avx512", "library", "g++", ("-march=x86-64-v4", "-mprefer-vector-width=512", "-O3")),
    ("library_unoptimised", "library", "g++", ("-O0",)),
    ("library_cow", "library", "g++", (OLD_STRINGS,)),
    ("library_aarch64", "library", "aarch64-linux-gnu-g++", ()),
    ("operators", "operators", "g++", ()),
    ("classes", "classes", "g++", ()),
    ("classes_cow", "classes", "g++", (OLD_STRINGS,)),
    ("classes_aarch64", "classes", "aarch64-linux-gnu-g++", ()),
    ("backend", "backend", "g++", ()),
    ("stable", "stable", "g++", ()),
    ("registries", "registries", "g++", ()),
    ("registries_aarch64", "registries", "aarch64-linux-gnu-g++", ()),
    ("operators_aarch64", "operators", "aarch64-linux-gnu-g++", ()),
    ("stable_aarch64", "stable", "aarch64-linux-gnu-g++", ()),
    ("backend_aarch64", "backend", "aarch64-linux-gnu-g++", ()),
    ("pybind", "pybind", "g++", ("-fvisibility=hidden",)),
    ("pybind_aarch64", "pybind", "aarch64-linux-gnu-g++", ("-fvisibility=hidden",)),
    ("lookups", "lookups", "g++", ()),
    ("lookups_unoptimised", "lookups", "g++", ("-O0",)),
    ("lookups_cow", "lookups", "g++", (OLD_STRINGS,)),
    ("lookups_aarch64", "lookups", "aarch64-linux-gnu-g++", ()),
    ("renamed", "renamed", "g++", ()),
    ("expressions", "expressions", "g++", ()),
    ("expressions_cow", "expressions", "g++", (OLD_STRINGS,)),
    ("expressions_aarch64", "expressions", "aarch64-linux-gnu-g++", ()),
    ("defaults", "defaults", "g++", ()),
    ("defaults_release", "defaults", "g++", ("-DNDEBUG",)),
    ("defaults_cow", "defaults", "g++", (OLD_STRINGS,)),
    ("defaults_cow_release", "defaults", "g++", (OLD_STRINGS, "-DNDEBUG")),
    ("optionals", "optionals", "g++", ()),
    ("optionals_aarch64", "optionals", "aarch64-linux-gnu-g++", ()),
)


def build(result: str, source: str, compiler: str, includes: list[Path], flags: tuple[str, ...]) -> None:
    """Compile one sample and strip it."""
    target = HERE / f"{result}.so"
    paths = [f"-I{include}" for include in includes]
    # Assertions name the file that they stand in: no folder of this machine gets into a sample.
    paths += [f"-ffile-prefix-map={include}=torch/include" for include in includes]
    common = ["-O2", "-fPIC", "-shared", "-w", "-Wl,-z,now", "-Wl,--build-id=none"]
    subprocess.run([compiler, *common, *flags, *paths, source + ".cpp", "-o", str(target)], check=True, cwd=HERE)
    subprocess.run([compiler.replace("g++", "strip"), str(target)], check=True)


def main() -> None:
    """Build everything that was asked for."""
    parser = argparse.ArgumentParser(description="Build the samples.")
    parser.add_argument("--headers", action="append", default=[], metavar="RELEASE=DIR")
    parser.add_argument("--only-older", action="store_true", help="leave the samples of the installed torch alone")
    parser.add_argument("--only", metavar="SOURCE", help="of the installed torch only the samples of one source")
    options = parser.parse_args()
    if not options.only_older:
        import torch.utils.cpp_extension as extension

        includes = [*map(Path, extension.include_paths()), Path(sysconfig.get_paths()["include"])]
        for result, source, compiler, flags in CURRENT:
            # g++ strips with strip, aarch64-linux-gnu-g++ with aarch64-linux-gnu-strip.
            if options.only in (None, source):
                build(result, source, compiler, includes, ("-std=c++20", *flags))
    for pair in options.headers:
        release, _, directory = pair.partition("=")
        numbers = tuple(map(int, release.split(".")[:2]))
        older = ("-std=c++17" if numbers >= (2, 0) else "-std=c++14", OLD_STRINGS, "-include", "cstdint")
        legacy = (*older, f"-DLEGACY_TENSOR_TYPE_ID={int(numbers < (1, 5))}")
        suffix = release.replace(".", "_")
        build(f"legacy_{suffix}", "legacy", "g++", [Path(directory)], legacy)
        if numbers >= (1, 9):
            build(f"library_{suffix}", "library", "g++", [Path(directory)], older)
            spelled = "std::optional" if numbers >= (2, 2) else "c10::optional"
            build(f"optionals_{suffix}", "optionals", "g++", [Path(directory)], (*older, f"-DOPTIONAL={spelled}"))
        if numbers == (1, 6):
            for level in ("O0", "O1", "O2", "O3"):
                build(f"keys_{suffix}_{level}", "keys", "g++", [Path(directory)], (*older, f"-{level}"))
        if numbers >= (1, 6):
            has = (f"-DDEFAULT_ARGUMENTS={int(numbers >= (1, 9))}", f"-DCLASSES_IN_LIBRARIES={int(numbers >= (1, 7))}")
            # A std::unordered_map of the extension's own is not the one in which torch up to 1.6 keeps the classes.
            table = ("-DTABLE_OF_ITS_OWN",) if numbers == (1, 7) else ()
            build(f"classes_{suffix}", "classes", "g++", [Path(directory)], (*older, *has, *table))


if __name__ == "__main__":
    main()
