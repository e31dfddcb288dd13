"""Packages by name: those installed in an environment, and wheels downloaded by its pip."""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
import signal
import sys
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from msgspec import Struct

from abiscan.errors import InputError, NoWheelError
from abiscan.inputs import interpreter, observed_fs, programs
from abiscan.inputs.addresses import without_credentials
from abiscan.inputs.files import check_existence, require_regular
from abiscan.inputs.image_files import IMAGE_NAME
from abiscan.inputs.kinds import is_wheel_name, looks_like_file
from abiscan.regex import regex
from abiscan.words import did_you_mean

if TYPE_CHECKING:
    import importlib.metadata
    from email.message import Message

SHARED_OBJECT: Final = regex(r"\.so(\.[0-9]+)*(\.[0-9]+[a-z])?$")  # libssl.so.1.1.1k
FIX: Final = "pass a .so, a wheel, a folder, NAME==VERSION or the name of an installed package"
_PATTERN: Final = regex(r"[*?\[]")
_SUFFIX: Final = regex(r"\.so|\.pyd|\.dll|\.dylib", re.IGNORECASE)
_FETCH_SECONDS: Final = 3_600
_RETRIES: Final = "2"
_LARGEST_LOG: Final = 16 << 20
_UNFETCHED: Final = regex(r"Could not fetch URL (?P<url>\S+?): (?P<why>.*?)(?: - skipping)?$", re.MULTILINE)
_ERRNO: Final = regex(r"\[Errno -?\d+\] ([^'\")]+)")
_FULL: Final = "[Errno 28]"
_NO_SUCH_PAGE: Final = regex(r"404 Client Error")
_OFFERED: Final = regex(r"\(from versions: (?P<versions>[^)]+)\)")
_NO_WHEEL: Final = "check that there is a wheel for this Python and machine"
_OUT_OF_MEMORY: Final = regex(r"MemoryError(:.*)?\s*$", re.MULTILINE)
_STATUS: Final = regex(r"too many (\d{3}) error|(\d{3}) (?:Client|Server) Error")
_TIMED_OUT: Final = regex(r"timed out|didn't respond within")  # pip says the second since 26.3
_OF_PROJECT: Final = ("setup.py", "pyproject.toml", "setup.cfg")
_MOST_DIGITS: Final = 18
"""No file has a size of more digits, and ``int`` refuses thousands of them."""
_DRIVE: Final = regex(r"/[A-Za-z]:/")


class Distribution(Struct, frozen=True, kw_only=True):
    """An installed package, by its metadata.

    ``site`` is the folder it is installed in, ``objects`` the paths of its files that are named like shared objects;
    for an editable install, those in the packages below its ``source``. ``requires`` has the requirements in its
    metadata. ``origin`` is the address that it was installed from, editable or not; None if an index had it, or nobody
    recorded where it is from. ``images`` are those that are named like libraries of Windows and macOS. ``variant`` is
    the text of its ``variant.json``, None if it has none.
    """

    name: str
    version: str
    site: str
    objects: tuple[str, ...]
    requires: tuple[str, ...]
    source: str | None
    origin: str | None = None
    images: tuple[str, ...] = ()
    variant: str | None = None

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


def is_library(name: str) -> bool:
    """Whether a file is named like a shared library, of any system."""
    return SHARED_OBJECT.search(name) is not None or IMAGE_NAME.search(name) is not None


class FetchedWheel(Struct, frozen=True, kw_only=True):
    """A downloaded wheel in a temporary folder, whose path means nothing to the user."""

    path: Path


class FetchedSource(Struct, frozen=True, kw_only=True):
    """A downloaded source distribution in a temporary folder, whose path means nothing to the user.

    :ivar requirement: what was asked for: ``NAME==VERSION``
    """

    path: Path
    requirement: str


class RemoteWheel(Struct, frozen=True, kw_only=True, eq=False):
    """A wheel on a server, read in place; ``path`` has only its name, ``stream`` opens it.

    ``spare`` are the libraries that are not needed, and not read, by the paths that they have once installed.
    """

    path: Path
    stream: Callable[[], IO[bytes]]
    spare: frozenset[str] = frozenset()


