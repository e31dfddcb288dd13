"""The names of other packages that are there, installed or named with the package: what ``TorchNames`` is of torch.

Whether a module has a name is what an import of that name from it comes to, by the text of an installed module, or by
what its code does as it runs, a function ``__getattr__`` of it included.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from abiscan.inputs import observed_fs
from abiscan.python.language.module_names import ModuleNames
from abiscan.python.package import standard
from abiscan.python.package.library import PythonCode, may_add_in
from abiscan.python.package.model import Answer
from abiscan.python.torch_api.torch_names import COMPANIONS, TorchNames
from abiscan.regex import regex

_IMPORTS: Final = regex(rb"(?m)^[ \t]*(?:from[ \t]+([A-Za-z_]\w*)|import[ \t]+([A-Za-z_][\w., \t]*))")
_KNOWN_BY_VERSION: Final = frozenset({"torch", *COMPANIONS})


def others_in(library: PythonCode, file: str) -> Iterator[str]:
    """Yield the packages that a source imports and that are there, by their top-level modules."""
    imported = _IMPORTS.findall(library.source(file))
    tops = {
        part.split(b".")[0].split()[0]
        for one, several in imported
        for part in (one, *several.split(b","))
        if part.strip()
    }
    for top in sorted(map(bytes.decode, tops)):
        is_foreign = top.isidentifier() and top not in _KNOWN_BY_VERSION and library.find(top) is None
        is_foreign = is_foreign and standard.has_module(top, Answer.UNKNOWN) is False
        if is_foreign and library.surroundings.installed(top) is True:
            yield top


def names_of_other(library: PythonCode, top: str, fails: Callable[[str, str | None], bool] | None = None) -> TorchNames:
    """Return the names of another package.

    :param fails: tells of a module, or of a name of it, whether it certainly cannot be imported
    """
    return TorchNames(
        source=_OtherModules(library, fails or _fails_in(library)),
        was_there=lambda _name: True,
        was_compiled=lambda _name: False,
        is_written=lambda _name: True,
        signatures_of=lambda _module, _name: frozenset(),
        top=top,
    )


def _fails_in(library: PythonCode) -> Callable[[str, str | None], bool]:
    around = library.surroundings

    def fails(module: str, name: str | None) -> bool:
        return around.import_error(module, name) is not None

    return fails


class _OtherModules:
    """The modules of another package: a ``NameSource`` that asks for each name by itself."""

    def __init__(self, library: PythonCode, fails: Callable[[str, str | None], bool]) -> None:
        self._library, self._fails = library, fails

    def module(self, name: str) -> ModuleNames | None:
        """Return the names of a module."""
        return ModuleNames(there=_AskedNames(self, name)) if self.is_module(name) else None

    def is_module(self, name: str) -> bool:
        """Whether there may be a module."""
        is_there = self._library.installed_has(name, None)
        return is_there is True or (is_there is None and not self._fails(name, None))

    def lacks(self, module: str, name: str) -> bool:
        """Whether a module certainly lacks a name, which no code that is read adds to it."""
        is_there = self._library.installed_has(module, name)
        if is_there is None and not self._library.surroundings.mentions(module, name):
            is_there = not self._fails(module, name)
        if is_there is not False:
            return False
        return not (self._library.may_add(module, name) or any(self._adding(module, name)))

    def _adding(self, module: str, name: str) -> Iterator[bool]:
        own = module.partition(".")[0]
        for top, text in self._texts.items():
            yield top != own and may_add_in(text, module, name)

    @functools.cached_property
    def _texts(self) -> Mapping[str, bytes]:
        """The sources of the other packages that the code imports."""
        tops = sorted({top for file in self._library.sources for top in others_in(self._library, file)})
        found = ((top, self._library.surroundings.source(top)) for top in tops)
        return {top: observed_fs.read_file(source) for top, source in found if source is not None}

    def is_package(self, name: str) -> bool:
        """Whether a module has others in it: not asked of other packages."""
        return self.is_module(name)

    def is_unloaded(self, _name: str) -> bool:
        """Whether nothing imports a module: not known."""
        return False

    def in_unloaded(self, _uses: frozenset[str]) -> Mapping[str, str]:
        """Return the names in such modules: none are known."""
        return {}

    def mentions(self, _owner: str, name: str) -> bool:
        """Whether a name is one that Python gives."""
        return name.startswith("__")

    def doubtful(self, uses: frozenset[str]) -> Sequence[str]:
        """Return all names."""
        return sorted(uses)

    def is_patched(self, _name: str) -> bool:
        """Whether others set an attribute of that name: ``lacks`` has looked."""
        return False

    is_compiled = is_removed = is_patched


class _AskedNames(set[str]):
    """The names of a module, of which each is asked for by itself."""

    def __init__(self, modules: _OtherModules, module: str) -> None:
        super().__init__()
        self._modules, self._module = modules, module

    def __contains__(self, name: object) -> bool:
        return not self._modules.lacks(self._module, str(name))
