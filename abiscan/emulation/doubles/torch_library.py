"""Doubles of ``torch::Library``, ``torch::CppFunction`` and the schema parser (``torch/library.h``, torch 1.6 on)."""

from __future__ import annotations

import struct
from typing import Final

from abiscan.emulation.cpp_function import (
    CPP_FUNCTION_WORDS,
    Function,
    boxed_index,
    read_function,
    read_optional_key,
)
from abiscan.emulation.doubles import Doubles
from abiscan.emulation.emulator import Stop
from abiscan.emulation.model import Library, LibraryKind, RegisteredOperator
from abiscan.emulation.process import Call
from abiscan.emulation.torch_state import Schema, TorchState, optional_text_argument, text_argument

_KINDS: Final = (LibraryKind.DEF, LibraryKind.IMPL, LibraryKind.FRAGMENT)  # torch::Library::Kind
_MAX_TAGS: Final = 64

_LIBRARY: Final = r"_ZN5torch7Library"


def torch_library(state: TorchState) -> Doubles:
    """The doubles of the registration API."""
    doubles = Doubles()
    recorder, flag_first = state.recorder, state.flag_first

    @doubles.matching(_LIBRARY + r"C[12]ENS0_4KindE")
    def _open(call: Call) -> None:
        this, kind = call.argument(0), call.argument(1) & 0xFF
        if kind >= len(_KINDS):
            raise Stop(f"torch::Library of kind {kind}", call.return_address)
        namespace = state.string(call.argument(2))
        if not namespace:
            raise Stop("a torch::Library without a namespace", call.return_address)
        key = read_optional_key(call.argument(3), flag_first="3c108optional" in call.name, wide=state.wide_keys)
        file = optional_text_argument(call, 4)
        line = call.argument(5) & 0xFFFF_FFFF
        state.libraries[this] = recorder.library(_KINDS[kind], namespace, key, file, line)
        # Inlined code reads the kind and the namespace: ``class_`` is a template of this class.
        call.machine.write(this, struct.pack("<Q", kind))
        at = this + 8
        if flag_first:
            call.machine.set_word(at, 1)
            state.strings.create(call.process, at + 8, namespace.encode())
        else:
            state.strings.create(call.process, at, namespace.encode())
            call.machine.set_word(at + state.strings.size, 1)

    def library_of(call: Call, index: int = 0) -> Library:
        library = state.libraries.get(call.argument(index))
        if library is None:
            raise Stop("a torch::Library that was not opened", call.return_address)
        return library

    @doubles.matching(r"_ZN5torch3jit11parseSchemaE")
    def _parse_schema(call: Call) -> None:
        result = call.result
        text = state.string(call.argument(0))
        head, parenthesis, rest = text.partition("(")
        state.write_schema(result, Schema(head.strip().removesuffix("."), parenthesis + rest))

    @doubles.matching(r"_ZN5torch3jit17parseSchemaOrNameE")
    def _parse_schema_or_name(call: Call) -> None:
        result = call.result
        state.write_name_or_schema(result, state.string(call.argument(0)))

    @doubles.matching(r"_ZN5torch3jit9parseNameE")
    def _parse_name(call: Call) -> None:
        result = call.result
        name, _, overload = state.string(call.argument(0)).partition(".")
        state.strings.create(call.process, result, name.encode())
        state.strings.create(call.process, result + state.strings.size, overload.encode())

    @doubles.matching(r"_ZNR5torch7Library4_defEON3c1014FunctionSchemaE")
    def _define(call: Call) -> int:
        schema = state.read_schema(call.argument(1))
        if schema is None:
            raise Stop("a definition with an unknown schema", call.return_address)
        tags = read_tags(call, 3) if "3TagE" in call.name else ()
        alias = state.read_alias_analysis(call.argument(1))
        recorder.define(library_of(call), schema.name + (schema.arguments or ""), tags=tags, alias_analysis=alias)
        return call.argument(0)

    @doubles.matching(r"_ZNR5torch7Library4_defEO(St7variant|N3c106either)")
    def _define_with_kernel(call: Call) -> int:
        library = library_of(call)
        given = state.read_name_or_schema(call.argument(1))
        function = read_function(state, call.argument(2), CPP_FUNCTION_WORDS, flag_first=flag_first)
        inferred = function.schema.arguments if function.schema else None
        tags = read_tags(call, 3) if "3TagE" in call.name else ()
        alias = state.read_alias_analysis(call.argument(1)) if given.arguments else None
        text = given.name + (given.arguments or "")
        definition = recorder.define(library, text, inferred=inferred, tags=tags, alias_analysis=alias)
        record_kernel(library, definition.name, function, definition)
        return call.argument(0)

    @doubles.matching(r"_ZNR5torch7Library5_implEPKcONS_11CppFunctionE")
    def _implement(call: Call) -> int:
        record_kernel(
            library_of(call),
            text_argument(call, 1),
            read_function(state, call.argument(2), CPP_FUNCTION_WORDS, flag_first=flag_first),
        )
        return call.argument(0)

    @doubles.matching(r"_ZNR5torch7Library9_fallbackEONS_11CppFunctionE")
    def _fall_back(call: Call) -> int:
        function = read_function(state, call.argument(1), CPP_FUNCTION_WORDS, flag_first=flag_first)
        recorder.fallback(library_of(call), function.key, fallthrough=function.fallthrough)
        return call.argument(0)

    @doubles.matching(r"_ZN5torch11CppFunctionC[12]EN3c1014KernelFunctionE")
    def _construct_function(call: Call) -> None:
        """The private constructor, for kernels without a C++ type: only what tells boxed from fallthrough is kept."""
        this, kernel = call.argument(0), call.argument(1)
        # A functor that is a shared_ptr belongs to the 32 bytes of 1.6 to 1.8.
        shared_functor = boxed_index(state, call.machine.words(kernel, 3)) > 1
        size = 32 if shared_functor else state.kernel_function_size
        call.machine.write(this, bytes(8) + call.machine.read(kernel, size) + bytes(24))
        state.strings.create(call.process, this + 8 + size + 24, b"")
        state.doubled.add(this)

    @doubles.matching(r"_ZN5torch11CppFunctionD[12]Ev")
    def _destroy_function(call: Call) -> None:
        """Nothing that is recorded lives in the object."""
        state.doubled.discard(call.argument(0))

    def read_tags(call: Call, index: int) -> tuple[int, ...]:
        """A ``const std::vector<at::Tag>&``."""
        begin, end = call.machine.words(call.argument(index), 2)
        count = (end - begin) // 4
        if not 0 <= count <= _MAX_TAGS:
            return ()
        return struct.unpack(f"<{count}i", call.machine.read(begin, 4 * count)) if count else ()

    def record_kernel(
        library: Library, name: str, function: Function, definition: RegisteredOperator | None = None
    ) -> None:
        recorder.kernel(
            library,
            name,
            function.key,
            signature=function.signature,
            inferred=function.schema.arguments if function.schema else None,
            boxed=function.boxed,
            fallthrough=function.fallthrough,
            definition=definition,
        )

    return doubles
