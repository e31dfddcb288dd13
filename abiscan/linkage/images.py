"""What the loaders of Windows and macOS do with an image: which libraries it needs, and which names they lack.

Windows binds a name to a library by its base name, and each library is in the process once. macOS does the same by
install name (a two-level namespace), where torch's libraries count as loaded: ``import torch`` comes first. What
belongs to the system is taken for granted. Sources: "PE Format" and "Dynamic-link library search order" by Microsoft;
``dyld(1)`` and "Dynamic Library Programming Topics" by Apple.
"""

from __future__ import annotations

import posixpath
import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem, ImportedName, LibraryImage, is_library_of_windows
from abiscan.binary.ownership import is_torch_symbol
from abiscan.inputs.image_files import ImageFile, is_torch_image
from abiscan.regex import regex
from abiscan.torches.torch_images import TorchImages

_LOADER_PATH: Final = "@loader_path/"
_SYSTEM_FOLDERS: Final = ("/usr/lib/", "/System/")
_OF_PYTHON: Final = regex(r"python3\d*\.dll|libpython3[\d.]*\.dylib|.*/Python", re.IGNORECASE)


class LibraryNotFound(Struct, frozen=True, kw_only=True):
    """A library that does not exist; ``needed_by`` is the base name of the image that names it."""

    name: str
    needed_by: str


class NameNotFound(Struct, frozen=True, kw_only=True):
    """A name that the library which should have it does not export; ``needed_by`` is the base name of an image.

    ``library`` is None if no library of the process has it (flat lookup).
    """

    name: str
    library: str | None
    needed_by: str


class ImageLoad(Struct, frozen=True, kw_only=True):
    """The outcome of loading an image. ``external`` are libraries of neither torch, the target nor the system.

    ``undecided`` are imports of which it is unknown whether they are met: by an ordinal, since the numbers of a release
    are not embedded; through a library that passes on the names of another one. ``along`` are the paths of the
    libraries of the target that it brings along.
    """

    libraries: tuple[LibraryNotFound, ...]
    names: tuple[NameNotFound, ...]
    external: tuple[str, ...]
    undecided: tuple[ImportedName, ...]
    along: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the loader refuses it."""
        return bool(self.libraries or self.names)


def load(file: ImageFile, torch: TorchImages, siblings: Sequence[ImageFile]) -> ImageLoad:
    """Load an image of a target, with those of its siblings that it needs, into a process that has imported torch.

    :param siblings: all images of the target
    """
    own = _Own(torch.system, torch.machine, siblings)
    libraries: dict[LibraryNotFound, None] = {}
    names: dict[NameNotFound, None] = {}
    external: dict[str, None] = {}
    undecided: dict[ImportedName, None] = {}
    waiting, seen = deque([file]), {file.path: None}
    while waiting:
        current = waiting.popleft()
        image = current.images[torch.machine]
        absent = set()
        for needed in image.needed:
            if torch.library(needed.name) or _is_of_system(needed.name):
                continue
            if sibling := own.find(needed.name, current):
                if sibling.path not in seen:
                    seen[sibling.path] = None
                    waiting.append(sibling)
            elif needed.optional:
                continue
            elif is_torch_image(needed.name) or needed.name.startswith(_LOADER_PATH):
                absent.add(needed.name)
                libraries[LibraryNotFound(name=needed.name, needed_by=current.name)] = None
            else:
                external[posixpath.basename(needed.name)] = None
        for imported in image.imports:
            match _has(imported, current, torch, own, absent):
                case None:
                    undecided[imported] = None
                case False:
                    names[_not_found(imported, current, torch, own)] = None
    return ImageLoad(
        libraries=tuple(libraries),
        names=tuple(names),
        external=tuple(external),
        undecided=tuple(undecided),
        along=tuple(seen)[1:],
    )


def _has(imported: ImportedName, file: ImageFile, torch: TorchImages, own: _Own, absent: set[str]) -> bool | None:
    """Whether an import is met; None if that is unknown. Those of an absent library are no news."""
    name, library = imported.name, imported.library
    if library in absent:
        return True
    if library is None:  # any library of the process may have it; only torch and the target can have what is torch's
        torchs = torch.system is ImageSystem.MACOS and is_torch_symbol(name.removeprefix("_"))
        return not torchs or own.any_exports(name) or any(exports(name) for exports in torch.exports.values())
    if of_torch := torch.library(library):
        return torch.exports[of_torch](name) or (None if name.startswith("#") and not torch.ordinals else False)
    if sibling := own.find(library, file):
        image = own.image(sibling)
        return name in image.exports or (None if image.reexports else False)
    return True


def _not_found(imported: ImportedName, file: ImageFile, torch: TorchImages, own: _Own) -> NameNotFound:
    library = imported.library
    if library is not None:
        sibling = own.find(library, file)
        library = torch.library(library) or (sibling.name if sibling else library)
    return NameNotFound(name=imported.name, library=library, needed_by=file.name)


class _Own:
    """The images of a target for one machine."""

    def __init__(self, system: ImageSystem, machine: Machine, files: Sequence[ImageFile]) -> None:
        self._system, self._machine = system, machine
        of_machine = [file for file in files if machine in file.images]
        self._by_name: dict[str, list[ImageFile]] = {}
        for file in of_machine:
            self._by_name.setdefault(file.name.lower(), []).append(file)
        self._by_path: Mapping[str, ImageFile] = {file.path: file for file in of_machine}

    def find(self, name: str, needed_by: ImageFile) -> ImageFile | None:
        """The image that a name stands for in another image of the target."""
        folder = posixpath.dirname(needed_by.path)
        if not self._system.flat:
            if name.startswith(_LOADER_PATH):
                return self._by_path.get(_joined(folder, name))
            if name.startswith("@rpath/"):
                rest = name.removeprefix("@rpath/")
                for rpath in self.image(needed_by).rpaths:
                    if found := self._by_path.get(_joined(folder, f"{rpath}/{rest}")):
                        return found
        # From its own folder, or since the package loaded it before, when its name is enough.
        named = self._by_name.get(posixpath.basename(name).lower(), ())
        return next((file for file in named if posixpath.dirname(file.path) == folder), next(iter(named), None))

    def image(self, file: ImageFile) -> LibraryImage:
        """The part of a file that is loaded."""
        return file.images[self._machine]

    def any_exports(self, name: str) -> bool:
        """Whether an image of the target exports a name."""
        return any(name in self.image(file).exports for file in self._by_path.values())


def _joined(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path.removeprefix(_LOADER_PATH)))


def _is_of_system(name: str) -> bool:
    return name.startswith(_SYSTEM_FOLDERS) or is_library_of_windows(name) or _OF_PYTHON.fullmatch(name) is not None
