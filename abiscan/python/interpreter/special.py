"""Special methods, by the rules of Python's data model.

They are looked up on the type, not on the object; operators ask the right operand first if its class derives from the
left one's; what returns ``NotImplemented`` passes the question on. Operators, built-in functions, loops, conditions,
``with`` and ``match`` all ask here. Source: "Data model" in Python's reference, sections 3.3.1 to 3.3.9.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final

from abiscan.python.interpreter import operations
from abiscan.python.interpreter.cost import count_parts, may_format_grow
from abiscan.python.interpreter.iteration import MOST_ITEMS, Lazy, take_few
from abiscan.python.interpreter.machine import NO_KEYS, PythonMachine
from abiscan.python.interpreter.modelled import Modelled
from abiscan.python.interpreter.operations import describe_value
from abiscan.python.interpreter.values import (
    ABSENT,
    EVERYDAY,
    MORE_ITEMS,
    REMAINING,
    VIEWS,
    Bound,
    Class,
    Deferred,
    Instance,
    MoreItems,
    NotKnown,
    PossibleItems,
    PythonError,
    PythonFunction,
    PythonModule,
    RemainingItems,
    TextOfError,
    Thrown,
    as_key,
    class_of,
    is_concrete,
    keys_behind,
    known_length,
    may_lack_items,
    more_items,
    note_added,
    note_removed,
    thrown,
)

OPERATORS: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("add", "+"),
    ast.Sub: ("sub", "-"),
    ast.Mult: ("mul", "*"),
    ast.MatMult: ("matmul", "@"),
    ast.Div: ("truediv", "/"),
    ast.FloorDiv: ("floordiv", "//"),
    ast.Mod: ("mod", "%"),
    ast.Pow: ("pow", "** or pow()"),
    ast.LShift: ("lshift", "<<"),
    ast.RShift: ("rshift", ">>"),
    ast.BitOr: ("or", "|"),
    ast.BitAnd: ("and", "&"),
    ast.BitXor: ("xor", "^"),
}
"""The binary operators: what is between the underscores of their methods, and how errors name them."""
UNARY: Final[dict[type[ast.unaryop], str]] = {ast.USub: "__neg__", ast.UAdd: "__pos__", ast.Invert: "__invert__"}
COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Eq: ("__eq__", "__eq__"),
    ast.NotEq: ("__ne__", "__ne__"),
    ast.Lt: ("__lt__", "__gt__"),
    ast.LtE: ("__le__", "__ge__"),
    ast.Gt: ("__gt__", "__lt__"),
    ast.GtE: ("__ge__", "__le__"),
}
"""The method of a comparison, and that of the right operand."""


def special_method(machine: PythonMachine, value: object, name: str) -> object:
    """Return a special method of an object, bound to it; None if its class has none, unknown if that is not known."""
    cls = class_of(value)
    if cls is None:
        return None
    method = cls.find(name, ABSENT)
    if method is ABSENT:
        # A base that is not known may have it. What a built-in base has is not asked here: callers go on with the value
        # inside.
        beyond = next((ancestor for ancestor in cls.ancestry() if not isinstance(ancestor, (Class, type))), None)
        return None if beyond is None else NotKnown(f"{describe_value(beyond)}.{name}")
    return machine.bound(method, value, cls)


def is_own(value: object) -> bool:
    """Whether a class of the package says what operators do with a value."""
    return class_of(value) is not None


def plain_value(value: object) -> object:
    """Return a value as the built-in type behind its class has it."""
    return value.inner if isinstance(value, Instance) and value.inner is not None else value


def _call_typed(machine: PythonMachine, name: str, method: object, *args: object) -> object:
    """Call a special method that has to give an object of one type; raise TypeError if it gives another."""
    result = machine.call(method, list(args), {})
    expected = RETURNED[name]
    if isinstance(result, (NotKnown, Instance, Modelled, expected)):
        return result
    text = f"{name} returned non-{expected.__name__} (type {type_name(result)})"
    if name in {"__bool__", "__format__", "__init__"}:
        text = f"{name} should return {expected.__name__}, returned {type_name(result)}"
    raise thrown(TypeError, text)


RETURNED: Final[dict[str, type]] = {
    "__bool__": bool, "__len__": int, "__index__": int, "__int__": int, "__float__": float, "__hash__": int,
    "__str__": str, "__repr__": str, "__format__": str, "__bytes__": bytes, "__fspath__": str, "__complex__": complex,
}  # fmt: skip
"""The methods that have to give an object of one type."""
METHODS: Final = (
    *(f"__{kind}{name}__" for name, _ in OPERATORS.values() for kind in ("", "r", "i")),
    *UNARY.values(),
    *(method for method, _ in COMPARISONS.values()),
    *RETURNED,
    "__abs__", "__aenter__", "__aexit__", "__aiter__", "__anext__", "__await__", "__call__", "__class_getitem__",
    "__contains__", "__delattr__", "__delete__", "__delitem__", "__dir__", "__divmod__", "__rdivmod__", "__enter__",
    "__exit__", "__get__", "__getattr__", "__getattribute__", "__getitem__", "__init__", "__init_subclass__",
    "__instancecheck__", "__iter__", "__missing__", "__mro_entries__", "__new__", "__next__", "__prepare__",
    "__reversed__", "__round__", "__set__", "__set_name__", "__setattr__", "__setitem__", "__subclasscheck__",
    "__trunc__",
)  # fmt: skip
"""The special methods that are called where Python calls them."""


# ---- truth and length


def truth_of(machine: PythonMachine, value: object) -> bool | None:
    """Return ``bool(value)``, None if that is not known."""
    if type(value) in EVERYDAY:
        return bool(value)
    if class_of(value) is None:
        return operations.truth_of(value)
    # Language reference, 3.3.1: without ``__bool__``, ``__len__`` is asked; without both, an object is true.
    for name in ("__bool__", "__len__"):
        method = special_method(machine, value, name)
        if isinstance(method, NotKnown):
            return None
        if method is not None:
            return operations.truth_of(_call_typed(machine, name, method))
    return operations.truth_of(plain_value(value)) if plain_value(value) is not value else True


def size_of(machine: PythonMachine, value: object) -> object:
    """Return ``len(value)``."""
    method = special_method(machine, value, "__len__")
    if isinstance(method, NotKnown):
        return method.part("()")
    if method is not None:
        length_of = _call_typed(machine, "__len__", method)
        if isinstance(length_of, int) and length_of < 0:
            raise thrown(ValueError, "__len__() should return >= 0")
        return length_of
    value = plain_value(value)
    if isinstance(value, Class) and (members := machine.members(value)) is not None:
        return len(members)
    if isinstance(value, _CONTAINERS):
        count = operations.attempt_operation("len()", known_length, value)
        return NotKnown(f"len({describe_value(value)})") if count is None else count
    if isinstance(value, NotKnown):
        return NotKnown(f"len({value.name})", value.why)
    if is_own(value) or isinstance(value, (int, float, PythonFunction, Lazy, type(None))):
        raise thrown(TypeError, f"object of type '{type_name(value)}' has no len()")
    return (
        machine.call(machine.get_attribute(value, "__len__"), [], {})
        if isinstance(value, Modelled)
        else NotKnown("len()")
    )


def type_name(value: object) -> str:
    """Return how errors name the type of a value."""
    cls = class_of(value)
    if cls is not None:
        return cls.name
    if isinstance(value, (Class, type)):
        return "type"
    names: dict[type, str] = {PythonFunction: "function", Bound: "method", PythonModule: "module"}
    return names.get(type(value), type(value).__name__)


# ---- iteration


def iterate_over(machine: PythonMachine, value: object) -> Iterator[object] | NotKnown:
    """Return the items of a value, one after the other, as a loop asks for them."""
    if type(value) in _CONTAINER_TYPES:
        return _of_container(machine, value)
    # In this order: what the package defines, what is not known, iterators, containers, enumerations, what Python
    # refuses, and models.
    value = machine.settle(value)
    if is_own(value):
        iterator = _iterate_own(machine, value)
        if iterator is not None:
            return iterator
        value = plain_value(value)
    if isinstance(value, NotKnown):
        return value
    if isinstance(value, Lazy):
        return value.rest(machine)
    if isinstance(value, _CONTAINERS):
        return _of_container(machine, value)
    if isinstance(value, Class):
        members = machine.members(value)
        return NotKnown(f"list({value.name})") if members is None else iter(members)
    if value is None or isinstance(value, (int, float, PythonFunction, PythonModule, Bound)):
        raise thrown(TypeError, f"'{type_name(value)}' object is not iterable")
    method = machine.get_attribute(value, "__iter__") if isinstance(value, Modelled) else NotKnown("__iter__")
    if not isinstance(method, NotKnown):
        return iterate_over(machine, machine.call(method, [], {}))
    return NotKnown(f"list({describe_value(value)})")


_CONTAINERS: Final = (list, dict, tuple, str, bytes, set, frozenset, range, *VIEWS)
_CONTAINER_TYPES: Final = frozenset(_CONTAINERS)


def _of_container(machine: PythonMachine, value: object) -> Iterator[object] | NotKnown:
    """Return the items of a built-in container."""
    if isinstance(value, list):
        return items_left(machine, value, iter(value))
    if isinstance(value, (str, bytes)):
        return iter(value)
    if may_lack_items(value):
        return iter([MoreItems(REMAINING.name)])
    if isinstance(value, dict):
        return _of_keys(value)
    if isinstance(value, VIEWS):
        return _of_view(machine, value)
    if isinstance(value, tuple):
        items = (item for item in value if type(item) is not PossibleItems)
        return (machine.settle(item) if type(item) is Deferred else item for item in items)
    if isinstance(value, (set, frozenset)):
        return iter(sorted((item for item in value if type(item) is not PossibleItems), key=describe_value))
    assert isinstance(value, range)
    return NotKnown(f"list({describe_value(value)})") if value[MOST_ITEMS:] else iter(value)


def _iterate_own(machine: PythonMachine, value: object) -> Iterator[object] | NotKnown | None:
    """Return the items of an object of the package, None if those are of the built-in type behind its class."""
    method = special_method(machine, value, "__iter__")
    if isinstance(method, NotKnown):
        return method
    if method is not None:
        return _of_iterator(machine, machine.call(method, [], {}))
    if plain_value(value) is not value or isinstance(value, Class):
        return None
    # The old protocol: ``__getitem__`` with 0, 1, 2 … until it raises IndexError (PySeqIter_New in
    # Objects/iterobject.c).
    method = special_method(machine, value, "__getitem__")
    if method is None:
        raise thrown(TypeError, f"'{type_name(value)}' object is not iterable")
    return _by_index(machine, method)


def items_left(machine: PythonMachine, values: list[object], items: Iterator[object]) -> Iterator[object]:
    """Yield those of the items of a list that an iterator of it has left: a loop sees what its body appends."""
    for item in items:
        kind = type(item)
        if kind is RemainingItems or type(values[0]) is RemainingItems:
            yield MoreItems(REMAINING.name)
            return
        if kind is Deferred:
            yield machine.settle(item)
        elif kind is not PossibleItems:
            yield item


def marks_in(value: object) -> list[object]:
    """Return the marks of what may have been added to a container."""
    inside = keys_behind(value)
    return [item for item in inside if isinstance(item, PossibleItems)] if isinstance(inside, _MARKED) else []


_MARKED: Final = (list, tuple, set, frozenset, dict, VIEWS[0])


def _of_view(machine: PythonMachine, view: Any) -> Iterator[object]:
    mapping = view.mapping
    keys = _of_keys(mapping)
    if isinstance(view, VIEWS[0]):
        return keys
    if isinstance(view, VIEWS[2]):
        return ((key, mapping[key]) for key in keys)
    values = (mapping[key] for key in keys)
    return (machine.settle(item) if type(item) is Deferred else item for item in values)


def _of_keys(values: Mapping[object, object]) -> Iterator[object]:
    # The marks of what may have been changed are no change which Python would see.
    keys, count = list(values), len(values)
    for key in keys:
        if len(values) != count and MORE_ITEMS.isdisjoint(map(type, values)):
            raise thrown(RuntimeError, "dictionary changed size during iteration")
        if type(key) is not PossibleItems:
            yield key
    if len(values) != count and keys and MORE_ITEMS.isdisjoint(map(type, values)):
        raise thrown(RuntimeError, "dictionary changed size during iteration")


def _of_iterator(machine: PythonMachine, value: object) -> Iterator[object] | NotKnown:
    """Return the items of what ``__iter__`` gives."""
    method = special_method(machine, value, "__next__")
    if isinstance(method, NotKnown):
        return method
    if method is None:
        return iterate_over(machine, value) if not is_own(value) else _no_iterator(value)
    return _call_until(machine, method, [], StopIteration)


def _no_iterator(value: object) -> NotKnown:
    raise thrown(TypeError, f"iter() returned non-iterator of type '{type_name(value)}'")


def _call_until(
    machine: PythonMachine, method: object, args: list[object], end: type[BaseException]
) -> Iterator[object]:
    """Yield what a function gives, call after call, until it raises."""
    while True:
        machine.count_steps()
        # A load inside of ``__next__`` whose error is the end of the iteration is guarded.
        machine.guards.append((end,))
        try:
            item = machine.call(method, args, {})
        except Thrown as error:
            if end not in error.failure.ancestry():
                raise
            return
        finally:
            machine.guards.pop()
        yield item


def _by_index(machine: PythonMachine, method: object) -> Iterator[object]:
    index = 0
    while True:
        items_found = list(_first_items(_call_until(machine, method, [index], IndexError)))
        if not items_found:
            return
        yield items_found[0]
        index += 1


def _first_items(source: Iterator[object]) -> Iterator[object]:
    for item in source:
        yield item
        return


def items_of(machine: PythonMachine, value: object) -> list[object] | NotKnown:
    """Return all that iterating over a value gives."""
    if isinstance(value, _CONTAINERS) and not isinstance(value, range) and len(value) > MOST_ITEMS:
        return NotKnown(f"list({describe_value(value)})")
    source = iterate_over(machine, value)
    if isinstance(source, NotKnown):
        return source
    items_found = take_few(source)
    if items_found is None:
        machine.gap(f"{describe_value(value)} gives more than {MOST_ITEMS} items")
        return NotKnown(f"list({describe_value(value)})")
    machine.count_steps(len(items_found))
    return items_found


def next_item(machine: PythonMachine, value: object) -> object:
    """Return ``next(value)``."""
    if isinstance(value, Lazy):
        return value.advance(machine)
    method = special_method(machine, value, "__next__")
    if method is not None:
        return machine.call(method, [], {})
    if isinstance(value, NotKnown):
        return value.part("[0]")
    if isinstance(value, (tuple, dict, str, bytes, set, frozenset, range, int, type(None), *VIEWS)) or is_own(value):
        raise thrown(TypeError, f"'{type_name(value)}' object is not an iterator")
    if isinstance(value, list):  # what the models give for an iterator
        if not value:
            raise thrown(StopIteration)
        return value.pop(0)
    return NotKnown(f"next({describe_value(value)})")


# ---- operators


def apply_binary(machine: PythonMachine, op: ast.operator, left: object, right: object) -> object:
    """Return ``left OP right``."""
    if isinstance(op, ast.Mod) and isinstance(left, str):
        right = _filled_in(machine, right)
    if class_of(left) is None and class_of(right) is None:
        return operations.apply_binary(op, left, right)
    name, sign = OPERATORS[type(op)]
    result = _ask_operands(machine, left, f"__{name}__", right, f"__r{name}__")
    if result is not NotImplemented:
        return result
    plain_result = (
        operations.apply_binary(op, plain_value(left), plain_value(right)) if _has_plain(left, right) else None
    )
    if plain_result is not None:
        return plain_result
    if isinstance(op, ast.BitOr) and all(isinstance(operand, (Class, type, type(None))) for operand in (left, right)):
        return NotKnown(f"{describe_value(left)} | {describe_value(right)}")  # a union of types
    text = f"unsupported operand type(s) for {sign}: '{type_name(left)}' and '{type_name(right)}'"
    raise thrown(TypeError, text)


def _filled_in(machine: PythonMachine, value: object) -> object:
    """Return what ``%`` fills into a text, with the texts of objects of the package."""
    if isinstance(value, tuple) and any(map(is_own, value)):
        return tuple(text(machine, part) if is_own(part) else part for part in value)
    if isinstance(value, dict) and any(map(is_own, value.values())):
        return {key: text(machine, part) if is_own(part) else part for key, part in value.items()}
    inner = plain_value(value)
    return text(machine, value) if is_own(value) and (inner is value or isinstance(inner, str)) else value


def in_place(machine: PythonMachine, op: ast.operator, left: object, right: object) -> object:
    """Return what ``left OP= right`` makes of the left operand."""
    method = special_method(machine, left, f"__i{OPERATORS[type(op)][0]}__")
    if method is not None:
        result = machine.call(method, [right], {})
        if result is not NotImplemented:
            return result
    inner = plain_value(left)
    if inner is not left and isinstance(inner, (list, dict, set)):
        made = in_place(machine, op, inner, right)
        return left if made is inner else made
    if isinstance(left, list) and isinstance(op, ast.Add):
        machine.call(machine.get_attribute(left, "extend"), [right], {})
        return left
    if isinstance(left, (dict, set, Modelled)) and isinstance(op, ast.BitOr):
        update = machine.get_attribute(left, "update")
        if not isinstance(update, NotKnown):
            machine.call(update, [right], {})
            return left
    made = apply_binary(machine, op, left, right)
    # Other names that stand for it see the change.
    if not isinstance(left, (list, set)) or not isinstance(made, (NotKnown, type(left))):
        return made
    if isinstance(made, NotKnown) or machine.is_speculative:
        note_removed(left)
        note_added(left)
    else:
        left.clear()
        (left.extend if isinstance(left, list) else left.update)(made)
    return left


def _has_plain(left: object, right: object) -> bool:
    """Whether both are what built-in types have an operator for, or are not known."""
    return not is_own(plain_value(left)) and not is_own(plain_value(right))


def _ask_operands(machine: PythonMachine, left: object, method: str, right: object, reflected: str) -> object:
    """Return what the operands make of an operator; NotImplemented if neither knows it."""
    # As binary_op1 (Objects/abstract.c) and do_richcompare (Objects/object.c): the left operand, then the right one by
    # the reflected method. The right one goes first if its class derives from the left one's and says something else.
    asked = [(left, method, right), (right, reflected, left)]
    kinds = class_of(left), class_of(right)
    if kinds[0] is kinds[1] and kinds[0] is not None and method != reflected and not method.startswith(_RICH):
        asked = asked[:1]  # an operator between objects of one class asks once
    elif kinds[0] is not None and kinds[1] is not None and _goes_first(kinds[1], kinds[0], reflected):
        asked.reverse()
    for receiver, name, operand in asked:
        member = special_method(machine, receiver, name)
        if member is None:
            if isinstance(receiver, NotKnown):
                machine.note_possible_uses(receiver, [operand])
                return receiver.part(f".{name}()")
            if isinstance(receiver, Modelled):
                return NotKnown(f"{describe_value(receiver)}.{name}()")
            continue
        result = machine.call(member, [operand], {})
        if result is not NotImplemented:
            return result
    return NotImplemented


def _goes_first(right: Class, left: Class, reflected: str) -> bool:
    """Whether the right operand is asked first: its class derives from the other, and says something else."""
    return left in right.ancestry() and right.find(reflected, ABSENT) is not left.find(reflected, ABSENT)


_DEEPEST: Final = 8
_RICH: Final = ("__eq__", "__ne__", "__lt__", "__gt__", "__le__", "__ge__")


_SIGNS: Final[dict[type[ast.unaryop], str]] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}


def apply_unary(machine: PythonMachine, op: ast.unaryop, value: object) -> object:
    """Return ``-value`` and the like."""
    if class_of(value) is None:
        return operations.apply_unary(op, value)
    method = special_method(machine, value, UNARY[type(op)])
    if method is not None:
        return machine.call(method, [], {})
    if plain_value(value) is not value:
        return operations.apply_unary(op, plain_value(value))
    raise thrown(TypeError, f"bad operand type for unary {_SIGNS[type(op)]}: '{type_name(value)}'")


# ---- comparisons


def compare_values(machine: PythonMachine, op: ast.cmpop, left: object, right: object) -> object:
    """Return ``left OP right``."""
    if isinstance(op, (ast.In, ast.NotIn)):
        is_contained = contains_item(machine, right, left)
        if is_contained is None:
            return operations.compare_values(op, left, NotKnown(describe_value(right)))
        return is_contained if isinstance(is_contained, NotKnown) else is_contained is isinstance(op, ast.In)
    # Lists and tuples are compared item by item, since the items may have an ``__eq__`` of their own.
    if isinstance(op, (ast.Eq, ast.NotEq)) and _are_sequences(left, right):
        same = _all_equal(machine, left, right)  # type: ignore[arg-type]
        return _unknown_equality(op, left, right) if same is None else same is isinstance(op, ast.Eq)
    if not isinstance(op, (ast.Is, ast.IsNot)) and _are_sequences(left, right):
        return _order_sequences(machine, op, left, right)  # type: ignore[arg-type]
    if isinstance(op, (ast.Is, ast.IsNot)) or (class_of(left) is None and class_of(right) is None):
        return operations.compare_values(op, left, right)
    method, reflected = COMPARISONS[type(op)]
    result = _ask_operands(machine, left, method, right, reflected)
    # object_richcompare (Objects/typeobject.c): ``__ne__`` of ``object`` is the opposite of ``__eq__``.
    if result is NotImplemented and isinstance(op, ast.NotEq):
        equal = _ask_operands(machine, left, "__eq__", right, "__eq__")
        if equal is not NotImplemented:
            is_equal = truth_of(machine, equal)
            return NotKnown(f"not {describe_value(equal)}") if is_equal is None else not is_equal
    if result is not NotImplemented:
        return result
    # No class of the package has an answer. Then the built-in values behind them decide. Else equality goes by the
    # fields of a dataclass or by identity, and an order by the fields of one that is ordered.
    if plain_value(left) is not left or plain_value(right) is not right:
        return operations.compare_values(op, plain_value(left), plain_value(right))
    if isinstance(op, (ast.Eq, ast.NotEq)):
        same = _are_same(machine, left, right)
        return _unknown_equality(op, left, right) if same is None else same is isinstance(op, ast.Eq)
    fields = _comparable_fields(left, right)
    if fields is not None:
        return operations.compare_values(op, *fields)
    sign = operations.SIGNS[type(op)]
    text = f"'{sign}' not supported between instances of '{type_name(left)}' and '{type_name(right)}'"
    raise thrown(TypeError, text)


def _are_sequences(left: object, right: object) -> bool:
    """Whether both are lists, or tuples, that Python's own comparison is not enough for."""
    both = type(left) is type(right) and type(left) in (list, tuple)
    return both and left is not right and not (is_concrete(left) and is_concrete(right))


