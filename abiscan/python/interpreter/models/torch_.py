"""``torch``: its version and build, its operators, and ``load_library``. Everything else of it is not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from packaging.version import InvalidVersion, Version

from abiscan.python.interpreter import loading
from abiscan.python.interpreter.filesystem import as_text
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.models import processor, torch_builds
from abiscan.python.interpreter.models.namespace import Args, Kwargs, Namespace, has_cuda, has_version, take_argument
from abiscan.python.interpreter.models.texts import PackagingVersion
from abiscan.python.interpreter.models.torch_module import TorchModule, loads_backends
from abiscan.python.interpreter.operators import error_of_target, operator_exists, operator_value
from abiscan.python.interpreter.values import NotKnown, PythonError, TargetExpression, Thrown, Why, thrown, torch_error
from abiscan.python.package.compile_limits import CompileLimit, limit_of, refused_text
from abiscan.python.package.model import LoadedBy, World
from abiscan.python.package.systems import MACOS
from abiscan.python.torch_api.torch_texts import NO_BACKEND, NO_OPERATOR

_COMPARES_ITSELF: Final = Version("1.10")
"""The release since which ``torch.__version__`` is no plain text: torch/torch_version.py."""
_COPIES_PACKAGING: Final = Version("2.2")
"""The release since which torch takes versions from ``torch._vendor.packaging``."""


class TorchVersionText(str):
    """``torch.__version__``: it compares itself as a version with versions, texts and tuples, else as a text.

    See torch/torch_version.py.
    """

    __slots__ = ()
    is_exact = True
    copies_packaging = False
    """Whether its versions are those of torch's own copy of packaging, which those of packaging are none of."""

    def _as_version(self, operand: object) -> Version:
        if isinstance(operand, Version) and not (self.copies_packaging and isinstance(operand, PackagingVersion)):
            return operand
        if isinstance(operand, str):
            return Version(str.__str__(operand))
        if isinstance(operand, (tuple, list, bytes, set, frozenset, dict)):
            return Version(".".join(str(part) for part in operand))
        raise InvalidVersion(repr(operand))

    def _compare_as(self, operand: object, method: str) -> bool:
        try:
            answer: bool = getattr(Version(str.__str__(self)), method)(self._as_version(operand))
        except InvalidVersion:
            # As _cmp_wrapper does for what is no version: NotImplemented for what is no text either.
            answer = getattr(str, method)(self, operand)
        return answer

    def __lt__(self, operand: object) -> bool:
        return self._compare_as(operand, "__lt__")

    def __le__(self, operand: object) -> bool:
        return self._compare_as(operand, "__le__")

    def __gt__(self, operand: object) -> bool:
        return self._compare_as(operand, "__gt__")

    def __ge__(self, operand: object) -> bool:
        return self._compare_as(operand, "__ge__")

    def __eq__(self, operand: object) -> bool:
        return self._compare_as(operand, "__eq__")

    __ne__ = str.__ne__  # the class of torch leaves it as it is

    def __hash__(self) -> int:
        return str.__hash__(self)


class CopyingTorchVersionText(TorchVersionText):
    """``torch.__version__`` since torch has a copy of packaging."""

    __slots__ = ()
    copies_packaging = True


for _class in (TorchVersionText, CopyingTorchVersionText):
    _class.__name__ = _class.__qualname__ = "TorchVersion"  # messages show the name of its class


def _version_kind(release: Version) -> type[str]:
    """Return the class of ``torch.__version__`` in a release."""
    if release < _COMPARES_ITSELF:
        return str
    return CopyingTorchVersionText if release >= _COPIES_PACKAGING else TorchVersionText


def _version_of(world: World) -> str:
    """Return ``torch.__version__``."""
    text = str(world.torch_version)
    return _version_kind(Version(text))(text)


