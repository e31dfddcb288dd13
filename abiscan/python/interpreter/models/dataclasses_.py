"""``dataclasses``."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct

from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.models.namespace import Args, Kwargs, Namespace
from abiscan.python.interpreter.special import repr_of
from abiscan.python.interpreter.values import ABSENT, Class, Instance, NotKnown, PythonError, thrown


class DataField(Modelled, Struct, frozen=True, eq=False):
    """What ``field()`` gives.

    :ivar default: ABSENT if there is none
    :ivar factory: the function that makes the default
    :ivar in_init: whether ``__init__`` has an argument for it
    :ivar is_keyword: whether that is a keyword; None if the code does not say so
    :ivar is_shown: whether it is in the ``repr`` of an object
    :ivar is_compared: whether objects that differ in it are unequal
    """

    default: object
    factory: object = None
    in_init: bool = True
    is_keyword: bool | None = None
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
        kwargs["kw_only"] is not False if "kw_only" in kwargs else None,
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
        cls.keyword_fields = _keyword_fields(cls, by_default=kwargs.get("kw_only") is True)
        if not machine.is_speculative:
            _check_fields(cls, since_3_11=machine.since(3, 11))
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


def is_annotated(cls: Class, name: str, *kinds: str) -> bool:
    """Whether the annotation of a name is one of these."""
    for ancestor in cls.ancestry():
        annotations = ancestor.names.get("__annotations__") if isinstance(ancestor, Class) else None
        if isinstance(annotations, dict) and name in annotations:
            return any(kind in getattr(annotations[name], "name", "") for kind in kinds)
    return False


def is_field(cls: Class, name: str) -> bool:
    """Whether a name that a dataclass annotates is a field of it."""
    return not is_annotated(cls, name, "ClassVar", "KW_ONLY")


def _keyword_fields(cls: Class, *, by_default: bool) -> frozenset[str]:
    """Return the fields that are keywords, those of the bases among them: each base has said so for itself.

    :param by_default: whether those are that the class has itself
    """
    bases = [base for base in reversed(cls.ancestry()[1:]) if isinstance(base, Class) and base.is_dataclass]
    are_keywords = {name: name in base.keyword_fields for base in bases for name in base.fields()}
    for name in cls.annotated:
        told = cls.names.get(name)
        said = told.is_keyword if isinstance(told, DataField) else None
        are_keywords[name] = by_default if said is None else said
        by_default = by_default or is_annotated(cls, name, "KW_ONLY")
    return frozenset(name for name, is_keyword in are_keywords.items() if is_keyword)


def _check_fields(cls: Class, *, since_3_11: bool) -> None:
    """Raise what ``dataclass`` raises for a default that can change, and for a field without one after one with it."""
    fields = [name for name in cls.fields() if is_field(cls, name)]
    for name in cls.annotated:
        default = cls.names.get(name)
        default = default.default if isinstance(default, DataField) else default
        kind = _mutable_kind(default, since_3_11=since_3_11)
        if name in fields and kind is not None:
            text = f"mutable default {kind} for field {name} is not allowed: use default_factory"
            raise thrown(ValueError, text)
    # A base that is not known may have fields.
    if cls.is_open():
        return
    has_default = False
    for name in fields:
        value = cls.find(name, ABSENT)
        # Among keywords the order does not matter.
        if name in cls.keyword_fields or (isinstance(value, DataField) and not value.in_init):
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
