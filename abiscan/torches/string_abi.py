"""Which ``std::string`` a torch was built with: the C++11 one, or the one before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from abiscan.binary.elf import Machine, SharedObject
from abiscan.binary.mangling import uses_cxx11_string
from abiscan.binary.ownership import is_torch_symbol
from abiscan.inputs.version import TorchVersion
from abiscan.regex import regex

_FIRST_WITH_ALL: Final = (2, 7)
_MIXED: Final = (2, 6)
_NEW_IN_MIXED: Final = ("cu126", "rocm", "xpu")
_PUBLISHED: Final = regex(r"(?:cpu|cu\d+)(?:\.cxx11\.abi|\.with\.pypi\.cudnn)?")


def uses_cxx11_strings(libraries: Mapping[str, SharedObject]) -> bool | None:
    """Whether a torch was built with the C++11 ``std::string``; None if unknown.

    Seen from the constructors of ``c10::Error``, which every release exports and every extension calls.

    :param libraries: the torch's own, by base name
    """
    for name in ("libc10.so", "libtorch_cpu.so", "libtorch.so"):
        library = libraries.get(name)
        if library is not None:
            constructors = list(library.symbols.starting_with("_ZN3c105ErrorC2"))
            if constructors:
                return any("7__cxx11" in constructor for constructor in constructors)
    return None


def of_names(names: Iterable[str]) -> bool | None:
    """Whether some symbols of torch have the C++11 ``std::string``; None if there is none in them."""
    result = (uses_cxx11_string(name) for name in sorted(names) if is_torch_symbol(name))
    return next((cxx11 for cxx11 in result if cxx11 is not None), None)


def of_build(version: TorchVersion, machine: Machine) -> bool | None:
    """Whether a build, by its full version, has the C++11 ``std::string``; None if that is not known.

    On x86_64, all builds have it from 2.7 on. Of 2.6, those for CUDA 12.6, ROCm and XPU have it (announcement of torch
    2.6; pytorch issue 152790), and of older ones, those that say so (``+cpu.cxx11.abi``).
    """
    if machine is not Machine.X86_64:
        return None
    local = version.local or ""
    if version.minor_version >= _FIRST_WITH_ALL or "cxx11" in local:
        return True
    if version.minor_version == _MIXED:
        return local.startswith(_NEW_IN_MIXED)
    return False if is_published(version) else None


def is_published(version: TorchVersion) -> bool:
    """Whether a build has the tag of one that PyTorch publishes for the CPU or CUDA: others may be anything."""
    return _PUBLISHED.fullmatch(version.local or "") is not None
