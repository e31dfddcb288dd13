"""Special methods, by the rules of Python's data model.

They are looked up on the type, not on the object; operators ask the right operand first if its class derives from the
left one's; what returns ``NotImplemented`` passes the question on. Operators, built-in functions, loops, conditions,
``with`` and ``match`` all ask here. Source: "Data model" in Python's reference, sections 3.3.1 to 3.3.9.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from abiscan.python import operations
from abiscan.python.iteration import MOST_ITEMS, Lazy, few
from abiscan.python.machine import PythonMachine
from abiscan.python.modelled import Modelled
from abiscan.python.operations import described
from abiscan.python.values import (
    ABSENT,
    Bound,
    Class,
    Deferred,
    Instance,
    NotKnown,
    Perhaps,
    PythonError,
    PythonFunction,
    PythonModule,
    TextOfError,
    Thrown,
    Wrapped,
    class_of,
    concrete,
    length,
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


def hook(machine: PythonMachine, value: object, name: str) -> object:
    """A special method of an object, bound to it; None if its class has none, unknown if that is not known."""
    cls = class_of(value)
    if cls is None:
        return None
    found = cls.find(name, ABSENT)
    if found is ABSENT:
        beyond = next((one for one in cls.ancestry() if not isinstance(one, (Class, type))), None)
        return None if beyond is None else NotKnown(f"{described(beyond)}.{name}")
    return machine.bound(found, value, cls)


def is_own(value: object) -> bool:
    """Whether a class of the package says what operators do with a value."""
    return class_of(value) is not None


def plain(value: object) -> object:
    """A value as the built-in type behind its class has it."""
    return value.inner if isinstance(value, Instance) and value.inner is not None else value


def _typed(machine: PythonMachine, name: str, method: object, *args: object) -> object:
    """What a special method gives that has to give an object of one type; raises TypeError if it gives another."""
    result = machine.call(method, list(args), {})
    wanted = RETURNED[name]
    if isinstance(result, (NotKnown, Instance, Modelled, wanted)):
        return result
    text = f"{name} returned non-{wanted.__name__} (type {type_name(result)})"
    if name in {"__bool__", "__format__", "__init__"}:
        text = f"{name} should return {wanted.__name__}, returned {type_name(result)}"
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


def truth(machine: PythonMachine, value: object) -> bool | None:
    """``bool(value)``, None if that is not known."""
    if class_of(value) is None:
        return operations.truth(value)
    for name in ("__bool__", "__len__"):
        method = hook(machine, value, name)
        if isinstance(method, NotKnown):
            return None
        if method is not None:
            return operations.truth(_typed(machine, name, method))
    return operations.truth(plain(value)) if plain(value) is not value else True


def size(machine: PythonMachine, value: object) -> object:
    """``len(value)``."""
    method = hook(machine, value, "__len__")
    if isinstance(method, NotKnown):
        return method.part("()")
    if method is not None:
        length_of = _typed(machine, "__len__", method)
        if isinstance(length_of, int) and length_of < 0:
            raise thrown(ValueError, "__len__() should return >= 0")
        return length_of
    value = plain(value)
    if isinstance(value, (str, bytes, list, tuple, dict, set, frozenset, range)):
        known = operations.attempt("len()", length, value)
        return NotKnown(f"len({described(value)})") if known is None else known
    if isinstance(value, NotKnown):
        return NotKnown(f"len({value.name})", value.why)
    if is_own(value) or isinstance(value, (int, float, PythonFunction, Lazy, type(None))):
        raise thrown(TypeError, f"object of type '{type_name(value)}' has no len()")
    return (
        machine.call(machine.attribute(value, "__len__"), [], {}) if isinstance(value, Modelled) else NotKnown("len()")
    )


def type_name(value: object) -> str:
    """How errors name the type of a value."""
    cls = class_of(value)
    if cls is not None:
        return cls.name
    if isinstance(value, (Class, type)):
        return "type"
    names: dict[type, str] = {PythonFunction: "function", Bound: "method", PythonModule: "module"}
    return names.get(type(value), type(value).__name__)


# ---- iteration


def iterate(machine: PythonMachine, value: object) -> Iterator[object] | NotKnown:
    """The items of a value, one after the other, as a loop asks for them."""
    value = machine.settle(value)
    if is_own(value):
        found = _iterate_own(machine, value)
        if found is not None:
            return found
        value = plain(value)
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
    method = machine.attribute(value, "__iter__") if isinstance(value, Modelled) else NotKnown("__iter__")
    if not isinstance(method, NotKnown):
        return iterate(machine, machine.call(method, [], {}))
    return NotKnown(f"list({described(value)})")


_CONTAINERS: Final = (list, dict, tuple, str, bytes, set, frozenset, range)


def _of_container(machine: PythonMachine, value: object) -> Iterator[object] | NotKnown:
    """The items of a built-in container."""
    if isinstance(value, list):
        return (one for one in _settled(machine, _as_it_grows(value)) if type(one) is not Perhaps)
    if isinstance(value, dict):
        return _settled(machine, _of_keys(value))
    if isinstance(value, (tuple, str, bytes)):
        return _settled(machine, (one for one in list(value) if type(one) is not Perhaps))
    if isinstance(value, (set, frozenset)):
        return iter(sorted((one for one in value if type(one) is not Perhaps), key=described))
    assert isinstance(value, range)
    return NotKnown(f"list({described(value)})") if value[MOST_ITEMS:] else iter(value)


def _iterate_own(machine: PythonMachine, value: object) -> Iterator[object] | NotKnown | None:
    """The items of an object of the package, None if those are of the built-in type behind its class."""
    method = hook(machine, value, "__iter__")
    if isinstance(method, NotKnown):
        return method
    if method is not None:
        return _of_iterator(machine, machine.call(method, [], {}))
    if plain(value) is not value or isinstance(value, Class):
        return None
    method = hook(machine, value, "__getitem__")
    if method is None:
        raise thrown(TypeError, f"'{type_name(value)}' object is not iterable")
    return _by_index(machine, method)


def _as_it_grows(values: list[object]) -> Iterator[object]:
    position = 0
    while position < len(values):
        yield values[position]
        position += 1


def _of_keys(values: dict[object, object]) -> Iterator[object]:
    keys, count = list(values), len(values)
    for key in keys:
        if len(values) != count and not any(type(one) is Perhaps for one in values):
            raise thrown(RuntimeError, "dictionary changed size during iteration")
        if type(key) is not Perhaps:
            yield key
    if len(values) != count and keys and not any(type(one) is Perhaps for one in values):
        raise thrown(RuntimeError, "dictionary changed size during iteration")


def _settled(machine: PythonMachine, values: Iterator[object]) -> Iterator[object]:
    return (machine.settle(one) if isinstance(one, Deferred) else one for one in values)


def _of_iterator(machine: PythonMachine, value: object) -> Iterator[object] | NotKnown:
    """The items of what ``__iter__`` gives."""
    method = hook(machine, value, "__next__")
    if isinstance(method, NotKnown):
        return method
    if method is None:
        return iterate(machine, value) if not is_own(value) else _no_iterator(value)
    return _until(machine, method, [], StopIteration)


def _no_iterator(value: object) -> NotKnown:
    raise thrown(TypeError, f"iter() returned non-iterator of type '{type_name(value)}'")


def _until(machine: PythonMachine, method: object, args: list[object], end: type[BaseException]) -> Iterator[object]:
    """What a function gives, call after call, until it raises."""
    while True:
        machine.tick()
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
        found = list(_first(_until(machine, method, [index], IndexError)))
        if not found:
            return
        yield found[0]
        index += 1


def _first(source: Iterator[object]) -> Iterator[object]:
    for one in source:
        yield one
        return


def items(machine: PythonMachine, value: object) -> list[object] | NotKnown:
    """All that iterating over a value gives."""
    if isinstance(value, (list, tuple, dict, str, bytes, set, frozenset)) and len(value) > MOST_ITEMS:
        return NotKnown(f"list({described(value)})")
    source = iterate(machine, value)
    if isinstance(source, NotKnown):
        return source
    found = few(source, f"list({described(value)})")
    if isinstance(found, NotKnown):
        machine.gap(f"{described(value)} gives more than {MOST_ITEMS} items")
    else:
        machine.tick(len(found))
    return found


def advance(machine: PythonMachine, value: object) -> object:
    """``next(value)``."""
    if isinstance(value, Lazy):
        return value.advance(machine)
    method = hook(machine, value, "__next__")
    if method is not None:
        return machine.call(method, [], {})
    if isinstance(value, NotKnown):
        return value.part("[0]")
    if isinstance(value, (tuple, dict, str, bytes, set, frozenset, range, int, type(None))) or is_own(value):
        raise thrown(TypeError, f"'{type_name(value)}' object is not an iterator")
    if isinstance(value, list):  # what the models give for an iterator
        if not value:
            raise thrown(StopIteration)
        return value.pop(0)
    return NotKnown(f"next({described(value)})")


# ---- operators


def binary(machine: PythonMachine, op: ast.operator, left: object, right: object) -> object:
    """``left OP right``."""
    if isinstance(op, ast.Mod) and isinstance(left, str):
        right = _filled_in(machine, right)
    if class_of(left) is None and class_of(right) is None:
        return operations.binary(op, left, right)
    name, sign = OPERATORS[type(op)]
    result = _asked(machine, left, f"__{name}__", right, f"__r{name}__")
    if result is not NotImplemented:
        return result
    known = operations.binary(op, plain(left), plain(right)) if _has_plain(left, right) else None
    if known is not None:
        return known
    if isinstance(op, ast.BitOr) and all(isinstance(one, (Class, type, type(None))) for one in (left, right)):
        return NotKnown(f"{described(left)} | {described(right)}")  # a union of types
    text = f"unsupported operand type(s) for {sign}: '{type_name(left)}' and '{type_name(right)}'"
    raise thrown(TypeError, text)


def _filled_in(machine: PythonMachine, value: object) -> object:
    """What ``%`` fills into a text, with the texts of objects of the package."""
    if isinstance(value, tuple) and any(map(is_own, value)):
        return tuple(text(machine, one) if is_own(one) else one for one in value)
    if isinstance(value, dict) and any(map(is_own, value.values())):
        return {key: text(machine, one) if is_own(one) else one for key, one in value.items()}
    return text(machine, value) if is_own(value) and plain(value) is value else value


def in_place(machine: PythonMachine, op: ast.operator, left: object, right: object) -> object:
    """What ``left OP= right`` makes of the left operand."""
    method = hook(machine, left, f"__i{OPERATORS[type(op)][0]}__")
    if method is not None:
        result = machine.call(method, [right], {})
        if result is not NotImplemented:
            return result
    if isinstance(left, list) and isinstance(op, ast.Add):
        machine.call(machine.attribute(left, "extend"), [right], {})
        return left
    if isinstance(left, (dict, set)) and isinstance(op, ast.BitOr):
        machine.call(machine.attribute(left, "update"), [right], {})
        return left
    return binary(machine, op, left, right)


def _has_plain(left: object, right: object) -> bool:
    """Whether both are what built-in types have an operator for, or are not known."""
    return not is_own(plain(left)) and not is_own(plain(right))


def _asked(machine: PythonMachine, left: object, method: str, right: object, reflected: str) -> object:
    """What the operands make of an operator; NotImplemented if neither knows it."""
    asked = [(left, method, right), (right, reflected, left)]
    kinds = class_of(left), class_of(right)
    if kinds[0] is kinds[1] and kinds[0] is not None and method != reflected and not method.startswith(_RICH):
        asked = asked[:1]  # an operator between objects of one class asks once
    elif kinds[0] is not None and kinds[1] is not None and _goes_first(kinds[1], kinds[0], reflected):
        asked.reverse()
    for receiver, name, other in asked:
        found = hook(machine, receiver, name)
        if found is None:
            if isinstance(receiver, NotKnown):
                machine.perhaps_uses(receiver, [other])
                return receiver.part(f".{name}()")
            if isinstance(receiver, Modelled):
                return NotKnown(f"{described(receiver)}.{name}()")
            continue
        result = machine.call(found, [other], {})
        if result is not NotImplemented:
            return result
    return NotImplemented


def _goes_first(right: Class, left: Class, reflected: str) -> bool:
    """Whether the right operand is asked first: its class derives from the other, and says something else."""
    return left in right.ancestry() and right.find(reflected, ABSENT) is not left.find(reflected, ABSENT)


_DEEPEST: Final = 8
_RICH: Final = ("__eq__", "__ne__", "__lt__", "__gt__", "__le__", "__ge__")


def unary(machine: PythonMachine, op: ast.unaryop, value: object) -> object:
    """``-value`` and the like."""
    if class_of(value) is None:
        return operations.unary(op, value)
    method = hook(machine, value, UNARY[type(op)])
    if method is not None:
        return machine.call(method, [], {})
    if plain(value) is not value:
        return operations.unary(op, plain(value))
    raise thrown(TypeError, f"bad operand type for unary {type(op).__name__}: '{type_name(value)}'")


# ---- comparisons


def compare(machine: PythonMachine, op: ast.cmpop, left: object, right: object) -> object:
    """``left OP right``."""
    if isinstance(op, (ast.In, ast.NotIn)):
        found = contains(machine, right, left)
        if found is None:
            return operations.compare(op, left, NotKnown(described(right)))
        return found if isinstance(found, NotKnown) else found is isinstance(op, ast.In)
    if isinstance(op, (ast.Eq, ast.NotEq)) and _are_sequences(left, right):
        same = _all_equal(machine, left, right)  # type: ignore[arg-type]
        return (
            operations.compare(op, NotKnown(described(left)), right) if same is None else same is isinstance(op, ast.Eq)
        )
    if isinstance(op, (ast.Is, ast.IsNot)) or (class_of(left) is None and class_of(right) is None):
        return operations.compare(op, left, right)
    method, reflected = COMPARISONS[type(op)]
    result = _asked(machine, left, method, right, reflected)
    if result is NotImplemented and isinstance(op, ast.NotEq):
        equal = _asked(machine, left, "__eq__", right, "__eq__")
        if equal is not NotImplemented:
            known = truth(machine, equal)
            return NotKnown(f"not {described(equal)}") if known is None else not known
    if result is not NotImplemented:
        return result
    if plain(left) is not left or plain(right) is not right:
        return operations.compare(op, plain(left), plain(right))
    if isinstance(op, (ast.Eq, ast.NotEq)):
        return _same(machine, left, right) is isinstance(op, ast.Eq)
    fields = _fields(left, right)
    if fields is not None:
        return operations.compare(op, *fields)
    sign = operations.SIGNS[type(op)]
    text = f"'{sign}' not supported between instances of '{type_name(left)}' and '{type_name(right)}'"
    raise thrown(TypeError, text)


def _are_sequences(left: object, right: object) -> bool:
    """Whether both are lists, or tuples, that Python's own comparison is not enough for."""
    both = type(left) is type(right) and type(left) in (list, tuple)
    return both and left is not right and not (concrete(left) and concrete(right))


