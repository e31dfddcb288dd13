"""What torch tells code of the processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from abiscan.cpu.processors import capability
from abiscan.python.machine import PythonMachine
from abiscan.python.modelled import Native
from abiscan.python.models.namespace import Args, Kwargs
from abiscan.python.models.torch_module import TorchModule
from abiscan.python.values import NotKnown, Why

_CAPABILITY: Final = "torch.backends.cpu.get_cpu_capability"
# torch/cpu/__init__.py
_SUPPORTED: Final = {
    "_is_avx2_supported": ("avx2",),
    "_is_avx512_supported": ("avx512f", "avx512vl", "avx512bw", "avx512dq"),
    "_is_vnni_supported": ("avx512vnni",),
    "_is_avx512_bf16_supported": ("avx512bf16",),
    "_is_amx_tile_supported": ("amx-tile",),
    "_is_amx_fp16_supported": ("amx-fp16",),
}


def _capability(machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
    told = machine.world.tells(_CAPABILITY, lambda world: capability(world.cpu) if world.cpu else None)
    return told if isinstance(told, str) else NotKnown(f"{_CAPABILITY}()", Why.ENVIRONMENT)


def _supports(name: str, features: tuple[str, ...]) -> Native:
    def answer(machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
        told = machine.world.tells(name, lambda world: not world.cpu.lacks(features) if world.cpu else None)
        return told if isinstance(told, bool) else NotKnown(f"torch.cpu.{name}()", Why.ENVIRONMENT)

    return Native(f"torch.cpu.{name}", answer)


MODELS: Final[dict[str, Callable[[PythonMachine], object]]] = {
    "torch.backends.cpu": lambda _: TorchModule(
        "torch.backends.cpu", {"get_cpu_capability": Native(_CAPABILITY, _capability)}
    ),
    "torch.cpu": lambda _: TorchModule(
        "torch.cpu", {name: _supports(name, features) for name, features in _SUPPORTED.items()}
    ),
}
