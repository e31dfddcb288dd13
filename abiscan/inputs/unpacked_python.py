"""The Python inside the root folder of an unpacked image, as its files describe it: nothing there is started.

Links lead where they do inside of the image: an absolute one begins at its root.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.regex import regex

_PREFIXES: Final = (
    *("opt/venv", "venv", ".venv", "app/.venv", "app/venv", "workspace/.venv", "root/.venv"),
    *("opt/conda", "usr/local", "usr"),
)
_NAMES: Final = ("bin/python3", "bin/python")
_FOLDER: Final = regex(r"python3\.[0-9]{1,2}t?")
_SUFFIX: Final = regex(r"\.cpython-3[0-9]{1,2}[a-z]*-[^.]+\.so$")
_LIBRARY: Final = regex(r"libpython3\.[0-9]{1,2}[a-z]*\.so\.1\.0")
_MOST_LINKS: Final = 40  # MAXSYMLINKS of Linux


class UnpackedPython(Struct, frozen=True, kw_only=True):
    """What a Python would say of itself.

    :ivar version: ``3.11.7``, or ``3.11`` if its files do not tell more
    :ivar suffix: that of its extension modules
    :ivar folders: its ``sys.path``
    :ivar code: the file that has its C API: a shared library, or the executable
    """

    version: str
    suffix: str
    folders: tuple[str, ...]
    code: str

    @property
    def torch(self) -> str | None:
        """The ``__init__.py`` of its torch; None if it has none."""
        paths = (posixpath.join(folder, "torch", "__init__.py") for folder in self.folders)
        return next(filter(observed_fs.is_file, paths), None)


def find_python(root: str, python: str | None = None) -> str:
    """Return the path of the Python of an image: the first that has torch, or else the first of all.

    :param python: its executable, or the folder of its environment, as it is called inside of the image
    :raises InputError: there is none
    """
    places = _PREFIXES if python is None else (python.lstrip("/"),)
    paths = [posixpath.join(root, place, name) for place in places for name in _NAMES]
    if python is not None:
        paths.append(posixpath.join(root, python.lstrip("/")))
    there = [path for path in paths if (real := _resolve(root, path)) and observed_fs.is_file(real)]
    for path in there:
        if describe(root, path).torch:
            return path
    if there:
        return there[0]
    problem = f"has no Python in {', '.join(_PREFIXES)}" if python is None else f"has no Python {python}"
    raise InputError(root, problem, "name it with --python, as it is called inside of the folder")


def describe(root: str, executable: str) -> UnpackedPython:
    """Describe a Python by its files.

    :raises InputError: its standard library is not there
    """
    real = _resolve(root, executable) or executable
    prefix = posixpath.dirname(posixpath.dirname(executable))
    settings = _read_settings(posixpath.join(prefix, "pyvenv.cfg"))
    home = settings.get("home")
    # The home of an environment that Python 3.10 made inside of another one is that one, which has no standard library.
    folders = (home and _resolve(root, posixpath.join(root, home.lstrip("/"))), posixpath.dirname(real))
    version = settings.get("version_info") or settings.get("version", "")
    found = next(
        (
            (base, standard)
            for base in (posixpath.dirname(folder) for folder in folders if folder)
            for standard in _standard_libraries(base, posixpath.basename(real), version)
        ),
        None,
    )
    if found is None:
        raise InputError(
            executable, "is not a Python: its standard library is not in lib", "name another with --python"
        )
    base, standard = found
    name = posixpath.basename(standard)
    modules = posixpath.join(standard, "lib-dynload")
    suffixes = (match.group() for file in sorted(observed_fs.list_names(modules)) if (match := _SUFFIX.search(file)))
    digits = name.removeprefix("python").replace(".", "")
    code = _find_library(base, name) or real
    return UnpackedPython(
        version=_read_version(code, name.removeprefix("python").rstrip("t")),
        suffix=next(suffixes, f".cpython-{digits}-x86_64-linux-gnu.so"),
        folders=(standard, modules, *_package_folders(root, prefix, base, name, settings)),
        code=code,
    )


def _standard_libraries(base: str, executable: str, version: str) -> Iterator[str]:
    """Yield the folders of standard libraries: that of the version, or of the name of the executable, comes first."""
    named = "python" + ".".join(version.split(".")[:2]) if version else executable
    for lib in ("lib", "lib64"):
        folder = posixpath.join(base, lib)
        names = sorted(
            filter(_FOLDER.fullmatch, observed_fs.list_names(folder)), key=lambda name: name.rstrip("t") != named
        )
        yield from (
            posixpath.join(folder, name) for name in names if observed_fs.is_file(posixpath.join(folder, name, "os.py"))
        )


def _package_folders(root: str, prefix: str, base: str, name: str, settings: dict[str, str]) -> Iterator[str]:
    """Yield the folders of packages, and those that their path files add (the module ``site``)."""
    sites = [posixpath.join(prefix, lib, name, "site-packages") for lib in ("lib", "lib64")]
    if settings.get("include-system-site-packages", "true").lower() == "true":
        sites += [posixpath.join(base, lib, name, "site-packages") for lib in ("lib", "lib64")]
        if posixpath.basename(base) == "usr":  # Debian's
            sites += [posixpath.join(base, "local/lib", name, kind) for kind in ("dist-packages", "site-packages")]
            sites.append(posixpath.join(base, "lib/python3/dist-packages"))
    for site in dict.fromkeys(filter(None, (_resolve(root, site) for site in sites))):
        if not observed_fs.is_dir(site):
            continue
        yield site
        for file in sorted(observed_fs.list_names(site)):
            if file.endswith(".pth"):
                yield from _read_paths(root, site, posixpath.join(site, file))


def _read_paths(root: str, site: str, path: str) -> Iterator[str]:
    for line in observed_fs.read_file(path).decode("utf-8", "replace").splitlines():
        text = line.strip()
        if text and not text.startswith(("#", "import ", "import\t")):
            folder = posixpath.join(root, text.lstrip("/")) if text.startswith("/") else posixpath.join(site, text)
            if observed_fs.is_dir(folder):
                yield posixpath.normpath(folder)


def _read_settings(path: str) -> dict[str, str]:
    """Return what a ``pyvenv.cfg`` sets (PEP 405)."""
    if not observed_fs.is_file(path):
        return {}
    lines = observed_fs.read_file(path).decode("utf-8", "replace").splitlines()
    parts = (line.partition("=") for line in lines if "=" in line)
    return {key.strip().lower(): value.strip() for key, _, value in parts}


def _find_library(base: str, name: str) -> str | None:
    """Return the shared library with the C API; None if the executable has it."""
    for lib in ("lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"):
        folder = posixpath.join(base, lib)
        for file in observed_fs.list_names(folder):
            if _LIBRARY.fullmatch(file) and file.startswith(f"lib{name}"):
                return posixpath.join(folder, file)
    return None


def _read_version(code: str, minor: str) -> str:
    """Return the version that the C API has as a text, ``PY_VERSION``."""
    content = observed_fs.read_file(code)
    match = regex(rb"(?<![0-9.])%b\.[0-9]{1,2}(?:(?:a|b|rc)[0-9]+)?\+?\0" % minor.replace(".", r"\.").encode()).search(
        content
    )
    return match.group().rstrip(b"\0").decode() if match else minor


def _resolve(root: str, path: str) -> str | None:
    """Follow the links in a path as inside of an image; None if one leads nowhere, or to itself."""
    top = posixpath.normpath(root)
    place, left, followed = top, posixpath.relpath(path, top).split("/"), 0
    while left:
        part = left.pop(0)
        if part == "..":
            place = top if place == top else posixpath.dirname(place)
            continue
        step = posixpath.join(place, part)
        observed_fs.stat_file(step)
        if not Path(step).is_symlink():
            place = step
            continue
        followed += 1
        if followed > _MOST_LINKS:
            return None
        link = os.readlink(step)  # noqa: PTH115 - a text that begins at the root of the image
        place = top if link.startswith("/") else place
        left = [*(item for item in link.split("/") if item not in ("", ".")), *left]
    return place if observed_fs.path_exists(place) else None