def _all_equal(machine: PythonMachine, left: list[object], right: list[object]) -> bool | None:
    if length(left) is None or length(right) is None:
        return None
    answers = [equal(machine, one, other) for one, other in zip(left, right, strict=False)]
    if len(left) != len(right) or False in answers:
        return False
    return None if None in answers else True


def _fields(left: object, right: object) -> tuple[object, object] | None:
    """The fields of two objects of a dataclass that compares by them."""
    if not (isinstance(left, Instance) and isinstance(right, Instance)) or left.cls is not right.cls:
        return None
    names = left.cls.fields() if left.cls.is_ordered else None
    return None if names is None else (_values(left, names), _values(right, names))


def _values(value: Instance, names: list[str]) -> tuple[object, ...]:
    return tuple(value.attributes.get(name) for name in names)


def _same(machine: PythonMachine, left: object, right: object) -> object:
    """Whether objects are equal whose classes do not say: those of a dataclass by their fields, others by identity."""
    if left is right or not (isinstance(left, Instance) and isinstance(right, Instance)):
        return left is right
    if left.cls is not right.cls or not left.cls.is_dataclass:
        return False
    names = left.cls.fields()
    return all(equal(machine, left.attributes.get(name), right.attributes.get(name)) for name in names)


def equal(machine: PythonMachine, left: object, right: object) -> bool | None:
    """``left is right or left == right``, as containers compare; None if that is not known."""
    machine.tick()
    if left is right and not isinstance(left, NotKnown):
        return True
    return truth(machine, compare(machine, ast.Eq(), left, right))


