"""``enum``: what the names in the body of such a class become.

Members are objects of their class. What the classes of ``enum`` define themselves is in ``recipes/enum.txt``.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Native
from abiscan.python.interpreter.models.namespace import Args, Kwargs, Namespace
from abiscan.python.interpreter.values import (
    Class,
    Instance,
    NotKnown,
    PythonFunction,
    Wrapped,
    is_concrete,
    more_items,
    note_added,
    thrown,
)


def is_enumeration(cls: object) -> bool:
    """Whether a value is an enumeration, or one of the classes of ``enum`` that these derive from."""
    return isinstance(cls, Class) and _base_of(cls) is not None


def _base_of(cls: Class) -> Class | None:
    """Return the class of ``enum`` that a class derives from, the nearest; None if it derives from none."""
    for ancestor in cls.ancestry():
        if type(ancestor) is Class and ancestor.module == "enum":
            return ancestor
    return None


class Enumeration(Struct, eq=False):
    """The members of an enumeration.

    :ivar members: by name, aliases included
    :ivar canonical: the names without aliases
    :ivar by_value: the members whose value has a hash, those that are made of others among them
    :ivar others: the members whose value has none, or is not known
    """

    members: dict[str, object] = field(default_factory=dict)
    canonical: list[str] = field(default_factory=list)
    by_value: dict[object, object] = field(default_factory=dict)
    others: list[object] = field(default_factory=list)

    def find(self, machine: PythonMachine, value: object) -> object:
        """Return the member of a value; None if no member certainly has it."""
        if _has_hash(value):
            return self.by_value.get(value)
        machine.count_steps(len(self.others))
        return next((member for member in self.others if member is value or _has_value(member, value)), None)

    def add(self, name: str, member: object, value: object) -> None:
        """Add a member under its own name."""
        self.members[name] = member
        self.canonical.append(name)
        if _has_hash(value):
            self.by_value[value] = member
        else:
            self.others.append(member)


def finish_enumeration(machine: PythonMachine, cls: Class) -> None:
    """Make members of the names in a class that derives from ``enum.Enum``."""
    base = _base_of(cls)
    if base is None:
        _forget_members(cls)
        return
    if base is cls:
        return
    ignored = cls.names.pop("_ignore_", ())
    made = cls.enumeration = Enumeration()
    candidates = list(cls.names.items())
    # A ``__new__`` of the package may put further values of a member into it.
    cls.names["_value2member_map_"] = made.by_value
    earlier = _Earlier(base)
    for name, bound_value in candidates:
        if not _may_name_member(cls, name) or _is_descriptor(bound_value) or _ignores(ignored, name):
            continue
        value = bound_value
        if isinstance(bound_value, NotKnown) and bound_value.name == "enum.auto()":
            value = _generate_value(machine, cls, earlier, name) or bound_value
        member = made.find(machine, value)
        if member is None:
            member = _make_member(machine, cls, name, value)
            made.add(name, member, value_of(member))
        else:
            made.members[name] = member
        cls.names[name] = member
        earlier.add(value_of(member))
    machine.count_steps(len(made.members))
    cls.names["_member_map_"] = cls.names["__members__"] = dict(made.members)
    cls.names["_member_names_"] = list(made.canonical)
    if made.others:
        note_added(made.by_value)
    if _is_flag(base):
        mask = earlier.mask
        cls.names["_flag_mask_"] = NotKnown(f"{cls.name}._flag_mask_") if mask is None else mask
    if cls.dataclass() is not None:
        # Releases of Python differ in what they show of a dataclass that is mixed in.
        cls.names.setdefault("__repr__", NotKnown(f"{cls.name}.__repr__"))


class _Earlier:
    """What ``auto()`` makes a value of: those before it.

    :ivar mask: the bits of all values; None if one is no number
    """

    def __init__(self, base: Class) -> None:
        self.base = base
        self.values: list[object] = []
        self.largest = 0
        self.mask: int | None = 0
        self.are_positive = True

    def add(self, value: object) -> None:
        """Add the value of the next member."""
        self.values.append(value)
        if type(value) is int:
            self.are_positive = self.are_positive and value > 0
            self.largest = max(self.largest, value)
            self.mask = None if self.mask is None else self.mask | value
        else:
            self.are_positive, self.mask = False, None


def _ignores(ignored: object, name: str) -> bool:
    names = ignored.replace(",", " ").split() if isinstance(ignored, str) else ignored
    return isinstance(names, (list, tuple)) and name in names


def _has_hash(value: object) -> bool:
    """Whether a value is known, and has a hash here."""
    if not is_concrete(value):
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True


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
        if mixed is not None and mixed is not cls and not machine.before(3, 11):
            value = machine.call(mixed, passed, {})
        made.attributes["_value_"] = value if host is None else made.inner
    made.attributes["_name_"] = name
    initialise = cls.find("__init__")
    if initialise is not None:
        machine.call(machine.bound(initialise, made, cls), passed, {})
    return made


def value_of(member: object) -> object:
    """Return the value of a member."""
    return member.attributes.get("_value_", NotKnown("_value_")) if isinstance(member, Instance) else member


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


def _generate_value(machine: PythonMachine, cls: Class, earlier: _Earlier, name: str) -> object:
    """Return what ``enum.auto()`` gives, None if that is not known."""
    generate = cls.find("_generate_next_value_")
    if generate is not None:
        count = len(earlier.values)
        return machine.call(machine.bound(generate, None, cls), [name, 1, count, list(earlier.values)], {})
    if earlier.base.name == "StrEnum":
        return name.lower()
    # Releases of Python differ in what they make of earlier values that are no positive numbers.
    if not earlier.are_positive:
        return None
    return 1 << earlier.largest.bit_length() if _is_flag(earlier.base) else earlier.largest + 1


def _is_flag(base: Class) -> bool:
    return base.name in {"Flag", "IntFlag"}


def enumeration_members(machine: PythonMachine, cls: Class) -> list[object] | None:
    """Return the members that an enumeration lists, None if the class is none, or they are not known."""
    made = cls.enumeration
    if not isinstance(made, Enumeration) or any(isinstance(member, NotKnown) for member in made.others):
        return None
    base = _base_of(cls)
    members = [made.members[name] for name in made.canonical]
    if base is None or not _is_flag(base):
        return members
    # Since Python 3.11, those of one bit alone.
    single = [member for member in members if _is_single(value_of(member))]
    if len(single) == len(members) or machine.before(3, 11):
        return members
    return single if machine.since(3, 11) else None


def _is_single(value: object) -> bool:
    return type(value) is int and value > 0 and value & (value - 1) == 0


def member_named(cls: Class, name: object) -> object:
    """Return the member that an enumeration has by a name, or by an alias; None if it has none by it.

    An unknown if that is not known, or the class is no enumeration.
    """
    made = cls.enumeration
    if not isinstance(made, Enumeration) or not isinstance(name, str):
        return NotKnown(f"{cls.name}[…]")
    return made.members.get(name)


def by_value(machine: PythonMachine, cls: Class, args: list[object], kwargs: dict[str, object]) -> object:
    """Return the member that calling an enumeration gives, unknown if that is not known; None if the class is none.

    :raises Thrown: it has no such member
    """
    base = _base_of(cls)
    if base is None:
        return None
    unknown = NotKnown(f"{cls.name}()")
    made = cls.enumeration
    has_members = isinstance(made, Enumeration) and bool(made.members)
    if not has_members and len(args) > 1:
        return _make_by_call(machine, cls, args, kwargs) or unknown
    if len(args) != 1 or kwargs or not isinstance(made, Enumeration):
        return unknown
    value = args[0]
    if isinstance(value, Instance) and value.cls is cls:
        return value
    member = None if isinstance(value, NotKnown) else made.find(machine, value)
    member = _look_further(machine, cls, made, value) if member is None else member
    if member is None:
        raise thrown(ValueError, f"{value!r} is not a valid {cls.qualified or cls.name}")
    return member


def _look_further(machine: PythonMachine, cls: Class, made: Enumeration, value: object) -> object:
    """Return what an enumeration gives for a value that no member has; None if nothing."""
    unknown = NotKnown(f"{cls.name}({value!r})" if is_concrete(value) else f"{cls.name}()")
    missing = cls.find("_missing_")
    if missing is not None:
        return machine.call(machine.bound(missing, None, cls), [value], {})
    if not is_concrete([value, *map(value_of, made.others)]):
        return unknown
    if not _is_flag(_base_of(cls) or cls):
        return None
    mask = cls.names.get("_flag_mask_")
    is_made_of_members = type(mask) is int and type(value) is int and value & ~mask == 0
    return _combine(machine, cls, made, value) if is_made_of_members and isinstance(value, int) else unknown


def _combine(machine: PythonMachine, cls: Class, enumeration: Enumeration, value: int) -> object:
    """Return the member that is made of others; there is one for each value."""
    if value not in enumeration.by_value:
        parts = [name for name in enumeration.canonical if _is_part(value_of(enumeration.members[name]), value)]
        # Before Python 3.11, it has no name.
        is_named = machine.since(3, 11)
        made = machine.create(cls, [value], {}) if cls.host() is not None else Instance(cls)
        if isinstance(made, Instance):
            name = ("|".join(parts) or None) if is_named else NotKnown("its name")
            made.attributes.update({"_value_": value, "_name_": name})
        enumeration.by_value[value] = made
    return enumeration.by_value[value]


def _is_part(part: object, value: int) -> bool:
    return type(part) is int and part & value == part != 0


def _make_by_call(machine: PythonMachine, cls: Class, args: Args, kwargs: Kwargs) -> object:
    """Return the enumeration that ``Enum("E", "A B")`` makes; None if its members are not known."""
    name, members = args[0], args[1]
    start = kwargs.get("start", 1)
    if kwargs.keys() - {"start", "module", "qualname"} or ("start" in kwargs and _is_flag(_base_of(cls) or cls)):
        return None
    if isinstance(members, str):
        listed: list[object] = [*members.replace(",", " ").split()]
    elif isinstance(members, dict):
        listed = list(members.items())
    else:
        listed = more_items(machine.items(members))
    flags = _is_flag(_base_of(cls) or cls)
    values: dict[object, object] = {}
    for number, item in enumerate(listed):
        if isinstance(item, (tuple, list)) and len(item) == 2 and isinstance(item[0], str):
            values[item[0]] = item[1]
        elif isinstance(item, str) and isinstance(start, int) and cls.find("_generate_next_value_") is None:
            of_text = item.lower() if cls.name == "StrEnum" else start + number
            values[item] = 1 << number if flags else of_text
        else:
            return None
    values["__module__"] = kwargs.get("module", machine.scope().module.name)
    known = isinstance(name, str) and all(isinstance(key, str) for key in values)
    return machine.make_class(None, [name, (cls,), values], {}) if known else None


def _model_unique(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    cls = args[0] if args else None
    made = cls.enumeration if isinstance(cls, Class) else None
    if isinstance(cls, Class) and isinstance(made, Enumeration) and len(made.members) > len(made.canonical):
        own = {id(made.members[name]): name for name in made.canonical}
        aliases = ((name, own[id(member)]) for name, member in made.members.items())
        text = ", ".join(f"{alias} -> {name}" for alias, name in aliases if alias != name)
        raise thrown(ValueError, f"duplicate values found in <enum {cls.name!r}>: {text}")
    return cls


def _make_enum(_machine: PythonMachine) -> object:
    unique = Native("enum.unique", _model_unique)
    return Namespace("enum", {"unique": unique, "verify": NotKnown("enum.verify")})


MODELS: dict[str, Callable[[PythonMachine], object]] = {"enum": _make_enum}
"""Modules by name."""
