"""Statements of Python, run one after the other.

Those that have others in them are generators: the body of a generator of the package is suspended where it yields.
"""

from __future__ import annotations

import ast
import logging
import operator
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final, NamedTuple

from msgspec import Struct

from abiscan.python.interpreter import attributes, special
from abiscan.python.interpreter.compiling import OTHERS, STATEMENTS, Code, Compiler, Target, body_of, statement_of
from abiscan.python.interpreter.expression_forms import compile_call, compile_defaults
from abiscan.python.interpreter.handling import Flow, Handling, caught, ends_in_raise
from abiscan.python.interpreter.iteration import Body, Enumerated, GeneratorObject, Lazy, number_items
from abiscan.python.interpreter.machine import ProcessEnded, Unreadable
from abiscan.python.interpreter.operations import describe_value
from abiscan.python.interpreter.signals import BREAK, CONTINUE, Either, Returned, Signal
from abiscan.python.interpreter.values import (
    ABSENT,
    MORE_ITEMS,
    MoreItems,
    NotKnown,
    PossibleItems,
    PythonFunction,
    Scope,
    TargetExpression,
    Thrown,
    Why,
    is_concrete,
    thrown,
)
from abiscan.python.language.grammar import ANNOTATED_LAZILY
from abiscan.python.language.late_bodies import LateAsyncFunction, LateFunction, Unparsed, has_late_parameters
from abiscan.python.language.nodes import TryStar, TypeAlias, walk
from abiscan.python.language.private_names import written_name
from abiscan.python.package.library import acting_annotations, annotations_of, names_in_annotations

_log = logging.getLogger("abiscan.python")


class Way(NamedTuple):
    """Which branch of an ``if`` runs.

    :ivar forgotten: what the names stand for afterwards that either branch binds; None if the right one has run
    """

    taken: bool
    forgotten: NotKnown | None = None


_SEARCH_PATH: Final = "LD_LIBRARY_PATH"
_WAYS: Final = (Way(taken=False), Way(taken=True))


