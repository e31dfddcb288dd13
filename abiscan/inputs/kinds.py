"""What a target is: decided here for all commands, by its name and by what lies at its path."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Final

from abiscan.inputs import observed_fs
from abiscan.regex import regex

_WHEEL_SUFFIX: Final = ".whl"
_CONDA_SUFFIXES: Final = (".conda", ".tar.bz2")
_CONDA: Final = regex(r"[^/]+-[^-/]+-[^-/]+(\.conda|\.tar\.bz2)")
_LIBRARY: Final = regex(r"\.(so(\.[0-9]+)*|pyd|dll|dylib)$")
_LOCK_SUFFIXES: Final = (".lock", ".toml", ".txt")
_ADDRESS: Final = regex(r"https?://[^#?]+\.whl([#?]|$)")
_SOURCE_ARCHIVE: Final = regex(r"\.(tar(\.\w+)?|tgz|tbz2?|txz|zip)$")


class TargetKind(enum.Enum):
    """What a target is; the value is for messages."""

    LIBRARY = "library"
    PROGRAM = "program"
    WHEEL = "wheel"
    CONDA = "conda package"
    FOLDER = "folder"
    INSTALLED = "installed package"
    SOURCE = "archive of source code"
    MODEL = "saved model"

    @property
    def is_archive(self) -> bool:
        """Whether it is a package in one file."""
        return self in {TargetKind.WHEEL, TargetKind.CONDA}

    @property
    def is_single(self) -> bool:
        """Whether it is one object."""
        return self in {TargetKind.LIBRARY, TargetKind.PROGRAM}


def kind_of(path: Path) -> TargetKind:
    """Return what a path stands for, by its name: what is not there, too.

    Programs and saved models are libraries until they are read.
    """
    # First: a folder may be called anything, ``unpacked.whl`` for one.
    if observed_fs.is_dir(path):
        return TargetKind.FOLDER
    if is_wheel_name(path.name):
        return TargetKind.WHEEL
    if _CONDA.fullmatch(path.name):
        return TargetKind.CONDA
    return TargetKind.SOURCE if _SOURCE_ARCHIVE.search(path.name) else TargetKind.LIBRARY


def is_wheel_name(name: str) -> bool:
    """Whether a file, or the path of an address, is named like a wheel."""
    return name.endswith(_WHEEL_SUFFIX)


def may_be_package(name: str) -> bool:
    """Whether a file is named like a package in one file."""
    return is_wheel_name(name) or _CONDA.fullmatch(name) is not None


def looks_like_file(word: str) -> bool:
    """Whether a word is the path of a file that is not there, and not the name of a package."""
    is_path = "/" in word or "\\" in word
    return is_path or word.endswith((_WHEEL_SUFFIX, *_CONDA_SUFFIXES)) or _LIBRARY.search(word) is not None


def is_address(target: str) -> bool:
    """Whether a target is a wheel on a server."""
    return _ADDRESS.match(target) is not None


def is_lock_name(word: str) -> bool:
    """Whether a word is the name of a lock: nothing else that is checked is called so."""
    return word.endswith(_LOCK_SUFFIXES) and not word.startswith("-") and not Path(word).is_dir()
