"""Context managers that the reading knows."""

from __future__ import annotations

from collections.abc import Callable

from abiscan.python.interpreter.iteration import GeneratorObject
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.values import NotKnown, PythonError, PythonFunction, Thrown, thrown


class AroundBody(Modelled):
    """A context manager that does something with the exceptions of the body of its ``with``."""

    __slots__ = ()

    @property
    def guards(self) -> tuple[object, ...]:
        """The exceptions that it swallows, as far as that is known."""
        return ()

    def enter(self, machine: PythonMachine) -> object:
        """Execute ``__enter__``."""
        return None

    def leave(self, machine: PythonMachine, failure: PythonError | None) -> object:
        """Execute ``__exit__``, with the exception that the body raised."""
        return None

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return the methods that ``with`` calls."""
        if name in {"__enter__", "__aenter__"}:
            return Native(name, lambda machine, _args, _kwargs: self.enter(machine))
        if name in {"__exit__", "__aexit__"}:
            return Native(name, lambda machine, args, _kwargs: self.leave(machine, _raised_failure(args)))
        return NotKnown(f"{self.display_name()}.{name}")


def _raised_failure(args: list[object]) -> PythonError | None:
    return args[1] if len(args) > 1 and isinstance(args[1], PythonError) else None


class Suppress(AroundBody):
    """``contextlib.suppress``."""

    __slots__ = ("classes",)

    def __init__(self, classes: tuple[object, ...]) -> None:
        self.classes = classes

    @property
    def guards(self) -> tuple[object, ...]:
        """The classes that it swallows."""
        return self.classes

    def leave(self, machine: PythonMachine, failure: PythonError | None) -> object:
        """Tell whether the exception is one of them."""
        return failure is not None and any(cls in failure.ancestry() for cls in self.classes)


class Manager(AroundBody):
    """What a function under ``contextlib.contextmanager`` returns: its body runs around that of the ``with``."""

    __slots__ = ("args", "function", "generator", "kwargs")

    def __init__(self, function: PythonFunction, args: list[object], kwargs: dict[str, object]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.generator: object = None

    def display_name(self) -> str:
        """Return the call that makes it."""
        return f"{self.function.name}()"

    @property
    def guards(self) -> tuple[object, ...]:
        """The exceptions that the generator catches where it is suspended."""
        inside = self.generator.guards if isinstance(self.generator, GeneratorObject) else []
        return tuple(cls for guard in inside for cls in guard)

    def enter(self, machine: PythonMachine) -> object:
        """Return what it yields first."""
        self.generator = machine.call(self.function, self.args, self.kwargs)
        if not isinstance(self.generator, GeneratorObject):
            return NotKnown(self.display_name())
        try:
            return self.generator.advance(machine)
        except Thrown as error:
            if error.failure.cls is not StopIteration:
                raise
            raise thrown(RuntimeError, "generator didn't yield") from None

    def leave(self, machine: PythonMachine, failure: PythonError | None) -> object:
        """Run the generator to its end; return whether it swallows the exception."""
        if not isinstance(self.generator, GeneratorObject):
            return None
        # As _GeneratorContextManager.__exit__ (Lib/contextlib.py): a generator that ends has swallowed the exception,
        # one that raises the same has not, and one that yields again is at fault.
        try:
            if failure is None:
                self.generator.advance(machine)
            else:
                self.generator.throw(machine, failure)
        except Thrown as error:
            if error.failure.cls is StopIteration:
                return failure is not None
            if error.failure is failure:
                return False
            raise
        raise thrown(RuntimeError, "generator didn't stop" + (" after throw()" if failure else ""))

    def call(self, machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
        """Wrap a function that this decorates: each call of it runs inside of a ``with``."""
        # A generator runs once, so each call of the decorated function needs a manager of its own (_recreate_cm in
        # Lib/contextlib.py).
        inner = args[0] if args else NotKnown(self.display_name())
        again: Callable[[], Manager] = lambda: Manager(self.function, self.args, self.kwargs)  # noqa: E731
        return Native(
            self.display_name(), lambda machine, args, kwargs: call_within(machine, again(), inner, args, kwargs)
        )


def call_within(
    machine: PythonMachine, manager: AroundBody, function: object, args: list[object], kwargs: dict[str, object]
) -> object:
    """Call a function inside of a ``with``."""
    manager.enter(machine)
    machine.guards.append(manager.guards)
    try:
        result = machine.call(function, args, kwargs)
    except Thrown as error:
        if manager.leave(machine, error.failure) is not True:
            raise
        return None
    finally:
        machine.guards.pop()
    manager.leave(machine, None)
    return result
