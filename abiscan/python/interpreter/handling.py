"""Exceptions: ``try``, ``with``, ``raise``, and what the package says about a failure that it survives.

The statements that have others in them are generators, for a generator of the package may yield there: see ``flow``.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack

from abiscan.python.interpreter import attributes, special
from abiscan.python.interpreter.binding import Binding
from abiscan.python.interpreter.contexts import AroundBody
from abiscan.python.interpreter.iteration import push_item
from abiscan.python.interpreter.later_builtins import CLASSES
from abiscan.python.interpreter.modelled import Modelled
from abiscan.python.interpreter.signals import Signal
from abiscan.python.interpreter.values import Class, Instance, NotKnown, PythonError, Scope, Thrown, Why, thrown
from abiscan.python.package.acting import EXITS
from abiscan.python.package.model import Channel, UserMessage

Flow = Generator[object, object, Signal | None]
"""The running of statements: suspended where they yield."""

_log = logging.getLogger("abiscan.python")
_LOUDEST = (Channel.WARNING, Channel.LOG, Channel.PRINT)


def loudest_of(heard: Iterable[UserMessage]) -> UserMessage | None:
    """Return the notice that users are most likely to see: the loudest kind, and the first of it."""
    return min(heard, key=lambda notice: _LOUDEST.index(notice.how), default=None)


class Handling(Binding):
    """Runs the statements that raise and catch."""

    def flow(self, body: Sequence[ast.stmt], scope: Scope) -> Flow:
        """Run statements, one of which may yield."""
        raise NotImplementedError

    # ---- with

    def _run_with(self, node: ast.With | ast.AsyncWith, scope: Scope) -> Flow:
        return self._run_enter(list(node.items), node, scope)

    def _run_enter(self, items: list[ast.withitem], node: ast.With | ast.AsyncWith, scope: Scope) -> Flow:
        if not items:
            return (yield from self.flow(node.body, scope))
        # ``with A, B:`` is ``with A:`` around ``with B:`` (language reference, 8.5): the first item is entered here,
        # the others inside of its body. Both methods are looked up before one is called.
        first, *remaining = items
        manager = self.evaluate(first.context_expr, scope)
        prefix = "__a" if isinstance(node, ast.AsyncWith) else "__"
        leave = self._manager_method(manager, f"{prefix}exit__")
        enter = self._manager_method(manager, f"{prefix}enter__")
        if leave is None or enter is None:
            # A manager that is not followed is assumed to swallow nothing: the body runs as if it stood alone.
            value = manager.part(".__enter__()") if isinstance(manager, NotKnown) else manager
            if first.optional_vars is not None:
                self.assign(first.optional_vars, value, scope)
            return (yield from self._run_enter(remaining, node, scope))
        value = self.awaited(self.call(enter, [], {}))
        failure: PythonError | None = None
        signal: Signal | None = None
        with ExitStack() as stack:
            if isinstance(manager, AroundBody):
                stack.enter_context(push_item(self.guards, manager.guards))  # type: ignore[arg-type]
            try:
                if first.optional_vars is not None:
                    self.assign(first.optional_vars, value, scope)
                signal = yield from self._run_enter(remaining, node, scope)
            except Thrown as error:
                failure = error.failure
                failure.at = failure.at or self.place()
        # A ``return``, ``break`` or ``continue`` leaves without an exception, and ``__exit__`` cannot keep it.
        if failure is None:
            self.awaited(self.call(leave, [None, None, None], {}))
        else:
            self._run_leave(leave, failure)
        return signal

    def _run_leave(self, leave: object, failure: PythonError) -> None:
        """Leave a ``with`` by an exception, which its manager may swallow."""
        with push_item(self.handling, failure):  # type: ignore[arg-type]
            try:
                swallowed = self.awaited(self.call(leave, [failure.cls, failure, NotKnown("traceback")], {}))
            except Thrown as error:
                # What ``__exit__`` raises instead is about the same loads.
                if error.failure is not failure:
                    error.failure.context = error.failure.context or failure
                    error.failure.loads |= failure.loads
                raise
        if special.truth_of(self, swallowed) is not True:
            raise Thrown(failure)
        self.note_survived(failure, [], again=False)

    def _manager_method(self, manager: object, name: str) -> object:
        """Return a method of a context manager, None if it is not known."""
        if isinstance(manager, NotKnown):
            return None
        if isinstance(manager, Modelled):
            method = manager.get_attribute(self, name)
            return None if isinstance(method, NotKnown) else method
        if not special.is_own(manager):
            return None
        method = special.special_method(self, manager, name)
        if method is None:
            role = "the asynchronous context manager" if name.startswith("__a") else "the context manager"
            kind = special.type_name(manager)
            raise thrown(
                AttributeError if self.before(3, 11) else TypeError, f"'{kind}' object does not support {role} protocol"
            )
        return None if isinstance(method, NotKnown) else method

    def note_survived(self, failure: PythonError, heard: list[UserMessage], *, again: bool = True) -> None:
        """Note that an exception was caught for good: how users learn of the failed loads that it is about.

        :param heard: what the code told users while it handled the exception
        :param again: whether what was noted about these loads before is replaced
        """
        loudest = loudest_of(heard)
        for number in failure.loads:
            attempt = self.trace.attempts[number]
            if attempt.told is not None and not again:
                continue
            attempt.told = loudest.how if loudest else Channel.NOTHING
            attempt.told_text = loudest.text if loudest else None

    def note_unbound(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Note the names that statements would have bound which did not run."""
        raise NotImplementedError

    # ---- try

    def _run_try(self, node: ast.Try, scope: Scope) -> Flow:
        # The ``finally`` part runs on each of three ways out: after an exception, which it may replace by one of its
        # own or drop by a ``return``; after a jump; and at the end.
        try:
            signal = yield from self._run_handlers(node, scope)
        except Thrown as error:
            with push_item(self.handling, error.failure):  # type: ignore[arg-type]
                try:
                    signal = yield from self._run_finally(node, scope)
                except Thrown as later:
                    if later.failure is not error.failure:
                        later.failure.context = later.failure.context or error.failure
                    raise
            if signal is None:
                raise
            return signal
        own = yield from self._run_finally(node, scope)
        return signal if own is None else own

    def _run_finally(self, node: ast.Try, scope: Scope) -> Flow:
        # The exception or jump continues from where the body was left.
        line = self.frames[-1].line
        signal = yield from self.flow(node.finalbody, scope)
        self.frames[-1].line = line
        return signal

    def _run_handlers(self, node: ast.Try, scope: Scope) -> Flow:
        # Python evaluates the classes of a handler only if an exception gets to it. They are needed before, to tell
        # whether a load in the body is guarded: by a handler that does not always raise again.
        catching = [(handler, self._caught_classes(handler, scope)) for handler in node.handlers]
        swallowing = tuple(cls for handler, classes in catching if not ends_in_raise(handler.body) for cls in classes)
        failure: PythonError | None = None
        signal: Signal | None = None
        with push_item(self.guards, swallowing):  # type: ignore[arg-type]
            try:
                signal = yield from self.flow(node.body, scope)
            except Thrown as error:
                failure = error.failure
                failure.at = failure.at or self.place()
        if failure is None:
            return (yield from self.flow(node.orelse, scope)) if signal is None else signal
        if type(node) is not ast.Try:  # ``except*``
            return (yield from self._split_group(catching, failure, scope))
        handler = next((item for item, classes in catching if caught(failure, classes)), None)
        where = f"caught at line {handler.lineno}" if handler else "not caught there"
        _log.debug("%s, raised at %s, is %s", failure.name(), failure.at, where)
        if handler is None:
            raise Thrown(failure)
        if scope.around is None:
            self.note_unbound(node.body, scope)
        return (yield from self._run_handle(handler, failure, scope))

    def _split_group(
        self, catching: list[tuple[ast.ExceptHandler, tuple[object, ...]]], failure: PythonError, scope: Scope
    ) -> Flow:
        """Run the clauses of ``except*``: each gets what it catches of a group, as a group."""
        # Language reference, 8.4.2: each clause gets the part that it catches of what is left. What none has caught,
        # and what the clauses raise, is raised together in the end. An exception that is not a group is caught as a
        # group of one.
        is_group = attributes.is_group(failure)
        left: PythonError | None = failure
        raised: list[object] = []
        for handler, classes in catching:
            if left is None:
                break
            part, left = self._part_failure(left, classes)
            if part is None:
                continue
            group = part if is_group else _make_group([part])
            group.loads |= failure.loads
            try:
                yield from self._run_handle(handler, group, scope)
            except Thrown as error:
                raised.append(error.failure)
        if left is not None and not raised:
            raise Thrown(left)
        if len(raised) == 1 and left is None:
            assert isinstance(raised[0], PythonError)
            raise Thrown(raised[0])
        if raised:
            raise Thrown(_make_group(raised if left is None else [*raised, left], failure))
        return None

    def _part_failure(
        self, failure: PythonError, classes: tuple[object, ...]
    ) -> tuple[PythonError | None, PythonError | None]:
        """Return what classes catch of an exception or a group, and the rest of it."""
        if caught(failure, classes):
            return failure, None
        if not attributes.is_group(failure):
            return None, failure
        inside = [part for part in self.items(failure.args[1]) or () if isinstance(part, PythonError)]  # type: ignore[union-attr]
        pairs = [self._part_failure(part, classes) for part in inside]
        parts: list[PythonError | None] = []
        for chosen in zip(*pairs, strict=True):
            selected: list[object] = [part for part in chosen if part is not None]
            parts.append(_make_group(selected, failure, failure.args[0]) if selected else None)
        return parts[0], parts[1]

    def _caught_classes(self, handler: ast.ExceptHandler, scope: Scope) -> tuple[object, ...]:
        if handler.type is None:
            return (BaseException,)
        named = self.evaluate(handler.type, scope)
        return tuple(named) if isinstance(named, tuple) else (named,)

    def _run_handle(self, handler: ast.ExceptHandler, failure: PythonError, scope: Scope) -> Flow:
        heard: list[UserMessage] = []
        if handler.name:
            self.bind(handler.name, failure, scope)
        with push_item(self.listeners, heard), push_item(self.handling, failure):  # type: ignore[arg-type]
            try:
                signal = yield from self.flow(handler.body, scope)
            except Thrown as error:
                if error.failure is not failure:
                    error.failure.context = error.failure.context or failure
                    error.failure.loads |= failure.loads
                raise
        # Leaving by a jump catches the exception for good, too.
        self.note_survived(failure, heard)
        if handler.name:
            scope.outer_names.get(handler.name, scope).names.pop(handler.name, None)
        return signal

    # ---- raise, assert

    def _run_raise(self, node: ast.Raise, scope: Scope) -> None:
        if node.exc is None:
            failure = (
                self.handling[-1] if self.handling else PythonError(RuntimeError, ("No active exception to reraise",))
            )
            raise Thrown(failure)
        value = self.evaluate(node.exc, scope)
        cause = None if node.cause is None else self.evaluate(node.cause, scope)
        self.frames[-1].line = node.lineno
        failure = value if isinstance(value, PythonError) else self._failure_of(value)
        failure.at = failure.at or self.place()
        # ``from None``, too, keeps a traceback from showing the context.
        if node.cause is not None:
            failure.cause = cause if isinstance(cause, PythonError) else None
            failure.attributes["__suppress_context__"] = True
        raise Thrown(failure)

    def _failure_of(self, value: object) -> PythonError:
        if isinstance(value, (type, Class)):
            made = self.call(value, [], {})
            if isinstance(made, PythonError):
                return made
            if not isinstance(made, NotKnown) and not (isinstance(value, Class) and value.is_open()):
                return PythonError(TypeError, ("exceptions must derive from BaseException",))
        of_package = isinstance(value, Instance) and not value.cls.is_open()
        if of_package or isinstance(value, (str, int, float, list, tuple, dict, type(None))):
            return PythonError(TypeError, ("exceptions must derive from BaseException",))
        if isinstance(value, NotKnown):
            return PythonError(_class_of(value), (value,))
        return PythonError(value)

    def _run_assert(self, node: ast.Assert, scope: Scope) -> None:
        test = self.evaluate(node.test, scope)
        holds = special.truth_of(self, test)
        # An assertion whose condition is unknown is assumed to hold, since nearly all do. One about the target may fail
        # on another target: both ways are followed.
        if holds is None and isinstance(test, NotKnown) and test.why is Why.TARGET:
            spot = (node.lineno, node.col_offset)
            holds = self.decide(self.source_of(node.test), test.why, spot, default=True)
        if holds is False:
            args = () if node.msg is None else (self.evaluate(node.msg, scope),)
            self.frames[-1].line = node.lineno
            raise Thrown(PythonError(AssertionError, args))


