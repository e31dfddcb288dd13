"""What the doubles of torch share: the objects of torch in one process.

Only classes whose layout the extension itself relies on are written, each exactly as long as it is, for they lie in
the extension's stack frames and statics: schemas (``schema_objects``), types (``type_objects``), values
(``values``), and

* ``KernelFunction`` inside ``CppFunction``, which changes from release to release (64 bytes up to 1.5, 32 up to 1.8,
  then 24, from 1.13 on 32, from 2.9 on 40). To read one, its words are searched for what is known by its address: an
  inferred schema, a ``type_info`` of a function. To write one, when a kernel is given boxed, the smallest size that the
  imports allow is taken: the members behind it are empty, and code only moves them.

Which ``optional`` torch used (``c10::optional`` keeps its flag before the value, ``std::optional``, from 2.1 on, after
it) is in the names that the object imports, and so is the layout of ``std::string``.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable
from typing import Final

from abiscan.emulation.arguments import ARGUMENT_WITH_SHARED_TYPE, Arguments
from abiscan.emulation.emulator import Stop
from abiscan.emulation.process import Call, EmulatedProcess
from abiscan.emulation.recorder import Recorder
from abiscan.emulation.schema_objects import SchemaObjects
from abiscan.emulation.standard_types import StandardTypes
from abiscan.emulation.strings import abi_of
from abiscan.emulation.type_objects import TypeObjects
from abiscan.emulation.values import Values
from abiscan.regex import regex
from abiscan.registrations import Library

_DEFINE_WITHOUT_TAGS: Final = "_ZNR5torch7Library4_defEON3c1014FunctionSchemaEPNS1_12OperatorNameE"
# std::unordered_map and std::unordered_set (bits/hashtable.h): buckets, their number, first node, number of elements,
# rehash policy (a float, a limit), the one bucket of an empty one.
_TABLE: Final = struct.Struct("<QQQQf4xQQ")
_OWN_BUCKET: Final = 48
# What a c10::TypePtr is called in mangled names: from 1.11 on, and up to 1.10.
_PLAIN_TYPE: Final = b"SingletonOrSharedTypePtr"
_SHARED_TYPES: Final = (b"St10shared_ptrINS_4TypeE", b"St10shared_ptrIN3c104TypeE")
_FIRST_SYMBOL: Final = 1 << 24  # below are torch's own, which are numbers in the code
_TOKEN: Final = b"11KernelToken"  # of KernelFunction, from 2.9 on
_AROUND_KERNEL: Final = 32  # of a CppFunction: the key before the KernelFunction, signature and schema behind it
_NAME: Final = regex(r"[\w.:<>-]+\s*(?:\(|$)", re.ASCII)


class TorchState:
    """The objects of torch in one process."""

    def __init__(self, process: EmulatedProcess, imports: frozenset[str], recorder: Recorder) -> None:
        self.process = process
        self.recorder = recorder
        self.strings = abi_of(imports)
        self.flag_first = any("N3c108optional" in name for name in imports)
        self._standard = standard = StandardTypes(process=process, strings=self.strings, flag_first=self.flag_first)
        self.types = TypeObjects(standard)
        self.values = Values(standard)
        arguments = Arguments(standard, self.types, self.values, self.symbol_text)
        self.schemas = SchemaObjects(standard, self.types, arguments)
        marks = ("3TagE", "_RegisterOrVerify", "St8optionalIN3c1011DispatchKeyE")
        newer = any(mark in name for name in imports if "torch7Library" in name for mark in marks)
        # sizeof(c10::detail::infer_schema::ArgumentDef); None as long as it is not known.
        self.argument_stride = 16 if newer else 8 if _DEFINE_WITHOUT_TAGS in imports else None
        with_tokens = any("10headeronly3TagE" in name for name in imports) or process.image.mentions(_TOKEN)
        self._kernel_function_size = 40 if with_tokens else 32 if newer else 24
        self.wide_keys: bool | None = None  # whether a DispatchKey has 16 bits, where torch itself can be asked
        self.libraries: dict[int, Library] = {}
        # Up to 1.6 the code that enters classes into their table asks the C++ library when it has to grow.
        self.has_flat_class_map = not any("14_M_need_rehashE" in name for name in imports)
        self.class_names: dict[str, str] = {}  # mangled type name of the holder -> ns.Name
        self.doubled: set[int] = set()  # where the double of the constructor has made a CppFunction, the last time
        self.schema_at: dict[int, int] = {}  # which word of a kernel of so many words leads to the schema
        self.unboxed: dict[int, tuple[int, int]] = {}  # the functor and unboxed function of a kernel, by its order
        self.syntax_error: Callable[[str], str | None] = lambda _: None
        """Tells what every torch says of a text that none reads as a schema; empty where some may, else None."""
        self.stable_calls: dict[int, str] = {}  # which function of the stable ABI registers, by order
        self.stable_returns: dict[str, int] = {}  # where the first call of each of them returns to
        self._symbols: list[str] = []

    @property
    def kernel_function_size(self) -> int:
        """``sizeof(c10::KernelFunction)``: a complete ``CppFunction`` shows it, else what the object imports."""
        if len(self.recorder.debug_at) == 1:
            return next(iter(self.recorder.debug_at)) - _AROUND_KERNEL
        return self._kernel_function_size

    @property
    def has_plain_types(self) -> bool | None:
        """Whether most ``XType::get()`` return a plain pointer, as from 1.11 on; None where nothing tells."""
        if self.schemas.known_tail is not None:
            return self.schemas.known_tail < ARGUMENT_WITH_SHARED_TYPE
        return self._names_plain_types

    @functools.cached_property
    def _names_plain_types(self) -> bool | None:
        mentions = self.process.image.mentions
        if mentions(_PLAIN_TYPE):
            return True
        return False if any(map(mentions, _SHARED_TYPES)) else None

    def write_table(self, address: int, buckets: int = 1) -> None:
        """Make an empty ``std::unordered_map`` or ``std::unordered_set``."""
        at, limit = (address + _OWN_BUCKET, 0) if buckets == 1 else (self.process.store(bytes(8 * buckets)), buckets)
        self.process.machine.write(address, _TABLE.pack(at, buckets, 0, 0, 1.0, limit, 0))

    # Interned names

    def symbol(self, text: str) -> int:
        """Return the number of a ``c10::Symbol``, in the order of their first use."""
        if text not in self._symbols:
            self._symbols.append(text)
        return self._symbols.index(text) + _FIRST_SYMBOL

    def symbol_text(self, number: int) -> str:
        """Return the name behind the number of a ``c10::Symbol``, empty for one of torch's own."""
        index = number - _FIRST_SYMBOL
        return self._symbols[index] if 0 <= index < len(self._symbols) else ""

    # Texts

    def type_info_name(self, address: int) -> str | None:
        """Return the mangled name in the ``std::type_info`` at ``address``, None if there is none."""
        machine = self.process.machine
        if self.process.image_at(address) is None and self.process.name_at(address) is None:
            return None
        try:
            vtable, text = machine.words(address, 2)
            if not self.process.types.is_virtual_table(vtable):
                return None
            return machine.text(text, 1 << 16).decode("utf-8", "backslashreplace").removeprefix("*")
        except Stop:
            return None

    def string(self, address: int) -> str:
        """Return the ``std::string`` at ``address``."""
        return self._standard.text(address)

    def is_name_at(self, address: int) -> bool:
        """Whether a string lies at ``address`` that is, or begins with, the name of an operator or class."""
        try:
            text = self.string(address)
        except Stop:
            return False
        return _NAME.match(text) is not None


def text_argument(call: Call, index: int) -> str:
    """Return a ``const char*`` argument."""
    return call.machine.text(call.argument(index)).decode("utf-8", "backslashreplace")


def optional_text_argument(call: Call, index: int) -> str | None:
    """Return a ``const char*`` argument that may be null."""
    return text_argument(call, index) if call.argument(index) else None
