"""What code finds in the file system: the package's own files are known, all others are not."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from abiscan.cpu.processors import cpuinfo
from abiscan.inputs import observed_fs
from abiscan.python.interpreter.builtin_methods import HostMethod
from abiscan.python.interpreter.cost import LONGEST
from abiscan.python.interpreter.iteration import Lazy
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Native
from abiscan.python.interpreter.operations import attempt_operation, describe_value
from abiscan.python.interpreter.values import NotKnown, Why, as_scalar, is_concrete, thrown
from abiscan.python.package.systems import LINUX

CPUINFO: Final = "/proc/cpuinfo"
_READ_AT_ONCE: Final = 1_000
"""The bytes of a file that are read in the time of a step."""
_ENCODINGS: Final = frozenset({"utf-8", "utf8", "UTF-8", "UTF8", "utf_8", "utf-8-sig", "ascii", "latin-1", "latin1"})
_ERRORS: Final = frozenset({None, "strict", "ignore", "replace"})
_CHECKOUT_FILES = frozenset({".git", "_skbuild", "CMakeLists.txt", "csrc", "pyproject.toml", "setup.cfg", "setup.py"})
"""What is next to a package in its developers' folder, and not where packages are installed."""


def as_text(path: object) -> str | None:
    """Return a path as text, None if it is not known."""
    path = as_scalar(path)
    return str(path) if isinstance(path, (str, PurePath)) else None


def path_exists(machine: PythonMachine, path: object, kind: str = "any") -> object:
    """Tell what ``os.path.exists``, ``isfile`` or ``isdir`` says of a path."""
    # Four kinds of places are known: the package itself, the folder of Python and the installed torch where they are at
    # hand, and the processor as Linux describes it. Everything else is up to the machine.
    text = as_text(path)
    inside = None if text is None else machine.files.inside(text)
    machine.outward += inside is None or "/" not in inside
    on_disk = {"any": observed_fs.path_exists, "file": observed_fs.is_file, "folder": observed_fs.is_dir}[kind]
    if text is not None and inside is None and machine.files.system.is_empty(text):
        resolved = machine.files.system.resolved(text)
        if made := machine.made_places.get(resolved):
            return kind in {"any", made}
        if any(not made and PurePath(resolved).is_relative_to(place) for place, made in machine.made_places.items()):
            return NotKnown(f"{describe_value(path)} exists", Why.ENVIRONMENT)
        place = place_on_disk(machine, text)
        return place is not None and on_disk(place)
    if text is not None and inside is None and is_of_torch(machine, text):
        return on_disk(Path(text))
    if inside is None or text is None:
        if text_of_processor(machine, path) is not None:
            return kind != "folder"
        return NotKnown(f"{describe_value(path)} exists", Why.ENVIRONMENT)
    is_file, is_folder = inside in machine.files.members, inside in machine.files.folders
    answers = {"any": is_file or is_folder, "file": is_file, "folder": is_folder}[kind]
    # Next to the package (a path of one part), other distributions may have put something. Inside of it, its own files
    # are all there is.
    if answers or "/" in inside or is_absent_next_to(machine, inside):
        return answers
    return NotKnown(f"{describe_value(path)} exists", Why.ENVIRONMENT)


def note_made(machine: PythonMachine, path: object, kind: str) -> None:
    """Note that the code makes a ``"file"`` or a ``"folder"`` outside of the package."""
    machine.outward += 1
    text = as_text(path)
    if text is not None and machine.files.inside(text) is None:
        resolved = machine.files.system.resolved(text)
        machine.made_places[resolved] = kind
        machine.made_texts.pop(resolved, None)


def note_handed_over(machine: PythonMachine, path: str | PurePath) -> None:
    """Note that code which is not read gets a path: it may make something there, or below."""
    machine.outward += 1
    if machine.files.system.is_empty(str(path)):
        machine.made_places.setdefault(machine.files.system.resolved(str(path)), "")


