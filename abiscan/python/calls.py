"""Calls: of functions and classes of the package, and of everything else that can be called."""

from __future__ import annotations

import ast
from collections.abc import Callable

from abiscan.python.contexts import Manager
from abiscan.python.hosts import construct
from abiscan.python.machine import Frame
from abiscan.python.modelled import Modelled, Native
from abiscan.python.operations import described
from abiscan.python.signals import ReturnSignal
from abiscan.python.statements import Statements
from abiscan.python.values import (
    Bound,
    Class,
    Instance,
    NotKnown,
    Perhaps,
    PythonError,
    PythonFunction,
    PythonModule,
    Scope,
    Thrown,
    Wrapped,
)


class Super(Modelled):
    """``super()`` inside a method."""

    __slots__ = ("owner", "receiver")

    def __init__(self, owner: Class, receiver: object) -> None:
        self.owner, self.receiver = owner, receiver

    def attribute(self, machine: object, name: str) -> object:
        """A method of the next class."""
        for base in self.owner.ancestry()[1:]:
            if isinstance(base, Class) and name in base.names:
                found = base.names[name]
                return Bound(found, self.receiver) if isinstance(found, PythonFunction) else found
        if name == "__init__" and isinstance(self.receiver, PythonError):
            return Native(name, self._initialise)
        if name == "__new__" and self.owner.host() is type:
            return Native(name, lambda _machine, args, _kwargs: _new_class(args))
        return NotKnown(f"super().{name}")

    def _initialise(self, _machine: object, args: list[object], _kwargs: dict[str, object]) -> object:
        assert isinstance(self.receiver, PythonError)
        self.receiver.args = tuple(args)
        return None


def _new_class(args: list[object]) -> object:
    """``type.__new__(metaclass, name, bases, names)``."""
    if len(args) < 4 or not isinstance(args[1], str) or not isinstance(args[3], dict):
        return NotKnown("type.__new__()")
    bases = args[2] if isinstance(args[2], tuple) else ()
    return Class(args[1], bases, args[3], str(args[3].get("__module__", "")))


