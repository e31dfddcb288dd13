"""Which driver knows which code, on Linux.

CUDA's release notes, table 3, and its page on minor version compatibility; PTX versions as in ``cuda-bindings``
(``cuda.bindings.utils``).
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Driver(NamedTuple):
    """A version of NVIDIA's driver: ``570.26`` is ``(570, 26, 0)``."""

    major: int
    minor: int = 0
    patch: int = 0

    @classmethod
    def parse(cls, text: str) -> Driver | None:
        """Parse a version; return None if the text is not a version."""
        parts = text.split(".")
        if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
            return None
        return cls(*map(int, parts))

    def __str__(self) -> str:
        # 535.54.03 is what NVIDIA writes.
        return ".".join([str(self.major), *([f"{self.minor:02}"] if self.minor else []), *self._patch])

    @property
    def _patch(self) -> list[str]:
        return [f"{self.patch:02}"] if self.patch else []


# PTX version → the CUDA that introduced it, and the first driver with that CUDA; None where that is not known.
_PTX: Final[dict[tuple[int, int], tuple[tuple[int, int], Driver | None]]] = {
    (6, 5): ((10, 2), Driver(440, 33)),
    (7, 0): ((11, 0), Driver(450, 36, 6)),
    (7, 1): ((11, 1), Driver(455, 23)),
    (7, 2): ((11, 2), Driver(460, 27, 3)),
    (7, 3): ((11, 3), Driver(465, 19, 1)),
    (7, 4): ((11, 4), Driver(470, 42, 1)),
    (7, 5): ((11, 5), Driver(495, 29, 5)),
    (7, 6): ((11, 6), Driver(510, 39, 1)),
    (7, 7): ((11, 7), Driver(515, 43, 4)),
    (7, 8): ((11, 8), Driver(520, 61, 5)),
    (8, 0): ((12, 0), Driver(525, 60, 13)),
    (8, 1): ((12, 1), Driver(530, 30, 2)),
    (8, 2): ((12, 2), Driver(535, 54, 3)),
    (8, 3): ((12, 3), Driver(545, 23, 6)),
    (8, 4): ((12, 4), Driver(550, 54, 14)),
    (8, 5): ((12, 5), Driver(555, 42, 2)),
    (8, 6): ((12, 7), Driver(565)),
    (8, 7): ((12, 8), Driver(570, 26)),
    (8, 8): ((12, 9), Driver(575, 51, 3)),
    (9, 0): ((13, 0), Driver(580, 65, 6)),
    (9, 1): ((13, 1), Driver(590, 44, 1)),
    (9, 2): ((13, 2), None),
    (9, 3): ((13, 3), None),
    (9, 4): ((13, 4), None),
    (9, 5): ((13, 5), None),
}
_NEWEST_KNOWN: Final = max(driver for _, driver in _PTX.values() if driver)
_LONGEST_MAJOR: Final = 2
_DRIVER_BY_CUDA: Final = {11: Driver(450), 12: Driver(525), 13: Driver(580)}

ZSTD: Final = Driver(550, 54, 14)
"""The first driver that decompresses zstd in containers."""


def cuda_of_ptx(version: tuple[int, int]) -> tuple[int, int] | None:
    """Return the CUDA that introduced a version of PTX; None if that is unknown."""
    return _PTX[version][0] if version in _PTX else None


def cuda_of_driver(driver: Driver) -> tuple[int, int] | None:
    """Return the first version of CUDA all of whose drivers are at least as new as one; None if that is unknown."""
    return min((cuda for cuda, first in _PTX.values() if first is not None and first >= driver), default=None)


def driver_of_cuda(version: tuple[int, int]) -> Driver | None:
    """Return a driver that has no more than the oldest ones with a version of CUDA; None if none is known."""
    return max((first for cuda, first in _PTX.values() if first is not None and cuda <= version), default=None)


def driver_for_ptx(version: tuple[int, int]) -> Driver | None:
    """Return the first driver that knows a version of PTX; None if that is unknown."""
    return _PTX[version][1] if version in _PTX else None


def knows_ptx(driver: Driver, version: tuple[int, int]) -> bool | None:
    """Whether a driver translates a version of PTX; None if that is unknown."""
    first = driver_for_ptx(version)
    if first is not None:
        return driver >= first
    # A version older than the table is supported by every driver of the table; a newer one by none of them, but perhaps
    # by a driver that came out since then.
    if version < min(_PTX):
        return True
    return False if driver <= _NEWEST_KNOWN else None


def driver_for_cuda(version: str) -> Driver | None:
    """Return the first driver that runs what is built for a CUDA (``12.8``); None if that is unknown, or no version.

    A driver runs what was built for any CUDA of a major version that it knows: CUDA, "Minor Version Compatibility".
    """
    major = version.partition(".")[0]
    return driver_for_runtime(int(major)) if major.isdecimal() and len(major) <= _LONGEST_MAJOR else None


def driver_for_runtime(major: int) -> Driver | None:
    """Return the first driver that runs programs of a major version of CUDA; None if that is unknown."""
    return _DRIVER_BY_CUDA.get(major)
