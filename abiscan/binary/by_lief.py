"""What lief says of a binary: the name of a machine, and a C++ name. The only importer of lief.

Importing lief takes a quarter of a second, so it is imported for the first question.
"""

from __future__ import annotations

import functools
from types import ModuleType


@functools.cache
def _lief() -> ModuleType:
    import lief

    lief.disable_leak_warning()  # it would end the output of the process with pages about its own objects
    return lief


def machine_name(number: int) -> str:
    """The name of a machine by its number in an ELF header: ``RISCV`` for 243."""
    lief = _lief()
    try:
        return str(lief.ELF.ARCH(number).name)
    except ValueError:
        return f"machine number {number}"


def demangle(name: str) -> str | None:
    """The C++ name of a mangled one; None if it is not mangled, or if lief does not run on this machine."""
    try:
        symbol = _lief().ELF.Symbol()  # lief.demangle() is not in the free edition
        symbol.name = name
        text: str = symbol.demangled_name
    except (ImportError, OSError, TypeError, UnicodeError, MemoryError):  # TypeError: a lone surrogate is no text
        return None
    return text if text != name else None
