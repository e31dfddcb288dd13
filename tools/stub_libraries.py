"""Make empty stand-ins for the CUDA libraries that a torch needs, so that it can be imported where there are none.

    python -m tools.stub_libraries TORCH FOLDER [LIBRARY ...]
    LD_LIBRARY_PATH=FOLDER python -c "import torch"

TORCH is the folder of the package, FOLDER gets one library for each that is needed and found nowhere. Each defines what
the libraries of torch import from it, with the versions that they ask for, as functions that return zero: enough to
load, to register and to look at the dispatcher, not to compute. Needs gcc; for a torch of another machine, the compiler
for that one (``aarch64-linux-gnu-gcc``), and ``--system FOLDER`` for each folder that has the libraries of its system.

Name every LIBRARY of an unpacked extension to get what those need as well. Torch's own libraries are never replaced:
that a torch for CPUs has no ``libtorch_cuda.so`` is part of what a load tells.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from abiscan.binary.elf import ElfFile, Machine, SharedObject
from abiscan.binary.ownership import is_cxx_symbol, is_python_symbol, is_torch_library, is_torch_symbol
from abiscan.inputs import system

_NO_VERSION: Final = ""


_RETURNING_ZERO: Final = {Machine.X86_64: "xor %eax, %eax", Machine.AARCH64: "mov x0, xzr"}


def missing_symbols(
    package: Path, extensions: Sequence[Path] = (), system_folders: Sequence[Path] = ()
) -> dict[str, dict[str, set[str]]]:
    """By the names of libraries that are found nowhere: what torch and extensions import from them, by version.

    :param system_folders: where the libraries of the system are; those of this system if there are none
    """
    files = [*package.glob("*.so"), *package.glob("lib/*.so*"), *extensions]
    objects = [ElfFile.open(path).facts() for path in files]
    of_system = system_folders or [Path(folder) for folder in system.library_folders(objects[0].machine)]
    siblings = dict.fromkeys(path.parent for path in extensions)
    folders = [package / "lib", *siblings, *of_system]
    needed = dict.fromkeys(name for facts in objects for name in facts.needed)
    absent = [
        name for name in needed if not (is_torch_library(name) or any((folder / name).exists() for folder in folders))
    ]
    found: dict[str, dict[str, set[str]]] = {name: defaultdict(set) for name in absent}
    for facts in objects:
        of_nobody = [name for name in facts.needed if name in found]
        for reference in facts.references:
            if reference.version is not None:
                if reference.version.file in found:
                    found[reference.version.file][reference.version.name].add(reference.name)
            elif of_nobody and _may_be_anywhere(reference.name) and not _is_defined(reference.name, objects):
                # Nothing tells which of them it is from; ld.so does not ask.
                found[of_nobody[0]][_NO_VERSION].add(reference.name)
    return found


def _may_be_anywhere(name: str) -> bool:
    return not (is_torch_symbol(name) or is_python_symbol(name) or is_cxx_symbol(name))


def _is_defined(name: str, objects: list[SharedObject]) -> bool:
    return any(facts.symbols.find(name) for facts in objects)


def make(name: str, symbols: dict[str, set[str]], folder: Path, machine: Machine = Machine.X86_64) -> None:
    """Build one library for a machine."""
    lines, script = [], []
    everything = sorted({symbol for names in symbols.values() for symbol in names})
    lines = [
        f".globl {symbol}\n.type {symbol}, @function\n{symbol}: {_RETURNING_ZERO[machine]}\nret"
        for symbol in everything
    ]
    script = [
        f"{version} {{ {' '.join(f'{each};' for each in sorted(names))} }};"
        for version, names in symbols.items()
        if version != _NO_VERSION
    ]
    source, versions = folder / f"{name}.s", folder / f"{name}.map"
    source.write_text(".text\n" + "\n".join(lines) + "\n", "utf-8")
    versions.write_text("\n".join(script) + "\n", "utf-8")
    compiler = "gcc" if machine is system.own_machine() else f"{machine.value}-linux-gnu-gcc"
    command = [compiler, "-shared", "-nostdlib", f"-Wl,-soname,{name}", str(source), "-o", str(folder / name)]
    subprocess.run([*command, *([f"-Wl,--version-script={versions}"] if script else [])], check=True)
    source.unlink()
    versions.unlink()


def main() -> int:
    """Make all that are missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("torch", type=Path, help="the folder of the torch package")
    parser.add_argument("folder", type=Path, help="where the libraries go")
    parser.add_argument(
        "libraries", nargs="*", type=Path, metavar="LIBRARY", help="an extension's, which need some, too"
    )
    parser.add_argument("--system", action="append", type=Path, default=[], metavar="FOLDER", help="(repeatable)")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    machine = ElfFile.open(arguments.torch / "lib" / "libc10.so").facts().machine
    for name, symbols in missing_symbols(arguments.torch, arguments.libraries, arguments.system).items():
        make(name, symbols, arguments.folder, machine)
        print(f"{name}: {sum(map(len, symbols.values()))} symbols")
    return 0


if __name__ == "__main__":
    sys.exit(main())
