"""Statements of Python, run one after the other.

Those that have others in them are generators: the body of a generator of the package is suspended where it yields.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from abiscan.python import attributes, special
from abiscan.python.handling import LEAVING, Flow, Handling, ends_in_raise
from abiscan.python.iteration import Body, GeneratorObject, Lazy
from abiscan.python.nodes import TryStar, TypeAlias
from abiscan.python.operations import describe_value
from abiscan.python.signals import BreakSignal, ContinueSignal, ReturnSignal
from abiscan.python.values import (
    ABSENT,
    Further,
    NotKnown,
    Perhaps,
    PythonFunction,
    Scope,
    TargetExpression,
    Thrown,
    Why,
    thrown,
)

_ANNOTATED_LAZILY = (3, 14)
"""The Python that evaluates annotations only where somebody asks for them (PEP 649)."""

_log = logging.getLogger("abiscan.python")


class Statements(Handling):
    """Runs statements."""

    def execute(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Run statements."""
        for statement in body:
            self.count_steps()
            self.frames[-1].line = statement.lineno
            kind = type(statement)
            method = SIMPLE.get(kind)
            if method is not None:
                method(self, statement, scope)
            elif kind in COMPOUND:
                # Statements with others in them are generators everywhere. Outside of a generator of the package, none
                # of them yields.
                for _ in COMPOUND[kind](self, statement, scope):
                    raise AssertionError("only a generator yields")
            else:
                self.not_followed(statement)

    def flow(self, body: Sequence[ast.stmt], scope: Scope) -> Flow:
        """Run statements, one of which may yield."""
        if not self.frames[-1].suspends:
            self.execute(body, scope)
            return
        for statement in body:
            # Only a statement that yields has to be suspended. Its ``yield`` expressions are run first, and what they
            # give is kept for its evaluation, which cannot be suspended itself.
            if not self.library.suspends(statement):
                self.execute((statement,), scope)
                continue
            self.count_steps()
            self.frames[-1].line = statement.lineno
            kind = type(statement)
            if kind in COMPOUND:
                yield from self._lifted(_head_expressions(statement), scope)
                yield from COMPOUND[kind](self, statement, scope)
            else:
                yield from self._lifted([statement], scope)
                self.execute((statement,), scope)

    def not_followed(self, node: ast.AST) -> None:
        """Note code of a kind that is not known here: what it does is not known, either."""
        if self.library.matters(node):
            self.gap(f"{type(node).__name__} is not followed")
            self.trace.is_doubtful = True

    # ---- yield

    def _lifted(self, nodes: Sequence[ast.AST], scope: Scope) -> Flow:
        """Yield what the expressions of a statement yield, and keep what that gives."""
        for node in nodes:
            for expression in _yield_expressions(node):
                value = None if expression.value is None else self.evaluate(expression.value, scope)
                if isinstance(expression, ast.Yield):
                    sent = yield self._run_yielded(value)
                else:
                    sent = yield from self._run_delegated(value)
                self.frames[-1].sent[expression] = sent

    def _run_yielded(self, value: object) -> object:
        self.count_steps()
        return Perhaps("what may be yielded") if self.perhaps else value

    def _run_delegated(self, value: object) -> Body:
        """Return ``yield from``: what is sent and thrown goes to the inner generator."""
        # PEP 380: a plain iterator gets nothing sent; an inner generator gets all that is sent and thrown, and its
        # result is that of the expression.
        if not isinstance(value, GeneratorObject):
            source = self.iterate(value)
            if isinstance(source, NotKnown):
                yield source.part("[…]")
                return None
            for item in source:
                yield self._run_yielded(item)
            return None
        try:
            item = value.send(self, None)
            while True:
                try:
                    sent = yield item
                except Thrown as error:  # noqa: PERF203 - each round of it waits for the next
                    item = value.throw(self, error.failure)
                else:
                    item = value.send(self, sent)
        except Thrown as error:
            if error.failure.cls is not StopIteration:
                raise
            return error.failure.args[0] if error.failure.args else None

    # ---- one method for each form

    def _run_expression(self, node: ast.Expr, scope: Scope) -> None:
        if not isinstance(node.value, ast.Constant):
            self.evaluate(node.value, scope)

    def _run_assignment(self, node: ast.Assign, scope: Scope) -> None:
        value = self.evaluate_unsettled(node.value, scope)
        # A name may stand for a question to the target: what is computed with it later makes one question with it.
        if type(value) is TargetExpression and not self.may_wait(node.targets, value, scope):
            value = self.settle(value)
        for target in node.targets:
            self.assign(target, value, scope)

    def may_wait(self, targets: Sequence[ast.expr], value: TargetExpression, scope: Scope) -> bool:
        """Whether a name may stand for what is still to be asked: nothing can change that value."""
        if not all(isinstance(target, ast.Name) for target in targets):
            return False
        # All such values but lists are immutable. A list may wait if the function only takes items of it.
        if not isinstance(self.world.foresee(value.of), list):
            return True
        function = scope.function
        return function is not None and all(
            isinstance(target, ast.Name) and self.library.is_only_indexed(function.node, target.id)
            for target in targets
        )

    def _run_annotated(self, node: ast.AnnAssign, scope: Scope) -> None:
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value, scope), scope)
        if scope.function is None:
            self._run_annotate(node, scope)

    def _run_annotate(self, node: ast.stmt, scope: Scope) -> None:
        """Evaluate the annotations of a statement, where that may do something."""
        file = scope.module.file
        missing = file is not None and self.misses_names(file)
        annotations = self.library.acting_annotations(node) or (
            self.library.attributes_in_annotations(node) if missing else ()
        )
        if not annotations or self.since(*_ANNOTATED_LAZILY) or self.library.postpones_annotations(file):
            return
        # Where only a missing name acts, it takes a Python that evaluates them.
        if missing and not self._annotates_at_once(node.lineno):
            return
        for annotation in annotations:
            self.evaluate(annotation, scope)

    def _annotates_at_once(self, line: int) -> bool:
        """Whether the Python evaluates annotations as it meets them, or is taken to do so if it is not known."""
        if self.before(*_ANNOTATED_LAZILY):
            return True
        question = NotKnown("sys.version_info < (3, 14)", Why.ENVIRONMENT)
        return self.decide("Python is older than 3.14", Why.ENVIRONMENT, (line, -2), default=True, about=question)

    def _run_augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        target = node.target
        if isinstance(target, ast.Name):
            left = self.look_up(target.id, scope)
            value = special.in_place(self, node.op, left, self.evaluate(node.value, scope))
            # A container was changed in place, and the name stands for it already.
            if value is not left or not isinstance(value, (list, dict, set)):
                self.assign(target, value, scope)
        elif isinstance(target, ast.Attribute):
            owner = self.evaluate(target.value, scope)
            left = self.get_attribute(owner, target.attr)
            self.put(owner, target.attr, special.in_place(self, node.op, left, self.evaluate(node.value, scope)))
        else:
            owner, index = self.evaluate(target.value, scope), self.evaluate(target.slice, scope)
            left = special.get_item(self, owner, index)
            self.set_item(owner, index, special.in_place(self, node.op, left, self.evaluate(node.value, scope)))

    def _run_if(self, node: ast.If, scope: Scope) -> Flow:
        test = self.evaluate(node.test, scope)
        is_true = special.truth_of(self, test)
        if is_true is not None:
            if self.is_traced:
                _log.debug("%s: %s is %s", self.place(), self.source_of(node.test), is_true)
            yield from self.flow(node.body if is_true else node.orelse, scope)
            return
        # The condition is not known. What it was taken to be before holds here, too.
        unknown = test if isinstance(test, NotKnown) else NotKnown(describe_value(test))
        taken = self.taken(unknown)
        if taken is not None:
            yield from self.flow(node.body if taken else node.orelse, scope)
            return
        # If one branch raises, the other one is the usual way: packages are released for machines where they work.
        raises = [ends_in_raise(node.body), ends_in_raise(node.orelse)]
        default = likely_value(node.test) if raises[0] is raises[1] else raises[1]
        if any(raises) and unknown.why is Why.NOT_FOLLOWED:  # a check of what is not known here: it is passed
            self.take(unknown, taken=default)
            yield from self.flow(node.body if default else node.orelse, scope)
        # A decision is worth a run of its own: the other way may raise, load or register, or leave out what does.
        elif any(raises) or unknown.why is Why.TARGET or self.library.acts(node) or self._leaves_what_acts(node):
            text, spot = self.source_of(node.test), (node.lineno, node.col_offset)
            taken = self.decide(text, unknown.why, spot, default=default, about=unknown)
            yield from self.flow(node.body if taken else node.orelse, scope)
        # Nothing that matters depends on it, but what the function returns does.
        elif self.library.leaves(node):
            raise ReturnSignal(unknown)
        else:
            yield from self.flow(node.body if default else node.orelse, scope)
            self.forget_bindings([*node.body, *node.orelse], scope, unknown)

    def _leaves_what_acts(self, node: ast.If) -> bool:
        """Whether a ``return``, ``break`` or ``continue`` may skip something that matters."""
        function = self.frames[-1].function
        return self.library.leaves(node) and (function is None or self.library.acts(function.node))

    def _run_for(self, node: ast.For | ast.AsyncFor, scope: Scope) -> Flow:
        source = self.evaluate(node.iter, scope)
        values = self.iterate(source) if isinstance(node, ast.For) else self.iterate_async(source)
        if isinstance(values, NotKnown):
            values = iter([Further(values.name, values.why, values.origin)])
        ended = yield from self._run_loop(node, values, scope)
        # A generator that nobody has but the loop is closed when it is left by ``break``, which runs its ``finally``.
        if not ended and isinstance(source, Lazy) and not isinstance(node.iter, ast.Name):
            with suppress(Thrown):  # Python only prints what is raised there
                source.close(self)  # nobody else has it

    def _run_loop(
        self, node: ast.For | ast.AsyncFor, values: Iterator[object], scope: Scope
    ) -> Generator[object, object, bool]:
        """Run the body for each value; give whether all of them were taken."""
        for item in values:
            self.count_steps()
            self.frames[-1].line = node.lineno
            value = item
            if isinstance(value, Further):
                # How many items there are is not known. Where that matters: none by default, in another run a single
                # one that is not known. Where it does not, the rest of the loop may run, or may not.
                value = value.part("[…]")
                if not self.library.matters(node):
                    yield from self._run_perhaps(self._run_loop(node, chain((value,), values), scope))
                    self.forget_bindings([node], scope, value)
                    return True
                spot = (node.lineno, node.col_offset)
                if self.decide(f"{self.source_of(node.iter)} is empty", value.why, spot, default=True):
                    continue
            try:
                self.assign(node.target, value, scope)
                yield from self.flow(node.body, scope)
            except ContinueSignal:
                continue
            except BreakSignal:
                return False
        yield from self.flow(node.orelse, scope)
        return True

    def _run_perhaps(self, flow: Generator[object, object, object]) -> Flow:
        """Run what may run any number of times, or not at all: it raises nothing that is certain."""
        # ``perhaps`` holds while the statements run, not while a generator of the package that they are in is
        # suspended.
        before = self.perhaps
        sent: object = None
        try:
            while True:
                self.perhaps = True
                try:
                    item = flow.send(sent)
                finally:
                    self.perhaps = before
                sent = yield item
        except (StopIteration, Thrown, *LEAVING):
            pass

    def _run_while(self, node: ast.While, scope: Scope) -> Flow:
        while True:
            self.count_steps()
            test = self.evaluate(node.test, scope)
            is_true = special.truth_of(self, test)
            if is_true is None:
                yield from self._once_perhaps(node, test, scope)
                return
            if not is_true:
                break
            try:
                yield from self.flow(node.body, scope)
            except ContinueSignal:
                continue
            except BreakSignal:
                return
            # What the condition yields is yielded again before each round.
            yield from self._lifted([node.test], scope) if self.frames[-1].suspends else ()
        yield from self.flow(node.orelse, scope)

    def _once_perhaps(self, node: ast.While, test: object, scope: Scope) -> Flow:
        """Yield a loop whose condition is not known: the body runs once, or not at all."""
        if not self.library.matters(node):
            yield from self._run_perhaps(self.flow(node.body, scope))
        else:
            why = test.why if isinstance(test, NotKnown) else Why.NOT_FOLLOWED
            spot = (node.lineno, node.col_offset)
            if self.decide(self.source_of(node.test), why, spot, default=False):
                with suppress(BreakSignal, ContinueSignal):
                    yield from self.flow(node.body, scope)
        self.forget_bindings([node], scope, NotKnown(self.source_of(node.test)))

    def _run_define(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope) -> None:
        # Language reference, 8.7: decorators and defaults are evaluated before the function is made, and decorators are
        # called from the innermost to the outermost.
        decorators = [(decorator.lineno, self.evaluate(decorator, scope)) for decorator in node.decorator_list]
        made: object = PythonFunction(
            node.name,
            node,
            with_parameters(node, scope),
            self.defaults(node.args, scope),
            qualified=scope.qualify(node.name),
        )
        self._run_annotate(node, scope)
        self.bind(node.name, self._run_decorated(made, decorators), scope)

    def _run_decorated(self, made: object, decorators: list[tuple[int, object]]) -> object:
        for line, decorator in reversed(decorators):
            if isinstance(decorator, NotKnown) or isinstance(
                special.special_method(self, decorator, "__call__"), NotKnown
            ):
                continue  # most decorators give back something that does the same, and call it later
            self.frames[-1].line = line
            result = self.call(decorator, [made], {})
            made = made if isinstance(result, NotKnown) else result
        return made

    def _run_class(self, node: ast.ClassDef, scope: Scope) -> None:
        decorators = [(decorator.lineno, self.evaluate(decorator, scope)) for decorator in node.decorator_list]
        made = self.define_class(node, scope)
        self.bind(node.name, self._run_decorated(made, decorators), scope)

    def define_class(self, node: ast.ClassDef, scope: Scope) -> object:
        """Return what a ``class`` statement makes, before its decorators."""
        raise NotImplementedError

    def _type_alias(self, node: ast.AST, scope: Scope) -> None:
        """Execute ``type NAME = VALUE``: the value is computed only where somebody asks for it."""
        name = getattr(node, "name", None)
        if isinstance(name, ast.Name):
            self.bind(name.id, NotKnown(name.id), scope)

    def _run_return(self, node: ast.Return, scope: Scope) -> None:
        raise ReturnSignal(None if node.value is None else self.evaluate(node.value, scope))

    def _run_break(self, _node: ast.Break, _scope: Scope) -> None:
        raise BreakSignal

    def _run_continue(self, _node: ast.Continue, _scope: Scope) -> None:
        raise ContinueSignal

    def _run_delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            self._delete_one(target, scope)

    def _delete_one(self, target: ast.expr, scope: Scope) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self._delete_one(element, scope)
        elif isinstance(target, ast.Name):
            names = scope.outer_names.get(target.id, scope).names
            if names.pop(target.id, ABSENT) is ABSENT and not scope.module.open_ and not self.perhaps:
                raise thrown(NameError, f"name '{target.id}' is not defined")
        elif isinstance(target, ast.Attribute):
            attributes.delete_attribute(self, self.evaluate(target.value, scope), target.attr)
        elif isinstance(target, ast.Subscript):
            special.delete_item(self, self.evaluate(target.value, scope), self.evaluate(target.slice, scope))

    def _run_outer(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
        # ``global`` goes outwards to the scope of the module, ``nonlocal`` to the nearest one that has the name by now.
        home: Scope | None = scope.around
        for name in node.names:
            enclosing = home
            while (
                enclosing is not None
                and enclosing.around is not None
                and (isinstance(node, ast.Global) or name not in enclosing.names)
            ):
                enclosing = enclosing.around
            if enclosing is not None:
                scope.outer_names[name] = enclosing

    def _run_match(self, node: ast.Match, scope: Scope) -> Flow:
        from abiscan.python.patterns import match_pattern

        subject = self.evaluate(node.subject, scope)
        for case in node.cases:
            fits = match_pattern(self, case.pattern, subject, scope)
            guard: bool | None = True
            if case.guard is not None and fits is not False:
                # Where it is not known whether the pattern fits, neither is whether its guard is evaluated.
                evaluate = self.evaluate if fits else self._perhaps_value
                guard = special.truth_of(self, evaluate(case.guard, scope))
            if fits is False or guard is False:
                continue
            # As with ``if``: a decision only where it matters which case runs. Without one, the names that all cases
            # bind are forgotten.
            if fits is None or guard is None:
                if not self.library.matters(node):
                    self.forget_bindings(
                        [statement for item in node.cases for statement in item.body], scope, NotKnown("match")
                    )
                    return
                text = f"{self.source_of(node.subject)} matches {self.source_of(case.pattern)}"
                why = subject.why if isinstance(subject, NotKnown) else Why.NOT_FOLLOWED
                spot = (case.pattern.lineno, case.pattern.col_offset)
                if not self.decide(text, why, spot, default=False):
                    continue
            yield from self.flow(case.body, scope)
            return

    def _run_import(self, node: ast.Import, scope: Scope) -> None:
        for alias in node.names:
            self.import_names(alias, scope)

    def _import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        self.import_from(node, scope)

    def import_names(self, alias: ast.alias, scope: Scope) -> None:
        """Execute ``import NAME``."""
        raise NotImplementedError

    def import_from(self, node: ast.ImportFrom, scope: Scope) -> None:
        """Execute ``from MODULE import NAMES``."""
        raise NotImplementedError


def likely_value(test: ast.expr) -> bool:
    """Return what a condition is where nothing unusual is there: no GPU, no option set, no optional package."""
    # Most conditions that are not known ask for something unusual, so a plain one is false, and so is equality.
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return not likely_value(test.operand)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return isinstance(test.ops[0], (ast.NotEq, ast.IsNot, ast.NotIn))
    if isinstance(test, ast.BoolOp):
        ways = [likely_value(part) for part in test.values]
        return all(ways) if isinstance(test.op, ast.And) else any(ways)
    return False


def with_parameters(node: ast.stmt, scope: Scope) -> Scope:
    """Return the scope around a function or class, with its type parameters: ``def f[T](x: T)``."""
    names = [parameter.name for parameter in getattr(node, "type_params", ())]
    return Scope({name: NotKnown(name) for name in names}, scope.module, scope, prefix=scope.prefix) if names else scope


def _head_expressions(statement: ast.stmt) -> list[ast.AST]:
    """Return the expressions that a statement evaluates before those in it run."""
    parts = (getattr(statement, name, None) for name in ("test", "iter", "subject"))
    return [part for part in parts if isinstance(part, ast.AST)]


def _yield_expressions(node: ast.AST) -> Iterator[ast.Yield | ast.YieldFrom]:
    """Yield the ``yield`` expressions in an expression or a simple statement, inner ones first."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
        return
    for child in ast.iter_child_nodes(node):
        yield from _yield_expressions(child)
    if isinstance(node, (ast.Yield, ast.YieldFrom)):
        yield node


def _run_pass(_statements: Statements, _node: ast.stmt, _scope: Scope) -> None:
    """Execute ``pass``."""


SIMPLE: dict[type[ast.AST], Callable[[Statements, Any, Scope], None]] = {
    ast.Expr: Statements._run_expression,
    ast.Pass: _run_pass,
    ast.Assign: Statements._run_assignment,
    ast.AnnAssign: Statements._run_annotated,
    ast.AugAssign: Statements._run_augmented,
    ast.Raise: Statements._run_raise,
    ast.Assert: Statements._run_assert,
    ast.FunctionDef: Statements._run_define,
    ast.AsyncFunctionDef: Statements._run_define,
    ast.ClassDef: Statements._run_class,
    ast.Return: Statements._run_return,
    ast.Break: Statements._run_break,
    ast.Continue: Statements._run_continue,
    ast.Delete: Statements._run_delete,
    ast.Global: Statements._run_outer,
    ast.Nonlocal: Statements._run_outer,
    ast.Import: Statements._run_import,
    ast.ImportFrom: Statements._import_from,
    TypeAlias: Statements._type_alias,
}
"""The method for each statement that has no other in it; one of a kind that is in neither table is a gap."""
COMPOUND: dict[type[ast.AST], Callable[[Statements, Any, Scope], Flow]] = {
    ast.If: Statements._run_if,
    ast.For: Statements._run_for,
    ast.AsyncFor: Statements._run_for,
    ast.While: Statements._run_while,
    ast.With: Statements._run_with,
    ast.AsyncWith: Statements._run_with,
    ast.Try: Statements._run_try,
    TryStar: Statements._run_try,
    ast.Match: Statements._run_match,
}
"""The method for each statement that has others in it."""