def _make_group(inside: list[object], like: PythonError | None = None, text: object = "") -> PythonError:
    """Return a group of exceptions."""
    cls = like.cls if like is not None and attributes.is_group(like) else CLASSES["ExceptionGroup"]
    return PythonError(cls, (text, inside), at=like.at if like else None, loads=set(like.loads) if like else set())


def caught(failure: PythonError, classes: tuple[object, ...]) -> bool:
    """Whether ``except`` with these classes catches an exception."""
    ancestry = failure.ancestry()
    # An exception whose classes are all unknown is one that ``except Exception`` catches.
    ancestors = (
        ancestry if any(isinstance(ancestor, type) for ancestor in ancestry) else [*ancestry, Exception, BaseException]
    )
    return any(_is_same_class(ancestor, cls) for cls in classes for ancestor in ancestors)


def _is_same_class(one: object, other: object) -> bool:
    if isinstance(one, NotKnown) and isinstance(other, NotKnown):
        return one.key == other.key
    return one is other


def _class_of(value: NotKnown) -> NotKnown:
    """Return the class of an exception that is not known: what is called to make it, or the value itself."""
    origin = value.origin
    if not (isinstance(origin, tuple) and origin[1:2] == ("()",)):
        return value
    return NotKnown(value.name.removesuffix("()"), value.why, origin[0])


def ends_in_raise(body: Sequence[ast.stmt]) -> bool:
    """Whether statements raise, whichever way they go."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return ends_in_raise(last.body) and ends_in_raise(last.orelse)
    return isinstance(last, ast.Raise) or (isinstance(last, ast.Expr) and _ends_process(last.value))


def _ends_process(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    if isinstance(called, ast.Name):
        return called.id in {"exit", "quit"}
    owner = getattr(getattr(called, "value", None), "id", None)
    return isinstance(called, ast.Attribute) and f"{owner}.{called.attr}" in EXITS
