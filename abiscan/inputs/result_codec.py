"""Results as text, and back: frozen structs, named tuples, enumerations, versions, paths, and collections of them.

The text names classes of this package and nothing else, and reading it calls nothing but their constructors: whoever
wrote it decides what the result says, and not what this program does.
"""

from __future__ import annotations

import enum
import functools
import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec.structs
from msgspec import Struct

from abiscan.inputs.version import TorchVersion

_Builder: TypeAlias = Callable[[list[Any]], Any]

_PLAIN: Final = (str, int, bool, float)
_PACKAGE: Final = __name__.partition(".")[0]
_COLLECTIONS: Final[dict[str, _Builder]] = {
    "tuple": tuple,
    "list": list,
    "dict": lambda values: dict(zip(values[::2], values[1::2], strict=True)),
    "frozenset": frozenset,
    "set": set,
    "version": lambda values: TorchVersion(*values),
    "path": lambda values: Path(*values),
}


def encode_result(value: object) -> str:
    """Return the text of a result.

    :raises TypeError: there is something in it of another type
    """
    writer = _Writer()
    last = writer.refer_to(value)
    return json.dumps([writer.classes, writer.nodes, last], separators=(",", ":"), check_circular=False)


def decode_result(text: str) -> Any:
    """Return the result in a text.

    :raises ValueError: (or another built-in error) it is none that ``encode_result`` wrote
    """
    classes, nodes, last = json.loads(text)
    # Each class is checked once, before any value is made.
    builders = [_make_builder(*class_) for class_ in classes]
    results: list[Any] = []
    for kind, *values in nodes:
        # A part is either plain or a list with the number of an earlier node; a number of a later one is an IndexError.
        results.append(builders[kind]([results[value[0]] if type(value) is list else value for value in values]))
    return results[last[0]] if type(last) is list else last


class _Writer:
    """Everything that is not plain is a node of its own, written once, and after what it consists of."""

    def __init__(self) -> None:
        self.classes: list[tuple[str, ...]] = []
        self.nodes: list[list[Any]] = []
        self._kinds: dict[tuple[str, ...], int] = {}
        self._places: dict[int, tuple[int, object]] = {}  # with the object, or another one might get its id

    def refer_to(self, value: Any) -> Any:
        """Return a plain value itself; of anything else, the number of its node, in a list."""
        if value is None or type(value) in _PLAIN:
            return value
        # By identity, not by equality: 1 == True, and two equal results may have parts of different types.
        place = self._places.get(id(value))
        if place is None:
            # Depth first: the parts get their numbers before the whole, so ``decode_result`` needs one pass and no
            # placeholders.
            kind, values = _kind_and_parts(value)
            node = [self._number_kind(kind)]
            # Most parts are plain: a call for each would be most of the work.
            node += [part if part is None or type(part) in _PLAIN else self.refer_to(part) for part in values]
            place = self._places[id(value)] = len(self.nodes), value
            self.nodes.append(node)
        return [place[0]]

    def _number_kind(self, kind: tuple[str, ...]) -> int:
        if kind not in self._kinds:
            self._kinds[kind] = len(self.classes)
            self.classes.append(kind)
        return self._kinds[kind]


def _kind_and_parts(value: Any) -> tuple[tuple[str, ...], Iterable[Any]]:
    """Return the kind of a value, and what it consists of."""
    cls: Any = type(value)
    if cls in (tuple, list):
        return (cls.__name__,), value
    if cls in (frozenset, set):
        # The order of a set depends on the hashes of texts, which differ from process to process.
        return (cls.__name__,), sorted(value, key=repr)
    if isinstance(value, Struct):
        return _kind_of(cls), msgspec.structs.astuple(value)
    if isinstance(value, tuple):
        return _kind_of(cls), value
    if isinstance(value, enum.Enum):
        return _kind_of(cls), [value.name]
    if isinstance(value, Mapping):
        return ("dict",), [part for item in value.items() for part in item]
    if cls is TorchVersion:
        return ("version",), [str(value)]
    if isinstance(value, Path):
        return ("path",), [str(value)]
    raise TypeError(f"{cls.__module__}.{cls.__qualname__} cannot be kept")


@functools.cache
def _kind_of(cls: type) -> tuple[str, ...]:
    """Return the kind of a struct, a named tuple or an enumeration.

    :raises TypeError: it is none of this package
    """
    if not cls.__module__.startswith(f"{_PACKAGE}."):
        raise TypeError(f"{cls.__module__}.{cls.__qualname__} cannot be kept")
    names = () if issubclass(cls, enum.Enum) else _constructor_parameters(cls)
    return cls.__module__, cls.__qualname__, *names


def _constructor_parameters(cls: Any) -> tuple[str, ...]:
    """Return the parameters of the constructor of a struct or a named tuple.

    :raises TypeError: the class is neither
    """
    if issubclass(cls, Struct):
        return tuple(cls.__struct_fields__)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return tuple(cls._fields)
    raise TypeError(f"{cls.__module__}.{cls.__qualname__} cannot be kept")


def _make_builder(module: str, name: str = "", *names: str) -> _Builder:
    """Return what makes a value of the parts that ``_kind_and_parts`` returns.

    :raises ValueError: there is no such class in this package, or it has other fields
    """
    if not name:
        return _COLLECTIONS[module]
    if not module.startswith(f"{_PACKAGE}.") or module.endswith("__main__") or "." in name:
        raise ValueError(module)
    cls = getattr(importlib.import_module(module), name)
    # An imported name is an attribute of the module as well: ``abiscan.x:subprocess`` would be a way out.
    if not isinstance(cls, type) or cls.__module__ != module:
        raise ValueError(name)
    if issubclass(cls, enum.Enum):
        return lambda values: cls[values[0]]
    # An answer of another version of the package, whose class has other fields, is none.
    if _constructor_parameters(cls) != names:
        raise ValueError(names)
    if issubclass(cls, tuple):
        return lambda values: cls(*values)
    return lambda values: cls(**dict(zip(names, values, strict=True)))