def is_absent_next_to(machine: PythonMachine, name: str) -> bool:
    """Whether the folder that the package is installed in, with others, certainly has nothing of that name."""
    folders = machine.library.surroundings.folders
    return name in _CHECKOUT_FILES or bool(
        folders and name and not any(observed_fs.path_exists(folder / name) for folder in folders)
    )


def place_on_disk(machine: PythonMachine, path: str) -> Path | None:
    """Return where a path below the folder of Python really is; None if it is not known what is installed there."""
    surroundings, system = machine.library.surroundings, machine.files.system
    if not surroundings.folders or surroundings.torch_folder is None or not path.startswith(f"{system.prefix}/"):
        return None
    return surroundings.torch_folder.parent / posixpath.relpath(path, system.root)


def is_of_torch(machine: PythonMachine, path: str) -> bool:
    """Whether a path is below the folder of the installed torch, whose files are at hand."""
    folder = machine.library.surroundings.torch_folder
    return folder is not None and Path(posixpath.normpath(path)).is_relative_to(folder)


def list_folder(machine: PythonMachine, path: object) -> list[str] | NotKnown:
    """Return the names in a folder."""
    text = as_text(path)
    inside = None if text is None else machine.files.inside(text)
    if inside is None:
        return NotKnown(f"the files in {describe_value(path)}", Why.ENVIRONMENT)
    if inside not in machine.files.folders:
        raise thrown(FileNotFoundError, 2, "No such file or directory")
    if inside == "":
        return NotKnown(f"the files in {describe_value(path)}", Why.ENVIRONMENT)
    return sorted(machine.files.folders[inside])


def glob_paths(machine: PythonMachine, folder: str, pattern: str) -> list[str] | NotKnown:
    """Return the paths below a folder that a glob pattern finds."""
    inside = machine.files.inside(folder)
    if inside is None:
        return NotKnown(f"the files in {folder}", Why.ENVIRONMENT)
    # Python gives the paths as the folder was written, so they begin with the text of it, not with what it resolves to.
    paths = machine.files.system.paths
    return [paths.join(folder, *item.split("/")) for item in machine.files.under(inside, pattern)]


# ---- pathlib

_PURE = frozenset({"parent", "parents", "name", "stem", "suffix", "suffixes", "parts", "anchor", "root", "drive"})
_METHODS = frozenset({
    "joinpath", "with_name", "with_suffix", "with_stem", "relative_to", "is_absolute", "as_posix", "match", "__str__",
    "is_relative_to", "__fspath__", "as_uri",
})  # fmt: skip
_MAKING: Final = {"mkdir": "folder", "touch": "file", "write_bytes": "file", "write_text": "file"}
_SAME = frozenset({"resolve", "absolute"})


def path_attribute(path: PurePath, name: str) -> object:
    """Return an attribute of a ``pathlib.Path``."""
    if name in _PURE:
        value = getattr(path, name)
        return list(value) if name == "parents" else value
    if name == "__fspath__":
        return Native("__fspath__", lambda _machine, _args, _kwargs: str(path))
    if name in _METHODS:
        return HostMethod(path, name)
    if name in _SAME:
        return Native(name, lambda machine, _args, _kwargs: type(path)(machine.files.system.resolved(str(path))))
    if name == "expanduser":
        return Native(name, lambda machine, _args, _kwargs: _at_home(machine, path))
    if name in {"exists", "is_file", "is_dir"}:
        kind = {"exists": "any", "is_file": "file", "is_dir": "folder"}[name]
        return Native(name, lambda machine, _args, _kwargs: path_exists(machine, path, kind))
    if name in {"glob", "rglob"}:
        return Native(name, lambda machine, args, _kwargs: _glob_below(machine, path, name, args))
    if name == "iterdir":
        return Native(name, lambda machine, _args, _kwargs: _children_of(machine, path))
    if name in _MAKING:
        return Native(name, lambda machine, _args, _kwargs: note_made(machine, path, _MAKING[name]))
    if name == "read_text":
        return Native(name, lambda machine, args, kwargs: read_text(machine, path, reading_as(args, kwargs, 0)))
    return NotKnown(f"{describe_value(path)}.{name}", Why.ENVIRONMENT)


