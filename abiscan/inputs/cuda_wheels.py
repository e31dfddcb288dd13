"""The libraries of CUDA that a requirement brings: those in the wheels of NVIDIA's distributions.

``data/cuda_wheels.txt`` is made by ``tools/record_cuda_wheels.py``. A distribution that is not there brings none.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from packaging.version import Version

from abiscan.regex import regex

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PATH: Final = Path(__file__).with_name("data") / "cuda_wheels.txt"

_SEPARATORS: Final = regex(r"[-_.]+")


class _Versions(NamedTuple):
    """The versions of a distribution with the same major number, and the libraries in the newest one."""

    oldest: Version
    newest: Version
    libraries: frozenset[str]

    def may_satisfy(self, requirement: Requirement) -> bool:
        """Whether a requirement seems to admit one of them: the newest, the oldest, or one around a bound between."""
        admitted = requirement.specifier
        if any(admitted.contains(version, prereleases=True) for version in (self.newest, self.oldest)):
            return True
        bounds = (Version(one.version.removesuffix(".*")) for one in admitted if one.operator not in ("!=", "==="))
        return any(self.oldest < bound < self.newest for bound in bounds)


def brought_libraries(requirement: Requirement) -> frozenset[str]:
    """Return the libraries that the newest version which a requirement admits brings: ``libcudart.so.13``."""
    name = _SEPARATORS.sub("-", requirement.name).lower()
    brought = (_of_newest(requirement, f"{name}[{extra}]" if extra else name) for extra in ("", *requirement.extras))
    return frozenset().union(*brought)


def _of_newest(requirement: Requirement, name: str) -> frozenset[str]:
    versions = _read_table().get(name, ())
    return next((of_major.libraries for of_major in versions if of_major.may_satisfy(requirement)), frozenset())


@functools.cache
def _read_table() -> Mapping[str, Sequence[_Versions]]:
    """Return the versions of each distribution, and of each extra of one, newest first."""
    table: dict[str, list[_Versions]] = {}
    for line in PATH.read_text("utf-8").splitlines():
        name, oldest, newest, *libraries = line.split()
        table.setdefault(name, []).append(_Versions(Version(oldest), Version(newest), frozenset(libraries)))
    return table
