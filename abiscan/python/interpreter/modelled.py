"""Values of libraries that the reading knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.values import NotKnown, Opaque


class Modelled(Opaque):
    """A value of a library that the reading knows: its attributes and what calling it does."""

    __slots__ = ()

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return the attribute; raises as the library does where there is none."""
        return NotKnown(f"{self.display_name()}.{name}")

    def put(self, machine: PythonMachine, name: str, value: object) -> None:
        """Set an attribute, where that can be remembered."""

    def delete(self, name: str) -> None:
        """Delete an attribute, where that can be remembered."""

    def call(self, machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
        """Call it."""
        return NotKnown(f"{self.display_name()}()")

    def list_names(self, machine: PythonMachine) -> object:
        """Return what ``dir`` lists; None if that is not known."""
        return None

    def display_name(self) -> str:
        """Return the name that conditions show."""
        return type(self).__name__


class LooksAround(Modelled, Struct, frozen=True, eq=False):
    """A built-in function that looks at the scope of its call, such as ``exec`` and ``globals``."""

    name: str

    def call(self, machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
        """Call it from compiled code, such as that of ``map``, which has no scope: the one around it counts."""
        return machine.special(self.name, args, machine.scope())

    def display_name(self) -> str:
        """Return its name."""
        return self.name


class Ignoring(Modelled, Struct, frozen=True, eq=False):
    """A function that makes nothing of its arguments that anybody sees: what they are is never asked."""

    name: str

    def call(self, machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
        """Do nothing."""
        return None

    def display_name(self) -> str:
        """Return its name."""
        return self.name


class Native(Modelled, Struct, frozen=True, eq=False):
    """A function that the reading models."""

    name: str
    function: Callable[[PythonMachine, list[object], dict[str, object]], object]
    attributes: Mapping[str, object] = field(default_factory=dict)
    computes: Callable[..., object] | None = None
    """The function for arguments that are known, if it does nothing but compute with them."""

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return a function that is an attribute of this one, such as ``chain.from_iterable``."""
        return self.attributes.get(name) or NotKnown(f"{self.name}.{name}")

    def call(self, machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
        """Do what it does."""
        return self.function(machine, args, kwargs)

    def display_name(self) -> str:
        """Return its name."""
        return self.name
