"""Packages that are not built yet: their Python code, as a folder or an archive has it. Nothing of it is run."""

from __future__ import annotations

import functools
import posixpath
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.inputs.files import LARGEST_TEXT, UNPACKING
from abiscan.inputs.package_files import Package
from abiscan.regex import regex

_PKG_INFO: Final = "PKG-INFO"
_PROJECT: Final = ("pyproject.toml", "setup.cfg", "setup.py", _PKG_INFO)
"""The files of which one at least is at the top of every project (PEP 517, PEP 518)."""
_PACKAGE: Final = regex(r"[^/]+/__init__\.py")
_BUILDS: Final = ("setup.py", "CMakeLists.txt", "pyproject.toml", "build.py", "_build.py")
_FOR_TORCH: Final = regex(rb"cpp_extension|CUDAExtension|CppExtension|find_package\s*\(\s*Torch")
"""What a build has in it that compiles an extension of torch."""
_NOT_INSTALLED: Final = regex(r"(setup|conftest|noxfile|tasks|versioneer|build|_build)\.py|\..*|(build|dist)/.*")
_NAME: Final = regex(rb"""(?m)^[ \t]*name[ \t]*[=:][ \t]*["']?([A-Za-z0-9][\w.-]*)""")
_STATED: Final = regex(r"(?m)^(Name|Version):[ \t]*(\S+)")
_WITH_VERSION: Final = regex(r"(.+?)-\d.*")
_PROTOBUF: Final = ".proto"
_MADE_OF_PROTOBUF: Final = ("_pb2.py", "_pb2_grpc.py")
"""The modules that builds make of such a file."""
_OPEN_MODULE: Final = b"from google.protobuf.message import *\n"
"""Stands for such a module: it imports protobuf, and may have any names."""
_LARGEST: Final = 512 << 20
_DAMAGED: Final = (*UNPACKING, tarfile.TarError, EOFError)


def of_project(path: Path) -> Package | None:
    """Return the package whose source code is in a folder; None if that is no project and holds no package."""
    names = [
        posixpath.relpath(posixpath.join(folder, name), str(path))
        for folder, _, inside in observed_fs.walk_folder(path)
        for name in inside
    ]
    if not any(name in _PROJECT or _PACKAGE.fullmatch(name) for name in names):
        return None

    def read(name: str) -> bytes:
        with observed_fs.open_file(path / name) as stream:
            return stream.read(LARGEST_TEXT)

    return _package(names, read, str(path.absolute()), path.absolute().name, in_place=True)


def of_source_archive(path: Path, site: str) -> Package | None:
    """Return the package whose source code is in an archive, to be installed in the folder ``site``; None if in none.

    :raises InputError: the archive cannot be read
    """
    try:
        with observed_fs.open_file(path) as stream:
            texts = dict(_read_zip(stream) if path.suffix == ".zip" else _read_tar(stream))
    except _DAMAGED as error:
        raise InputError(str(path), f"cannot be unpacked: {error}", "download it again") from error
    # A source distribution has everything in one folder.
    tops = {name.partition("/")[0] for name in texts}
    if len(tops) != 1:
        return None
    (top,) = tops
    below = {name.partition("/")[2]: text for name, text in texts.items()}
    if not any(name in below for name in _PROJECT):
        return None
    return _package(below, below.__getitem__, site, top, in_place=False)


def _package(
    names: Collection[str], read: Callable[[str], bytes], root: str, folder: str, *, in_place: bool
) -> Package:
    """Return the package whose source code has these files.

    :param folder: the name of its folder: ``pkg-1.0``
    :param in_place: whether its modules are imported from there
    """
    # The two layouts of a project: packages in src/, or next to pyproject.toml.
    within = "src/" if any(name.startswith("src/") and name.endswith("/__init__.py") for name in names) else ""
    installed = {
        name.removeprefix(within): name
        for name in names
        if name.startswith(within) and (within or not _NOT_INSTALLED.fullmatch(name))
    }
    for path in [path for path in installed if path.endswith(_PROTOBUF)]:
        name = installed.pop(path)
        made = {path.removesuffix(_PROTOBUF) + suffix: name for suffix in _MADE_OF_PROTOBUF}
        installed = made | installed  # some archives bring them
    stated: Mapping[str, str] = {}
    if _PKG_INFO in names:
        stated = dict(_STATED.findall(read(_PKG_INFO).decode("utf-8", "replace")))
        installed[f"{folder}.dist-info/METADATA"] = _PKG_INFO
    without_version = _WITH_VERSION.fullmatch(folder)
    name = stated.get("Name") or _declared_name(names, read) or (without_version[1] if without_version else folder)
    builds = (file for file in _BUILDS if file in names and _FOR_TORCH.search(read(file)))
    return Package(
        name=name,
        version=stated.get("Version"),
        root=posixpath.join(root, within.rstrip("/")) if in_place else root,
        members=installed.keys,
        read=functools.partial(_read_installed, installed, read),
        installed=False,
        built_by=next(builds, None),
    )


def _read_installed(installed: Mapping[str, str], read: Callable[[str], bytes], path: str) -> bytes:
    name = installed[path]
    return _OPEN_MODULE if name.endswith(_PROTOBUF) else read(name)


def _declared_name(names: Collection[str], read: Callable[[str], bytes]) -> str | None:
    matches = (_NAME.search(read(file)) for file in ("pyproject.toml", "setup.cfg") if file in names)
    return next((match[1].decode() for match in matches if match), None)


def _read_tar(stream: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    left = _LARGEST
    with tarfile.open(fileobj=stream, mode="r|*") as archive:
        for info in archive:
            name = posixpath.normpath(info.name)
            if info.isreg() and _is_read(name, info.size) and (content := archive.extractfile(info)):
                left -= info.size
                if left < 0:
                    return
                yield name, content.read()


def _read_zip(stream: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    left = _LARGEST
    with zipfile.ZipFile(stream) as archive:
        for info in archive.infolist():
            name = posixpath.normpath(info.filename)
            if not info.is_dir() and _is_read(name, info.file_size):
                left -= info.file_size
                if left < 0:
                    return
                yield name, archive.read(info)


def _is_read(name: str, size: int) -> bool:
    inside = not name.startswith(("/", "../"))
    return (
        inside
        and size <= LARGEST_TEXT
        and (name.endswith((".py", _PROTOBUF)) or posixpath.basename(name) in (*_PROJECT, *_BUILDS))
    )
