"""The libraries of this system: where ``ld.so`` looks if an object does not specify a path."""

from __future__ import annotations

import glob
import os
import platform
from typing import Final

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.binary.machines import machine_of_name
from abiscan.inputs import observed_fs

_CONFIGURATION: Final = "/etc/ld.so.conf"
_BUILT_IN: Final = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")


def own_machine() -> Machine | None:
    """Return the machine that abiscan runs on, None if torch has no Linux builds for it."""
    return machine_of_name(platform.machine()) if platform.system() == "Linux" else None


def own_image_system() -> tuple[ImageSystem, Machine] | None:
    """Return the system and machine that abiscan runs on, if that is Windows or macOS."""
    name = {"Windows": ImageSystem.WINDOWS, "Darwin": ImageSystem.MACOS}.get(platform.system())
    own = machine_of_name(platform.machine())
    return (name, own) if name and own else None


def library_folders(of: Machine) -> tuple[str, ...]:
    """Return the folders of ``ld.so.conf``, then those built into the ``ld.so`` of a machine."""
    return (
        *_read_configuration(_CONFIGURATION, depth=0),
        f"/lib/{of.value}-linux-gnu",
        f"/usr/lib/{of.value}-linux-gnu",
        *_BUILT_IN,
    )


def environment_folders() -> tuple[str, ...]:
    """Return ``LD_LIBRARY_PATH``."""
    return tuple(part for part in (observed_fs.read_variable("LD_LIBRARY_PATH") or "").split(":") if part)


def _read_configuration(file: str, depth: int) -> list[str]:
    folders: list[str] = []
    if depth > 8:  # an include that includes itself
        return folders
    try:
        # The file itself and not /etc/ld.so.cache: the cache has no public format, and may be older than the file.
        lines = observed_fs.read_file(file).decode("utf-8", "replace").splitlines()
    except OSError:
        return folders
    for line in lines:
        words = line.partition("#")[0].split()
        if words[:1] == ["include"]:
            for pattern in words[1:]:
                absolute = os.path.join(os.path.dirname(file), pattern)  # noqa: PTH118, PTH120 - a pattern, not a path
                # A file that is added later and matches the pattern changes the answer.
                observed_fs.list_names(os.path.dirname(absolute))  # noqa: PTH120
                for name in sorted(glob.glob(absolute)):  # noqa: PTH207
                    folders += _read_configuration(name, depth + 1)
        elif words and words[0] != "hwcap":
            folders.append(words[0])
    return folders


def count_processors() -> int:
    """Return how many processors this process may use; how many there are where the system does not tell (macOS,
    Windows).
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