def contains(machine: PythonMachine, container: object, item: object) -> object:
    """``item in container``: a bool, None if it is not known, or what is not known that decides."""
    if is_own(container):
        method = hook(machine, container, "__contains__")
        if isinstance(method, NotKnown):
            return method
        if method is not None:
            found = truth(machine, machine.call(method, [item], {}))
            return NotKnown(f"{described(item)} in {described(container)}") if found is None else found
        if plain(container) is not container:
            return contains(machine, plain(container), item)
        return _among(machine, iterate(machine, container), item)
    if isinstance(container, Lazy):
        return _among(machine, iterate(machine, container), item)
    if isinstance(container, (list, tuple)) and (is_own(item) or any(map(is_own, container))):
        return _among(machine, iter(list(container)), item)
    if isinstance(container, (dict, set, frozenset)) and is_own(item):
        return key_in(machine, container, item) is not ABSENT
    if isinstance(container, Modelled):
        method = machine.attribute(container, "__contains__")
        if isinstance(method, NotKnown):
            return method
        told = machine.call(method, [item], {})
        return told if isinstance(told, NotKnown) else bool(told)
    if isinstance(container, Class) and (members := machine.members(container)) is not None:
        return _among(machine, iter(members), item)
    if container is None or isinstance(container, (int, float)):
        raise thrown(TypeError, f"argument of type '{type_name(container)}' is not iterable")
    return operations.contains(container, plain(item))


