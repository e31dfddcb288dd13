"""A system other than this one, by a name or as an unpacked folder: which versions of symbols its libraries define.

``data/systems.txt`` is made by ``tools/build_systems.py``.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from msgspec import Struct

from abiscan.binary.elf import ElfFile
from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.inputs.wheel_tag import family_and_number, newest_of_manylinux, version_of
from abiscan.regex import regex
from abiscan.words import did_you_mean

_MANYLINUX: Final = regex(r"manylinux_2_([0-9]{1,2})|manylinux(2014)")
_OLDEST, _NEWEST = 17, 39
_MUSL: Final = "musllinux"
_NUMBERED: Final = regex(r"(GLIBC|GLIBCXX|CXXABI|GCC|ZLIB)_([0-9][0-9.]*)")
_LIBRARIES: Final = {
    "libc.so.6": ("GLIBC",),
    "libstdc++.so.6": ("GLIBCXX", "CXXABI"),
    "libgcc_s.so.1": ("GCC",),
    "libz.so.1": ("ZLIB",),
}
_WITH_GLIBC: Final = frozenset(
    (
        *("ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2", "libdl.so.2", "libm.so.6", "libmvec.so.1"),
        *("libpthread.so.0", "libresolv.so.2", "librt.so.1", "libutil.so.1"),
    )
)


class LinuxSystem(Struct, frozen=True, kw_only=True):
    """A system with glibc, as far as ``ld.so`` compares symbol versions with it.

    :ivar folder: where its libraries are
    :ivar newest: the highest version that its libraries define, by family: ``{"GLIBC": "2.36"}``
    :ivar folders: where they can be read; nowhere if only its name is known
    """

    name: str
    folder: str
    newest: Mapping[str, str]
    folders: tuple[str, ...] = ()

    def path_of(self, file: str) -> str:
        """Return the path of one of its libraries."""
        return posixpath.join(self.folder, file)

    def lacks(self, file: str, version: str) -> bool:
        """Whether a library of the system certainly does not define a version."""
        needed = family_and_number(version)
        if needed is None or (file not in _LIBRARIES and file not in _WITH_GLIBC):
            return False
        newest = self.newest.get(needed[0])
        return newest is not None and version_of(needed[1]) > version_of(newest)


def target_system(text: str) -> LinuxSystem:
    """Return the system with a name, or in a folder.

    :raises InputError: there is none, or it has no glibc
    """
    if observed_fs.is_dir(text):
        return _read_root(text)
    if text.startswith(_MUSL):
        raise _of_musl(text)
    match = _MANYLINUX.fullmatch(text)
    if match and _OLDEST <= (minor := int(match[1] or _OLDEST)) <= _NEWEST:
        newest = {**newest_of_manylinux((2, minor)), "GLIBC": f"2.{minor}"}
        return LinuxSystem(name=text, folder="/lib64", newest=newest)
    systems = _known_systems()
    if text in systems:
        return systems[text]
    similar = did_you_mean(text, systems)
    names = ", ".join(systems)
    problem = "is neither a system that abiscan knows nor a folder"
    raise InputError(text or '""', problem, similar or f"pass one of {names}, manylinux_2_28, or the root of an image")


def _of_musl(text: str) -> InputError:
    problem = "has musl instead of glibc: there is no torch for it, and nothing loads"
    return InputError(text, problem, "name one with glibc")


@functools.cache
def _known_systems() -> dict[str, LinuxSystem]:
    systems = {}
    text = resources.files("abiscan.inputs").joinpath("data", "systems.txt").read_text("utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, folder, *versions = line.split()
            newest = dict(version.split("_", 1) for version in versions)
            systems[name] = LinuxSystem(name=name, folder=folder, newest=newest)
    return systems


def _read_root(root: str) -> LinuxSystem:
    """Read the versions that the libraries below the root of an image define."""
    newest: dict[str, str] = {}
    place, folders = "", []
    for folder in ("lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64", "lib"):
        for below in (folder, f"usr/{folder}"):
            folders.append(posixpath.join(posixpath.abspath(root), below))
            for file in _LIBRARIES:
                path = posixpath.join(root, below, file)
                if not observed_fs.path_exists(path):
                    continue
                place = place or f"/{folder}"
                for version in ElfFile.open(Path(path)).facts().version_definitions or ():
                    match = _NUMBERED.fullmatch(version)
                    if match and version_of(match[2]) > version_of(newest.get(match[1], "0")):
                        newest[match[1]] = match[2]
    if any(name.startswith("ld-musl-") for name in observed_fs.list_names(posixpath.join(root, "lib"))):
        raise _of_musl(root)
    if "GLIBC" not in newest:
        raise InputError(root, "has no libc.so.6 of glibc in lib, lib64 or usr", "pass the root folder of an image")
    return LinuxSystem(name=root, folder=place, newest=newest, folders=tuple(folders))
