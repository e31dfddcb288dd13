"""Doubles of ``c10::Type`` and of the inference of schemas from C++ types.

``make_function_schema`` is handed one function per argument that returns the argument's type; those functions belong
to the extension and are run. They end in the imported functions below. How those return depends on the release: up to
1.10 every ``XType::get()`` returns a ``shared_ptr`` in memory, from 1.11 on most return a plain pointer in a register,
and ``TensorType::get()`` a reference to a ``shared_ptr``. Nobody passes a buffer in the stack to a function that takes
no argument unless its result goes there, which tells the two apart.

Sources: ``ATen/core/jit_type.h``, ``ATen/core/type_ptr.h``, ``ATen/core/op_registration/infer_schema.h``.
"""

from __future__ import annotations

import functools
import struct
from typing import Final

from abiscan.emulation.doubles import Doubles
from abiscan.emulation.process import Call
from abiscan.emulation.strings import abi_in
from abiscan.emulation.torch_state import (
    ARGUMENT_WITH_PLAIN_TYPE,
    ARGUMENT_WITH_SHARED_TYPE,
    ARGUMENT_WITH_TWO_TYPES,
    Schema,
    TorchState,
    printed_type,
)

_ELEMENTS: Final = {
    "Tensors": "Tensor",
    "OptionalTensors": "Tensor?",
    "Ints": "int",
    "SymInts": "SymInt",
    "Floats": "float",
    "ComplexDoubles": "complex",
    "Bools": "bool",
    "Strings": "str",
    "Numbers": "Scalar",
    "Tensor": "Tensor",
    "Int": "int",
    "SymInt": "SymInt",
    "Float": "float",
    "Bool": "bool",
    "String": "str",
    "Number": "Scalar",
}
_ONE_FUNCTION, _TWO_FUNCTIONS = 8, 16
_CUSTOM: Final = "__torch__.torch.classes."


