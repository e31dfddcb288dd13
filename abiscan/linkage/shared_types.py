"""Which torch classes an extension shares with torch, and how, inferred from its imported and exported names.

A name shows much: an extension that imports a constructor allocates the object itself, with the size it was compiled
with; a parameter that is not a reference is laid out by the caller; a member function of torch that the extension
defines itself is inline code from a header, compiled with the layout in that header; type information shows which
classes are bases of which.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from abiscan.binary.mangling import Signature, demangle, demangle_type
from abiscan.regex import regex

if TYPE_CHECKING:
    from abiscan.binary.typeinfo import CxxClass


class TypeUse(enum.Enum):
    """How an extension uses a torch class; the use that depends most on its layout comes first."""

    CONSTRUCTS = "allocates it; torch constructs, copies or destroys it"
    DERIVES = "derives from it"
    BY_VALUE = "passes it by value"
    ELEMENTS = "passes an array of it"
    HAS_STRUCTOR = "compiles in its constructor or destructor"
    COMPILED = "compiles in its member functions"
    REFERS = "passes a reference to it"


class Touch(NamedTuple):
    """A place where an extension shares a class with torch.

    :ivar type: the class
    :ivar use: how the extension uses it
    :ivar symbol: a symbol, or the (mangled) name of a class that derives from it
    """

    type: str
    use: TypeUse
    symbol: str


_CLASS_NAME: Final = regex(r"(?:at|c10|c10d|caffe2|torch)(?:::\w+)+")
_SEQUENCE: Final = regex(r"(?:std::vector|std::initializer_list|c10::ArrayRef|c10::SmallVector\w*)$")
_EMBEDDING: Final = regex(r"(?:(?:std|c10)::optional|std::pair|std::tuple|std::array|std::variant)$")
_OPTIONAL: Final = regex(r"c10::optional<[\w:]+>")
_TYPE_OBJECT: Final = regex(r"(?:_ZTV)?N3c10[0-9]+([A-Z]\w*Type)E")
TYPE_KIND: Final = "c10::TypeKind"
"""Every object of a ``c10::Type`` has its number in it."""
CLASS_MAP: Final = "c10::getCustomClassTypeMap()"
"""Where custom classes are registered: no name has its result, which inlined code works with."""
_CLASS_MAP_SYMBOL: Final = "_ZN3c1021getCustomClassTypeMapEv"
_SOURCE_NAME: Final = regex(r"([0-9]{1,5})")
_NESTED: Final = regex(r"_ZN[rVK]*[RO]?(?=2at|3c10|4c10d|5torch|6caffe2)")
_STRUCTOR: Final = regex(r"[CD][0-5]")


def find_touches(imports: Iterable[str], defined: Iterable[str], derived: Iterable[CxxClass]) -> Iterator[Touch]:
    """Yield where an extension may share classes with torch: a name that looks like a torch class is taken for one.

    :param imports: the torch symbols that it imports (mangled)
    :param defined: the names that it defines itself
    :param derived: the classes whose type information it contains
    """
    for symbol in imports:
        if symbol == _CLASS_MAP_SYMBOL:
            yield Touch(CLASS_MAP, TypeUse.REFERS, symbol)
        if made_type(symbol):
            yield Touch(TYPE_KIND, TypeUse.CONSTRUCTS, symbol)
        owner, is_structor = _owner_of(symbol)
        if owner:
            yield Touch(owner, TypeUse.CONSTRUCTS if is_structor else TypeUse.REFERS, symbol)
        for parameter in Signature.of(demangle(symbol)).parameters or ():
            for name, use in _uses_in_parameter(parameter):
                yield Touch(name, use, symbol)
    for symbol in defined:
        owner, is_structor = _owner_of(symbol)
        if owner:
            yield Touch(owner, TypeUse.HAS_STRUCTOR if is_structor else TypeUse.COMPILED, symbol)
    for cxx_class in derived:
        if cxx_class.slots and made_type(cxx_class.name):
            yield Touch(TYPE_KIND, TypeUse.CONSTRUCTS, cxx_class.name)
        for base in cxx_class.bases:
            yield Touch(demangle_type(base), TypeUse.DERIVES, cxx_class.name)


def made_type(name: str) -> str | None:
    """Return the class of torch's types whose objects a virtual table or type information is for: ``ListType``."""
    match = _TYPE_OBJECT.fullmatch(name)
    return match[1] if match else None


def _owner_of(symbol: str) -> tuple[str, bool]:
    """Return the torch class or namespace that a mangled function is in, and whether it is a structor of that class."""
    nested = _NESTED.match(symbol)
    if nested is None:
        return "", False
    position, path = nested.end(), list[str]()
    # Itanium C++ ABI, <nested-name>: a prefix is a row of source names, each its length and its text. What is no source
    # name ends the row: an operator, template arguments, or C1 or D2 of a constructor or destructor.
    while (number := _SOURCE_NAME.match(symbol, position)) is not None:
        end = number.end() + int(number[1])
        path.append(symbol[number.end() : end])
        position = end
    if _STRUCTOR.match(symbol, position):
        return "::".join(path), True
    return "::".join(path[:-1]), False


def _uses_in_parameter(parameter: str) -> Iterator[tuple[str, TypeUse]]:
    """Yield the classes in the type of a parameter, and how an object of each class is shared."""
    if _OPTIONAL.fullmatch(parameter):
        yield parameter, TypeUse.BY_VALUE
    for class_name in _CLASS_NAME.finditer(parameter):
        around = _templates_around(parameter, class_name.start())
        after = parameter[class_name.end() :].lstrip()
        if after.startswith("<"):
            after = ""  # a class template: at most passed by reference
        holder = around[-1] if around else ""
        if "*" in after.partition(",")[0].partition(">")[0]:
            yield class_name[0], TypeUse.REFERS
        elif _SEQUENCE.search(holder):
            # A sequence is passed as pointers, but both sides step through its elements by their size.
            yield class_name[0], TypeUse.ELEMENTS
        elif parameter.rstrip().endswith(("&", "*")) or not all(map(_EMBEDDING.search, around)):
            yield class_name[0], TypeUse.REFERS
        else:
            yield class_name[0], TypeUse.BY_VALUE


def _templates_around(text: str, position: int) -> list[str]:
    """Return the templates whose arguments contain a position, the outermost first."""
    templates: list[str] = []
    start = 0
    # Invariant: ``templates`` is the stack of open templates, and ``start`` is where the current name began.
    for index in range(position):
        if text[index] == "<":
            templates.append(text[start:index])
            start = index + 1
        elif text[index] == ">" and templates:
            templates.pop()
            start = index + 1
        elif text[index] in ", (":
            start = index + 1
    return templates
