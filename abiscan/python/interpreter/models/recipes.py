"""Modules of the standard library, and of a few other packages, as the reading runs them: in Python, as if they were
code of the package.

``recipes/`` has a text for each module. It says no more than who calls which function, and when: a function that a
package hands to the library is followed there, with everything that it loads and raises. The texts are read when a
package asks for a name in them.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Final

from abiscan.python.interpreter.machine import Frame, PythonMachine
from abiscan.python.interpreter.modelled import Modelled
from abiscan.python.interpreter.models.namespace import Namespace
from abiscan.python.interpreter.values import PythonModule, Scope, thrown
from abiscan.python.language.late_bodies import parse_late
from abiscan.regex import regex

_FOLDER: Final = Path(__file__).resolve().parent.parent / "recipes"
NAMES: Final = tuple(sorted(path.stem for path in _FOLDER.iterdir() if path.suffix == ".txt"))
"""The modules that there is a recipe for."""
SINCE: Final = {
    "asyncio.Runner": (3, 11), "asyncio.TaskGroup": (3, 11), "contextlib.chdir": (3, 11), "copy.replace": (3, 13),
    "enum.StrEnum": (3, 11),
    "itertools.batched": (3, 12), "operator.call": (3, 11), "typing.assert_type": (3, 11), "typing.override": (3, 12),
    "typing.reveal_type": (3, 11),
}  # fmt: skip
"""The names that came after Python 3.10: "What's New in Python 3.X"."""


_DEFINED: Final = regex(r"(?m)^(?:(?:(?:async )?def|class) (?!_)(\w+)|(?!_)(\w+) = )")
"""What a recipe defines at its top, with a public name."""


@cache
def _read_recipe(module: str) -> str:
    return _FOLDER.joinpath(f"{module}.txt").read_text("utf-8")


@cache
def _parse_recipe(module: str) -> ast.Module:
    # Few of its functions are called.
    return parse_late(_read_recipe(module).encode())


@cache
def followed_names(module: str) -> tuple[str, ...]:
    """Return the public functions and classes of a module that a recipe follows."""
    # Most of the modules are only imported: to parse their recipes would take many times as long.
    return tuple(name for match in _DEFINED.finditer(_read_recipe(module)) for name in match.groups() if name)


_OF_OTHERS: Final = tuple(name for name in NAMES if name.partition(".")[0] not in sys.stdlib_module_names)
"""The modules of other packages, which take their names from submodules."""


def origin_of(package: str, name: str) -> str | None:
    """Return the module with a recipe that a package of others has a name from: ``is_torch_version`` of
    ``diffusers.utils``.
    """
    below = (module for module in _OF_OTHERS if module.startswith(f"{package}."))
    return next((module for module in below if name in followed_names(module)), None)


class Recipe(Modelled):
    """A module with a recipe. What else the reading knows of it goes first."""

    __slots__ = ("_known", "_module", "_names", "_run")

    def __init__(self, machine: PythonMachine, module: str, known: Callable[[PythonMachine], object] | None) -> None:
        made = known(machine) if known is not None else None
        self._known = made if isinstance(made, Namespace) else Namespace(module, {})
        self._module = PythonModule(module, open_=True)
        self._names = frozenset(followed_names(module))
        self._run = False

    def display_name(self) -> str:
        """Return the name of the module."""
        return self._module.name

    @property
    def names(self) -> Mapping[str, object]:
        """What is known of it without its recipe."""
        return self._known.names

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return what the reading knows by that name."""
        since = SINCE.get(f"{self._module.name}.{name}")
        if since is not None and machine.before(*since):
            raise thrown(AttributeError, f"module '{self._module.name}' has no attribute '{name}'")
        # The recipe runs once, when the first of its names is asked for.
        if name in self._names and name not in self._known.names and name not in self._known.absent:
            if not self._run:
                self._run = True
                self._execute_recipe(machine)
            return self._module.names[name]
        return self._known.get_attribute(machine, name)

    def put(self, machine: PythonMachine, name: str, value: object) -> None:
        """Set a name of the module."""
        self._known.put(machine, name, value)

    def _execute_recipe(self, machine: PythonMachine) -> None:
        machine.frames.append(Frame(file=None))
        # Whether the code that asked runs at all is no question for the definitions of a module.
        is_speculative, machine.is_speculative = machine.is_speculative, False
        try:
            machine.execute_whole(_parse_recipe(self._module.name).body, Scope(self._module.names, self._module))
        finally:
            machine.is_speculative = is_speculative
            machine.frames.pop()


def with_recipes(
    models: Mapping[str, Callable[[PythonMachine], object]],
) -> dict[str, Callable[[PythonMachine], object]]:
    """Return models of modules, with those of which there is a recipe."""
    made = {name: partial(Recipe, module=name, known=models.get(name)) for name in NAMES}
    return {**models, **made}
