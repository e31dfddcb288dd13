"""Which classes of torch an extension shares with it, and how: told from the names that cross the border.

A name says much: whoever imports a constructor allocates the object himself, with the size that he was compiled with;
a parameter that is no reference is laid out by the caller; a member function of torch that the extension defines itself
is inline code of a header, compiled with the layout of that header; type information says what derives from what.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from abiscan.mangling import Signature, demangle, demangle_type

if TYPE_CHECKING:
    from abiscan.typeinfo import CxxClass


class How(enum.Enum):
    """How an extension shares a class with torch, what depends most on the layout first."""

    CONSTRUCTS = "allocates it, and torch initialises, copies or destroys it"
    DERIVES = "derives from it"
    BY_VALUE = "passes it by value"
    ELEMENTS = "passes many of it, one after the other"
    COMPILED = "has functions of it compiled in"
    REFERS = "passes a reference to it"


class Touch(NamedTuple):
    """A place where an extension shares the class ``type``: a symbol, or the (mangled) name of a class deriving from it."""

    type: str
    how: How
    symbol: str


_CLASS_NAME: Final = re.compile(r"(?:at|c10|c10d|caffe2|torch)(?:::\w+)+")
_SEQUENCE: Final = re.compile(r"(?:std::vector|std::initializer_list|c10::ArrayRef|c10::SmallVector\w*)$")
_EMBEDDING: Final = re.compile(r"(?:(?:std|c10)::optional|std::pair|std::tuple|std::array|std::variant)$")
_SOURCE_NAME: Final = re.compile(r"([0-9]{1,5})")
_NESTED: Final = re.compile(r"_ZN[rVK]*[RO]?")
_STRUCTOR: Final = re.compile(r"[CD][0-5]")


def touches(
    imports: Iterable[str], defined: Iterable[str], derived: Iterable[CxxClass], among: Collection[str]
) -> Iterator[Touch]:
    """Where an extension shares classes with torch.

    :param imports: the names of torch that it uses (mangled)
    :param defined: the names that it defines itself
    :param derived: the classes whose type information it has
    :param among: the classes of interest, as in ``c10::FunctionSchema``; others are passed over
    """
    words = {f"{len(word)}{word}" for name in among for word in name.partition("<")[0].split("::")[-1:]}
    mentions = re.compile("|".join(map(re.escape, sorted(words)))) if words else None
    if mentions is None:
        return
    for symbol in imports:
        if mentions.search(symbol):
            yield from _of_import(symbol, among)
    for symbol in defined:
        if mentions.search(symbol):
            yield from _of_own(symbol, among)
    for own in derived:
        if demangle_type(own.name) not in among:  # torch's own, defined in a header: it derives as torch does
            for base in own.bases:
                name = demangle_type(base)
                if name in among:
                    yield Touch(name, How.DERIVES, own.name)


def _of_import(symbol: str, among: Collection[str]) -> Iterator[Touch]:
    owner, rest = _owner(symbol)
    if owner in among:
        yield Touch(owner, How.CONSTRUCTS if _STRUCTOR.match(rest) else How.REFERS, symbol)
    for parameter in Signature.of(demangle(symbol)).parameters or ():
        for name, how in _in_parameter(parameter):
            if name in among:
                yield Touch(name, how, symbol)


def _of_own(symbol: str, among: Collection[str]) -> Iterator[Touch]:
    owner, rest = _owner(symbol)
    if owner in among:
        yield Touch(owner, How.CONSTRUCTS if _STRUCTOR.match(rest) else How.COMPILED, symbol)


def _owner(symbol: str) -> tuple[str, str]:
    """The class (or namespace) that a mangled function belongs to, and what follows; empty where it has none.

    What follows is ``C1``… or ``D1``… for constructors and destructors, else nothing.
    """
    nested = _NESTED.match(symbol)
    if nested is None:
        return "", ""
    at, path = nested.end(), list[str]()
    while (number := _SOURCE_NAME.match(symbol, at)) is not None:
        end = number.end() + int(number[1])
        path.append(symbol[number.end() : end])
        at = end
    if structor := _STRUCTOR.match(symbol, at):
        return "::".join(path), structor[0]
    return "::".join(path[:-1]), ""


def _in_parameter(parameter: str) -> Iterator[tuple[str, How]]:
    """The classes that the type of a parameter mentions, each with how an object of it is shared."""
    for found in _CLASS_NAME.finditer(parameter):
        around = _templates_around(parameter, found.start())
        after = parameter[found.end() :].lstrip()
        if after.startswith("<"):
            after = ""  # a template over others: itself by reference at most
        holder = around[-1] if around else ""
        if "*" in after.partition(",")[0].partition(">")[0]:
            yield found[0], How.REFERS
        elif _SEQUENCE.search(holder):
            yield found[0], How.ELEMENTS
        elif parameter.rstrip().endswith(("&", "*")) or not all(map(_EMBEDDING.search, around)):
            yield found[0], How.REFERS
        else:
            yield found[0], How.BY_VALUE


def _templates_around(text: str, at: int) -> list[str]:
    """The templates in whose arguments a position is, the outermost first."""
    open_: list[str] = []
    start = 0
    for index in range(at):
        if text[index] == "<":
            open_.append(text[start:index])
            start = index + 1
        elif text[index] == ">" and open_:
            open_.pop()
            start = index + 1
        elif text[index] in ", (":
            start = index + 1
    return open_
