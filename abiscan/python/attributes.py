"""Attributes of values: ``getattr``, ``setattr``."""

from __future__ import annotations

import ast
from pathlib import PurePath

from abiscan.python.filesystem import path_attribute
from abiscan.python.hosts import HostMethod, text, type_of
from abiscan.python.machine import PythonMachine
from abiscan.python.modelled import Modelled, Native
from abiscan.python.operations import described
from abiscan.python.values import (
    ABSENT,
    Bound,
    Class,
    Deferred,
    Instance,
    NotKnown,
    PythonError,
    PythonFunction,
    PythonModule,
    Stage,
    Wrapped,
    thrown,
)


def get(machine: PythonMachine, value: object, name: str) -> object:
    """``value.name``; raises AttributeError only where Python certainly would."""
    if isinstance(value, NotKnown):
        return value.part(f".{name}")
    if isinstance(value, PythonModule):
        return of_module(machine, value, name)
    if isinstance(value, Modelled):
        return value.attribute(machine, name)
    if isinstance(value, Instance):
        return _of_instance(machine, value, name)
    if isinstance(value, Class):
        return _of_class(machine, value, name)
    if isinstance(value, PythonFunction):
        return _of_function(value, name)
    if isinstance(value, (Bound, Wrapped)):
        return get(machine, value.function, name)
    if isinstance(value, PythonError):
        return _of_failure(machine, value, name)
    return _of_host(value, name)


def of_module(machine: PythonMachine, module: PythonModule, name: str) -> object:
    """An attribute of a module of the package: a name of its body, a submodule, or what its ``__getattr__`` gives."""
    if name in module.names:
        return machine.settle(module.names[name])
    known = {
        "__name__": module.name,
        "__dict__": module.names,
        "__doc__": NotKnown("__doc__"),
        "__spec__": NotKnown("__spec__"),
    }
    if name in known:
        return known[name]
    if name == "__file__" and module.file is not None:
        return machine.files.system.place(module.file)
    if name == "__path__" and module.folders:
        return [machine.files.system.place(folder) for folder in module.folders]
    if name == "__package__":
        return module.name if module.folders else module.name.rpartition(".")[0]
    if f"{module.name}.{name}" in machine.modules:
        return machine.modules[f"{module.name}.{name}"]
    if module.stage is Stage.DEFERRED:
        machine.settle(Deferred(module, name))
        return of_module(machine, module, name)
    if module.stage is Stage.SKIMMED:
        return NotKnown(f"{module.name}.{name}")
    hook = module.names.get("__getattr__")
    if isinstance(hook, PythonFunction) and name not in module.asked:
        module.asked.add(name)
        try:
            return machine.call(hook, [name], {})
        finally:
            module.asked.discard(name)
    if module.open_ or hook is not None:
        return NotKnown(f"{module.name}.{name}")
    if module.stage is Stage.RUNNING:
        reason = " (most likely due to a circular import)"
        raise thrown(AttributeError, f"partially initialized module '{module.name}' has no attribute '{name}'{reason}")
    raise thrown(AttributeError, f"module '{module.name}' has no attribute '{name}'")


def _of_instance(machine: PythonMachine, value: Instance, name: str) -> object:
    found = value.cls.find(name, ABSENT)
    if isinstance(found, Wrapped) and found.kind == "property":
        return machine.call(found.function, [value], {})
    if isinstance(found, Wrapped) and found.kind == "cached_property" and name not in value.attributes:
        value.attributes[name] = machine.call(found.function, [value], {})
    if name in value.attributes:
        return machine.settle(value.attributes[name])
    if name == "__class__":
        return value.cls
    if name == "__dict__":
        return value.attributes
    if found is not ABSENT:
        return _taken(machine, found, value, value.cls)
    hook = value.cls.find("__getattr__")
    if isinstance(hook, PythonFunction):
        return machine.call(hook, [value, name], {})
    return NotKnown(f"{value.cls.name}.{name}")


def _of_class(machine: PythonMachine, cls: Class, name: str) -> object:
    found = cls.find(name, ABSENT)
    if found is not ABSENT:
        return _taken(machine, found, None, cls)
    known = {"__name__": cls.name, "__qualname__": cls.name, "__module__": cls.module, "__bases__": cls.bases}
    return known.get(name, NotKnown(f"{cls.name}.{name}"))


def _taken(machine: PythonMachine, found: object, receiver: object, cls: Class) -> object:
    """What a name found in a class gives when it is taken from an object, or from the class itself."""
    found = machine.settle(found)
    if isinstance(found, Wrapped) and found.kind == "staticmethod":
        return found.function
    if isinstance(found, Wrapped) and found.kind == "classmethod":
        return Bound(found.function, cls)
    if receiver is not None and (
        isinstance(found, PythonFunction) or (isinstance(found, Wrapped) and found.kind != "property")
    ):
        return Bound(found, receiver)
    return found


def _of_function(function: PythonFunction, name: str) -> object:
    if name in function.attributes:
        return function.attributes[name]
    known = {
        "__name__": function.name,
        "__qualname__": function.name,
        "__module__": function.scope.module.name,
        "__doc__": docstring(function.node),
        "__dict__": function.attributes,
    }
    return known.get(name, NotKnown(f"{function.name}.{name}"))


def _of_failure(machine: PythonMachine, failure: PythonError, name: str) -> object:
    if name in failure.attributes:
        return failure.attributes[name]
    known = {"args": failure.args, "__class__": failure.cls, "__cause__": failure.cause, "__context__": failure.context}
    if name in known:
        return known[name]
    if name == "msg":
        return text(machine, failure)
    if name == "with_traceback":
        return Native(name, lambda _machine, _args, _kwargs: failure)
    if isinstance(failure.cls, Class):
        found = failure.cls.find(name, ABSENT)
        if found is not ABSENT:
            return _taken(machine, found, failure, failure.cls)
    return NotKnown(f"{failure.name()}.{name}")


def _of_host(value: object, name: str) -> object:
    if name == "__class__":
        return type_of(value)
    if isinstance(value, type):
        if name in {"__name__", "__qualname__"}:
            return value.__name__
        return HostMethod(value, name) if hasattr(value, name) else NotKnown(f"{value.__name__}.{name}")
    if isinstance(value, range) and name in {"start", "stop", "step"}:
        return getattr(value, name)
    if isinstance(value, (int, float)) and name in {"real", "imag"}:
        return getattr(value, name)
    if isinstance(value, PurePath):
        return path_attribute(value, name)
    if (getattr(type(value), "is_plain", False) or hasattr(type(value), "_fields")) and hasattr(value, name):
        found = getattr(value, name)
        return HostMethod(value, name) if callable(found) else found
    if name.startswith("__"):
        return NotKnown(f"{described(value)}.{name}")
    if hasattr(value, name):
        return HostMethod(value, name)
    if isinstance(value, (str, bytes, int, float, list, tuple, dict, set, type(None))):
        raise thrown(AttributeError, f"'{type(value).__name__}' object has no attribute '{name}'")
    return NotKnown(f"{described(value)}.{name}")


def docstring(node: ast.AST) -> str | None:
    """The docstring of a function, class or module, as it stands there."""
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.value.value
    return None


def put(value: object, name: str, new: object) -> None:
    """``value.name = new``, where that can be remembered."""
    if isinstance(value, PythonModule):
        value.names[name] = new
    elif isinstance(value, (Instance, PythonFunction, PythonError)):
        value.attributes[name] = new
    elif isinstance(value, Class):
        value.names[name] = new
    elif isinstance(value, Modelled):
        value.put(name, new)
