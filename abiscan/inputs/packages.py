"""Packages by name: those installed in an environment, and wheels downloaded by its pip."""

from __future__ import annotations

import json
import os
import posixpath
import re
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from abiscan.errors import InputError
from abiscan.inputs import interpreter
from abiscan.inputs.files import exists

SHARED_OBJECT: Final = re.compile(r"\.so(\.[0-9]+)*$")
if TYPE_CHECKING:
    import importlib.metadata

_FILE: Final = re.compile(r"/|\.(so(\.[0-9]+)*|whl)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """An installed package, by its metadata.

    ``site`` is the folder it is installed in, ``objects`` the paths of its files that are called like shared objects;
    for an editable install those in the packages below its ``source``. ``requires`` are the requirements in its
    metadata.
    """

    name: str
    version: str
    site: str
    objects: tuple[str, ...]
    requires: tuple[str, ...]
    source: str | None

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedWheel:
    """A wheel in a temporary folder, whose path means nothing to the user."""

    path: Path


def installed(search_path: Sequence[str]) -> Iterator[Distribution]:
    """What is installed where an interpreter looks for modules, the first of a name only: the others are shadowed.

    :param search_path: its ``sys.path``
    """
    # These bring half of the standard library along, and few targets are packages.
    import importlib.metadata

    from packaging.utils import canonicalize_name

    seen: set[str] = set()
    for found in importlib.metadata.distributions(path=list(search_path)):
        name = found.metadata["Name"]
        if name and canonicalize_name(name) not in seen:
            seen.add(canonicalize_name(name))
            yield _distribution(name, found)


def find(name: str, search_path: Sequence[str]) -> Distribution | None:
    """The installed package of a name, however it is spelt."""
    import importlib.metadata

    for found in importlib.metadata.distributions(path=list(search_path), name=name):
        return _distribution(found.metadata["Name"] or name, found)
    return None


def _distribution(name: str, found: importlib.metadata.Distribution) -> Distribution:
    site = str(Path(str(found.locate_file(""))).absolute())
    return Distribution(
        name=name,
        version=found.version,
        site=site,
        objects=tuple(_objects(found, site)),
        source=_editable(found),
        requires=tuple(found.requires or ()),
    )


def _objects(found: importlib.metadata.Distribution, site: str) -> Iterator[str]:
    record = found.read_text("RECORD")
    if record is not None:
        # The file of torch has ten thousand lines, of which a few count: path, hash, size (PEP 376).
        names = [_path_of(line) for line in record.splitlines() if ".so" in line]
    else:
        names = [str(file) for file in found.files or ()]
    for name in names:
        if SHARED_OBJECT.search(name):
            yield posixpath.normpath(posixpath.join(site, name))
    source = _editable(found)
    if source is not None:
        yield from _importable(source)


def _importable(source: str) -> Iterator[str]:
    """The shared objects of a source tree that its packages hold: not those of a build folder, nor test data."""
    packages: set[str] = set()
    for folder, subfolders, files in os.walk(source):
        subfolders[:] = sorted(name for name in subfolders if name != "build" and not name.startswith("."))
        if "__init__.py" in files or posixpath.dirname(folder) in packages:
            packages.add(folder)
        if folder in packages or folder == source:
            yield from (posixpath.join(folder, name) for name in sorted(files) if SHARED_OBJECT.search(name))


def _path_of(line: str) -> str:
    return line[1:].partition('"')[0] if line.startswith('"') else line.partition(",")[0]


def _editable(found: importlib.metadata.Distribution) -> str | None:
    """The source folder of an editable install (PEP 610)."""
    try:
        origin = json.loads(found.read_text("direct_url.json") or "{}")
        if origin.get("dir_info", {}).get("editable"):
            return urllib.parse.unquote(urllib.parse.urlsplit(origin["url"]).path)
    except (ValueError, KeyError, AttributeError, TypeError):
        pass  # damaged metadata: then it is as if it were not there
    return None


def pip(python: str | None) -> list[str]:
    """The command that runs pip for an interpreter: its own, or else ours, told to work for it.

    :param python: the interpreter; None for the running one
    :raises InputError: neither has pip, or it cannot be run
    """
    executable = python or sys.executable
    if find("pip", interpreter.search_path(python)) is not None:
        return [executable, "-m", "pip"]
    if find("pip", sys.path) is not None:
        return [sys.executable, "-m", "pip", "--python", executable]
    raise InputError(executable, "has no pip", f"run: {executable} -m ensurepip")


def fetch(requirement: str, folder: Path, python: str | None, options: Sequence[str] = ()) -> Path:
    """Fetch one wheel through pip, with the index settings of the user.

    :param requirement: ``NAME==VERSION``, or ``NAME @ URL``
    :param python: for which interpreter, None for the running one
    :param options: further options of ``pip download``
    :raises InputError: there is no such wheel; with what pip said
    """
    words = ["download", "-qq", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), *options, requirement]
    before = set(folder.iterdir())
    done = subprocess.run([*pip(python), *words], capture_output=True, text=True, check=False)  # noqa: S603
    fetched = next((path for path in folder.iterdir() if path not in before and path.suffix == ".whl"), None)
    if done.returncode or fetched is None:
        problem = f"could not download a wheel: {said(done.stderr)}"
        raise InputError(requirement, problem, "check that there is a wheel for this Python and machine")
    return fetched


def said(stderr: str) -> str:
    """The last error that pip printed."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["pip gave no reason"])[-1]


def named(word: str, folder: Path, python: str | None) -> Path | Distribution | FetchedWheel:
    """What a ``TARGET`` means: a file or folder if there is one, else ``NAME==VERSION``, else an installed package.

    :param folder: gets the wheel of ``NAME==VERSION``
    :param python: whose packages are meant, None for the running interpreter
    :raises InputError: there is no such package
    """
    if not word:
        raise InputError('""', "is no target", "pass a .so, a wheel, a folder, NAME==VERSION or an installed package")
    path = Path(word)
    if exists(path) or _FILE.search(word):
        return path
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(word)
    except (InvalidRequirement, RecursionError):
        return path
    pins = [one for one in requirement.specifier if one.operator == "==" and not one.version.endswith(".*")]
    if pins:
        return FetchedWheel(path=fetch(str(requirement), folder, python))
    if requirement.specifier:
        raise InputError(word, "is not a single version", f"pass {requirement.name}==VERSION")
    found = find(requirement.name, interpreter.search_path(python))
    if found is None:
        whose = f"for {python}" if python else "in this environment"
        raise InputError(
            word,
            f"does not exist, and no package of that name is installed {whose}",
            "pass a .so, a wheel, a folder, NAME==VERSION or the name of an installed package",
        )
    return found
