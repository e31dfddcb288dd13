"""``inspect.signature``: the parameters of functions of the package."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.models.namespace import Args, Kwargs
from abiscan.python.interpreter.values import ABSENT, Bound, Class, Instance, NotKnown, PythonFunction, Wrapped

_EMPTY: Final = Class("_empty", (), {}, module="inspect")


class ParameterKind(int):
    """A kind of parameters."""

    is_plain = True
    name: str


def _make_kind(name: str, number: int) -> ParameterKind:
    made = ParameterKind(number)
    made.name = name
    return made


_KINDS: Final = {
    name: _make_kind(name, number)
    for number, name in enumerate(
        ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "VAR_POSITIONAL", "KEYWORD_ONLY", "VAR_KEYWORD")
    )
}


class Parameter(Modelled, Struct, frozen=True, eq=False):
    """A parameter of a function."""

    name: str
    kind: int
    default: object
    annotation: object

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return an attribute of it, or one of the class."""
        if name in {"name", "kind", "default", "annotation"}:
            return getattr(self, name)
        known = {"empty": _EMPTY, **_KINDS}
        return known[name] if name in known else NotKnown(f"{self.display_name()}.{name}")

    def display_name(self) -> str:
        """Return what it is in messages."""
        return "inspect.Parameter"


class KnownSignature(Modelled, Struct, frozen=True, eq=False):
    """What ``signature`` gives."""

    parameters: dict[str, Parameter]

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return an attribute of it."""
        known = {"parameters": self.parameters, "empty": _EMPTY}
        return known[name] if name in known else NotKnown(f"{self.display_name()}.{name}")

    def display_name(self) -> str:
        """Return what it is in messages."""
        return "inspect.signature()"


def _model_signature(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    parameters = _parameters_of(args[0]) if args else None
    return NotKnown("inspect.signature()") if parameters is None else KnownSignature(parameters)


def _parameters_of(value: object) -> dict[str, Parameter] | None:
    """Return the parameters of what can be called, None if they are not known."""
    # _signature_from_callable (Lib/inspect.py) asks in this order; ``__wrapped__`` is what ``functools.wraps`` sets.
    if isinstance(value, Bound):
        inner = _parameters_of(value.function)
        first = next(iter((inner or {}).values()), None)
        if inner is None or first is None or first.kind > _KINDS["VAR_POSITIONAL"]:
            return None
        return inner if first.kind == _KINDS["VAR_POSITIONAL"] else dict(list(inner.items())[1:])
    if isinstance(value, Wrapped) and value.kind in {"classmethod", "staticmethod"}:
        return _parameters_of(value.function)
    if isinstance(value, PythonFunction):
        if "__signature__" in value.attributes:
            return None
        wrapped = value.attributes.get("__wrapped__")
        return _of_function(value) if wrapped is None else _parameters_of(wrapped)
    if isinstance(value, Class) and value.metaclass is None and not value.is_open() and value.host() is None:
        initialise = value.find("__init__")
        is_plain = isinstance(initialise, PythonFunction) and value.find("__new__") is None
        return _parameters_of(Bound(initialise, value)) if is_plain and "__signature__" not in value.names else None
    if isinstance(value, Instance) and isinstance(method := value.cls.find("__call__"), PythonFunction):
        return _parameters_of(Bound(method, value))
    return None


def _of_function(function: PythonFunction) -> dict[str, Parameter]:
    arguments = function.node.args
    kinds = [
        *((argument, "POSITIONAL_ONLY") for argument in arguments.posonlyargs),
        *((argument, "POSITIONAL_OR_KEYWORD") for argument in arguments.args),
        *((argument, "VAR_POSITIONAL") for argument in (arguments.vararg,) if argument),
        *((argument, "KEYWORD_ONLY") for argument in arguments.kwonlyargs),
        *((argument, "VAR_KEYWORD") for argument in (arguments.kwarg,) if argument),
    ]
    return {argument.arg: _parameter(function, argument, _KINDS[kind]) for argument, kind in kinds}


def _parameter(function: PythonFunction, argument: ast.arg, kind: int) -> Parameter:
    default = function.defaults.get(argument.arg, ABSENT)
    annotation = _EMPTY if argument.annotation is None else NotKnown("inspect.Parameter.annotation")
    return Parameter(argument.arg, kind, _EMPTY if default is ABSENT else default, annotation)


class OpenClass(NotKnown, frozen=True, eq=False, kw_only=True):
    """A class of ``inspect``, of which only some attributes are known."""

    known: Mapping[str, object]

    def get_attribute(self, machine: object, name: str) -> object:
        """Return an attribute of it."""
        return self.known[name] if name in self.known else self.part(f".{name}")


_SIGNATURE: Final = Native("inspect.signature", _model_signature)
NAMES: Final = {
    "signature": _SIGNATURE,
    "Signature": OpenClass("inspect.Signature", known={"empty": _EMPTY, "from_callable": _SIGNATURE}),
    "Parameter": OpenClass("inspect.Parameter", known={"empty": _EMPTY, **_KINDS}),
    "_empty": _EMPTY,
}
"""Names of ``inspect``, and what they stand for."""
