"""What a pickle builds, from its opcodes: nothing is imported, called or built.

The result is made of plain values. Where the unpickler would look up a global or call something, there is a record of
it instead.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from abiscan.errors import InputError

_MAX_OPCODES: Final = 5_000_000
_MAX_DEPTH: Final = 100_000
_FIX: Final = "save the model again: it is damaged or malicious"
_MARK: Final = object()
_CONSTANTS: Final = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_WITH_VALUE: Final = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)


class GlobalName(Struct, frozen=True):
    """A class or function that the unpickler would import: ``collections.OrderedDict``."""

    name: str


class Called(Struct, frozen=True, eq=False):
    """What a call during unpickling would return.

    :ivar state: what it is given afterwards
    """

    function: object
    arguments: object
    state: list[object]


class Persistent(Struct, frozen=True, eq=False):
    """What is stored outside of the pickle: a storage of a tensor, by its description."""

    description: object


class Pickle(Struct, frozen=True, kw_only=True):
    """What a pickle builds.

    :ivar globals: all names that it imports, in order
    :ivar end: where it ends
    """

    value: object
    globals: tuple[str, ...]
    end: int


def read_pickle(content: bytes, subject: str, start: int = 0) -> Pickle:
    """Read a pickle.

    :param subject: its name in messages
    :param start: where it begins in ``content``
    :raises InputError: it is damaged, or too large
    """
    stack: list[Any] = []
    memo: dict[int, object] = {}
    names: dict[str, None] = {}
    stream = io.BytesIO(content)
    stream.seek(start)
    try:
        # pickletools only splits the bytes into opcodes; nothing that the pickle says is done.
        for number, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
            if number > _MAX_OPCODES or len(stack) > _MAX_DEPTH:
                raise InputError(subject, "is a pickle of more instructions than any model's", _FIX)
            if opcode.name == "STOP":
                # The mark is an object on the stack here, and must not be taken for a value.
                if stack[-1] is _MARK:
                    raise ValueError("it ends inside of a value")  # noqa: TRY301
                # Several pickles may follow each other in one file, so it matters where this one ends.
                return Pickle(value=stack[-1], globals=tuple(names), end=stream.tell())
            _apply_opcode(opcode.name, argument, stack, memo, names)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        raise InputError(subject, f"is a damaged pickle: {error}", _FIX) from error
    raise InputError(subject, "is a pickle that ends early", _FIX)


def _apply_opcode(name: str, argument: Any, stack: list[Any], memo: dict[int, object], names: dict[str, None]) -> None:
    """Do what one instruction does to the stack."""
    # The names and effects of opcodes are those of ``pickletools.opcodes``, up to protocol 5.
    if name in _WITH_VALUE:
        stack.append(argument)
    elif name in _CONSTANTS:
        stack.append(_CONSTANTS[name])
    elif name in _TO_MEMO:
        memo[len(memo) if name == "MEMOIZE" else int(argument)] = stack[-1]
    elif name in ("GET", "BINGET", "LONG_BINGET"):
        stack.append(memo[int(argument)])
    elif name in ("GLOBAL", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4"):
        stack.append(_read_global(name, argument, stack, names))
    elif name in ("PROTO", "FRAME", "READONLY_BUFFER"):
        return
    else:
        _ON_STACK[name](stack) if name != "PERSID" else stack.append(Persistent(argument))


_TO_MEMO: Final = frozenset(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"))


def _read_global(name: str, argument: Any, stack: list[Any], names: dict[str, None]) -> GlobalName:
    # Protocol 4 takes module and name from the stack, older ones have them in the opcode, with a space between.
    if name == "STACK_GLOBAL":
        attribute, module = stack.pop(), stack.pop()
        text = f"{module}.{attribute}"
    else:
        text = ".".join(str(argument).split(" ", 1)) if name == "GLOBAL" else f"copyreg extension {argument}"
    names[text] = None
    return GlobalName(text)


def _pop_marked(stack: list[Any]) -> list[Any]:
    """Pop what is on the stack above the last mark, and the mark; return it."""
    # The topmost mark: opcodes that take a variable number of items end with the nearest one.
    position = len(stack) - 1
    while stack[position] is not _MARK:
        position -= 1
        if position < 0:
            raise ValueError("there is no mark")
    items = stack[position + 1 :]
    del stack[position:]
    return items


def _make_tuple_builder(size: int) -> Any:
    def build_tuple(stack: list[Any]) -> None:
        items = tuple(stack[len(stack) - size :])
        if len(items) != size:
            raise ValueError("the stack is too short")
        del stack[len(stack) - size :]
        stack.append(items)

    return build_tuple


def _append_items(stack: list[Any]) -> None:
    # A subclass of ``list`` is built by a call, and filled afterwards: then the items are part of its state.
    items = _pop_marked(stack)
    if isinstance(stack[-1], list):
        stack[-1] += items
    elif isinstance(stack[-1], Called):
        stack[-1].state.append(items)


def _append_item(stack: list[Any]) -> None:
    item = stack.pop()
    if isinstance(stack[-1], list):
        stack[-1].append(item)
    elif isinstance(stack[-1], Called):
        stack[-1].state.append([item])


class Pairs(list[tuple[object, object]]):
    """A dictionary, as the pairs that are put in: keys need not be hashable here."""


def _pairs(items: Sequence[object]) -> Iterator[tuple[object, object]]:
    return zip(items[::2], items[1::2], strict=True)


def _add_pairs(target: object, pairs: list[tuple[object, object]]) -> None:
    if isinstance(target, Pairs):
        target += pairs
    elif isinstance(target, Called):
        target.state.append(Pairs(pairs))


def _set_items(stack: list[Any]) -> None:
    items = _pop_marked(stack)
    _add_pairs(stack[-1], list(_pairs(items)))


def _set_item(stack: list[Any]) -> None:
    value, key = stack.pop(), stack.pop()
    _add_pairs(stack[-1], [(key, value)])


def _call_function(stack: list[Any]) -> None:
    arguments, function = stack.pop(), stack.pop()
    stack.append(Called(function, arguments, []))


def _call_with_names(stack: list[Any]) -> None:
    names, arguments, function = stack.pop(), stack.pop(), stack.pop()
    stack.append(Called(function, (arguments, names), []))


def _make_instance(stack: list[Any]) -> None:
    items = _pop_marked(stack)
    stack.append(Called(items[0] if items else None, tuple(items[1:]), []))


def _set_state(stack: list[Any]) -> None:
    state = stack.pop()
    if isinstance(stack[-1], Called):
        stack[-1].state.append(state)


def _push_persistent(stack: list[Any]) -> None:
    stack.append(Persistent(stack.pop()))


_ON_STACK: Final = {
    "MARK": lambda stack: stack.append(_MARK),
    "POP": list.pop,
    "POP_MARK": _pop_marked,
    "DUP": lambda stack: stack.append(stack[-1]),
    "EMPTY_TUPLE": lambda stack: stack.append(()),
    "TUPLE": lambda stack: stack.append(tuple(_pop_marked(stack))),
    "TUPLE1": _make_tuple_builder(1),
    "TUPLE2": _make_tuple_builder(2),
    "TUPLE3": _make_tuple_builder(3),
    "EMPTY_LIST": lambda stack: stack.append([]),
    "LIST": lambda stack: stack.append(_pop_marked(stack)),
    "APPEND": _append_item,
    "APPENDS": _append_items,
    "EMPTY_DICT": lambda stack: stack.append(Pairs()),
    "DICT": lambda stack: stack.append(Pairs(_pairs(_pop_marked(stack)))),
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    "EMPTY_SET": lambda stack: stack.append([]),
    "ADDITEMS": _append_items,
    "FROZENSET": lambda stack: stack.append(tuple(_pop_marked(stack))),
    "REDUCE": _call_function,
    "NEWOBJ": _call_function,
    "NEWOBJ_EX": _call_with_names,
    "INST": _make_instance,
    "OBJ": _make_instance,
    "BUILD": _set_state,
    "BINPERSID": _push_persistent,
    "NEXT_BUFFER": lambda stack: stack.append(b""),
}
