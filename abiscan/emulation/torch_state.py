"""What the doubles of torch share: the objects they have handed out, and how torch's classes lie in memory.

Only classes whose layout the extension itself relies on are written, each exactly as long as it is, for they lie in
the extension's stack frames and statics:

* ``FunctionSchema`` (``ATen/core/function_schema.h``): two strings, two vectors, two flags, an optional byte. From 1.4
  on its size depends on ``sizeof(std::string)`` alone: 2 * string + 56.
* ``variant<OperatorName, FunctionSchema>``, before 2.1 ``c10::either``: the larger one, then the index, 0 for the name.
* ``c10::Argument`` inside ``FunctionSchema``: its size is that of the release the object was built for; where that is
  not known, it follows from how types are handed over (``torch_types``).
* ``KernelFunction`` inside ``CppFunction`` changes from release to release (64 bytes up to 1.5, 32 up to 1.8, then 24,
  from 1.13 on 32, from 2.9 on 40). To read one, its words are searched for what is known by its address: an inferred
  schema, a ``type_info`` of a function. To write one, when a kernel is given boxed, the smallest size that the imports
  allow is taken: the members behind it are empty, and code only moves them.

Which ``optional`` torch used (``c10::optional`` keeps its flag before the value, ``std::optional``, from 2.1 on, after
it) is in the names that the object imports, and so is the layout of ``std::string``.
"""

from __future__ import annotations

import itertools
import re
import struct
from dataclasses import dataclass
from typing import Final

from abiscan.emulation.emulator import Stop
from abiscan.emulation.model import Library
from abiscan.emulation.process import Call, EmulatedProcess
from abiscan.emulation.recorder import Recorder
from abiscan.emulation.strings import abi_of

_VECTOR: Final = 24
# sizeof(c10::Argument) less the string: from 1.12 on, 1.11, up to 1.10.
ARGUMENT_WITH_TWO_TYPES, ARGUMENT_WITH_PLAIN_TYPE, ARGUMENT_WITH_SHARED_TYPE = 80, 64, 208
_OLD_ARGUMENT_TAIL: Final = 216  # up to 1.5
_DEFINE_WITHOUT_TAGS: Final = "_ZNR5torch7Library4_defEON3c1014FunctionSchemaEPNS1_12OperatorNameE"
_CONTROL_BLOCK: Final = struct.Struct("<QII8x")  # virtual pointer, use count, weak count (bits/shared_ptr_base.h)
# std::unordered_map and std::unordered_set (bits/hashtable.h): buckets, their number, first node, number of elements,
# rehash policy (a float, a limit), the one bucket of an empty one.
TABLE: Final = struct.Struct("<QQQQf4xQQ")
_OWN_BUCKET: Final = 48
_MANY: Final = 0x1000_0000  # owners, so that none is the last
_TYPE_OBJECT_SIZE: Final = 192
_NAME_IN_TYPE: Final = 32  # of a class, in NamedType (ATen/core/jit_type_base.h): optional<QualifiedName>
_QUALIFIED: Final = "__torch__."
_UNKNOWN_TYPE: Final = "?"
_TYPE_VTABLE: Final = "_ZTVN3c104TypeE of a double"  # the real one, where an object defines it, is abstract
_FIRST_SYMBOL: Final = 1 << 24  # below are torch's own, which are numbers in the code
_TYPE_WORDS: Final = 12  # of an object of a c10::Type that are looked at
_MAX_ELEMENTS: Final = 64

# How a type without parameters prints (the ``str`` methods of jit_type.h), where it is not the class without "Type".
_PRINTED: Final = {
    "IntType": "int",
    "FloatType": "float",
    "BoolType": "bool",
    "StringType": "str",
    "NumberType": "Scalar",
    "ComplexType": "complex",
    "DeviceObjType": "Device",
    "StreamObjType": "Stream",
    "NoneType": "NoneType",
    "AnyListType": "list",
    "AnyTupleType": "tuple",
    "AnyClassType": "AnyClassType",
    "AnyEnumType": "AnyEnumType",
    "PyObjectType": "PyObject",
}
_CONTAINERS: Final = {"ListType": "{}[]", "OptionalType": "{}?", "DictType": "Dict({}, {})", "FutureType": "Future({})"}
_CLASS: Final = re.compile(r"_Z(?:TV)?N3c10(\d+)")


