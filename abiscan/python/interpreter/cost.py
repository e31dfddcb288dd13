"""What Python's own operations on the values of a package cost: how large their results are, and how much work it is.

A result may not fit into memory, so its size is told before the operation is done. The operands are known and have been
gone through (see ``is_concrete``), so that they are not large themselves; what is told is what becomes of them where it
grows faster than they do: by a width, by repetition, by filling in.

A step of a run is one statement or expression. What a single one does to a large value is counted by its parts: a part
that occurs twice counts twice, as ``hash``, ``==`` and ``repr`` go through it twice.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Sequence, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from abiscan.regex import regex

LONGEST: Final = 1_000_000
"""The longest text that is worked with."""
_LARGEST_EXPONENT: Final = 4096
_WIDEST: Final = 1_000
_MOST_ITEMS: Final = 100_000
_MOST_DIGITS: Final = 1_300
"""How many digits the largest number has that is worked with."""
_STEPS_AT_ONCE: Final = 1_000
"""Comparisons of characters that take as long as making one."""
_NESTED_FIELD: Final = regex(r"\{[^{}]*\{")
_DIGITS: Final = regex(r"\d{4,}")
_LINEAR_CODECS: Final = regex(r"(?i)(utf|u8|ascii|us|latin|iso|cp|l1|windows|mac|unicode|raw).*")


def may_grow(op: ast.operator, left: object, right: object) -> bool:
    """Whether ``left OP right`` may be very large."""
    if isinstance(op, ast.Mod):
        return isinstance(left, (str, bytes)) and size_of_filled(left, "%", [right]) > LONGEST
    if isinstance(op, ast.Mult):
        sizes = [
            len(operand) if isinstance(operand, (str, bytes, list, tuple)) else operand for operand in (left, right)
        ]
        numbers = [abs(operand) for operand in sizes if isinstance(operand, int)]
        are_numbers = all(isinstance(operand, int) for operand in (left, right))
        return len(numbers) == 2 and numbers[0] * numbers[1] > LONGEST and not are_numbers
    if not isinstance(op, (ast.Pow, ast.LShift)) or not isinstance(left, int) or not isinstance(right, int):
        return False
    return abs(right) * (left.bit_length() if isinstance(op, ast.Pow) else 1) > _LARGEST_EXPONENT


def may_method_grow(value: object, name: str, args: list[object], kwargs: dict[str, object]) -> bool:
    """Whether what a method gives, or what it changes, may be very large, or take very long."""
    if any(isinstance(part, range) and part[_MOST_ITEMS:] for part in args) and not isinstance(value, range):
        return True
    size = _SIZES.get(name)
    if size is None:
        return False
    try:
        return size(value, args, kwargs) > LONGEST
    except (TypeError, ValueError, AttributeError, IndexError):
        return False  # Python raises the same


def may_format_grow(spec: str) -> bool:
    """Whether the specification of a format is for a very wide field."""
    return _DIGITS.search(spec) is not None


def total_length(values: Iterable[object]) -> int:
    """Return how long the texts of values are together."""
    return sum(map(_length, _leaves(values)))


def size_of_filled(template: str | bytes, sign: str, values: Iterable[object]) -> int:
    """Return how long a template may be with its fields filled in, each of them with all values.

    :param sign: what a field begins with: ``{`` or ``%``
    """
    parts = list(_leaves(values))
    text = template if isinstance(template, str) else template.decode("latin-1")
    # A width may stand in the template, or be one of the values.
    takes_width = "*" in text if sign == "%" else _NESTED_FIELD.search(text) is not None
    if _DIGITS.search(text) or (takes_width and _width(None, parts, {}) > _WIDEST):
        return LONGEST + 1
    return len(text) + text.count(sign) * total_length(parts)


def _leaves(values: Iterable[object]) -> Iterable[object]:
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, (str, int)):  # most are, and to ask for views takes long
            yield value
        elif isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, (list, tuple, set, frozenset, KeysView, ValuesView, ItemsView)):
            waiting += value
        else:
            yield value


def _length(value: object) -> int:
    return len(value) if isinstance(value, (str, bytes)) else _MOST_DIGITS if isinstance(value, int) else 64


def _width(_value: object, args: Iterable[object], kwargs: dict[str, object]) -> int:
    """Return the largest number among arguments."""
    return max((abs(part) for part in (*args, *kwargs.values()) if isinstance(part, int)), default=0)


def _of_format(value: Any, args: list[object], kwargs: dict[str, object]) -> int:
    return size_of_filled(value, "{", [args, kwargs])


def _of_replace(value: Any, args: list[Any], _kwargs: dict[str, object]) -> int:
    return int(value.count(args[0])) * len(args[1])


def size_of_joined(between: str | bytes, parts: Sequence[object]) -> int:
    """Return how long the text is that ``join`` makes."""
    return len(between) * len(parts) + total_length(parts)


def _of_join(value: Any, args: list[Any], _kwargs: dict[str, object]) -> int:
    return size_of_joined(value, args[0])


def _of_translate(value: Any, args: list[Any], _kwargs: dict[str, object]) -> int:
    return len(value) * max(map(_length, _leaves(args)), default=1)


def _of_search(value: Any, args: list[Any], _kwargs: dict[str, object]) -> int:
    # From the right, Python compares the text at each place (FASTSEARCH in Objects/stringlib/fastsearch.h).
    return len(value) * len(args[0]) // _STEPS_AT_ONCE if args and args[0] is not None else 0


def _of_codec(value: Any, args: list[object], kwargs: dict[str, object]) -> int:
    named = args[0] if args else kwargs.get("encoding", "utf-8")
    is_linear = isinstance(named, str) and _LINEAR_CODECS.fullmatch(named)
    return 0 if is_linear else len(value) ** 2


_SIZES: Final[dict[str, Callable[[Any, list[Any], dict[str, object]], int]]] = {
    **dict.fromkeys(("ljust", "rjust", "center", "zfill", "to_bytes", "__round__", "bytes"), _width),
    "expandtabs": lambda value, args, kwargs: (
        value.count("\t" if isinstance(value, str) else b"\t") * _width(value, args, kwargs)
    ),
    **dict.fromkeys(("format", "format_map"), _of_format),
    "replace": _of_replace,
    "join": _of_join,
    "translate": _of_translate,
    **dict.fromkeys(("rfind", "rindex", "rsplit", "rpartition"), _of_search),
    **dict.fromkeys(("encode", "decode"), _of_codec),
}
"""How large methods make what they give."""


# ---- work

_FREE: Final = 64
_PARTS_PER_STEP: Final = 16
_count: ContextVar[Callable[[int], None] | None] = ContextVar("count", default=None)


@contextmanager
def counted_by(count: Callable[[int], None]) -> Iterator[None]:
    """Have the work that is done in the body of the ``with`` counted.

    :param count: gets a number of steps
    """
    token = _count.set(count)
    try:
        yield
    finally:
        _count.reset(token)


def count_parts(parts: int) -> None:
    """Count what going through so many parts takes; a few are paid for by the step that goes through them."""
    if parts > _FREE and (count := _count.get()) is not None:
        count(parts // _PARTS_PER_STEP)
