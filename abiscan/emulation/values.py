"""The ``c10::IValue`` objects in the memory of an emulated process: defaults of arguments (``ATen/core/ivalue.h``).

An ``IValue`` is a payload of eight bytes and a tag, 0 for none. What the other tags mean differs from release to
release, but every default has the type of its argument, and that says what the payload is: a number, or a pointer to an
``intrusive_ptr_target``, a virtual pointer and the reference counts before what the object holds.
"""

from __future__ import annotations

import json
import struct
from typing import Final

from abiscan.emulation.standard_types import StandardTypes

VALUE_SIZE: Final = 16
_VECTOR, _TYPE = 24, 16  # sizeof(std::vector), sizeof(c10::TypePtr)
UNKNOWN_VALUE: Final = "?"
_LIST: Final = "_ZTVN3c106detail8ListImplE of a double"
_STRING: Final = "_ZTVN3c106ivalue14ConstantStringE of a double"
# Both counts share a word from 2.3 on, where storage is copied on write, and from 2.10 on with a bit for Python.
_ONE_WORD: Final = (b"4impl3cow", b"cref_pyobject")
_COUNTS_IN_ONE_WORD: Final = struct.Struct("<QII")  # virtual pointer, owners, weak ones
_COUNTS_IN_TWO_WORDS: Final = struct.Struct("<QQQ")
_HEADS: Final = (_COUNTS_IN_ONE_WORD, _COUNTS_IN_TWO_WORDS)
_MAX_ELEMENTS: Final = 4096


class Values:
    """The values of one process."""

    def __init__(self, standard: StandardTypes) -> None:
        self._process = process = standard.process
        self._strings = standard.strings
        one_word = not standard.flag_first or any(map(process.image.mentions, _ONE_WORD))
        # Between the end of c10::optional and 2.3 that is wrong, until a list tells.
        self._head = _COUNTS_IN_ONE_WORD if one_word else _COUNTS_IN_TWO_WORDS
        self._texts: dict[int, bytes] = {}  # by the address of the string object

    def new_string(self, text: bytes) -> int:
        """Return the address of a fresh ``c10::ivalue::ConstantString`` with one owner."""
        address = self._process.allocate(self._head.size + self._strings.size)
        self._process.machine.write(address, self._head.pack(self._vtable(_STRING), 1, 1))
        self._strings.create(self._process, address + self._head.size, text)
        self._texts[address] = text
        return address

    def make_list(self, address: int, vector: int, element: tuple[int, ...]) -> None:
        """Make a ``c10::detail::ListImpl`` without owners at ``address``.

        :param vector: the ``std::vector<IValue>`` whose elements it takes
        :param element: the two words of the ``TypePtr`` of its elements
        """
        machine = self._process.machine
        size = self._process.size_of(address)
        self._head = next((head for head in _HEADS if head.size + _VECTOR + _TYPE == size), self._head)
        elements = machine.words(vector, 3)
        machine.write(vector, bytes(_VECTOR))
        head = self._head.pack(self._vtable(_LIST), 0, 0)
        machine.write(address, head + struct.pack("<5Q", *elements, *element))

    def element_type(self, address: int) -> int:
        """Return the address of the element type of the list at ``address``."""
        machine = self._process.machine
        return machine.word(machine.word(address) + self._head.size + _VECTOR)

    def text(self, address: int, type_: str) -> str:
        """Return how a schema spells the value at ``address`` of the type ``type_``, ``UNKNOWN_VALUE`` where that is
        unknown.

        :raises Stop: there is no such value
        """
        machine = self._process.machine
        if not machine.word(address + 8) & 0xFFFF_FFFF:
            return "None"
        type_ = type_.removesuffix("?")
        payload = machine.read(address, 8)
        pointer = int.from_bytes(payload, "little")
        if type_.endswith("[]"):
            return self._list(pointer + self._head.size, type_.removesuffix("[]"))
        if type_ == "str":
            text = self._texts.get(pointer)
            return UNKNOWN_VALUE if text is None else _quoted(text.decode("utf-8", "backslashreplace"))
        if type_ == "float":
            return repr(struct.unpack("<d", payload)[0])
        if type_ == "int":
            return str(int.from_bytes(payload, "little", signed=True))
        return str(bool(payload[0])) if type_ == "bool" else UNKNOWN_VALUE

    def _list(self, vector: int, element: str) -> str:
        """Format a list; others are not taken as a default by torch's own parser, so no schema spells one."""
        if element not in ("int", "float"):
            return UNKNOWN_VALUE
        begin, end = self._process.machine.words(vector, 2)
        if not 0 <= end - begin <= _MAX_ELEMENTS * VALUE_SIZE or (end - begin) % VALUE_SIZE:
            return UNKNOWN_VALUE
        result = [self.text(at, element) for at in range(begin, end, VALUE_SIZE)]
        return UNKNOWN_VALUE if UNKNOWN_VALUE in result else f"[{', '.join(result)}]"

    def _vtable(self, name: str) -> int:
        return self._process.bind(name) + 16


def _quoted(text: str) -> str:
    """Quote a text as torch's lexer reads it."""
    return json.dumps(text, ensure_ascii=False)
