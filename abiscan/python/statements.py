"""Statements of Python, run one after the other."""

from __future__ import annotations

import ast
import logging
from collections.abc import Callable, Sequence
from typing import Any

from abiscan.python import attributes
from abiscan.python.handling import Handling, ends_in_raise
from abiscan.python.hosts import truth
from abiscan.python.models import enum_
from abiscan.python.operations import binary, compare, described
from abiscan.python.signals import BreakSignal, ContinueSignal, ReturnSignal
from abiscan.python.values import Class, NotKnown, OfTarget, PythonFunction, Scope, Thrown, Why

_log = logging.getLogger("abiscan.python")


class Statements(Handling):
    """Runs statements."""

    def execute(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Run statements."""
        for statement in body:
            self.tick()
            self.frames[-1].line = statement.lineno
            method = _EXECUTE.get(type(statement))
            if method is not None:
                method(self, statement, scope)

    # ---- one method for each form

    def _expression(self, node: ast.Expr, scope: Scope) -> None:
        if not isinstance(node.value, ast.Constant):
            self.evaluate(node.value, scope)

    def _assignment(self, node: ast.Assign, scope: Scope) -> None:
        value = self.unsettled(node.value, scope)
        if type(value) is OfTarget and not self.may_wait(node.targets, value):
            value = self.settle(value)
        for target in node.targets:
            self.assign(target, value, scope)

    def may_wait(self, targets: Sequence[ast.expr], value: OfTarget) -> bool:
        """Whether a name may stand for what is still to be asked: nothing can change that value."""
        known = self.world.foresee(value.of)
        return not isinstance(known, list) and all(isinstance(one, ast.Name) for one in targets)

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
            if self.is_traced:
                _log.debug("%s: %s is %s", self.place(), self.source_of(node.test), known)
            self.execute(node.body if known else node.orelse, scope)
            return
        unknown = test if isinstance(test, NotKnown) else NotKnown(described(test))
        raises = [ends_in_raise(node.body), ends_in_raise(node.orelse)]
        default = likely(node.test) if raises[0] is raises[1] else raises[1]
        if any(raises) and unknown.why is Why.NOT_FOLLOWED:  # a check of what is not known here: it is passed
            self.execute(node.body if default else node.orelse, scope)
        elif any(raises) or unknown.why is Why.TARGET or self.library.acts(node) or self._leaves_what_acts(node):
            text, spot = self.source_of(node.test), (node.lineno, node.col_offset)
            taken = self.decide(text, unknown.why, spot, default=default)
            self.execute(node.body if taken else node.orelse, scope)
        elif self.library.leaves(node):
            raise ReturnSignal(unknown)
        else:
            self.execute(node.body if default else node.orelse, scope)
            self.weaken([*node.body, *node.orelse], scope, unknown)

    def _leaves_what_acts(self, node: ast.If) -> bool:
        """Whether a ``return``, ``break`` or ``continue`` may skip something that matters."""
        function = self.frames[-1].function
        return self.library.leaves(node) and (function is None or self.library.acts(function.node))

    def _for(self, node: ast.For | ast.AsyncFor, scope: Scope) -> None:
        source = self.evaluate(node.iter, scope)
        values = self.items(source)
        if isinstance(values, NotKnown):
            if not self.library.matters(node):
                item = values.part("[…]")
                self._run_perhaps(lambda: self._loop(node, [item], scope))
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

    def _run_perhaps(self, action: Callable[[], None]) -> None:
        """Run what may run any number of times, or not at all: it raises nothing that is certain."""
        before, self.perhaps = self.perhaps, True
        try:
            action()
        except (Thrown, BreakSignal, ContinueSignal, ReturnSignal):
            pass
        finally:
            self.perhaps = before

    def _while(self, node: ast.While, scope: Scope) -> None:
        while True:
            self.tick()
            known = truth(self.evaluate(node.test, scope))
            if known is None:
                if not self.library.matters(node):
                    self._run_perhaps(lambda: self.execute(node.body, scope))
                self.weaken([node], scope, NotKnown(self.source_of(node.test)))
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

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        decorators = [(one.lineno, self.evaluate(one, scope)) for one in node.decorator_list]
        made: object = PythonFunction(node.name, node, scope, self.defaults(node.args, scope))
        self.bind(node.name, self._decorated(made, decorators), scope)

    def _decorated(self, made: object, decorators: list[tuple[int, object]]) -> object:
        for line, decorator in reversed(decorators):
            if isinstance(decorator, NotKnown):
                continue  # most decorators give back something that does the same
            self.frames[-1].line = line
            result = self.call(decorator, [made], {})
            made = made if isinstance(result, NotKnown) else result
        return made

    def _class(self, node: ast.ClassDef, scope: Scope) -> None:
        decorators = [(one.lineno, self.evaluate(one, scope)) for one in node.decorator_list]
        bases = tuple(self.evaluate(one, scope) for one in node.bases if not isinstance(one, ast.Starred))
        made = Class(node.name, bases, {"__doc__": attributes.docstring(node)}, scope.module.name)
        made.annotated.extend(
            one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        )
        inner = Scope(made.names, scope.module, scope, is_class=True)
        self.execute(node.body, inner)
        for value in made.names.values():
            function = getattr(value, "function", value)
            if isinstance(function, PythonFunction) and function.owner is None:
                function.owner = made
        enum_.finish(made)
        made = self._made_by_metaclass(node, made, scope)
        self.bind(node.name, self._decorated(made, decorators), scope)

    def _made_by_metaclass(self, node: ast.ClassDef, made: Class, scope: Scope) -> Class:
        """What a metaclass of the package makes of a class; then its base is told of it."""
        given = {one.arg: self.evaluate(one.value, scope) for one in node.keywords if one.arg is not None}
        metaclass = given.pop("metaclass", None)
        if isinstance(metaclass, Class) and isinstance(metaclass.find("__new__"), PythonFunction):
            arguments = [metaclass, made.name, made.bases, made.names]
            result = self.call(metaclass.find("__new__"), arguments, dict(given))
            made = result if isinstance(result, Class) else made
        if isinstance(metaclass, Class) and isinstance(metaclass.find("__init__"), PythonFunction):
            self.call(metaclass.find("__init__"), [made, made.name, made.bases, made.names], dict(given))
        for base in made.ancestry()[1:]:
            hook = base.names.get("__init_subclass__") if isinstance(base, Class) else None
            function = getattr(hook, "function", hook)
            if isinstance(function, PythonFunction):
                self.call(function, [made], given)
                break
        return made

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
                    [one for other in node.cases for one in other.body], scope, NotKnown(self.source_of(node.subject))
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

    def _import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        self.import_from(node, scope)

    def import_names(self, alias: ast.alias, scope: Scope) -> None:
        """``import NAME``."""
        raise NotImplementedError

    def import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        """``from MODULE import NAMES``."""
        raise NotImplementedError


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


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    return target


_EXECUTE: dict[type[ast.stmt], Callable[[Statements, Any, Scope], None]] = {
    ast.Expr: Statements._expression,
    ast.Assign: Statements._assignment,
    ast.AnnAssign: Statements._annotated,
    ast.AugAssign: Statements._augmented,
    ast.If: Statements._if,
    ast.For: Statements._for,
    ast.AsyncFor: Statements._for,
    ast.While: Statements._while,
    ast.With: Statements._with,
    ast.AsyncWith: Statements._with,
    ast.Try: Statements._try,
    ast.Raise: Statements._raise,
    ast.Assert: Statements._assert,
    ast.FunctionDef: Statements._define,
    ast.AsyncFunctionDef: Statements._define,
    ast.ClassDef: Statements._class,
    ast.Return: Statements._return,
    ast.Break: Statements._break,
    ast.Continue: Statements._continue,
    ast.Delete: Statements._delete,
    ast.Global: Statements._outer,
    ast.Nonlocal: Statements._outer,
    ast.Match: Statements._match,
    ast.Import: Statements._import,
    ast.ImportFrom: Statements._import_from,
}
"""The method for each kind of statement; what is not among them does nothing."""
