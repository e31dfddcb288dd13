"""The ``c10::Type`` objects in the memory of an emulated process: those of torch, and those that the code creates.

Torch's own are blank objects that are known by their address; of those that inlined code makes, the virtual table tells
the class. Source: ``ATen/core/jit_type.h``, ``ATen/core/jit_type_base.h``.
"""

from __future__ import annotations

import itertools
import struct
from typing import Final

from abiscan.emulation.emulator import Stop
from abiscan.emulation.standard_types import StandardTypes
from abiscan.regex import regex

_VECTOR: Final = 24
_CONTROL_BLOCK: Final = struct.Struct("<QII8x")  # virtual pointer, use count, weak count (bits/shared_ptr_base.h)
_MANY: Final = 0x1000_0000  # owners, so that none is the last
_TYPE_OBJECT_SIZE: Final = 192
_NAME_IN_TYPE: Final = 32  # of a class, in NamedType (ATen/core/jit_type_base.h): optional<QualifiedName>
_QUALIFIED: Final = "__torch__."
_UNKNOWN_TYPE: Final = "?"
_TYPE_VTABLE: Final = "_ZTVN3c104TypeE of a double"  # the real one, where an object defines it, is abstract
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
_CLASS: Final = regex(r"_Z(?:TV)?N3c10(\d+)")


def _class_name(mangled: str) -> str:
    """Return the class of namespace ``c10`` whose member or virtual table has this name."""
    match = _CLASS.match(mangled)
    return mangled[match.end() : match.end() + int(match.group(1))] if match else ""


def printed_type(mangled: str) -> str:
    """Return the printed type without parameters whose member or virtual table has this name."""
    name = _class_name(mangled)
    return _PRINTED.get(name, name.removesuffix("Type"))


class TypeObjects:
    """The types of one process."""

    def __init__(self, standard: StandardTypes) -> None:
        self._process = standard.process
        self._standard = standard
        self._texts: dict[int, str] = {}
        self._objects: dict[str, int] = {}
        self._control = 0
        self.passed_on = self._new_control_block()

    @property
    def _name_size(self) -> int:
        """``sizeof(c10::QualifiedName)``."""
        return _VECTOR + 3 * self._standard.strings.size

    def object_of(self, text: str) -> int:
        """Return the address of the one ``c10::Type`` object that prints as ``text``."""
        if text not in self._objects:
            address = self._process.allocate(_TYPE_OBJECT_SIZE)
            self._process.machine.set_word(address, self._process.bind(_TYPE_VTABLE) + 16)
            if text.startswith(_QUALIFIED):
                self._write_qualified_name(address + _NAME_IN_TYPE, text)
            self._objects[text] = address
            self._texts[address] = text
        return self._objects[text]

    def _write_qualified_name(self, address: int, text: str) -> None:
        """Make an ``optional<QualifiedName>`` at ``address``: a list of the parts, then all of it, its front, its end.

        Such an object has lain alike since 1.4.
        """
        process, strings = self._process, self._standard.strings
        parts = text.split(".")
        process.machine.write(address + self._standard.flag_offset(self._name_size), b"\1")
        name = address + self._standard.value_offset(self._name_size)
        atoms = process.allocate(strings.size * len(parts))
        end = atoms + strings.size * len(parts)
        for at, part in zip(range(atoms, end, strings.size), parts, strict=True):
            strings.create(process, at, part.encode())
        process.machine.write(name, struct.pack("<QQQ", atoms, end, end))
        for index, part in enumerate((text, ".".join(parts[:-1]), parts[-1])):
            strings.create(process, name + _VECTOR + index * strings.size, part.encode())

    def adopt(self, address: int) -> str:
        """Return how the type at ``address`` prints; a complete one that code made is handed out from now on."""
        text = self.text(address)
        if address not in self._texts and self._type_vtable(address) is not None:
            self._objects.setdefault(text, address)
        return text

    def name(self, address: int, text: str) -> None:
        """Let the object at ``address``, whose constructor was called, be the type ``text``."""
        self._process.machine.set_word(address, self._process.bind(_TYPE_VTABLE) + 16)
        self._texts[address] = text

    def is_type(self, address: int) -> bool:
        """Whether there is a type at ``address``."""
        return address in self._texts or self._type_vtable(address) is not None

    def shared(self, address: int) -> tuple[int, int]:
        """Return the two words of a ``shared_ptr`` to the object at ``address``."""
        self._control = self._control or self._new_control_block()
        return address, self._control

    def _new_control_block(self) -> int:
        vtable = self._process.bind("virtual table of a control block") + 16
        return self._process.store(_CONTROL_BLOCK.pack(vtable, _MANY, _MANY))

    def write_shared(self, at: int, address: int) -> None:
        """Make a ``shared_ptr`` at ``at`` to the object at ``address``."""
        self._process.machine.write(at, struct.pack("<QQ", *self.shared(address)))

    def text(self, address: int) -> str:
        """Return the printed ``c10::Type`` at ``address``; a container that inlined code created is known by its
        vtable.
        """
        text = self._texts.get(address)
        if text is not None:
            return text
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
        elements = [self.text(element) for element in (self._member_types if single else self._element_types)(address)]
        if form is None:
            return f"({', '.join(elements)})"
        return form.format(*elements) if len(elements) >= form.count("{}") else _UNKNOWN_TYPE

    def qualified_name(self, address: int) -> str:
        """Return the name of the class at ``address``, read from the object, since code may have changed it."""
        try:
            text = self._standard.text(address + _NAME_IN_TYPE + self._standard.value_offset(self._name_size) + _VECTOR)
        except Stop:
            return _UNKNOWN_TYPE
        return text or _UNKNOWN_TYPE

    def _type_vtable(self, address: int) -> str | None:
        """Return the name of the virtual table of the type at ``address``, None if no type is there."""
        if address % 8 or not (self._process.machine.is_heap(address) or self._process.image_at(address)):
            return None
        try:
            name = self._process.name_at(self._process.machine.word(address)) or ""
        except Stop:
            return None
        return name if name.startswith("_ZTVN3c10") and name.endswith("TypeE") else None

    def _element_types(self, address: int) -> list[int]:
        """Return the types in the type at ``address``, in a ``std::vector<TypePtr>`` or, up to 1.10, as members."""
        machine = self._process.machine
        words = machine.words(address, _TYPE_WORDS)[1:]
        for begin, end in itertools.pairwise(words):
            if machine.is_heap(begin) and begin < end <= begin + 16 * _MAX_ELEMENTS and not (end - begin) % 16:
                types = [machine.word(at) for at in range(begin, end, 16)]
                if all(map(self.is_type, types)):
                    return types
        return self._member_types(address)

    def _member_types(self, address: int) -> list[int]:
        """Return the types that the type at ``address`` points to; a weak pointer to itself comes before them."""
        words = self._process.machine.words(address, _TYPE_WORDS)[1:]
        return [word for word in words if word != address and self.is_type(word)]
