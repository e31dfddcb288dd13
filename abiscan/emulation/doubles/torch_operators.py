"""Doubles of ``RegisterOperators`` of c10 and of the JIT, which register without a ``torch::Library``.

Sources: ``ATen/core/op_registration/op_registration.h``, ``torch/csrc/jit/runtime/operator.h``
(``csrc/jit/operator.h`` up to 1.4).
"""

from __future__ import annotations

from typing import Final

from abiscan.binary import registration_api as api
from abiscan.emulation.cpp_function import Function, read_function
from abiscan.emulation.doubles import SharedDoubles
from abiscan.emulation.emulator import Stop
from abiscan.emulation.process import Call
from abiscan.emulation.torch_state import TorchState

# sizeof(KernelRegistrationConfig): key, KernelFunction (32, 40, 24), signature, schema; up to 1.5 a KernelFunction of
# 64 bytes and no signature. In the order of how likely they are where nothing else tells.
_CONFIG_SIZES: Final = (64, 72, 56, 80)
_MAX_KERNELS_SIZE: Final = 1 << 16

TORCH_OPERATORS: Final = SharedDoubles[TorchState]()


@TORCH_OPERATORS.matching(api.REGISTER_OPERATOR)
def _register_operators_op(state: TorchState, call: Call) -> None:
    options = call.argument(1)
    # optional<variant<OperatorName, FunctionSchema>>: the flag is before the value or behind it, eight bytes either
    # way, so what follows is where it is.
    flag_first = not state.is_name_at(options)
    declaration = state.schemas.read_name_or_schema(options + 8 if flag_first else options)
    if not declaration.name:
        raise Stop("a definition without a name", call.return_address)
    kernels = options + state.schemas.size + 16
    begin, end = call.machine.words(kernels, 2)
    functions = _kernel_functions(state, begin, end, flag_first=flag_first)
    inferred = next((function.schema.arguments for function in functions if function.schema), None)
    definition = state.recorder.define(
        None,
        declaration.name + (declaration.arguments or ""),
        inferred=inferred,
        alias_analysis=state.schemas.read_optional_byte(kernels + 24) if flag_first else None,
        built=declaration.built,
    )
    for function in functions:
        state.recorder.kernel(
            None,
            definition.name,
            function.key,
            signature=function.signature,
            inferred=function.schema.arguments if function.schema else None,
            boxed=function.boxed,
            fallthrough=function.fallthrough,
            definition=definition,
        )


def _kernel_functions(state: TorchState, begin: int, end: int, *, flag_first: bool) -> list[Function]:
    """Return the elements of a ``std::vector<KernelRegistrationConfig>``, whose size is one that puts every schema
    last.
    """
    machine, size = state.process.machine, end - begin
    if not 0 < size <= _MAX_KERNELS_SIZE:
        return []
    # The size of a config is that of its release, which nothing states. Each config ends with the pointer to its
    # schema, so the right size is the one at whose multiples such pointers end.
    words = machine.words(begin, size // 8)
    ends = [8 * at + 8 for at, word in enumerate(words) if machine.is_heap(word) and state.schemas.marked(word)]
    fitting = [config_size for config_size in _CONFIG_SIZES if size % config_size == 0]
    best = min(fitting, key=lambda config_size: sum(position % config_size != 0 for position in ends), default=None)
    if best is None:
        raise Stop(f"kernels of a size that no release has ({size} bytes in total)", machine.vm.pc)
    return [read_function(state, at, best // 8, flag_first=flag_first) for at in range(begin, end, best)]


@TORCH_OPERATORS.matching(api.REGISTER_JIT_OPERATOR)
def _register_jit_operators(state: TorchState, call: Call) -> None:
    """Read the schema, the first member: an unparsed text, or a ``FunctionSchema``, which begins with its name.

    Up to 1.4 there are both, a ``shared_ptr<FunctionSchema>``, then an ``optional<string>``; in 1.5 an ``either``
    of the two, which begins with a word or two of its own.
    """
    operator = call.argument(0)
    places = (operator, operator + 8, operator + 24, *call.machine.words(operator, 3))
    at = next((at for at in places if state.is_name_at(at)), None)
    if at is None:
        raise Stop("a JIT operator without a readable schema", call.return_address)
    text = state.string(at)
    if "(" not in text:
        schema = state.schemas.marked(at)
        text = schema.name + (schema.arguments or "") if schema else state.schemas.read_operator_name(at)
    state.recorder.define(None, text, jit_only=True)


@TORCH_OPERATORS.matching(r"_ZN3c1017RegisterOperators[CD][12]E")
def _register_operators_constructor(_: TorchState, __: Call) -> None:
    """Do nothing: the object keeps what is registered alive, which nobody asks for here."""


@TORCH_OPERATORS.matching(r"_ZNK3c106Symbol12toQualStringE")
def _symbol_to_qual_string(state: TorchState, call: Call) -> int:
    number = call.machine.word(call.argument(0)) & 0xFFFF_FFFF
    text = call.process.allocate(state.strings.size)
    state.strings.create(call.process, text, state.symbol_text(number).encode())
    return call.machine.word(text)