def _among(machine: PythonMachine, source: Iterator[object] | NotKnown, item: object) -> object:
    if isinstance(source, NotKnown):
        return source
    answers = []
    for one in source:
        machine.tick()
        answers.append(equal(machine, one, item))
        if answers[-1]:
            return True
    return None if None in answers else False


# ---- items


def key_in(machine: PythonMachine, container: object, key: object) -> object:
    """The key of a dict or set that equals this one, ABSENT if there is none; asks ``__hash__``, then ``__eq__``."""
    own = plain(key) if plain(key) is not key else key
    if not is_own(key) or isinstance(key, Class):
        return own
    asked = digest(machine, key)
    if own is not key and asked is None:
        return own
    for one in list(container):  # type: ignore[call-overload]
        if one is key or (is_own(one) and digest(machine, one) == asked and equal(machine, one, key)):
            return one
    return ABSENT


def digest(machine: PythonMachine, value: object) -> object:
    """What ``__hash__`` says of an object; itself if the class does not say."""
    cls = class_of(value)
    if isinstance(value, (list, dict, set)) or (cls is not None and _forbids_hash(cls)):
        raise thrown(TypeError, f"unhashable type: '{type_name(value)}'")
    if cls is None or isinstance(value, Class):
        return value
    method = hook(machine, value, "__hash__")
    return id(value) if method is None or isinstance(method, NotKnown) else _typed(machine, "__hash__", method)


