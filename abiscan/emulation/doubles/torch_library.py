"""Doubles of ``torch::Library``, ``torch::CppFunction`` and the schema parser (``torch/library.h``, torch 1.6 on)."""

from __future__ import annotations

import struct
from typing import Final

from abiscan.binary import registration_api as api
from abiscan.emulation.cpp_function import (
    CPP_FUNCTION_WORDS,
    Function,
    boxed_index,
    read_function,
    read_optional_key,
)
from abiscan.emulation.doubles import SharedDoubles
from abiscan.emulation.doubles.exceptions import throw_torch_error
from abiscan.emulation.emulator import Stop
from abiscan.emulation.process import Call
from abiscan.emulation.recorder import operator_name
from abiscan.emulation.schema_objects import Schema
from abiscan.emulation.torch_state import TorchState, optional_text_argument, text_argument
from abiscan.registrations import Library, LibraryKind, RegisteredOperator

_KINDS: Final = tuple(LibraryKind)
_MAX_TAGS: Final = 64

_OPTIONAL_KEY_SIZE: Final = 2  # a flag and the key of 8 bits, of the releases that pass it so

_HANDLE_SIZE: Final = 32  # sizeof(std::function): two words of its own, the manager, the function
_HANDLE_MARK: Final = int.from_bytes(b"handles ", "little")
_HANDLE_MANAGER, _HANDLE_END = "manager of a library's handle", "end of a library"
_CLONE: Final = 2
_REPORT: Final = "N5torch3jit11ErrorReportE"

TORCH_LIBRARY: Final = SharedDoubles[TorchState]()


@TORCH_LIBRARY.matching(api.OPEN_LIBRARY)
def _library_constructor(state: TorchState, call: Call) -> None:
    this_address, kind = call.argument(0), call.argument(1) & 0xFF
    if kind >= len(_KINDS):
        raise Stop(f"torch::Library of kind {kind}", call.return_address)
    namespace = state.string(call.argument(2))
    if not namespace:
        raise Stop("a torch::Library without a namespace", call.return_address)
    passed = call.argument(3)
    # Only a key that is passed by value can be a small number: an address in the stack shows the older form.
    if call.machine.is_stack(passed):
        # Up to 1.6 c10::optional has a copy constructor, so it is passed by invisible reference (Itanium ABI, 3.1.2.3)
        passed = int.from_bytes(call.machine.read(passed, _OPTIONAL_KEY_SIZE), "little")
    key = read_optional_key(passed, flag_first="3c108optional" in call.name, wide=state.wide_keys)
    file = optional_text_argument(call, 4)
    line = call.argument(5) & 0xFFFF_FFFF
    state.libraries[this_address] = state.recorder.library(_KINDS[kind], namespace, key, file, line)
    # Inlined code reads the kind and the namespace: ``class_`` is a template of this class.
    call.machine.write(this_address, struct.pack("<Q", kind))
    # ``Library`` begins with its kind and an ``optional`` namespace, whose flag is before the text or behind it.
    at = this_address + 8
    if state.flag_first:
        call.machine.set_word(at, 1)
        state.strings.create(call.process, at + 8, namespace.encode())
    else:
        state.strings.create(call.process, at, namespace.encode())
        call.machine.set_word(at + state.strings.size, 1)
    _hold_library(state, call, this_address, state.libraries[this_address])


# What a library has registered is registered for as long as it lives: its last member is a vector of handles, each of
# them a std::function that is called in the end. Here it has one, which says which library it is, wherever that moves.


def _hold_library(state: TorchState, call: Call, this_address: int, library: Library) -> None:
    if state.flag_first:  # older releases lay their libraries out in other ways
        return
    process = call.process
    functions = process.bind(_HANDLE_MANAGER), process.bind(_HANDLE_END)
    handle = process.store(struct.pack("<QQQQ", library.order, _HANDLE_MARK, *functions))
    end = handle + _HANDLE_SIZE
    call.machine.write(this_address + _handles_at(state), struct.pack("<3Q", handle, end, end))


def _handles_at(state: TorchState) -> int:
    """Return the offset of the handles: behind kind, namespace, key, two texts, file, line (``torch/library.h``)."""
    return 8 + state.strings.size + 8 + 8 + 3 * 8 + 2 * 8


@TORCH_LIBRARY.named(_HANDLE_END)
def _handle_end(state: TorchState, call: Call) -> None:
    """End a library, by the contents of its handle: it is destroyed or reset, and nothing of it stays registered."""
    order, mark = call.machine.words(call.argument(0), 2)
    if mark == _HANDLE_MARK:
        state.recorder.close(order)


