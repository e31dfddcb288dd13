"""Recovers what an extension registers by emulating its initialisers. The only importer of icicle and capstone."""

from abiscan.emulation.model import (
    CustomClass,
    Fallback,
    Gap,
    Kernel,
    Library,
    LibraryKind,
    Lookup,
    Operator,
    Phase,
    Registrations,
    Registry,
)
from abiscan.emulation.recovery import recover
from abiscan.emulation.torch_libraries import TorchRegistrations, recover_torch

__all__ = [
    "CustomClass",
    "Fallback",
    "Gap",
    "Kernel",
    "Library",
    "LibraryKind",
    "Lookup",
    "Operator",
    "Phase",
    "Registrations",
    "Registry",
    "TorchRegistrations",
    "recover",
    "recover_torch",
]