def _class_name(mangled: str) -> str:
    """The class of namespace ``c10`` whose member or virtual table has this name."""
    match = _CLASS.match(mangled)
    return mangled[match.end() : match.end() + int(match.group(1))] if match else ""


def printed_type(mangled: str) -> str:
    """How the type without parameters prints whose member or virtual table has this name."""
    name = _class_name(mangled)
    return _PRINTED.get(name, name.removesuffix("Type"))


@dataclass(frozen=True, slots=True)
class Schema:
    """A ``FunctionSchema`` that was handed out: its text from the opening parenthesis on, and its name in full.

    ``given`` and ``returned`` are the types of a schema that was inferred, as they print; None for one that was parsed.
    """

    name: str
    arguments: str | None
    given: tuple[str, ...] | None = None
    returned: tuple[str, ...] | None = None

    @classmethod
    def inferred(cls, name: str, given: tuple[str, ...], returned: tuple[str, ...]) -> Schema:
        """The schema that torch infers for a function of these types: every argument is called by its number.

        One result stands without parentheses, unless it begins with one (``operator<<`` of function_schema_inl.h).
        """
        results = _numbered(returned)
        bare = len(returned) == 1 and not results.startswith("(")
        text = f"({_numbered(given)}) -> " + (results if bare else f"({results})")
        return cls(name, text, given, returned)


def _numbered(types: tuple[str, ...]) -> str:
    return ", ".join(f"{text} _{number}" for number, text in enumerate(types))


