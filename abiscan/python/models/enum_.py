"""``enum``: what the names in the body of such a class become."""

from __future__ import annotations

from collections.abc import Callable

from abiscan.python.machine import PythonMachine
from abiscan.python.modelled import Modelled, Native
from abiscan.python.models.namespace import Namespace
from abiscan.python.values import ABSENT, Bound, Class, Instance, NotKnown, PythonFunction, Wrapped, is_concrete, thrown

_PLAIN = ("Enum", "Flag")
_KINDS = {"IntEnum": int, "IntFlag": int, "StrEnum": str}


class EnumBase(Modelled):
    """``enum.Enum``, and what derives from it."""

    __slots__ = ("kind", "name")

    def __init__(self, name: str, kind: type | None) -> None:
        self.name, self.kind = name, kind

    def display_name(self) -> str:
        """Return its name."""
        return f"enum.{self.name}"


class Member(Modelled):
    """A member of an enumeration.

    :ivar attributes: what its ``__init__`` has set
    """

    is_unique = True
    __slots__ = ("attributes", "cls", "name", "value")

    def __init__(self, cls: Class, name: str, value: object) -> None:
        self.cls, self.name, self.value = cls, name, value
        self.attributes: dict[str, object] = {}

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return its name and value, and what the class defines."""
        if name in {"name", "_name_"}:
            return self.name
        if name in {"value", "_value_"}:
            return self.value
        member = self.cls.find(name, ABSENT)
        if isinstance(member, Wrapped) and member.kind == "property":
            return machine.call(member.function, [self], {})
        if name in self.attributes:
            return self.attributes[name]
        if isinstance(member, PythonFunction):
            return Bound(member, self)
        return NotKnown(f"{self.display_name()}.{name}") if member is ABSENT else member

    def put(self, machine: PythonMachine, name: str, value: object) -> None:
        """Set an attribute."""
        if name == "_value_":
            self.value = value
        else:
            self.attributes[name] = value

    def display_name(self) -> str:
        """Return the class and the name."""
        return f"{self.cls.name}.{self.name}"


def finish_enumeration(machine: PythonMachine, cls: Class) -> list[Member]:
    """Make members of the names in a class that derives from ``enum.Enum``; return them, and none for other classes."""
    base = next((item for item in cls.ancestry() if isinstance(item, EnumBase)), None)
    if base is None:
        _forget_members(cls)
        return []
    mixed = base.kind or cls.host()
    made = []
    earlier: list[object] = []
    for name, bound_value in cls.names.items():
        is_auto = isinstance(bound_value, NotKnown) and bound_value.name == "enum.auto()"
        value = _generate_value(machine, cls, base, name, earlier) or bound_value if is_auto else bound_value
        if _may_name_member(cls, name) and not isinstance(value, (PythonFunction, Wrapped, Member)):
            # A member that is a number or a text is computed with as such; its attributes are rarely asked for.
            member = _make_member(machine, cls, name, value) if mixed is None else _mix_in(cls, mixed, name, value)
            cls.names[name] = member
            made.append(member)
            earlier.append(value)
    return [item for item in made if isinstance(item, Member)]


def _make_member(machine: PythonMachine, cls: Class, name: str, value: object) -> Member:
    member = Member(cls, name, value)
    # A ``__new__`` of the package gets the value, and may set another one (EnumType.__new__ in Lib/enum.py).
    new = cls.find("__new__")
    if new is not None:
        passed = value if isinstance(value, tuple) else (value,)
        made = machine.call(getattr(new, "function", new), [cls, *passed], {})
        if isinstance(made, Instance):
            for attribute, set_value in made.attributes.items():
                member.put(machine, attribute, set_value)
    return member


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


def _generate_value(machine: PythonMachine, cls: Class, base: EnumBase, name: str, earlier: list[object]) -> object:
    """Return what ``enum.auto()`` gives, None if that is not known."""
    generate = cls.find("_generate_next_value_")
    if generate is not None:
        return machine.call(machine.bound(generate, None, cls), [name, 1, len(earlier), list(earlier)], {})
    if base.kind is str:
        return name.lower()
    # Releases of Python differ in what they make of earlier values that are no positive numbers.
    if not all(type(value) is int and value > 0 for value in earlier):
        return None
    largest = max((value for value in earlier if isinstance(value, int)), default=0)
    return 1 << largest.bit_length() if base.name in {"Flag", "IntFlag"} else largest + 1


def enumeration_members(cls: Class) -> list[object] | None:
    """Return the members of an enumeration, None if the class is none."""
    if not any(isinstance(ancestor, EnumBase) for ancestor in cls.ancestry()):
        return None
    # A name whose value is not known may be a member, too.
    kinds = (Member, _IntMember, _StrMember)
    known_members: list[object] = [value for value in cls.names.values() if isinstance(value, kinds)]
    return known_members if all(not isinstance(value, NotKnown) for value in cls.names.values()) else None


def by_value(cls: Class, args: list[object]) -> object:
    """Return the member that calling an enumeration gives, unknown if that is not known; None if the class is none."""
    candidates = enumeration_members(cls)
    if not any(isinstance(member, EnumBase) for member in cls.ancestry()):
        return None
    if candidates is None or len(args) != 1 or isinstance(args[0], NotKnown):
        return NotKnown(f"{cls.name}()")
    for member in candidates:
        if member is args[0] or getattr(member, "value", member) == args[0]:
            return member
    # Flags have members that are combined of others.
    if cls.find("_missing_") is not None or _is_flag(cls) or not is_concrete([args[0], *map(_value_of, candidates)]):
        return NotKnown(f"{cls.name}({args[0]!r})")
    raise thrown(ValueError, f"{args[0]!r} is not a valid {cls.qualified or cls.name}")


def _is_flag(cls: Class) -> bool:
    return any(isinstance(base, EnumBase) and base.name.endswith("Flag") for base in cls.ancestry())


def _value_of(member: object) -> object:
    return getattr(member, "value", member)


class _IntMember(int):
    is_plain = True
    name: str
    value: object


def int_member(name: str, value: int) -> int:
    """Return a member of an enumeration of numbers."""
    made = _IntMember(value)
    made.name, made.value = name, value
    return made


class _StrMember(str):
    is_plain = True
    name: str
    value: object

    __slots__ = ("name", "value")


def _mix_in(cls: Class, kind: type, name: str, value: object) -> object:
    made: _IntMember | _StrMember
    # What a method of the package sets on a member is not remembered for these.
    if cls.find("__init__") is not None or cls.find("__new__") is not None:
        return NotKnown(name)
    if kind is int and type(value) is int:
        made = _IntMember(value)
    elif kind is str and type(value) is str:
        made = _StrMember(value)
    else:
        return NotKnown(name)
    made.name, made.value = name, value
    return made


def _make_enum(_machine: PythonMachine) -> object:
    bases = {name: EnumBase(name, _KINDS.get(name)) for name in (*_PLAIN, *_KINDS)}
    same = Native("enum.unique", lambda _m, args, _k: args[0] if args else None)
    return Namespace("enum", {**bases, "unique": same, "verify": NotKnown("enum.verify")})


MODELS: dict[str, Callable[[PythonMachine], object]] = {"enum": _make_enum}
"""Modules by name."""
