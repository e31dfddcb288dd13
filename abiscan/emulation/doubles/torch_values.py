"""Doubles of the functions that make values: ``ATen/core/{ivalue_inl,List}.h``."""

from __future__ import annotations

from typing import Final

from abiscan.emulation.doubles import SharedDoubles
from abiscan.emulation.process import Call
from abiscan.emulation.torch_state import TorchState
from abiscan.regex import regex

_IS_LIST: Final = regex(r"_ZNK3c106IValue\d+is(\w+)ListEv")
_ELEMENTS: Final = {
    "Int": "int",
    "SymInt": "SymInt",
    "Double": "float",
    "ComplexDouble": "complex",
    "Bool": "bool",
    "Tensor": "Tensor",
    "OptionalTensor": "Tensor?",
}

TORCH_VALUES: Final = SharedDoubles[TorchState]()


@TORCH_VALUES.matching(r"_ZN3c106ivalue14ConstantString6createE")
def _constant_string_create(state: TorchState, call: Call) -> None:
    """Create a string of a ``std::string``, a ``std::string_view``, whose length comes first, or a ``const char*``."""
    result = call.result
    if "basic_string_view" in call.name:
        text = call.machine.read(call.argument(1), call.argument(0))
    elif call.name.endswith("EPKc"):
        text = call.machine.text(call.argument(0))
    else:
        text = state.strings.read(call.process, call.argument(0))
    call.machine.set_word(result, state.values.new_string(text))


@TORCH_VALUES.matching(r"_ZN3c106detail8ListImplC[12]E")
def _list_impl_constructor(state: TorchState, call: Call) -> None:
    """Construct a ``c10::List``. Takes (this, a ``std::vector<IValue>``, a ``TypePtr``), both by value: their
    addresses.
    """
    element = call.machine.words(call.argument(2), 2)
    state.values.make_list(call.argument(0), call.argument(1), element)


@TORCH_VALUES.matching(r"virtual function of _ZTVN3c10(6detail8ListImpl|6ivalue14ConstantString)E of a double")
def _intrusive_ptr_release_resources(_: TorchState, __: Call) -> None:
    """Do nothing: ``release_resources``, and the destructors."""


@TORCH_VALUES.matching(_IS_LIST.pattern)
def _ivalue_is_list(state: TorchState, call: Call) -> int:
    """Return true: it is asked of what was just made to be one."""
    match = _IS_LIST.match(call.name)
    element = state.types.text(state.values.element_type(call.argument(0)))
    return int(match is not None and _ELEMENTS.get(match[1]) == element)