def list_installed(search_path: Sequence[str]) -> Iterator[Distribution]:
    """Yield the packages that an interpreter finds, the first of each name only: it shadows the others.

    :param search_path: the interpreter's ``sys.path``
    """
    # These imports pull in half of the standard library, and few targets are packages.
    import importlib.metadata

    from packaging.utils import canonicalize_name

    for site in search_path:
        observed_fs.observe_packages(site)
    # As for an import, the first folder of the path wins (importlib.metadata yields them in that order).
    seen_names: set[str] = set()
    for distribution in importlib.metadata.distributions(path=list(search_path)):
        headers = _read_headers(distribution)
        name = headers["Name"]
        if name and canonicalize_name(name) not in seen_names:
            seen_names.add(canonicalize_name(name))
            yield _make_distribution(name, distribution, headers)


def find_installed(name: str, search_path: Sequence[str]) -> Distribution | None:
    """Return the installed package of that name, in any spelling."""
    for distribution, headers in _find_metadata(name, search_path):
        return _make_distribution(headers["Name"] or name, distribution, headers)
    return None


def find_version(name: str, search_path: Sequence[str]) -> str | None:
    """Return the version of the installed package of that name, in any spelling; its files are not asked for."""
    return next((headers["Version"] or "unknown" for _, headers in _find_metadata(name, search_path)), None)


def find_headers(name: str, search_path: Sequence[str]) -> Message | None:
    """Return the metadata of the installed package of that name, in any spelling."""
    return next((headers for _, headers in _find_metadata(name, search_path)), None)


def version_at(metadata: str) -> str | None:
    """Return the version in the metadata at a path. Its name may write it in another way: distutils has an underscore
    for the plus sign.
    """
    import importlib.metadata

    return _read_headers(importlib.metadata.Distribution.at(metadata))["Version"]


def _find_metadata(name: str, search_path: Sequence[str]) -> Iterator[tuple[importlib.metadata.Distribution, Message]]:
    import importlib.metadata

    for site in search_path:
        observed_fs.observe_packages(site)
    for distribution in importlib.metadata.distributions(path=list(search_path), name=name):
        yield distribution, _read_headers(distribution)


def files_of(distribution: Distribution, *, installed: bool = False) -> Iterator[str]:
    """Yield the files of an installed package, by their paths in the folder that it is installed in.

    :param installed: whether an egg has none: what it lists are the files of its source, not all of which are installed
    """
    import importlib.metadata

    for item in importlib.metadata.distributions(path=[distribution.site], name=distribution.name):
        if not installed or _read_text(item, "RECORD") is not None:
            yield from map(posixpath.normpath, _recorded_files(item))
        return


def library_sizes(distribution: Distribution) -> Iterator[tuple[str, int]]:
    """Yield the libraries of an installed package, and how many bytes each had when it was installed."""
    import importlib.metadata

    for item in importlib.metadata.distributions(path=[distribution.site], name=distribution.name):
        for line in filter(_SUFFIX.search, (_read_text(item, "RECORD") or "").splitlines()):
            path, size = _path_of(line), line.rpartition(",")[2]  # path, hash, size (PEP 376)
            if is_library(path) and size.isdecimal() and len(size) <= _MOST_DIGITS:
                yield posixpath.normpath(path), int(size)
        return


def _recorded_files(distribution: importlib.metadata.Distribution, *, libraries: bool = False) -> list[str]:
    """Return the files of an installed package as its metadata list them, relative to where it is installed.

    :param libraries: whether lines may be left out that name no library
    """
    record = _read_text(distribution, "RECORD")
    if record is not None:
        # torch's has ten thousand lines, few of which name a library: path, hash, size (PEP 376).
        lines = (line for line in record.splitlines() if not libraries or _SUFFIX.search(line))
        return [path for line in lines if (path := _path_of(line))]
    try:
        return [str(file) for file in distribution.files or ()]
    except ValueError:  # the lists of an egg that are no text
        return []


def _read_text(distribution: importlib.metadata.Distribution, name: str) -> str | None:
    """Return a file of the metadata, None if it cannot be read; what is not UTF-8 in it, as an author's name once could
    be, is replaced.
    """
    from importlib.metadata import PathDistribution

    try:
        return distribution.read_text(name)
    except UnicodeDecodeError:
        assert isinstance(distribution, PathDistribution)
        return Path(str(distribution._path), name).read_bytes().decode("utf-8", "replace")
    except OSError:  # importlib.metadata takes some of them for a file that is not there, but not a loop of links
        return None


