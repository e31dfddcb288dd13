"""Memory that a long search gives back: what it has read and no longer needs, before it reads more."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Final

_MUCH: Final = 128 << 20
"""Looking for garbage takes a quarter of a second, which nobody needs whose process is smaller than this."""

_STATUS: Final = Path("/proc/self/statm")


def give_back() -> None:
    """Collect garbage if the process is large, or if the system does not tell.

    The syntax trees of a large package take a hundred megabytes, refer to each other, and are exempt from the ordinary
    collections: see ``python/reading``.
    """
    size = _measure_resident()
    if size is None or size > _MUCH:
        gc.collect()


def _measure_resident() -> int | None:
    """Return the memory that the process has, in bytes; None where the system does not tell (Linux does)."""
    try:
        return int(_STATUS.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, LookupError, AttributeError):
        return None
