"""Doubles of the stable ABI: the C functions behind ``STABLE_TORCH_LIBRARY*`` (torch 2.8 on). Each returns 0, success.

Sources: ``torch/csrc/inductor/aoti_torch/c/shim.h``, ``torch/csrc/stable/c/shim.h``. Dispatch keys are texts there, and
every kernel is a boxed function over ``StableIValue``.
"""

from __future__ import annotations

import struct
from typing import Final

from abiscan.binary import registration_api as api
from abiscan.emulation.doubles import SharedDoubles
from abiscan.emulation.emulator import Stop
from abiscan.emulation.loader import BASE
from abiscan.emulation.process import Call
from abiscan.emulation.torch_state import TorchState, optional_text_argument, text_argument
from abiscan.registrations import TEXT_OF_TORCH, Library, LibraryKind

_KINDS: Final = {
    "aoti_torch_library_init_def": LibraryKind.DEF,
    "aoti_torch_library_init_fragment": LibraryKind.FRAGMENT,
    "aoti_torch_library_init_impl": LibraryKind.IMPL,
}
_HANDLE_SIZE: Final = 16
_MAX_TAGS: Final = 64
_QUOTING: Final = b"torch_exception_get_what_without_backtrace"

TORCH_STABLE: Final = SharedDoubles[TorchState]()


@TORCH_STABLE.matching(api.OPEN_STABLE_LIBRARY)
def _torch_library_init(state: TorchState, call: Call) -> int:
    kind = _KINDS[call.name]
    shift = 1 if kind is LibraryKind.IMPL else 0
    key = text_argument(call, 1) if shift else None
    file = optional_text_argument(call, 1 + shift)
    line = call.argument(2 + shift) & 0xFFFF_FFFF
    if not text_argument(call, 0):
        raise Stop("a library without a namespace", call.return_address)
    handle = call.process.allocate(_HANDLE_SIZE)
    quotes = call.process.image.mentions(_QUOTING)
    namespace = text_argument(call, 0)
    state.libraries[handle] = state.recorder.library(kind, namespace, key, file, line, stable=True, quotes=quotes)
    call.machine.set_word(call.argument(3 + shift), handle)
    return 0


@TORCH_STABLE.matching(api.STABLE_DEFINE)
def _torch_library_def(state: TorchState, call: Call) -> int:
    _keep_call_site(state, call)
    state.recorder.define(_library_of(state, call), text_argument(call, 1))
    return 0


@TORCH_STABLE.matching(api.STABLE_DEFINE_WITH_TAGS)
def _torch_library_def_with_tags(state: TorchState, call: Call) -> int:
    count = min(call.argument(3) & 0xFFFF_FFFF, _MAX_TAGS)
    tags = struct.unpack(f"<{count}i", call.machine.read(call.argument(2), 4 * count)) if count else ()
    _keep_call_site(state, call)
    state.recorder.define(_library_of(state, call), text_argument(call, 1), tags=tags)
    return 0


@TORCH_STABLE.matching(api.STABLE_IMPLEMENT)
def _torch_library_impl(state: TorchState, call: Call) -> int:
    version = call.argument(3) if call.name == "torch_library_impl" else None
    name = text_argument(call, 1)
    function = call.argument(2)
    functions = (function - BASE,) if call.process.image.is_code(function) else ()
    _keep_call_site(state, call)
    state.recorder.kernel(
        _library_of(state, call), name, None, boxed=True, stable=True, abi_version=version, functions=functions
    )
    return 0


def _keep_call_site(state: TorchState, call: Call) -> None:
    """Keep where a call of each function returns to, the first one in the object, and which function is called next."""
    state.stable_calls[state.recorder.count] = call.name
    state.stable_returns.setdefault(call.name, call.return_address)


@TORCH_STABLE.matching(r"torch_exception_get_what(_without_backtrace)?$")
def _torch_exception_get_what(_state: TorchState, call: Call) -> int:
    """Return what torch said last: only where a failure is tried out, since no call fails otherwise."""
    return call.process.store(TEXT_OF_TORCH.encode() + b"\0")


@TORCH_STABLE.matching(r"torch_new_stable_ivalue$")
def _torch_new_stable_ivalue(_state: TorchState, call: Call) -> int:
    """Return room for a value that an optional holds, from 2.13 on."""
    call.machine.set_word(call.argument(0), call.process.allocate(8))
    return 0


def _library_of(state: TorchState, call: Call) -> Library:
    library = state.libraries.get(call.argument(0))
    if library is None:
        raise Stop("a library handle that was not opened", call.return_address)
    return library