def _read_headers(distribution: importlib.metadata.Distribution) -> Message:
    """Return what the metadata say, without the description behind them: parsed once, not for each field."""
    import email.parser

    # A wheel's, a source distribution's, and the file that an .egg-info without a folder is.
    texts = (_read_text(distribution, name) for name in ("METADATA", "PKG-INFO", ""))
    text = next((text for text in texts if text), "")
    return email.parser.HeaderParser().parsestr(text.partition("\n\n")[0])


def _make_distribution(name: str, distribution: importlib.metadata.Distribution, headers: Message) -> Distribution:
    site = Path(str(distribution.locate_file(""))).absolute().as_posix()
    requires = headers.get_all("Requires-Dist")
    # An egg has requires.txt instead, which importlib.metadata translates.
    if not requires and _read_text(distribution, "requires.txt"):  # of an egg
        with contextlib.suppress(ValueError):  # it is no text
            requires = distribution.requires
    libraries = tuple(_installed_libraries(distribution, site))
    return Distribution(
        name=name,
        version=headers["Version"] or "unknown",
        site=site,
        objects=tuple(filter(SHARED_OBJECT.search, libraries)),
        images=tuple(filter(IMAGE_NAME.search, libraries)),
        source=_find_editable(distribution),
        origin=_find_origin(distribution),
        requires=tuple(requires or ()),
        variant=_read_text(distribution, "variant.json"),
    )


def _installed_libraries(distribution: importlib.metadata.Distribution, site: str) -> Iterator[str]:
    for name in _recorded_files(distribution, libraries=True):
        if is_library(name):
            yield posixpath.normpath(posixpath.join(site, name))
    source = _find_editable(distribution)
    if source is not None:
        yield from _importable_libraries(source)


def _importable_libraries(source: str) -> Iterator[str]:
    """Yield the shared objects in the packages of a source tree, without those in a build folder or test data."""
    packages: set[str] = set()
    for folder, subfolders, files in observed_fs.walk_folder(source):
        subfolders[:] = [name for name in subfolders if name != "build" and not name.startswith(".")]
        if "__init__.py" in files or posixpath.dirname(folder) in packages:
            packages.add(folder)
        if folder in packages or folder == source:
            yield from (posixpath.join(folder, name) for name in files if is_library(name))


def _path_of(line: str) -> str:
    return line[1:].partition('"')[0] if line.startswith('"') else line.partition(",")[0]


def _find_editable(distribution: importlib.metadata.Distribution) -> str | None:
    """Return the source folder of an editable install."""
    origin = _read_origin(distribution)
    details = origin.get("dir_info")
    if isinstance(details, dict) and details.get("editable"):
        return path_of_url(origin["url"])
    # ``setup.py develop`` adds the folder of the packages to the search path. There, ``egg_info`` has written metadata
    # whose name has no version; that of an installed package has one.
    folder = Path(str(getattr(distribution, "_path", "")))
    if folder.suffix != ".egg-info" or "-" in folder.stem:
        return None
    around = folder.parent.absolute()
    is_inside = around.name == "src" and any(observed_fs.is_file(around.parent / name) for name in _OF_PROJECT)
    return (around.parent if is_inside else around).as_posix()


def _find_origin(distribution: importlib.metadata.Distribution) -> str | None:
    """Return the address that a package was installed from, as one to install it from again, without credentials."""
    origin = _read_origin(distribution)
    if not origin:
        return None
    address, repository, inside = without_credentials(origin["url"]), origin.get("vcs_info"), origin.get("subdirectory")
    if isinstance(repository, dict):
        address = f"{repository.get('vcs')}+{address}@{repository.get('commit_id')}"
    return f"{address}#subdirectory={inside}" if inside else address


def _read_origin(distribution: importlib.metadata.Distribution) -> dict[str, Any]:
    """Return what ``direct_url.json`` has (packaging specifications, "Recording the Direct URL Origin"); it is empty
    if there is none.
    """
    try:
        origin = json.loads(_read_text(distribution, "direct_url.json") or "{}")
        if isinstance(origin, dict) and isinstance(origin.get("url"), str) and _is_possible(path_of_url(origin["url"])):
            return origin
    except (ValueError, RecursionError):
        pass
    return {}  # damaged metadata are treated as missing


def _is_possible(path: str) -> bool:
    """Whether a file can have this path.

    :raises ValueError: none can
    """
    return b"\0" not in os.fsencode(path)


def path_of_url(url: str) -> str:
    """Return the path in a ``file://`` address, with ``/``: ``/src/pkg``, ``C:/src/pkg``."""
    path = urllib.parse.unquote(urllib.parse.urlsplit(url).path)
    return path[1:] if _DRIVE.match(path) else path


