"""Doubles of the functions with which code looks up operators by name: they record the name, and find nothing.

Sources: ``ATen/core/dispatch/Dispatcher.h``, ``torch/csrc/jit/runtime/operator.h``, ``ATen/core/interned_strings.h``,
``torch/csrc/inductor/aoti_torch/c/shim.h``, ``torch/csrc/stable/c/shim.h``.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from abiscan.emulation.aten import is_known
from abiscan.emulation.doubles import SharedDoubles
from abiscan.emulation.emulator import Stop
from abiscan.emulation.process import Call
from abiscan.emulation.recorder import operator_name
from abiscan.emulation.torch_state import TorchState
from abiscan.regex import regex
from abiscan.registrations import version_of

# What they are called in torch's sources, by the beginning of their mangled names.
FUNCTIONS: Final = {
    "_ZN3c1010Dispatcher17findSchemaOrThrowEPKcS2_": "c10::Dispatcher::findSchemaOrThrow",
    "_ZN3c1010Dispatcher10findSchemaERKNS_12OperatorNameE": "c10::Dispatcher::findSchema",
    "_ZN3c1010Dispatcher6findOpERKNS_12OperatorNameE": "c10::Dispatcher::findOp",
    "_ZN5torch3jit15findOperatorForERKN3c1012OperatorNameE": "torch::jit::findOperatorFor",
    "_ZN5torch3jit18getAllOperatorsForEN3c106SymbolE": "torch::jit::getAllOperatorsFor",
    "_ZN5torch3jit24getAllSortedOperatorsForEN3c106SymbolE": "torch::jit::getAllSortedOperatorsFor",
    "_ZN5torch3jit21getOperatorForLiteralEPKc": "torch::jit::getOperatorForLiteral",
    "_ZN5torch3jit11OperatorSetC1ESt16initializer_listIPKcE": "torch::jit::OperatorSet",
    "_ZN5torch3jit11OperatorSetC2ESt16initializer_listIPKcE": "torch::jit::OperatorSet",
    "_ZN3c106Symbol14fromQualStringE": "c10::Symbol::fromQualString",
    "aoti_torch_call_dispatcher": "aoti_torch_call_dispatcher",
    "torch_call_dispatcher": "torch_call_dispatcher",
}
_NAME: Final = regex(r"(\w+)::\w+(\.\w+)?", re.ASCII)
# The domains of symbols that name no operator (interned_strings.h): what comes behind it need not be known.
_NO_OPERATOR: Final = regex(r"(attr|dimname|namespaces|onnx|scope|user|_caffe2)::")
_HANDLE_SIZE: Final = 24  # of an optional<OperatorHandle>, or of a vector
_OPERATOR_SIZE: Final = 4096  # of an OperatorDef, in which nothing can be read
_MAX_NAMES: Final = 1024


def function_called(mangled: str) -> str | None:
    """Return the name of a function that looks up operators by name; None for any other function."""
    return next((name for beginning, name in FUNCTIONS.items() if mangled.startswith(beginning)), None)


def is_operator(name: str) -> bool:
    """Whether a name that was looked up is one of an operator."""
    return not _NO_OPERATOR.match(name)


TORCH_LOOKUPS: Final = SharedDoubles[TorchState]()


@TORCH_LOOKUPS.matching(r"_ZN3c1010Dispatcher(13realSingleton|9singleton)Ev")
def _dispatcher_singleton(_: TorchState, call: Call) -> int:
    """Return the one dispatcher, of which code looks at nothing."""
    return call.process.bind("the dispatcher")


@TORCH_LOOKUPS.matching(r"_ZN2at13globalContextEv")
def _global_context(_: TorchState, call: Call) -> int:
    """Return an ``at::Context``: inlined code asks the hooks of the devices."""
    return call.process.bind("the context of torch")


@TORCH_LOOKUPS.matching(r"_ZN2at6detail\d+get(CUDA|HIP|XPU|MPS|MTIA|HPU|IPU|MAIA|PrivateUse1)HooksEv")
def _get_device_hooks(_: TorchState, call: Call) -> int:
    """Return the hooks of a device that is not there: all of its functions say no."""
    table = call.process.bind("_ZTV hooks of an absent device")
    return call.process.store(struct.pack("<Q", table + 16))


@TORCH_LOOKUPS.named("virtual function of _ZTV hooks of an absent device", "_ZN5torch4cuda12is_availableEv")
@TORCH_LOOKUPS.named("_ZN5torch4cuda12device_countEv")
def _device_count(_: TorchState, __: Call) -> int:
    return 0


@TORCH_LOOKUPS.matching(r"_ZN3c1010Dispatcher17findSchemaOrThrowE")
def _dispatcher_find_schema_or_throw(state: TorchState, call: Call) -> int:
    """Find an operator, or throw. Takes (this, name, overload), after the place of the result where that is an
    argument.
    """
    # A handle that is returned in memory shifts the arguments by one: where both are texts, they are the right ones.
    if not _note_pair(state, call, 1) and not call.process.arch.hidden_result:
        _note_pair(state, call, 2)
    return 0


@TORCH_LOOKUPS.named("aoti_torch_call_dispatcher", "torch_call_dispatcher")
def _double_aoti_torch_call_dispatcher(state: TorchState, call: Call) -> int:
    """Call an operator through the stable ABI. Takes (name, overload, stack of values), and for
    ``torch_call_dispatcher`` the version of the extension's headers.
    """
    version = call.argument(3) if call.name == "torch_call_dispatcher" else 0
    # Code that is run in isolation may not have set it.
    _note_pair(state, call, 0, version if version_of(version) else None)
    return 0


@TORCH_LOOKUPS.matching(r"_ZN3c1010Dispatcher(6findOp|10findSchema)ERKNS_12OperatorNameE")
def _dispatcher_find_schema(state: TorchState, call: Call) -> None:
    """Return ``optional<OperatorHandle>``, two words, for what the code has registered so far, or torch has."""
    result = call.result
    call.machine.write(result, bytes(_HANDLE_SIZE))
    name = state.schemas.read_operator_name(call.argument(1))
    _note_lookup(state, call, name)
    if state.recorder.has_operator(name) or is_known(name):
        handle = call.process.allocate(_OPERATOR_SIZE)
        words = (1, handle, handle) if state.flag_first else (handle, handle, 1)
        call.machine.write(result, struct.pack("<3Q", *words))


@TORCH_LOOKUPS.matching(r"_ZN5torch3jit15findOperatorForE")
def _find_operator_for(state: TorchState, call: Call) -> None:
    """Return an empty ``shared_ptr``: the JIT knows none."""
    call.machine.write(call.result, bytes(16))
    _note_lookup(state, call, state.schemas.read_operator_name(call.argument(0)))


@TORCH_LOOKUPS.matching(r"_ZN5torch3jit21getOperatorForLiteralE")
def _get_operator_for_literal(state: TorchState, call: Call) -> None:
    call.machine.write(call.result, bytes(16))
    _note_lookup(state, call, operator_name(_text_at(call, call.argument(0)) or ""))


@TORCH_LOOKUPS.matching(r"_ZN5torch3jit11OperatorSetC[12]E")
def _operator_set_constructor(state: TorchState, call: Call) -> None:
    """Construct a set from literals. Takes (this, the literals, their number)."""
    count = min(call.argument(2), _MAX_NAMES)
    for address in call.machine.words(call.argument(1), count) if count else ():
        _note_lookup(state, call, operator_name(_text_at(call, address) or ""))


@TORCH_LOOKUPS.matching(r"_ZN5torch3jit(18getAllOperatorsFor|24getAllSortedOperatorsFor)E")
def _get_all_operators_for(state: TorchState, call: Call) -> int | None:
    """Return a reference to a vector, or (sorted) a vector."""
    vector = call.result if "Sorted" in call.name else call.process.allocate(_HANDLE_SIZE)
    call.machine.write(vector, bytes(_HANDLE_SIZE))
    _note_lookup(state, call, state.symbol_text(call.argument(0) & 0xFFFF_FFFF))
    return vector


@TORCH_LOOKUPS.matching(r"_ZN3c106Symbol14fromQualStringE")
def _symbol_from_qual_string(state: TorchState, call: Call) -> int:
    name = state.string(call.argument(0))
    _note_lookup(state, call, name)
    return state.symbol(name)


def _note_lookup(state: TorchState, call: Call, name: str, abi_version: int | None = None) -> None:
    if _NAME.fullmatch(name) or _NO_OPERATOR.match(name):
        function = FUNCTIONS[next(filter(call.name.startswith, FUNCTIONS))]
        state.recorder.lookup(name, function, call.return_address, abi_version)


def _note_pair(state: TorchState, call: Call, first: int, abi_version: int | None = None) -> bool:
    """Note a name and an overload, which are texts; False if they are not."""
    name, overload = _text_at(call, call.argument(first)), _text_at(call, call.argument(first + 1))
    if not name or "::" not in name or overload is None:
        return False
    _note_lookup(state, call, f"{name}.{overload}" if overload else name, abi_version)
    return True


def _text_at(call: Call, address: int) -> str | None:
    """Return the text at ``address``; an empty text is valid only among the object's constants."""
    try:
        text = call.machine.text(address, 1 << 12).decode("utf-8", "backslashreplace")
    except Stop:
        return None
    return text if text or call.process.image_at(address) else None
