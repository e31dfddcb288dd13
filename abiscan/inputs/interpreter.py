"""The Python that will import the extension. It is run at most to report its version, and never imports torch."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Final, TypeAlias

from msgspec import Struct

from abiscan.errors import InputError
from abiscan.inputs import observed_fs, programs
from abiscan.regex import regex

_Answer: TypeAlias = tuple[str, list[str], str | None, list[str]]

_QUERY: Final = """
import importlib.machinery, importlib.util, json, sys
path = [path for path in sys.path if path]
spec = importlib.util.find_spec("torch")
print(json.dumps([sys.version, importlib.machinery.EXTENSION_SUFFIXES, spec.origin if spec else None, path]))
"""
_ANSWERS: Final[dict[str, tuple[Mapping[str, Mapping[str, observed_fs.Seen]], _Answer]]] = {}  # and what they depend on

_ROOTS: Final[dict[str, str]] = {}  # those of the images that are only read, by the executable of their Python

_WHEEL: Final = regex(r"-cp3(?P<minor>[0-9]{1,2})-cp3[0-9]{1,2}m?(?P<flags>[a-ln-z]*)-[^-]+\.whl$")
_TAG: Final = regex(r"\.(?:cpython-|cp)(?P<major>[23])(?P<minor>[0-9]{1,2})(?P<flags>[a-z]*)(?:-[^.]*)?\.(?:so|pyd)$")


class PythonTag(Struct, frozen=True, kw_only=True):
    """The Python that an extension module is for, by its file name: ``_C.cpython-313t-….so`` → 3.13, ``t``.

    On Windows: ``_C.cp313t-win_amd64.pyd``.
    """

    major: int
    minor: int
    flags: str = ""

    @classmethod
    def of_file(cls, name: str) -> PythonTag | None:
        """Return the tag in a file name; None for ``_C.so`` and ``_C.abi3.so``, which every Python 3 accepts."""
        match = _TAG.search(name)
        if match is None:
            return None
        # The m of 3.7 and earlier (pymalloc) was part of every ordinary build.
        return cls(major=int(match["major"]), minor=int(match["minor"]), flags=match["flags"].replace("m", ""))

    @classmethod
    def of_wheel(cls, name: str) -> PythonTag | None:
        """Return the tag in the name of a wheel; None for one that several Pythons accept (``py3``, ``abi3``)."""
        match = _WHEEL.search(name)
        return cls(major=3, minor=int(match["minor"]), flags=match["flags"]) if match else None

    @property
    def version(self) -> str:
        """``3.11``."""
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        return self.version + self.flags


class Interpreter(Struct, frozen=True, kw_only=True):
    """A Python.

    ``executable`` is its path as it is called, since a virtual environment has a link to another Python; None if only
    its version is known (from the name of torch's own module). ``full_version`` is the text of ``Py_GetVersion()``,
    None if the interpreter was not run. ``over`` is a folder of packages that it is assumed to find before all others.
    """

    tag: PythonTag
    executable: Path | None = None
    full_version: str | None = None
    over: str | None = None


def running_interpreter() -> Interpreter:
    """Return the interpreter that runs abiscan."""
    return Interpreter(
        tag=PythonTag(major=sys.version_info.major, minor=sys.version_info.minor, flags=getattr(sys, "abiflags", "")),
        executable=Path(sys.executable) if sys.executable else None,
        full_version=sys.version,
    )


def tag_of(executable: str | None) -> PythonTag:
    """Return the tag of an interpreter, of the running one for None.

    :raises InputError: it cannot be run, or is not a Python
    """
    return running_interpreter().tag if executable is None else ask_interpreter(executable)[0].tag


def installed_torch() -> Path | None:
    """Return the torch of the interpreter that runs abiscan, found without importing it."""
    # Each place where a torch could appear later, before the one that is there now, belongs to the record.
    for folder in sys.path:
        observed_fs.stat_file(os.path.join(folder, "torch", "__init__.py"))  # noqa: PTH118
    observed_fs.observe_python(sys.executable, sys.path)
    # ``find_spec`` of a top-level name imports nothing (importlib.util's documentation).
    spec = importlib.util.find_spec("torch")
    return Path(spec.origin).parent if spec and spec.origin else None


def only_read(executable: str, root: str) -> None:
    """Have the Python of an unpacked image described by its files from now on, and never started."""
    _ROOTS[os.path.abspath(executable)] = root  # noqa: PTH100 - links lead where they do inside of the image


def ask_interpreter(executable: str) -> tuple[Interpreter, Path | None]:
    """Return the interpreter at ``executable`` and its torch, found without importing it.

    :raises InputError: it cannot be run, or is not a Python
    """
    import subprocess

    try:
        version, suffixes, origin, _ = _ask_once(executable)
        tag = next(tag for tag in map(PythonTag.of_file, suffixes) if tag)
        path = Path(os.path.abspath(executable)) if _has_folder(executable) else Path(_find_executable(executable))  # noqa: PTH100
    except (OSError, subprocess.SubprocessError, ValueError, TypeError, StopIteration) as error:
        raise InputError(executable, "cannot be run as a Python", "pass the path of a Python executable") from error
    if root := _ROOTS.get(str(path)):
        from abiscan.inputs.unpacked_python import describe

        path = Path(describe(root, executable).code)
    return Interpreter(tag=tag, executable=path, full_version=version), Path(origin).parent if origin else None


def search_path(executable: str | None) -> tuple[str, ...]:
    """Return where an interpreter looks for modules: its ``sys.path``; that of the running interpreter for None.

    :raises InputError: it cannot be run, or is not a Python
    """
    if executable is None:
        return tuple(sys.path)
    import subprocess

    try:
        return tuple(map(str, _ask_once(executable)[3]))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError) as error:
        raise InputError(executable, "cannot be run as a Python", "pass the path of a Python executable") from error


def _ask_once(executable: str) -> _Answer:
    """Return what a Python answers to the query: it is started once, as long as nothing changes that this
    depends on.
    """
    # Not the real path: a virtual environment is a link to another Python, whose answers are different.
    name = os.path.abspath(executable) if _has_folder(executable) else executable  # noqa: PTH100
    if name in _ANSWERS:
        seen, answer = _ANSWERS[name]
        if observed_fs.is_unchanged(seen):
            observed_fs.add_observations(seen)
            return answer
    if name in _ROOTS:
        from abiscan.inputs.unpacked_python import describe  # few runs look at an image

        described = describe(_ROOTS[name], name)
        return described.version, [described.suffix], described.torch, list(described.folders)
    with observed_fs.record_observations() as record:
        version, suffixes, origin, folders = json.loads(programs.ask_python(executable, _QUERY))
        observed_fs.observe_python(executable if _has_folder(executable) else _find_executable(executable), folders)
        for folder in folders:
            observed_fs.stat_file(os.path.join(folder, "torch", "__init__.py"))  # noqa: PTH118
    answer = version, suffixes, origin, folders
    # While the answer was awaited, an installer may have changed what it depends on.
    if record.still_holds():
        _ANSWERS[name] = record.seen, answer
    return answer


def _has_folder(executable: str) -> bool:
    """Whether it is a path, and not a name to be searched for."""
    return os.path.dirname(executable) != ""  # noqa: PTH120 - ./python has one


def _find_executable(executable: str) -> str:
    path = observed_fs.find_program(executable)
    if path is None:
        raise FileNotFoundError(executable)
    return os.path.abspath(path)  # noqa: PTH100


def of_torch(package: Path, tag: PythonTag | None) -> Interpreter | None:
    """Return the interpreter that a torch folder belongs to.

    :param package: the folder of the torch package
    :param tag: the Python its ``_C`` module is for, None if that is unknown
    :return: that of its environment; else the running one, if torch is for that version; else one known only by its tag
    """
    current = running_interpreter()
    if installed_torch() == package or tag is None:
        return current
    executable = _executable_of(package, tag)
    if executable:
        # Links of an environment may lead to the running Python, of which everything is known already.
        is_current = current.executable is not None and executable.samefile(current.executable)
        return current if is_current else Interpreter(tag=tag, executable=executable)
    return current if current.tag == tag else Interpreter(tag=tag)


_INSTALLED: Final = regex(
    r"(?P<posix>/lib(?:64)?/python[0-9.]+t?/(?:site|dist)-packages/[^/]+)$|/lib/site-packages/[^/]+$", re.IGNORECASE
)
"""How a package lies in its environment: ``prefix/lib/python3.11/site-packages/torch``, also in a framework of macOS;
``prefix\\Lib\\site-packages\\torch`` on Windows."""


def executables_of(package: PurePath, tag: PythonTag) -> tuple[PurePath, ...]:
    """Return where the Python of the environment may be that a package is installed in; nowhere if it is in none."""
    installed = _INSTALLED.search(package.as_posix())
    if installed is None:
        return ()
    # A Windows path may be looked at on Linux, in a record: the class of the path stays what it was.
    prefix = type(package)(package.as_posix()[: installed.start()] or "/")
    names = (f"bin/python{tag}",) if installed["posix"] else ("Scripts/python.exe", "python.exe")
    return tuple(prefix / name for name in names)


def _executable_of(package: Path, tag: PythonTag) -> Path | None:
    paths = map(Path, executables_of(package, tag))
    return next((path for path in paths if observed_fs.is_file(path)), None)