def _at_home(machine: PythonMachine, path: PurePath) -> object:
    place = machine.files.system.expanded(str(path))
    return NotKnown(f"{describe_value(path)}.expanduser()", Why.ENVIRONMENT) if place is None else type(path)(place)


def text_of_processor(machine: PythonMachine, path: object) -> str | None:
    """Return the text of ``/proc/cpuinfo``; None for other files, and if the processor is not known."""
    if as_text(path) != CPUINFO or machine.files.system is not LINUX:
        return None
    answer = machine.world.tells("its processor", lambda world: cpuinfo(world.cpu) if world.cpu else None)
    return answer if isinstance(answer, str) else None


class TextOptions(NamedTuple):
    """How a file is read as text: what ``open`` is given for it."""

    encoding: object = None
    errors: object = None
    newline: object = None

    def decode(self, content: bytes) -> object:
        """Return the text; it is not known for encodings that are rarely used.

        :raises Thrown: it is not in this encoding
        """
        encoding = "utf-8" if self.encoding in {None, "locale"} else self.encoding
        if encoding not in _ENCODINGS or self.errors not in _ERRORS or self.newline not in {None, "", "\n"}:
            return NotKnown("a text in another encoding", Why.ENVIRONMENT)
        # By default, each end of a line is one character.
        if self.newline is None and b"\r" in content:
            content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return attempt_operation("read_text()", content.decode, encoding, self.errors or "strict")


_BY_DEFAULT: Final = TextOptions()


def reading_as(args: Sequence[object], kwargs: Mapping[str, object], first: int) -> TextOptions:
    """Return how a call wants a file to be read.

    :param first: the place of the encoding among the arguments, which the others follow
    """
    given = dict(zip(TextOptions._fields, args[first:], strict=False))
    return TextOptions(**{name: kwargs.get(name, given.get(name)) for name in TextOptions._fields})


def read_text(machine: PythonMachine, path: object, how: TextOptions = _BY_DEFAULT) -> object:
    """Return the text of a file of the package, or of what Linux says of the processor."""
    of_processor = text_of_processor(machine, path)
    if of_processor is not None:
        return of_processor
    text = as_text(path)
    inside = None if text is None else machine.files.inside(text)
    machine.outward += inside is None
    if text is not None and inside is None and (made := machine.made_texts.get(machine.files.system.resolved(text))):
        return made
    if inside is None or inside not in machine.files.members:
        return NotKnown(f"the text of {describe_value(path)}", Why.ENVIRONMENT)
    content = machine.files.read(inside)
    machine.count_steps(len(content) // _READ_AT_ONCE)
    if len(content) > LONGEST:
        return NotKnown(f"the text of {describe_value(path)}", Why.ENVIRONMENT)
    return how.decode(content)


def _glob_below(machine: PythonMachine, path: PurePath, name: str, args: list[object]) -> object:
    if not args or not isinstance(args[0], str):
        return NotKnown(f"{describe_value(path)}.{name}()")
    pattern = f"**/{args[0]}" if name == "rglob" else args[0]
    match = glob_paths(machine, str(path), pattern)
    return match if isinstance(match, NotKnown) else Lazy(f"{name}()", iter([type(path)(item) for item in match]))


def _children_of(machine: PythonMachine, path: PurePath) -> object:
    result = list_folder(machine, path)
    return result if isinstance(result, NotKnown) else Lazy("iterdir()", iter([path / item for item in result]))


def join_paths(machine: PythonMachine, parts: list[object]) -> object:
    """Join parts as ``os.path.join`` does."""
    if not parts or not is_concrete(parts):
        unknown = next((part for part in parts if isinstance(part, NotKnown)), None)
        return NotKnown(
            f"os.path.join({', '.join(map(describe_value, parts))})", unknown.why if unknown else Why.NOT_FOLLOWED
        )
    return attempt_operation("os.path.join()", machine.files.system.paths.join, *[str(part) for part in parts])
