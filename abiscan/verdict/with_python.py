"""Libraries of the system that modules of Python bring into each process that imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from abiscan.binary.elf import Machine
from abiscan.binary.ownership import without_version
from abiscan.inputs import observed_fs
from abiscan.inputs.interpreter import Interpreter

# By library: the module of the standard library that needs it, and that ``import torch`` imports (torch 1.13 to 2.13).
_MODULES: Final = {
    "libz.so": "zlib",
    "libbz2.so": "_bz2",
    "liblzma.so": "_lzma",
    "libffi.so": "_ctypes",
    "libcrypto.so": "_hashlib",
    "libssl.so": "_ssl",
    "libuuid.so": "_uuid",
}


def module_with(library: str, interpreter: Interpreter | None, machine: Machine) -> str | None:
    """Return the path of the module of a Python that may have loaded a library; None if there is none.

    A module that is a part of the interpreter itself is none: what it needs is loaded with the interpreter.
    """
    module = _MODULES.get(without_version(library))
    if module is None or interpreter is None or interpreter.executable is None:
        return None
    tag = interpreter.tag
    prefix = Path(observed_fs.resolve_links(interpreter.executable)).parent.parent
    name = f"{module}.cpython-{tag.major}{tag.minor}{tag.flags}-{machine.value}-linux-gnu.so"
    path = str(prefix / "lib" / f"python{tag}" / "lib-dynload" / name)
    return path if observed_fs.is_file(path) else None