def _order_sequences(machine: PythonMachine, op: ast.cmpop, left: Sequence[object], right: Sequence[object]) -> object:
    """Return ``left < right`` and the like: the first items that are not equal decide, or else which is longer.

    See ``tuplerichcompare`` (Objects/tupleobject.c).
    """
    if known_length(left) is None or known_length(right) is None:
        return _unknown_equality(op, left, right)
    for mine, other in zip(left, right, strict=False):
        same = equal(machine, mine, other)
        if same is None:
            return _unknown_equality(op, left, right)
        if not same:
            return compare_values(machine, op, mine, other)
    return operations.compare_values(op, len(left), len(right))


def _unknown_equality(op: ast.cmpop, left: object, right: object) -> object:
    return operations.compare_values(op, NotKnown(describe_value(left)), right)


def _all_equal(machine: PythonMachine, left: Sequence[object], right: Sequence[object]) -> bool | None:
    if known_length(left) is None or known_length(right) is None:
        return None
    answers = [equal(machine, item, counterpart) for item, counterpart in zip(left, right, strict=False)]
    if len(left) != len(right) or False in answers:
        return False
    return None if None in answers else True


def _comparable_fields(left: object, right: object) -> tuple[object, object] | None:
    """Return the fields of two objects of a dataclass that compares by them."""
    if not (isinstance(left, Instance) and isinstance(right, Instance)) or left.cls is not right.cls:
        return None
    maker = left.cls.dataclass()
    if maker is None or not maker.is_ordered:
        return None
    names = maker.compared_fields()
    return _field_values(left, names), _field_values(right, names)


