"""The libraries of this system: where ``ld.so`` looks if an object does not specify a path."""

from __future__ import annotations

import functools
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from abiscan.binary.image import ImageSystem
from abiscan.binary.machines import Machine, machine_of_name
from abiscan.inputs import observed_fs
from abiscan.regex import regex

_CACHE: Final = "/etc/ld.so.cache"
_BUILT_IN: Final = regex(rb"\0((?:/[\w./+-]+/\0){2,})")
_USUAL: Final = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")


def own_machine() -> Machine | None:
    """Return the machine that abiscan runs on, None if torch has no Linux builds for it."""
    return machine_of_name(platform.machine()) if platform.system() == "Linux" else None


def own_image_system() -> tuple[ImageSystem, Machine] | None:
    """Return the system and machine that abiscan runs on, if that is Windows or macOS."""
    name = {"Windows": ImageSystem.WINDOWS, "Darwin": ImageSystem.MACOS}.get(platform.system())
    own = machine_of_name(platform.machine())
    return (name, own) if name and own else None


def default_folders(of: Machine) -> tuple[str, ...]:
    """Return the folders that are built into the ``ld.so`` of this system; of another machine, the usual ones."""
    loader = of.traits.loader
    if not observed_fs.is_file(loader):
        return (f"/lib/{of.value}-linux-gnu", f"/usr/lib/{of.value}-linux-gnu", *_USUAL)
    return _read_built_in(loader, observed_fs.resolve_links(loader), Path(loader).stat().st_mtime_ns)


@functools.cache
def glibc_version() -> tuple[int, ...]:
    """Return the version of glibc; nothing if this is another C library."""
    name = "CS_GNU_LIBC_VERSION"
    text = os.confstr(name) if name in getattr(os, "confstr_names", ()) else None
    return tuple(map(int, re.findall(r"[0-9]+", text or "")))


@functools.lru_cache(maxsize=4)
def _read_built_in(loader: str, _file: str, _version: int) -> tuple[str, ...]:
    # SYSTEM_DIRS in glibc's elf/dl-load.c: one text after the other, each with a slash at its end.
    content = Path(loader).read_bytes()
    # Among them is one in /usr, wherever a distribution has its libraries: a search of the whole file takes longer.
    texts = _BUILT_IN.search(content, max(0, content.find(b"\0/usr/lib") - 256))
    return tuple(text.decode().rstrip("/") for text in texts[1].split(b"\0")[:-1]) if texts else _USUAL


def cached_libraries(of: Machine, subfolders: tuple[str, ...] = ()) -> Mapping[bytes, bytes]:
    """Return the libraries in the cache of ``ldconfig`` by name, each with its path.

    :param subfolders: those of ``glibc-hwcaps`` that ``ld.so`` searches on this processor, the best one first
    """
    try:
        content = observed_fs.read_file(_CACHE)
    except OSError:
        return {}
    return _read_cache(content, of, subfolders)


@functools.lru_cache(maxsize=2)
def _read_cache(content: bytes, of: Machine, subfolders: tuple[str, ...]) -> Mapping[bytes, bytes]:
    from abiscan.inputs.loader_cache import read_cache  # for a torch of this machine alone

    return read_cache(content, of, subfolders)


def library_folders(of: Machine) -> tuple[str, ...]:
    """Return the folders that have libraries of this system: those in the cache, and the built-in ones."""
    cached = (path.rpartition(b"/")[0].decode("utf-8", "surrogateescape") for path in cached_libraries(of).values())
    return tuple(dict.fromkeys((*cached, *default_folders(of))))


def environment_folders() -> tuple[str, ...]:
    """Return ``LD_LIBRARY_PATH``; an empty part is the current folder."""
    value = observed_fs.read_variable("LD_LIBRARY_PATH")
    return tuple(value.replace(";", ":").split(":")) if value else ()


def count_processors() -> int:
    """Return how many processors this process may use; how many there are where the system does not tell (macOS,
    Windows).
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
