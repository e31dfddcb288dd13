"""The names of other packages that are there, installed or named with the package: what ``TorchNames`` is of torch.

Whether a module has a name is what the text of an installed module says; one that is filled as it is used may have any.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from abiscan.inputs import observed_fs
from abiscan.python.language.module_names import ModuleNames
from abiscan.python.language.scan import Outline
from abiscan.python.package import standard
from abiscan.python.package.added_names import may_add_in
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.model import Answer
from abiscan.python.torch_api.torch_names import COMPANIONS, TorchNames

_KNOWN_BY_VERSION: Final = frozenset({"torch", *COMPANIONS})


class ImportingCode(Protocol):
    """What the sources of a package show of the packages that they import."""

    @property
    def surroundings(self) -> Surroundings:
        """What is installed alongside the package."""
        ...

    @property
    def sources(self) -> Sequence[str]:
        """The sources of the package."""
        ...

    def outline(self, path: str) -> Outline:
        """Return what a look at a source shows."""
        ...

    def find(self, name: str) -> object | None:
        """Return the module of the package that has a name; None if there is none."""
        ...

    def installed_lacks(self, module: str, name: str | None, *, by_text: bool) -> bool:
        """Whether a module of another package is certainly not there, or lacks a name."""
        ...

    def may_add(self, module: str, name: str) -> bool:
        """Whether a source may give a module of others a name."""
        ...

    def companion_uses(self, path: str, package: str) -> frozenset[str]:
        """Return the names below another package that a source mentions."""
        ...

    def uses_at_import(self, path: str, name: str) -> bool:
        """Whether a source uses a name outside of functions."""
        ...


class OtherNames:
    """The names of the packages that a package imports and that are there.

    A name is only taken for absent where the text of its module says so, or the reading of its package.
    """

    def __init__(self, library: ImportingCode) -> None:
        self._library = library
        self._by_file: dict[str, tuple[str, ...]] = {}
        self._names: dict[tuple[str, bool], TorchNames] = {}
        self._is_other: dict[str, bool] = {}
        self._missing_in: dict[str, bool] = {}

    def misses(self, file: str) -> bool:
        """Whether a source seems to use, as it is imported, a name that one of these packages lacks."""
        if file not in self._missing_in:
            self._missing_in[file] = any(
                self._library.uses_at_import(file, use) and self.of(top, by_text=True).first_lacking(use) is not None
                for top in self.tops_in(file)
                for use in sorted(self._library.companion_uses(file, top))
            )
        return self._missing_in[file]

    def tops_in(self, file: str) -> tuple[str, ...]:
        """Return the packages that a source imports, by their top-level modules."""
        if file not in self._by_file:
            outline = self._library.outline(file)
            tops = {line.module.partition(".")[0] for line in (*outline.imports, *outline.imports_in_functions)}
            self._by_file[file] = tuple(sorted(filter(self._is_there, tops)))
        return self._by_file[file]

    def _is_there(self, top: str) -> bool:
        """Whether a top-level module is that of another package that is there."""
        if top not in self._is_other:
            is_foreign = top.isidentifier() and top not in _KNOWN_BY_VERSION and self._library.find(top) is None
            is_foreign = is_foreign and standard.has_module(top, Answer.UNKNOWN) is False
            self._is_other[top] = is_foreign and self._library.surroundings.installed(top) is True
        return self._is_other[top]

    def of(self, top: str, *, by_text: bool = False) -> TorchNames:
        """Return the names of a package.

        :param by_text: whether only the text of its modules is asked, as for what an import finds out anyway
        """
        if (top, by_text) not in self._names:
            self._names[top, by_text] = TorchNames(
                source=_OtherModules(self._library, self, by_text=by_text),
                was_there=lambda _name: True,
                was_compiled=lambda _name: False,
                is_written=lambda _name: True,
                signatures_of=lambda _module, _name: frozenset(),
                top=top,
            )
        return self._names[top, by_text]

    @functools.cached_property
    def texts(self) -> Mapping[str, bytes]:
        """The sources of all these packages, which may add names to each other."""
        tops = sorted({top for file in self._library.sources for top in self.tops_in(file)})
        found = ((top, self._library.surroundings.source(top)) for top in tops)
        return {top: observed_fs.read_file(source) for top, source in found if source is not None}


class _OtherModules:
    """The modules of another package: a ``NameSource`` that asks for each name by itself."""

    def __init__(self, library: ImportingCode, others: OtherNames, *, by_text: bool) -> None:
        self._library, self._others, self._by_text = library, others, by_text
        self._lacks: dict[tuple[str, str], bool] = {}

    def module(self, name: str) -> ModuleNames | None:
        """Return the names of a module."""
        return ModuleNames(there=_AskedNames(self, name)) if self.is_module(name) else None

    def is_module(self, name: str) -> bool:
        """Whether there may be a module."""
        return not self._library.installed_lacks(name, None, by_text=self._by_text)

    def lacks(self, module: str, name: str) -> bool:
        """Whether a module certainly lacks a name, which no code that is read adds to it."""
        key = module, name
        if key not in self._lacks:
            self._lacks[key] = (
                not self._library.surroundings.mentions(module, name)
                and self._library.installed_lacks(module, name, by_text=self._by_text)
                and not self._may_be_added(module, name)
            )
        return self._lacks[key]

    def _may_be_added(self, module: str, name: str) -> bool:
        own = module.partition(".")[0]
        return self._library.may_add(module, name) or any(
            top != own and may_add_in(text, module, name) for top, text in self._others.texts.items()
        )

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
