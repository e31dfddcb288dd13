"""Modules of a library of which some names are known, and the others are not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct, field

from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.values import NotKnown, as_scalar, thrown
from abiscan.python.package.model import Answer, World

Args = list[object]
Kwargs = dict[str, object]
Model = Callable[[PythonMachine, Args, Kwargs], object]


_AFTER_FAILURE = frozenset({"excepthook", "unraisablehook"})
"""What is called once the import has failed."""


class Namespace(Modelled, Struct, frozen=True, eq=False):
    """A module that is modelled.

    :ivar names: its names, as far as they are known
    :ivar absent: names that it does not have, although code may expect them
    :ivar of_target: those that the target decides, which is asked when one of them is used
    """

    name: str
    names: Mapping[str, object]
    absent: Collection[str] = ()
    of_target: Mapping[str, Callable[[PythonMachine], object]] = field(default_factory=dict)

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return what is known of it."""
        if name in self.absent:
            raise thrown(AttributeError, f"module '{self.name}' has no attribute '{name}'")
        if name in self.names:
            return self.names[name]
        if name in self.of_target:
            return self.of_target[name](machine)
        machine.outward += 1
        if machine.has_lost(self.name, name):
            raise machine.lacking_in_python(
                self.name, AttributeError, f"module '{self.name}' has no attribute '{name}'"
            )
        full = f"{self.name}.{name}"
        return machine.import_module(full) if full in machine.models else machine.modules.get(full) or NotKnown(full)

    def put(self, machine: PythonMachine, name: str, value: object) -> None:
        """Replace the items of a list in it, such as ``sys.path``; no other name is set.

        Code that is not read may call a function that is put into it, such as ``warnings.showwarning``.
        """
        if name not in _AFTER_FAILURE:
            machine.note_possible_call(NotKnown(f"the code around {self.name}.{name}"), value)
        if (self.name, name) == ("sys", "meta_path"):
            machine.finders = []  # what is put there may lack them
        # In place, since the machine has the same list: ``sys.path = [...]`` is where it looks for modules.
        present = self.names.get(name)
        if isinstance(present, list) and isinstance(value, list):
            present[:] = value

    def display_name(self) -> str:
        """Return its name."""
        return self.name


def extend(added: Namespace, known: Callable[[PythonMachine], object] | None, machine: PythonMachine) -> Namespace:
    """Return the module that ``known`` makes, if it makes one, with further names; its own go first."""
    made = known(machine) if known is not None else None
    if not isinstance(made, Namespace):
        return added
    of_target = {name: make for name, make in added.of_target.items() if name not in made.names}
    return Namespace(added.name, {**added.names, **made.names}, made.absent, {**of_target, **made.of_target})


def native_functions(prefix: str, /, **functions: Model) -> dict[str, object]:
    """Return functions by name."""
    return {name.rstrip("_"): Native(f"{prefix}.{name.rstrip('_')}", function) for name, function in functions.items()}


def has_version(machine: PythonMachine) -> bool:
    """Whether the version of torch is known."""
    return bool(machine.world.tells("it has a version", lambda world: isinstance(world.torch_version, str)))


def has_cuda(machine: PythonMachine) -> bool:
    """Whether it is known which CUDA torch is built for, if any; a build for other GPUs has its own answers."""
    return bool(machine.world.tells("its CUDA is known", _is_cuda_known))


def _is_cuda_known(world: World) -> bool:
    other_gpus = any(kind in str(world.torch_version) for kind in ("+rocm", "+xpu"))
    return not isinstance(world.cuda, Answer) and not other_gpus


def take_argument(
    args: list[object], kwargs: dict[str, object], index: int, name: str, default: object = None
) -> object:
    """Return an argument, by its position or its name."""
    return as_scalar(args[index] if len(args) > index else kwargs.get(name, default))


def make_namespace(name: str, /, **values: object) -> Callable[[PythonMachine], object]:
    """Return a function that makes a module of some names."""
    return lambda _machine: Namespace(name, values)