def _torch_version_class(machine: PythonMachine) -> object:
    """Return ``torch.torch_version.TorchVersion``."""
    copies = machine.world.tells("it copies packaging", _copies_packaging)
    if copies is None:
        return NotKnown("torch.torch_version.TorchVersion")
    return CopyingTorchVersionText if copies else TorchVersionText


def _copies_packaging(world: World) -> bool | None:
    version = world.torch_version
    return Version(version) >= _COPIES_PACKAGING if isinstance(version, str) else None


class OperatorsValue(Modelled):
    """``torch.ops`` and ``torch.classes``."""

    __slots__ = ("loader", "name")

    def __init__(self, name: str, loader: LoadedBy) -> None:
        self.name, self.loader = name, loader

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return ``load_library``, or a namespace."""
        if name == "load_library":
            return Native(f"{self.name}.load_library", self._model_load)
        if self.name == "torch.classes" or name in {"higher_order", "loaded_libraries", "import_module"}:
            return NotKnown(f"{self.name}.{name}")
        return OperatorNamespace(name)

    def display_name(self) -> str:
        """Return its name."""
        return self.name

    def _model_load(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        loading.load_library(machine, take_argument(args, kwargs, 0, "path"), self.loader)
        return None


class OperatorNamespace(Modelled):
    """``torch.ops.NAMESPACE``."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return one of its operators; one that is not there raises as in torch/_ops.py."""
        if name.startswith("__"):
            return NotKnown(f"torch.ops.{self.name}.{name}")
        if operator_exists(machine, f"{self.name}::{name}") is False:
            raise Thrown(error_of_target(machine, NO_OPERATOR, namespace=self.name, name=name))
        return operator_value(f"{self.name}::{name}")


def _make_cuda(_machine: PythonMachine) -> object:
    """Return ``torch.cuda``. A build for CPUs has no GPU, any other may have one."""
    names = torch_builds.names_of("torch.cuda")
    for name in ("get_device_capability", "get_device_properties", "get_device_name", "current_device"):
        names[name] = _of_gpu(name)
    return TorchModule("torch.cuda", names, of_target=torch_builds.of_target("torch.cuda"))


