"""What uv would install, from ``uv pip install --dry-run``.

From 0.13 on, uv says it in JSON, too, but without the addresses of files that the user passes; and its text has no
version of those that are not in its cache. So both are read, and have to agree. A line of changes that is not
understood, and a number that is not that of the lines, is an error: what is not in the plan would not be checked.

Which file it takes of an index, it says in a lock of the versions that it would install (``pylock.toml``).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
import urllib.parse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec.structs
from msgspec import Struct
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion

from abiscan.errors import InputError, UnclearPlanError
from abiscan.hooks import arguments as arguments_of
from abiscan.hooks.install import InstallerError
from abiscan.hooks.pins import Pins, add_options
from abiscan.hooks.pip import list_versions
from abiscan.hooks.plan import Plan, Planned
from abiscan.inputs import interpreter, observed_fs, programs
from abiscan.inputs.addresses import format_command
from abiscan.inputs.kinds import is_wheel_name
from abiscan.inputs.requirements_file import names_index, read_requirements
from abiscan.regex import regex

if TYPE_CHECKING:
    from abiscan.index.system import System

# " + torchaudio==2.8.0", " - pkg==1.0 (from file:///…/pkg-1.0-….whl)", " + pkg @ file:///…/pkg-1.0-….whl".
_CHANGE: Final = regex(
    r" (?P<sign>[-+~]) (?P<name>[A-Za-z0-9][\w.-]*)"
    r"(?:==(?P<version>[\w.+!-]+)(?: \(from (?P<source>\S+)\))?| @ (?P<url>\S+))",
    re.ASCII,
)
_BEGINS_CHANGE: Final = regex(r" [-+~] ")
_COUNT: Final = regex(r"Would (?P<what>install|uninstall) (?P<number>\d+) packages?")
_ENVIRONMENT: Final = regex(r"^Using Python \S+ environment at:? (?P<folder>.+)$", re.MULTILINE)
_NO_CHANGES: Final = "Would make no changes"
_JSON: Final = ("--output-format", "json")
_ACTIONS: Final = {"installed": "+", "uninstalled": "-", "reinstalled": "~"}
# Options that change what it prints.
_PRINTING: Final = ("-q", "--quiet", "-v", "--verbose", "--color", "--output-format", "--dry-run", "--no-color")
_PYTHON: Final = ("--python", "-p")
# The options and variables that uv names differently from pip.
_INDEX_NAMES: Final = {"--default-index": "--index-url", "--index": "--extra-index-url"}
_INDEX_VARIABLES: Final = {
    "UV_INDEX_URL": "--index-url",
    "UV_DEFAULT_INDEX": "--index-url",
    "UV_EXTRA_INDEX_URL": "--extra-index-url",
    "UV_INDEX": "--extra-index-url",
    "UV_FIND_LINKS": "--find-links",
}
_NAMED_INDEX: Final = regex(r"^[\w-]+=(?=\S)")
_BUILDING: Final = ("--no-binary",)
_BUILDING_VARIABLES: Final = ("UV_NO_BINARY", "UV_NO_BINARY_PACKAGE")
# Options of ``uv pip install`` that ``uv pip compile`` lacks, or that are about more than which file a version has.
_INSTALLING: Final = (
    *("-r", "--requirement", "--requirements", "-c", "--constraint", "--constraints", "--override", "--overrides"),
    *("--excludes", "-b", "--build-constraint", "--build-constraints", "-e", "--editable", "--extra", "--all-extras"),
    *("--group", "-t", "--target", "--prefix", "--user", "--break-system-packages", "--no-break-system-packages"),
    *("-U", "--upgrade", "-P", "--upgrade-package", "--reinstall", "--force-reinstall", "--reinstall-package"),
    *("--exact", "--strict", "--check", "--compile-bytecode", "--compile", "--no-compile-bytecode", "--no-compile"),
    *(
        "--require-hashes",
        "--no-require-hashes",
        "--verify-hashes",
        "--no-verify-hashes",
        "--no-deps",
        "--system",
        "--no-system",
    ),
)
# They name a package whose replacement the user wants.
_NAMING: Final = ("-P", "--upgrade-package", "--reinstall-package")


class _Change(Struct, frozen=True, kw_only=True):
    """One change, as uv prints it: ``+`` installed, ``-`` removed, ``~`` installed again."""

    sign: str
    name: str
    version: str | None
    url: str | None


class Uv(Struct, frozen=True):
    """The uv on the search path."""

    @property
    def executable(self) -> str:
        """Its path.

        :raises InputError: there is none
        """
        path = observed_fs.find_program("uv")
        if path is None:
            raise InputError("uv", "is not installed", "see https://docs.astral.sh/uv, or use abiscan pip install")
        return path

    @property
    def downloads_to_plan(self) -> bool:
        """No: metadata are enough for it."""
        return False

    def plan_install(self, arguments: Sequence[str], *, silent: bool = False) -> Plan:
        """Return what uv would install. An address is known of files that the user passes by path or URL, and of wheels
        on an index if uv locks them.

        :raises InstallerError: uv cannot find the packages, or cannot resolve their requirements
        :raises UnclearPlanError: what it prints is not understood
        :raises InputError: there is no uv, or no interpreter that it would install for
        """
        command = [self.executable, "pip", "install", "--dry-run", "--color", "never"]
        words = arguments_of.drop_options(arguments, *_PRINTING)
        # clap, which uv parses with, exits with 2 for an option that it does not know.
        process = _run_uv([*command, *_JSON, *words])
        if process.returncode == 2 and _JSON[0] in process.stderr:  # it has no such option
            process = _run_uv([*command, *words])
        if process.returncode:
            raise InstallerError(process.returncode, "" if silent else process.stderr)
        changes = tuple(_parsed_changes(process.stderr))
        if process.stdout.strip():
            changes = _merge_versions(changes, process.stdout)
        python = self.find_python(arguments)
        _must_be_for(python, process.stderr, arguments)
        asked = {canonicalize_name(name) for name in _requested_names(arguments)}
        installed = [change for change in changes if change.sign != "-"]
        # uv prints a replacement as a removal and an installation: only what does not come back is removed.
        names = {canonicalize_name(change.name) for change in installed}
        planned = [_make_planned(change, requested=canonicalize_name(change.name) in asked) for change in installed]
        addresses = self._find_addresses([item for item in planned if item.url is None], python, arguments)
        return Plan(
            python=python,
            packages=tuple(
                msgspec.structs.replace(item, url=item.url or addresses.get(canonicalize_name(item.name)))
                for item in planned
            ),
            removed=frozenset({canonicalize_name(change.name) for change in changes} - names),
        )

    def _find_addresses(self, packages: Sequence[Planned], python: str, arguments: Sequence[str]) -> Mapping[str, str]:
        """Return the addresses of the wheels that uv takes of an index, with their hashes, by canonical name.

        A package is left out where that is not certain: uv is too old to lock it, or a file of requirements names an
        index.
        """
        if not packages or any(map(names_index, arguments_of.files(arguments))):
            return {}
        given = arguments_of.parse_arguments(arguments_of.drop_options(arguments, *_PRINTING, *_PYTHON, *_INSTALLING))
        options = [word for argument in given if argument.option is not None for word in argument.words]
        with tempfile.TemporaryDirectory(prefix="abiscan-") as folder:
            pins, lock = Path(folder, "requirements.txt"), Path(folder, "pylock.toml")
            pins.write_text("".join(f"{item.name}=={item.version}\n" for item in packages), encoding="utf-8")
            words = ["--no-deps", "--format", "pylock.toml", "--output-file", str(lock), "--python", python, *options]
            process = _run_uv([self.executable, "pip", "compile", "--quiet", *words, str(pins)])
            if process.returncode:
                return {}
            from abiscan.index.system import System

            with contextlib.suppress(InputError):
                tag = interpreter.ask_interpreter(python)[0].tag
                system = System.of((tag.major, tag.minor))
                return dict(_addresses_in(lock, system))
        return {}

    def index_options(self, arguments: Sequence[str]) -> list[str]:
        """Return the arguments that say where packages come from, and variables that do, as pip spells them."""
        words = [_INDEX_NAMES.get(word, word) for word in arguments]
        # An option wins over a variable, as in uv itself.
        replaced = arguments_of.has_option(words, "--index-url", "-i")
        for variable, option in _INDEX_VARIABLES.items():
            if option == "--index-url" and replaced:
                continue
            for value in re.split(r"[\s,]+", os.environ.get(variable, "")):
                if value:
                    words += [option, _NAMED_INDEX.sub("", value)]
        return arguments_of.index_options(words)

    def list_versions(self, name: str, arguments: Sequence[str]) -> tuple[str, ...]:
        """Return the versions of a package on the index, newest first, as pip says, since uv has no command for
        that.
        """
        return list_versions(self.find_python(arguments), name, self.index_options(arguments))

    def upgrade_options(self, names: Iterable[str]) -> list[str]:
        """Return the options that make it replace these packages."""
        return [word for name in names for word in ("--upgrade-package", name)]

    def pin_files(self, words: Sequence[str], arguments: Sequence[str], pins: Pins) -> list[str]:
        """Return the command line with which it installs the files that were checked."""
        # What it builds although there is a wheel has another hash.
        built = arguments_of.has_option(arguments, *_BUILDING) or any(map(os.environ.get, _BUILDING_VARIABLES))
        versions = pins.versions(hashes=not built, others=arguments_of.upgrades(arguments))
        options = ["--constraint", str(pins.write_file(versions))]
        # The option wins over the variable, of which uv would not know any more.
        if not arguments_of.has_option(arguments, "-c", "--constraint", "--constraints"):
            options += [word for file in os.environ.get("UV_CONSTRAINT", "").split() for word in ("--constraint", file)]
        return add_options(pins.hash_addresses(words), options)

    def format_command(self, words: Sequence[str]) -> str:
        """Return the command that runs it through abiscan, ready to type."""
        return format_command(["abiscan", "uv", "pip", *words])

    def find_python(self, arguments: Sequence[str]) -> str:
        """Return the interpreter that it would install for.

        :raises InputError: there is no uv, or no such interpreter
        """
        pythons = arguments_of.option_values(arguments, *_PYTHON) or list(filter(None, [os.environ.get("UV_PYTHON")]))
        system = arguments_of.has_option(arguments, "--system")
        if not pythons and not system and not os.environ.get("UV_SYSTEM_PYTHON"):
            pythons = list(filter(None, [os.environ.get("VIRTUAL_ENV")]))  # which uv 0.2 does not look at here
        process = _run_uv([self.executable, "python", "find", *(["--system"] if system else []), *pythons[-1:]])
        if process.returncode:
            raise InputError("uv", f"finds no Python: {process.stderr.strip()}", "create an environment with uv venv")
        return process.stdout.strip()


def _run_uv(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name != "RUST_LOG"}  # which prints more lines
    return programs.run_program(
        command, env=variables, capture_output=True, encoding="utf-8", errors="backslashreplace"
    )


def _parsed_changes(text: str) -> Iterator[_Change]:
    """Yield the changes that the text of uv has.

    :raises UnclearPlanError: there is a line that is not understood, or not the number of lines that it announces
    """
    # The lines are counted against what uv announces, in both directions: a line that was missed would be a package
    # that nobody checks.
    announced = Counter[str]()
    lines = Counter[str]()
    ended = False
    for line in text.split("\n"):
        if count := _COUNT.fullmatch(line):
            announced[count["what"]] += int(count["number"])
            ended = True
        elif change := _CHANGE.fullmatch(line):
            lines["uninstall" if change["sign"] == "-" else "install"] += 1
            yield _Change(
                sign=change["sign"],
                name=change["name"],
                version=change["version"],
                url=change["source"] or change["url"],
            )
        elif _BEGINS_CHANGE.match(line):
            raise UnclearPlanError("uv", f"what it would do is not understood: {line!r}")
        else:
            ended = ended or line == _NO_CHANGES
    if not ended or announced != lines:
        notice = f"{sum(lines.values())} of {sum(announced.values())} changes" if ended else "nothing of it"
        raise UnclearPlanError("uv", f"what it would do is not understood: {notice} found in what it prints")


def _addresses_in(lock: Path, system: System) -> Iterator[tuple[str, str]]:
    """Yield the packages of a lock, and the address of the wheel of each that is for a system, with its hash.

    :raises InputError: it cannot be read
    """
    from abiscan.locks.model import rank_wheel
    from abiscan.locks.pylock import read_pylock

    for entry in read_pylock(lock).entries:
        files = entry.package.files
        # uv has left out what is not for this Python. What is for it and not for the system, as for a Python without
        # a global lock, may be what uv takes.
        file = entry.package.choose_file(system) if all(rank_wheel(item.name, system) for item in files) else None
        if file is not None and file.sha256 is not None:
            address = Path(file.path).as_uri() if file.path is not None else file.url
            yield entry.package.name, f"{address}#sha256={file.sha256}"


def _must_be_for(python: str, text: str, arguments: Sequence[str]) -> None:
    """Compare the environment that uv says it would install into with that of an interpreter.

    :raises UnclearPlanError: it is another one
    """
    match = _ENVIRONMENT.search(text)
    if match is None:  # an old uv, or another folder to install into
        return
    base = Path(*arguments_of.option_values(arguments, "--directory")[-1:])
    folder = observed_fs.resolve_links(str(base / match["folder"]))
    if (
        observed_fs.is_file(Path(folder, "pyvenv.cfg"))
        and observed_fs.resolve_links(str(Path(python).parent.parent)) != folder
    ):
        raise UnclearPlanError("uv", f"would install into {folder}, but finds the Python {python}", "pass --python")


def _merge_versions(changes: Sequence[_Change], text: str) -> tuple[_Change, ...]:
    """Return the changes of the text, with the versions of the JSON.

    :raises UnclearPlanError: it is other JSON, or has other changes
    """
    try:
        # What is built (a folder, a repository, source code) has no version before it is built.
        entries = [
            (
                _ACTIONS[entry["action"]],
                canonicalize_name(entry["name"]),
                str(entry["version"]) if "version" in entry else None,
            )
            for entry in json.loads(text)["changes"]
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"its JSON of what it would do is not understood: {type(error).__name__}: {error}"
        raise UnclearPlanError("uv", problem) from error
    versions_of = {(sign, name): version for sign, name, version in entries}
    # As multisets: the order differs between the two, and one name may stand in both directions.
    keys = [(change.sign, canonicalize_name(change.name)) for change in changes]
    if Counter(keys) != Counter((sign, name) for sign, name, _ in entries):
        raise UnclearPlanError("uv", "its text and its JSON do not agree on what it would work")
    return tuple(
        msgspec.structs.replace(change, version=change.version or versions_of[key])
        for change, key in zip(changes, keys, strict=True)
    )


def _make_planned(change: _Change, *, requested: bool) -> Planned:
    path = urllib.parse.unquote(urllib.parse.urlsplit(change.url).path) if change.url else ""
    version = change.version
    if version is None:
        try:
            version = str(parse_wheel_filename(path.rpartition("/")[2])[1])
        except (InvalidWheelFilename, InvalidVersion):
            version = f"from {change.url}"
    return Planned(
        name=change.name,
        version=version,
        url=change.url,
        wheel=change.url is None or is_wheel_name(path),
        requires=None,
        requested=requested,
        direct=change.url is not None,
    )


def _requested_names(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the names of the packages that the user asks for, in the arguments or in files of requirements."""
    for argument in arguments_of.parse_arguments(arguments):
        if argument.option is None:
            wheel = Path(urllib.parse.unquote(urllib.parse.urlsplit(argument.words[0]).path)).name
            yield argument.package or wheel.partition("-")[0]
    yield from arguments_of.option_values(arguments, *_NAMING)
    for file in arguments_of.files_of_requirements(arguments):
        with contextlib.suppress(InputError):  # one that only uv can read; what is in it counts as not asked for
            lines = read_requirements(file, by_name_only=False)
            yield from (line.requirement.name for line in lines if not line.constraint)
