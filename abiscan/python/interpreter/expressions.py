"""Expressions of Python where not all is known: what their compiled forms ask then, see ``expression_forms``."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Iterator, Sequence, Sized
from itertools import chain
from typing import Any, Final

from msgspec import Struct
from packaging.version import Version

from abiscan.python.interpreter import attributes, special
from abiscan.python.interpreter.builtin_methods import fill_dict
from abiscan.python.interpreter.compiling import Target, Value, value_of
from abiscan.python.interpreter.iteration import Body, Coroutine, GeneratorObject
from abiscan.python.interpreter.later_builtins import FIRST, NAMES
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Ignoring, LooksAround, Modelled, Native
from abiscan.python.interpreter.operations import bound_size, compare_values, describe_value, make_text
from abiscan.python.interpreter.values import (
    ABSENT,
    MORE_ITEMS,
    Deferred,
    MoreItems,
    NotKnown,
    PythonFunction,
    Scope,
    TargetExpression,
    Thrown,
    Why,
    is_concrete,
    key_of,
    reopened,
    thrown,
)
from abiscan.python.language.targets import asks_version
from abiscan.python.language.written import write_expression
from abiscan.python.package.model import World

_LONG_EXPRESSION = 200
LARGE: Final = 1_000
"""How many items or characters a value may have without steps of their own."""
ITEMS_OF_A_STEP: Final = 16
_LARGEST_QUESTION = 64
"""How many operations a question to the target may be made of: it is computed at each step, and for each target."""
_PLAIN = (str, int, float, type(None), tuple, slice, Version)
_METHODS = frozenset({
    "split", "rsplit", "partition", "rpartition", "startswith", "endswith", "strip", "lstrip", "rstrip", "replace",
    "removeprefix", "removesuffix",
})  # fmt: skip
"""Methods of texts that versions are taken apart with."""


ComprehensionNode = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


class Part(Struct, frozen=True, kw_only=True):
    """A ``for`` of a comprehension."""

    iterated: Value
    target: Target
    conditions: tuple[tuple[ast.expr, Value], ...]
    steps: int
    """How many a round takes; those of the element count for the last part."""


class Comprehension(Struct, frozen=True, kw_only=True):
    """A comprehension or generator expression; the element of one of a dict is a pair."""

    node: ComprehensionNode
    parts: tuple[Part, ...]
    element: Value


class MethodOfTarget(Modelled):
    """A method of a text that follows from the target."""

    __slots__ = ("name", "receiver")

    def __init__(self, receiver: TargetExpression, name: str) -> None:
        self.receiver, self.name = receiver, name

    def display_name(self) -> str:
        """Return its name."""
        return self.name

    def call(self, machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
        """Call it on the text, which is asked for."""
        return machine.call(machine.get_attribute(machine.settle(self.receiver), self.name), args, kwargs)


class Expressions(PythonMachine):
    """Evaluates expressions."""

    def call_function(self, function: Any, args: list[object], kwargs: dict[str, object]) -> object:
        """Run a function of the package."""
        raise NotImplementedError

    def evaluate(self, node: ast.expr, scope: Scope) -> object:
        """Return the value of an expression."""
        steps, value = value_of(node)
        self.count_steps(steps)
        return value(self, scope)

    def count_size(self, value: Any) -> None:
        """Count steps for a large value: most operations go through all of it."""
        size = len(value)
        if size > LARGE:
            self.count_steps(size // (LARGE if isinstance(value, (str, bytes)) else ITEMS_OF_A_STEP))

    def not_followed_value(self, node: ast.expr) -> NotKnown:
        """Return the value of an expression of a kind that is not known here."""
        if self.library.acts(node):
            self.gap(f"{type(node).__name__} is not followed")
            self.trace.is_doubtful = True
        return NotKnown(self.source_of(node))

    def source_of(self, node: ast.AST) -> str:
        """Return the text of an expression, for a condition or a gap."""
        texts = self.library.texts
        if node not in texts:
            texts[node] = _text_of(node)
        return texts[node]

    def get_attribute(self, value: object, name: str) -> object:
        """Return an attribute of a value."""
        return attributes.get(self, value, name)

    def look_up(self, name: str, scope: Scope) -> object:
        """Return what a name stands for."""
        # From the inside out (language reference, 4.2.2). The names of a class body are seen by its own statements
        # alone, not by the functions and comprehensions in it: hence ``enclosing is scope``.
        enclosing: Scope | None = scope
        while enclosing is not None:
            if enclosing.outer_names:
                enclosing = enclosing.outer_names.get(name, enclosing)
            if name in enclosing.names and (enclosing is scope or not enclosing.is_class):
                value = enclosing.names[name]
                return self.settle(value) if type(value) is Deferred else value
            # The compiler makes a name local to the whole function if any statement of it binds the name: before that,
            # it is unbound, and nothing further out is asked.
            if name in enclosing.bound:
                return self._evaluate_unbound(name, inside=enclosing is scope)
            enclosing = enclosing.around
        if name == "__name__":
            return scope.module.name
        if name in attributes.OWN_NAMES:
            return attributes.of_module(self, scope.module, name)
        is_there = name not in FIRST or not self.before(*FIRST[name])
        if is_there and name in self.builtins:
            return self.builtins[name]
        self.outward += 1
        # A NameError ends most imports: it is raised only if nothing unseen can have bound the name. After a guess,
        # that is so where only a part of the module binds it that is known not to have run.
        is_unbound = not self.is_speculative and name in self.unbound_in.get(scope.module.file, ())
        is_seen = is_unbound or not self.has_guessed
        if scope.module.open_ or (is_there and name in NAMES) or not is_seen:
            return NotKnown(name)
        raise thrown(NameError, f"name '{name}' is not defined")

    def items(self, value: object) -> list[object] | NotKnown:
        """Return what iterating over a value gives."""
        return special.items_of(self, value)

    def iterate(self, value: object) -> Iterator[object] | NotKnown:
        """Return the items of a value, one after the other."""
        return special.iterate_over(self, value)

    def iterate_async(self, value: object) -> Iterator[object] | NotKnown:
        """Return the items of a value for ``async for``."""
        method = special.special_method(self, value, "__aiter__")
        if method is None or isinstance(method, NotKnown):
            return special.iterate_over(self, value) if method is None else method
        iterator = self.call(method, [], {})
        if not special.is_own(iterator):
            return special.iterate_over(self, iterator)
        return self._async_items(special.special_method(self, iterator, "__anext__"))

    def _async_items(self, method: object) -> Iterator[object]:
        while True:
            self.count_steps()
            try:
                item = self.awaited(self.call(method, [], {}))
            except Thrown as error:
                if error.failure.cls is not StopAsyncIteration:
                    raise
                return
            yield item

    def awaited(self, value: object) -> object:
        """Return the result of awaiting a value; the value itself if it cannot be awaited."""
        if isinstance(value, Coroutine):
            return value.wait(self)
        method = special.special_method(self, value, "__await__")
        if method is None or isinstance(method, NotKnown):
            return value
        waiting = self.call(method, [], {})
        self.items(waiting)
        return waiting.result if isinstance(waiting, GeneratorObject) else NotKnown("await")

    def _evaluate_unbound(self, name: str, *, inside: bool) -> object:
        """Raise what Python raises for a local name without a value, unless it may have one."""
        self.outward += 1
        if self.has_guessed:
            return NotKnown(name)
        if inside:
            raise thrown(
                UnboundLocalError, f"cannot access local variable '{name}' where it is not associated with a value"
            )
        text = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
        raise thrown(NameError, text)

    # ---- what the compiled forms ask where not all is known

    def attribute_of(self, value: object, name: str) -> object:
        """Return an attribute of a value, which may be a question to the target; so may the attribute then."""
        value = reopened(value)
        if type(value) is not TargetExpression:
            kind = type(value)
            return (attributes.GETTERS.get(kind) or attributes.getter_of(kind))(self, value, name)
        if name in _METHODS and isinstance(self.world.foresee(value.of), str):
            return MethodOfTarget(value, name)
        member = self.with_target(f".{name}", lambda operand: getattr(operand, name), value)
        return member or self.get_attribute(self.settle(value), name)

    def with_target(
        self, description: str, operation: Callable[..., object], *values: object
    ) -> TargetExpression | None:
        """Return an operation on values that follow from the target as a question to it; None if it cannot be one."""
        constants = [operand for operand in values if type(operand) is not TargetExpression]
        size = 1 + sum(operand.size for operand in values if isinstance(operand, TargetExpression))
        if (
            len(constants) == len(values)
            or size > _LARGEST_QUESTION
            or not all(isinstance(operand, _PLAIN) and is_concrete(operand) for operand in constants)
        ):
            return None

        def of(world: World) -> object:
            return operation(
                *[operand.of(world) if isinstance(operand, TargetExpression) else operand for operand in values]
            )

        # It is tried without asking, to see whether it can be computed. What is asked in the end is what the code makes
        # of it, such as ``2.13 >= 2.5``: targets with different versions answer that alike.
        try:
            value = self.world.foresee(of)
        except Exception:  # noqa: BLE001 - it is raised again where the values are known
            return None
        names = ", ".join(
            operand.name if isinstance(operand, TargetExpression) else repr(operand) for operand in values
        )
        questions = [operand for operand in values if isinstance(operand, TargetExpression)]
        versions = {operand.versions for operand in questions if operand.versions is not None}
        if len(versions) > 1:
            return None
        bounds = tuple(chain(constants, *(operand.bounds for operand in questions))) if versions else ()
        return (
            TargetExpression(f"({names}){description}", of, size, next(iter(versions), None), bounds)
            if isinstance(value, (*_PLAIN, list)) and is_concrete(value) and not _is_long(value)
            else None
        )

    def converted(self, name: str, source: object, scope: Scope) -> TargetExpression | None:
        """Return ``[str(item) for item in source]`` as a question to the target; None if it cannot be one.

        :param name: the name of the function
        """
        source = reopened(source)
        if type(source) is not TargetExpression:
            return None
        convert: Any = self.look_up(name, scope)
        if convert not in _CONVERTERS:
            return None
        return self.with_target(f" {name}()", lambda items: [convert(item) for item in items], source)

    def parts_of(self, value: TargetExpression) -> list[object] | None:
        """Return the items of a tuple as questions to the target; None if it is none, or not known how many it has."""
        if not isinstance(self.world.foresee(value.of), tuple):
            return None
        length = self.with_target(" len()", len, value)
        count = None if length is None else self.settle(length)
        if not isinstance(count, int):
            return None
        items = [self.with_target("[]", operator.getitem, value, index) for index in range(count)]
        return None if None in items else [*items]

    def arguments(
        self, node: ast.Call, function: object, args: list[object], named: Sequence[tuple[str | None, object]]
    ) -> dict[str, object]:
        """Return the arguments of a call by keyword, those of ``**`` among them; more may come to the others."""
        kwargs: dict[str, object] = {}
        for name, value in named:
            if name is not None:
                kwargs[name] = value
            elif not isinstance(value, NotKnown):
                keywords: dict[object, object] = {}
                fill_dict(self, keywords, value)
                if twice := [item for item in keywords if isinstance(item, str) and item in kwargs]:
                    text = f"{describe_value(function)}() got multiple values for keyword argument '{twice[0]}'"
                    raise thrown(TypeError, text)
                kwargs.update({str(key): item for key, item in keywords.items() if isinstance(key, str)})
                # Keys that are not known may fill any parameter, as an unknown number of arguments may.
                if special.truth_of(self, keywords) is None or any(isinstance(item, NotKnown) for item in keywords):
                    args.append(MoreItems("**"))
            else:
                args.append(MoreItems(f"**{value.name}", value.why))
        return kwargs

    def call_here(
        self, node: ast.Call, function: object, args: list[object], kwargs: dict[str, object], scope: Scope
    ) -> object:
        """Return what a call gives that stands in the code."""
        kind = type(function)
        if kind is LooksAround:
            return self.special(function.name, list(map(self.settle, args)), scope)  # type: ignore[attr-defined]
        if kind is Ignoring:
            return None
        # A function that only computes gets questions to the target as they are, and makes one question of them.
        if kind is MethodOfTarget or TargetExpression in map(type, args):
            if _only_computes(function) and not kwargs:
                return self._evaluate_computed(function, args)
            # Of a version that may be one of several, not much is known until it is compared.
            waits = isinstance(function, PythonFunction) and not kwargs and _takes_each(function, args)
            args = [value if waits and _is_open(value) else self.settle(value) for value in args]
        result = (self.call_function if kind is PythonFunction else self.call_unsettled)(function, args, kwargs)
        return self.of_target(node, result, args) if isinstance(result, NotKnown) else result

    def of_target(self, node: ast.Call, result: NotKnown, args: list[object]) -> NotKnown:
        """Return what an unknown result of a call depends on."""
        # What code that is not read makes of the version of torch is decided by the target, although its result is not
        # known.
        if result.why is Why.NOT_FOLLOWED and self._asks_for_target(node, args):
            return NotKnown(result.name, Why.TARGET)
        return result

    def _evaluate_computed(self, function: object, args: list[object]) -> object:
        """Call a function that does nothing but compute with its arguments."""
        values = [function.receiver, *args] if isinstance(function, MethodOfTarget) else args
        result = self.with_target(f" {describe_value(function)}()", _computation_of(function), *values)
        if result is not None:
            return result
        if isinstance(function, MethodOfTarget):
            function = self.get_attribute(self.settle(function.receiver), function.name)
        return self.call(function, [self.settle(argument) for argument in args], {})

    def _asks_for_target(self, node: ast.Call, args: list[object]) -> bool:
        """Whether a call that is not followed is about the version of torch or CUDA, or about an operator's result."""
        if any(map(_is_of_target, args)):
            return True
        if node not in self.library.asking:
            frame = self.frames[-1]
            bodies: list[ast.AST] = [frame.function.node] if frame.function else []
            if frame.file is not None and (module := self.library.tree(frame.file)) is not None:
                bodies.append(module)
            self.library.asking[node] = asks_version([node], [self.library.bindings(body) for body in bodies])
        return self.library.asking[node]

    def bool_op_on(self, node: ast.BoolOp, number: int, value: object, scope: Scope) -> object:
        """Return the value of ``and`` or ``or`` from its first value on whose truth is not known.

        :param number: which one it is
        :param value: the value itself
        """
        # ``decisive`` ends the evaluation: true for ``or``, false for ``and``. Each value so far was the opposite, or
        # is not known; ``unknown`` is one of the latter that no decision was made about, and the result may be the
        # value of each of those.
        decisive = isinstance(node.op, ast.Or)
        unknown: NotKnown | None = None
        keys: list[object] = []
        for item in node.values[number:]:
            if unknown is not None and self.acts(item):
                # It is only evaluated if the unknown value does not decide.
                text = f"{unknown.name} is {'false' if decisive else 'true'}"
                spot = (item.lineno, item.col_offset)
                goes_on = self.decide(
                    text, unknown.why, spot, default=decisive, about=opposite_of(unknown) if decisive else unknown
                )
                if not goes_on:
                    return unknown
                unknown = None
            if item is not node.values[number]:
                value = self.evaluate(item, scope) if unknown is None else self._speculative_value(item, scope)
            is_true = special.truth_of(self, value)
            if is_true is None and isinstance(value, NotKnown):
                is_true = self.taken(value)
            if is_true is decisive and unknown is None:
                return value
            # Which of the values it is, is not known; their truth is.
            if is_true is decisive:
                origin = (type(node.op).__name__, *keys, key_of(value))
                return NotKnown(self.source_of(node), unknown.why, origin, truth=decisive)  # type: ignore[union-attr]
            if is_true is None:
                keys.append(key_of(value))
            if is_true is None and (unknown is None or _is_of_target(value)):
                unknown = value if isinstance(value, NotKnown) else NotKnown(describe_value(value))
        if unknown is None:
            return value
        # A single unknown keeps its key, so that ``x or False`` is decided as ``x`` is.
        return NotKnown(
            self.source_of(node), unknown.why, (type(node.op).__name__, *keys) if len(keys) > 1 else unknown.key
        )

    def _speculative_value(self, node: ast.expr, scope: Scope) -> object:
        """Return the value of an expression that may not be evaluated at all: it raises nothing that is certain."""
        before, self.is_speculative = self.is_speculative, True
        try:
            return self.evaluate(node, scope)
        except Thrown:
            return NotKnown(self.source_of(node))
        finally:
            self.is_speculative = before
            self._forget_named(node, scope)

    def _forget_named(self, node: ast.expr, scope: Scope) -> None:
        """Forget what the ``:=`` bind in an expression that may not have been evaluated."""
        for name in self.library.bound_names(node):
            self.bind_named(name, NotKnown(name), scope)

    def compare_chain(self, node: ast.Compare, scope: Scope) -> object:
        """Return ``a < b < c``."""
        # In a chain, one comparison that is false makes all of it false, whatever an unknown one before it would give.
        left = self.evaluate(node.left, scope)
        unknown: NotKnown | None = None
        result: object = True
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            if unknown is not None and self.acts(comparator):
                # As in ``and``: it is only evaluated if the unknown value does not decide.
                spot = (comparator.lineno, comparator.col_offset)
                if not self.decide(f"{unknown.name} is true", unknown.why, spot, default=False, about=unknown):
                    return unknown
                unknown = None
            if unknown is None:
                right = self.evaluate(comparator, scope)
                result = self.compared(op, left, right)
            else:
                right, result = self._compared_speculatively(op, left, comparator, scope)
            is_true = special.truth_of(self, result)
            if is_true is False:
                return result
            if is_true is None:
                unknown = unknown or (result if isinstance(result, NotKnown) else NotKnown(describe_value(result)))
            left = right
        return result if unknown is None else unknown

    def _compared_speculatively(
        self, op: ast.cmpop, left: object, comparator: ast.expr, scope: Scope
    ) -> tuple[object, object]:
        """Return the right operand and the result of a comparison that may not be reached."""
        right = self._speculative_value(comparator, scope)
        try:
            return right, self.compared(op, left, right)
        except Thrown:
            return right, NotKnown(self.source_of(comparator))

    def compared(self, op: ast.cmpop, left: object, right: object) -> object:
        """Return a comparison, as a question to the target where it is one."""
        left, right = reopened(left), reopened(right)
        if type(left) is not TargetExpression and type(right) is not TargetExpression:
            return special.compare_values(self, op, left, right)
        lifted = self.with_target(f" {type(op).__name__}", functools.partial(compare_values, op), left, right)
        if lifted is not None:
            return lifted
        if type(left) is TargetExpression and isinstance(right, NotKnown):
            return compare_values(op, NotKnown(left.name, right.why), right)  # whatever the target says
        if type(right) is TargetExpression and isinstance(left, NotKnown):
            return compare_values(op, left, NotKnown(right.name, left.why))
        return special.compare_values(self, op, self.settle(left), self.settle(right))

    def if_exp_on(self, node: ast.IfExp, test: object, scope: Scope) -> object:
        """Return ``a if test else b`` where the test is not known."""
        unknown = test if isinstance(test, NotKnown) else NotKnown(self.source_of(node.test))
        # Each decision may double the runs. So one that was made before counts, and without one, both sides are
        # evaluated unless one of them acts.
        is_true = self.taken(unknown)
        if is_true is None and (self.acts(node.body) or self.acts(node.orelse)):
            spot = (node.lineno, node.col_offset)
            is_true = self.decide(self.source_of(node.test), unknown.why, spot, default=False, about=unknown)
        if is_true is None:
            body, orelse = self._speculative_value(node.body, scope), self._speculative_value(node.orelse, scope)
            if is_concrete(body) and is_concrete(orelse) and body == orelse:
                return body
            truths = {special.truth_of(self, value) for value in (body, orelse)}
            origin = ("if", unknown.key, key_of(body), key_of(orelse))
            return NotKnown(self.source_of(node), unknown.why, origin, truths.pop() if len(truths) == 1 else None)
        return self.evaluate(node.body if is_true else node.orelse, scope)

    def joined(self, node: ast.JoinedStr, parts: list[object]) -> object:
        """Return a text that is made of parts, one of which is no plain text."""
        # What is known of a text with a version that may be one of several are the other parts.
        if not any(map(_is_open, parts)):
            lifted = self.with_target(" f-string", lambda *texts: "".join(texts), *parts)
            if lifted is not None:
                return lifted
        parts = [self.settle(value) for value in parts]
        if any(isinstance(value, NotKnown) for value in parts):
            return make_text(self.source_of(node), lambda *texts: "".join(map(str, texts)), *parts)
        return bound_size("f-string", "".join(str(value) for value in parts))

    def formatted(self, node: ast.FormattedValue, value: object, spec: object) -> object:
        """Return the text of a value in an f-string."""
        if type(value) is TargetExpression and node.format_spec is None and node.conversion != ord("r"):
            lifted = self.with_target(" str()", str, value)
            if lifted is not None:
                return lifted
        value = self.settle(value)
        if node.conversion == ord("r"):
            value = special.repr_of(self, value)
        elif node.conversion == ord("s"):
            value = special.text(self, value)
        elif node.conversion == ord("a"):
            value = special.ascii_of(self, value)
        return special.format_value(self, value, spec)

    def bind_named(self, name: str, value: object, scope: Scope) -> None:
        """Execute ``name := value``."""
        # PEP 572: the name is bound in the scope that the comprehensions around it are in.
        home = scope
        while home.is_comprehension and home.around is not None:
            home = home.around
        home.outer_names.get(name, home).names[name] = value

    def elements(self, form: Comprehension, first: Iterator[object] | NotKnown, scope: Scope) -> Body:
        """Yield the items of a generator expression."""
        try:
            for _ in self.rounds(form, first, scope):
                yield form.element(self, scope)
        except NotFollowed as stop:
            yield MoreItems(stop.unknown.name, stop.unknown.why)
        return None

    def source_of_part(self, form: Comprehension, number: int, scope: Scope) -> Iterator[object] | NotKnown:
        """Return what a ``for`` of a comprehension goes through."""
        return self.source_from(form, number, form.parts[number].iterated(self, scope))

    def source_from(self, form: Comprehension, number: int, value: object) -> Iterator[object] | NotKnown:
        """Return what a ``for`` of a comprehension goes through, which has evaluated what that is made of."""
        part, node = form.node.generators[number], form.node
        source = self.iterate_async(value) if part.is_async else special.iterate_over(self, value)
        # Elements that act make it matter whether there are any: one run has none, another a single unknown item for
        # all.
        if isinstance(source, NotKnown) and self.acts(node):
            text, spot = f"{self.source_of(part.iter)} is empty", (part.iter.lineno, part.iter.col_offset)
            empty = self.decide(text, source.why, spot, default=True)
            return iter([] if empty else [source.part("[…]")])
        return source

    def rounds(
        self, form: Comprehension, source: Iterator[object] | NotKnown, scope: Scope, depth: int = 0
    ) -> Iterator[None]:
        """Yield once for each element of a comprehension, when the names of all its ``for`` parts are bound."""
        if isinstance(source, NotKnown):
            raise NotFollowed(source)
        part = form.parts[depth]
        is_last = depth + 1 == len(form.parts)
        steps, bind, conditions = part.steps, part.target, part.conditions
        for item in source:
            self.steps += steps
            if self.steps > self.most_steps:
                self.count_steps(0)
            value = self._decide_more(form.node, depth, item) if type(item) in MORE_ITEMS else item
            if value is ABSENT:
                continue
            bind(self, scope, value)
            for node, condition in conditions:
                test = condition(self, scope)
                if test is False or (test is not True and not self._holds(form.node, node, test)):
                    break
            else:
                if is_last:
                    yield
                else:
                    yield from self.rounds(form, self.source_of_part(form, depth + 1, scope), scope, depth + 1)

    def _decide_more(self, node: ComprehensionNode, depth: int, more_items: Any) -> NotKnown:
        """Return one item in place of an unknown number of them, ABSENT for none, where elements act."""
        if not self.acts(node):
            raise NotFollowed(more_items)
        iterated = node.generators[depth].iter
        text, spot = f"{self.source_of(iterated)} is empty", (iterated.lineno, iterated.col_offset)
        return ABSENT if self.decide(text, more_items.why, spot, default=True) else more_items.part("[…]")

    def _holds(self, node: ComprehensionNode, test: ast.expr, value: object) -> bool:
        """Whether a condition of a comprehension holds, by its value."""
        is_true = special.truth_of(self, value)
        if is_true is not None:
            return is_true
        unknown = value if isinstance(value, NotKnown) else NotKnown(describe_value(value))
        if not self.acts(node):
            raise NotFollowed(unknown)
        return self.decide(
            self.source_of(test), unknown.why, (test.lineno, test.col_offset), default=False, about=unknown
        )

    def assign(self, target: ast.expr, value: object, scope: Scope) -> None:
        """Bind a value to what stands on the left of ``=``."""
        raise NotImplementedError


