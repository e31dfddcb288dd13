"""The attributes of the classes of torch that extensions derive from or patch: read from their sources, never executed.

An attribute counts that the body of the class or of a base binds, that a method sets on ``self`` or ``cls``, or that
the module sets on the class. What is compiled has no source: such a base stands for all names in ``torch._C``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from abiscan.python.language.dynamic_names import absolute_name
from abiscan.python.language.module_names import ModuleNames, class_attributes, classes_of

SOURCE_CLASSES: Final = (
    *("torch.Tensor", "torch.nn.Module", "torch.nn.Parameter", "torch.autograd.Function", "torch.library.Library"),
    *("torch.jit.ScriptModule", "torch.cuda.Stream", "torch.cuda.Event"),
    *("torch.cuda.CUDAGraph", "torch.optim.Optimizer", "torch.utils.data.Dataset", "torch.utils.data.DataLoader"),
)
"""The classes that have a source."""
COMPILED_CLASSES: Final = {
    "torch.Generator": "torch._C.Generator",
    "torch.device": "torch.device",
    "torch.dtype": "torch.dtype",
    "torch.Size": "torch.Size",
    "torch.finfo": "torch.finfo",
    "torch.iinfo": "torch.iinfo",
    "torch.Stream": "torch.Stream",
    "torch.Event": "torch.Event",
}
"""Those that have none, each by the name that errors have for it: ``tp_name`` of the type."""
CLASSES: Final = frozenset({*SOURCE_CLASSES, *COMPILED_CLASSES})
DEFINED_AS: Final = {
    "torch.autograd.function.Function": "torch.autograd.Function",
    "torch.nn.modules.Module": "torch.nn.Module",
    "torch.nn.modules.module.Module": "torch.nn.Module",
    "torch.optim.optimizer.Optimizer": "torch.optim.Optimizer",
    "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
}
"""The full names of some of them where torch defines them, each with the one in ``CLASSES``."""
_ABC_ATTRIBUTES: Final = {"register", "_abc_impl", "_abc_caches_clear", "_abc_registry_clear", "_dump_registry"}
_BUILT_IN: Final = {
    "type": {"mro"},
    "object": set[str](),
    "tuple": {"count", "index"},
    "Generic": {"_is_protocol"},
    "ABC": _ABC_ATTRIBUTES,
    "ABCMeta": _ABC_ATTRIBUTES,
}
"""What classes of Python have, other than names such as ``__init__``."""
_MOST_STEPS: Final = 6
"""How many bases, and how many imports, are followed."""

_CORE: Final = "torch._C"

ReadModule = Callable[[str], tuple[ast.Module, bool] | None]
"""Gives the syntax tree of a module by its name, and whether it is a package; None if there is no source."""


def read_class(name: str, read: ReadModule) -> ModuleNames | None:
    """Return the attributes that a class may have, as the names of a module; None if it was not found."""
    if name in COMPILED_CLASSES:
        return ModuleNames(possible={*_BUILT_IN["type"], *_BUILT_IN["tuple"]}, stars={_CORE})
    names = _read_source(name, read, 0) if name in CLASSES else None
    if names is not None:
        names.possible = (names.possible | _BUILT_IN["type"]) - names.there
    return names


def _read_source(name: str, read: ReadModule, depth: int) -> ModuleNames | None:
    place = _find_definition(name, read, 0)
    if place is None or depth > _MOST_STEPS:
        return None
    module, cls = place
    source = read(module)
    attributes = None if source is None else class_attributes(source[0], cls)
    if source is None or attributes is None:
        return None
    tree, is_package = source
    names = ModuleNames(there=attributes.there, possible=attributes.possible, is_open=attributes.is_open)
    for base in attributes.bases:
        built_in = base.partition("[")[0].rpartition(".")[2]
        if built_in in _BUILT_IN:
            names.possible |= _BUILT_IN[built_in]
            continue
        full = _resolve_name(base, tree, module, is_package=is_package)
        if full is not None and full.startswith(f"{_CORE}."):
            names.stars.add(_CORE)
            continue
        inherited = None if full is None else _read_source(full, read, depth + 1)
        if inherited is None:
            names.is_open = True
        else:
            names.there |= inherited.there
            names.possible |= inherited.possible
            names.stars |= inherited.stars
            names.is_open |= inherited.is_open
    return names


def _resolve_name(name: str, tree: ast.Module, module: str, *, is_package: bool) -> str | None:
    """Return the full name of what a module calls by a name; None if it does not import or define it."""
    first, _, rest = name.partition(".")
    if first == "torch":
        return name
    if any(node.name == name for node in classes_of(tree)):
        return f"{module}.{name}"
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                if (alias.asname or alias.name) == first:
                    base = alias.name
                    if isinstance(node, ast.ImportFrom):
                        base = f"{_imported_from(node, module, is_package=is_package)}.{alias.name}"
                    return f"{base}.{rest}" if rest else base
    return None


def _imported_from(node: ast.ImportFrom, module: str, *, is_package: bool) -> str:
    package = module if is_package else module.rpartition(".")[0]
    return absolute_name(package, "." * node.level + (node.module or ""))


def _find_definition(name: str, read: ReadModule, depth: int) -> tuple[str, str] | None:
    """Return the module that defines a class, and its name there, by following imports."""
    module, _, cls = name.rpartition(".")
    source = read(module) if depth <= _MOST_STEPS else None
    if source is None:
        return None
    tree, is_package = source
    if any(node.name == cls for node in classes_of(tree)):
        return module, cls
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            base = _imported_from(node, module, is_package=is_package)
            for alias in node.names:
                if alias.name == "*" or (alias.asname or alias.name) == cls:
                    original = cls if alias.name == "*" else alias.name
                    place = _find_definition(f"{base}.{original}", read, depth + 1)
                    if place is not None:
                        return place
    return None


def missing_attribute(cls: str, name: str) -> str:
    """Return what Python says of an attribute that a class of torch does not have."""
    shown = COMPILED_CLASSES.get(cls, cls.rpartition(".")[2])
    return f"type object '{shown}' has no attribute '{name}'"