def torch_types(state: TorchState) -> Doubles:
    """The doubles that make and give types."""
    doubles = Doubles()

    def returns_in_memory(call: Call) -> bool:
        arch = call.process.arch
        register = arch.hidden_result or arch.arguments[0]
        return call.machine.is_writable_scratch(call.machine.vm.reg_read(register))

    def forget_result_register(call: Call) -> None:
        """The register of a result in memory is the callee's to change: leave nothing there to be taken for one."""
        arch = call.process.arch
        call.machine.vm.reg_write(arch.hidden_result or arch.arguments[0], 0)

    def give(call: Call, text: str, *, reference: bool = False) -> int | None:
        address = state.type_object(text)
        arch = call.process.arch
        if call.machine.vm.reg_read(arch.hidden_result or arch.arguments[0]) == state.result_buffer:
            # The caller's own result: handed on, or only left in its register. Serve both, and see what comes of it.
            call.machine.write(state.result_buffer, struct.pack("<QQ", address, state.passed_on))
        if returns_in_memory(call):
            state.types_in_memory = True
            state.write_shared(call.result, address)
            result = call.result
        else:
            result = call.process.store(struct.pack("<QQ", *state.shared(address))) if reference else address
        forget_result_register(call)
        return result

    def give_shared(call: Call, text: str) -> None:
        state.write_shared(call.result, state.type_object(text))

    @doubles.matching(r"_ZN3c10\d+\w+Type3getEv$")
    def _get(call: Call) -> int | None:
        text = printed_type(call.name)
        return give(call, text, reference=text == "Tensor")

    @doubles.matching(r"_ZN3c108ListType\d+of\w+Ev$")
    def _list_of(call: Call) -> int | None:
        return give(call, _ELEMENTS.get(call.name[call.name.index("of") + 2 : -2], "?") + "[]", reference=True)

    @doubles.matching(r"_ZN3c1012OptionalType\d+of\w+Ev$")
    def _optional_of(call: Call) -> int | None:
        return give(call, _ELEMENTS.get(call.name[call.name.index("of", 20) + 2 : -2], "?") + "?", reference=True)

    def inner(call: Call, index: int) -> str:
        """A ``TypePtr`` by value: the address of its two words."""
        return state.type_text(call.machine.word(call.argument(index)))

    @doubles.matching(r"_ZN3c1012OptionalType(3get|6create)E")
    def _optional(call: Call) -> None:
        result = call.result
        state.write_shared(result, state.type_object(inner(call, 0) + "?"))

    @doubles.matching(r"_ZN3c1012OptionalTypeC[12]E")
    def _construct_optional(call: Call) -> None:
        """Up to 1.10 ``create`` is inlined."""
        state.name_type(call.argument(0), inner(call, 1) + "?")

    @doubles.matching(r"_ZN3c108ListType3getE", r"_ZN3c108ListType6createE")
    def _list(call: Call) -> None:
        result = call.result
        index = 1 if abi_in(call.name) else 0
        state.write_shared(result, state.type_object(inner(call, index) + "[]"))

    @doubles.matching(r"_ZN3c108DictType3getE", r"_ZN3c108DictType6createE")
    def _dict(call: Call) -> None:
        result = call.result
        index = 1 if abi_in(call.name) else 0
        state.write_shared(result, state.type_object(f"Dict({inner(call, index)}, {inner(call, index + 1)})"))

    @doubles.matching(r"_ZN3c109TupleTypeC[12]E")
    def _tuple(call: Call) -> None:
        begin, end = call.machine.words(call.argument(1), 2)
        elements = [state.type_text(call.machine.word(at)) for at in range(begin, min(end, begin + 4096), 16)]
        state.name_type(call.argument(0), f"({', '.join(elements)})")

    @doubles.matching(r"_ZN3c1022getCustomClassTypeImplERKSt10type_index")
    def _custom_class(call: Call) -> None:
        result = call.result
        name = state.type_info_name(call.machine.word(call.argument(0))) or "?"
        state.write_shared(result, state.type_object(_CUSTOM + state.class_names.get(name, name)))

    @doubles.matching(r"virtual function of _ZTVN3c10\d+\w*TypeE")
    def _virtual(call: Call) -> int | None:
        """A virtual function of a type, told by its shape: a text in memory, a comparison with another type, a yes.

        The order of the virtual functions differs between releases; inlined code asks for ``str``, for ``equals``,
        ``isSubtypeOf`` and ``symmetric``.
        """
        if returns_in_memory(call):
            result = call.result
            state.strings.create(call.process, result, state.type_text(call.argument(0)).encode())
            return None
        this, other = call.argument(0), call.argument(1)
        return int(not state.is_type(other) or state.type_text(this) == state.type_text(other))

    @doubles.matching(r"_ZN3c106detail12infer_schema20make_function_schemaE")
    def _infer(call: Call) -> None:
        result = call.result
        named = abi_in(call.name) is not None
        name = ""
        if named:
            name = state.string(call.argument(0))
            overload = state.string(call.argument(1))
            name = f"{name}.{overload}" if overload else name
        views = call.views(2 if named else 0, 2)
        (arguments, count), (returns, return_count) = views
        stride = _argument_stride(state, views)
        given = types(call, arguments, count, stride)
        returned = types(call, returns, return_count, stride)
        if stride == _TWO_FUNCTIONS:
            state.assumed_tail = ARGUMENT_WITH_TWO_TYPES
        else:
            state.assumed_tail = ARGUMENT_WITH_SHARED_TYPE if state.types_in_memory else ARGUMENT_WITH_PLAIN_TYPE
        state.write_schema(result, inferred(name, given, returned))

    @functools.cache
    def inferred(name: str, given: tuple[str, ...], returned: tuple[str, ...]) -> Schema:
        return Schema.inferred(name, given, returned)

    def types(call: Call, address: int, count: int, stride: int) -> tuple[str, ...]:
        if not count:
            return ()
        return tuple(map(type_from, call.machine.words(address, count * stride // 8)[:: stride // 8]))

    @functools.cache
    def type_from(function: int) -> str:
        process, machine = state.process, state.process.machine
        # A buffer in the heap, so that the stack tells who passes a buffer of his own (see above).
        buffer = process.allocate(16)
        state.result_buffer = buffer
        machine.call_with_result(function, buffer)
        state.types_in_memory |= machine.word(buffer + 8) == state.passed_on
        return state.adopt_type(machine.word(buffer))

    return doubles


def _argument_stride(state: TorchState, views: list[tuple[int, int]]) -> int:
    """``sizeof(ArgumentDef)``: one function pointer up to 1.12, two (the real type's and the shown one's) after.

    The imports of the object may tell (``TorchState``). Else the arrays do: they hold as many pointers to code as
    there are arguments, or twice as many, and do not overlap; once they were seen to hold single ones, that holds.
    """
    process, machine = state.process, state.process.machine
    if state.argument_stride is None:
        for (address, number), (other, _) in (views, views[::-1]):
            words = machine.words(address, 2 * number)
            if address <= other < address + 16 * number or not all(process.is_code(word) for word in words):
                state.argument_stride = _ONE_FUNCTION
    return state.argument_stride or _TWO_FUNCTIONS
