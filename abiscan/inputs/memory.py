"""Memory: what a process has, and what it gives back of it before it reads more."""

from __future__ import annotations

import contextlib
import gc
import os
from pathlib import Path
from typing import Final

_MUCH: Final = 128 << 20
"""Looking for garbage takes a quarter of a second, which nobody needs whose process is smaller than this."""

_PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def give_back() -> None:
    """Collect garbage if the process is large, or if the system does not tell.

    The syntax trees of a large package take a hundred megabytes, refer to each other, and are exempt from the ordinary
    collections: see ``python/reading``. What a collection frees lies between what stays, and the allocator of glibc
    keeps it, unless it is told to look for whole pages.
    """
    size = measure(os.getpid())
    if size is None or size > _MUCH:
        gc.collect()
        _trim()


def _trim() -> None:
    import ctypes

    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library, or Windows
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))


def measure(process: int) -> int | None:
    """Return the memory that a process has beside files that it maps, in bytes; None where the system does not tell
    (Linux does), or there is no such process.
    """
    try:
        resident, of_files = map(int, Path(f"/proc/{process}/statm").read_text("ascii").split()[1:3])
    except (OSError, ValueError):
        return None
    return (resident - of_files) * _PAGE_SIZE