class Calls(Statements):
    """Calls values."""

    def call(self, function: object, args: list[object], kwargs: dict[str, object]) -> object:
        """Call a value."""
        function = self.settle(function)
        if isinstance(function, NotKnown):
            return function.part("()")
        if isinstance(function, PythonFunction):
            return self.call_function(function, args, kwargs)
        if isinstance(function, Modelled):
            return function.call(self, args, kwargs)
        if isinstance(function, Bound):
            return self.call(function.function, [function.receiver, *args], kwargs)
        if isinstance(function, Wrapped):
            return self._call_wrapped(function, args, kwargs)
        if isinstance(function, Class):
            return self._instantiate(function, args, kwargs)
        if isinstance(function, Instance) and function.cls.find("__call__") is not None:
            return self.call(self.attribute(function, "__call__"), args, kwargs)
        if isinstance(function, type):
            return construct(self, function, args, kwargs)
        return NotKnown(f"{described(function)}()")

    def _call_wrapped(self, function: Wrapped, args: list[object], kwargs: dict[str, object]) -> object:
        if function.kind == "contextmanager" and isinstance(function.function, PythonFunction):
            return Manager(function.function, tuple(args), kwargs)
        return self.call(function.function, args, kwargs)

    def _instantiate(self, cls: Class, args: list[object], kwargs: dict[str, object]) -> object:
        host = cls.host()
        fields = cls.fields()
        made: Instance | PythonError
        if host is not None and issubclass(host, BaseException):
            made = PythonError(cls, tuple(args))
        else:
            given = {**dict(zip(fields, args, strict=False)), **kwargs}
            made = Instance(cls, given if cls.find("__init__") is None else {})
        initialise = cls.find("__init__")
        if isinstance(initialise, PythonFunction):
            self.call_function(initialise, [made, *args], kwargs)
        elif fields and isinstance(finish := cls.find("__post_init__"), PythonFunction):  # of a dataclass
            self.call_function(finish, [made], {})
        return made

    def call_function(self, function: PythonFunction, args: list[object], kwargs: dict[str, object]) -> object:
        """Run a function of the package; a generator is run to its end, and gives the list of what it yields."""
        node = function.node
        if isinstance(node, ast.AsyncFunctionDef):
            return NotKnown(f"{function.name}()")
        if len(self.frames) >= self.limits.depth:
            self.gap(f"{function.name} is called too deep to be followed")
            return NotKnown(f"{function.name}()")
        scope = Scope(self._bind(function, args, kwargs), function.scope.module, function.scope)
        if not self.library.is_generator(node):
            return self._run(function, scope, None)
        yielded: list[object] = []
        before = self.perhaps

        def keep(value: object) -> object:
            self.tick()
            yielded.append(Perhaps(f"{function.name}()") if self.perhaps and not before else value)
            return None

        self._run(function, scope, keep)
        return yielded

    def _run(self, function: PythonFunction, scope: Scope, yields: Callable[[object], object] | None) -> object:
        node = function.node
        self.trace.called.add(node)
        self.frames.append(Frame(file=function.scope.module.file, line=node.lineno, function=function, yields=yields))
        try:
            if isinstance(node, ast.Lambda):
                return self.evaluate(node.body, scope)
            self.execute(node.body, scope)
        except ReturnSignal as signal:
            return signal.value
        except Thrown as error:
            error.failure.at = error.failure.at or self.place()
            raise
        except RecursionError:
            return NotKnown(f"{function.name}()")
        finally:
            self.frames.pop()
        return None

    def run_around(self, manager: Manager, inside: Callable[[object], object], caller: Frame) -> None:
        """Run the body of a ``with`` where the generator of its context manager yields."""

        def body(value: object) -> object:
            self.frames.append(caller)
            try:
                return inside(value)
            except Thrown as error:
                error.failure.at = error.failure.at or self.place()
                raise
            finally:
                self.frames.pop()

        function = manager.function
        names = self._bind(function, list(manager.args), manager.kwargs)
        self._run(function, Scope(names, function.scope.module, function.scope), body)

    def _bind(self, function: PythonFunction, args: list[object], kwargs: dict[str, object]) -> dict[str, object]:
        """The parameters by name; one that gets no argument is not known."""
        wanted = function.node.args
        names: dict[str, object] = {}
        positional = [one.arg for one in (*wanted.posonlyargs, *wanted.args)]
        names.update(zip(positional, args, strict=False))
        rest = dict(kwargs)
        for name in (*positional, *(one.arg for one in wanted.kwonlyargs)):
            if name in rest:
                names[name] = rest.pop(name)
            elif name not in names:
                names[name] = function.defaults.get(name, NotKnown(name))
        if wanted.vararg:
            names[wanted.vararg.arg] = tuple(args[len(positional) :])
        if wanted.kwarg:
            names[wanted.kwarg.arg] = rest
        return names

    def special(self, name: str, args: list[object], scope: Scope) -> object:
        """The built-in functions that look at their caller."""
        if name == "super":
            return self._super(args, scope)
        if name == "exec" and len(args) > 1 and isinstance(args[1], dict):
            return self._execute_in(args[0], args[1], scope)
        if name in {"vars", "locals"} and (args or scope.around is not None):
            return self.attribute(args[0], "__dict__") if args else NotKnown(f"{name}()")
        scope.module.open_ = True
        return scope.module.names if name in {"globals", "vars", "locals"} else NotKnown(f"{name}()")

    def _execute_in(self, code: object, names: dict[object, object], scope: Scope) -> object:
        """``exec`` of a text with names of its own, as packages read files such as ``version.py``."""
        try:
            tree = ast.parse(code) if isinstance(code, str) else None
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            tree = None
        if tree is None:
            names[NotKnown("exec()")] = NotKnown("exec()")  # it may have any name now
            return None
        line = self.frames[-1].line
        bound: dict[str, object] = {str(name): value for name, value in names.items() if isinstance(name, str)}
        self.execute(tree.body, Scope(bound, PythonModule("exec", bound, scope.module.file)))
        names.update(bound)
        self.frames[-1].line = line
        return None

    def _super(self, args: list[object], scope: Scope) -> object:
        function = self.frames[-1].function
        owner = args[0] if args else function.owner if function is not None else None
        parameters = function.node.args if function is not None else None
        first = next(iter((*parameters.posonlyargs, *parameters.args)), None) if parameters else None
        receiver = args[1] if len(args) > 1 else scope.names.get(first.arg) if first else None
        return Super(owner, receiver) if isinstance(owner, Class) else NotKnown("super()")
