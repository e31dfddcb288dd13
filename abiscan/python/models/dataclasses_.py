"""``dataclasses``."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct

from abiscan.python.machine import PythonMachine
from abiscan.python.modelled import Modelled, Native
from abiscan.python.models.namespace import Args, Kwargs, Namespace
from abiscan.python.special import repr_of
from abiscan.python.values import ABSENT, Class, Instance, NotKnown, PythonError, thrown


class DataField(Modelled, Struct, frozen=True, eq=False):
    """What ``field()`` gives.

    :ivar default: ABSENT if there is none
    :ivar factory: the function that makes the default
    :ivar in_init: whether ``__init__`` has an argument for it
    :ivar is_keyword: whether the code says if that is a keyword
    :ivar is_shown: whether it is in the ``repr`` of an object
    :ivar is_compared: whether objects that differ in it are unequal
    """

    default: object
    factory: object = None
    in_init: bool = True
    is_keyword: bool = False
    is_shown: bool = True
    is_compared: bool = True


class DataclassField(Modelled, Struct, frozen=True, eq=False):
    """A field, as ``dataclasses.fields`` lists it."""

    attributes: dict[str, object]

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return its name, its annotation, and what ``field()`` was told of it."""
        return self.attributes.get(name, NotKnown(f"Field.{name}"))