def _forbids_hash(cls: Class) -> bool:
    """Whether the nearest class that says something about equality defines ``__eq__``, and no ``__hash__``."""
    for one in cls.ancestry():
        if isinstance(one, Class) and "__hash__" in one.names:
            return one.names["__hash__"] is None
        if isinstance(one, Class) and "__eq__" in one.names:
            return True
    return False


def hashed(machine: PythonMachine, container: object, key: object) -> object:
    """A key as it stands in a dict or set, or as it is put there."""
    if class_of(key) is None:
        if type(key) in (list, dict, set):
            raise thrown(TypeError, f"unhashable type: '{type(key).__name__}'")
        return key
    found = key_in(machine, container, key)
    return key if found is ABSENT else found


def get_item(machine: PythonMachine, value: object, index: object) -> object:
    """``value[index]``."""
    if is_own(value):
        method = hook(machine, value, "__getitem__")
        if method is not None:
            return machine.call(method, [index], {})
        if isinstance(value, Instance) and isinstance(value.inner, dict):
            return _of_dict(machine, value, value.inner, index)
        if plain(value) is not value:
            return get_item(machine, plain(value), index)
    if isinstance(value, Class):
        return _of_class(machine, value, index)
    if isinstance(value, type):
        return value
    if isinstance(value, Modelled):
        return machine.call(machine.attribute(value, "__getitem__"), [index], {})
    if isinstance(value, dict) and is_own(index):
        index = hashed(machine, value, index)
    elif is_own(index):
        index = whole(machine, index)
    if value is None or isinstance(value, (int, float, PythonFunction, Instance)):
        raise thrown(TypeError, f"'{type_name(value)}' object is not subscriptable")
    return machine.settle(operations.subscript(value, index))


