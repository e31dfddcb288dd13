"""What abiscan asks lief for: the name of a machine, and a demangled name. The only importer of lief.

Importing lief takes a quarter of a second, so it is imported on first use.
"""

from __future__ import annotations

import functools
from types import ModuleType


@functools.cache
def lief_module() -> ModuleType:
    """Return the module of lief, which prints nothing."""
    import lief

    lief.disable_leak_warning()  # otherwise it prints pages about its own objects at the end of the process
    lief.logging.disable()  # abiscan words its own errors about files
    return lief


def machine_name(number: int) -> str:
    """Return the name of a machine by its number in an ELF header: ``RISCV`` for 243."""
    lief = lief_module()
    try:
        return str(lief.ELF.ARCH(number).name)
    except ValueError:
        return f"machine number {number}"


def demangle_by_lief(name: str) -> str | None:
    """Return the C++ name of a mangled name; None if it is not mangled, or if lief does not run on this machine."""
    try:
        symbol = lief_module().ELF.Symbol()  # lief.demangle() is not in the free edition
        symbol.name = name
        text: str = symbol.demangled_name
    except (ImportError, OSError, TypeError, UnicodeError, MemoryError):  # TypeError: a lone surrogate
        return None
    return text if text != name else None
