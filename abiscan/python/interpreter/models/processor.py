"""What torch, and ``py-cpuinfo``, tell code of the processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from abiscan.cpu.architectures import ARCHITECTURES
from abiscan.cpu.processors import Cpu, capability, linux_flags
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.models.namespace import Args, Kwargs, Model, make_namespace
from abiscan.python.interpreter.models.torch_module import TorchModule
from abiscan.python.interpreter.values import NotKnown, Why

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


def _model_capability(machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
    level = machine.world.tells(_CAPABILITY, lambda world: capability(world.cpu) if world.cpu else None)
    return level if isinstance(level, str) else NotKnown(f"{_CAPABILITY}()", Why.ENVIRONMENT)


def _supports(name: str, features: tuple[str, ...]) -> Native:
    def answer(machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
        has_features = machine.world.tells(name, lambda world: not world.cpu.lacks(features) if world.cpu else None)
        return has_features if isinstance(has_features, bool) else NotKnown(f"torch.cpu.{name}()", Why.ENVIRONMENT)

    return Native(f"torch.cpu.{name}", answer)


class ProcessorInfo(Modelled):
    """What ``cpuinfo.get_cpu_info()`` returns: a dictionary of which only features and architecture are known."""

    __slots__ = ()

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return its methods."""
        methods: dict[str, Model] = {
            "get": self._model_item,
            "__getitem__": self._model_item,
            "__contains__": self._model_has,
        }
        return Native(f"cpuinfo.{name}", methods[name]) if name in methods else super().get_attribute(machine, name)

    def display_name(self) -> str:
        """Return the call that makes it."""
        return "cpuinfo.get_cpu_info()"

    def _model_item(self, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        key = args[0] if args and isinstance(args[0], str) else ""
        item = machine.world.tells(f"py-cpuinfo: {key}", lambda world: _told(world.cpu, key) if world.cpu else None)
        # What is told is kept, and the list may be changed by the code that gets it.
        value = list(item) if isinstance(item, tuple) else item
        return NotKnown(f"{self.display_name()}[{key!r}]", Why.ENVIRONMENT) if value is None else value

    def _model_has(self, _machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        return True if args and args[0] in ("flags", "arch") else NotKnown("a key of it", Why.ENVIRONMENT)


def _told(cpu: Cpu, key: str) -> object:
    """Return what py-cpuinfo says of a processor under a key; it has the names of Linux as well as those of CPUID."""
    if key == "flags":
        # ``cpuinfo`` has ``avx512_bf16`` of Linux and ``avx512bf16`` of CPUID in the same list.
        flags = linux_flags(cpu)
        return tuple(sorted({*flags, *(flag.replace("avx512_", "avx512") for flag in flags)}))
    return {"arch": ARCHITECTURES[cpu.machine].cpuinfo_name, "bits": 64}.get(key)


_CPUINFO: Final = {"get_cpu_info": Native("cpuinfo.get_cpu_info", lambda *_: ProcessorInfo())}

MODELS: Final[dict[str, Callable[[PythonMachine], object]]] = {
    "torch.backends.cpu": lambda _: TorchModule(
        "torch.backends.cpu", {"get_cpu_capability": Native(_CAPABILITY, _model_capability)}
    ),
    "cpuinfo": make_namespace("cpuinfo", **_CPUINFO),
    "cpuinfo.cpuinfo": make_namespace("cpuinfo.cpuinfo", **_CPUINFO),
    "torch.cpu": lambda _: TorchModule(
        "torch.cpu", {name: _supports(name, features) for name, features in _SUPPORTED.items()}
    ),
}