def _of_dict(machine: PythonMachine, value: Instance, inner: dict[object, object], index: object) -> object:
    missing = hook(machine, value, "__missing__")
    index = hashed(machine, inner, index)
    if missing is not None and not isinstance(missing, NotKnown) and operations.contains(inner, index) is False:
        return machine.call(missing, [index], {})
    return machine.settle(operations.subscript(inner, index))


def _of_class(machine: PythonMachine, cls: Class, index: object) -> object:
    found = cls.find("__class_getitem__", ABSENT)
    if found is not ABSENT:
        function = found.function if isinstance(found, Wrapped) else found
        return machine.call(Bound(function, cls), [index], {})
    members = machine.members(cls)
    if members is not None:
        return next((one for one in members if machine.attribute(one, "name") == index), NotKnown(f"{cls.name}[…]"))
    return cls


def set_item(machine: PythonMachine, value: object, index: object, new: object) -> None:
    """``value[index] = new``."""
    if is_own(value):
        method = hook(machine, value, "__setitem__")
        if method is not None:
            machine.call(method, [index, new], {})
            return
        value = plain(value)
    if isinstance(value, Modelled):
        machine.call(machine.attribute(value, "__setitem__"), [index, new], {})
    elif isinstance(value, dict):
        value[hashed(machine, value, index)] = new
    elif isinstance(value, list):
        _set_in_list(machine, value, whole(machine, index) if is_own(index) else index, new)
    elif value is None or isinstance(value, (str, int, float, tuple, Instance)):
        raise thrown(TypeError, f"'{type_name(value)}' object does not support item assignment")


def _set_in_list(machine: PythonMachine, value: list[object], index: object, new: object) -> None:
    if isinstance(index, slice) and concrete(index):
        given = items(machine, new)
        if isinstance(given, list) and length(value) is not None:
            value[index] = given
    elif isinstance(index, int) and -len(value) <= index < len(value):
        value[index] = new
    elif isinstance(index, int) and length(value) is not None:
        raise thrown(IndexError, "list assignment index out of range")


def delete_item(machine: PythonMachine, value: object, index: object) -> None:
    """``del value[index]``."""
    if is_own(value):
        method = hook(machine, value, "__delitem__")
        if method is not None:
            machine.call(method, [index], {})
            return
        value = plain(value)
    if isinstance(value, dict):
        key = hashed(machine, value, index)
        if operations.contains(value, key):
            del value[key]
        elif operations.contains(value, key) is False:
            raise thrown(KeyError, index)
    elif isinstance(value, list) and isinstance(index, (int, slice)) and concrete(index) and length(value) is not None:
        operations.attempt("del", value.__delitem__, index)
    elif isinstance(value, Modelled):
        machine.call(machine.attribute(value, "__delitem__"), [index], {})


# ---- numbers and texts


def path(machine: PythonMachine, value: object) -> object:
    """An object as a path: what ``__fspath__`` gives."""
    found = converted(machine, value, ("__fspath__",)) if is_own(value) else ABSENT
    return plain(value) if found is ABSENT else found


