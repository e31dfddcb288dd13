"""The images of a target: its libraries for Windows or macOS, of which some use torch."""

from __future__ import annotations

import functools
import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.binary.image import Images, ImageSystem, LibraryImage
from abiscan.errors import InputError
from abiscan.inputs.files import ElfSource
from abiscan.regex import regex

IMAGE_NAME: Final = regex(r"\.(pyd|dll|dylib)$", re.IGNORECASE)

_TORCH_IMAGE: Final = regex(
    r"(lib)?(torch|torch_(cpu|cuda|python|global_deps|cuda_\w+)|c10(_cuda)?|caffe2_\w+|shm)\.(dll|dylib)", re.IGNORECASE
)


class ImageFile(Struct, frozen=True, kw_only=True, eq=False):
    """One file.

    ``path`` is relative to the target, ``location`` is its path on disk (or its future path, once installed),
    ``source`` has its bytes.
    """

    path: str
    location: str
    source: ElfSource
    sha256: str
    images: Images

    @property
    def name(self) -> str:
        """Its base name."""
        return posixpath.basename(self.path)

    @property
    def system(self) -> ImageSystem:
        """The system that it is for."""
        return next(iter(self.images.values())).system


def read_image_files(
    members: Iterable[tuple[str, str, ElfSource]],
) -> tuple[tuple[ImageFile, ...], tuple[tuple[str, InputError], ...]]:
    """Return the images among the members of a target, and those that cannot be read.

    :param members: those that begin as images do, each with its path and its location
    """
    # lief takes longer to import than most ELF targets take to be checked.
    from abiscan.binary.image_reader import read_images

    def read_image(path: str, location: str, source: ElfSource) -> ImageFile | tuple[str, InputError]:
        try:
            content = source.read_head(source.size)
            images = read_images(content, source.name)
        except InputError as error:
            return path, error
        digest = hashlib.sha256(content).hexdigest()
        return ImageFile(path=path, location=location, source=source, sha256=digest, images=images)

    result = [read_image(*member) for member in members]
    files = tuple(file for file in result if isinstance(file, ImageFile))
    return files, tuple(error for error in result if not isinstance(error, ImageFile))


def is_torch_image(name: str) -> bool:
    """Whether a library is one of torch's own, by its name: ``torch_cpu.dll``, ``@rpath/libc10.dylib``."""
    return _TORCH_IMAGE.fullmatch(posixpath.basename(name)) is not None


def users_of_torch(files: Iterable[ImageFile]) -> tuple[ImageFile, ...]:
    """Return those that need a library of torch, themselves or through another one of the target."""
    remainder = list(files)
    users: set[str] = set()
    names: set[str] = set()
    # A fixed point: a library uses torch if it needs one that does. Chains are short, so starting over is cheap.
    grown = True
    while grown:
        reached = {
            file.path
            for file in remainder
            if any(map(functools.partial(_uses_torch, names), _needed_names(file.images)))
        }
        grown = not reached <= users
        users |= reached
        # By name, in lower case: Windows finds a DLL whatever the case, and looks for it by its base name alone.
        names |= {file.name.lower() for file in remainder if file.path in users}
    return tuple(file for file in remainder if file.path in users)


def main_image(files: Sequence[ImageFile]) -> ImageFile:
    """Return the image of a target that tells its system and machine: the first that uses torch, if there is one."""
    # All libraries of a wheel are for one system. One that uses torch tells the machine best.
    return next(iter((*users_of_torch(files), *files)))


def _uses_torch(users: set[str], name: str) -> bool:
    return is_torch_image(name) or posixpath.basename(name).lower() in users


def _needed_names(images: Mapping[Machine, LibraryImage]) -> Iterable[str]:
    return (needed.name for image in images.values() for needed in image.needed)