def _field_values(value: Instance, names: list[str]) -> tuple[object, ...]:
    return tuple(value.attributes.get(name) for name in names)


def _are_same(machine: PythonMachine, left: object, right: object) -> bool | None:
    """Tell whether objects are equal whose classes do not say: those of a dataclass by their fields, others by
    identity; None if that is not known.
    """
    if left is right or not (isinstance(left, Instance) and isinstance(right, Instance)):
        return left is right
    maker = left.cls.dataclass()
    if left.cls is not right.cls or maker is None or not maker.is_compared:
        return False
    machine.count_steps(4)
    names = maker.compared_fields()
    return _all_equal(machine, _field_values(left, names), _field_values(right, names))


def equal(machine: PythonMachine, left: object, right: object) -> bool | None:
    """Return ``left is right or left == right``, as containers compare; None if that is not known."""
    machine.count_steps()
    if left is right and not isinstance(left, NotKnown):
        return True
    return truth_of(machine, compare_values(machine, ast.Eq(), left, right))


def _is_among_own(machine: PythonMachine, container: object, item: object) -> object:
    """Return ``item in container`` for an object whose class does not say it: its items do."""
    if not any(special_method(machine, container, name) is not None for name in ("__iter__", "__getitem__")):
        raise thrown(TypeError, f"argument of type '{type_name(container)}' is not iterable")
    return _is_among(machine, iterate_over(machine, container), item)


