"""The Python names of a torch on disk.

They are those of an embedded release if its Python files are the release's, byte for byte; otherwise they are read from
the files, as they are asked for.
"""

from __future__ import annotations

import ast
import functools
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from abiscan.binary.elf import ElfFile
from abiscan.cache.computed import KeptKind, get_or_compute
from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.python.language.grammar import FAILURES, parse
from abiscan.python.language.module_names import ModuleNames, names_of
from abiscan.python.package.installed import is_in, list_stems
from abiscan.python.package.model import Answer
from abiscan.python.torch_api.compiled_names import ADDED_SINCE
from abiscan.python.torch_api.torch_classes import CLASSES, read_class
from abiscan.python.torch_api.torch_names import CLASS, FUNCTIONS, TorchNames, is_core
from abiscan.regex import regex
from abiscan.torches.embedded_names import (
    companions_of,
    digest_of,
    is_written,
    release_with,
    signatures_of,
    source_of,
    was_compiled,
    was_there,
)

_STUBS: Final = "_C"
_LIBRARY: Final = "lib/libtorch_python.so"
_MOST_PARSED: Final = 50
"""The sources that are looked into for one name."""
_FUNCTION: Final = regex(rb"^def (\w+)\(", re.MULTILINE)


KIND: Final = KeptKind[str](suffix=".sources", version=1, encode=str.encode, decode=bytes.decode)


def names(folder: Path, cache: Path, *, is_embedded: bool = False) -> TorchNames:
    """Return the names of the torch in a folder (``…/torch``).

    :param cache: the folder in which the digest of its files is kept between runs
    :param is_embedded: whether its libraries are those of an embedded build
    """
    own, release = _Folder(folder), _release_of(folder, cache)
    names_of = own if release is None else _ReleaseFiles(own, release, is_embedded=is_embedded)
    companions = functools.partial(companions_of, release)
    return TorchNames(names_of, was_there, was_compiled, is_written, signatures_of, companions=companions)


def _release_of(folder: Path, cache: Path) -> str | None:
    """Return the embedded release that has exactly the Python files of a torch on disk; None if none has."""
    versions = observed_fs.observe_sources(folder)
    return release_with(get_or_compute(cache, KIND, f"{folder} {versions}", lambda: _digest(folder)))


def _digest(folder: Path) -> str:
    """Return the digest of the Python files of a torch; an empty one if a file cannot be read."""
    files = []
    try:
        for entry in observed_fs.list_sources(folder):
            content = Path(entry.path).read_bytes()
            path = entry.path[len(str(folder)) :].replace("\\", "/")
            files.append((f"torch{path}", len(content), zlib.crc32(content)))
    except OSError:
        return ""
    return digest_of(files)


class _Folder:
    """The files of a torch."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._modules: dict[str, ModuleNames | None] = {}
        self._sources: dict[str, bytes | None] = {}
        self._patched: dict[str, bool] = {}
        self._stems: dict[str, frozenset[str]] = {}

    def module(self, name: str) -> ModuleNames | None:
        """Return what the source of a module or a class says of its names."""
        if name not in self._modules:
            self._modules[name] = self._read_module(name)
        return self._modules[name]

    def is_module(self, name: str) -> bool:
        """Whether it is a file, or a folder."""
        owner, _, last = name.rpartition(".")
        if not owner:
            return name == "torch"
        # Most names that are asked for are not modules: what is in a folder is read once for all of them.
        if owner not in self._stems:
            base = self._module_path(owner)
            self._stems[owner] = frozenset() if base is None else list_stems(base)
        if last not in self._stems[owner]:
            return False
        base = self._module_path(name)
        return base is not None and is_in(base.parent, base.name, Answer.UNKNOWN)

    def is_package(self, name: str) -> bool:
        """Whether it is a folder."""
        base = self._module_path(name)
        return base is not None and observed_fs.is_dir(base)

    def is_unloaded(self, name: str) -> bool:  # noqa: ARG002 - of a release that is embedded, the table tells
        """Say nothing: all sources would have to be parsed."""
        return False

    def in_unloaded(self, uses: frozenset[str]) -> Mapping[str, str]:  # noqa: ARG002 - as above
        """Return nothing, for that reason."""
        return {}

    def mentions(self, owner: str, name: str) -> bool:
        """Whether the name is a word of the source, or declared for what is compiled."""
        if owner in CLASSES:
            return False
        base = self._module_path(owner)
        if base is None or is_core(owner):
            return self.is_compiled(name)
        if owner not in self._sources:
            path = next((path for path in _source_paths(base) if observed_fs.is_file(path)), None)
            self._sources[owner] = None if path is None else observed_fs.read_file(path)
        source = self._sources[owner]
        if source is not None and _has_word(source, name):
            return True
        return owner == "torch" and self.is_compiled(name)

    def doubtful(self, uses: frozenset[str]) -> Sequence[str]:
        """Return all names: no look is quicker than the one at each of them."""
        return tuple(uses)

    def is_patched(self, name: str) -> bool:
        """Whether code of torch may set an attribute of that name on what it imports.

        Texts and assignments with that name are many; few of those set something on another module.
        """
        if name not in self._patched:
            word = re.escape(name.encode())
            # An assignment to an attribute, or a text that ``setattr`` may be given.
            sets = re.compile(rb"\.%b\s*(?::[^=\n]+)?=[^=]|['\"]%b['\"]" % (word, word))
            texts = [text for text in self._texts if name.encode() in text and sets.search(text) is not None]
            is_common = len(texts) > _MOST_PARSED
            self._patched[name] = is_common or any(
                name in names_of(text, "", is_package=False).patched for text in texts
            )
        return self._patched[name]

    @functools.cached_property
    def _texts(self) -> tuple[bytes, ...]:
        """All of torch's Python code."""
        return tuple(_read_all(self._folder, ".py"))

    @functools.cached_property
    def _stubs(self) -> bytes:
        """What is declared for what is compiled."""
        return b"\n".join(_read_all(self._folder / _STUBS, ".pyi"))

    def is_compiled(self, name: str) -> bool:
        """Whether a text in the library ends in it, or a stub has it; also if there is no library to be read."""
        return _has_word(self._stubs, name) or self.is_in_library(name)

    def is_removed(self, name: str) -> bool:  # noqa: ARG002 - which releases came before is not known
        """Return False."""
        return False

    def is_in_library(self, name: str) -> bool:
        """Whether a text in the library ends in it, or there is no library to be read."""
        return self._library is None or next(self._library.find_in_data(name.encode() + b"\0"), None) is not None

    @functools.cached_property
    def _library(self) -> ElfFile | None:
        """The library that makes what is compiled; None if it cannot be read."""
        observed_fs.stat_file(self._folder / _LIBRARY)
        try:
            return ElfFile.open(self._folder / _LIBRARY)
        except InputError:
            return None

    def _module_path(self, name: str) -> Path | None:
        """Return the path of a module, without its suffix."""
        top, *below = name.split(".")
        return self._folder.joinpath(*below) if top == "torch" and all(map(str.isidentifier, below)) else None

    def _tree(self, name: str) -> tuple[ast.Module, bool] | None:
        """Return the syntax tree of a module, and whether it is a package; None if it has none."""
        base = self._module_path(name)
        path = next((path for path in _source_paths(base) if observed_fs.is_file(path)), None) if base else None
        try:
            return None if path is None else (parse(observed_fs.read_file(path)), path.name == "__init__.py")
        except FAILURES:
            return None

    def _read_module(self, name: str) -> ModuleNames | None:
        if name.startswith(CLASS):
            return read_class(name.removeprefix(CLASS), self._tree)
        base = self._module_path(name)
        if base is None:
            return None
        if is_core(name):
            return self._read_stub(name)
        for path in _source_paths(base):
            if observed_fs.is_file(path):
                names = names_of(observed_fs.read_file(path), name, is_package=path.name == "__init__.py")
                # Which element types and exceptions it has is not looked up.
                return names if name != "torch" else replace(names, possible=names.possible | ADDED_SINCE.keys())
        return ModuleNames(is_open=True, makes_modules=True) if self.is_module(name) else None

    def _read_stub(self, name: str) -> ModuleNames:
        """Return the operators, which a stub lists as every build has them; other stubs list what is elsewhere, too."""
        path = self._folder / _STUBS / "_VariableFunctions.pyi"
        if name != FUNCTIONS or not observed_fs.is_file(path):
            return ModuleNames()
        return ModuleNames(there={match.decode() for match in _FUNCTION.findall(observed_fs.read_file(path))})


