"""Methods and constructors of Python's own types, on values that are known."""

from __future__ import annotations

import ast
import functools
import inspect
import string
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import PurePath
from typing import Final

from abiscan.python.interpreter import special
from abiscan.python.interpreter.cost import (
    count_parts,
    may_format_grow,
    may_method_grow,
    size_of_filled,
    size_of_joined,
)
from abiscan.python.interpreter.iteration import Lazy
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled
from abiscan.python.interpreter.operations import (
    FAITHFUL,
    as_member,
    attempt_exactly,
    attempt_operation,
    describe_value,
    in_range,
    make_text,
)
from abiscan.python.interpreter.values import (
    ABSENT,
    EVERYDAY,
    VIEWS,
    Class,
    Instance,
    MoreItems,
    NotKnown,
    PythonError,
    RemainingItems,
    Thrown,
    as_key,
    as_scalar,
    is_concrete,
    known_length,
    more_items,
    note_added,
    note_removed,
    thrown,
)

_OPERATORS: dict[str, ast.operator] = {f"__{name}__": op() for op, (name, _) in special.OPERATORS.items()}
_IN_PLACE: Final[dict[str, ast.operator]] = {f"__i{name}__": op() for op, (name, _) in special.OPERATORS.items()}
_CHARACTERS_PER_PART = 8
_TYPE_METHODS = {"__new__", "__init__", "maketrans", "mro", "fromkeys"}
ADDING: Final = frozenset({
    "add", "append", "extend", "insert", "setdefault", "symmetric_difference_update", "update",
})  # fmt: skip
REMOVING: Final = frozenset({
    "clear", "difference_update", "discard", "insert", "intersection_update", "pop", "popitem", "remove", "reverse",
    "sort", "symmetric_difference_update",
})  # fmt: skip
"""Methods that remove items, or move those of a list."""
CHANGING: Final = ADDING | REMOVING
"""Methods that change their container."""


