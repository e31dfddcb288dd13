"""Methods and constructors of Python's own types, on values that are known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from abiscan.python.machine import PythonMachine
from abiscan.python.modelled import Modelled
from abiscan.python.operations import attempt, contains, described
from abiscan.python.values import (
    Class,
    Further,
    Instance,
    NotKnown,
    Perhaps,
    PythonError,
    PythonFunction,
    changed,
    concrete,
    further,
    length,
    thrown,
)

_WIDTHS = {"ljust", "rjust", "center", "zfill", "expandtabs", "to_bytes"}
_CHANGING = {
    "add", "append", "clear", "difference_update", "discard", "extend", "insert", "intersection_update", "pop",
    "popitem", "remove", "reverse", "setdefault", "sort", "symmetric_difference_update", "update",
}  # fmt: skip
_CALLING = {"maketrans"}


class HostMethod(Modelled):
    """A method of a known value: ``"a,b".split``."""

    __slots__ = ("name", "value")

    def __init__(self, value: object, name: str) -> None:
        self.value, self.name = value, name

    def described(self) -> str:
        """The method with its receiver."""
        return f"{described(self.value)}.{self.name}"

    def call(self, machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
        """Call it, if all that it needs is known."""
        if machine.perhaps and isinstance(self.value, (list, dict, set)) and self.name in _CHANGING:
            changed(self.value)
            return NotKnown(self.described() + "()")
        special = _SPECIAL.get((type(self.value), self.name))
        if special is not None:
            return special(machine, self.value, args, kwargs)
        if self.name in _WIDTHS and any(isinstance(one, int) and one > 1000 for one in args):
            return NotKnown(self.described() + "()")
        if self.name in {"format", "format_map"} and not _short_fields(self.value):
            return NotKnown(self.described() + "()")
        if isinstance(self.value, (str, bytes)) and args and not isinstance(args[0], (str, bytes, tuple, dict)):
            args = [_listed(machine, args[0]), *args[1:]]
        if not (concrete(self.value) and concrete(args) and concrete(kwargs)):
            unknown = next((one for one in (self.value, *args, *kwargs.values()) if isinstance(one, NotKnown)), None)
            name = self.described() + "()"
            if isinstance(self.value, (list, dict, set)) and self.name in _CHANGING:
                changed(self.value)
            return NotKnown(name, unknown.why) if unknown else NotKnown(name)
        return attempt(self.described() + "()", getattr(self.value, self.name), *args, **kwargs)


def _short_fields(template: object) -> bool:
    """Whether no field of a format string is wide."""
    return not any(len(run) > 3 for run in "".join(c if c.isdigit() else " " for c in str(template)).split())


def _listed(machine: PythonMachine, value: object) -> object:
    return machine.items(value) if not isinstance(value, (int, type(None))) else value


# ---- methods that take values that are not known, too

Method = Callable[[PythonMachine, object, list[object], dict[str, object]], object]


def _append(_machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, list)
    if args and len(value) < 100_000:
        value.append(args[0])
    return None


def _extend(machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, list)
    value.extend(further(machine.items(args[0]) if args else [])[:100_000])
    return None


def _insert(_machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, list)
    if len(args) == 2 and isinstance(args[0], int):
        value.insert(args[0], args[1])
    return None


def _pop(_machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, list)
    return NotKnown("list.pop()") if length(value) is None else attempt("list.pop()", value.pop, *args)


def _sort(machine: PythonMachine, value: object, args: list[object], kwargs: dict[str, object]) -> object:
    assert isinstance(value, list)
    result = sort_values(machine, value, args, kwargs)
    if isinstance(result, list):
        value[:] = result
    return None


def sort_values(machine: PythonMachine, values: list[object], _args: list[object], kwargs: dict[str, object]) -> object:
    """``sorted(values, key=…, reverse=…)``."""
    key = kwargs.get("key")
    keys = values if key is None else [machine.call(key, [one], {}) for one in values]
    if not concrete(keys):
        return NotKnown("sorted()")
    order = attempt("sorted()", sorted, range(len(values)), key=keys.__getitem__, reverse=bool(kwargs.get("reverse")))
    return [values[index] for index in order] if isinstance(order, list) else order


def _dict_get(_machine: PythonMachine, value: object, args: list[object], kwargs: dict[str, object]) -> object:
    assert isinstance(value, dict)
    default = args[1] if len(args) > 1 else kwargs.get("default")
    if not args or contains(value, args[0]) is None:
        return NotKnown(f"{described(value)}.get()")
    return value.get(args[0], default)


def _dict_pop(_machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, dict)
    there = contains(value, args[0]) if args else None
    if there:
        return value.pop(args[0])
    if there is False and len(args) == 1:
        raise thrown(KeyError, args[0])
    return args[1] if there is False else NotKnown("dict.pop()")


def _dict_setdefault(_machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, dict)
    if not args or contains(value, args[0]) is None:
        return NotKnown("dict.setdefault()")
    return value.setdefault(args[0], args[1] if len(args) > 1 else None)


def _dict_update(_machine: PythonMachine, value: object, args: list[object], kwargs: dict[str, object]) -> object:
    assert isinstance(value, dict)
    for one in args:
        if isinstance(one, dict):
            value.update(one)
        else:
            value[one if isinstance(one, NotKnown) else NotKnown("dict.update()")] = NotKnown("dict.update()")
    value.update(kwargs)
    return None


def _set_add(_machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, set)
    if args and not isinstance(args[0], (list, dict, set)):
        value.add(args[0])
    return None


def _pairs(value: object) -> list[tuple[object, object]]:
    assert isinstance(value, dict)
    return [pair for pair in value.items() if not isinstance(pair[0], Perhaps)]


_SPECIAL: dict[tuple[type, str], Method] = {
    (list, "append"): _append,
    (list, "extend"): _extend,
    (list, "insert"): _insert,
    (list, "sort"): _sort,
    (list, "copy"): lambda _m, value, _a, _k: list(value),  # type: ignore[call-overload]
    (list, "clear"): lambda _m, value, _a, _k: value.clear(),  # type: ignore[attr-defined]
    (list, "pop"): _pop,
    (list, "reverse"): lambda _m, value, _a, _k: value.reverse(),  # type: ignore[attr-defined]
    (dict, "get"): _dict_get,
    (dict, "pop"): _dict_pop,
    (dict, "setdefault"): _dict_setdefault,
    (dict, "update"): _dict_update,
    (dict, "keys"): lambda _m, value, _a, _k: [key for key, _ in _pairs(value)],
    (dict, "values"): lambda _m, value, _a, _k: [one for _, one in _pairs(value)],
    (dict, "items"): lambda _m, value, _a, _k: _pairs(value),
    (dict, "copy"): lambda _m, value, _a, _k: dict(value),  # type: ignore[call-overload]
    (dict, "clear"): lambda _m, value, _a, _k: value.clear(),  # type: ignore[attr-defined]
    (set, "add"): _set_add,
}


# ---- constructors


def construct(machine: PythonMachine, cls: type, args: list[object], kwargs: dict[str, object]) -> object:
    """Call a built-in type."""
    if issubclass(cls, BaseException):
        return PythonError(cls, tuple(args), dict(kwargs))
    if cls is type and len(args) == 1:
        return type_of(args[0])
    if cls is type and len(args) == 3 and isinstance(args[0], str) and isinstance(args[2], dict):
        bases = machine.items(args[1])
        return Class(args[0], () if isinstance(bases, NotKnown) else tuple(bases), dict(args[2]))
    if cls in {list, tuple, set, frozenset} and args:
        items = machine.items(args[0])
        if isinstance(items, NotKnown):
            return items
        if isinstance(args[0], (list, tuple, set, frozenset)):
            items += [one for one in args[0] if isinstance(one, Perhaps)]
        return attempt(cls.__name__, cls, items)
    if cls is dict:
        return _dict(machine, args, kwargs)
    if cls is str and args:
        return text(machine, args[0]) if len(args) == 1 else NotKnown("str()")
    if cls is bool and args:
        known = truth(args[0])
        return NotKnown(f"bool({described(args[0])})") if known is None else known
    if concrete(args) and concrete(kwargs):
        return attempt(f"{cls.__name__}()", cls, *args, **kwargs)
    unknown = next((one for one in args if isinstance(one, NotKnown)), None)
    name = f"{cls.__name__}({', '.join(described(one) for one in args)})"
    return NotKnown(name, unknown.why) if unknown else NotKnown(name)


def _dict(machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
    made: dict[object, object] = {}
    if args and isinstance(args[0], dict):
        made.update(args[0])
    elif args:
        pairs = machine.items(args[0])
        for pair in [pairs] if isinstance(pairs, NotKnown) else pairs:
            if not (isinstance(pair, (tuple, list)) and len(pair) == 2) or isinstance(pair[0], (list, dict, set)):
                return NotKnown("dict()")
            made[pair[0]] = pair[1]
    made.update(kwargs)
    return made


def type_of(value: object) -> object:
    """``type(value)``."""
    if isinstance(value, Instance):
        return value.cls
    if isinstance(value, PythonError):
        return value.cls
    if isinstance(value, Class):
        return type
    return type(value) if concrete(value) else NotKnown(f"type({described(value)})")


def text(machine: PythonMachine, value: object) -> object:
    """``str(value)``."""
    if (
        isinstance(value, PythonError)
        and isinstance(value.cls, Class)
        and isinstance(value.cls.find("__str__"), PythonFunction)
    ):
        return machine.call(machine.attribute(value, "__str__"), [], {})
    if isinstance(value, PythonError):
        message = value.message()
        return NotKnown(f"str({value.name()})") if message is None else message
    if isinstance(value, Instance) and isinstance(value.cls.find("__str__"), PythonFunction):
        return machine.call(machine.attribute(value, "__str__"), [], {})
    if isinstance(value, str):
        return str.__str__(value)
    if concrete(value) and not isinstance(value, type):
        return attempt("str()", str, value)
    return NotKnown(f"str({described(value)})", value.why) if isinstance(value, NotKnown) else NotKnown("str()")


def truth(value: object) -> bool | None:
    """``bool(value)``, None if that is not known."""
    if isinstance(value, NotKnown):
        return None
    if isinstance(value, Instance):
        known = value.cls.find("__bool__") is None and value.cls.find("__len__") is None and not value.cls.is_open()
        return True if known else None
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        kind = Further if isinstance(value, (list, tuple)) else NotKnown
        return None if value and all(isinstance(one, kind) for one in value) else bool(value)
    if isinstance(value, (str, bytes, int, float, range, type(None), PurePath)):
        return bool(value)
    return True