def whole(machine: PythonMachine, value: object) -> object:
    """An object as an index: what ``__index__`` gives."""
    method = hook(machine, value, "__index__")
    return plain(value) if method is None else _typed(machine, "__index__", method)


def converted(machine: PythonMachine, value: object, names: tuple[str, ...]) -> object:
    """What the first of these methods makes of an object; ABSENT if it has none."""
    for name in names:
        method = hook(machine, value, name)
        if method is not None:
            return _typed(machine, name, method) if name in RETURNED else machine.call(method, [], {})
    return ABSENT


def shown(machine: PythonMachine, value: object, depth: int = 0) -> object:
    """``repr(value)``."""
    if depth > _DEEPEST:
        return NotKnown("repr()")
    value = machine.settle(value)
    if isinstance(value, NotKnown):
        return NotKnown(f"repr({value.name})", value.why)
    if is_own(value):
        method = hook(machine, value, "__repr__")
        if method is not None:
            return _typed(machine, "__repr__", method)
        if plain(value) is not value:
            return shown(machine, plain(value))
        return NotKnown(f"repr({described(value)})")
    if isinstance(value, PythonError) and concrete(list(arguments(machine, value))):
        inside = ", ".join(map(repr, value.args))
        return f"{value.name()}({inside})"
    if concrete(value) and not isinstance(value, type):
        return operations.attempt("repr()", repr, value)
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        parts = [shown(machine, one, depth + 1) for one in _parts(value)]
        unknown = next((one for one in parts if isinstance(one, NotKnown)), None)
        return NotKnown("repr()", unknown.why) if unknown else _joined(value, [str(one) for one in parts])
    return NotKnown(f"repr({described(value)})")


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        return [one for pair in value.items() for one in pair][:MOST_ITEMS]
    return list(value)[:MOST_ITEMS]  # type: ignore[call-overload,no-any-return]


def _joined(value: object, parts: list[str]) -> object:
    if isinstance(value, dict):
        inside = ", ".join(f"{key}: {one}" for key, one in zip(parts[::2], parts[1::2], strict=True))
        return operations.bounded("repr()", f"{{{inside}}}")
    inside = ", ".join(parts)
    if isinstance(value, list):
        return operations.bounded("repr()", f"[{inside}]")
    if isinstance(value, tuple):
        return operations.bounded("repr()", f"({inside}{',' if len(parts) == 1 else ''})")
    return NotKnown("repr()")


def arguments(machine: PythonMachine, failure: PythonError) -> tuple[object, ...]:
    """The arguments of an exception, which somebody looks at."""
    if any(type(one) is TextOfError for one in failure.args):
        failure.args = tuple(
            machine.world.text(one.number) if isinstance(one, TextOfError) else one for one in failure.args
        )
    return failure.args


def text(machine: PythonMachine, value: object) -> object:
    """``str(value)``."""
    value = machine.settle(value)
    if isinstance(value, PythonError):
        arguments(machine, value)
    if is_own(value):
        method = hook(machine, value, "__str__")
        if method is not None:
            return _typed(machine, "__str__", method)
        if not isinstance(value, PythonError):
            return operations.text(plain(value)) if isinstance(plain(value), str) else shown(machine, value)
    if isinstance(value, (list, tuple, set, frozenset, dict)) and not concrete(value):
        return shown(machine, value)
    return operations.text(value)


def formatted(machine: PythonMachine, value: object, spec: object) -> object:
    """``format(value, spec)``."""
    value = machine.settle(value)
    if not isinstance(spec, str) or any(len(run) > 3 for run in spec.split(".") if run.isdigit()):
        return NotKnown(described(value))
    if is_own(value):
        method = hook(machine, value, "__format__")
        if method is not None:
            return _typed(machine, "__format__", method, spec)
    elif spec and concrete(value):
        return operations.attempt("format()", format, value, spec)
    seen = text(machine, value)
    return operations.attempt("format()", format, seen, spec) if isinstance(seen, str) else seen
