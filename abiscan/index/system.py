"""The Python and the platforms that wheels are looked for: packaging knows which tags fit."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from packaging import tags

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.binary.machines import machine_of_name
from abiscan.inputs.requirement import environment_for
from abiscan.regex import regex

_MANYLINUX: Final = regex(r"manylinux_2_(\d+)_(\w+)")
_MACOSX: Final = regex(r"macosx_(\d+)_(\d+)_(x86_64|arm64)")
_LEGACY: Final = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


class System(Struct, frozen=True, kw_only=True):
    """The Python and the platforms that wheels are looked for.

    :ivar python: major and minor version
    :ivar platforms: the tags of platforms, the newest first
    """

    python: tuple[int, int]
    platforms: tuple[str, ...]

    @classmethod
    def of(cls, python: tuple[int, int] | None = None, platform: str | None = None) -> System:
        """Return the user's system, or another one.

        :param python: ``(3, 12)``
        :param platform: ``manylinux_2_28_aarch64``, ``win_amd64``; it includes older systems of the kind
        """
        platforms = _older_platforms(platform) if platform else tags.platform_tags()
        return cls(python=python or sys.version_info[:2], platforms=tuple(platforms))

    @property
    def machine(self) -> Machine | None:
        """The machine; None if it is not one that torch is built for on Linux."""
        if self.images is not None:
            return None
        return next((machine for machine in Machine if self.platforms[0].endswith(machine.value)), None)

    @property
    def images(self) -> tuple[ImageSystem, Machine] | None:
        """The system and machine if it is Windows or macOS, else None."""
        platform = self.platforms[0]
        system = ImageSystem.WINDOWS if platform.startswith("win") else ImageSystem.MACOS
        if platform.startswith(("win", "macosx")):
            return system, machine_of_name(platform) or Machine.X86_64
        return None

    @property
    def environment(self) -> dict[str, str]:
        """For environment markers."""
        # PEP 508, "Environment Markers"; variables that no requirement of a wheel uses are left empty.
        version = ".".join(map(str, self.python))
        return {
            "platform_machine": "",
            **environment_for(self.platforms[0]),
            "python_version": version,
            "python_full_version": f"{version}.0",
            "extra": "",
        }

    @property
    def tags(self) -> Mapping[tags.Tag, int]:
        """The tags of wheels that fit, and how well: the best has the lowest number."""
        return _tags_of(self.python, self.platforms)

    def __str__(self) -> str:
        return f"Python {self.python[0]}.{self.python[1]} on {self.platforms[0]}"


@functools.lru_cache(maxsize=8)
def _tags_of(python: tuple[int, int], platforms: tuple[str, ...]) -> dict[tags.Tag, int]:
    """Rank the tags of wheels that fit: the best has the lowest number."""
    interpreter = f"cp{python[0]}{python[1]}"
    ordered = (*tags.cpython_tags(python, platforms=platforms), *tags.compatible_tags(python, interpreter, platforms))
    # Reversed, so that a tag that is listed twice keeps the better rank.
    return {tag: number for number, tag in reversed(list(enumerate(ordered)))}


def _older_platforms(platform: str) -> Iterator[str]:
    """Yield a platform, and older ones of its kind: what runs there runs here, too (PEP 600)."""
    match = _MANYLINUX.fullmatch(platform)
    if mac := _MACOSX.fullmatch(platform):
        yield from tags.mac_platforms((int(mac[1]), int(mac[2])), mac[3])
        return
    if match is None:
        yield platform
        return
    newest, machine = int(match[1]), match[2]
    # The oldest is manylinux_2_5 (PEP 600).
    for glibc in range(newest, 4, -1):
        yield f"manylinux_2_{glibc}_{machine}"
        if glibc in _LEGACY:
            yield f"{_LEGACY[glibc]}_{machine}"
    yield f"linux_{machine}"
