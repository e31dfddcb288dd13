"""Doubles of the stable ABI: the C functions behind ``STABLE_TORCH_LIBRARY*`` (torch 2.8 on).

Sources: ``torch/csrc/inductor/aoti_torch/c/shim.h``, ``torch/csrc/stable/c/shim.h``. Dispatch keys are texts there, and
every kernel is a boxed function over ``StableIValue``.
"""

from __future__ import annotations

import struct

from abiscan.emulation.doubles import Doubles
from abiscan.emulation.emulator import Stop
from abiscan.emulation.model import Library, LibraryKind
from abiscan.emulation.process import Call
from abiscan.emulation.torch_state import TorchState, optional_text_argument, text_argument

_KINDS = {
    "aoti_torch_library_init_def": LibraryKind.DEF,
    "aoti_torch_library_init_fragment": LibraryKind.FRAGMENT,
    "aoti_torch_library_init_impl": LibraryKind.IMPL,
}
_HANDLE_SIZE = 16
_MAX_TAGS = 64


def torch_stable(state: TorchState) -> Doubles:
    """The doubles of the registration part of the C shim. Each returns 0, for success."""
    doubles = Doubles()
    recorder = state.recorder

    def library_of(call: Call) -> Library:
        library = state.libraries.get(call.argument(0))
        if library is None:
            raise Stop("a library handle that was not opened", call.return_address)
        return library

    @doubles.named(*_KINDS)
    def _open(call: Call) -> int:
        kind = _KINDS[call.name]
        shift = 1 if kind is LibraryKind.IMPL else 0
        key = text_argument(call, 1) if shift else None
        file = optional_text_argument(call, 1 + shift)
        line = call.argument(2 + shift) & 0xFFFF_FFFF
        if not text_argument(call, 0):
            raise Stop("a library without a namespace", call.return_address)
        handle = call.process.allocate(_HANDLE_SIZE)
        state.libraries[handle] = recorder.library(kind, text_argument(call, 0), key, file, line)
        call.machine.set_word(call.argument(3 + shift), handle)
        return 0

    @doubles.named("aoti_torch_library_def")
    def _define(call: Call) -> int:
        recorder.define(library_of(call), text_argument(call, 1))
        return 0

    @doubles.named("torch_library_def_with_tags")
    def _define_with_tags(call: Call) -> int:
        count = min(call.argument(3) & 0xFFFF_FFFF, _MAX_TAGS)
        tags = struct.unpack(f"<{count}i", call.machine.read(call.argument(2), 4 * count)) if count else ()
        recorder.define(library_of(call), text_argument(call, 1), tags=tags)
        return 0

    @doubles.named("aoti_torch_library_impl", "torch_library_impl")
    def _implement(call: Call) -> int:
        version = call.argument(3) if call.name == "torch_library_impl" else None
        recorder.kernel(library_of(call), text_argument(call, 1), None, boxed=True, abi_version=version)
        return 0

    return doubles
