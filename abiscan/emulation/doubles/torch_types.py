"""Doubles of ``c10::Type`` and of the inference of schemas from C++ types.

``make_function_schema`` is handed one function per argument that returns the argument's type; those functions belong
to the extension and are run. They end in the imported functions below. How those return depends on the release: up to
1.10 every ``XType::get()`` returns a ``shared_ptr`` in memory, from 1.11 on most return a plain pointer in a register,
and ``TensorType::get()`` a reference to a ``shared_ptr``. The names that an object imports, or the release it was built
for, tell the two apart (``TorchState``). Else its registers do, as far as they go: nobody passes a buffer in the stack
to a function that takes no argument unless its result goes there, but what is left in a register may look like one.

Sources: ``ATen/core/jit_type.h``, ``ATen/core/type_ptr.h``, ``ATen/core/op_registration/infer_schema.h``.
"""

from __future__ import annotations

import functools
import struct
from typing import Final

from abiscan.emulation.arguments import (
    ARGUMENT_WITH_PLAIN_TYPE,
    ARGUMENT_WITH_SHARED_TYPE,
    ARGUMENT_WITH_TWO_TYPES,
)
from abiscan.emulation.doubles import SharedDoubles
from abiscan.emulation.process import Call
from abiscan.emulation.schema_objects import Schema
from abiscan.emulation.strings import abi_in
from abiscan.emulation.torch_state import TorchState
from abiscan.emulation.type_objects import printed_type

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


