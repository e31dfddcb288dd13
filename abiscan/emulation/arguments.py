"""Reads the ``c10::Argument`` objects of schemas that code puts together by hand (``ATen/core/function_schema.h``).

After its name, an ``Argument`` holds its type (from 1.12 on two, the real one second), the length of a list and the
default; then, up to 1.10, the keyword-only flag and the alias information itself, later a pointer to that information
and the flag.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from abiscan.emulation.standard_types import StandardTypes
from abiscan.emulation.type_objects import TypeObjects
from abiscan.emulation.values import Values

# sizeof(c10::Argument) less the string: from 1.12 on, 1.11, up to 1.10; up to 1.5.
ARGUMENT_WITH_TWO_TYPES, ARGUMENT_WITH_PLAIN_TYPE, ARGUMENT_WITH_SHARED_TYPE = 80, 64, 208
OLD_ARGUMENT: Final = 216
_POINTER: Final = 16  # sizeof(TypePtr)
_MAX_ARGUMENTS: Final = 256
# In a c10::AliasInfo: two std::unordered_set<Symbol>, then a vector of those of the type's elements, and a flag.
_AFTER, _CONTAINED, _WRITTEN = 56, 112, 136
_FIRST_NODE: Final = 16
_MAX_SYMBOLS: Final = 64


class BuiltArgument(Struct, frozen=True, kw_only=True):
    """An argument or result: its name, its type as that prints by itself, and all of it as a schema spells it."""

    name: str
    type: str
    text: str
    keyword_only: bool


class Arguments:
    """Reads the arguments of one process.

    :param symbol_text: the name behind the number of a ``c10::Symbol``
    """

    def __init__(
        self, standard: StandardTypes, types: TypeObjects, values: Values, symbol_text: Callable[[int], str]
    ) -> None:
        self._process = standard.process
        self._standard = standard
        self._types = types
        self._values = values
        self._symbol_text = symbol_text

    def read(self, vector: int, tail: int) -> list[BuiltArgument] | None:
        """Return the elements of a ``std::vector<c10::Argument>``, None where it holds something else.

        :param tail: ``sizeof(c10::Argument)`` less the string it begins with
        """
        begin, end = self._process.machine.words(vector, 2)
        size = self._standard.strings.size + tail
        if not 0 <= end - begin <= _MAX_ARGUMENTS * size or (end - begin) % size:
            return None
        return [self._read_one(at, tail) for at in range(begin, end, size)]

    def _read_one(self, address: int, tail: int) -> BuiltArgument:
        machine = self._process.machine
        name = self._standard.text(address)
        at = address + self._standard.strings.size + (_POINTER if tail == ARGUMENT_WITH_TWO_TYPES else 0)
        type_ = self._types.text(machine.word(at))
        length = self._standard.optional(at + _POINTER, 4)
        default = self._standard.optional(at + _POINTER + 8, 16)
        behind = at + _POINTER + 32
        if tail in (ARGUMENT_WITH_TWO_TYPES, ARGUMENT_WITH_PLAIN_TYPE):
            alias, keyword = machine.word(behind), behind + 8
        else:
            alias, keyword = behind + 16 if machine.byte(behind + 8) else 0, behind
        size = "" if length is None else str(int.from_bytes(machine.read(length, 4), "little", signed=True))
        text = self._type_text(type_, size, alias) + (f" {name}" if name else "")
        if default is not None:
            text += f"={self._values.text(default, type_)}"
        return BuiltArgument(name=name, type=type_, text=text, keyword_only=bool(machine.byte(keyword)))

    def _type_text(self, type_: str, length: str, alias: int) -> str:
        """Return a type with the length of its list, and the alias information at ``alias`` where that is not 0."""
        plain = type_.removesuffix("?")
        element = plain.removesuffix("[]")
        text = plain
        if element != plain:
            begin, end = self._process.machine.words(alias + _CONTAINED, 2) if alias else (0, 0)
            text = f"{element}{self._alias_text(begin) if begin != end else ''}[{length}]"
        if alias and self._symbols_in_set(alias):
            text += self._alias_text(alias)
        return text + type_[len(plain) :]

    def _alias_text(self, alias: int) -> str:
        before, after = self._symbols_in_set(alias), self._symbols_in_set(alias + _AFTER)
        text = "|".join(before) + ("!" if self._process.machine.byte(alias + _WRITTEN) else "")
        return f"({text})" if set(before) == set(after) else f"({text} -> {'|'.join(after)})"

    def _symbols_in_set(self, table: int) -> list[str]:
        """Return what is in a ``std::unordered_set<Symbol>``, without the domain."""
        machine, results = self._process.machine, list[str]()
        node = machine.word(table + _FIRST_NODE)
        while node and len(results) < _MAX_SYMBOLS:
            results.append(self._symbol_text(machine.word(node + 8) & 0xFFFF_FFFF).rpartition("::")[2])
            node = machine.word(node)
        return results
