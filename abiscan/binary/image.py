"""Shared libraries of Windows (PE) and macOS (Mach-O): what they import and export. There they are called images."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from abiscan.binary.machines import Machine
from abiscan.regex import regex

PE_MAGIC: Final = b"MZ"
MACHO_MAGICS: Final = (b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf")
"""A thin 64-bit file, and universal ones."""

_WINDOWS_LIBRARY: Final = regex(
    r"(api-ms-win-|ext-ms-).*|(kernel32|kernelbase|ntdll|user32|gdi32|advapi32|shell32|ole32|oleaut32|ws2_32|psapi"
    r"|dbghelp|bcrypt|crypt32|secur32|shlwapi|version|winmm|iphlpapi|rpcrt4|comdlg32|comctl32|setupapi|userenv|imm32"
    r"|mswsock|wldap32|normaliz|powrprof|avicap32|mf|mfplat|mfreadwrite|opengl32|d3d11|dxgi|ucrtbase"
    r"|msvcrt|(msvcp|vcruntime|concrt|vcomp|vcamp|vccorlib)\d+(_\w+)?)\.dll",
    re.IGNORECASE,
)


class ImageSystem(enum.Enum):
    """A system whose libraries are not ELF. The value is its name."""

    WINDOWS = "Windows"
    MACOS = "macOS"

    @property
    def flat(self) -> bool:
        """Whether a process finds a library by its base name, whatever its folder and case."""
        return self is ImageSystem.WINDOWS


class NeededImage(Struct, frozen=True, kw_only=True):
    """A library that an image names: ``torch_cpu.dll``, ``@rpath/libc10.dylib``.

    :ivar optional: whether the load does not fail without it: it is delay-loaded, or weakly linked
    """

    name: str
    optional: bool


class ImportedName(Struct, frozen=True, kw_only=True):
    """A name that an image takes from a library.

    :ivar name: as the file spells it; ``#5`` for the ordinal 5
    :ivar library: None if every image in the process is searched (flat lookup)
    """

    name: str
    library: str | None


class LibraryImage(Struct, frozen=True, kw_only=True):
    """One library: of a universal file, the part for one machine.

    :ivar name: what it calls itself: its DLL name, its install name
    :ivar imports: the names without which it does not load
    :ivar reexports: the libraries whose names count as its own
    :ivar rpaths: the folders for ``@rpath``
    :ivar minimum_os: the first version of macOS that loads it
    """

    system: ImageSystem
    machine: Machine
    name: str | None
    needed: tuple[NeededImage, ...]
    imports: tuple[ImportedName, ...]
    exports: frozenset[str]
    reexports: tuple[str, ...] = ()
    rpaths: tuple[str, ...] = ()
    minimum_os: str | None = None


Images = Mapping[Machine, LibraryImage]
"""The parts of a file, by machine."""


def is_image(head: bytes) -> bool:
    """Whether a file that begins like this may be an image."""
    return head.startswith((PE_MAGIC, *MACHO_MAGICS))


def is_library_of_windows(name: str) -> bool:
    """Whether a library is one of Windows, or of Microsoft's compiler, which torch needs as well."""
    return _WINDOWS_LIBRARY.fullmatch(name) is not None