def contains_item(machine: PythonMachine, container: object, item: object) -> object:
    """Return ``item in container``: a bool, None if it is not known, or what is not known that decides."""
    # Language reference, 6.10.2: ``__contains__``, else iteration.
    if is_own(container):
        method = special_method(machine, container, "__contains__")
        if isinstance(method, NotKnown):
            return method
        if method is not None:
            is_contained = truth_of(machine, machine.call(method, [item], {}))
            return (
                NotKnown(f"{describe_value(item)} in {describe_value(container)}")
                if is_contained is None
                else is_contained
            )
        if plain_value(container) is not container:
            return contains_item(machine, plain_value(container), item)
        return _is_among_own(machine, container, item)
    if isinstance(container, (Lazy, *VIEWS[1:])):
        source = iterate_over(machine, container)
        marks = marks_in(container)
        return _is_among(machine, source if isinstance(source, NotKnown) else chain(marks, source), item)
    if isinstance(container, (list, tuple)) and not (is_concrete(container) and is_concrete(item)):
        return _is_among(machine, iter(list(container)), item)
    if isinstance(container, (dict, set, frozenset, VIEWS[0])):
        key = find_key(machine, container, item)
        return key if isinstance(key, NotKnown) and key is not ABSENT else key is not ABSENT
    if isinstance(container, Modelled):
        method = machine.get_attribute(container, "__contains__")
        if isinstance(method, NotKnown):
            return method
        result = machine.call(method, [item], {})
        return result if isinstance(result, NotKnown) else bool(result)
    if isinstance(container, Class) and (members := machine.members(container)) is not None:
        return _is_among(machine, iter(members), item)
    if container is None or isinstance(container, (int, float)):
        raise thrown(TypeError, f"argument of type '{type_name(container)}' is not iterable")
    return operations.contains_item(container, plain_value(item))