class _ReleaseFiles:
    """The files of a torch that are those of an embedded release.

    What its sources say is in the embedded table, which is quicker to look up. Its folders may have other files, too,
    and its library is that of a build.
    """

    def __init__(self, own: _Folder, release: str, *, is_embedded: bool) -> None:
        self._own, self._release, self._is_embedded = own, source_of(release), is_embedded

    def module(self, name: str) -> ModuleNames | None:
        """Return what the source of a module or a class says of its names."""
        return self._release.module(name) or self._own.module(name)

    def is_module(self, name: str) -> bool:
        """Whether it is a file, or a folder."""
        return self._release.is_module(name) or self._own.is_module(name)

    def is_package(self, name: str) -> bool:
        """Whether it is a folder."""
        return self._release.is_package(name) or self._own.is_package(name)

    def is_unloaded(self, name: str) -> bool:
        """Whether nothing that ``import torch`` imports may import it."""
        return self._release.is_unloaded(name)

    def in_unloaded(self, uses: frozenset[str]) -> Mapping[str, str]:
        """Return the names that are such a module or in one."""
        return self._release.in_unloaded(uses)

    def is_compiled(self, name: str) -> bool:
        """Whether a text in the library of this build ends in it, or a build of the release has it."""
        if self._release.is_compiled(name):
            return True
        # To search a library takes milliseconds, and hundreds of names are asked for.
        return not self._is_embedded and self._own.is_in_library(name)

    def is_removed(self, name: str) -> bool:
        """Whether the release has lost a compiled function of that name."""
        return self._release.is_removed(name)

    def mentions(self, owner: str, name: str) -> bool:
        """Whether a module has a name itself."""
        return self._release.mentions(owner, name)

    def doubtful(self, uses: frozenset[str]) -> Sequence[str]:
        """Return the dotted names of which a quick look does not tell that they may be there."""
        return self._release.doubtful(uses)

    def is_patched(self, name: str) -> bool:
        """Whether code of torch sets an attribute of that name."""
        return self._release.is_patched(name)


def _source_paths(base: Path) -> tuple[Path, Path]:
    """Return the files that a module may be."""
    return base / "__init__.py", base.with_name(f"{base.name}.py")


def _read_all(folder: Path, suffix: str) -> Iterator[bytes]:
    """Yield the contents of the files below a folder whose names have a suffix."""
    for place, _, files in observed_fs.walk_folder(folder):
        yield from (observed_fs.read_file(Path(place, file)) for file in files if file.endswith(suffix))


def _has_word(text: bytes, name: str) -> bool:
    """Whether a name is a word of a text."""
    # Names are looked for by the hundred, each once: a pattern would have to be compiled for each.
    word = name.encode()
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        if not (_is_of_word(text[start - 1 : start]) or _is_of_word(text[end : end + 1])):
            return True
        start = text.find(word, end)
    return False


def _is_of_word(character: bytes) -> bool:
    return character.isalnum() or character == b"_"