class FieldsInitialiser(Modelled, Struct, frozen=True, eq=False):
    """The ``__init__`` that ``dataclass`` makes.

    :ivar owner: the class that it was made for
    """

    owner: Class
    binds: ClassVar[bool] = True

    def call(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        """Set the fields of an object of the class, or of one that derives from it."""
        if args and isinstance(args[0], (Instance, PythonError)):
            machine.fill_in(self.owner, args[0], args[1:], kwargs)
        return None


class FieldsText(Modelled, Struct, frozen=True, eq=False):
    """The ``__repr__`` that ``dataclass`` makes.

    :ivar owner: the class that it was made for
    """

    owner: Class
    binds: ClassVar[bool] = True

    def call(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        """Return the names and values of the fields."""
        made, fields = args[0] if args else None, self.owner.names.get("__dataclass_fields__")
        if not isinstance(made, Instance) or not isinstance(fields, dict):
            return NotKnown("repr()")
        shown = [
            name for name, field in fields.items() if field.attributes["repr"] and not field.attributes["is_pseudo"]
        ]
        texts = [repr_of(machine, machine.get_attribute(made, name)) for name in shown]
        inside = ", ".join(f"{name}={text}" for name, text in zip(shown, texts, strict=True))
        known = all(isinstance(text, str) for text in texts)
        return f"{made.cls.qualified or made.cls.name}({inside})" if known else NotKnown("repr()")


def _model_field(_machine: PythonMachine, _args: Args, kwargs: Kwargs) -> object:
    return DataField(
        kwargs.get("default", ABSENT),
        kwargs.get("default_factory"),
        kwargs.get("init", True) is not False,
        "kw_only" in kwargs,
        kwargs.get("repr", True) is not False,
        kwargs.get("compare", True) is not False,
    )


def _model_dataclass(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    if args and isinstance(args[0], Class):
        cls = args[0]
        cls.is_dataclass = True
        # With options that are not known, neither is what objects of the class can do.
        unknown = next((value for value in (*args[1:], *kwargs.values()) if isinstance(value, NotKnown)), None)
        if unknown is not None:
            cls.derive_from_more(NotKnown(f"dataclass({unknown.name})"))
        cls.is_ordered, cls.is_frozen = kwargs.get("order") is True, kwargs.get("frozen") is True
        cls.is_compared = kwargs.get("eq", True) is not False
        # Without ``__eq__``, the hash of ``object`` stays.
        cls.is_hashed = (
            kwargs.get("unsafe_hash", False) is not False or kwargs.get("eq", True) is not True or unknown is not None
        )
        if not machine.is_speculative:
            _check_fields(cls, keyword_only=kwargs.get("kw_only") is not None, since_3_11=machine.since(3, 11))
        cls.names.setdefault("__match_args__", tuple(cls.fields()))
        if kwargs.get("init", True) is not False:
            cls.names.setdefault("__init__", FieldsInitialiser(cls))
        cls.names["__dataclass_params__"] = NotKnown(f"{cls.name}.__dataclass_params__")
        cls.names["__dataclass_fields__"] = fields = _list_fields(cls)
        if isinstance(fields, dict):
            cls.uncompared = frozenset(name for name, field in fields.items() if not field.attributes["compare"])
        if kwargs.get("repr", True) is True and "__repr__" not in cls.names:
            cls.names["__repr__"] = FieldsText(cls)
        return cls
    # What is not a class here is an unknown number of options: ``@dataclass(**options)``.
    return Native("dataclass", lambda machine, made, _kwargs: _model_dataclass(machine, [*made, *args], kwargs))


def _list_fields(cls: Class) -> dict[str, DataclassField] | NotKnown:
    """Return the fields by name, those that are no arguments and variables of the class among them."""
    if cls.is_open():
        return NotKnown(f"{cls.name}.__dataclass_fields__")
    annotations: dict[str, object] = {}
    for ancestor in reversed(cls.ancestry()):
        own = ancestor.names.get("__annotations__") if isinstance(ancestor, Class) and ancestor.is_dataclass else None
        annotations |= own if isinstance(own, dict) else {}
    made = {}
    for name in cls.fields():
        kind = getattr(annotations.get(name), "name", "")
        if "KW_ONLY" in kind:
            continue
        default = cls.find(name, ABSENT)
        told = default if isinstance(default, DataField) else DataField(default)
        made[name] = DataclassField(
            {
                "name": name,
                "type": annotations.get(name, NotKnown(f"the type of {name}")),
                "init": told.in_init,
                "repr": told.is_shown,
                "compare": told.is_compared,
                "is_pseudo": "ClassVar" in kind or "InitVar" in kind,
                **({} if told.default is ABSENT else {"default": told.default}),
            }
        )
    return made


def _check_fields(cls: Class, *, keyword_only: bool, since_3_11: bool) -> None:
    """Raise what ``dataclass`` raises for a default that can change, and for a field without one after one with it."""
    annotations = cls.names.get("__annotations__")
    kinds = (
        {name: getattr(kind, "name", "") for name, kind in annotations.items()} if isinstance(annotations, dict) else {}
    )
    fields = [name for name in cls.fields() if "ClassVar" not in kinds.get(name, "")]
    for name in cls.annotated:
        default = cls.names.get(name)
        default = default.default if isinstance(default, DataField) else default
        kind = _mutable_kind(default, since_3_11=since_3_11)
        if name in fields and kind is not None:
            text = f"mutable default {kind} for field {name} is not allowed: use default_factory"
            raise thrown(ValueError, text)
    # Among keywords the order does not matter, and a base that is not known may have fields.
    if keyword_only or cls.is_open() or any("KW_ONLY" in kind for kind in kinds.values()):
        return
    has_default = False
    for name in fields:
        value = cls.find(name, ABSENT)
        if isinstance(value, DataField) and (value.is_keyword or not value.in_init):
            continue
        lacks = value is ABSENT or (isinstance(value, DataField) and value.default is ABSENT and value.factory is None)
        if lacks and has_default:
            raise thrown(TypeError, f"non-default argument '{name}' follows default argument")
        has_default = has_default or not lacks


def _mutable_kind(default: object, *, since_3_11: bool) -> str | None:
    """Return the ``repr`` of the class of a default that can change; None if it cannot."""
    if isinstance(default, (list, dict, set)):
        return repr(type(default))
    # _get_field in Lib/dataclasses.py: since 3.11, what has no hash counts, such as a dataclass that is not frozen.
    cls = default.cls if since_3_11 and isinstance(default, Instance) else None
    if cls is None or not cls.is_dataclass or cls.is_frozen or cls.is_hashed or cls.find("__hash__") is not None:
        return None
    return f"<class '{cls.module}.{cls.qualified or cls.name}'>"


def _model_replace(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    values = getattr(args[0], "attributes", None) if args else None
    cls = getattr(args[0], "cls", None) if args else None
    if not isinstance(cls, Class) or values is None:
        return NotKnown("dataclasses.replace()")
    return machine.call(cls, [], {name: values[name] for name in cls.fields() if name in values} | kwargs)


def _frozen_instance_error() -> type:
    from dataclasses import FrozenInstanceError  # its import takes long, and few packages need it

    return FrozenInstanceError


MODELS: dict[str, Callable[[PythonMachine], object]] = {
    "dataclasses": lambda _machine: Namespace(
        "dataclasses",
        {
            "FrozenInstanceError": _frozen_instance_error(),
            "field": Native("dataclasses.field", _model_field),
            "dataclass": Native("dataclasses.dataclass", _model_dataclass),
            "replace": Native("dataclasses.replace", _model_replace),
        },
    )
}
"""Modules by name."""
