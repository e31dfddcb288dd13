"""The ``c10::FunctionSchema`` objects in the memory of an emulated process (``ATen/core/function_schema.h``).

* ``FunctionSchema``: two strings, two vectors, two flags, an optional byte. From 1.4 on its size depends on
  ``sizeof(std::string)`` alone: 2 * string + 56.
* ``variant<OperatorName, FunctionSchema>``, before 2.1 ``c10::either``: the larger one, then the index, 0 for the name.
* ``c10::Argument`` inside ``FunctionSchema``: its size is that of the release the object was built for; where that is
  not known, it follows from how types are handed over (``doubles.torch_types``).
"""

from __future__ import annotations

import struct
from typing import Final

from msgspec import Struct

from abiscan.emulation.arguments import ARGUMENT_WITH_TWO_TYPES, OLD_ARGUMENT, Arguments, BuiltArgument
from abiscan.emulation.emulator import Stop
from abiscan.emulation.standard_types import StandardTypes
from abiscan.emulation.type_objects import TypeObjects

_VECTOR: Final = 24
_AND_MORE: Final = "..."


class Schema(Struct, frozen=True):
    """A ``FunctionSchema`` that was handed out.

    :ivar name: in full
    :ivar arguments: its text from the opening parenthesis on
    :ivar given: the types of the arguments of a schema that was inferred, as they print; None for one that was parsed
    :ivar returned: the same of its results
    :ivar built: whether it was read from arguments that the code itself put together
    :ivar typevars: what ``parseSchema(text, allow_typevars)`` was given, None where nothing was
    """

    name: str
    arguments: str | None
    given: tuple[str, ...] | None = None
    returned: tuple[str, ...] | None = None
    built: bool = False
    typevars: bool | None = None

    @classmethod
    def inferred(cls, name: str, passed: tuple[str, ...], returned: tuple[str, ...]) -> Schema:
        """Return the schema that torch infers for a function of these types: every argument is called by its number."""
        return cls(name, _printed(_numbered(passed), _numbered(returned)), passed, returned)


def _numbered(types: tuple[str, ...]) -> list[str]:
    return [f"{text} _{number}" for number, text in enumerate(types)]


def _printed(arguments: list[str], results: list[str]) -> str:
    """Format results, a single one bare unless it begins with a parenthesis (``operator<<``, function_schema_inl.h)."""
    bare = len(results) == 1 and not results[0].startswith("(")
    returned = ", ".join(results)
    return f"({', '.join(arguments)}) -> " + (returned if bare else f"({returned})")


def _with_keywords(arguments: list[BuiltArgument]) -> list[str]:
    """List arguments as a schema does: those that can be given by name only behind a star."""
    first = next((index for index, argument in enumerate(arguments) if argument.keyword_only), len(arguments))
    texts = [argument.text for argument in arguments]
    return [*texts[:first], *["*"][: len(texts) - first], *texts[first:]]