def _is_among(machine: PythonMachine, source: Iterator[object] | NotKnown, item: object) -> object:
    if isinstance(source, NotKnown):
        return source
    answer: bool | None = False
    may_be_gone = False
    for candidate in source:
        machine.count_steps()
        if isinstance(candidate, RemainingItems):
            may_be_gone = True
            continue
        same = None if isinstance(candidate, MoreItems) else equal(machine, candidate, item)
        if same:
            return None if may_be_gone else True
        answer = None if same is None else answer
    return answer


# ---- items


def find_key(machine: PythonMachine, container: Collection[object], key: object) -> object:
    """Return the key of a dict or set that equals this one: ABSENT if none does, unknown if that is not known.

    :raises Thrown: the key has no hash
    """
    if type(key) is str:
        if key in container:
            if REMAINING not in container:
                return key
        elif _has_everyday_keys(machine, container):
            count_parts(len(container))
            return ABSENT
    found = _find_among(machine, container, key)
    if found is ABSENT or isinstance(found, NotKnown) or not may_lack_items(container):
        return found
    return NotKnown(f"whether {describe_value(key)} is left in it")


def _find_among(machine: PythonMachine, container: Collection[object], key: object) -> object:
    """Return the key of a dict or set that equals this one, whether or not it may have been removed."""
    digest = hash_of(machine, key)
    if isinstance(key, NotKnown):
        return key.single() if container else ABSENT
    # The keys of the real dict are found by this Python, where it compares as that of the package does. Those that it
    # cannot compare are asked one by one.
    candidates: Iterable[object] = container
    if _is_compared_here(key):
        if key in container:
            return key
        if _has_everyday_keys(machine, container):
            candidates = ()
        else:
            candidates = [other for other in container if type(other) not in EVERYDAY and not _is_compared_here(other)]
    possible: object = ABSENT
    count_parts(len(container))
    for candidate in list(candidates):
        if candidate is REMAINING:
            continue
        if isinstance(candidate, NotKnown):
            same = False if _is_class_of_others(machine, candidate, key) else None
        else:
            same = _is_same_key(machine, candidate, key, digest)
        if same:
            return candidate
        if same is None:
            possible = candidate
    if possible is ABSENT:
        return ABSENT
    return operations.unknown_result(f"whether {describe_value(key)} is in it", possible, key)


