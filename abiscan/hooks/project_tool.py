"""A tool that locks projects and installs from the lock: what is known of it, and what a command line of it says.

What is not known of a tool is not understood, and then nothing is run.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from abiscan.errors import InputError, UnclearPlanError
from abiscan.inputs import observed_fs

_ALL: Final = ":all"
_OF_SCRIPT: Final = b"# /// script"


class Meaning(enum.Enum):
    """What an option does."""

    PLACE = "names the folder of the project"
    RESOLVING = "decides on the lock"
    CHANGING = "says what changes in the project, or how"
    TO_GROUP = "says what changes, and names the group that it changes in"
    TO_EXTRA = "says what changes, and names the extra that it changes in"
    EXTRA = "installs an extra"
    GROUP = "installs a group"
    WITHOUT = "leaves out a group"
    ONLY = "installs a group alone"
    NO_DEV = "leaves out the groups that are installed by default"
    ALL_EXTRAS = "installs all extras"
    ALL_GROUPS = "installs all groups"
    INSTALLING = "is about the environment alone"
    FROZEN = "keeps the lock"
    NO_INSTALL = "installs nothing; a lock may be written"
    HARMLESS = "does nothing, or only shows what would be done"


class ToolOption(Struct, frozen=True):
    """An option, and whether it takes a value."""

    meaning: Meaning
    has_value: bool


def options_of(words: Mapping[Meaning, str]) -> dict[str, ToolOption]:
    """Return options by name: ``--group=`` takes a value, ``--dev`` does not."""
    return {
        word.removesuffix("="): ToolOption(meaning, word.endswith("="))
        for meaning, text in words.items()
        for word in text.split()
    }


class ToolCommand(Struct, frozen=True, kw_only=True):
    """A command that locks a project, or installs from the lock.

    :ivar lock: the words that lock a project as it would, and install nothing
    :ivar again: those where there is a lock already, if they are others
    :ivar fresh: the words that succeed if the lock that is there stays as it is; empty if it does in any case
    :ivar names: whether its other words name packages
    :ivar installs: whether it installs what is in the lock, and changes nothing in the project
    :ivar starts: whether its other words are a program, with options of its own
    :ivar options: those that mean something else than for other commands
    """

    lock: tuple[str, ...]
    again: tuple[str, ...] | None = None
    fresh: tuple[str, ...] | None = None
    names: bool = False
    installs: bool = False
    starts: bool = False
    options: Mapping[str, ToolOption] = {}


class ProjectTool(Struct, frozen=True, kw_only=True):
    """A tool.

    :ivar lock: the name of its lock
    :ivar manifests: the names of the files that may describe a project, and what is in them then
    :ivar workspace: what is in the manifest of a project that others in its folder share the lock of
    :ivar others: the commands that install nothing in a project; None if somebody else checks that
    :ivar add: the words that require packages, and install nothing
    :ivar of_index: the words that ask for packages of an index, where it has others, too
    :ivar python: the words that print the Python that it installs for, None if the lock has it
    :ivar knows_folder: whether it knows the environment of a project by the project's folder
    :ivar environment: the folder in a project that it installs into; None for that of its Python
    :ivar leading: the variables that lead it to another project or lock
    :ivar freezing: the variable that keeps the lock
    :ivar variables: those that keep it in a copy of a project
    """

    program: str
    lock: str
    manifests: Mapping[str, bytes]
    commands: Mapping[str, ToolCommand]
    options: Mapping[str, ToolOption]
    add: tuple[str, ...]
    workspace: bytes | None = None
    others: frozenset[str] | None = None
    of_index: tuple[str, ...] = ()
    python: tuple[str, ...] | None = None
    knows_folder: bool = False
    environment: str | None = None
    leading: tuple[str, ...] = ()
    freezing: str | None = None
    variables: dict[str, str] = {}

    @property
    def executable(self) -> str:
        """The path of its program.

        :raises InputError: there is none
        """
        path = observed_fs.find_program(self.program)
        if path is None:
            raise InputError(self.program, "is not installed", "put it on the search path, or lock and check by hand")
        return path

    def format_addition(self, pins: Sequence[str], *, of_index: bool) -> str:
        """Return the command that requires these versions."""
        words = [self.program, "add", *(self.of_index if of_index else ()), *(f"'{pin}'" for pin in pins)]
        return " ".join(words)


class ProjectCommand(Struct, frozen=True, kw_only=True):
    """A command line of a tool.

    :ivar changes: the words that say what changes in the project
    :ivar resolving: the options that decide on the lock
    :ivar choosing: those that choose what of the project is installed
    :ivar groups: those that are installed alongside others
    :ivar without: the groups that are not installed
    :ivar only: those that are installed alone
    :ivar folder: the folder that it is about
    :ivar frozen: whether the lock stays as it is
    :ivar harmless: whether it installs nothing, and writes no lock
    """

    name: str
    kind: ToolCommand
    changes: tuple[str, ...]
    resolving: tuple[str, ...]
    choosing: tuple[str, ...]
    extras: tuple[str, ...]
    groups: tuple[str, ...]
    without: tuple[str, ...]
    only: tuple[str, ...]
    all_extras: bool
    all_groups: bool
    dev: bool
    folder: Path
    frozen: bool
    harmless: bool


class _Line(Struct, frozen=True):
    """A command line in its parts: options with their values, and other words."""

    pairs: tuple[tuple[str, Meaning, str | None], ...]
    rest: tuple[str, ...]

    def has(self, meaning: Meaning) -> bool:
        return any(own_meaning is meaning for _, own_meaning, _ in self.pairs)

    def values(self, *meanings: Meaning) -> tuple[str, ...]:
        """Several may be in one word: ``--with docs,test``."""
        texts = (value for _, meaning, value in self.pairs if meaning in meanings and value)
        return tuple(name for text in texts for name in re.split(r"[,\s]+", text) if name and name != _ALL)

    def words(self, *meanings: Meaning) -> tuple[str, ...]:
        chosen = ((option, value) for option, meaning, value in self.pairs if meaning in meanings)
        return tuple(word for pair in chosen for word in pair if word is not None)


def read_command(tool: ProjectTool, words: Sequence[str]) -> ProjectCommand | None:
    """Return the command for a project that these words are; None if they install nothing in one.

    :raises UnclearPlanError: they have something that is not understood
    """
    name, line = _split(tool, words)
    if name is None:
        return None
    kind = tool.commands[name]
    for variable in tool.leading:
        if os.environ.get(variable):
            raise UnclearPlanError(tool.program, f"{variable} selects another project: what it would do is unclear")
    if kind.names:
        # Read once, a pipe is empty when the tool itself reads it.
        files = [value for option, _, value in line.pairs if option in ("-r", "--requirements")]
        if any(file is not None and (file == "-" or file.startswith(("/dev/", "/proc/"))) for file in files):
            raise UnclearPlanError(tool.program, "requirements from a pipe are not checked")
    elif kind.starts and line.rest:
        _require_project_program(tool, line.rest[0])
    elif line.rest:
        raise UnclearPlanError(tool.program, f"what it would do with {line.rest[0]} is not understood")
    changing = line.words(Meaning.CHANGING, Meaning.TO_GROUP, Meaning.TO_EXTRA)
    frozen = line.has(Meaning.FROZEN) or bool(tool.freezing and os.environ.get(tool.freezing))
    installs_nothing = line.has(Meaning.NO_INSTALL) and kind.installs
    all_named = any(value == _ALL for _, meaning, value in line.pairs if meaning is Meaning.GROUP)
    return ProjectCommand(
        name=name,
        kind=kind,
        changes=(*changing, *(line.rest if kind.names else ())),
        resolving=line.words(Meaning.RESOLVING),
        choosing=line.words(Meaning.EXTRA, Meaning.GROUP, Meaning.WITHOUT, Meaning.NO_DEV),
        extras=line.values(Meaning.EXTRA, Meaning.TO_EXTRA),
        groups=line.values(Meaning.GROUP, Meaning.TO_GROUP),
        without=line.values(Meaning.WITHOUT),
        only=line.values(Meaning.ONLY),
        all_extras=line.has(Meaning.ALL_EXTRAS) or all_named,
        all_groups=line.has(Meaning.ALL_GROUPS) or all_named,
        dev=not line.has(Meaning.NO_DEV),
        folder=Path(*[value for _, meaning, value in line.pairs if meaning is Meaning.PLACE and value]),
        frozen=frozen,
        harmless=line.has(Meaning.HARMLESS) or installs_nothing or (frozen and (kind.names or not kind.installs)),
    )


def _split(tool: ProjectTool, words: Sequence[str]) -> tuple[str | None, _Line]:
    """Return the command, None for one that installs nothing in a project, and the rest of the line.

    :raises UnclearPlanError: there is a word that is not understood
    """
    name: str | None = None
    options: Mapping[str, ToolOption] = tool.options
    pairs: list[tuple[str, Meaning, str | None]] = []
    rest: list[str] = []
    remainder = iter(words)
    for word in remainder:
        if rest and name is not None and tool.commands[name].starts:
            rest.append(word)
        elif word == "--":
            rest += remainder
        elif word.startswith("-") and word != "-":
            pairs += take_options(tool.program, word, remainder, options)
        elif name is not None:
            rest.append(word)
        elif word in tool.commands:
            name, options = word, {**tool.options, **tool.commands[word].options}
        elif tool.others is None or word in tool.others:
            break
        else:
            raise UnclearPlanError(tool.program, f"what {tool.program} {word} would do is not understood")
    return name, _Line(tuple(pairs), tuple(rest))


def take_options(
    program: str, word: str, remainder: Iterator[str], options: Mapping[str, ToolOption]
) -> Iterator[tuple[str, Meaning, str | None]]:
    """Yield the options in a word, with their values: several that take none may be in one, as ``-qv``.

    :param remainder: the words after it
    :raises UnclearPlanError: one is not known
    """
    option, equals, value = word.partition("=")
    while not word.startswith("--") and len(word) > 2:
        known = options.get(word[:2])
        if known is None or known.has_value:
            option, equals, value = word[:2], "=", word[2:].removeprefix("=")
            break
        yield word[:2], known.meaning, None
        word = f"-{word[2:]}"
        option, equals, value = word, "", ""
    known = options.get(option)
    if known is None or (equals and not known.has_value):
        raise UnclearPlanError(program, f"what it would do with {word} is not understood")
    if known.has_value:
        yield option, known.meaning, value if equals else next(remainder, None)
    else:
        yield option, known.meaning, None


def _require_project_program(tool: ProjectTool, word: str) -> None:
    """Reject a script that has requirements of its own, which no lock of a project has.

    :raises UnclearPlanError: it has
    """
    path = Path(word)
    if word.startswith(("http://", "https://")) or word == "-":
        raise UnclearPlanError(tool.program, f"what {word} requires is not known")
    if observed_fs.is_file(path) and _OF_SCRIPT in observed_fs.read_file(path)[: 1 << 16]:
        raise UnclearPlanError(tool.program, f"{word} has requirements of its own, which are not checked")


def find_root(tool: ProjectTool, folder: Path) -> Path | None:
    """Return the folder of the project that a folder is in, or of its workspace: where the lock is; None without."""
    start = folder.absolute()
    above = [path for path in (start, *start.parents) if _describes(path, tool)]
    if tool.workspace is not None:
        locked = next((path for path in above if observed_fs.is_file(path / tool.lock)), None)
        shared = next((path for path in above if any(tool.workspace in text for text in _describes(path, tool))), None)
        return locked or shared or next(iter(above), None)
    return next(iter(above), None)


def _describes(folder: Path, tool: ProjectTool) -> list[bytes]:
    """Return the manifests of a project in a folder, by their texts."""
    there = [(folder / name, mark) for name, mark in tool.manifests.items() if observed_fs.is_file(folder / name)]
    return [text for path, mark in there if mark in (text := observed_fs.read_file(path))]
