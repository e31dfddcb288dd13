"""``enum``: what the names in the body of such a class become.

Members are objects of their class. What the classes of ``enum`` define themselves is in ``recipes/enum.txt``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

from abiscan.python.machine import PythonMachine
from abiscan.python.modelled import Native
from abiscan.python.models.namespace import Args, Kwargs, Namespace
from abiscan.python.values import (
    Class,
    Instance,
    NotKnown,
    PythonFunction,
    Wrapped,
    is_concrete,
    more_items,
    thrown,
)

_MEMBERS = "_member_map_"
_WITHOUT_DATACLASSES = {(3, 8), (3, 9), (3, 10)}


def is_enumeration(cls: object) -> bool:
    """Whether a value is an enumeration, or one of the classes of ``enum`` that these derive from."""
    return isinstance(cls, Class) and _base_of(cls) is not None


def _base_of(cls: Class) -> Class | None:
    """Return the class of ``enum`` that a class derives from, the nearest; None if it derives from none."""
    for ancestor in cls.ancestry():
        if type(ancestor) is Class and ancestor.module == "enum":
            return ancestor
    return None


def finish_enumeration(machine: PythonMachine, cls: Class) -> None:
    """Make members of the names in a class that derives from ``enum.Enum``."""
    base = _base_of(cls)
    if base is None:
        _forget_members(cls)
        return
    if base is cls:
        return
    members: dict[str, object] = {}
    for name, bound_value in list(cls.names.items()):
        if not _may_name_member(cls, name) or _is_descriptor(bound_value):
            continue
        value = bound_value
        if isinstance(bound_value, NotKnown) and bound_value.name == "enum.auto()":
            value = _generate_value(machine, cls, base, name, list(map(value_of, members.values()))) or bound_value
        member = next((earlier for earlier in members.values() if _has_value(earlier, value)), None)
        members[name] = cls.names[name] = member or _make_member(machine, cls, name, value)
    cls.names[_MEMBERS] = cls.names["__members__"] = members
    cls.names["_member_names_"] = [name for name, member in members.items() if _name_of(member) == name]
    values = {name: value_of(member) for name, member in members.items()}
    if is_concrete(values) and not any(isinstance(value, (list, dict, set)) for value in values.values()):
        cls.names["_value2member_map_"] = {value: members[name] for name, value in values.items()}
    if _is_flag(base):
        is_known = all(type(value) is int for value in values.values())
        mask = functools.reduce(operator.or_, values.values(), 0) if is_known else None
        cls.names["_flag_mask_"] = NotKnown(f"{cls.name}._flag_mask_") if mask is None else mask


def _is_descriptor(value: object) -> bool:
    """Whether ``enum`` makes no member of a value: _is_descriptor in Lib/enum.py."""
    return isinstance(value, (PythonFunction, Wrapped)) or (
        isinstance(value, Instance) and value.cls.has_either("__get__", "__set__")
    )


def _make_member(machine: PythonMachine, cls: Class, name: str, value: object) -> object:
    # EnumType.__new__ (Lib/enum.py): a tuple is the arguments. The value that a ``__new__`` of the package does not set
    # is made by the type that is mixed in.
    passed = list(value) if isinstance(value, tuple) else [value]
    new, host = cls.find("__new__"), cls.host()
    if new is not None:
        made = machine.call(getattr(new, "function", new), [cls, *passed], {})
    else:
        made = Instance(cls) if host is None else machine.create(cls, passed, {})
    if not isinstance(made, Instance):
        return NotKnown(f"{cls.name}.{name}")
    if "_value_" not in made.attributes:
        # Before 3.11, a dataclass was none to it, and the value stays what is written.
        mixed = cls.dataclass()
        if mixed is not None and mixed is not cls and machine.world.python not in _WITHOUT_DATACLASSES:
            value = machine.call(mixed, passed, {})
        made.attributes["_value_"] = value if host is None else made.inner
    made.attributes["_name_"] = name
    initialise = cls.find("__init__")
    if initialise is not None:
        machine.call(machine.bound(initialise, made, cls), passed, {})
    return made


def value_of(member: object) -> object:
    """Return the value of a member."""
    return member.attributes["_value_"] if isinstance(member, Instance) else member


def _name_of(member: object) -> object:
    return member.attributes["_name_"] if isinstance(member, Instance) else None


def _has_value(member: object, value: object) -> bool:
    known = value_of(member)
    return is_concrete(known) and is_concrete(value) and known == value


def _may_name_member(cls: Class, name: str) -> bool:
    """Whether ``enum`` makes a member of the name: not of ``_x_``, ``__x__`` and names private to the class."""
    is_reserved = name.startswith("_") and name.endswith("_")
    return not is_reserved and not name.startswith((f"_{cls.name.lstrip('_')}__", "__"))


def _forget_members(cls: Class) -> None:
    """Make the members of an enumeration of another package not known: that decides what they are."""
    foreign = next((item for item in cls.ancestry() if isinstance(item, NotKnown)), None)
    if foreign is not None and foreign.name.endswith(("Enum", "Flag")):
        for name, value in cls.names.items():
            if _may_name_member(cls, name) and not isinstance(value, (PythonFunction, Wrapped)):
                cls.names[name] = NotKnown(f"{cls.name}.{name}", foreign.why)


def _generate_value(machine: PythonMachine, cls: Class, base: Class, name: str, earlier: list[object]) -> object:
    """Return what ``enum.auto()`` gives, None if that is not known."""
    generate = cls.find("_generate_next_value_")
    if generate is not None:
        return machine.call(machine.bound(generate, None, cls), [name, 1, len(earlier), list(earlier)], {})
    if base.name == "StrEnum":
        return name.lower()
    # Releases of Python differ in what they make of earlier values that are no positive numbers.
    if not all(type(value) is int and value > 0 for value in earlier):
        return None
    largest = max((value for value in earlier if isinstance(value, int)), default=0)
    return 1 << largest.bit_length() if _is_flag(base) else largest + 1


def _is_flag(base: Class) -> bool:
    return base.name in {"Flag", "IntFlag"}


def enumeration_members(cls: Class) -> list[object] | None:
    """Return the members of an enumeration, None if the class is none, or they are not known."""
    members = cls.names.get(_MEMBERS) if _base_of(cls) is not None else None
    if not isinstance(members, dict) or any(isinstance(member, NotKnown) for member in members.values()):
        return None
    return [member for name, member in members.items() if _name_of(member) == name]


def by_value(machine: PythonMachine, cls: Class, args: list[object], kwargs: dict[str, object]) -> object:
    """Return the member that calling an enumeration gives, unknown if that is not known; None if the class is none.

    :raises Thrown: it has no such member
    """
    base = _base_of(cls)
    if base is None:
        return None
    unknown = NotKnown(f"{cls.name}()")
    members = enumeration_members(cls)
    if not members and len(args) > 1:
        return _make_by_call(machine, cls, args, kwargs) or unknown
    if len(args) != 1 or kwargs:
        return unknown
    value = args[0]
    if members is not None and not isinstance(value, NotKnown):
        for member in members:
            if member is value or _has_value(member, value):
                return member
    made = _look_further(machine, cls, base, value, members)
    if made is None:
        raise thrown(ValueError, f"{value!r} is not a valid {cls.qualified or cls.name}")
    return made


def _look_further(
    machine: PythonMachine, cls: Class, base: Class, value: object, members: list[object] | None
) -> object:
    """Return what an enumeration gives for a value that no member has; None if nothing."""
    unknown = NotKnown(f"{cls.name}({value!r})" if is_concrete(value) else f"{cls.name}()")
    missing = cls.find("_missing_")
    if missing is not None:
        return machine.call(machine.bound(missing, None, cls), [value], {})
    if members is None or not is_concrete([value, *map(value_of, members)]):
        return unknown
    mask = cls.names.get("_flag_mask_")
    if isinstance(mask, int) and type(value) is int:
        is_made_of_members = value & ~mask == 0
        return _combine(machine, cls, value, members) if is_made_of_members else unknown
    return unknown if _is_flag(base) else None


def _combine(machine: PythonMachine, cls: Class, value: int, members: list[object]) -> object:
    """Return the member that is made of others; there is one for each value."""
    made_before = cls.names["_value2member_map_"]
    assert isinstance(made_before, dict)
    if value not in made_before:
        inside = [member for member in members if (part := value_of(member)) and part & value == part]  # type: ignore[operator]
        # Before Python 3.11, it has no name.
        python = machine.world.python
        is_named = isinstance(python, tuple) and python >= (3, 11)
        name = "|".join(map(str, map(_name_of, inside))) if is_named else NotKnown("its name")
        made = machine.create(cls, [value], {}) if cls.host() is not None else Instance(cls)
        if isinstance(made, Instance):
            made.attributes.update({"_value_": value, "_name_": name if inside else None})
        made_before[value] = made
    return made_before[value]


def _make_by_call(machine: PythonMachine, cls: Class, args: Args, kwargs: Kwargs) -> object:
    """Return the enumeration that ``Enum("E", "A B")`` makes; None if its members are not known."""
    name, members = args[0], args[1]
    start = kwargs.get("start", 1)
    if isinstance(members, str):
        listed: list[object] = [*members.replace(",", " ").split()]
    elif isinstance(members, dict):
        listed = list(members.items())
    else:
        listed = more_items(machine.items(members))
    flags = _is_flag(_base_of(cls) or cls)
    values: dict[object, object] = {}
    for number, item in enumerate(listed):
        is_pair = isinstance(item, (tuple, list)) and len(item) == 2
        if is_pair:
            values[item[0]] = item[1]  # type: ignore[index]
        elif isinstance(item, str) and isinstance(start, int) and cls.find("_generate_next_value_") is None:
            of_text = item.lower() if cls.name == "StrEnum" else start + number
            values[item] = 1 << number if flags else of_text
        else:
            return None
    known = isinstance(name, str) and all(isinstance(key, str) for key in values)
    return machine.make_class(None, [name, (cls,), values], {}) if known else None


def _model_unique(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    cls = args[0] if args else None
    members = cls.names.get(_MEMBERS) if isinstance(cls, Class) else None
    if isinstance(cls, Class) and isinstance(members, dict):
        aliases = [(name, _name_of(member)) for name, member in members.items() if _name_of(member) not in {None, name}]
        if aliases:
            text = ", ".join(f"{alias} -> {name}" for alias, name in aliases)
            raise thrown(ValueError, f"duplicate values found in <enum {cls.name!r}>: {text}")
    return cls


def _make_enum(_machine: PythonMachine) -> object:
    unique = Native("enum.unique", _model_unique)
    return Namespace("enum", {"unique": unique, "verify": NotKnown("enum.verify")})


MODELS: dict[str, Callable[[PythonMachine], object]] = {"enum": _make_enum}
"""Modules by name."""
