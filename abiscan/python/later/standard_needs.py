"""What the standard library no longer has in newer Pythons, where a package asks for it whatever happens.

What importing the package itself comes to is found out as that is followed, where it is known which Python runs it: see
``PythonMachine.has_lost``. This is for the others that may, and for the packages right inside of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from packaging.version import Version

from abiscan.inputs.version import MinorVersion
from abiscan.python.language.sole_bindings import sole_bindings
from abiscan.python.package import standard
from abiscan.python.package.import_time import evaluated, reached_sources, run_whatever_happens
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer, PythonLine, PythonNeed, World

_SETUPTOOLS: Final = Version("2.4")
"""The first torch whose metadata require setuptools on Python 3.12, which brings ``distutils``."""
_LOST_MODULES: Final = {module for module in standard.REMOVED if not module.startswith("_")}


class _Loss(NamedTuple):
    """What a line asks for, and what is raised without it."""

    below: MinorVersion
    file: str
    line: int
    error: str


def standard_needs(code: PythonCode, world: World) -> Iterator[PythonNeed]:
    """Yield what fails first on a newer Python that may run the package, if anything does."""
    newest = world.newest_python
    if newest is None:
        return
    files = filter(code.is_for_users, code.with_lost)
    losses = [loss for file in files for loss in _losses(code, file, world.torch_version) if loss.below <= newest]
    reached = reached_sources(code) if losses else set()
    first = min((loss for loss in losses if loss.file in reached), key=lambda loss: loss.below, default=None)
    if first is None:
        return
    line, since = PythonLine(file=first.file, line=first.line), ".".join(map(str, first.below))
    is_refused = world.oldest_python is not None and world.oldest_python >= first.below
    why = f"{line} raises from Python {since} on: {first.error}"
    yield PythonNeed(below=first.below, why=why, is_refused=is_refused)


def _losses(code: PythonCode, file: str, torch: str | Answer) -> Iterator[_Loss]:
    tree = code.tree(file)
    if tree is None:
        return
    for node in run_whatever_happens(tree, ModuleNotFoundError):
        for module in _modules_of(node):
            top = module.partition(".")[0]
            if top in _LOST_MODULES and not _is_brought(code, top, torch):
                hint = " (setuptools brings it back)" if top == "distutils" else ""
                text = f"ModuleNotFoundError: No module named '{top}'{hint}"
                yield _Loss(standard.REMOVED[top], file, node.lineno, text)
    for node in run_whatever_happens(tree, ImportError):
        if isinstance(node, ast.ImportFrom) and not node.level:
            for name in (alias.name for alias in node.names):
                if below := standard.REMOVED_NAMES.get(f"{node.module}.{name}"):
                    text = f"ImportError: cannot import name '{name}' from '{node.module}'"
                    yield _Loss(below, file, node.lineno, text)
    yield from _attributes(code, file, tree)


def _attributes(code: PythonCode, file: str, tree: ast.Module) -> Iterator[_Loss]:
    """Yield the lost names that are attributes of modules of the standard library."""
    modules = dict(_names_of_modules(sole_bindings(tree)))
    if not modules:
        return
    annotations = not any(
        isinstance(node, ast.ImportFrom) and node.module == "__future__" and node.names[0].name == "annotations"
        for node in tree.body
    )
    for node in run_whatever_happens(tree, AttributeError):
        for part in evaluated(node, annotations=annotations):
            if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Load):
                owner, _, rest = ast.unparse(part.value).partition(".")
                module = ".".join(filter(None, (modules.get(owner, ""), rest)))
                below = standard.REMOVED_NAMES.get(f"{module}.{part.attr}") if owner in modules else None
                if below is not None and not code.may_set(part.attr):
                    text = f"AttributeError: module '{module}' has no attribute '{part.attr}'"
                    yield _Loss(below, file, part.lineno, text)


def _names_of_modules(bound: Mapping[str, ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield the names that stand for modules of the standard library, and which."""
    for name, node in bound.items():
        for alias in node.names if isinstance(node, ast.Import) else ():
            if (alias.asname or alias.name.partition(".")[0]) == name:
                yield name, alias.name if alias.asname else name


def _modules_of(node: ast.stmt) -> list[str]:
    """Return the modules that a statement imports, all of them outside of its own package."""
    if isinstance(node, ast.ImportFrom):
        return [node.module] if node.module and not node.level else []
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _is_brought(code: PythonCode, module: str, torch: str | Answer) -> bool:
    """Whether something that is required has a copy of a module, or the package has one."""
    installed = code.surroundings.installed("setuptools" if module == "distutils" else module)
    if installed is True or code.locate(module) is not None or any(module in item for item in code.required):
        return True
    if installed is False or module != "distutils":
        return False
    return "setuptools" in code.required or isinstance(torch, Answer) or Version(torch) >= _SETUPTOOLS
