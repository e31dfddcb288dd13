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
_PYTHON_LIBRARY: Final = regex(r"python3\d*\.dll|libpython3[\d.]*\.dylib|.*/Python", re.IGNORECASE)


class LibraryNotFound(Struct, frozen=True, kw_only=True):
    """A library that does not exist.

    :ivar name: the name by which it is needed
    :ivar needed_by: the base name of the image that needs it
    """

    name: str
    needed_by: str


class NameNotFound(Struct, frozen=True, kw_only=True):
    """A name that the library which should export it does not export.

    :ivar name: the name
    :ivar library: the base name of that library; None if no library of the process exports it (flat lookup)
    :ivar needed_by: the base name of the image that imports it
    """

    name: str
    library: str | None
    needed_by: str


class ImageLoad(Struct, frozen=True, kw_only=True):
    """The outcome of loading an image.

    :ivar libraries: the libraries that do not exist
    :ivar names: the names that no library exports
    :ivar external: libraries of neither torch, the target nor the system
    :ivar undecided: imports of which it is unknown whether they are met: by an ordinal, since the numbers of a release
        are not embedded, or through a library that passes on the names of another library
    :ivar along: the paths of the target's own libraries that the image brings along
    """

    libraries: tuple[LibraryNotFound, ...]
    names: tuple[NameNotFound, ...]
    external: tuple[str, ...]
    undecided: tuple[ImportedName, ...]
    along: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the loader rejects the image."""
        return bool(self.libraries or self.names)


def load_image(file: ImageFile, torch: TorchImages, siblings: Sequence[ImageFile]) -> ImageLoad:
    """Load an image of a target, with those of its siblings that it needs, into a process that has imported torch.

    :param siblings: all images of the target
    """
    own = _TargetImages(torch.system, torch.machine, siblings)
    libraries: dict[LibraryNotFound, None] = {}
    names: dict[NameNotFound, None] = {}
    external: dict[str, None] = {}
    undecided: dict[ImportedName, None] = {}
    # Breadth-first over the target's own images; what belongs to torch or the system is in the process already, and
    # what belongs to neither is only listed.
    waiting, seen = deque([file]), {file.path: None}
    while waiting:
        current = waiting.popleft()
        image = current.images[torch.machine]
        absent = set()
        for needed in image.needed:
            if torch.library(needed.name) or _is_of_system(needed.name):
                continue
            if sibling := own.find_image(needed.name, current):
                if sibling.path not in seen:
                    seen[sibling.path] = None
                    waiting.append(sibling)
            # A weak dylib (LC_LOAD_WEAK_DYLIB) or a delay-loaded DLL may be absent: the load goes on without it.
            elif needed.optional:
                continue
            elif is_torch_image(needed.name) or needed.name.startswith(_LOADER_PATH):
                absent.add(needed.name)
                libraries[LibraryNotFound(name=needed.name, needed_by=current.name)] = None
            else:
                external[posixpath.basename(needed.name)] = None
        for imported in image.imports:
            match _meets_import(imported, current, torch, own, absent):
                case None:
                    undecided[imported] = None
                case False:
                    names[_describe_unmet(imported, current, torch, own)] = None
    return ImageLoad(
        libraries=tuple(libraries),
        names=tuple(names),
        external=tuple(external),
        undecided=tuple(undecided),
        along=tuple(seen)[1:],
    )


def _meets_import(
    imported: ImportedName, file: ImageFile, torch: TorchImages, own: _TargetImages, absent: set[str]
) -> bool | None:
    """Return whether an import is met, None if that is unknown.

    Imports from an absent library count as met: that is reported already.
    """
    name, library = imported.name, imported.library
    if library in absent:
        return True
    if library is None:  # any library of the process may have it; only torch and the target can have what is torch's
        is_torch_name = torch.system is ImageSystem.MACOS and is_torch_symbol(name.removeprefix("_"))
        return not is_torch_name or own.any_exports(name) or any(exports(name) for exports in torch.exports.values())
    if of_torch := torch.library(library):
        return torch.exports[of_torch](name) or (None if name.startswith("#") and not torch.ordinals else False)
    if sibling := own.find_image(library, file):
        image = own.image_in(sibling)
        return name in image.exports or (None if image.reexports else False)
    return True


def _describe_unmet(imported: ImportedName, file: ImageFile, torch: TorchImages, own: _TargetImages) -> NameNotFound:
    """Describe an import that is not met, under the name that the error text gives the library."""
    library = imported.library
    if library is not None:
        sibling = own.find_image(library, file)
        library = torch.library(library) or (sibling.name if sibling else library)
    return NameNotFound(name=imported.name, library=library, needed_by=file.name)


class _TargetImages:
    """The images of a target for one machine."""

    def __init__(self, system: ImageSystem, machine: Machine, files: Sequence[ImageFile]) -> None:
        self._system, self._machine = system, machine
        of_machine = [file for file in files if machine in file.images]
        self._by_name: dict[str, list[ImageFile]] = {}
        for file in of_machine:
            self._by_name.setdefault(file.name.lower(), []).append(file)
        self._by_path: Mapping[str, ImageFile] = {file.path: file for file in of_machine}

    def find_image(self, name: str, needed_by: ImageFile) -> ImageFile | None:
        """Find the image that a name stands for in an image of the target; return None if the target has none."""
        folder = posixpath.dirname(needed_by.path)
        if not self._system.flat:
            if name.startswith(_LOADER_PATH):
                return self._by_path.get(_join_paths(folder, name))
            if name.startswith("@rpath/"):
                path_below = name.removeprefix("@rpath/")
                for rpath in self.image_in(needed_by).rpaths:
                    if image_file := self._by_path.get(_join_paths(folder, f"{rpath}/{path_below}")):
                        return image_file
        # From its own folder, or since the package loaded it before, when its name is enough.
        named = self._by_name.get(posixpath.basename(name).lower(), ())
        return next((file for file in named if posixpath.dirname(file.path) == folder), next(iter(named), None))

    def image_in(self, file: ImageFile) -> LibraryImage:
        """Return the part of a file that is loaded: its image for this machine."""
        return file.images[self._machine]

    def any_exports(self, name: str) -> bool:
        """Whether an image of the target exports a name."""
        return any(name in self.image_in(file).exports for file in self._by_path.values())


def _join_paths(folder: str, path: str) -> str:
    """Resolve a path against a folder; ``@loader_path/`` is that folder."""
    return posixpath.normpath(posixpath.join(folder, path.removeprefix(_LOADER_PATH)))


def _is_of_system(name: str) -> bool:
    """Tell whether a library comes with the system or with Python, and so is taken for granted."""
    return (
        name.startswith(_SYSTEM_FOLDERS) or is_library_of_windows(name) or _PYTHON_LIBRARY.fullmatch(name) is not None
    )