class SchemaObjects:
    """The schemas of one process.

    :param types: those that their arguments have
    :param arguments: reads those of schemas that the code builds
    """

    def __init__(self, standard: StandardTypes, types: TypeObjects, arguments: Arguments) -> None:
        self._process = standard.process
        self._strings = standard.strings
        self._standard = standard
        self._types = types
        self._arguments = arguments
        self.known_tail: int | None = None  # where torch itself could be asked, or it is known which torch it is
        self.assumed_tail = ARGUMENT_WITH_TWO_TYPES
        self._schemas: dict[int, Schema] = {}  # by the address in its argument vector
        self._last_schema: dict[str, Schema] = {}
        self._vectors: dict[Schema, bytes] = {}

    @property
    def size(self) -> int:
        """``sizeof(c10::FunctionSchema)``."""
        return 2 * self._strings.size + 2 * _VECTOR + 8

    def read_alias_analysis(self, schema: int) -> int | None:
        """Return the kind of alias analysis in the ``FunctionSchema`` at ``schema``: it is last, behind two flags."""
        return self.read_optional_byte(schema + self.size - 6) if self._standard.flag_first else None

    def read_optional_byte(self, address: int) -> int | None:
        """Return a ``c10::optional`` of one byte: its flag comes first."""
        has_value, value = self._process.machine.read(address, 2)
        return value if has_value == 1 else None

    def write(self, address: int, schema: Schema) -> None:
        """Make a ``FunctionSchema`` at ``address``.

        Its vector of arguments begins at an address of its own. Moving the object keeps that address, and so
        ``read`` knows the object wherever it went. A schema that was inferred has its arguments in it as well,
        for there is code that copies such a schema under a new name; the vectors of one that was parsed are empty.
        """
        process, strings = self._process, self._strings
        name, _, overload = schema.name.partition(".")
        strings.create(process, address, name.encode())
        strings.create(process, address + strings.size, overload.encode())
        process.machine.write(address + 2 * strings.size, self._schema_vectors(schema))

    def _schema_vectors(self, schema: Schema) -> bytes:
        """Return what follows the strings of a ``FunctionSchema``.

        Kernels of one type share their arguments, which nobody changes; those of a class's method are moved from.
        """
        vectors = self._vectors.get(schema) if not schema.name else None
        if vectors is None:
            passed, given_end = self._make_arguments(schema.given or ())
            returned, returned_end = self._make_arguments(schema.returned or ())
            self._schemas[passed] = schema
            self._last_schema[schema.name] = schema
            vectors = struct.pack("<QQQQQQQ", passed, given_end, given_end, returned, returned_end, returned_end, 0)
            self._vectors[schema] = vectors
        return vectors

    @property
    def _argument_tail(self) -> int:
        """``sizeof(c10::Argument)`` less the string it begins with: what grew from release to release."""
        return self.assumed_tail if self.known_tail is None else self.known_tail

    def _make_arguments(self, types: tuple[str, ...]) -> tuple[int, int]:
        """Make an array of ``c10::Argument``, and return its bounds: name, type, from 1.12 on a second type, zeros."""
        size = self._strings.size + self._argument_tail
        begin = self._process.allocate(size * len(types))
        for number, text in enumerate(types):
            at = begin + number * size
            self._strings.create(self._process, at, f"_{number}".encode())
            self._types.write_shared(at + self._strings.size, self._types.object_of(text))
            if self._argument_tail == ARGUMENT_WITH_TWO_TYPES:
                self._types.write_shared(at + self._strings.size + 16, self._types.object_of(text))
        return begin, begin + size * len(types)

    def write_name_or_schema(self, address: int, text: str) -> None:
        """Make a ``variant<OperatorName, FunctionSchema>`` at ``address`` of what ``parseSchemaOrName`` is given."""
        process, strings = self._process, self._strings
        head, parenthesis, remainder = text.partition("(")
        name = head.strip().removesuffix(".")
        if parenthesis:
            self.write(address, Schema(name, parenthesis + remainder))
        else:
            base, _, overload = name.partition(".")
            strings.create(process, address, base.encode())
            strings.create(process, address + strings.size, overload.encode())
        process.machine.set_word(address + self.size, int(bool(parenthesis)))

    def read_operator_name(self, address: int) -> str:
        """Return the name in an ``OperatorName``, with which a ``FunctionSchema`` begins too."""
        name = self._standard.text(address)
        overload = self._standard.text(address + self._strings.size)
        return f"{name}.{overload}" if overload else name

    def read(self, address: int) -> Schema | None:
        """Return the schema at ``address``; a copy that lost its mark is known by its name, or read."""
        result = self._schemas.get(self._process.machine.word(address + 2 * self._strings.size))
        if result is not None:
            return result
        name = self.read_operator_name(address)
        if name in self._last_schema:
            return self._last_schema[name]
        return self._read_built(address, name, self._argument_tail)

    def read_inlined(self, address: int) -> Schema | None:
        """Return the inferred schema at ``address``, made by the extension itself, as it was up to 1.5."""
        return self._read_built(address, "", OLD_ARGUMENT)

    def _read_built(self, address: int, name: str, tail: int) -> Schema | None:
        """Return the schema at ``address`` from its own arguments, None where it has none that can be read."""
        vectors = address + 2 * self._strings.size
        passed, returned = (self._arguments.read(at, tail) for at in (vectors, vectors + _VECTOR))
        if passed is None or returned is None:
            return None
        more_arguments, more_results = (
            [_AND_MORE] if flag else [] for flag in self._process.machine.read(vectors + 2 * _VECTOR, 2)
        )
        text = _printed(_with_keywords(passed) + more_arguments, [item.text for item in returned] + more_results)
        types, results = (tuple(item.type for item in arguments) for arguments in (passed, returned))
        return Schema(name, text, types, results, built=True)

    def marked(self, address: int) -> Schema | None:
        """Return the schema that was made at ``address``, or moved there; None for anything else."""
        try:
            return self._schemas.get(self._process.machine.word(address + 2 * self._strings.size))
        except Stop:
            return None

    def read_name_or_schema(self, address: int) -> Schema:
        """Return the content of a ``variant<OperatorName, FunctionSchema>``; ``arguments`` is None for a name."""
        index = self._process.machine.byte(address + self.size)
        schema = self.read(address) if index == 1 else None
        return schema or Schema(self.read_operator_name(address), None)
