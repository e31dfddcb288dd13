"""Exceptions on their way: ``try``, ``with``, ``raise``, and what the package says about a failure that it survives."""

from __future__ import annotations

import ast
import logging
from collections.abc import Callable, Iterable, Sequence

from abiscan.python.binding import Binding
from abiscan.python.contexts import Manager, Suppress
from abiscan.python.hosts import truth
from abiscan.python.machine import Frame
from abiscan.python.model import Said, Told
from abiscan.python.signals import BreakSignal, ContinueSignal, ReturnSignal
from abiscan.python.values import Class, Instance, NotKnown, PythonError, Scope, Thrown, Why

_log = logging.getLogger("abiscan.python")
_LOUDEST = (Told.WARNING, Told.LOG, Told.PRINT)


def loudest_of(heard: Iterable[Said]) -> Said | None:
    """What users are most likely to notice; the first of its kind."""
    return min(heard, key=lambda said: _LOUDEST.index(said.how), default=None)


class Handling(Binding):
    """Runs the statements that raise and catch."""

    handling: list[PythonError]

    def _with(self, node: ast.With | ast.AsyncWith, scope: Scope) -> None:
        self._enter(list(node.items), node.body, scope)

    def _enter(self, items: list[ast.withitem], body: Sequence[ast.stmt], scope: Scope) -> None:
        if not items:
            self.execute(body, scope)
            return
        first, *others = items
        manager = self.evaluate(first.context_expr, scope)

        def inside(value: object) -> object:
            if first.optional_vars is not None:
                self.assign(first.optional_vars, value, scope)
            self._enter(others, body, scope)
            return None

        if isinstance(manager, Manager):
            self.run_around(manager, inside, self.frames[-1])
        elif isinstance(manager, Suppress):
            self._guarded(manager.classes, lambda: inside(None))
        elif isinstance(manager, Instance) and manager.cls.find("__exit__") is not None:
            self._around_instance(manager, inside)
        else:
            inside(manager.part(".__enter__()") if isinstance(manager, NotKnown) else manager)

    def _around_instance(self, manager: Instance, inside: Callable[[object], object]) -> None:
        value = self.call(self.attribute(manager, "__enter__"), [], {})
        leave = self.attribute(manager, "__exit__")
        try:
            inside(value)
        except Thrown as error:
            if truth(self.call(leave, [error.failure.cls, error.failure, None], {})) is not True:
                raise
        else:
            self.call(leave, [None, None, None], {})

    def run_around(self, manager: Manager, inside: Callable[[object], object], caller: Frame) -> None:
        """Run the body of a ``with`` where the generator of its context manager yields."""
        raise NotImplementedError

    def _guarded(self, classes: tuple[object, ...], action: Callable[[], object]) -> None:
        """Do something with what ``contextlib.suppress`` suppresses."""
        self.guards.append(classes)
        try:
            action()
        except Thrown as error:
            if not _caught(error.failure, classes):
                raise
            self.survived(error.failure, [])
        finally:
            self.guards.pop()

    def survived(self, failure: PythonError, heard: list[Said]) -> None:
        """An exception was caught for good: the loads that it tells of are over, and users were told so much."""
        loudest = loudest_of(heard)
        for number in failure.loads:
            attempt = self.trace.attempts[number]
            attempt.told = loudest.how if loudest else Told.NOTHING
            attempt.told_text = loudest.text if loudest else None

    def _try(self, node: ast.Try, scope: Scope) -> None:
        try:
            self._try_handlers(node, scope)
        finally:
            line = self.frames[-1].line
            self.execute(node.finalbody, scope)
            self.frames[-1].line = line

    def _try_handlers(self, node: ast.Try, scope: Scope) -> None:
        catching = [(handler, self._classes(handler, scope)) for handler in node.handlers]
        swallowing = tuple(cls for handler, classes in catching if not ends_in_raise(handler.body) for cls in classes)
        self.guards.append(swallowing)
        failure: PythonError | None = None
        try:
            self.execute(node.body, scope)
        except Thrown as error:
            failure = error.failure
            failure.at = failure.at or self.place()
        finally:
            self.guards.pop()
        if failure is None:
            self.execute(node.orelse, scope)
        else:
            handler = next((one for one, classes in catching if _caught(failure, classes)), None)
            caught = f"caught at line {handler.lineno}" if handler else "not caught there"
            _log.debug("%s, raised at %s, is %s", failure.name(), failure.at, caught)
            if handler is None:
                raise Thrown(failure)
            self._handle(handler, failure, scope)

    def _classes(self, handler: ast.ExceptHandler, scope: Scope) -> tuple[object, ...]:
        if handler.type is None:
            return (BaseException,)
        caught = self.evaluate(handler.type, scope)
        return tuple(caught) if isinstance(caught, tuple) else (caught,)

    def _handle(self, handler: ast.ExceptHandler, failure: PythonError, scope: Scope) -> None:
        heard: list[Said] = []
        self.listeners.append(heard)
        self.handling.append(failure)
        if handler.name:
            self.bind(handler.name, failure, scope)
        try:
            self.execute(handler.body, scope)
        except Thrown as error:
            if error.failure is not failure:
                error.failure.context = error.failure.context or failure
                error.failure.loads |= failure.loads
            raise
        except (ReturnSignal, BreakSignal, ContinueSignal):
            self.survived(failure, heard)
            raise
        else:
            self.survived(failure, heard)
        finally:
            self.listeners.pop()
            self.handling.pop()

    def _raise(self, node: ast.Raise, scope: Scope) -> None:
        if node.exc is None:
            failure = (
                self.handling[-1] if self.handling else PythonError(RuntimeError, ("No active exception to reraise",))
            )
            raise Thrown(failure)
        value = self.evaluate(node.exc, scope)
        cause = None if node.cause is None else self.evaluate(node.cause, scope)
        self.frames[-1].line = node.lineno
        failure = value if isinstance(value, PythonError) else self._instance(value)
        failure.at = failure.at or self.place()
        if node.cause is not None:
            failure.cause = cause if isinstance(cause, PythonError) else None
            failure.attributes["__suppress_context__"] = True
        raise Thrown(failure)

    def _instance(self, value: object) -> PythonError:
        if isinstance(value, (type, Class)):
            made = self.call(value, [], {})
            if isinstance(made, PythonError):
                return made
        return PythonError(value, (value,) if isinstance(value, NotKnown) else ())

    def _assert(self, node: ast.Assert, scope: Scope) -> None:
        test = self.evaluate(node.test, scope)
        holds = truth(test)
        if holds is None and isinstance(test, NotKnown) and test.why is Why.TARGET:
            spot = (node.lineno, node.col_offset)
            holds = self.decide(self.source_of(node.test), test.why, spot, default=True)
        if holds is False:
            args = () if node.msg is None else (self.evaluate(node.msg, scope),)
            self.frames[-1].line = node.lineno
            raise Thrown(PythonError(AssertionError, args))


def _caught(failure: PythonError, classes: tuple[object, ...]) -> bool:
    ancestry = failure.ancestry()
    known = ancestry if any(isinstance(one, type) for one in ancestry) else [*ancestry, Exception, BaseException]
    return any(one is cls for cls in classes for one in known)


def ends_in_raise(body: Sequence[ast.stmt]) -> bool:
    """Whether statements raise, whichever way they go."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return ends_in_raise(last.body) and ends_in_raise(last.orelse)
    return isinstance(last, ast.Raise)