def _is_class_of_others(machine: PythonMachine, value: NotKnown, key: object) -> bool:
    """Whether a value is what a module of others has by a name, so that it is no class of the package.

    It is not ``object`` or ``type`` either, which a module would have by their names: ``numpy.object``.
    """
    module, _, name = value.name.rpartition(".")
    is_asked = isinstance(key, Class) or ((key is object or key is type) and key.__name__ not in name.lower())
    return is_asked and name.isidentifier() and module in machine.modules and machine.library.find(module) is None


def _has_everyday_keys(machine: PythonMachine, container: Collection[object]) -> bool:
    """Whether all keys are texts, numbers and the like."""
    # Loops ask again and again for what a dict does not have yet, and add it: then only the keys are looked at that
    # stand behind the one that was the last.
    asked, count, last = machine.everyday_keys
    keys: Collection[object] = container
    if container is asked and len(container) >= count:
        behind = list(islice(reversed(asked), len(container) - count + 1))
        keys = behind if behind[-1] is last else container
    is_everyday = EVERYDAY.issuperset(map(type, keys))
    if is_everyday and container and type(container) is dict:
        machine.everyday_keys = container, len(container), next(reversed(container))
    return is_everyday


def _is_compared_here(key: object, depth: int = 0) -> bool:
    """Whether this Python finds a key as that of the package does: by its value, or by which object it is."""
    if type(key) is tuple and depth < _DEEPEST_KEY and len(key) <= _WIDEST_KEY and not is_concrete(key):
        return all(_is_compared_here(part, depth + 1) for part in key)
    return is_concrete(key) or (operations.is_unique(key) and not (isinstance(key, Class) and _may_say_equal(key)))


def _may_say_equal(key: Class) -> bool:
    """Whether the metaclass of a class may say what the class is equal to."""
    cls = key.metaclass
    return cls is not None and (cls.is_open() or any(cls.find(name, ABSENT) is not ABSENT for name in _SAYING_EQUAL))


_DEEPEST_KEY: Final = 3
_WIDEST_KEY: Final = 16
"""How deep and wide tuples are that are looked at for that. Hashing goes through all of them, and they may share parts.
"""
_SAYING_EQUAL: Final = ("__eq__", "__hash__")


def _is_same_key(machine: PythonMachine, candidate: object, key: object, digest: object) -> bool | None:
    if candidate is key:
        return True
    hashes = hash_of(machine, candidate), digest
    may_be = hashes[0] == hashes[1] or not all(isinstance(known, int) for known in hashes)
    return equal(machine, candidate, key) if may_be else False