def pip_command(python: str | None) -> list[str]:
    """Return the command that runs pip for an interpreter: its own pip, or else ours with ``--python``.

    :param python: the interpreter; None for the running one
    :raises InputError: neither has pip, or it cannot be run
    """
    executable = python or sys.executable
    if find_installed("pip", interpreter.search_path(python)) is not None:
        return programs.python_command(executable, "-m", "pip")
    if find_installed("pip", sys.path) is not None:
        return programs.python_command(sys.executable, "-m", "pip", "--python", executable)
    raise InputError(executable, "has no pip", f"run: {executable} -m ensurepip")


def fetch_wheel(requirement: str, folder: Path, python: str | None, options: Sequence[str] = ()) -> Path:
    """Download one wheel with pip, using the user's index settings.

    :param requirement: ``NAME==VERSION``, or ``NAME @ URL``
    :param python: the interpreter that the wheel is for, None for the running one
    :param options: further options of ``pip download``
    :raises InputError: there is no such wheel; with pip's error
    """
    return fetch_wheels([requirement], folder, python, options)[0]


def fetch_wheels(
    requirements: Sequence[str], folder: Path, python: str | None, options: Sequence[str] = ()
) -> tuple[Path, ...]:
    """Download wheels with one run of pip, all of them or none; in the order of their names.

    :param requirements: as for ``fetch_wheel``
    :raises InputError: one of them cannot be had; with pip's error
    """
    import subprocess
    import tempfile

    observed_fs.look_once()
    subject = ", ".join(requirements)
    log = folder / "pip.log"
    # pip would ask the index for itself, too, and the log would name that page.
    words = ["download", "-qq", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    # To write the log takes long. Of several wheels, one that fails is asked for by itself to know why.
    words += ["--dest", str(folder), *(["--log", str(log)] if len(requirements) == 1 else [])]
    before = set(folder.iterdir())
    try:
        # ``-qq`` leaves errors only, for ``pip_error``; what a page of the index failed of is in the log alone.
        command = [*pip_command(python), *words, "--retries", _RETRIES, *options, *requirements]
        process = programs.run_program(command, capture_output=True, timeout=_FETCH_SECONDS)
    except subprocess.TimeoutExpired as error:
        problem = f"could not download a wheel: pip did not finish within {_FETCH_SECONDS} s, and was stopped"
        raise InputError(subject, problem, "check the network and the index settings") from error
    fetched = sorted(path for path in folder.iterdir() if path not in before and is_wheel_name(path.name))
    if process.returncode < 0:
        # subprocess: a negative code is the number of the signal that ended it.
        end = signal.Signals(-process.returncode).name
        memory = ": the system has no more memory for what it reads" if end == "SIGKILL" else ""
        problem = f"could not download a wheel: pip was ended by {end}{memory}"
        raise InputError(subject, problem, "check the index settings, and what the index sends")
    if process.returncode or len(fetched) < len(requirements):
        if failed := explain_unfetched(log, process.stderr):
            problem = f"could not download a wheel: {failed}"
            raise InputError(subject, problem, "check the network and the index settings, or run it again")
        if _FULL in process.stderr:  # several of pip's lines say so, and the last one is seldom among them
            problem = "could not download a wheel: no space left on device"
            fix = f"free some space in {tempfile.gettempdir()}, or name another folder in TMPDIR"
            raise InputError(subject, problem, fix)
        problem = f"could not download a wheel: {pip_error(process.stderr)}"
        raise NoWheelError(subject, problem, _what_to_check(process.stderr))
    return tuple(fetched)


def _what_to_check(stderr: str) -> str:
    """Return where the mistake may be if pip found no wheel: pip lists the versions of which there is one."""
    match = _OFFERED.search(stderr)
    if match is None:
        return _NO_WHEEL
    if match["versions"] == "none":
        return "check the name, and that there is a wheel for this Python and machine"
    newest = match["versions"].split(", ")[-3:]
    return f"the newest with a wheel for this Python and machine: {', '.join(newest)}"


def explain_unfetched(log: Path, stderr: str = "") -> str | None:
    """Return why pip could not read the page of an index, which it says in its log alone; None if it could.

    That an index has no page for a package (404) is an answer: this index has no such package.
    """
    try:
        with observed_fs.open_file(log) as stream:
            text = stream.read(_LARGEST_LOG).decode("utf-8", "replace")
    except OSError:
        text = ""
    unfetched = (match for match in _UNFETCHED.finditer(text) if not _NO_SUCH_PAGE.match(match["why"]))
    if match := next(unfetched, None):
        if status := _STATUS.search(match["why"]):
            reason = f"the server answers {status[1] or status[2]}"
        elif _TIMED_OUT.search(match["why"]):
            reason = "the server did not answer in time"
        else:
            reason = cause[1].lower() if (cause := _ERRNO.search(match["why"])) else match["why"]
        # What is before the "@" is the user's password for the index, which has no place in a report.
        return f"{match['url'].rpartition('@')[2]}: {reason}"
    return "pip ran out of memory as it read the index" if _OUT_OF_MEMORY.search(f"{text}\n{stderr}") else None


def pip_error(stderr: str) -> str:
    """Return the last error that pip printed."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    if errors[-1:] == ["Exception:"]:  # the line above a traceback, which ends with what it is
        return lines[-1]
    return (errors or lines or ["pip gave no reason"])[-1]


def resolve_target(
    word: str, folder: Path, python: str | None, options: Sequence[str] = ()
) -> Path | Distribution | FetchedWheel:
    """Return what a ``TARGET`` stands for: a file or folder if it exists, else ``NAME==VERSION``, else an installed
    package.

    :param folder: where the wheel of ``NAME==VERSION`` is downloaded to
    :param python: the interpreter whose packages are looked up, None for the running one
    :param options: where pip is to look for a wheel
    :raises InputError: there is no such package
    """
    if not word:
        raise InputError(
            '""', "is not a target", "pass a .so, a wheel, a folder, NAME==VERSION or an installed package"
        )
    if word == "-":
        raise InputError(word, "the standard input is not a target", "write it to a file, and pass that")
    # An existing path comes first, so that a file is never taken for a package of the same name.
    if "://" in word:  # a Path would have one slash of it, and nobody sees then where a password is
        raise InputError(
            without_credentials(word), "is an address that is not read here", "download it, and pass the file"
        )
    path = Path(word)
    if not is_name(word):
        return require_existing(path)
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(word)
    except (InvalidRequirement, RecursionError) as error:
        raise _missing_error(path) from error
    # ``==2.5.*`` is a range, in which pip would choose: which version was checked would depend on the day.
    pins = [
        specifier
        for specifier in requirement.specifier
        if specifier.operator == "==" and not specifier.version.endswith(".*")
    ]
    if pins:
        return FetchedWheel(path=fetch_wheel(str(requirement), folder, python, options))
    if requirement.specifier:
        raise InputError(word, "is not a single version", f"pass {requirement.name}==VERSION")
    distribution = find_installed(requirement.name, interpreter.search_path(python))
    if distribution is None:
        location = f"for {python}" if python else "in this environment"
        meant = did_you_mean(word, (*_other_files(path), *_installed_names(python)))
        raise InputError(
            word,
            f"does not exist, and no package of that name is installed {location}",
            f"{requirement.name}==VERSION downloads it{f'; {meant}' if meant else ''}",
        )
    return distribution


def is_name(word: str) -> bool:
    """Whether a ``TARGET`` stands for a package, and not for a file or folder."""
    path = Path(word)
    return "://" not in word and not (check_existence(path) or path.is_symlink() or looks_like_file(word))


def require_existing(path: Path) -> Path:
    """Return a path that a ``TARGET`` stands for.

    :raises InputError: there is nothing
    """
    if not check_existence(path):
        raise _missing_error(path)
    if not observed_fs.is_dir(path):
        require_regular(path)
    return path


def _missing_error(path: Path) -> InputError:
    if _PATTERN.search(str(path)):
        return InputError(str(path), "matches no file", FIX)
    if path.is_symlink():
        return InputError(str(path), f"is a symbolic link to {path.readlink()}, which leads nowhere", FIX)
    return InputError(str(path), "does not exist", did_you_mean(str(path), _other_files(path)) or FIX)


def _other_files(path: Path) -> list[str]:
    """Return what there is in the folder of a path, as paths of the same form."""
    try:
        return sorted(str(path.parent / other.name) for other in path.parent.iterdir() if other.name != path.name)
    except OSError:
        return []


def _installed_names(python: str | None) -> list[str]:
    import importlib.metadata

    distributions = importlib.metadata.distributions(path=list(interpreter.search_path(python)))
    return sorted({distribution.metadata["Name"] or "" for distribution in distributions})
