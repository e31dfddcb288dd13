"""Optimizers whose constructor leaves out that of ``torch.optim.Optimizer``, which this torch needs to have run.

Since 2.0.0, ``zero_grad`` wraps the ``step`` of the class of an object that was not initialised, and the wrapper asks
the object for hooks that only ``Optimizer.__init__`` gives it (torch/optim/optimizer.py, ``_patch_step_function`` and
``profile_hook_step``). Before, such an object worked, as wrappers of other optimizers are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from abiscan.python.language.bound_names import full_name
from abiscan.python.language.nodes import walk
from abiscan.python.later.mentions import LaterUse, make_origins
from abiscan.python.package.library import PythonCode
from abiscan.python.torch_api.changed_defaults import ChangedDefault
from abiscan.python.torch_api.torch_classes import DEFINED_AS
from abiscan.python.torch_api.torch_names import TorchNames

_BASE: Final = "torch.optim.Optimizer"
_HOOKS: Final = "_optimizer_step_pre_hooks"
# torch/optim/optimizer.py of 2.0.0, as the functions that register such hooks.
UNINITIALISED: Final = ChangedDefault(
    function=_BASE,
    parameter="",
    others=(),
    position=0,
    sign=("torch.optim.optimizer", "register_optimizer_step_pre_hook"),
    error=f"object has no attribute '{_HOOKS}'",
    handled=(),
    advice="call super().__init__(params, defaults) in the constructor, or define zero_grad",
)
_OWN: Final = frozenset({"zero_grad", "__new__", "__getattr__", "__getattribute__", "__class__"})
"""What a class, or its constructor, has that makes up for it."""
_DONE: Final = frozenset({"__init__", "__dict__", "__setstate__", "setattr", "vars", "update_wrapper"})
"""What a class may call, or ask objects for, to get all that another object has."""


def uninitialised_optimizers(code: PythonCode, names: TorchNames) -> Iterator[LaterUse]:
    """Yield the constructors of optimizers that leave out that of torch's, where ``step`` fails without it."""
    if names.has(*UNINITIALISED.sign) is not True or code.sources_with(_HOOKS.encode()):
        return
    uses = {name for name in code.all_torch_uses if DEFINED_AS.get(name, name) == _BASE}
    files = {file for use in uses for file in code.files_using(use) if code.is_for_users(file)}
    for file in sorted(files):
        tree = code.tree(file)
        if tree is None:
            continue
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        bare = [(cls, constructor) for cls in classes if (constructor := _bare_constructor(cls))]
        origins = make_origins(tree) if bare else {}
        for cls, constructor in bare:
            if _origin(cls.bases[0], origins) == _BASE:
                yield LaterUse(
                    name=_BASE,
                    error=f"'{cls.name}' {UNINITIALISED.error}",
                    file=file,
                    line=constructor.lineno,
                    function=f"{cls.name}.__init__",
                    how="uninitialised",
                )


def _origin(base: ast.expr, origins: dict[str, str | None]) -> str | None:
    """Return the class of torch that a base is, by the name that users know."""
    full = full_name(base, origins)
    return DEFINED_AS.get(full, full) if full else None


def _bare_constructor(cls: ast.ClassDef) -> ast.FunctionDef | None:
    """Return the constructor of a class with a ``step`` if nothing in it can call another one, or make up for that."""
    if not cls.bases or cls.keywords or cls.decorator_list:
        return None
    methods = {part.name: part for part in cls.body if isinstance(part, ast.FunctionDef)}
    constructor = methods.get("__init__")
    if constructor is None or constructor.decorator_list or "step" not in methods:
        return None
    parts = list(walk(cls))
    mentioned = {part.attr for part in parts if isinstance(part, ast.Attribute)}
    mentioned |= {part.id for part in parts if isinstance(part, ast.Name)}
    set_there = {getattr(part, "attr", getattr(part, "id", "")) for part in parts if _is_stored(part)}
    if not _DONE.isdisjoint(mentioned) or not _OWN.isdisjoint(methods.keys() | set_there):
        return None
    return constructor


def _is_stored(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)