def _refuse_unhashable(machine: PythonMachine, value: object, depth: int = 0) -> None:
    """Raise what ``hash`` raises for a value that has none."""
    cls = class_of(value)
    if isinstance(value, (list, dict, set, slice, VIEWS[0], VIEWS[2])) or (cls is not None and _forbids_hash(cls)):
        raise thrown(TypeError, f"unhashable type: '{type_name(value)}'")
    # The hash of a tuple is that of its items, the hash of a dataclass that of its fields.
    parts: Collection[object] = value if type(value) is tuple else ()
    if isinstance(value, Instance) and value.cls.is_frozen and value.cls.find("__hash__") is None:
        parts = _field_values(value, value.cls.fields())
    if depth < _DEEPEST:
        machine.count_steps(len(parts) // 2)
        for part in parts:
            if type(part) is not str:
                _refuse_unhashable(machine, part, depth + 1)


def hash_of(machine: PythonMachine, value: object) -> object:
    """Return what the ``__hash__`` of a class of the package says of an object; None if none says."""
    _refuse_unhashable(machine, value)
    if class_of(value) is None or isinstance(value, Class):
        return None
    method = special_method(machine, value, "__hash__")
    return None if method is None or isinstance(method, NotKnown) else _call_typed(machine, "__hash__", method)


def _forbids_hash(cls: Class) -> bool:
    """Whether the nearest class that says something about equality defines ``__eq__``, and no ``__hash__``."""
    # A class that defines ``__eq__`` without ``__hash__`` gets ``__hash__ = None`` (PyType_Ready in
    # Objects/typeobject.c), and so does a dataclass that compares its objects and is not frozen (_hash_action in
    # Lib/dataclasses.py).
    for ancestor in cls.ancestry():
        if not isinstance(ancestor, Class):
            return False
        if "__hash__" in ancestor.names:
            return ancestor.names["__hash__"] is None
        if ancestor.is_dataclass:
            return not (ancestor.is_frozen or ancestor.is_hashed)
        if "__eq__" in ancestor.names:
            return True
    return False


def hashed_key(machine: PythonMachine, container: Collection[object], key: object) -> object:
    """Return a key as it stands in a dict or set, or as it is put there."""
    if type(key) is str:
        return key
    if _is_compared_here(key):
        _refuse_unhashable(machine, key)
        return key
    machine.everyday_keys = NO_KEYS
    present = find_key(machine, container, key)
    return as_key(key) if isinstance(present, NotKnown) else present


def get_item(machine: PythonMachine, value: object, index: object) -> object:
    """Return ``value[index]``."""
    if is_own(value):
        method = special_method(machine, value, "__getitem__")
        if method is not None:
            return machine.call(method, [index], {})
        if isinstance(value, Instance) and isinstance(value.inner, dict):
            return _of_dict(machine, value.inner, index, special_method(machine, value, "__missing__"))
        if plain_value(value) is not value:
            return get_item(machine, plain_value(value), index)
    if isinstance(value, Class):
        return _of_class(machine, value, index)
    if isinstance(value, type):
        return value
    if isinstance(value, Modelled):
        return machine.call(machine.get_attribute(value, "__getitem__"), [index], {})
    if isinstance(value, dict):
        return _of_dict(machine, value, index)
    if isinstance(value, tuple) and (item_at := getattr(value, "item_at", None)):  # EntryPoints
        return item_at(machine, index)
    if is_own(index):
        index = as_index(machine, index)
    if value is None or isinstance(value, (int, float, PythonFunction, Instance, *VIEWS)):
        raise thrown(TypeError, f"'{type_name(value)}' object is not subscriptable")
    return _of_sequence(machine, value, index)


def _of_sequence(machine: PythonMachine, value: object, index: object) -> object:
    try:
        return machine.settle(operations.take_item(value, index))
    except Thrown:
        if id(value) in machine.perhaps_longer:
            return NotKnown(f"{describe_value(value)}[{describe_value(index)}]")
        raise


def _of_dict(machine: PythonMachine, value: dict[object, object], index: object, missing: object = None) -> object:
    key = find_key(machine, value, index)
    if not isinstance(key, NotKnown):
        return machine.settle(value[key])
    # Only ``dict.__getitem__`` of a class that derives from ``dict`` asks for ``__missing__`` (dict_subscript in
    # Objects/dictobject.c).
    if key is not ABSENT or isinstance(missing, NotKnown) or id(value) in machine.perhaps_longer:
        return operations.unknown_result(f"{describe_value(value)}[{describe_value(index)}]", index, key)
    if missing is not None:
        return machine.call(missing, [index], {})
    raise thrown(KeyError, index)


def _of_class(machine: PythonMachine, cls: Class, index: object) -> object:
    method = cls.find("__class_getitem__", ABSENT)
    if method is not ABSENT:
        return machine.call(machine.bound(method, None, cls), [index], {})
    if cls.enumeration is not None:
        member = machine.member_named(cls, index)
        if member is None:
            raise thrown(KeyError, index)
        return member
    return cls


def set_item(machine: PythonMachine, value: object, index: object, new: object) -> None:
    """Execute ``value[index] = new``."""
    if type(value) is dict and type(index) is str and not machine.is_speculative:
        value[index] = new
        return
    if is_own(value):
        method = special_method(machine, value, "__setitem__")
        if method is not None:
            machine.call(method, [index, new], {})
            return
        value = plain_value(value)
    if isinstance(value, Modelled):
        machine.call(machine.get_attribute(value, "__setitem__"), [index, new], {})
    elif isinstance(value, (dict, list)) and machine.is_speculative:
        _note_item(machine, value, index)
    elif isinstance(value, dict):
        value[hashed_key(machine, value, index)] = new
    elif isinstance(value, list):
        _set_in_list(machine, value, as_index(machine, index) if is_own(index) else index, new)
    elif value is None or isinstance(value, (str, int, float, tuple, Instance)):
        raise thrown(TypeError, f"'{type_name(value)}' object does not support item assignment")


def _note_item(machine: PythonMachine, value: dict[object, object] | list[object], index: object) -> None:
    """Note that code which may not have run sets an item."""
    if isinstance(value, dict):
        key = find_key(machine, value, index)
        is_there = key is not ABSENT and not isinstance(key, NotKnown)
        if is_there:
            value[key] = NotKnown(f"{describe_value(value)}[{describe_value(index)}]")
        else:
            note_added(value)
    elif isinstance(index, int) and known_length(value) is not None and -len(value) <= index < len(value):
        value[index] = NotKnown(f"{describe_value(value)}[{index}]")
    else:
        note_removed(value)
        note_added(value)


def _set_in_list(machine: PythonMachine, value: list[object], index: object, new: object) -> None:
    is_known = known_length(value) is not None
    if isinstance(index, slice) and is_concrete(index) and is_known:
        new_items = items_of(machine, new)
        operations.attempt_operation("[:] =", value.__setitem__, index, more_items(new_items))
    elif isinstance(index, int) and is_known and -len(value) <= index < len(value):
        value[index] = new
    elif isinstance(index, int) and is_known:
        raise thrown(IndexError, "list assignment index out of range")
    else:
        note_removed(value)
        note_added(value)


def delete_item(machine: PythonMachine, value: object, index: object) -> None:
    """Execute ``del value[index]``."""
    if is_own(value):
        method = special_method(machine, value, "__delitem__")
        if method is not None:
            machine.call(method, [index], {})
            return
        value = plain_value(value)
    if isinstance(value, dict):
        key = find_key(machine, value, index)
        if key is ABSENT:
            raise thrown(KeyError, index)
        if isinstance(key, NotKnown) or machine.is_speculative:
            note_removed(value)
        else:
            del value[key]
    elif isinstance(value, list):
        is_known = isinstance(index, (int, slice)) and is_concrete(index) and known_length(value) is not None
        if machine.is_speculative or not is_known:
            note_removed(value)
        else:
            operations.attempt_operation("del", value.__delitem__, index)
    elif isinstance(value, Modelled):
        machine.call(machine.get_attribute(value, "__delitem__"), [index], {})


# ---- numbers and texts


def as_path(machine: PythonMachine, value: object) -> object:
    """Return an object as a path: what ``__fspath__`` gives."""
    converted_ = convert_by(machine, value, ("__fspath__",)) if is_own(value) else ABSENT
    return plain_value(value) if converted_ is ABSENT else converted_


def as_index(machine: PythonMachine, value: object) -> object:
    """Return an object as an index: what ``__index__`` gives."""
    method = special_method(machine, value, "__index__")
    return plain_value(value) if method is None else _call_typed(machine, "__index__", method)


def convert_by(machine: PythonMachine, value: object, names: tuple[str, ...]) -> object:
    """Return what the first of these methods makes of an object; ABSENT if it has none."""
    for name in names:
        method = special_method(machine, value, name)
        if method is not None:
            return _call_typed(machine, name, method) if name in RETURNED else machine.call(method, [], {})
    return ABSENT


def repr_of(machine: PythonMachine, value: object, depth: int = 0) -> object:
    """Return ``repr(value)``."""
    machine.count_steps()
    if depth > _DEEPEST:
        return NotKnown("repr()")
    value = machine.settle(value)
    if isinstance(value, NotKnown):
        return NotKnown(f"repr({value.name})", value.why)
    # Without a ``__repr__`` of its own, the text of an object has its address, which nobody knows.
    if is_own(value):
        method = special_method(machine, value, "__repr__")
        if method is not None:
            return _call_typed(machine, "__repr__", method)
        if plain_value(value) is not value:
            return repr_of(machine, plain_value(value))
        return NotKnown(f"repr({describe_value(value)})")
    if isinstance(value, PythonError) and is_concrete(list(arguments_of(machine, value))):
        inside = ", ".join(map(repr, value.args))
        return f"{value.name()}({inside})"
    if is_concrete(value) and not isinstance(value, type):
        return operations.attempt_operation("repr()", repr, value)
    if isinstance(value, VIEWS):
        listed = repr_of(machine, items_of(machine, value), depth)
        is_known = isinstance(listed, str) and not marks_in(value)
        return operations.bound_size("repr()", f"{type_name(value)}({listed})") if is_known else NotKnown("repr()")
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        parts = [repr_of(machine, part, depth + 1) for part in _parts_of(value)]
        unknown = next((part for part in parts if isinstance(part, NotKnown)), None)
        return NotKnown("repr()", unknown.why) if unknown else _join_parts(value, [str(part) for part in parts])
    return NotKnown(f"repr({describe_value(value)})")


def _parts_of(value: object) -> list[object]:
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair][:MOST_ITEMS]
    return list(value)[:MOST_ITEMS]  # type: ignore[call-overload,no-any-return]