def _is_long(value: object) -> bool:
    return isinstance(value, Sized) and len(value) > LARGE


def opposite_of(unknown: NotKnown) -> NotKnown:
    """Return the opposite of what is not known."""
    name, key = f"not {unknown.name}"[:_LONG_EXPRESSION], unknown.key
    # A double negation is decided as the condition itself.
    is_opposite = isinstance(key, tuple) and key[0] == "not"
    return NotKnown(name, unknown.why, key[1] if is_opposite else ("not", key))  # type: ignore[index]


def _text_of(node: ast.AST) -> str:
    try:
        return write_expression(node)[:_LONG_EXPRESSION].partition("\n")[0]
    except (RecursionError, ValueError):
        return type(node).__name__


_CONVERTERS = (str, int, float)


def _takes_each(function: PythonFunction, args: Sequence[object]) -> bool:
    """Whether each argument is bound to a parameter of its own, and all are."""
    parameters = function.node.args
    more_items = parameters.vararg or parameters.kwarg or parameters.kwonlyargs
    return not more_items and len(args) == len(parameters.posonlyargs) + len(parameters.args)


def _is_open(value: object) -> bool:
    return isinstance(value, TargetExpression) and value.versions is not None


def _only_computes(function: object) -> bool:
    """Whether a function does nothing but compute with its arguments, which may then be questions to the target."""
    return (
        isinstance(function, MethodOfTarget)
        or (isinstance(function, type) and function in _CONVERTERS)
        or (isinstance(function, Native) and function.computes is not None)
    )


def _computation_of(function: object) -> Callable[..., object]:
    """Return what a function computes, as one that takes plain values."""
    if isinstance(function, MethodOfTarget):
        name = function.name
        return lambda text, *args: getattr(text, name)(*args)
    if isinstance(function, Native):
        return function.computes or str
    return function  # type: ignore[return-value]


class NotFollowed(Exception):  # noqa: N818 - it ends a comprehension, it is no error
    """Raised where it is not known which elements a comprehension has."""

    def __init__(self, unknown: NotKnown) -> None:
        super().__init__(unknown.name)
        self.unknown = unknown


def _is_of_target(value: object) -> bool:
    return isinstance(value, NotKnown) and value.why is Why.TARGET
