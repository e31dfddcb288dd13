"""``dataclasses``."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from abiscan.python.machine import PythonMachine
from abiscan.python.modelled import Modelled, Native
from abiscan.python.models.namespace import Args, Kwargs, Namespace
from abiscan.python.values import ABSENT, Class, NotKnown


class DataField(Modelled, Struct, frozen=True, eq=False):
    """What ``field()`` gives: the default, or the function that makes it; ``in_init`` says that it is an argument."""

    default: object
    factory: object = None
    in_init: bool = True


def _field(_machine: PythonMachine, _args: Args, kwargs: Kwargs) -> object:
    return DataField(
        kwargs.get("default", ABSENT), kwargs.get("default_factory"), kwargs.get("init", True) is not False
    )


def _dataclass(_machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    if args and isinstance(args[0], Class):
        cls = args[0]
        cls.is_dataclass = True
        cls.is_ordered, cls.is_frozen = kwargs.get("order") is True, kwargs.get("frozen") is True
        cls.names.setdefault("__match_args__", tuple(cls.fields()))
        for name in ("__dataclass_fields__", "__dataclass_params__"):
            cls.names[name] = NotKnown(f"{cls.name}.{name}")
    return args[0] if args else Native("dataclass", lambda machine, args, _kwargs: _dataclass(machine, args, kwargs))


def _replace(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    values = getattr(args[0], "attributes", None) if args else None
    cls = getattr(args[0], "cls", None) if args else None
    if not isinstance(cls, Class) or values is None:
        return NotKnown("dataclasses.replace()")
    return machine.call(cls, [], {name: values[name] for name in cls.fields() if name in values} | kwargs)


MODELS: dict[str, Callable[[PythonMachine], object]] = {
    "dataclasses": lambda _machine: Namespace(
        "dataclasses",
        {
            "field": Native("dataclasses.field", _field),
            "dataclass": Native("dataclasses.dataclass", _dataclass),
            "replace": Native("dataclasses.replace", _replace),
        },
    )
}
"""Modules by name."""