def _join_parts(value: object, parts: list[str]) -> object:
    if isinstance(value, dict):
        inside = ", ".join(f"{key}: {part}" for key, part in zip(parts[::2], parts[1::2], strict=True))
        return operations.bound_size("repr()", f"{{{inside}}}")
    inside = ", ".join(parts)
    if isinstance(value, list):
        return operations.bound_size("repr()", f"[{inside}]")
    if isinstance(value, tuple):
        return operations.bound_size("repr()", f"({inside}{',' if len(parts) == 1 else ''})")
    return NotKnown("repr()")


def arguments_of(machine: PythonMachine, failure: PythonError) -> tuple[object, ...]:
    """Return the arguments of an exception, which somebody looks at."""
    if any(type(argument) is TextOfError for argument in failure.args):
        failure.args = tuple(
            machine.world.text(argument.number) if isinstance(argument, TextOfError) else argument
            for argument in failure.args
        )
    return failure.args


def text(machine: PythonMachine, value: object) -> object:
    """Return ``str(value)``."""
    value = machine.settle(value)
    if isinstance(value, PythonError):
        arguments_of(machine, value)
    if is_own(value):
        method = special_method(machine, value, "__str__")
        if method is not None:
            return _call_typed(machine, "__str__", method)
        if not isinstance(value, PythonError):
            return (
                operations.text_of(plain_value(value))
                if isinstance(plain_value(value), str)
                else repr_of(machine, value)
            )
    if isinstance(value, (list, tuple, set, frozenset, dict, *VIEWS)) and not is_concrete(value):
        return repr_of(machine, value)
    return operations.text_of(value)


def ascii_of(machine: PythonMachine, value: object) -> object:
    """Return ``ascii(value)``."""
    text_found = repr_of(machine, value)
    if not isinstance(text_found, str):
        return NotKnown(f"ascii({describe_value(value)})")
    return text_found.encode("ascii", "backslashreplace").decode("ascii")


def format_value(machine: PythonMachine, value: object, spec: object) -> object:
    """Return ``format(value, spec)``."""
    value = machine.settle(value)
    if not isinstance(spec, str) or may_format_grow(spec):
        return NotKnown(describe_value(value))
    if is_own(value):
        method = special_method(machine, value, "__format__")
        if method is not None:
            return _call_typed(machine, "__format__", method, spec)
        inner = plain_value(value)
        if spec and inner is not value and is_concrete(inner):
            return operations.attempt_operation("format()", format, inner, spec)
    elif spec and is_concrete(value):
        return operations.attempt_operation("format()", format, value, spec)
    seen = text(machine, value)
    return operations.attempt_operation("format()", format, seen, spec) if isinstance(seen, str) else seen