class Types:
    """How the types of one process are given, and the schemas that were inferred from them."""

    def __init__(self, state: TorchState) -> None:
        self.state = state
        self.inferred = functools.cache(Schema.inferred)
        self._type_from = functools.cache(self._ask)
        self._in_memory = False  # whether functions have been seen to return types in memory
        self._result_buffer = 0

    def text_of_argument(self, call: Call, index: int) -> str:
        """Return how a type prints that is an argument: a ``TypePtr`` by value, the address of its two words."""
        return self.state.types.text(call.machine.word(call.argument(index)))

    def give(self, call: Call, text: str, *, reference: bool = False) -> int | None:
        """Return a type in the way that the caller expects it.

        :param reference: where it does not go to memory, it is a reference to a ``shared_ptr``, else a plain pointer
        """
        types, address = self.state.types, self.state.types.object_of(text)
        # Three ways to tell, from the most to the least certain: the release, the imports, the registers at this very
        # call.
        plain = self.state.has_plain_types
        if plain is None:
            plain = not self._expects_memory(call, address)
        if not plain:
            self._in_memory = True
            types.write_shared(call.result, address)
        if self.state.has_plain_types is None:
            # The register of a result in memory is the callee's to change: leave nothing there to be taken for one.
            call.machine.vm.reg_write(_result_register(call), 0)
        if not plain:
            return None
        return call.process.store(struct.pack("<QQ", *types.shared(address))) if reference else address

    def _expects_memory(self, call: Call, address: int) -> bool:
        """Whether the caller passes a place for the type at ``address``, as far as its registers tell."""
        passed = call.machine.vm.reg_read(_result_register(call))
        if self._result_buffer and passed == self._result_buffer:
            # The caller's own result: passed on, or only left in its register. Both are served, and one is ignored.
            call.machine.write(passed, struct.pack("<QQ", address, self.state.types.passed_on))
        return _returns_in_memory(call)

    def write(self, result: int, text: str) -> None:
        """Put a ``shared_ptr`` to a type where the caller wants it, which is always in memory."""
        self.state.types.write_shared(result, self.state.types.object_of(text))

    def infer(self, name: str, views: list[tuple[int, int]]) -> Schema:
        """Return the schema of a function.

        :param views: the arrays of the functions that give the types of its arguments, and of its results
        """
        stride = self._argument_stride(views)
        passed, returned = (self._types_from(address, count, stride) for address, count in views)
        if stride == _TWO_FUNCTIONS:
            self.state.schemas.assumed_tail = ARGUMENT_WITH_TWO_TYPES
        else:
            in_memory = self._in_memory and not self.state.has_plain_types
            tail = ARGUMENT_WITH_SHARED_TYPE if in_memory else ARGUMENT_WITH_PLAIN_TYPE
            self.state.schemas.assumed_tail = tail
        return self.inferred(name, passed, returned)

    def _types_from(self, address: int, count: int, stride: int) -> tuple[str, ...]:
        if not count:
            return ()
        functions = self.state.process.machine.words(address, count * stride // 8)[:: stride // 8]
        return tuple(map(self._type_from, functions))

    def _ask(self, function: int) -> str:
        """Return how the type prints that a function of the object returns."""
        process, machine = self.state.process, self.state.process.machine
        # A buffer in the heap, so that the stack tells who passes a buffer of his own (see above).
        buffer = process.allocate(16)
        self._result_buffer = buffer
        machine.call_with_result(function, buffer)
        self._in_memory |= machine.word(buffer + 8) == self.state.types.passed_on
        return self.state.types.adopt(machine.word(buffer))

    def _argument_stride(self, views: list[tuple[int, int]]) -> int:
        """Return ``sizeof(ArgumentDef)``: one function pointer up to 1.12, two (of the real and the shown type) after.

        The imports of the object may tell (``TorchState``). Else the arrays do: they hold as many pointers to code as
        there are arguments, or twice as many, and do not overlap; once they were seen to hold single ones, that holds.
        """
        process, machine = self.state.process, self.state.process.machine
        if self.state.argument_stride is None:
            for (address, number), (second, _) in (views, views[::-1]):
                # Twice as many words as arguments, all of them code and not in the other array: two functions for each.
                # Otherwise the second half lies behind the array, or is the other one.
                words = machine.words(address, 2 * number)
                if address <= second < address + 16 * number or not all(process.is_code(word) for word in words):
                    self.state.argument_stride = _ONE_FUNCTION
        return self.state.argument_stride or _TWO_FUNCTIONS


def _result_register(call: Call) -> str:
    """Return the register in which the address of a result in memory is passed."""
    arch = call.process.arch
    return arch.hidden_result or arch.arguments[0]


def _returns_in_memory(call: Call) -> bool:
    return call.machine.is_stack(call.machine.vm.reg_read(_result_register(call)))


def _is_given_memory(call: Call) -> bool:
    """Whether the caller wants an object in memory."""
    sets_result = call.process.arch.sets_result(call.machine.read, call.return_address)
    return _returns_in_memory(call) if sets_result is None else sets_result


TORCH_TYPES: Final = SharedDoubles[Types]()


@TORCH_TYPES.matching(r"_ZN3c10\d+\w+Type3getEv$")
def _type_get(types: Types, call: Call) -> int | None:
    text = printed_type(call.name)
    return types.give(call, text, reference=text == "Tensor")


@TORCH_TYPES.matching(r"_ZN3c108ListType\d+of\w+Ev$")
def _list_type_of(types: Types, call: Call) -> None:
    """Take a ``shared_ptr`` by value, as in every release."""
    types.write(call.result, _ELEMENTS.get(call.name[call.name.index("of") + 2 : -2], "?") + "[]")


@TORCH_TYPES.matching(r"_ZN3c1012OptionalType\d+of\w+Ev$")
def _optional_type_of(types: Types, call: Call) -> None:
    types.write(call.result, _ELEMENTS.get(call.name[call.name.index("of", 20) + 2 : -2], "?") + "?")


@TORCH_TYPES.matching(r"_ZN3c1012OptionalType(3get|6create)E")
def _optional_type_get(types: Types, call: Call) -> None:
    """Make an optional; of an optional, it is that: ``OptionalType`` is a union with None, and unions are flattened."""
    result = call.result
    types.write(result, types.text_of_argument(call, 0).removesuffix("?") + "?")


@TORCH_TYPES.matching(r"_ZN3c1012OptionalTypeC[12]E")
def _optional_type_constructor(types: Types, call: Call) -> None:
    """Construct an optional: up to 1.10 ``create`` is inlined."""
    types.state.types.name(call.argument(0), types.text_of_argument(call, 1) + "?")


@TORCH_TYPES.matching(r"_ZN3c108ListType3getE", r"_ZN3c108ListType6createE")
def _list_type_get(types: Types, call: Call) -> None:
    result = call.result
    index = 1 if abi_in(call.name) else 0
    types.write(result, types.text_of_argument(call, index) + "[]")


@TORCH_TYPES.matching(r"_ZN3c108DictType3getE", r"_ZN3c108DictType6createE")
def _dict_type_get(types: Types, call: Call) -> None:
    result = call.result
    index = 1 if abi_in(call.name) else 0
    key, value = types.text_of_argument(call, index), types.text_of_argument(call, index + 1)
    types.write(result, f"Dict({key}, {value})")


@TORCH_TYPES.matching(r"_ZN3c109TupleTypeC[12]E")
def _tuple_type_constructor(types: Types, call: Call) -> None:
    begin, end = call.machine.words(call.argument(1), 2)
    addresses = range(begin, min(end, begin + 4096), 16)
    elements = [types.state.types.text(call.machine.word(at)) for at in addresses]
    types.state.types.name(call.argument(0), f"({', '.join(elements)})")


@TORCH_TYPES.matching(r"_ZN3c1022getCustomClassTypeImplERKSt10type_index")
def _get_custom_class_type(types: Types, call: Call) -> None:
    result = call.result
    name = types.state.type_info_name(call.machine.word(call.argument(0))) or "?"
    types.write(result, _CUSTOM + types.state.class_names.get(name, name))


@TORCH_TYPES.matching(r"virtual function of _ZTVN3c10\d+\w*TypeE")
def _type_virtual_function(types: Types, call: Call) -> int | None:
    """Answer a virtual function of a type, told by its shape: a text in memory, a comparison with another type, a yes.

    The order of the virtual functions differs between releases; inlined code asks for ``str``, for ``equals``,
    ``isSubtypeOf`` and ``symmetric``.
    """
    objects = types.state.types
    if _is_given_memory(call):
        result = call.result
        types.state.strings.create(call.process, result, objects.text(call.argument(0)).encode())
        return None
    this_address, second = call.argument(0), call.argument(1)
    return int(not objects.is_type(second) or objects.text(this_address) == objects.text(second))


@TORCH_TYPES.matching(r"_ZN3c106detail12infer_schema20make_function_schemaE")
def _make_function_schema(types: Types, call: Call) -> None:
    result = call.result
    named = abi_in(call.name) is not None
    name = ""
    if named:
        name = types.state.string(call.argument(0))
        overload = types.state.string(call.argument(1))
        name = f"{name}.{overload}" if overload else name
    views = call.views(2 if named else 0, 2)
    types.state.schemas.write(result, types.infer(name, views))