def _of_gpu(function: str) -> Native:
    """Return a function of ``torch.cuda`` that asks the GPU: its compute capability may be known, the rest is not."""
    name = f"torch.cuda.{function}()"

    def answer(machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
        capability = torch_builds.capability(machine) if function in _TELL_CAPABILITY else None
        if capability is None:
            return NotKnown(name, Why.ENVIRONMENT)
        if function == "get_device_capability":
            return capability
        return Namespace(name, {"major": capability[0], "minor": capability[1]})

    return Native(name, answer)


_TELL_CAPABILITY: Final = frozenset({"get_device_capability", "get_device_properties"})


# What needs MPS raises without it (FAIL_MPSHOOKS_FUNC in aten/src/ATen/detail/MPSHooksInterface.h): code goes by that.
_MPS_HOOKS: Final = {
    "current_allocated_memory": "getCurrentAllocatedMemory",
    "driver_allocated_memory": "getDriverAllocatedMemory",
    "empty_cache": "emptyCache",
    "get_rng_state": "getDefaultGenerator",
    "recommended_max_memory": "getRecommendedMaxMemory",
    "seed": "getDefaultGenerator",
    "synchronize": "deviceSynchronize",
}


def _absent_device(
    name: str, *, on_macos: bool = False, hooks: Mapping[str, str] = MappingProxyType({})
) -> Callable[[PythonMachine], object]:
    """Return what makes the module of a kind of device that builds for CPUs or CUDA do not have.

    :param on_macos: whether those for macOS have it
    :param hooks: the functions that raise without it, and what they say cannot be executed
    """

    def make(machine: PythonMachine) -> object:
        built = on_macos and machine.files.system is MACOS
        available = NotKnown(f"{name}.is_available()", Why.ENVIRONMENT)
        count = NotKnown(f"{name}.device_count()", Why.ENVIRONMENT)

        # A build for CPUs or CUDA has no such device; what any other build says is up to the machine.
        def given(function: str, value: object, unknown: NotKnown) -> Native:
            def answer(machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
                return value if not built and has_cuda(machine) else unknown

            return Native(f"{name}.{function}", answer)

        def refuses(function: str, hook: str) -> Native:
            def answer(machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
                if built or not has_cuda(machine):
                    return NotKnown(f"{name}.{function}()", Why.ENVIRONMENT)
                raise thrown(RuntimeError, f"Cannot execute {hook}() without MPS backend.")

            return Native(f"{name}.{function}", answer)

        is_built = given("is_built", False, available)  # noqa: FBT003
        return TorchModule(
            name,
            {
                "is_available": given("is_available", False, available),  # noqa: FBT003
                "is_built": Native(is_built.name, lambda _m, _a, _k: built) if built else is_built,
                "device_count": given("device_count", 0, count),
                **({function: refuses(function, hook) for function, hook in hooks.items()}),
            },
        )

    return make


def _cxx11_abi(machine: PythonMachine) -> object:
    """Return whether torch was built with the C++11 ``std::string``, as its libraries tell."""
    answer = machine.world.tells("its std::string ABI", lambda world: world.cxx11_abi)
    return answer if isinstance(answer, bool) else NotKnown("torch.compiled_with_cxx11_abi()", Why.ENVIRONMENT)


def _if_cuda_is_known(value: object, name: str) -> Callable[[PythonMachine], object]:
    """Return a value of a build whose CUDA is known."""
    unknown = NotKnown(name, Why.ENVIRONMENT)
    return lambda machine: value if has_cuda(machine) else unknown


def _if_version_is_known(value: object, name: str) -> Callable[[PythonMachine], object]:
    """Return a value of a torch whose version is known."""
    unknown = NotKnown(name, Why.ENVIRONMENT)
    return lambda machine: value if has_version(machine) else unknown


def _load(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Load what was saved; of a file of the package, it is known what loading weights only refuses."""
    path = as_text(take_argument(args, kwargs, 0, "f"))
    inside = None if path is None else machine.files.inside(path)
    is_default = "weights_only" not in kwargs or kwargs["weights_only"] is None
    if inside is not None and is_default and not machine.library.allows_globals:
        refused = machine.world.refused_load(inside)
        if refused is not None:
            from _pickle import UnpicklingError  # few packages load something as they are imported

            raise Thrown(PythonError(UnpicklingError, (refused,), of_torch=True))
    return NotKnown("torch.load()")


def _make_compile(machine: PythonMachine) -> object:
    """Return ``torch.compile``: what it makes is not known, but on which Pythons it raises."""
    text = machine.world.tells("what torch.compile says of its Python", refused_text)
    limit = machine.world.tells("from which Python on torch.compile raises", limit_of)

    def compile_(machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
        if isinstance(text, str):
            raise Thrown(PythonError(RuntimeError, (text,), of_torch=True))
        if isinstance(limit, CompileLimit) and not machine.catches(RuntimeError):
            machine.need("python", f"Python<{limit.words}", limit.why("the import calls torch.compile"))
        return NotKnown("torch.compile()")

    is_limited = isinstance(text, str) or isinstance(limit, CompileLimit)
    return Native("torch.compile", compile_) if is_limited else NotKnown("torch.compile")


def _make_core(machine: PythonMachine) -> object:
    absent = _if_cuda_is_known(False, "torch._C")  # noqa: FBT003
    return TorchModule(
        "torch._C",
        {"_has_mps": machine.files.system is MACOS},
        of_target={"_has_xpu": absent, "_GLIBCXX_USE_CXX11_ABI": _cxx11_abi, **torch_builds.of_target("torch._C")},
    )


def _make_version(_machine: PythonMachine) -> object:
    number = TargetExpression("torch.version.__version__", lambda world: world.torch_version)
    cuda = TargetExpression("torch.version.cuda", lambda world: world.cuda)
    return TorchModule(
        "torch.version",
        {"debug": False, "git_version": NotKnown("torch.version.git_version")},
        of_target={
            "__version__": _if_version_is_known(number, "torch.version.__version__"),
            "cuda": _if_cuda_is_known(cuda, "torch.version.cuda"),
            "hip": _if_cuda_is_known(None, "torch.version.hip"),
            "xpu": _if_cuda_is_known(None, "torch.version.xpu"),
        },
    )


def _make_torch(machine: PythonMachine) -> object:
    folder = machine.library.surroundings.torch_folder
    names: dict[str, object] = {
        "__name__": "torch",
        "ops": OperatorsValue("torch.ops", LoadedBy.LOAD_LIBRARY),
        "load": Native("torch.load", _load),
        "classes": OperatorsValue("torch.classes", LoadedBy.LOAD_CLASSES),
        "compiled_with_cxx11_abi": Native("torch.compiled_with_cxx11_abi", lambda machine, _a, _k: _cxx11_abi(machine)),
        "__file__": f"{folder}/__init__.py" if folder else NotKnown("torch.__file__", Why.ENVIRONMENT),
        "__path__": [str(folder)] if folder else NotKnown("torch.__path__", Why.ENVIRONMENT),
    }
    version = TargetExpression("torch.__version__", _version_of)
    of_target = {"__version__": _if_version_is_known(version, "torch.__version__"), "compile": _make_compile}
    module = TorchModule("torch", names, of_target=of_target)
    # A backend imports torch, which is in ``sys.modules`` by then, complete but for the backends.
    machine.modules["torch"] = module
    _load_backends(machine)
    return module


def _load_backends(machine: PythonMachine) -> None:
    """Do what ``import torch`` does at its end: call the functions that packages name as ``torch.backends``.

    As in torch/__init__.py; of the packages that are installed, the one that is read counts.
    """
    backends = machine.files.entry_points("torch.backends")
    if not backends or not machine.world.tells("it loads backends", loads_backends):
        return
    # _is_device_backend_autoload_enabled: any other value than 1 switches it off.
    environment = machine.get_attribute(machine.import_module("os"), "environ")
    if machine.call(machine.get_attribute(environment, "get"), ["TORCH_DEVICE_BACKEND_AUTOLOAD", "1"], {}) != "1":
        return
    for name, place in backends:
        owner, _, function = place.partition(":")
        try:
            module = machine.import_module(owner)
            for part in function.split("."):
                module = machine.get_attribute(module, part)
            machine.call(module, [], {})
        except Thrown as error:
            if Exception not in error.failure.ancestry():
                raise
            failure = torch_error(NO_BACKEND, name=name)
            failure.cause, failure.at, failure.loads = error.failure, machine.place(), set(error.failure.loads)
            raise Thrown(failure) from None


MODELS: dict[str, Callable[[PythonMachine], object]] = {
    **processor.MODELS,
    **torch_builds.MODELS,
    "torch": _make_torch,
    "torch.cuda": _make_cuda,
    "torch.version": _make_version,
    "torch._C": _make_core,
    "torch.xpu": _absent_device("torch.xpu"),
    "torch.mps": _absent_device("torch.mps", on_macos=True, hooks=_MPS_HOOKS),
    "torch.mtia": _absent_device("torch.mtia"),
    "torch.backends": lambda _machine: TorchModule("torch.backends", {}),
    "torch.backends.mps": _absent_device("torch.backends.mps", on_macos=True),
    "torch.ops": lambda machine: machine.get_attribute(machine.import_module("torch"), "ops"),
    "torch._ops": lambda machine: TorchModule(
        "torch._ops", {"ops": machine.get_attribute(machine.import_module("torch"), "ops")}
    ),
    "torch.torch_version": lambda machine: TorchModule(
        "torch.torch_version",
        {
            "__version__": machine.get_attribute(machine.import_module("torch"), "__version__"),
            "TorchVersion": _torch_version_class(machine),
        },
    ),
}
"""Modules by name."""