@TORCH_LIBRARY.named(_HANDLE_MANAGER)
def _handle_manager(_: TorchState, call: Call) -> int:
    """Clone or destroy the handle of a registration, as the manager. Takes (target, source, operation) of a
    ``std::function``: 2 clones, and 3 destroys (bits/std_function.h).
    """
    target, source, operation = call.argument(0), call.argument(1), call.argument(2) & 0xFFFF_FFFF
    if operation == _CLONE:
        call.machine.write(target, call.machine.read(source, 16))
    return 0


@TORCH_LIBRARY.matching(r"_ZN5torch7Library(5resetEv|D[12]Ev)$")
def _library_reset(state: TorchState, call: Call) -> None:
    library = _opened_library_at(state, call, call.argument(0))
    if library is not None and not state.flag_first:
        state.recorder.close(library.order)
        call.machine.write(call.argument(0) + _handles_at(state), bytes(24))


def _opened_library_at(state: TorchState, call: Call, this_address: int) -> Library | None:
    """Return the library at an address, which may have been moved there."""
    try:
        begin, end = call.machine.words(this_address + _handles_at(state), 2)
        if begin and end == begin + _HANDLE_SIZE:
            # The mark tells a handle of this module from whatever code has put into a library of its own layout.
            order, mark = call.machine.words(begin, 2)
            if mark == _HANDLE_MARK:
                return state.recorder.opened(order)
    except Stop:
        pass
    return state.libraries.get(this_address)


@TORCH_LIBRARY.matching(r"_ZN5torch3jit11parseSchemaE")
def _parse_schema(state: TorchState, call: Call) -> None:
    result = call.result
    text = state.string(call.argument(0))
    _refuse_text(state, call, text)
    # The parsed object is never looked into: its text is kept next to it, and found again by the address in its vector.
    head, parenthesis, remainder = text.partition("(")
    typevars = bool(call.argument(1) & 1) if call.name.endswith("b") else None  # (text, allow_typevars), from 2.4 on
    state.schemas.write(result, Schema(head.strip().removesuffix("."), parenthesis + remainder, typevars=typevars))


@TORCH_LIBRARY.matching(r"_ZN5torch3jit17parseSchemaOrNameE")
def _parse_schema_or_name(state: TorchState, call: Call) -> None:
    result = call.result
    text = state.string(call.argument(0))
    _refuse_text(state, call, text)
    state.schemas.write_name_or_schema(result, text)


def _refuse_text(state: TorchState, call: Call, text: str) -> None:
    """Throw what every torch throws for a text that is no schema, if the code catches it."""
    error = state.syntax_error(text)
    if error is None:
        return
    is_caught = call.process.exceptions.is_caught(call, call.process.bind(f"_ZTI{_REPORT}"))
    # Some torch may read the text, so the run is only right for those that do not throw here.
    if not error:
        if is_caught:
            call.outcome_is_unknown("an exception")
        return
    if is_caught:
        throw_torch_error(call, error, _REPORT)
    state.recorder.ends_at_torch = True


@TORCH_LIBRARY.matching(r"_ZN5torch3jit9parseNameE")
def _parse_name(state: TorchState, call: Call) -> None:
    result = call.result
    name, _, overload = state.string(call.argument(0)).partition(".")
    state.strings.create(call.process, result, name.encode())
    state.strings.create(call.process, result + state.strings.size, overload.encode())


@TORCH_LIBRARY.matching(api.DEFINE)
def _library_def(state: TorchState, call: Call) -> int:
    schema = state.schemas.read(call.argument(1))
    if schema is None:
        raise Stop("a definition with an unknown schema", call.return_address)
    # All overloads of ``def`` are inlined, and end in one of two ``_def``: of a schema, or of a name or schema with a
    # kernel (``torch/library.h``).
    alias = state.schemas.read_alias_analysis(call.argument(1))
    text = schema.name + (schema.arguments or "")
    library, tags = _library_of(state, call), _read_tags(call)
    _throw_library_error(state, call, library, text)
    state.recorder.define(library, text, tags=tags, alias_analysis=alias, built=schema.built, typevars=schema.typevars)
    return call.argument(0)


@TORCH_LIBRARY.matching(api.DEFINE_WITH_KERNEL)
def _library_def_with_kernel(state: TorchState, call: Call) -> int:
    library = _library_of(state, call)
    declaration = state.schemas.read_name_or_schema(call.argument(1))
    function = _read_cpp_function(state, call.argument(2))
    inferred = function.schema.arguments if function.schema else None
    alias = state.schemas.read_alias_analysis(call.argument(1)) if declaration.arguments else None
    text = declaration.name + (declaration.arguments or "")
    tags = _read_tags(call)
    _throw_library_error(state, call, library, text)
    definition = state.recorder.define(
        library,
        text,
        inferred=inferred,
        tags=tags,
        alias_analysis=alias,
        built=declaration.built,
        typevars=declaration.typevars,
    )
    _record_kernel(state, library, definition.name, function, definition)
    return call.argument(0)