class Statements(Handling):
    """Runs statements."""

    def execute(self, body: Sequence[ast.stmt], scope: Scope) -> Signal | None:
        """Run statements; return how they end."""
        return body_of(body)(self, scope)

    def execute_whole(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Run statements that no ``return``, ``break`` or ``continue`` may leave: ast accepts what Python refuses."""
        if self.execute(body, scope) is not None:
            raise self.misplaced()

    def misplaced(self) -> Unreadable:
        """Note that the code is none that Python accepts; return what ends the run."""
        problem = "is not valid Python: return, break or continue outside a function or loop"
        self.gap(problem)
        return Unreadable(problem)

    def flow(self, body: Sequence[ast.stmt], scope: Scope) -> Flow:
        """Run statements, one of which may yield; return how they end."""
        if not self.frames[-1].suspends:
            return self.execute(body, scope)
        for statement in body:
            # Only a statement that yields has to be suspended. Its ``yield`` expressions are run first, and what they
            # give is kept for its evaluation, which cannot be suspended itself.
            steps, code = statement_of(statement)
            self.count_steps(steps)
            self.frames[-1].line = statement.lineno
            kind = type(statement)
            if not self.library.suspends(statement):
                signal = code(self, scope)
            elif kind in COMPOUND:
                yield from self._lifted(_head_expressions(statement), scope)
                signal = yield from COMPOUND[kind](self, statement, scope)
            else:
                yield from self._lifted([statement], scope)
                self.frames[-1].line = statement.lineno
                signal = code(self, scope)
            if signal is not None:
                return signal
        return None

    def not_followed(self, node: ast.AST) -> None:
        """Note code of a kind that is not known here: what it does is not known, either."""
        if self.library.matters(node):
            self.gap(f"{type(node).__name__} is not followed")
            self.trace.is_doubtful = True

    # ---- yield

    def _lifted(self, nodes: Sequence[ast.AST], scope: Scope) -> Generator[object, object, None]:
        """Yield what the expressions of a statement yield, and keep what that gives."""
        for node in nodes:
            expressions: list[ast.Yield | ast.YieldFrom] | None = node.__dict__.get("yields")
            if expressions is None:
                expressions = node.__dict__["yields"] = list(_yield_expressions(node))
            for expression in expressions:
                value = None if expression.value is None else self.evaluate(expression.value, scope)
                if isinstance(expression, ast.Yield):
                    sent = yield self._run_yielded(value)
                else:
                    sent = yield from self._run_delegated(value)
                self.frames[-1].sent[expression] = sent

    def _run_yielded(self, value: object) -> object:
        self.count_steps()
        return PossibleItems("what may be yielded") if self.is_speculative else value

    def _run_delegated(self, value: object) -> Body:
        """Execute ``yield from``: what is sent and thrown goes to the inner generator."""
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

    # ---- what the compiled forms ask

    def run_annotate(self, node: ast.stmt, acting: Sequence[ast.expr], scope: Scope) -> None:
        """Evaluate the annotations of a statement, where that may do something.

        :param acting: those that may run code of the package: see ``acting_annotations``
        """
        file = scope.module.file
        # In most sources that have names for annotations alone, none is evaluated: nothing is looked for in those.
        if self.library.postpones_annotations(file):
            return
        missing = file is not None and self.misses_names(file)
        annotations = acting or (self.library.attributes_in_annotations(node) if missing else ())
        unbound = names_in_annotations(node, self.unbound_in[file]) if file in self.unbound_in else ()
        if not (annotations or unbound) or self.since(*ANNOTATED_LAZILY):
            return
        # Where only a missing name acts, it takes a Python that evaluates them.
        if (missing or unbound) and not self._annotates_at_once(node.lineno):
            return
        for annotation in (*unbound, *annotations):
            self.evaluate(annotation, scope)

    def looks_at_annotations(self, scope: Scope) -> bool:
        """Whether annotations of a module may name what is not there."""
        file = scope.module.file
        return file in self.unbound_in or self.missing_in.get(file, True)

    def _annotates_at_once(self, line: int) -> bool:
        """Whether the Python evaluates annotations as it meets them, or is taken to do so if it is not known."""
        if self.before(*ANNOTATED_LAZILY):
            return True
        question = NotKnown("sys.version_info < (3, 14)", Why.ENVIRONMENT)
        return self.decide("Python is older than 3.14", Why.ENVIRONMENT, (line, -2), default=True, about=question)

    def _run_if(self, node: ast.If, scope: Scope) -> Flow:
        way = self.choose(node, self.evaluate(node.test, scope))
        if isinstance(way, Returned):
            return way
        try:
            signal = yield from self.flow(node.body if way.taken else node.orelse, scope)
        except (Thrown, ProcessEnded) as end:
            self.note_way(node, way, end)
            raise
        self.note_other_way(node, way, scope, signal)
        return signal

    def note_other_way(self, node: ast.If, way: Way, scope: Scope, signal: Signal | None) -> None:
        """Note what the branch may have done, or would have done, that did not run."""
        if way.forgotten is None:
            if scope.around is None:
                self.note_unbound(node.orelse if way.taken else node.body, scope)
        elif signal is None:
            self.forget_way(node, way, scope)

    def note_unbound(self, body: Sequence[ast.stmt], scope: Scope) -> None:
        """Note the names that some statements of a module would have bound, which annotations may have all the same."""
        if body and not self.is_speculative:
            names = set[str]().union(*map(self.library.bound_names, body)).difference(scope.names)
            if names:
                self.unbound_in.setdefault(scope.module.file, set()).update(names)

    def forget_way(self, node: ast.If, way: Way, scope: Scope) -> None:
        """Forget what either branch binds, and note what the other one may have changed."""
        assert way.forgotten is not None
        # What stands in the user's own search path is none of the package's: without it is the usual way.
        if _SEARCH_PATH in way.forgotten.name:
            self.forget_bindings([*node.body, *node.orelse], scope, way.forgotten)
            return
        from abiscan.python.interpreter.untaken import note_grown, note_untaken  # few checks come to such a condition

        other = node.orelse if way.taken else node.body
        note_grown(self, other, scope)
        self.forget_bindings([*node.body, *node.orelse], scope, way.forgotten)
        note_untaken(self, other, scope)

    def note_way(self, node: ast.If, way: Way, end: Thrown | ProcessEnded) -> None:
        """Note that the import ends in a branch that did not seem to matter: the condition decides whether it does."""
        unknown = way.forgotten
        # Where the import ends on the other way, too, the run of that comes to the next condition around.
        if unknown is None or end is self.noted_end:
            return
        if isinstance(end, Thrown) and any(caught(end.failure, guard) for guard in self.guards):
            return
        self.noted_end = end
        spot = (node.lineno, node.col_offset)
        self.decide(self.source_of(node.test), unknown.why, spot, default=way.taken, about=unknown)

    def choose(self, node: ast.If, test: object) -> Way | Returned:
        """Return which way an ``if`` goes, by its condition; or what the function returns in either case."""
        is_true = special.truth_of(self, test)
        if is_true is not None:
            if self.is_traced:
                _log.debug("%s: %s is %s", self.place(), self.source_of(node.test), is_true)
            return _WAYS[is_true]
        # The condition is not known. What was assumed of it before holds here, too.
        unknown = test if isinstance(test, NotKnown) else NotKnown(describe_value(test))
        taken = self.taken(unknown)
        if taken is not None:
            return _WAYS[taken]
        # If one branch raises, the other one is the usual way: packages are released for machines where they work.
        raises = [ends_in_raise(node.body), ends_in_raise(node.orelse)]
        default = likely_value(node.test) if raises[0] is raises[1] else raises[1]
        # A check of what is not known here is passed, unless the function may also return from the branch that raises.
        is_check = any(
            raise_ and not any(map(self.library.leaves, branch))
            for raise_, branch in zip(raises, (node.body, node.orelse), strict=True)
        )
        if is_check and unknown.why is Why.NOT_FOLLOWED:
            self._need_check(node, unknown, holds=default)
            self.take(unknown, taken=default)
            return _WAYS[default]
        # A decision is worth a run of its own: the other way may raise, load or register, or leave out what does. So is
        # one that an import may end for, by what an earlier run has seen.
        spot = (node.lineno, node.col_offset)
        matters = self.is_chosen(spot) or self.acts(node) or self._leaves_what_acts(node)
        if any(raises) or unknown.why is Why.TARGET or matters:
            text = self.source_of(node.test)
            return _WAYS[self.decide(text, unknown.why, spot, default=default, about=unknown)]
        # Nothing that matters depends on it, but what the function returns does.
        if self.library.leaves(node):
            return Either(unknown, body_of(node.body), body_of(node.orelse))
        changes = _SEARCH_PATH not in unknown.name and self.library.changes_objects(node)
        self.note_passed(unknown, spot, taken=default, changes=changes)
        return Way(default, unknown)

    def _need_check(self, node: ast.If, unknown: NotKnown, *, holds: bool) -> None:
        """Note a check that a module makes of another package as it is imported, if nothing promises that it passes."""
        package = unknown.name.removeprefix("not ").partition(".")[0]
        is_there = self.library.requires(package) or self.library.surroundings.place_of(package) is not None
        is_other = isinstance(self.modules.get(package), NotKnown) and not is_there
        if is_other and self.frames[-1].function is None and not self.guards:
            check = f"{self.source_of(node.test)} is {'true' if holds else 'false'}"
            self.need("requirement", package, f"the package does not require {package}, and raises unless {check}")

    def returned_on_both(self, either: Either, remaining: Sequence[Code], scope: Scope) -> Returned:
        """Return what a function returns on both ways past a condition that is not known, if that is the same."""
        unknown = either.value
        # Both are run, whatever the first comes to: the other may change an object, too.
        signals = [
            self.run_speculatively(_run_all, way, self, scope) for way in ([either.taken], [either.other, *remaining])
        ]
        values = [signal.value for signal in signals if isinstance(signal, Returned)]
        if len(values) == 2 and is_concrete(values) and type(values[0]) is type(values[1]) and values[0] == values[1]:
            return Returned(values[0])
        return Returned(unknown)

    def _leaves_what_acts(self, node: ast.If) -> bool:
        """Whether a ``return``, ``break`` or ``continue`` may skip something that matters."""
        function = self.frames[-1].function
        return self.library.leaves(node) and (function is None or self.acts(function.node))

    def looped(self, node: ast.For | ast.AsyncFor, source: object) -> Iterator[object]:
        """Return what a loop goes through."""
        values = special.iterate_over(self, source) if isinstance(node, ast.For) else self.iterate_async(source)
        return iter([MoreItems(values.name, values.why, values.origin)]) if isinstance(values, NotKnown) else values

    def close_source(self, node: ast.For | ast.AsyncFor, source: object) -> None:
        """Close a generator that nobody has but the loop, which is left by ``break``: that runs its ``finally``."""
        if isinstance(source, Lazy) and not isinstance(node.iter, ast.Name):
            with suppress(Thrown):  # Python only prints what is raised there
                source.close(self)

    def _run_for(self, node: ast.For | ast.AsyncFor, scope: Scope) -> Flow:
        source = self.evaluate(node.iter, scope)
        return (yield from self._run_loop(node, source, self.looped(node, source), scope))

    def _run_loop(self, node: ast.For | ast.AsyncFor, source: object, values: Iterator[object], scope: Scope) -> Flow:
        """Run the body for each value, and what comes after them; give how that ends."""
        for item in values:
            self.count_steps()
            self.frames[-1].line = node.lineno
            value = item
            if isinstance(value, MoreItems):
                value = value.part("[…]")
                if self.may_pass(node):
                    if not self.acts(node):
                        yield from self._run_flow_speculatively(
                            self._run_loop(node, source, chain((value,), values), scope)
                        )
                    return self.passed(node, value, scope)
                if self.is_empty(node, value):
                    continue
            self.assign(node.target, value, scope)
            signal = yield from self.flow(node.body, scope)
            if signal is BREAK:
                self.close_source(node, source)
                return None
            if signal is not None and signal is not CONTINUE:
                return signal
        return (yield from self.flow(node.orelse, scope))

    def may_pass(self, node: ast.For | ast.AsyncFor | ast.While) -> bool:
        """Whether a loop, of which it is not known whether it runs, is worth no decision about that."""
        return self.is_speculative or not self.matters(node)

    def passed(self, node: ast.For | ast.AsyncFor | ast.While, unknown: NotKnown, scope: Scope) -> Signal | None:
        """Return how a loop ends that may have run: by a ``return`` in it, perhaps."""
        self.forget_bindings([node], scope, unknown)
        if not self.library.returns(node):
            return None
        return Either(unknown, lambda _machine, _scope: Returned(unknown), lambda _machine, _scope: None)

    def is_empty(self, node: ast.For | ast.AsyncFor, value: NotKnown) -> bool:
        """Whether there are no items, where that is not known: none by default, a single unknown one in another run."""
        spot = (node.lineno, node.col_offset)
        return self.decide(f"{self.source_of(node.iter)} is empty", value.why, spot, default=True)

    def run_speculatively(self, code: Callable[..., object], *args: object) -> object:
        """Run what may run any number of times, or not at all: it raises nothing that is certain."""
        before, self.is_speculative = self.is_speculative, True
        try:
            return code(*args)
        except Thrown:
            return None
        finally:
            self.is_speculative = before

    def _run_flow_speculatively(self, flow: Generator[object, object, object]) -> Generator[object, object, None]:
        """Run what may run any number of times, or not at all, and may yield."""
        # ``is_speculative`` holds while the statements run, not while a generator of the package that they are in is
        # suspended.
        before = self.is_speculative
        sent: object = None
        try:
            while True:
                self.is_speculative = True
                try:
                    item = flow.send(sent)
                finally:
                    self.is_speculative = before
                sent = yield item
        except (StopIteration, Thrown):
            pass

    def _run_while(self, node: ast.While, scope: Scope) -> Flow:
        rounds = 0
        while True:
            self.count_steps()
            rounds += self.is_speculative
            if rounds > _MOST_SPECULATIVE_ROUNDS:
                return self.passed(node, NotKnown(self.source_of(node.test)), scope)
            test = self.evaluate(node.test, scope)
            is_true = special.truth_of(self, test)
            if is_true is None:
                return (yield from self._run_once_speculatively(node, test, scope))
            if not is_true:
                return (yield from self.flow(node.orelse, scope))
            signal = yield from self.flow(node.body, scope)
            if signal is not None and signal is not CONTINUE:
                return None if signal is BREAK else signal
            # What the condition yields is yielded again before each round.
            yield from self._lifted([node.test], scope)

    def _run_once_speculatively(self, node: ast.While, test: object, scope: Scope) -> Flow:
        """Yield a loop whose condition is not known: the body runs once, or not at all."""
        unknown = NotKnown(self.source_of(node.test))
        if self.may_pass(node):
            if not self.acts(node):
                yield from self._run_flow_speculatively(self.flow(node.body, scope))
            return self.passed(node, unknown, scope)
        signal = (yield from self.flow(node.body, scope)) if self.is_entered(node, test) else None
        if not isinstance(signal, Returned):
            self.forget_bindings([node], scope, unknown)
        return signal if isinstance(signal, Returned) else None

    def is_entered(self, node: ast.While, test: object) -> bool:
        """Whether a loop with a condition that is not known runs."""
        why = test.why if isinstance(test, NotKnown) else Why.NOT_FOLLOWED
        return self.decide(self.source_of(node.test), why, (node.lineno, node.col_offset), default=False)

    def decorated(self, made: object, decorators: Sequence[tuple[int, object]]) -> object:
        """Return what decorators make of a function or a class."""
        for line, decorator in reversed(decorators):
            result: object = decorator
            if type(decorator) is not PythonFunction and not isinstance(decorator, NotKnown):
                result = special.special_method(self, decorator, "__call__")
            if not isinstance(result, NotKnown):
                self.frames[-1].line = line
                result = self.call_unsettled(decorator, [made], {})
                result = self.settle(result) if type(result) is TargetExpression else result
            if not isinstance(result, NotKnown):
                made = result
            elif isinstance(made, PythonFunction):
                made.may_be_replaced = True  # most give back something that does the same, and call it later
                # Decorators of other packages keep the name, as a rule. One that was followed made what is not known.
                made.may_be_renamed |= type(decorator) is PythonFunction
        return made

    def _run_class(self, node: ast.ClassDef, scope: Scope) -> None:
        decorators = [(decorator.lineno, self.evaluate(decorator, scope)) for decorator in node.decorator_list]
        made = self.define_class(node, scope)
        self.bind(node.name, self.decorated(made, decorators), scope)

    def define_class(self, node: ast.ClassDef, scope: Scope) -> object:
        """Return what a ``class`` statement makes, before its decorators."""
        raise NotImplementedError

    def _run_unparsed(self, _node: Unparsed, _scope: Scope) -> None:
        problem = "has a function whose body cannot be parsed"
        self.gap(problem)
        raise Unreadable(problem)

    def _type_alias(self, node: ast.AST, scope: Scope) -> None:
        """Execute ``type NAME = VALUE``: the value is computed only where somebody asks for it."""
        name = getattr(node, "name", None)
        if isinstance(name, ast.Name):
            self.bind(name.id, NotKnown(name.id), scope)

    def _run_delete(self, node: ast.Delete, scope: Scope) -> None:
        for target in node.targets:
            self._delete_one(target, scope)

    def _delete_one(self, target: ast.expr, scope: Scope) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self._delete_one(element, scope)
        elif isinstance(target, ast.Name):
            home = scope.outer_names.get(target.id, scope)
            if self.is_speculative and home is not scope:
                self.bind(target.id, NotKnown(target.id), scope)
            elif home.names.pop(target.id, ABSENT) is ABSENT and not scope.module.open_ and not self.is_speculative:
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
        from abiscan.python.interpreter.patterns import match_pattern

        subject = self.evaluate(node.subject, scope)
        for case in node.cases:
            fits = match_pattern(self, case.pattern, subject, scope)
            guard: bool | None = True
            if case.guard is not None and fits is not False:
                # Where it is not known whether the pattern fits, neither is whether its guard is evaluated.
                evaluate = self.evaluate if fits else self._speculative_value
                guard = special.truth_of(self, evaluate(case.guard, scope))
            if fits is False or guard is False:
                continue
            # As with ``if``: a decision only where it matters which case runs. Without one, the names that all cases
            # bind are forgotten.
            if fits is None or guard is None:
                if not self.matters(node):
                    self.forget_bindings(
                        [statement for item in node.cases for statement in item.body], scope, NotKnown("match")
                    )
                    return None
                text = f"{self.source_of(node.subject)} matches {self.source_of(case.pattern)}"
                why = subject.why if isinstance(subject, NotKnown) else Why.NOT_FOLLOWED
                spot = (case.pattern.lineno, case.pattern.col_offset)
                if not self.decide(text, why, spot, default=False):
                    continue
            return (yield from self.flow(case.body, scope))
        return None


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


# ---- the compiled forms


def _compile_expression(compiler: Compiler, node: ast.Expr) -> Code:
    if isinstance(node.value, ast.Constant):
        return _run_pass
    value = compiler.value(node.value)

    def run(machine: Statements, scope: Scope) -> None:
        value(machine, scope)

    return run


def _compile_assignment(compiler: Compiler, node: ast.Assign) -> Code:
    if isinstance(node.value, ast.Call) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Tuple):
        compiler.steps += 1
        value = compile_call(compiler, node.value, settles=False, for_names=True)
    else:
        value = compiler.value(node.value, settles=False)
    targets = tuple(map(compiler.target, node.targets))
    only = targets[0] if len(targets) == 1 else None

    def run(machine: Statements, scope: Scope) -> None:
        made = value(machine, scope)
        # A name may stand for a question to the target: what is computed with it later makes one question with it.
        if type(made) is TargetExpression and not machine.may_wait(node.targets, made, scope):
            made = machine.settle(made)
        if only is not None:
            only(machine, scope, made)
            return
        for target in targets:
            target(machine, scope, made)

    return run


def _compile_annotated(compiler: Compiler, node: ast.AnnAssign) -> Code:
    value = None if node.value is None else compiler.value(node.value)
    target = None if node.value is None else compiler.target(node.target)
    acting = acting_annotations(node)

    def run(machine: Statements, scope: Scope) -> None:
        if value is not None and target is not None:
            target(machine, scope, value(machine, scope))
        if scope.function is None and (acting or machine.looks_at_annotations(scope)):
            machine.run_annotate(node, acting, scope)

    return run


def _compile_augmented(compiler: Compiler, node: ast.AugAssign) -> Code:
    target, op, value = node.target, node.op, compiler.value(node.value)
    if isinstance(target, ast.Name):
        name = target.id
        read, store = compiler.value(ast.Name(name, ast.Load())), compiler.target(target)

        def change_name(machine: Statements, scope: Scope) -> None:
            left = read(machine, scope)
            made = special.in_place(machine, op, left, value(machine, scope))
            # A container was changed in place, and the name stands for it already, but for one from outside of a class.
            if made is not left or scope.is_class or not isinstance(made, (list, dict, set)):
                store(machine, scope, made)

        return change_name
    owner = compiler.value(target.value)
    if isinstance(target, ast.Attribute):
        attribute = target.attr

        def change_attribute(machine: Statements, scope: Scope) -> None:
            of = owner(machine, scope)
            left = machine.get_attribute(of, attribute)
            machine.put(of, attribute, special.in_place(machine, op, left, value(machine, scope)))

        return change_attribute
    place = compiler.value(target.slice)

    def change_item(machine: Statements, scope: Scope) -> None:
        of, index = owner(machine, scope), place(machine, scope)
        left = special.get_item(machine, of, index)
        machine.set_item(of, index, special.in_place(machine, op, left, value(machine, scope)))

    return change_item


def _compile_define(compiler: Compiler, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Code:
    # Language reference, 8.7: decorators and defaults are evaluated before the function is made, and decorators are
    # called from the innermost to the outermost.
    decorators = tuple((decorator.lineno, compiler.value(decorator)) for decorator in node.decorator_list)
    is_late = has_late_parameters(node)
    # The default arguments of such a function are left as they are written, for now.
    defaults = None if is_late else compile_defaults(compiler, node.args)
    acting = () if is_late else acting_annotations(node)
    name, written, is_annotated = node.name, written_name(node), is_late or next(annotations_of(node), None) is not None
    has_parameters = bool(getattr(node, "type_params", ()))

    def define(machine: Statements, scope: Scope) -> None:
        marks = [(line, decorator(machine, scope)) for line, decorator in decorators] if decorators else ()
        made = PythonFunction(
            written,
            node,
            with_parameters(node, scope) if has_parameters else scope,
            None if defaults is None else defaults(machine, scope),
            qualified=scope.qualify(written) if scope.outer_names else scope.prefix + written,
        )
        if is_annotated and (acting or machine.looks_at_annotations(scope)):
            machine.run_annotate(node, acting, scope)
        value = machine.decorated(made, marks) if marks else made
        if scope.outer_names:
            machine.bind(name, value, scope)
        else:
            scope.names[name] = value

    return define


def _compile_return(compiler: Compiler, node: ast.Return) -> Code:
    if node.value is None:
        return lambda _machine, _scope: _NOTHING
    if isinstance(node.value, ast.Tuple) and not any(isinstance(part, ast.Starred) for part in node.value.elts):
        return _compile_tuple_return(compiler, node.value)
    value = compiler.value(node.value, settles=False)

    def run(machine: Statements, scope: Scope) -> Returned:
        made = value(machine, scope)
        # So targets that only differ in what nobody looks at, such as the build of a version, answer alike.
        if type(made) is TargetExpression and not machine.may_return(made):
            made = machine.settle(made)
        return Returned(made)

    return run


def _compile_tuple_return(compiler: Compiler, node: ast.Tuple) -> Code:
    compiler.steps += 1
    parts = [compiler.value(part, settles=False) for part in node.elts]

    def run(machine: Statements, scope: Scope) -> Returned:
        made = tuple([part(machine, scope) for part in parts])
        # A question to the target waits in a name, and in nothing else that is handed on.
        if TargetExpression in map(type, made) and (machine.is_speculative or not machine.frames[-1].for_names):
            made = tuple(map(machine.settle, made))
        return Returned(made)

    return run


def _compile_if(compiler: Compiler, node: ast.If) -> Code:
    test, body, orelse = compiler.value(node.test), body_of(node.body), body_of(node.orelse)

    def run(machine: Statements, scope: Scope) -> Signal | None:
        value = test(machine, scope)
        if not machine.is_traced and (value is True or value is False):
            signal = (body if value else orelse)(machine, scope)
            if scope.around is None:
                machine.note_unbound(node.orelse if value else node.body, scope)
            return signal
        way = machine.choose(node, value)
        if isinstance(way, Returned):
            return way
        try:
            signal = (body if way.taken else orelse)(machine, scope)
        except (Thrown, ProcessEnded) as end:
            machine.note_way(node, way, end)
            raise
        machine.note_other_way(node, way, scope, signal)
        return signal

    return run


class _Idle(Struct, frozen=True):
    """When the body of a loop does nothing for an item, which is a text or has one in a certain place.

    :ivar test: a condition about the text
    :ivar result: what it gives where nothing is done
    :ivar place: that of the text among the targets, None if there is but one
    :ivar count: how many targets there are
    """

    test: Callable[[str], bool]
    result: bool
    place: int | None
    count: int

    def holds_for(self, item: object) -> bool:
        """Whether nothing is done for an item."""
        text = item
        if self.place is not None:
            text = item[self.place] if type(item) is tuple and len(item) == self.count else None
        return type(text) is str and self.test(text) is self.result


def _idle_for(node: ast.For | ast.AsyncFor) -> _Idle | None:
    """Return when the body does nothing for an item: it begins with an ``if`` about a text of the item.

    So do the loops that look for something in the lines of files, of which large packages have hundreds of thousands.
    """
    first, *others = node.body
    if not isinstance(first, ast.If) or first.orelse:
        return None
    passes_over = isinstance(first.body[0], ast.Continue)
    if others and not passes_over:
        return None
    targets = [node.target] if isinstance(node.target, ast.Name) else getattr(node.target, "elts", [])
    names = [getattr(target, "id", None) for target in targets]
    condition, idle = first.test, passes_over
    while isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        condition, idle = condition.operand, not idle
    name = next((part.id for part in walk(condition) if isinstance(part, ast.Name)), None)
    test = None if name is None or None in names or names.count(name) != 1 else _test_of_text(condition, name)
    if test is None:
        return None
    return _Idle(test, idle, None if isinstance(node.target, ast.Name) else names.index(name), len(names))


def _test_of_text(node: ast.expr, name: str) -> Callable[[str], bool] | None:
    """Return a condition about the text that a name stands for; None if it is about anything else, too."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        negated = _test_of_text(node.operand, name)
        return None if negated is None else lambda text: not negated(text)
    if isinstance(node, ast.BoolOp):
        tests = [_test_of_text(value, name) for value in node.values]
        if len(tests) != 2 or tests[0] is None or tests[1] is None:
            return None
        first, second = tests[0], tests[1]
        if isinstance(node.op, ast.And):
            return lambda text: first(text) and second(text)
        return lambda text: first(text) or second(text)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    part, of = node.args[0] if len(node.args) == 1 and not node.keywords else node, node.func.value
    parts = part.elts if isinstance(part, ast.Tuple) else [part]
    known = tuple(item.value for item in parts if isinstance(item, ast.Constant) and isinstance(item.value, str))
    is_about = isinstance(of, ast.Name) and of.id == name and len(known) == len(parts)
    if not is_about or node.func.attr not in {"startswith", "endswith"}:
        return None
    return operator.methodcaller(node.func.attr, known)


_IDLE_ROUNDS: Final = 4
"""How many rounds of a loop whose body does nothing take as long as a step."""


def _without_idle_rounds(
    machine: Statements, scope: Scope, values: Iterator[object], idle: _Idle, target: Target
) -> Iterator[object]:
    """Yield the items that the body of a loop does something for; at the end, the target has the last of all."""
    rounds = 0
    last: object = ABSENT
    for item in values:
        if idle.holds_for(item):
            last, rounds = item, rounds + 1
            if rounds % _IDLE_ROUNDS == 0:
                machine.count_steps()
        else:
            last = ABSENT
            yield item
    if last is not ABSENT:
        target(machine, scope, last)


def _lines_of(node: ast.For | ast.AsyncFor, source: object, idle: _Idle) -> tuple[list[object], int] | None:
    """Return the list of texts that a loop goes through, and the number of the first; None if it is anything else."""
    lines: object = source if idle.place is None and isinstance(node, ast.For) else None
    start = 0
    # One that has a name may have been asked for items, or be asked for those that are left.
    is_made_here = isinstance(node.iter, ast.Call) and getattr(node.iter.func, "id", "") == "enumerate"
    if type(source) is Enumerated and is_made_here and (idle.place, idle.count) == (1, 2):
        lines, start = source.items, source.start
    return (lines, start) if type(lines) is list and set(map(type, lines)) == {str} else None


def _without_idle_lines(
    machine: Statements, scope: Scope, lines: list[object], start: int, idle: _Idle, target: Target
) -> Iterator[object]:
    """Yield the same, faster, of a list of texts, such as the lines of a file."""
    test, result, place = idle.test, idle.result, idle.place
    items = iter(lines)
    rounds = paid = 0
    last: object = ABSENT
    for number, item in enumerate(items, start):
        if type(item) is str and test(item) is result:
            last, rounds = item if place is None else (number, item), rounds + 1
            continue
        machine.count_steps(rounds // _IDLE_ROUNDS - paid)
        paid, last = rounds // _IDLE_ROUNDS, ABSENT
        if type(item) is str:
            yield item if place is None else (number, item)
        # The body may have changed the list.
        if type(item) is not str or (lines and type(lines[0]) is not str):
            left = special.items_left(machine, lines, items if type(item) is str else chain((item,), items))
            yield from left if place is None else number_items(left, number + (type(item) is str))
            return
    machine.count_steps(rounds // _IDLE_ROUNDS - paid)
    if last is not ABSENT:
        target(machine, scope, last)


def _acting(
    machine: Statements, scope: Scope, node: ast.For | ast.AsyncFor, source: object, idle: _Idle, target: Target
) -> Iterator[object]:
    """Return what a loop goes through, without the rounds that do nothing."""
    lines = _lines_of(node, source, idle)
    if lines is not None:
        return _without_idle_lines(machine, scope, *lines, idle, target)
    return _without_idle_rounds(machine, scope, machine.looped(node, source), idle, target)


def _compile_for(compiler: Compiler, node: ast.For | ast.AsyncFor) -> Code:
    idle = _idle_for(node)
    iterated, line = compiler.value(node.iter), node.lineno
    before = compiler.steps
    target, body, orelse = compiler.target(node.target), body_of(node.body), body_of(node.orelse)
    steps = compiler.steps - before

    def loop(machine: Statements, scope: Scope, source: object, values: Iterator[object]) -> Signal | None:
        frame = machine.frames[-1]
        for item in values:
            machine.steps += steps
            if machine.steps > machine.most_steps:
                machine.count_steps(0)
            frame.line = line
            value: Any = item
            if type(value) in MORE_ITEMS:
                # How many items there are is not known. Where that does not matter, the rest of the loop may run, or
                # may not.
                value = value.part("[…]")
                if machine.may_pass(node):
                    if not machine.acts(node):
                        machine.run_speculatively(loop, machine, scope, source, chain((value,), values))
                    return machine.passed(node, value, scope)
                if machine.is_empty(node, value):
                    continue
            target(machine, scope, value)
            signal = body(machine, scope)
            if signal is not None and signal is not CONTINUE:
                if signal is not BREAK:
                    return signal
                machine.close_source(node, source)
                return None
        return orelse(machine, scope)

    def run(machine: Statements, scope: Scope) -> Signal | None:
        source = iterated(machine, scope)
        values = machine.looped(node, source) if idle is None else _acting(machine, scope, node, source, idle, target)
        return loop(machine, scope, source, values)

    return run


_MOST_SPECULATIVE_ROUNDS: Final = 1_000
"""How many rounds of a ``while`` run that may not run at all."""


def _compile_while(compiler: Compiler, node: ast.While) -> Code:
    before = compiler.steps
    test, body, orelse = compiler.value(node.test), body_of(node.body), body_of(node.orelse)
    steps = compiler.steps - before + 1

    def run(machine: Statements, scope: Scope) -> Signal | None:
        rounds = 0
        while True:
            machine.steps += steps
            rounds += machine.is_speculative
            if rounds > _MOST_SPECULATIVE_ROUNDS or machine.steps > machine.most_steps:
                machine.count_steps(0)
                # Where all that could end it is unknown, it would never end.
                return machine.passed(node, NotKnown(machine.source_of(node.test)), scope)
            value = test(machine, scope)
            is_true = value if value is True or value is False else special.truth_of(machine, value)
            if is_true is None:
                return run_once_speculatively(machine, value, scope)
            if not is_true:
                return orelse(machine, scope)
            signal = body(machine, scope)
            if signal is not None and signal is not CONTINUE:
                return None if signal is BREAK else signal

    def run_once_speculatively(machine: Statements, value: object, scope: Scope) -> Signal | None:
        unknown = NotKnown(machine.source_of(node.test))
        if machine.may_pass(node):
            if not machine.acts(node):
                machine.run_speculatively(body, machine, scope)
            return machine.passed(node, unknown, scope)
        signal = body(machine, scope) if machine.is_entered(node, value) else None
        if isinstance(signal, Returned):
            return signal
        machine.forget_bindings([node], scope, unknown)
        return None

    return run


def _run_all(codes: Sequence[Code], machine: Statements, scope: Scope) -> Signal | None:
    """Run some statements; return how they end."""
    for number, code in enumerate(codes, 1):
        signal = code(machine, scope)
        if signal is not None:
            return machine.returned_on_both(signal, codes[number:], scope) if isinstance(signal, Either) else signal
    return None


def _run_pass(_machine: object, _scope: Scope) -> None:
    """Execute ``pass``."""


def by_method(method: Callable[[Any, Any, Scope], None]) -> Callable[[Compiler, Any], Code]:
    """Return what compiles a statement that nothing is gained by compiling: a method runs it."""
    return lambda _compiler, node: lambda machine, scope: method(machine, node, scope)


def _to_the_end(method: Callable[[Any, Any, Scope], Flow]) -> Callable[[Compiler, Any], Code]:
    """Return what compiles a statement with others in it, which does not yield outside of a generator."""

    def run(machine: Statements, node: ast.stmt, scope: Scope) -> Signal | None:
        try:
            next(method(machine, node, scope))
        except StopIteration as end:
            signal: Signal | None = end.value
            return signal
        raise AssertionError("only a generator yields")

    return lambda _compiler, node: lambda machine, scope: run(machine, node, scope)


_NOTHING: Final = Returned(None)
COMPOUND: Final[dict[type[ast.AST], Callable[[Statements, Any, Scope], Flow]]] = {
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
"""What runs the statements with others in them where those yield."""
STATEMENTS.update({
    **{kind: _to_the_end(method) for kind, method in COMPOUND.items()},
    ast.If: _compile_if,
    ast.For: _compile_for,
    ast.AsyncFor: _compile_for,
    ast.While: _compile_while,
    ast.Expr: _compile_expression,
    ast.Pass: lambda _compiler, _node: _run_pass,
    ast.Assign: _compile_assignment,
    ast.AnnAssign: _compile_annotated,
    ast.AugAssign: _compile_augmented,
    ast.Return: _compile_return,
    ast.Break: lambda _compiler, _node: lambda _machine, _scope: BREAK,
    ast.Continue: lambda _compiler, _node: lambda _machine, _scope: CONTINUE,
    ast.Raise: by_method(Statements._run_raise),
    ast.Assert: by_method(Statements._run_assert),
    **dict.fromkeys((ast.FunctionDef, LateFunction, ast.AsyncFunctionDef, LateAsyncFunction), _compile_define),
    Unparsed: by_method(Statements._run_unparsed),
    ast.ClassDef: by_method(Statements._run_class),
    ast.Delete: by_method(Statements._run_delete),
    ast.Global: by_method(Statements._run_outer),
    ast.Nonlocal: by_method(Statements._run_outer),
    TypeAlias: by_method(Statements._type_alias),
})  # fmt: skip
OTHERS[ast.stmt] = lambda node: lambda machine, _scope: machine.not_followed(node)
"""A statement of another kind is a gap."""
