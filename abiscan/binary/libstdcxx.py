"""Which libstdc++ has a symbol of the C++ runtime: by its version, and by the GCC that this came with.

``data/libstdcxx.txt`` is made by ``tools/record_libstdcxx.py``. The releases of GCC are those of the manual of
libstdc++, "ABI Policy and Guidelines".
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PATH: Final = Path(__file__).with_name("data") / "libstdcxx.txt"

_GLIBCXX: Final = {
    21: 5,
    22: 6,
    23: 7,
    24: 7,
    25: 8,
    26: 9,
    27: 9,
    28: 9,
    29: 11,
    30: 12,
    31: 13,
    32: 13,
    33: 14,
    34: 15,
}
_CXXABI: Final = {9: 5, 10: 6, 11: 7, 12: 9, 13: 11, 14: 13, 15: 14, 16: 15}
"""The first GCC with a version, by its last number: GLIBCXX_3.4.31 and CXXABI_1.3.14 came with GCC 13."""


def version_with(symbol: str) -> str | None:
    """Return the version that a symbol came with (``CXXABI_1.3.15``); None for all others, and those of GCC 5."""
    return _read_versions().get(symbol)


def gcc_with(version: str) -> int | None:
    """Return the release of GCC that a version of symbols came with; None if it is not known."""
    name, _, number = version.rpartition(".")
    return (_GLIBCXX if name == "GLIBCXX_3.4" else _CXXABI).get(int(number))


@functools.cache
def _read_versions() -> Mapping[str, str]:
    return dict(line.split() for line in PATH.read_text("utf-8").splitlines())