@TORCH_LIBRARY.matching(api.IMPLEMENT)
def _library_impl(state: TorchState, call: Call) -> int:
    library, name = _library_of(state, call), text_argument(call, 1)
    # A qualified name has to be in the namespace of the library, or the wildcard's (library.cpp, ``_parseNameForLib``).
    namespace, separator, _ = name.rpartition("::")
    if separator and library.namespace not in (None, namespace):
        if call.process.exceptions.is_caught(call, call.process.bind("_ZTIN3c105ErrorE")):
            throw_torch_error(call, f"an implementation of {name} in {library.namespace}", is_exact=False)
        state.recorder.ends_at_torch = True
    _record_kernel(state, library, name, _read_cpp_function(state, call.argument(2)))
    return call.argument(0)


@TORCH_LIBRARY.matching(api.FALL_BACK)
def _library_fallback(state: TorchState, call: Call) -> int:
    function = _read_cpp_function(state, call.argument(1))
    state.recorder.fallback(_library_of(state, call), function.key, fallthrough=function.fallthrough)
    return call.argument(0)


@TORCH_LIBRARY.matching(r"_ZN5torch11CppFunctionC[12]EN3c1014KernelFunctionE")
def _cpp_function_constructor(state: TorchState, call: Call) -> None:
    """Construct a kernel without a C++ type (private constructor): only boxed and fallthrough are distinguished."""
    this_address, kernel = call.argument(0), call.argument(1)
    # A functor that is a shared_ptr belongs to the 32 bytes of 1.6 to 1.8.
    # From here on the object must be as long as inlined code takes it to be: the members behind it are moved with it.
    shared_functor = boxed_index(state, call.machine.words(kernel, 3)) > 1
    size = 32 if shared_functor else state.kernel_function_size
    call.machine.write(this_address, bytes(8) + call.machine.read(kernel, size) + bytes(24))
    state.strings.create(call.process, this_address + 8 + size + 24, b"")
    state.doubled.add(this_address)


@TORCH_LIBRARY.matching(r"_ZN5torch11CppFunctionD[12]Ev")
def _cpp_function_destructor(state: TorchState, call: Call) -> None:
    """Do nothing: the object contains nothing that is recorded."""
    state.doubled.discard(call.argument(0))


def _library_of(state: TorchState, call: Call) -> Library:
    library = _opened_library_at(state, call, call.argument(0))
    if library is None:
        raise Stop("a torch::Library that was not opened", call.return_address)
    return library


def _throw_library_error(state: TorchState, call: Call, library: Library, text: str) -> None:
    """Throw what every torch throws for a definition, if the code catches it; else the process ends anyway."""
    name = operator_name(text)
    namespace, separator, _ = name.rpartition("::")
    full = name if separator or library.namespace is None else f"{library.namespace}::{name}"
    is_twice = state.recorder.has_operator(full)
    is_elsewhere = separator and library.namespace is not None and namespace != library.namespace
    if not (is_twice or is_elsewhere):
        return
    if call.process.exceptions.is_caught(call, call.process.bind("_ZTIN3c105ErrorE")):
        reason = f"Tried to register an operator ({text}) that cannot be registered here"
        throw_torch_error(call, reason, is_exact=False)
    state.recorder.ends_at_torch = True


def _read_cpp_function(state: TorchState, address: int) -> Function:
    return read_function(state, address, CPP_FUNCTION_WORDS, flag_first=state.flag_first)


def _read_tags(call: Call) -> tuple[int, ...]:
    """Return a ``const std::vector<at::Tag>&``, the fourth argument of functions that take one."""
    if "3TagE" not in call.name:
        return ()
    begin, end = call.machine.words(call.argument(3), 2)
    count = (end - begin) // 4
    if not 0 <= count <= _MAX_TAGS:
        return ()
    return struct.unpack(f"<{count}i", call.machine.read(begin, 4 * count)) if count else ()


def _record_kernel(
    state: TorchState, library: Library, name: str, function: Function, definition: RegisteredOperator | None = None
) -> None:
    recorded = state.recorder.kernel(
        library,
        name,
        function.key,
        signature=function.signature,
        inferred=function.schema.arguments if function.schema else None,
        boxed=function.boxed,
        fallthrough=function.fallthrough,
        functions=function.addresses,
        definition=definition,
    )
    if function.unboxed is not None:
        state.unboxed[recorded.order] = function.unboxed
