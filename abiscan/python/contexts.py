"""Context managers that the reading knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from abiscan.python.modelled import Modelled
from abiscan.python.values import PythonFunction


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Suppress(Modelled):
    """``contextlib.suppress``."""

    classes: tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Manager(Modelled):
    """What a function under ``contextlib.contextmanager`` returns: its body runs around that of the ``with``."""

    function: PythonFunction
    args: tuple[object, ...]
    kwargs: dict[str, object]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plain(Modelled):
    """A context manager that only gives a value, such as that of ``importlib.resources.as_file``."""

    value: Callable[[], object]
