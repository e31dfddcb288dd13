"""What torch's modules say of its build: the same on all builds of PyPI, or decided by whether it is one for CUDA.

Compared with a real torch in ``tests/oracle/test_torch_model.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from abiscan.python.machine import PythonMachine
from abiscan.python.modelled import Native
from abiscan.python.models.namespace import Namespace, has_cuda
from abiscan.python.systems import LINUX, MACOS
from abiscan.python.values import NotKnown, Why

_CALL: Final = "()"

# By module: what says the same on every build while a package is imported. Functions have parentheses.
_FIXED: Final[Mapping[str, Mapping[str, object]]] = {
    "torch.distributed": {
        "is_available()": True, "is_initialized()": False, "is_gloo_available()": True, "is_mpi_available()": False,
    },
    "torch.distributed.rpc": {"is_available()": True},
    "torch.jit": {"is_scripting()": False, "is_tracing()": False},
    "torch.onnx": {"is_in_onnx_export()": False},
}  # fmt: skip

# Those that only say whether torch is for CUDA; further values are what a build for CPUs says, and no other.
_WHETHER_FOR_CUDA: Final[Mapping[str, frozenset[str]]] = {
    "torch.backends.cuda": frozenset({"is_built()"}),
    "torch.backends.cudnn": frozenset({"is_available()"}),
    "torch._C": frozenset({"_has_cuda", "_has_cudnn", "_has_magma"}),
    "torch.cuda": frozenset({"_is_compiled()", "has_magma"}),
}
_ON_CPU_BUILDS: Final[Mapping[str, Mapping[str, object]]] = {
    "torch.backends.cudnn": {"version()": None},
    "torch.cuda": {"is_available()": False, "device_count()": 0, "get_arch_list()": []},
    "torch.distributed": {"is_nccl_available()": False},
}


def names_of(machine: PythonMachine, module: str) -> dict[str, object]:
    """The names of a module of torch whose values are known for this build."""
    answers = dict(_FIXED.get(module, {}))
    decided = _WHETHER_FOR_CUDA.get(module, frozenset())
    on_cpu = _ON_CPU_BUILDS.get(module, {})
    if decided or on_cpu:
        known = has_cuda(machine)
        for_cuda = known and machine.world.tells("it is for CPUs", lambda world: world.cuda is None) is False
        for name in decided:
            answers[name] = for_cuda if known else NotKnown(f"{module}.{name}", Why.ENVIRONMENT)
        for name, value in on_cpu.items():
            answers[name] = value if known and not for_cuda else NotKnown(f"{module}.{name}", Why.ENVIRONMENT)
    return {name.removesuffix(_CALL): _given(module, name, value) for name, value in answers.items()}


def _given(module: str, name: str, value: object) -> object:
    if not name.endswith(_CALL):
        return value
    return Native(
        f"{module}.{name.removesuffix(_CALL)}",
        lambda _machine, _args, _kwargs: list(value) if isinstance(value, list) else value,
    )


def module(name: str) -> Callable[[PythonMachine], object]:
    """What makes a module of torch of which no more is known."""
    return lambda machine: Namespace(name, names_of(machine, name))


def _cpp_extension(machine: PythonMachine) -> object:
    """``torch.utils.cpp_extension``: what it says of the system. Where CUDA is, the machine decides."""
    system, folder = machine.files.system, machine.library.surroundings.torch_folder
    name = "torch.utils.cpp_extension"
    no_rocm = False if has_cuda(machine) else NotKnown(f"{name}.IS_HIP_EXTENSION", Why.ENVIRONMENT)
    names: dict[str, object] = {
        "IS_WINDOWS": system.is_windows,
        "IS_MACOS": system is MACOS,
        "IS_LINUX": system is LINUX,
        "IS_HIP_EXTENSION": no_rocm,
        "CUDA_HOME": NotKnown(f"{name}.CUDA_HOME", Why.ENVIRONMENT),
        "ROCM_HOME": NotKnown(f"{name}.ROCM_HOME", Why.ENVIRONMENT),
    }
    if folder is not None:
        names |= {"_TORCH_PATH": str(folder), "TORCH_LIB_PATH": str(folder / "lib")}
    return Namespace(name, names)


MODELS: Final[Mapping[str, Callable[[PythonMachine], object]]] = {
    "torch.backends.cuda": module("torch.backends.cuda"),
    "torch.backends.cudnn": module("torch.backends.cudnn"),
    "torch.distributed": module("torch.distributed"),
    "torch.distributed.rpc": module("torch.distributed.rpc"),
    "torch.jit": module("torch.jit"),
    "torch.onnx": module("torch.onnx"),
    "torch.utils": module("torch.utils"),
    "torch.utils.cpp_extension": _cpp_extension,
}
"""Modules by name."""
