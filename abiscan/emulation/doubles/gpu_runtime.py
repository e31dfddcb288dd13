"""Doubles of the CUDA and HIP runtimes, as far as the compilers' own initialisers call them.

``nvcc`` and ``hipcc`` put an initialiser into each object file that has kernels: it hands the wrapper of its container
to the runtime, then each kernel, by the address of its stub on the host, which is what a launch names. Sources:
``crt/host_runtime.h`` and ``host_defines.h`` of the CUDA toolkit, ``hipamd/src/hip_platform.cpp`` of ROCm's clr.
"""

from __future__ import annotations

import struct
from typing import Final

from abiscan.emulation.doubles import SharedDoubles
from abiscan.emulation.loader import BASE
from abiscan.emulation.process import Call
from abiscan.emulation.torch_state import text_argument
from abiscan.registrations import GpuKernel

_WRAPPER: Final = struct.Struct("<IIQ")
_MAGIC: Final = (0x466243B1, 0x48495046)
_HANDLE_SIZE: Final = 16
_MOST_KERNELS: Final = 1 << 20


class GpuKernels:
    """The kernels of one process, growing."""

    def __init__(self) -> None:
        self.kernels: list[GpuKernel] = []
        self.containers: dict[int, int] = {}  # by handle


GPU_RUNTIME: Final = SharedDoubles[GpuKernels]()


@GPU_RUNTIME.named("__cudaRegisterFatBinary", "__hipRegisterFatBinary")
def _double_cuda_register_fat_binary(state: GpuKernels, call: Call) -> int:
    handle = call.process.allocate(_HANDLE_SIZE)
    magic, _, container = _WRAPPER.unpack(call.machine.read(call.argument(0), _WRAPPER.size))
    if magic in _MAGIC:
        state.containers[handle] = container - BASE
    return handle


@GPU_RUNTIME.named("__cudaRegisterFunction", "__hipRegisterFunction")
def _double_cuda_register_function(state: GpuKernels, call: Call) -> int:
    container = state.containers.get(call.argument(0))
    if container is not None and len(state.kernels) < _MOST_KERNELS:
        name, stub = text_argument(call, 3), call.argument(1) - BASE
        state.kernels.append(GpuKernel(name=name, stub=stub, container=container))
    return 0
