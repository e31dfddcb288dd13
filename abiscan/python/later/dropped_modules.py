"""Modules that packages import and that the newest releases of the distribution which brought them no longer have.

Only imports count that run with the package itself, or with one right inside of it: see ``import_time``. Where the
metadata name the distribution, those of packages further inside count, too; and where torch imports the module, so do
those of modules that functions import to compile something.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from abiscan.python.package.import_time import (
    MOST_FOLDERS,
    evaluated,
    named_import,
    reached_sources,
    run_whatever_happens,
)
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer, PythonLine
from abiscan.python.package.sources import names_distribution, specifier_of
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.regex import regex

_IMPORTING: Final = regex(rb"\b(?:__import__|import_module)\(\s*['\"][\w.]*['\"]")


class DroppedModule(Struct, frozen=True, kw_only=True):
    """A module that went.

    :ivar distribution: what brought it
    :ivar until: the first release without it
    :ivar with_torch: the first and the last minor version of torch whose metadata require an older release
    :ivar through: a module of torch that imports it, and a name that this has exactly in the releases that do so, since
        it takes the name from there
    :ivar nameless: the major release of the distribution in which the module is there, and that name is not
    """

    module: str
    distribution: str
    until: str
    with_torch: tuple[str, str] | None = None
    through: tuple[str, str] | None = None
    nameless: str | None = None

    def requirement(self, *, with_name: bool) -> str:
        """Return the releases of the distribution that have the module.

        :param with_name: whether the name that torch takes from it is needed, too
        """
        until = self.until
        while until.endswith(".0"):
            until = until.removesuffix(".0")
        older = f"{self.distribution}<{until}"
        return f"{older},!={self.nameless}.*" if with_name else older


class DroppedImport(Struct, frozen=True, kw_only=True):
    """Where a package imports a module that went, itself or through torch.

    :ivar module: what it imports: that module, or the one of torch
    """

    dropped: DroppedModule
    module: str
    lines: tuple[PythonLine, ...]

    @property
    def name(self) -> str | None:
        """What a module of torch takes from the module that went, if it is through torch."""
        through = self.dropped.through
        return through[1] if through is not None and self.module != self.dropped.module else None


# https://setuptools.pypa.io/en/latest/history.html#v82-0-0; torch 2.11 and 2.12 require setuptools<82. Torch 1.8 to 2.1
# have "from pkg_resources import packaging" in cpp_extension: setuptools has that up to 69.5.1, and from 71.0.0 on.
_DROPPED: Final = (
    DroppedModule(
        module="pkg_resources",
        distribution="setuptools",
        until="82.0.0",
        with_torch=("2.11", "2.12"),
        through=("torch.utils.cpp_extension", "packaging"),
        nameless="70",
    ),
    # https://github.com/pytorch/data/releases/tag/v0.10.0
    DroppedModule(module="torchdata.datapipes", distribution="torchdata", until="0.10.0"),
    DroppedModule(module="torchdata.dataloader2", distribution="torchdata", until="0.10.0"),
)


def dropped_imports(code: PythonCode, torch: str | None, names: TorchNames | None) -> Iterator[DroppedImport]:
    """Yield the modules that may be gone where the package is installed, and where it imports them whatever happens.

    :param torch: the version of torch, if it is known
    :param names: the names of that torch
    """
    for dropped in _DROPPED:
        modules = [dropped.module]
        if dropped.through is not None and names is not None and names.has(*dropped.through) is True:
            modules.append(dropped.through[0])
        for module in modules:
            word = module.rpartition(".")[2].encode()
            files = list(filter(code.is_for_users, code.sources_with(word)))
            if not files or _is_put(code, dropped.module) or _is_kept(code, dropped, torch):
                continue
            lines = [line for file in files for line in _imports_of(code, file, module)]
            is_named = dropped.through is None and names_distribution(code.files, dropped.distribution)
            depth = MOST_FOLDERS + is_named
            reached = reached_sources(code, depth, lazily=module != dropped.module) if lines else set()
            if lines := [line for line in lines if line.file in reached]:
                yield DroppedImport(dropped=dropped, module=module, lines=tuple(lines))


def find_requirement(module: str, *, with_name: bool) -> str | None:
    """Return the releases of a distribution that have a top-level module which went; None if it is no such module.

    :param with_name: as for ``DroppedModule.requirement``
    """
    return next((item.requirement(with_name=with_name) for item in _DROPPED if item.module == module), None)


def _is_put(code: PythonCode, module: str) -> bool:
    """Whether the package has the module itself, or may put one of that name into ``sys.modules``."""
    texts = [f'"{module}"'.encode(), f"'{module}'".encode()]
    # An import by its name as a text puts nothing there.
    putting = [_IMPORTING.sub(b"", source) for source in map(code.source, code.sources_with(b"modules"))]
    return code.locate(module) is not None or any(text in source for source in putting for text in texts)


def _is_kept(code: PythonCode, dropped: DroppedModule, torch: str | None) -> bool:
    """Whether it is known what is installed, or something requires a release that has the module."""
    if code.surroundings.installed(dropped.module.partition(".")[0]) is not Answer.UNKNOWN:
        return True
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # few packages get here
    from packaging.version import Version

    if torch is not None and dropped.with_torch is not None:
        first, last = map(Version, dropped.with_torch)
        if first.release <= Version(torch).release[:2] <= last.release:
            return True
    try:
        with_extras = dropped.through is None
        allowed = SpecifierSet(specifier_of(code.files, dropped.distribution, with_extras=with_extras) or "")
    except InvalidSpecifier:
        return True
    newest = Version(dropped.until)
    return not (allowed.contains(newest) or allowed.contains(Version(f"{newest.major + 1000}")))


def _imports_of(code: PythonCode, file: str, module: str) -> Iterator[PythonLine]:
    """Yield the imports of a module that run as a source is imported, and whose failure nothing catches."""
    tree = code.tree(file)
    nodes = run_whatever_happens(tree, ModuleNotFoundError) if tree else ()
    yield from (PythonLine(file=file, line=node.lineno) for node in nodes if _takes(node, module))


def _takes(node: ast.stmt, module: str) -> bool:
    """Whether a statement imports a module, or what is in it; it may do so by the name as a text."""
    if isinstance(node, ast.ImportFrom):
        targets = [f"{node.module}.{alias.name}" for alias in node.names if not node.level]
    elif isinstance(node, ast.Import):
        targets = [alias.name for alias in node.names]
    else:
        targets = [name for part in evaluated(node) if (name := named_import(part)) is not None]
    return any(f"{target}.".startswith(f"{module}.") for target in targets)
