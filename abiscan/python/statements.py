"""Statements of Python, run one after the other."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from abiscan.python import attributes
from abiscan.python.contexts import Manager, Suppress
from abiscan.python.expressions import Expressions
from abiscan.python.hosts import truth
from abiscan.python.machine import Frame
from abiscan.python.model import Told
from abiscan.python.modelled import Modelled
from abiscan.python.operations import binary, compare, described
from abiscan.python.values import Class, Failure, Function, Instance, Scope, Thrown, Unknown, Why, thrown


class ReturnSignal(Exception):  # noqa: N818 - it ends a function, it is no error
    """``return``."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


class BreakSignal(Exception):  # noqa: N818 - it ends a loop
    """``break``."""


class ContinueSignal(Exception):  # noqa: N818 - it ends a round of a loop
    """``continue``."""


_LOUDEST = (Told.WARNING, Told.LOG, Told.PRINT)


class Statements(Expressions):
    """Runs statements."""

    handling: list[Failure]

    def execute(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Run statements."""
        for statement in body:
            self.tick()
            self.frames[-1].line = statement.lineno
            method = _EXECUTE.get(type(statement))
            if method is not None:
                method(self, statement, scope)

    # ---- binding names

    def bind(self, name: str, value: object, scope: Scope) -> None:
        """Bind a name."""
        scope.outer_names.get(name, scope).names[name] = value

    def assign(self, target: ast.expr, value: object, scope: Scope) -> None:
        """Bind a value to what stands on the left of ``=``."""
        if isinstance(target, ast.Name):
            self.bind(target.id, value, scope)
        elif isinstance(target, ast.Attribute):
            attributes.put(self.evaluate(target.value, scope), target.attr, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value, scope)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, scope)
        elif isinstance(target, ast.Subscript):
            self._set_item(self.evaluate(target.value, scope), self.evaluate(target.slice, scope), value)

    def _unpack(self, targets: Sequence[ast.expr], value: object, scope: Scope) -> None:
        values = self.items(value)
        starred = next((index for index, one in enumerate(targets) if isinstance(one, ast.Starred)), None)
        if isinstance(values, Unknown):
            values = [values.part(f"[{index}]") for index in range(len(targets))]
        elif starred is not None:
            end = len(values) - (len(targets) - starred - 1)
            values = [*values[:starred], values[starred:end], *values[end:]]
        if len(values) != len(targets):
            few = len(values) < len(targets)
            text = (
                f"not enough values to unpack (expected {len(targets)}, got {len(values)})"
                if few
                else f"too many values to unpack (expected {len(targets)})"
            )
            raise thrown(ValueError, text)
        for target, one in zip(targets, values, strict=True):
            self.assign(target, one, scope)

    def _set_item(self, container: object, index: object, value: object) -> None:
        if isinstance(container, dict):
            if not isinstance(index, (list, dict, set)):
                container[index] = value
        elif isinstance(container, list):
            if isinstance(index, int) and -len(container) <= index < len(container):
                container[index] = value
        elif isinstance(container, (Modelled, Instance)):
            self.call(self.attribute(container, "__setitem__"), [index, value], {})

    def weaken(self, bodies: Sequence[ast.stmt], scope: Scope, unknown: Unknown) -> None:
        """Forget the names that some statements bind: which of them ran is not known."""
        for name in bound_names(bodies):
            self.bind(name, unknown, scope)

    # ---- one method for each form

    def _expression(self, node: ast.Expr, scope: Scope) -> None:
        if not isinstance(node.value, ast.Constant):
            self.evaluate(node.value, scope)

    def _assignment(self, node: ast.Assign, scope: Scope) -> None:
        value = self.evaluate(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)

    def _annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value, scope), scope)

    def _augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        left = self.evaluate(_as_load(node.target), scope)
        right = self.evaluate(node.value, scope)
        if isinstance(left, list) and isinstance(node.op, ast.Add):
            self.call(self.attribute(left, "extend"), [right], {})
            return
        self.assign(node.target, binary(node.op, left, right), scope)

    def _if(self, node: ast.If, scope: Scope) -> None:
        test = self.evaluate(node.test, scope)
        known = truth(test)
        if known is not None:
            self.execute(node.body if known else node.orelse, scope)
            return
        unknown = test if isinstance(test, Unknown) else Unknown(described(test))
        raises = [_ends_in_raise(node.body), _ends_in_raise(node.orelse)]
        default = likely(node.test) if raises[0] is raises[1] else raises[1]
        if any(raises) and unknown.why is Why.NOT_FOLLOWED:  # a check of what is not known here: it is passed
            self.execute(node.body if default else node.orelse, scope)
        elif any(raises) or self.library.acts(node) or self._leaves_what_acts(node):
            text, spot = self.source_of(node.test), (node.lineno, node.col_offset)
            taken = self.decide(text, unknown.why, spot, default=default)
            self.execute(node.body if taken else node.orelse, scope)
        elif _leaves(node):
            raise ReturnSignal(unknown)
        else:
            self.execute(node.body if default else node.orelse, scope)
            self.weaken([*node.body, *node.orelse], scope, unknown)

    def _leaves_what_acts(self, node: ast.If) -> bool:
        """Whether a ``return``, ``break`` or ``continue`` may skip something that matters."""
        function = self.frames[-1].function
        return _leaves(node) and (function is None or self.library.acts(function.node))

    def _for(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        source = self.evaluate(node.iter, scope)
        values = self.items(source)
        if isinstance(values, Unknown):
            if not self.library.matters(node):
                self.weaken([node], scope, values)
                return
            spot = (node.lineno, node.col_offset)
            text = f"{self.source_of(node.iter)} is empty"
            values = [] if self.decide(text, values.why, spot, default=True) else [values.part("[…]")]
        self._loop(node, values, scope)

    def _loop(self, node: ast.For | ast.AsyncFor, values: list[object], scope: Scope) -> None:
        for value in values:
            self.tick()
            self.assign(node.target, value, scope)
            try:
                self.execute(node.body, scope)
            except ContinueSignal:
                continue
            except BreakSignal:
                return
        self.execute(node.orelse, scope)

    def _while(self, node: ast.While, scope: Scope) -> None:
        while True:
            self.tick()
            known = truth(self.evaluate(node.test, scope))
            if known is None:
                self.weaken([node], scope, Unknown(self.source_of(node.test)))
                return
            if not known:
                break
            try:
                self.execute(node.body, scope)
            except ContinueSignal:
                continue
            except BreakSignal:
                return
        self.execute(node.orelse, scope)

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
            inside(manager.part(".__enter__()") if isinstance(manager, Unknown) else manager)

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

    def survived(self, failure: Failure, heard: list[Told]) -> None:
        """An exception was caught for good: the loads that it tells of are over, and users were told so much."""
        told = next((one for one in _LOUDEST if one in heard), Told.NOTHING)
        for number in failure.loads:
            self.trace.attempts[number].told = told

    def _try(self, node: ast.Try, scope: Scope) -> None:
        try:
            self._try_handlers(node, scope)
        finally:
            line = self.frames[-1].line
            self.execute(node.finalbody, scope)
            self.frames[-1].line = line

    def _try_handlers(self, node: ast.Try, scope: Scope) -> None:
        catching = [(handler, self._classes(handler, scope)) for handler in node.handlers]
        swallowing = tuple(cls for handler, classes in catching if not _ends_in_raise(handler.body) for cls in classes)
        self.guards.append(swallowing)
        failure: Failure | None = None
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
            if handler is None:
                raise Thrown(failure)
            self._handle(handler, failure, scope)

    def _classes(self, handler: ast.ExceptHandler, scope: Scope) -> tuple[object, ...]:
        if handler.type is None:
            return (BaseException,)
        caught = self.evaluate(handler.type, scope)
        return tuple(caught) if isinstance(caught, tuple) else (caught,)

    def _handle(self, handler: ast.ExceptHandler, failure: Failure, scope: Scope) -> None:
        heard: list[Told] = []
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
            failure = self.handling[-1] if self.handling else Failure(RuntimeError, ("No active exception to reraise",))
            raise Thrown(failure)
        value = self.evaluate(node.exc, scope)
        cause = None if node.cause is None else self.evaluate(node.cause, scope)
        self.frames[-1].line = node.lineno
        failure = value if isinstance(value, Failure) else self._instance(value)
        failure.at = failure.at or self.place()
        if node.cause is not None:
            failure.cause = cause if isinstance(cause, Failure) else None
            failure.attributes["__suppress_context__"] = True
        raise Thrown(failure)

    def _instance(self, value: object) -> Failure:
        if isinstance(value, (type, Class)):
            made = self.call(value, [], {})
            if isinstance(made, Failure):
                return made
        return Failure(value, (value,) if isinstance(value, Unknown) else ())

    def _assert(self, node: ast.Assert, scope: Scope) -> None:
        if truth(self.evaluate(node.test, scope)) is False:
            args = () if node.msg is None else (self.evaluate(node.msg, scope),)
            self.frames[-1].line = node.lineno
            raise Thrown(Failure(AssertionError, args))

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        decorators = [(one.lineno, self.evaluate(one, scope)) for one in node.decorator_list]
        made: object = Function(node.name, node, scope, self.defaults(node.args, scope))
        self.bind(node.name, self._decorated(made, decorators), scope)

    def _decorated(self, made: object, decorators: list[tuple[int, object]]) -> object:
        for line, decorator in reversed(decorators):
            if isinstance(decorator, Unknown):
                continue  # most decorators give back something that does the same
            self.frames[-1].line = line
            result = self.call(decorator, [made], {})
            made = made if isinstance(result, Unknown) else result
        return made

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        decorators = [(one.lineno, self.evaluate(one, scope)) for one in node.decorator_list]
        bases = tuple(self.evaluate(one, scope) for one in node.bases if not isinstance(one, ast.Starred))
        made = Class(node.name, bases, {"__doc__": attributes.docstring(node)}, scope.module.name)
        inner = Scope(made.names, scope.module, scope, is_class=True)
        self.execute(node.body, inner)
        for value in made.names.values():
            function = getattr(value, "function", value)
            if isinstance(function, Function) and function.owner is None:
                function.owner = made
        self.bind(node.name, self._decorated(made, decorators), scope)

    def _return(self, node: ast.Return, scope: Scope) -> None:
        raise ReturnSignal(None if node.value is None else self.evaluate(node.value, scope))

    def _break(self, _node: ast.Break, _scope: Scope) -> None:
        raise BreakSignal

    def _continue(self, _node: ast.Continue, _scope: Scope) -> None:
        raise ContinueSignal

    def _delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                scope.outer_names.get(target.id, scope).names.pop(target.id, None)

    def _outer(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
        home: Scope | None = scope.around
        for name in node.names:
            one = home
            while (
                one is not None and one.around is not None and (isinstance(node, ast.Global) or name not in one.names)
            ):
                one = one.around
            if one is not None:
                scope.outer_names[name] = one

    def _match(self, node: ast.Match, scope: Scope) -> None:
        subject = self.evaluate(node.subject, scope)
        for case in node.cases:
            fits = self._fits(case.pattern, subject, scope)
            guard = True if case.guard is None else truth(self.evaluate(case.guard, scope))
            if fits is None or guard is None:
                self.weaken(
                    [one for other in node.cases for one in other.body], scope, Unknown(self.source_of(node.subject))
                )
                return
            if fits and guard:
                self.execute(case.body, scope)
                return

    def _fits(self, pattern: ast.pattern, subject: object, scope: Scope) -> bool | None:
        if isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
            if pattern.name:
                self.bind(pattern.name, subject, scope)
            return True
        if isinstance(pattern, ast.MatchValue):
            return truth(compare(ast.Eq(), subject, self.evaluate(pattern.value, scope)))
        if isinstance(pattern, ast.MatchOr):
            results = [self._fits(one, subject, scope) for one in pattern.patterns]
            return True if True in results else None if None in results else False
        return None

    def _import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            self.import_names(alias, scope)

    def import_names(self, alias: ast.alias, scope: Scope) -> None:
        """``import NAME``."""
        raise NotImplementedError

    def import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        """``from MODULE import NAMES``."""
        raise NotImplementedError


def _caught(failure: Failure, classes: tuple[object, ...]) -> bool:
    ancestry = failure.ancestry()
    known = ancestry if any(isinstance(one, type) for one in ancestry) else [*ancestry, Exception, BaseException]
    return any(one is cls for cls in classes for one in known)


def _ends_in_raise(body: Sequence[ast.stmt]) -> bool:
    """Whether statements raise, whichever way they go."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return _ends_in_raise(last.body) and _ends_in_raise(last.orelse)
    return isinstance(last, ast.Raise)


def _leaves(node: ast.AST) -> bool:
    """Whether it has a ``return``, ``break`` or ``continue``."""
    return any(isinstance(one, (ast.Return, ast.Break, ast.Continue)) for one in ast.walk(node))


def likely(test: ast.expr) -> bool:
    """What a condition is where nothing unusual is there: no GPU, no option set, no optional package."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return not likely(test.operand)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return isinstance(test.ops[0], (ast.NotEq, ast.IsNot, ast.NotIn))
    if isinstance(test, ast.BoolOp):
        ways = [likely(one) for one in test.values]
        return all(ways) if isinstance(test.op, ast.And) else any(ways)
    return False


def bound_names(bodies: Sequence[ast.stmt]) -> set[str]:
    """The names that statements bind, functions inside them apart."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(bodies)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        if isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        waiting.extend(ast.iter_child_nodes(node))
    return found - {"*"}


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    return target


Method = Callable[[Statements, ast.stmt, Scope], None]
_EXECUTE: dict[type[ast.stmt], Method] = {
    ast.Expr: Statements._expression,  # type: ignore[dict-item]
    ast.Assign: Statements._assignment,  # type: ignore[dict-item]
    ast.AnnAssign: Statements._annotated,  # type: ignore[dict-item]
    ast.AugAssign: Statements._augmented,  # type: ignore[dict-item]
    ast.If: Statements._if,  # type: ignore[dict-item]
    ast.For: Statements._for,  # type: ignore[dict-item]
    ast.AsyncFor: Statements._for,  # type: ignore[dict-item]
    ast.While: Statements._while,  # type: ignore[dict-item]
    ast.With: Statements._with,  # type: ignore[dict-item]
    ast.AsyncWith: Statements._with,  # type: ignore[dict-item]
    ast.Try: Statements._try,  # type: ignore[dict-item]
    ast.Raise: Statements._raise,  # type: ignore[dict-item]
    ast.Assert: Statements._assert,  # type: ignore[dict-item]
    ast.FunctionDef: Statements._define,  # type: ignore[dict-item]
    ast.AsyncFunctionDef: Statements._define,  # type: ignore[dict-item]
    ast.ClassDef: Statements._class,  # type: ignore[dict-item]
    ast.Return: Statements._return,  # type: ignore[dict-item]
    ast.Break: Statements._break,  # type: ignore[dict-item]
    ast.Continue: Statements._continue,  # type: ignore[dict-item]
    ast.Delete: Statements._delete,  # type: ignore[dict-item]
    ast.Global: Statements._outer,  # type: ignore[dict-item]
    ast.Nonlocal: Statements._outer,  # type: ignore[dict-item]
    ast.Match: Statements._match,  # type: ignore[dict-item]
    ast.Import: Statements._import,  # type: ignore[dict-item]
    ast.ImportFrom: lambda machine, node, scope: machine.import_from(node, scope),  # type: ignore[arg-type]
}
