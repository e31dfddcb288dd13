"""What torch's modules say of its build: the same on all builds of PyPI, or decided by whether it is one for CUDA.

Compared with a real torch in ``tests/oracle/test_torch_model.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Final

from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Native
from abiscan.python.interpreter.models.namespace import has_cuda
from abiscan.python.interpreter.models.torch_module import TorchModule
from abiscan.python.interpreter.values import NotKnown, Why
from abiscan.python.package.systems import LINUX, MACOS

_CALL: Final = "()"

# By module: values that are the same on every build while a package is imported. Functions have parentheses.
_FIXED: Final[Mapping[str, Mapping[str, object]]] = {
    "torch.distributed": {
        "is_available()": True, "is_initialized()": False, "is_gloo_available()": True, "is_mpi_available()": False,
    },
    "torch.distributed.rpc": {"is_available()": True},
    "torch.jit": {"is_scripting()": False, "is_tracing()": False},
    "torch.onnx": {"is_in_onnx_export()": False},
}  # fmt: skip

# Those that only depend on whether torch is a CUDA build; the values are those of a build for CPUs.
_WHETHER_FOR_CUDA: Final[Mapping[str, frozenset[str]]] = {
    "torch.backends.cuda": frozenset({"is_built()"}),
    "torch.backends.cudnn": frozenset({"is_available()"}),
    "torch._C": frozenset({"_has_cuda", "_has_cudnn", "_has_magma"}),
    "torch.cuda": frozenset({"_is_compiled()", "has_magma"}),
}
_ON_CPU_BUILDS: Final[Mapping[str, Mapping[str, object]]] = {
    "torch.backends.cudnn": {"version()": None},
    "torch.distributed": {"is_nccl_available()": False},
}
# The values on any build for CPUs or CUDA if no GPU can be used, and on one for CUDA with a GPU that the user named.
_WITHOUT_GPU: Final[Mapping[str, Mapping[str, object]]] = {
    "torch.cuda": {"is_available()": False, "device_count()": 0, "get_arch_list()": []},
}
_WITH_GPU: Final[Mapping[str, Mapping[str, object]]] = {"torch.cuda": {"is_available()": True}}


def names_of(module: str) -> dict[str, object]:
    """Return the functions of a module of torch whose answers are known for some builds at least."""
    functions = [name for name in _answers_of(module) if name.endswith(_CALL)]
    return {name.removesuffix(_CALL): _make_function(module, name) for name in functions}


def of_target(module: str) -> dict[str, Callable[[PythonMachine], object]]:
    """Return the values in a module of torch that its build decides."""
    return {name: _answers_of(module)[name] for name in _answers_of(module) if not name.endswith(_CALL)}


def _answers_of(module: str) -> dict[str, Callable[[PythonMachine], object]]:
    """Return, by name, the functions that compute each value."""
    decided = _WHETHER_FOR_CUDA.get(module, frozenset())
    on_cpu, without_gpu = _ON_CPU_BUILDS.get(module, {}), _WITHOUT_GPU.get(module, {})
    return {
        **{name: functools.partial(_given_value, value) for name, value in _FIXED.get(module, {}).items()},
        **{name: functools.partial(_for_cuda, f"{module}.{name}") for name in decided},
        **{name: functools.partial(_on_cpu, f"{module}.{name}", value) for name, value in on_cpu.items()},
        **{
            name: functools.partial(_by_gpu, f"{module}.{name}", value, _WITH_GPU[module].get(name))
            for name, value in without_gpu.items()
        },
    }


def _given_value(value: object, _machine: PythonMachine) -> object:
    return value


def _is_for_cpus(machine: PythonMachine) -> bool | None:
    """Whether a build has no CUDA; None if that is not known."""
    if not has_cuda(machine):
        return None
    return bool(machine.world.tells("it is for CPUs", lambda world: world.cuda is None))


def _for_cuda(name: str, machine: PythonMachine) -> object:
    for_cpus = _is_for_cpus(machine)
    return NotKnown(name, Why.ENVIRONMENT) if for_cpus is None else not for_cpus


def _on_cpu(name: str, value: object, machine: PythonMachine) -> object:
    return value if _is_for_cpus(machine) else NotKnown(name, Why.ENVIRONMENT)


def _by_gpu(name: str, without: object, with_one: object, machine: PythonMachine) -> object:
    for_cpus = _is_for_cpus(machine)
    if for_cpus is False and machine.world.gpus:
        return NotKnown(name, Why.ENVIRONMENT) if with_one is None else with_one
    if for_cpus is None or not (for_cpus or machine.library.surroundings.lacks_nvidia_driver):
        return NotKnown(name, Why.ENVIRONMENT)
    return list(without) if isinstance(without, list) else without


def capability(machine: PythonMachine) -> tuple[int, int] | None:
    """Return the compute capability of the GPUs of NVIDIA that torch uses; None if it is not known, or they differ."""
    capabilities = set(machine.world.gpus) if _is_for_cpus(machine) is False else set()
    return capabilities.pop() if len(capabilities) == 1 else None


def _make_function(module: str, name: str) -> Native:
    answer = _answers_of(module)[name]
    return Native(f"{module}.{name.removesuffix(_CALL)}", lambda machine, _args, _kwargs: answer(machine))


def module(name: str) -> Callable[[PythonMachine], object]:
    """Return a function that makes a module of torch of which no more is known."""
    return lambda _machine: TorchModule(name, names_of(name), of_target=of_target(name))


def _no_rocm(machine: PythonMachine) -> object:
    name = "torch.utils.cpp_extension.IS_HIP_EXTENSION"
    return False if has_cuda(machine) else NotKnown(name, Why.ENVIRONMENT)


def _compiling(name: str) -> Native:
    """Return a function that compiles an extension, which few packages do."""

    def call(machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
        from abiscan.python.interpreter.models import torch_compiling

        function = torch_compiling.load if name == "load" else torch_compiling.load_inline
        return function(machine, args, kwargs)

    return Native(f"torch.utils.cpp_extension.{name}", call)


def _cpp_extension(machine: PythonMachine) -> object:
    """Return ``torch.utils.cpp_extension``: what it says of the system. Where CUDA is, the machine decides."""
    system, folder = machine.files.system, machine.library.surroundings.torch_folder
    name = "torch.utils.cpp_extension"
    names: dict[str, object] = {
        "IS_WINDOWS": system.is_windows,
        "IS_MACOS": system is MACOS,
        "IS_LINUX": system is LINUX,
        "CUDA_HOME": NotKnown(f"{name}.CUDA_HOME", Why.ENVIRONMENT),
        "ROCM_HOME": NotKnown(f"{name}.ROCM_HOME", Why.ENVIRONMENT),
        "load": _compiling("load"),
        "load_inline": _compiling("load_inline"),
    }
    if folder is not None:
        names |= {"_TORCH_PATH": str(folder), "TORCH_LIB_PATH": str(folder / "lib")}
    return TorchModule(name, names, of_target={"IS_HIP_EXTENSION": _no_rocm})


def _triton(_machine: PythonMachine) -> object:
    """Return ``torch.utils._triton``: without Triton, nothing can be used. With it, the GPU and its version decide."""
    name = "torch.utils._triton"

    def answer(function: str) -> Native:
        unknown = NotKnown(f"{name}.{function}()", Why.ENVIRONMENT)
        return Native(
            f"{name}.{function}",
            lambda machine, _args, _kwargs: (
                False if machine.library.surroundings.installed("triton") is False else unknown
            ),
        )

    return TorchModule(name, {function: answer(function) for function in ("has_triton_package", "has_triton")})


MODELS: Final[Mapping[str, Callable[[PythonMachine], object]]] = {
    "torch.backends.cuda": module("torch.backends.cuda"),
    "torch.backends.cudnn": module("torch.backends.cudnn"),
    "torch.distributed": module("torch.distributed"),
    "torch.distributed.rpc": module("torch.distributed.rpc"),
    "torch.jit": module("torch.jit"),
    "torch.onnx": module("torch.onnx"),
    "torch.utils": module("torch.utils"),
    "torch.utils._triton": _triton,
    "torch.utils.cpp_extension": _cpp_extension,
}
"""Modules by name."""
