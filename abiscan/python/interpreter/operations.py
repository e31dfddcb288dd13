"""Python's own operations on known values, kept within bounds."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any, Final, TypeAlias

from abiscan.python.interpreter.cost import LONGEST, count_parts, may_grow, size_of_filled, total_length
from abiscan.python.interpreter.values import (
    VIEWS,
    Bound,
    Class,
    MoreItems,
    NotKnown,
    PythonError,
    PythonFunction,
    PythonModule,
    RemainingItems,
    TextWithHoles,
    Thrown,
    Why,
    is_concrete,
    key_of,
    keys_behind,
    known_length,
    may_lack_items,
)
from abiscan.regex import regex

_LARGEST_INTEGER = 1 << 4096
_MOST_ITEMS = 100_000

FAITHFUL = (ValueError, LookupError, ArithmeticError)
"""Errors that Python raises about the values themselves, and would have raised in the package."""

_BINARY: dict[type[ast.operator], Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitXor: operator.xor,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
SIGNS = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip

Name: TypeAlias = "str | Callable[[], str]"
"""What an operation is called that cannot be done; or what says so, where telling takes time."""


def attempt_operation(name: Name, function: Callable[..., object], /, *args: object, **kwargs: object) -> object:
    """Do what Python does with known values; what Python raises about them is raised in the package, too."""
    try:
        return bound_size(name, function(*args, **kwargs))
    except FAITHFUL as error:
        raise Thrown(PythonError(type(error), _known_words(error, function))) from None
    except (TypeError, AttributeError, RuntimeError, MemoryError):
        return _unknown(name)


def _unknown(name: Name) -> NotKnown:
    return NotKnown(name if isinstance(name, str) else name())


_WORDS_OF_VERSIONS: Final = regex(
    r"(?:.* is not in list|list\.index\(x\): x not in list"
    r"|(?:max|min)\(\) (?:arg is an empty sequence|iterable .* empty)"
    r"|Invalid format specifier.*|(?:float|integer) .*by zero|float modulo|.*to a negative power"
    r"|(?:cannot use .*)?\(?unhashable type: .*|cannot convert dictionary update sequence.*|object is not iterable"
    r"|string indices must be integers.*|replace(?: expected|\(\) takes) at least .*|Exceeds the limit \(4300.*"
    r"|complex\(\) (?:first )?argument must be .*|expected string or bytes-like object.*|math domain error"
    r"|expected a (?:non-?negative|positive) input.*|Illegal trailing comma .*|Expecting (?:value|property name) .*"
    r"|(?:argument should be|expected) a? ?str.*os\.PathLike .*|day .* (?:is out of|must be in) range .*)"
)
"""What Python 3.10 to 3.14 say in different words, as tried: see ``make pythons``."""


def _known_words(error: BaseException, function: object) -> tuple[object, ...]:
    """Return the arguments of an error that the running Python raised, without a text that others do not say."""
    is_rounded = isinstance(error, ZeroDivisionError) and any(
        function is one for one in (operator.floordiv, operator.mod)
    )
    text = error.args[0] if len(error.args) == 1 else None
    if is_rounded or (isinstance(text, str) and not isinstance(error, KeyError) and _WORDS_OF_VERSIONS.fullmatch(text)):
        return (NotKnown("the text of the error"),)
    return error.args


def bound_size(name: Name, value: object) -> object:
    """Return the value, unless it has grown too large."""
    if isinstance(value, (str, bytes)):
        return _unknown(name) if len(value) > LONGEST else value
    if isinstance(value, int):
        return _unknown(name) if abs(value) > _LARGEST_INTEGER else value
    if isinstance(value, (list, tuple, set, dict, frozenset)) and len(value) > _MOST_ITEMS:
        return _unknown(name)
    return value


def apply_binary(op: ast.operator, left: object, right: object) -> object:
    """Return ``left OP right``."""

    def name() -> str:
        return f"{describe_value(left)} {type(op).__name__} {describe_value(right)}"

    # Of an operand that is not gone through here, ``%`` tells nothing: it may hold itself.
    if not (isinstance(op, ast.Mod) and not is_concrete(right)) and may_grow(op, left, right):
        return _unknown(name)
    joined = isinstance(left, (list, tuple)) and isinstance(right, (list, tuple))
    if isinstance(op, ast.Add) and joined:
        count_parts(len(left) + len(right))  # type: ignore[arg-type]
        return attempt_operation(name, operator.add, left, right)
    if isinstance(op, ast.Mult) and isinstance(left, list) and isinstance(right, int):
        return attempt_operation(name, operator.mul, left, right)
    if not (is_concrete(left) and is_concrete(right)):
        return _unknown_binary(op, name(), left, right)
    return attempt_exactly(name, _BINARY.get(type(op), operator.matmul), left, right)


def _unknown_binary(op: ast.operator, name: str, left: object, right: object) -> str | NotKnown:
    texts = [isinstance(operand, (str, TextWithHoles)) for operand in (left, right)]
    made: object = None
    if isinstance(op, ast.Mod) and isinstance(left, str):
        made = make_text(name, operator.mod, left, right, size=lambda parts: size_of_filled(left, "%", parts))
    elif isinstance(op, ast.Add) and all(texts):
        made = make_text(name, operator.add, left, right)
    return made if isinstance(made, (str, TextWithHoles)) else unknown_result(name, left, right)


_EXACT = (str, bytes, int, float, bool, type(None), *VIEWS)
"""The types whose values are here what they are in the package, down to the errors about types; so are those of models
with ``is_exact``.
"""


def attempt_exactly(name: Name, function: Callable[..., object], *args: object) -> object:
    """Do what Python does with known values, with the errors about types that are certain."""
    if any(type(argument) not in _EXACT and not getattr(type(argument), "is_exact", False) for argument in args):
        return attempt_operation(name, function, *args)
    try:
        return bound_size(name, function(*args))
    except (*FAITHFUL, TypeError) as error:
        raise Thrown(PythonError(type(error), _known_words(error, function))) from None
    except (RecursionError, MemoryError):
        return _unknown(name)


def apply_unary(op: ast.unaryop, value: object) -> object:
    """Return ``-value`` and the like; ``not`` is decided by truth."""
    if not is_concrete(value):
        return unknown_result(f"{type(op).__name__} {describe_value(value)}", value)
    functions = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}
    return attempt_exactly("unary", functions[type(op)], value)  # type: ignore[arg-type]


def compare_values(op: ast.cmpop, left: object, right: object) -> object:
    """Return ``left OP right``: True, False, or unknown."""
    name = f"{describe_value(left)} {SIGNS[type(op)]} {describe_value(right)}"
    if isinstance(op, (ast.Is, ast.IsNot)):
        same = _are_identical(left, right)
        return unknown_result(name, left, right) if same is None else same is isinstance(op, ast.Is)
    if isinstance(op, (ast.In, ast.NotIn)):
        is_contained = contains_item(right, left)
        return unknown_result(name, left, right) if is_contained is None else is_contained is isinstance(op, ast.In)
    # What is known is compared by Python itself. Of what is not, equality is decided only between values that are equal
    # to nothing but themselves.
    if is_concrete(left) and is_concrete(right):
        return attempt_exactly(name, COMPARISONS[type(op)], left, right)
    if isinstance(op, (ast.Eq, ast.NotEq)) and not isinstance(left, NotKnown) and left is right:
        return isinstance(op, ast.Eq)
    if isinstance(op, (ast.Eq, ast.NotEq)) and _are_different(left, right):
        return isinstance(op, ast.NotEq)
    return unknown_result(name, left, right)


_UNIQUE = (PythonFunction, PythonModule, Class, type, VIEWS[1], str, bytes, int, float, bool, type(None))
_SETS = (VIEWS[0], VIEWS[2])
"""The views that compare as sets do."""


_KINDS = (str, bytes, (int, float, complex), type(None), list, tuple, dict, (set, frozenset, *_SETS), Bound)


def is_unique(value: object) -> bool:
    """Whether a value is equal to nothing but itself, or is a text or a number."""
    return isinstance(value, _UNIQUE) or getattr(type(value), "is_unique", False)


def _are_different(left: object, right: object) -> bool:
    """Whether two values that are not the same are unequal by what they are.

    Functions, classes and modules are equal to nothing but themselves, texts, numbers, lists, tuples and methods to
    nothing of another kind.
    """
    kinds = [next((kind for kind in _KINDS if isinstance(value, kind)), None) for value in (left, right)]
    if not all(kind or is_unique(value) for kind, value in zip(kinds, (left, right), strict=True)):
        return False
    return kinds[0] is not kinds[1] or kinds[0] is None


def _are_identical(left: object, right: object) -> bool | None:
    if isinstance(left, NotKnown) or isinstance(right, NotKnown):
        is_text = any(isinstance(operand, TextWithHoles) for operand in (left, right))
        return False if is_text and (left is None or right is None) else None
    if left is right:
        return True
    # Whether equal texts and numbers are one object is up to the interpreter. Code that asks mostly compares constants,
    # which are.
    plain = (str, int, float, bytes, tuple)
    if isinstance(left, plain) and isinstance(right, plain) and not isinstance(left, bool):
        return left == right if is_concrete(left) and is_concrete(right) else None
    return False


def contains_item(container: object, item: object) -> bool | None:
    """Return ``item in container``, None if that is not known."""
    if isinstance(container, (str, bytes)):
        same = isinstance(item, str) if isinstance(container, str) else isinstance(item, bytes)
        return item in container if same else None  # type: ignore[operator]
    if not isinstance(container, (list, tuple, range)):
        return None
    if isinstance(item, NotKnown):
        return None if container else False
    if isinstance(container, range):
        return in_range(container, item)
    return item in container if is_concrete(container) and is_concrete(item) else None


def in_range(numbers: range, item: object) -> bool:
    """Return ``item in numbers``, in constant time."""
    member = as_member(item)
    return member is not None and member in numbers


def as_member(item: object) -> int | None:
    """Return the whole number that an item of a range can equal, None if there is none.

    Python itself compares a float with each number of the range, which may be without end in practice.
    """
    if isinstance(item, complex):
        item = None if item.imag else item.real
    if isinstance(item, float):
        item = int(item) if item.is_integer() else None
    return int(item) if isinstance(item, int) else None


def take_item(value: object, index: object) -> object:
    """Return ``value[index]``."""

    def name() -> str:
        return f"{describe_value(value)}[{describe_value(index)}]"

    if isinstance(value, (list, tuple)) and known_length(value) is None:
        # Items before the first unknown number of items are counted from the front, those after the last one from the
        # end.
        gaps = [isinstance(item, MoreItems) for item in value]
        before = gaps.index(True)
        after = 0 if RemainingItems in map(type, value) else gaps[::-1].index(True)
        is_known = isinstance(index, int) and (0 <= index < before or 0 < -index <= after)
        return value[index] if is_known else unknown_result(name(), *value)  # type: ignore[call-overload]
    if isinstance(value, (list, tuple, str, bytes, range)) and isinstance(index, (int, slice)) and is_concrete(index):
        return attempt_operation(name, operator.getitem, value, index)
    return unknown_result(name(), value, index)


def describe_value(value: object) -> str:
    """Return how a condition names a value."""
    if type(value) is str:
        return repr(value) if len(value) < 80 else "…"
    if isinstance(value, NotKnown):
        return value.name
    if isinstance(value, (str, int, float, type(None), PurePath)):
        return repr(value) if not isinstance(value, str) or len(value) < 80 else "…"
    return str(getattr(value, "name", None) or type(value).__name__)


def unknown_result(name: str, *parts: object) -> NotKnown:
    """Return what is not known since it comes from these: two from the same parts have one value."""
    reasons = [part.why for part in parts if isinstance(part, NotKnown)]
    why = Why.TARGET if Why.TARGET in reasons else next(iter(reasons), Why.NOT_FOLLOWED)
    return NotKnown(name[:120], why, ("of", name[:120], *map(key_of, parts)))


_HOLE = "\ue0ab"
"""A character for private use, which stands for a part of a text that is not known."""


class _Hole:
    """What is put in place of a value that is not known, for Python to make a text with it."""

    def __str__(self) -> str:
        return _HOLE

    __repr__ = __str__

    def __format__(self, _spec: str) -> str:
        return _HOLE


def make_text(
    name: str,
    make: Callable[..., object],
    *values: object,
    size: Callable[[list[object]], int] = total_length,
) -> object:
    """Return the text that Python makes of values, with a hole for each that is not known.

    :param size: tells how long the text is, by the values and what is in them, in order
    """
    leaves = _leaves(values)
    unknown = next((value for value in leaves if isinstance(value, NotKnown)), NotKnown(name))
    known = [value for value in leaves if not isinstance(value, NotKnown)]
    if any(isinstance(value, MoreItems) for value in leaves) or not is_concrete(known):
        return NotKnown(name, unknown.why)
    if size(list(map(_with_holes, leaves))) > LONGEST:
        return NotKnown(name, unknown.why)
    made = attempt_operation(name, make, *map(_with_holes, values))
    if not isinstance(made, str):
        return NotKnown(name, unknown.why)
    parts = tuple(made.split(_HOLE))
    if len(parts) == 1:
        return made
    return TextWithHoles(name, unknown.why, truth=True if any(parts) else None, parts=parts)


def _leaves(values: Iterable[object]) -> list[object]:
    """Return values, and what is in tuples, lists and dicts among them."""
    leaves: list[object] = []
    for value in values:
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else (value,)
        if isinstance(value, dict) and any(isinstance(key, NotKnown) for key in value):
            leaves.append(MoreItems("the keys of a dict"))
        leaves.extend(inside)
    return leaves


def _with_holes(value: object) -> object:
    if isinstance(value, TextWithHoles):
        return _HOLE.join(value.parts)
    if isinstance(value, NotKnown):
        return _Hole()
    if isinstance(value, (tuple, list)):
        return type(value)(map(_with_holes, value)) if type(value) in {tuple, list} else value
    return {key: _with_holes(part) for key, part in value.items()} if isinstance(value, dict) else value


def text_of(value: object) -> object:
    """Return ``str(value)`` of what no class of the package says it of."""
    if isinstance(value, PythonError):
        message = value.message()
        return NotKnown(f"str({value.name()})") if message is None else message
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, TextWithHoles):
        return value
    if is_concrete(value) and not isinstance(value, type):
        return attempt_operation("str()", str, value)
    return NotKnown(f"str({describe_value(value)})", value.why) if isinstance(value, NotKnown) else NotKnown("str()")


def truth_of(value: object) -> bool | None:
    """Return ``bool(value)`` of what no class of the package says it of, None if that is not known."""
    if isinstance(value, NotKnown):
        return value.truth
    value = keys_behind(value)
    if isinstance(value, (list, tuple, dict, set, frozenset, VIEWS[0])):
        # In a list, only ``MoreItems`` stands for items of which there may be none; in a dict or set, any unknown does.
        kind = MoreItems if isinstance(value, (list, tuple)) else NotKnown
        may_be_empty = may_lack_items(value) or all(isinstance(item, kind) for item in value)
        return None if value and may_be_empty else bool(value)
    if isinstance(value, (str, bytes, int, float, range, type(None), PurePath)):
        return bool(value)
    return True
