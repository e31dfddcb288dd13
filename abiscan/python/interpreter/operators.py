"""Operators as Python code sees them: which there are, and what the code registers for them."""

from __future__ import annotations

from typing import ClassVar
from weakref import WeakValueDictionary

from msgspec import Struct

from abiscan.inputs.version import MinorVersion
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled
from abiscan.python.interpreter.values import NotKnown, PythonError, Thrown, Why, torch_error
from abiscan.python.package.model import Answer, NoResult, PythonRegistration, Registers, World
from abiscan.python.torch_api.torch_texts import DEFAULT_OVERLOAD, NO_OVERLOAD, OVERLOADS_SINCE, release_of, wording_of

_TORCH_NAMESPACES = frozenset({
    "c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "symm_mem", "fsdp",
    "inductor", "_inductor_test", "quantized", "quantized_decomposed", "_quantized", "prims", "rngprims", "debugprims",
    "export", "mkldnn", "mkldnn_prepacked", "mkl", "onednn", "streams", "onnx", "onnx_symbolic", "rpc", "profiler",
})  # fmt: skip
"""Namespaces of torch that it also fills from Python, in modules that not every import of it reaches."""


class OperatorValue(Modelled, Struct, frozen=True, eq=False, weakref=True):
    """``torch.ops.NAMESPACE.NAME``, or one of its overloads: get it with ``operator_value``."""

    is_unique: ClassVar[bool] = True

    name: str
    is_overload: bool

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return an overload, or something else of it."""
        if (
            not (self.is_overload or hasattr(print, name))
            and machine.world.tells("its operators have overloads", _has_overloads) is False
        ):
            raise Thrown(self._error_of_overload(machine, name))
        if name in {"__name__", "_name", "_qualified_op_name"}:
            return self.name.partition("::")[2] if name == "__name__" else self.name
        if self.is_overload or name.startswith("_") or name in {"overloads", "redispatch", "op", "op_overloads"}:
            return NotKnown(f"{self.display_name()}.{name}")
        overload = f"{self.name}.{name}"
        if operator_exists(machine, overload) is False:
            raise Thrown(self._error_of_overload(machine, name))
        return operator_value(overload.removesuffix(DEFAULT_OVERLOAD), is_overload=True)

    def _error_of_overload(self, machine: PythonMachine, name: str) -> PythonError:
        return error_of_target(machine, NO_OVERLOAD, packet=self.name.replace("::", "."), name=name)

    def call(self, machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
        """Return its result, if that does not depend on arguments."""
        called = f"{self.display_name()}()"
        if args or kwargs:
            return NotKnown(called, Why.TARGET)
        result = machine.call_operator(self.name)
        if isinstance(result, NoResult):
            machine.gap(f"what {called} returns is not known: {result.reason}")
            return NotKnown(called, Why.TARGET)
        return result

    def display_name(self) -> str:
        """Return the name that Python code uses."""
        return "torch.ops." + self.name.replace("::", ".")


_VALUES: WeakValueDictionary[tuple[str, bool], OperatorValue] = WeakValueDictionary()


def operator_value(name: str, *, is_overload: bool = False) -> OperatorValue:
    """Return an operator, or an overload: one object for each, as torch keeps them (``__getattr__`` in torch/_ops.py).

    Registries of converters and decompositions have operators as keys.
    """
    return _VALUES.setdefault((name, is_overload), OperatorValue(name, is_overload))


def error_of_target(machine: PythonMachine, id_: str, /, **values: object) -> PythonError:
    """Return an exception of torch, as the target's raises it."""
    release = machine.world.tells(f"how it words {id_}", lambda world: _release_wording(world, id_))
    error = torch_error(id_, release if isinstance(release, tuple) else None, **values)
    error.of_torch = True
    return error


def _has_overloads(world: World) -> bool | None:
    release = release_of(world.torch_version)
    return None if release is None else release >= OVERLOADS_SINCE


def _release_wording(world: World, id_: str) -> MinorVersion | None:
    """Return the first release with the wording of a target."""
    wording = wording_of(id_, release_of(world.torch_version))
    return wording.first if wording else None


def operator_exists(machine: PythonMachine, name: str) -> bool | Answer:
    """Tell whether an operator is there: the code has defined it, torch has it, or a library that has been loaded."""
    # What the code has defined is there. A no of the world is not certain where code of torch, or of the package,
    # defines operators by names that are not known here.
    if name in machine.defined:
        return True
    if "." not in name.partition("::")[2] and any(defined.startswith(name + ".") for defined in machine.defined):
        return True
    if _is_overload_of_own(machine, name):
        return Answer.UNKNOWN
    there = machine.world.operator(name)
    if there is Answer.EITHER:
        return _decide_namespace(machine, name)
    unclear = machine.unclear | _TORCH_NAMESPACES
    return Answer.UNKNOWN if there is False and name.partition("::")[0] in unclear else there


def _is_overload_of_own(machine: PythonMachine, name: str) -> bool:
    """Whether a name is that of an overload of an operator which Python code has defined."""
    base, dot, _ = name.partition(".")
    return bool(dot) and any(defined.partition(".")[0] == base for defined in machine.defined)


def _decide_namespace(machine: PythonMachine, name: str) -> bool:
    """Whether an operator of which nothing is known is assumed to be there: one decision for all of its namespace."""
    namespace = name.partition("::")[0]
    if namespace not in machine.provided:
        spot = (machine.place().line, -1)
        text = f"the libraries that load define the operators of {namespace}"
        machine.provided[namespace] = machine.decide(text, Why.ENVIRONMENT, spot, default=True)
    return machine.provided[namespace]


def note_registration(machine: PythonMachine, kind: Registers, name: str, key: str | None = None) -> None:
    """Note what the code registers."""
    if kind is Registers.DEFINITION:
        machine.defined.add(name)
    registration = PythonRegistration(what=kind, operator=name, key=key, at=machine.place())
    machine.trace.registrations.append(registration)