class TorchState:
    """The objects of torch in one process."""

    def __init__(self, process: EmulatedProcess, imports: frozenset[str], recorder: Recorder) -> None:
        self.process = process
        self.recorder = recorder
        self.strings = abi_of(imports)
        self.flag_first = any("N3c108optional" in name for name in imports)
        marks = ("3TagE", "_RegisterOrVerify", "St8optionalIN3c1011DispatchKeyE")
        newer = any(mark in name for name in imports if "torch7Library" in name for mark in marks)
        # sizeof(c10::detail::infer_schema::ArgumentDef); None as long as it is not known.
        self.argument_stride = 16 if newer else 8 if _DEFINE_WITHOUT_TAGS in imports else None
        self.kernel_function_size = 32 if newer else 24
        self.wide_keys: bool | None = None  # whether a DispatchKey has 16 bits, where torch itself can be asked
        self.known_tail: int | None = None  # where torch itself could be asked, or it is known which torch it is
        self.assumed_tail = ARGUMENT_WITH_TWO_TYPES
        self.types_in_memory = False
        self.result_buffer = 0
        self.libraries: dict[int, Library] = {}
        # Up to 1.6 the code that enters classes into their table asks the C++ library when it has to grow.
        self.has_flat_class_map = not any("14_M_need_rehashE" in name for name in imports)
        self.made: set[str] = set()  # what of torch's data has its content
        self.class_names: dict[str, str] = {}  # mangled type name of the holder -> ns.Name
        self._schemas: dict[int, Schema] = {}  # by the address in its argument vector
        self._last_schema: dict[str, Schema] = {}
        self.doubled: set[int] = set()  # where the double of the constructor has made a CppFunction, the last time
        self.schema_at: dict[int, int] = {}  # which word of a kernel of so many words leads to the schema
        self._vectors: dict[Schema, bytes] = {}
        self._types: dict[int, str] = {}
        self._type_objects: dict[str, int] = {}
        self._control = 0
        self.passed_on = self._new_control_block()
        self._symbols: list[str] = []

    # Schemas

    @property
    def schema_size(self) -> int:
        """``sizeof(c10::FunctionSchema)``."""
        return 2 * self.strings.size + 2 * _VECTOR + 8

    def read_alias_analysis(self, schema: int) -> int | None:
        """The kind of alias analysis in the ``FunctionSchema`` at ``schema``: it is last, behind two flags."""
        return self.read_optional_byte(schema + self.schema_size - 6) if self.flag_first else None

    def read_optional_byte(self, address: int) -> int | None:
        """A ``c10::optional`` of one byte: its flag comes first."""
        known, value = self.process.machine.read(address, 2)
        return value if known == 1 else None

    def write_schema(self, address: int, schema: Schema) -> None:
        """Make a ``FunctionSchema`` at ``address``.

        Its vector of arguments begins at an address of its own. Moving the object keeps that address, and so
        ``read_schema`` knows the object wherever it went. A schema that was inferred has its arguments in it as well,
        for there is code that copies such a schema under a new name; the vectors of one that was parsed are empty.
        """
        process, strings = self.process, self.strings
        name, _, overload = schema.name.partition(".")
        strings.create(process, address, name.encode())
        strings.create(process, address + strings.size, overload.encode())
        process.machine.write(address + 2 * strings.size, self._schema_vectors(schema))

    def _schema_vectors(self, schema: Schema) -> bytes:
        """What follows the strings of a ``FunctionSchema``.

        Kernels of one type share their arguments, which nobody changes; those of a class's method are moved from.
        """
        known = self._vectors.get(schema) if not schema.name else None
        if known is None:
            given, given_end = self._make_arguments(schema.given or ())
            returned, returned_end = self._make_arguments(schema.returned or ())
            self._schemas[given] = schema
            self._last_schema[schema.name] = schema
            known = struct.pack("<QQQQQQQ", given, given_end, given_end, returned, returned_end, returned_end, 0)
            self._vectors[schema] = known
        return known

    @property
    def _argument_tail(self) -> int:
        """``sizeof(c10::Argument)`` less the string it begins with: what grew from release to release."""
        return self.assumed_tail if self.known_tail is None else self.known_tail

    def _make_arguments(self, types: tuple[str, ...]) -> tuple[int, int]:
        """The bounds of an array of ``c10::Argument``: a name, a type, from 1.12 on a second type, the rest zero."""
        size = self.strings.size + self._argument_tail
        begin = self.process.allocate(size * len(types))
        for number, text in enumerate(types):
            at = begin + number * size
            self.strings.create(self.process, at, f"_{number}".encode())
            self.write_shared(at + self.strings.size, self.type_object(text))
            if self._argument_tail == ARGUMENT_WITH_TWO_TYPES:
                self.write_shared(at + self.strings.size + 16, self.type_object(text))
        return begin, begin + size * len(types)

    def _read_arguments(self, vector: int, tail: int) -> tuple[str, ...] | None:
        """The types in a ``std::vector<c10::Argument>``, None where it holds something else."""
        begin, end = self.process.machine.words(vector, 2)
        size = self.strings.size + tail
        if not 0 <= end - begin <= 256 * size or (end - begin) % size:
            return None
        types = range(begin + self.strings.size, end, size)
        return tuple(self.type_text(self.process.machine.word(at)) for at in types)

    def write_name_or_schema(self, address: int, text: str) -> None:
        """Make a ``variant<OperatorName, FunctionSchema>`` at ``address`` of what ``parseSchemaOrName`` is given."""
        process, strings = self.process, self.strings
        head, parenthesis, rest = text.partition("(")
        name = head.strip().removesuffix(".")
        if parenthesis:
            self.write_schema(address, Schema(name, parenthesis + rest))
        else:
            base, _, overload = name.partition(".")
            strings.create(process, address, base.encode())
            strings.create(process, address + strings.size, overload.encode())
        process.machine.set_word(address + self.schema_size, int(bool(parenthesis)))

    def read_operator_name(self, address: int) -> str:
        """The name in an ``OperatorName``, with which a ``FunctionSchema`` begins too."""
        name = self.strings.read(self.process, address).decode("utf-8", "backslashreplace")
        overload = self.strings.read(self.process, address + self.strings.size).decode("utf-8", "backslashreplace")
        return f"{name}.{overload}" if overload else name

    def read_schema(self, address: int) -> Schema | None:
        """The schema at ``address``; one that was copied, and lost its mark, is known by its name, or read."""
        found = self._schemas.get(self.process.machine.word(address + 2 * self.strings.size))
        if found is not None:
            return found
        name = self.read_operator_name(address)
        if name in self._last_schema:
            return self._last_schema[name]
        return self._read_inferred(address, name, self._argument_tail)

    def read_inlined_schema(self, address: int) -> Schema | None:
        """The inferred schema at ``address``, made by the extension itself, as it was up to 1.5."""
        return self._read_inferred(address, "", _OLD_ARGUMENT_TAIL)

    def _read_inferred(self, address: int, name: str, tail: int) -> Schema | None:
        given = self._read_arguments(address + 2 * self.strings.size, tail)
        returned = self._read_arguments(address + 2 * self.strings.size + _VECTOR, tail)
        return None if given is None or returned is None else Schema.inferred(name, given, returned)

    def marked_schema(self, address: int) -> Schema | None:
        """The schema at ``address`` if one was made there or moved there, whatever else may lie there."""
        try:
            return self._schemas.get(self.process.machine.word(address + 2 * self.strings.size))
        except Stop:
            return None

    def read_name_or_schema(self, address: int) -> Schema:
        """The content of a ``variant<OperatorName, FunctionSchema>``; ``arguments`` is None for a name."""
        index = self.process.machine.read(address + self.schema_size, 1)[0]
        schema = self.read_schema(address) if index == 1 else None
        return schema or Schema(self.read_operator_name(address), None)

    # Types

    def type_object(self, text: str) -> int:
        """The address of the one ``c10::Type`` object that prints as ``text``."""
        if text not in self._type_objects:
            address = self.process.allocate(_TYPE_OBJECT_SIZE)
            self.process.machine.set_word(address, self.process.bind(_TYPE_VTABLE) + 16)
            if text.startswith(_QUALIFIED):
                self._write_qualified_name(address + _NAME_IN_TYPE, text)
            self._type_objects[text] = address
            self._types[address] = text
        return self._type_objects[text]

    def _write_qualified_name(self, address: int, text: str) -> None:
        """Make an ``optional<QualifiedName>`` at ``address``: a list of the parts, then all of it, its front, its end.

        Such an object has lain alike since 1.4.
        """
        process, strings = self.process, self.strings
        parts = text.split(".")
        size = 3 * 8 + 3 * strings.size
        process.machine.write(address + (0 if self.flag_first else size), b"\1")
        name = address + (8 if self.flag_first else 0)
        atoms = process.allocate(strings.size * len(parts))
        end = atoms + strings.size * len(parts)
        for at, part in zip(range(atoms, end, strings.size), parts, strict=True):
            strings.create(process, at, part.encode())
        process.machine.write(name, struct.pack("<QQQ", atoms, end, end))
        for index, part in enumerate((text, ".".join(parts[:-1]), parts[-1])):
            strings.create(process, name + _VECTOR + index * strings.size, part.encode())

    def adopt_type(self, address: int) -> str:
        """How the type at ``address`` prints; if it is a whole one, not of a double, it is handed out from now on."""
        text = self.type_text(address)
        if address not in self._types and self._type_vtable(address) is not None:
            self._type_objects.setdefault(text, address)
        return text

    def name_type(self, address: int, text: str) -> None:
        """Let the object at ``address``, whose constructor was called, be the type ``text``."""
        self.process.machine.set_word(address, self.process.bind(_TYPE_VTABLE) + 16)
        self._types[address] = text

    def is_type(self, address: int) -> bool:
        """Whether a type lies at ``address``."""
        return address in self._types or self._type_vtable(address) is not None

    def shared(self, address: int) -> tuple[int, int]:
        """The two words of a ``shared_ptr`` to the object at ``address``."""
        self._control = self._control or self._new_control_block()
        return address, self._control

    def _new_control_block(self) -> int:
        vtable = self.process.bind("virtual table of a control block") + 16
        return self.process.store(_CONTROL_BLOCK.pack(vtable, _MANY, _MANY))

    def write_shared(self, at: int, address: int) -> None:
        """Make a ``shared_ptr`` at ``at`` to the object at ``address``."""
        self.process.machine.write(at, struct.pack("<QQ", *self.shared(address)))

    def type_text(self, address: int) -> str:
        """How the ``c10::Type`` at ``address`` prints; a container that inlined code made is known by its vtable."""
        known = self._types.get(address)
        if known is not None:
            return known
        vtable = self._type_vtable(address)
        if vtable is None:
            return _UNKNOWN_TYPE
        name = _class_name(vtable)
        if name == "ClassType":
            return self.qualified_name(address)
        if name != "TupleType" and name not in _CONTAINERS:
            return printed_type(vtable)
        form = _CONTAINERS.get(name)
        single = form is not None and form.count("{}") == 1
        elements = [self.type_text(element) for element in (self._members if single else self._elements)(address)]
        if form is None:
            return f"({', '.join(elements)})"
        return form.format(*elements) if len(elements) >= form.count("{}") else _UNKNOWN_TYPE

    def qualified_name(self, address: int) -> str:
        """The name of the class at ``address``, which is an object's own: code may have changed it."""
        try:
            text = self.string(address + _NAME_IN_TYPE + (8 if self.flag_first else 0) + _VECTOR)
        except Stop:
            return _UNKNOWN_TYPE
        return text or _UNKNOWN_TYPE

    def _type_vtable(self, address: int) -> str | None:
        """The name of the virtual table of the type at ``address``, None if no type is there."""
        if address % 8 or not (self.process.machine.is_heap(address) or self.process.image_at(address)):
            return None
        try:
            name = self.process.name_at(self.process.machine.word(address)) or ""
        except Stop:
            return None
        return name if name.startswith("_ZTVN3c10") and name.endswith("TypeE") else None

    def _elements(self, address: int) -> list[int]:
        """The types in the type at ``address``, in a ``std::vector<TypePtr>`` or, up to 1.10, as members."""
        machine = self.process.machine
        words = machine.words(address, _TYPE_WORDS)[1:]
        for begin, end in itertools.pairwise(words):
            if machine.is_heap(begin) and begin <= end <= begin + 16 * _MAX_ELEMENTS and not (end - begin) % 16:
                found = [machine.word(at) for at in range(begin, end, 16)]
                if found and all(map(self.is_type, found)):
                    return found
        return self._members(address)

    def _members(self, address: int) -> list[int]:
        """The types that the type at ``address`` points to; a weak pointer to itself comes before them."""
        words = self.process.machine.words(address, _TYPE_WORDS)[1:]
        return [word for word in words if word != address and self.is_type(word)]

    def write_table(self, address: int, buckets: int = 1) -> None:
        """Make an empty ``std::unordered_map`` or ``std::unordered_set``."""
        at = address + _OWN_BUCKET if buckets == 1 else self.process.store(bytes(8 * buckets))
        limit = 0 if buckets == 1 else buckets
        self.process.machine.write(address, TABLE.pack(at, buckets, 0, 0, 1.0, limit, 0))

    # Interned names

    def symbol(self, text: str) -> int:
        """The number of a ``c10::Symbol``, counted as the names appear."""
        if text not in self._symbols:
            self._symbols.append(text)
        return self._symbols.index(text) + _FIRST_SYMBOL

    def symbol_text(self, number: int) -> str:
        """The name behind the number of a ``c10::Symbol``, empty for one of torch's own."""
        index = number - _FIRST_SYMBOL
        return self._symbols[index] if 0 <= index < len(self._symbols) else ""

    # Texts

    def type_info_name(self, address: int) -> str | None:
        """The mangled name in the ``std::type_info`` at ``address``, None if there is none."""
        machine = self.process.machine
        if self.process.image_at(address) is None and self.process.name_at(address) is None:
            return None
        try:
            vtable, text = machine.words(address, 2)
            if not (self.process.name_at(vtable) or "").startswith("_ZTVN10__cxxabiv1"):
                return None
            return machine.text(text, 1 << 16).decode("utf-8", "backslashreplace").removeprefix("*")
        except Stop:
            return None

    def string(self, address: int) -> str:
        """The ``std::string`` at ``address``."""
        return self.strings.read(self.process, address).decode("utf-8", "backslashreplace")


def text_argument(call: Call, index: int) -> str:
    """A ``const char*`` argument."""
    return call.machine.text(call.argument(index)).decode("utf-8", "backslashreplace")


def optional_text_argument(call: Call, index: int) -> str | None:
    """A ``const char*`` argument that may be null."""
    return text_argument(call, index) if call.argument(index) else None