class HostMethod(Modelled):
    """A method of a known value: ``"a,b".split``."""

    __slots__ = ("name", "value")

    def __init__(self, value: object, name: str) -> None:
        self.value, self.name = value, name

    @property
    def binds(self) -> bool:
        """Whether it gets the object that it is taken from, as that of a type: ``__setattr__ = dict.__setitem__``."""
        return isinstance(self.value, type) and inspect.ismethoddescriptor(getattr(self.value, self.name))

    def display_name(self) -> str:
        """Return the method with its receiver."""
        return f"{describe_value(self.value)}.{self.name}"

    def call(self, machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
        """Call the method, if all that it needs is known."""
        # If it is unknown whether the code runs at all, a change leaves the items of a container unknown.
        if machine.is_speculative and isinstance(self.value, (list, dict, set)) and self.name in CHANGING:
            note_call(self.value, self.name)
            if isinstance(self.value, dict) and self.name == "update":
                for key in chain(kwargs, *(argument for argument in args if isinstance(argument, dict))):
                    special.set_item(machine, self.value, key, None)
            return NotKnown(self.display_name() + "()")
        if self.value is dict and self.name == "fromkeys":
            return _dict_from_keys(machine, self.value, args, kwargs)
        # ``list.append(x, 1)`` is ``x.append(1)``.
        receiver = special.plain_value(args[0]) if args and isinstance(self.value, type) else self.value
        if receiver is not self.value and isinstance(receiver, self.value) and self.name not in _TYPE_METHODS:  # type: ignore[arg-type]
            return HostMethod(receiver, self.name).call(machine, args[1:], kwargs)
        result = _call_operator(machine, self.value, self.name, args)
        if result is not ABSENT:
            return result
        # Containers may hold values that are not known, so their methods are modelled. For all that follows, every part
        # must be known, and the result must not be huge.
        method = _METHODS.get((type(self.value), self.name))
        if method is not None:
            try:
                return method(machine, self.value, args, kwargs)
            except Thrown:
                if id(self.value) in machine.perhaps_longer:
                    return NotKnown(self.display_name() + "()")
                raise
        if self.name == "join" and isinstance(self.value, (str, bytes)) and len(args) == 1:
            items = machine.items(args[0])
            args = [list(map(as_scalar, items)) if isinstance(items, list) else items]
        return self._call_real(machine, args, kwargs)

    def _call_real(self, machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
        # A real method cannot look at objects of the package: a format asks their methods here, any other gets the
        # built-in value behind them and may call what they define.
        if any(map(special.is_own, (*args, *kwargs.values()))):
            if self.name == "format" and isinstance(self.value, str) and "[" not in self.value:
                return _model_format(machine, self.value, args, kwargs)
            machine.note_possible_uses(NotKnown(self.display_name()), [*args, *kwargs.values()])
            args = [special.plain_value(argument) for argument in args]
        if not (is_concrete(self.value) and is_concrete(args) and is_concrete(kwargs)):
            unknown = next(
                (argument for argument in (self.value, *args, *kwargs.values()) if isinstance(argument, NotKnown)), None
            )
            name = self.display_name() + "()"
            if isinstance(self.value, (list, dict, set)):
                note_call(self.value, self.name)
            if isinstance(self.value, str) and self.name == "format":
                size = functools.partial(size_of_filled, self.value, "{")
                return make_text(name, _format_text, self.value, kwargs, *args, size=lambda parts: size(parts[1:]))
            if isinstance(self.value, str) and self.name == "join":
                size = functools.partial(size_of_joined, self.value)
                return make_text(name, _join_texts, self.value, *args, size=lambda parts: size(parts[1:]))
            return NotKnown(name, unknown.why) if unknown else NotKnown(name)
        if isinstance(self.value, (str, bytes)):
            count_parts(len(self.value) // _CHARACTERS_PER_PART)
        if may_method_grow(self.value, self.name, args, kwargs):
            return NotKnown(self.display_name() + "()")
        return attempt_operation(lambda: self.display_name() + "()", getattr(self.value, self.name), *args, **kwargs)


def _call_operator(machine: PythonMachine, value: object, name: str, args: list[object]) -> object:
    """Call the method behind an operator, which does what that does; ABSENT for any other method."""
    if len(args) == 2 and name == "__setitem__":
        special.set_item(machine, value, *args)
        return None
    if len(args) != 1:
        return ABSENT
    if name == "__delitem__":
        special.delete_item(machine, value, args[0])
        return None
    if name == "__contains__":
        there = special.contains_item(machine, value, args[0])
        return NotKnown(f"{describe_value(value)}.{name}()") if there is None else there
    if name in _OPERATORS:
        return special.apply_binary(machine, _OPERATORS[name], value, args[0])
    if name in _IN_PLACE and isinstance(value, (list, dict, set)):
        return special.in_place(machine, _IN_PLACE[name], value, args[0])
    return ABSENT


def note_call(value: list[object] | dict[object, object] | set[object], name: str) -> None:
    """Note what a method may do to its container, where it may not have been called, or with what is not known."""
    if name in REMOVING:
        note_removed(value)
    if name in ADDING:
        note_added(value)


def types_with(name: str) -> frozenset[type]:
    """Return the types of containers and texts that have a method of their own by that name."""
    return frozenset(cls for cls in _PUBLIC if name in _PUBLIC[cls])


_PUBLIC: Final[dict[type, frozenset[str]]] = {
    cls: frozenset(name for name in dir(cls) if not name.startswith("_"))
    for cls in (str, bytes, list, tuple, dict, set, frozenset)
}


def call_quickly(value: str, name: str, args: list[object]) -> object:
    """Call a method of a text that is one of ``QUICK``; ABSENT where that takes a closer look."""
    if len(value) > _LARGE_TEXT or not EVERYDAY.issuperset(map(type, args)):
        return ABSENT
    try:
        return getattr(value, name)(*args)
    except (TypeError, *FAITHFUL):
        return ABSENT


OF_ONE_ITEM: Final = frozenset({"add", "append", "discard", "get", "setdefault"})
"""Methods that go through a container only to find out that an item is not in it."""
QUICK: Final = frozenset({
    "capitalize", "casefold", "count", "endswith", "find", "index", "isalnum", "isalpha", "isascii", "isdecimal",
    "isdigit", "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "lower",
    "lstrip", "partition", "removeprefix", "removesuffix", "rpartition", "rsplit", "rstrip", "split", "splitlines",
    "startswith", "strip", "swapcase", "title", "upper",
})  # fmt: skip
"""Methods of texts that give nothing large, and look at plain arguments alone."""
_LARGE_TEXT: Final = 4_096


def _format_text(template: str, kwargs: dict[str, object], *args: object) -> str:
    return template.format(*args, **kwargs)


def _join_texts(between: str, parts: list[object]) -> str:
    return between.join(map(str, parts))


# ---- methods that take values that are not known, too

Method = Callable[[PythonMachine, object, list[object], dict[str, object]], object]


def _model_append(_machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, list)
    if args and len(value) < 100_000:
        value.append(args[0])
    return None


def _model_extend(machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, list)
    value.extend(more_items(machine.items(args[0]) if args else [])[:100_000])
    return None


def _model_insert(_machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, list)
    if len(args) == 2 and isinstance(args[0], int):
        value.insert(args[0], args[1])
    return None


def _model_pop(_machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, list)
    if known_length(value) is None or not is_concrete(args):
        note_removed(value)
        return NotKnown("list.pop()")
    return attempt_operation("list.pop()", value.pop, *args)


def _index_of_item(machine: PythonMachine, value: list[object], item: object) -> int | None:
    """Return where an item is in a list, -1 if it is not there, None if that is not known."""
    for index, entry in enumerate(value):
        same = None if isinstance(entry, NotKnown) else special.equal(machine, entry, item)
        if same is None:
            return None
        if same:
            return index
    return -1


def _model_remove(machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, list)
    place = _index_of_item(machine, value, args[0]) if len(args) == 1 else None
    if place is None:
        note_removed(value)
    elif place < 0:
        raise thrown(ValueError, "list.remove(x): x not in list")
    else:
        del value[place]
    return None


def _model_index(machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, list)
    place = _index_of_item(machine, value, args[0]) if len(args) == 1 else None
    if place is not None and place < 0:
        if machine.since(3, 14):
            raise thrown(ValueError, "list.index(x): x not in list")
        words = f"{describe_value(args[0])} is not in list"
        raise thrown(ValueError, words if machine.before(3, 14) else NotKnown(words))
    return NotKnown("list.index()") if place is None else place


def _model_count(machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, list)
    answers = [special.equal(machine, item, args[0]) for item in value] if len(args) == 1 else [None]
    return NotKnown("list.count()") if None in answers else sum(map(bool, answers))


def _index_in_range(_machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, range)
    if len(args) != 1 or not is_concrete(args[0]):
        return NotKnown("range.index()")
    member = as_member(args[0])
    if member is not None and member in value:
        return value.index(member)
    # range_index in Objects/rangeobject.c: only a number of type int itself is named.
    named = f"{args[0]} is not in range" if type(args[0]) in {int, bool} else "sequence.index(x): x not in sequence"
    raise thrown(ValueError, named)


def _count_in_range(_machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, range)
    if len(args) != 1 or not is_concrete(args[0]):
        return NotKnown("range.count()")
    return int(in_range(value, args[0]))


def _model_sort(machine: PythonMachine, value: object, args: list[object], kwargs: dict[str, object]) -> object:
    assert isinstance(value, list)
    result = sort_values(machine, value, args, kwargs)
    if isinstance(result, list):
        value[:] = result
    return None


def sort_values(machine: PythonMachine, values: list[object], _args: list[object], kwargs: dict[str, object]) -> object:
    """Return ``sorted(values, key=…, reverse=…)``."""
    key = kwargs.get("key")
    keys = values if key is None else [machine.call(key, [value], {}) for value in values]
    if known_length(values) is None:
        return NotKnown("sorted()")
    if not is_concrete(keys):
        return _by_comparing(machine, values, keys, reverse=bool(kwargs.get("reverse")))
    order = attempt_exactly(
        "sorted()",
        lambda *plain_keys: sorted(
            range(len(plain_keys)), key=plain_keys.__getitem__, reverse=bool(kwargs.get("reverse"))
        ),
        *keys,
    )
    return [values[index] for index in order] if isinstance(order, list) else order


def _by_comparing(machine: PythonMachine, values: list[object], keys: list[object], *, reverse: bool) -> object:
    """Return values in the order of their keys, which classes of the package may compare."""
    # Insertion sort. A value moves to the left only past those that it is less than, so equal ones keep their order, as
    # in list.sort; and as there, ``reverse`` sorts the reversed list and reverses the result.
    order: list[int] = []
    for index in range(len(values) - 1, -1, -1) if reverse else range(len(values)):
        place = len(order)
        while place > 0:
            machine.count_steps()
            less = special.truth_of(
                machine, special.compare_values(machine, ast.Lt(), keys[index], keys[order[place - 1]])
            )
            if less is None:
                return NotKnown("sorted()")
            if not less:
                break
            place -= 1
        order.insert(place, index)
    return [values[index] for index in (reversed(order) if reverse else order)]


def _dict_get(machine: PythonMachine, value: object, args: list[object], kwargs: dict[str, object]) -> object:
    assert isinstance(value, dict)
    default = args[1] if len(args) > 1 else kwargs.get("default")
    key = special.find_key(machine, value, args[0]) if args else NotKnown("key")
    if key is ABSENT:
        return default
    return NotKnown(f"{describe_value(value)}.get()") if isinstance(key, NotKnown) else value[key]


def _dict_pop(machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, dict)
    key = special.find_key(machine, value, args[0]) if args else NotKnown("key")
    if key is ABSENT and len(args) == 1:
        raise thrown(KeyError, args[0])
    if key is ABSENT:
        return args[1]
    if isinstance(key, NotKnown):
        note_removed(value)
        return NotKnown("dict.pop()")
    return value.pop(key)


def _dict_setdefault(machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, dict)
    key = special.find_key(machine, value, args[0]) if args else NotKnown("key")
    if key is ABSENT:
        return value.setdefault(as_key(args[0]), args[1] if len(args) > 1 else None)
    return NotKnown("dict.setdefault()") if isinstance(key, NotKnown) else value[key]


def _dict_from_keys(machine: PythonMachine, _value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    keys = machine.items(args[0]) if args else NotKnown("dict.fromkeys()")
    if isinstance(keys, NotKnown):
        return keys
    made: dict[object, object] = {}
    for key in keys:
        made[special.hashed_key(machine, made, key)] = args[1] if len(args) > 1 else None
    return made


def _set_discard(machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, set)
    key = special.find_key(machine, value, args[0]) if args else NotKnown("set.discard()")
    if isinstance(key, NotKnown) and key is not ABSENT:
        note_removed(value)
    else:
        value.discard(key)
    return None


def _set_remove(machine: PythonMachine, value: object, args: list[object], kwargs: dict[str, object]) -> object:
    assert isinstance(value, set)
    if args and special.find_key(machine, value, args[0]) is ABSENT:
        raise thrown(KeyError, args[0])
    return _set_discard(machine, value, args, kwargs)


def _dict_update(machine: PythonMachine, value: object, args: list[object], kwargs: dict[str, object]) -> object:
    assert isinstance(value, dict)
    for argument in args:
        if not fill_dict(machine, value, argument):
            value[argument if isinstance(argument, NotKnown) else NotKnown("dict.update()")] = NotKnown("dict.update()")
    value.update(kwargs)
    return None


def _set_add(machine: PythonMachine, value: object, args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, set)
    if args:
        value.add(special.hashed_key(machine, value, args[0]))
    return None


def _set_update(machine: PythonMachine, value: object, args: list[object], kwargs: dict[str, object]) -> object:
    return _for_items(machine, value, args, kwargs, "update", _set_add)


def _set_difference_update(
    machine: PythonMachine, value: object, args: list[object], kwargs: dict[str, object]
) -> object:
    return _for_items(machine, value, args, kwargs, "difference_update", _set_discard)


def _for_items(
    machine: PythonMachine, value: object, args: list[object], kwargs: dict[str, object], name: str, method: Method
) -> object:
    """Do to a set, for the items of each argument, what the method for one of them does."""
    assert isinstance(value, set)
    if is_concrete(value) and is_concrete(args):
        if may_method_grow(value, name, args, kwargs):
            note_call(value, name)
            return None
        return attempt_operation(f"set.{name}()", getattr(value, name), *args)
    for items in map(machine.items, args):
        for item in [items] if isinstance(items, NotKnown) else items:
            if isinstance(item, MoreItems) or item is items:
                note_call(value, name)
            else:
                method(machine, value, [item], kwargs)
    return None


def _model_format(machine: PythonMachine, value: object, args: list[object], kwargs: dict[str, object]) -> object:
    """Execute ``str.format`` with objects of the package, whose own methods make their texts."""
    if not isinstance(value, str) or may_format_grow(value):
        return NotKnown("str.format()")
    parts: list[object] = []
    automatic = iter(args)
    for literal, field, spec, conversion in attempt_operation(
        "str.format()", lambda: list(string.Formatter().parse(value))
    ):  # type: ignore[attr-defined]
        parts.append(literal)
        if field is None:
            continue
        # ``{}`` takes the next argument, ``{0.name}`` an attribute of one by its position.
        name, _, trailing = field.partition(".")
        part = next(automatic, None) if not name else args[int(name)] if name.isdigit() else kwargs.get(name)
        for attribute in trailing.split(".") if trailing else ():
            part = machine.get_attribute(part, attribute)
        parts.append(
            special.repr_of(machine, part) if conversion == "r" else special.format_value(machine, part, spec or "")
        )
    return make_text("str.format()", lambda *texts: "".join(map(str, texts)), *parts)


def _model_reverse(_machine: PythonMachine, value: object, _args: list[object], _kwargs: dict[str, object]) -> object:
    assert isinstance(value, list)
    if RemainingItems in map(type, value):
        note_removed(value)
    else:
        value.reverse()
    return None


def _own_method(name: str) -> Method:
    """Return what calls a method of a container that takes nothing, and that does not depend on what is inside."""
    return lambda _machine, value, _args, _kwargs: getattr(value, name)()


_METHODS: dict[tuple[type, str], Method] = {
    (list, "append"): _model_append,
    (list, "extend"): _model_extend,
    (list, "insert"): _model_insert,
    (list, "sort"): _model_sort,
    (list, "copy"): lambda _m, value, _a, _k: list(value),  # type: ignore[call-overload]
    (list, "clear"): _own_method("clear"),
    (list, "pop"): _model_pop,
    (list, "remove"): _model_remove,
    (list, "index"): _model_index,
    (list, "count"): _model_count,
    (list, "reverse"): _model_reverse,
    (range, "index"): _index_in_range,
    (range, "count"): _count_in_range,
    (dict, "get"): _dict_get,
    (dict, "pop"): _dict_pop,
    (dict, "setdefault"): _dict_setdefault,
    (dict, "update"): _dict_update,
    **{(dict, name): _own_method(name) for name in ("keys", "values", "items", "clear")},
    (dict, "copy"): lambda _m, value, _a, _k: dict(value),  # type: ignore[call-overload]
    (dict, "fromkeys"): _dict_from_keys,
    (set, "add"): _set_add,
    (set, "discard"): _set_discard,
    (set, "remove"): _set_remove,
    (set, "update"): _set_update,
    (set, "difference_update"): _set_difference_update,
}


_BY_NAME: Final[dict[str, dict[type, Method]]] = {}
for (_cls, _name), _method in _METHODS.items():
    _BY_NAME.setdefault(_name, {})[_cls] = _method


def models_of(name: str) -> Mapping[type, Method]:
    """Return what stands for the methods of a name, by the types of their values."""
    return _BY_NAME.get(name, {})


# ---- constructors


def construct_built_in(machine: PythonMachine, cls: type, args: list[object], kwargs: dict[str, object]) -> object:
    """Call a built-in type."""
    # First the types that take values which are not known, then objects of the package, whose methods say what number
    # or path they are. Everything else must be known.
    if issubclass(cls, BaseException):
        return PythonError(cls, tuple(args), dict(kwargs))
    if cls is type and len(args) in {1, 3}:
        return type_of(args[0]) if len(args) == 1 else machine.derive_class(args, kwargs)
    if cls in {list, tuple, set, frozenset} and args:
        return _collect_items(machine, cls, args[0])
    if cls is dict:
        return _model_dict(machine, args, kwargs)
    if cls is str and args:
        return special.text(machine, args[0]) if len(args) == 1 else NotKnown("str()")
    if cls is bool and args:
        is_true = special.truth_of(machine, args[0])
        return NotKnown(f"bool({describe_value(args[0])})") if is_true is None else is_true
    numbers = [argument for argument in args if type(argument) is int] if cls is range else []
    if 0 < len(numbers) == len(args) < _WITH_STEP:
        return range(*numbers)
    if cls is range or issubclass(cls, PurePath):
        args = [(_as_whole_number if cls is range else special.as_path)(machine, argument) for argument in args]
    if args and special.is_own(args[0]):
        made = special.convert_by(machine, args[0], _CONVERTING.get(cls, ()))
        if made is not ABSENT:
            return made
        args = [special.plain_value(args[0]), *args[1:]]
    if is_concrete(args) and is_concrete(kwargs) and not may_method_grow(cls, cls.__name__, args, kwargs):
        has_exact_errors = cls in {int, float, complex} or hasattr(cls, "_fields")
        make = attempt_exactly if not kwargs and has_exact_errors else attempt_operation
        return make(f"{cls.__name__}()", cls, *args, **kwargs)
    unknown = next((argument for argument in args if isinstance(argument, NotKnown)), None)
    name = f"{cls.__name__}({', '.join(describe_value(argument) for argument in args)})"
    return NotKnown(name, unknown.why) if unknown else NotKnown(name)


_WITH_STEP: Final = 3
"""How many arguments ``range`` takes where a step is one of them, which must not be zero."""


def _as_whole_number(machine: PythonMachine, value: object) -> object:
    """Return a value as a whole number, where its class says how."""
    made = special.convert_by(machine, value, ("__index__",)) if special.is_own(value) else ABSENT
    return as_scalar(value) if made is ABSENT else made


def _collect_items(machine: PythonMachine, cls: type, source: object) -> object:
    """Return a list, tuple or set of what an iterable gives."""
    items = machine.items(source)
    if isinstance(items, NotKnown):
        return items
    items += special.marks_in(source)
    return make_set(machine, cls, items) if cls in {set, frozenset} else attempt_operation(cls.__name__, cls, items)


_CONVERTING: dict[type, tuple[str, ...]] = {
    int: ("__int__", "__index__", "__trunc__"),
    float: ("__float__", "__index__"),
    complex: ("__complex__", "__float__", "__index__"),
    bytes: ("__bytes__",),
}
"""The methods by which an object becomes one of a built-in type."""


def make_set(machine: PythonMachine, cls: type, items: list[object]) -> object:
    """Return a set of items."""
    if is_concrete(items) and not any(isinstance(item, (list, tuple, dict, set, slice, *VIEWS)) for item in items):
        return attempt_operation(cls.__name__, cls, items)
    members: set[object] = set()
    for item in items:
        members.add(special.hashed_key(machine, members, item))
    return cls(members)


def _model_dict(machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
    made: dict[object, object] = {}
    # A mapping that is modelled knows what it holds, although not all of that: ``dict(os.environ)``.
    if len(args) == 1 and isinstance(args[0], Modelled) and not isinstance(args[0], Lazy):
        copied = machine.call(machine.get_attribute(args[0], "copy"), [], {})
        if kwargs:
            machine.call(machine.get_attribute(copied, "update"), [], kwargs)
        return copied
    if args and not fill_dict(machine, made, args[0]):
        return NotKnown("dict()")
    made.update(kwargs)
    return made


def fill_dict(machine: PythonMachine, made: dict[object, object], source: object) -> bool:
    """Put the items of a mapping, or pairs, into a dict; False if they are not known."""
    # As dict_update_arg (Objects/dictobject.c): what has ``keys`` is a mapping, anything else gives pairs.
    source = special.plain_value(source) if isinstance(special.plain_value(source), dict) else source
    if isinstance(source, dict):
        made.update(source)
        return True
    if special.is_own(source) and (keys := special.special_method(machine, source, "keys")) is not None:
        names = machine.items(machine.call(keys, [], {}))
        if isinstance(names, NotKnown):
            return False
        for name in names:
            made[special.hashed_key(machine, made, name)] = special.get_item(machine, source, name)
        return True
    pairs = machine.items(source)
    for pair in [pairs] if isinstance(pairs, NotKnown) else pairs:
        both = pair if isinstance(pair, (tuple, list)) else machine.items(pair)
        if isinstance(both, NotKnown) or len(both) != 2 or isinstance(both[0], (list, dict, set)):
            return False
        made[special.hashed_key(machine, made, both[0])] = both[1]
    if special.marks_in(source):
        note_added(made)
    return True


def type_of(value: object) -> object:
    """Return ``type(value)``."""
    if isinstance(value, Instance):
        return value.cls
    if isinstance(value, PythonError):
        return value.cls
    if isinstance(value, Class):
        return value.metaclass or type
    if isinstance(value, NotKnown):
        return NotKnown(f"type({value.name})", value.why, ("type", value.key))
    # A container is one whatever is in it.
    is_known = type(value) in (list, tuple, dict, set, frozenset) or is_concrete(value)
    return type(value) if is_known else NotKnown(f"type({describe_value(value)})")
