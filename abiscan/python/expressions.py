"""Expressions of Python, compiled to what evaluates them with what is known: see ``compiling``."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from abiscan.python import attributes, special
from abiscan.python.builtin_methods import QUICK, HostMethod, call_quickly, fill_dict, has_method, make_set
from abiscan.python.compiling import OTHERS, QUESTIONS, VALUES, Compiler, Target, Value, value_of
from abiscan.python.cost import LONGEST
from abiscan.python.iteration import Body, Coroutine, GeneratorObject
from abiscan.python.later_builtins import FIRST, NAMES
from abiscan.python.machine import Frame, PythonMachine
from abiscan.python.model import Answer, World
from abiscan.python.modelled import LooksAround, Modelled, Native
from abiscan.python.nodes import TemplateStr
from abiscan.python.operations import bound_size, compare_values, describe_value, make_text, take_item
from abiscan.python.targets import asks_version
from abiscan.python.values import (
    ABSENT,
    EVERYDAY,
    FURTHER,
    Class,
    Deferred,
    Further,
    Instance,
    NotKnown,
    PythonFunction,
    PythonModule,
    Scope,
    TargetExpression,
    TextWithHoles,
    Thrown,
    Why,
    further_items,
    is_concrete,
    key_of,
    thrown,
)
from abiscan.python.written import write_expression

_LONG_EXPRESSION = 200
_LARGE = 1_000
_ITEMS_OF_A_STEP = 16
_LARGEST_QUESTION = 64
"""How many operations a question to the target may be made of: it is computed at each step, and for each target."""
_SIZED = frozenset({str, bytes, list, tuple, dict, set, frozenset})
_SMALL: Final = 1 << 256
"""Sums of whole numbers below this are small enough."""
_PLAIN = (str, int, float, type(None), tuple, slice, Version)
_METHODS = frozenset({
    "split", "rsplit", "partition", "rpartition", "startswith", "endswith", "strip", "lstrip", "rstrip", "replace",
    "removeprefix", "removesuffix",
})  # fmt: skip
"""Methods of texts that versions are taken apart with."""


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
        if size > _LARGE:
            self.count_steps(size // (_LARGE if isinstance(value, (str, bytes)) else _ITEMS_OF_A_STEP))

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
        is_there = name not in FIRST or self._has_built_in(name)
        if is_there and name in self.builtins:
            return self.builtins[name]
        # A NameError ends most imports: it is raised only if nothing unseen can have bound the name.
        if scope.module.open_ or (is_there and name in NAMES) or self.has_guessed:
            return NotKnown(name)
        raise thrown(NameError, f"name '{name}' is not defined")

    def _has_built_in(self, name: str) -> bool:
        python = self.world.python
        return isinstance(python, Answer) or python >= FIRST[name]

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
        if type(value) is not TargetExpression:
            return self.get_attribute(value, name)
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
        return (
            TargetExpression(f"({names}){description}", of, size)
            if isinstance(value, (*_PLAIN, list)) and is_concrete(value) and not _is_long(value)
            else None
        )

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
                    args.append(Further("**"))
            else:
                args.append(Further(value.name, value.why))
        return kwargs

    def call_here(
        self, node: ast.Call, function: object, args: list[object], kwargs: dict[str, object], scope: Scope
    ) -> object:
        """Return what a call gives that stands in the code."""
        kind = type(function)
        if kind is LooksAround:
            return self.special(function.name, list(map(self.settle, args)), scope)  # type: ignore[attr-defined]
        # A function that only computes gets questions to the target as they are, and makes one question of them.
        if kind is MethodOfTarget or TargetExpression in map(type, args):
            if _only_computes(function) and not kwargs:
                return self._evaluate_computed(function, args)
            args = list(map(self.settle, args))
        result = (self.call_function if kind is PythonFunction else self.call)(function, args, kwargs)
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
            if unknown is not None and self.library.acts(item):
                # It is evaluated only if what is not known lets it.
                text = f"{unknown.name} is {'false' if decisive else 'true'}"
                spot = (item.lineno, item.col_offset)
                goes_on = self.decide(
                    text, unknown.why, spot, default=decisive, about=_opposite_of(unknown) if decisive else unknown
                )
                if not goes_on:
                    return unknown
                unknown = None
            if item is not node.values[number]:
                value = self.evaluate(item, scope) if unknown is None else self._perhaps_value(item, scope)
            is_true = special.truth_of(self, value)
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

    def _perhaps_value(self, node: ast.expr, scope: Scope) -> object:
        """Return the value of an expression that may not be evaluated at all: it raises nothing that is certain."""
        before, self.perhaps = self.perhaps, True
        try:
            return self.evaluate(node, scope)
        except Thrown:
            return NotKnown(self.source_of(node))
        finally:
            self.perhaps = before
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
            if unknown is not None and self.library.acts(comparator):
                # As in ``and``: it is evaluated only if what is not known lets it.
                spot = (comparator.lineno, comparator.col_offset)
                if not self.decide(f"{unknown.name} is true", unknown.why, spot, default=False, about=unknown):
                    return unknown
                unknown = None
            if unknown is None:
                right = self.evaluate(comparator, scope)
                result = self.compared(op, left, right)
            else:
                right, result = self._perhaps_compared(op, left, comparator, scope)
            is_true = special.truth_of(self, result)
            if is_true is False:
                return result
            if is_true is None:
                unknown = unknown or (result if isinstance(result, NotKnown) else NotKnown(describe_value(result)))
            left = right
        return result if unknown is None else unknown

    def _perhaps_compared(
        self, op: ast.cmpop, left: object, comparator: ast.expr, scope: Scope
    ) -> tuple[object, object]:
        """Return the right operand and the result of a comparison that may not be reached."""
        right = self._perhaps_value(comparator, scope)
        try:
            return right, self.compared(op, left, right)
        except Thrown:
            return right, NotKnown(self.source_of(comparator))

    def compared(self, op: ast.cmpop, left: object, right: object) -> object:
        """Return a comparison, as a question to the target where it is one."""
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
        if is_true is None and (self.library.acts(node.body) or self.library.acts(node.orelse)):
            spot = (node.lineno, node.col_offset)
            is_true = self.decide(self.source_of(node.test), unknown.why, spot, default=False, about=unknown)
        if is_true is None:
            body, orelse = self._perhaps_value(node.body, scope), self._perhaps_value(node.orelse, scope)
            if is_concrete(body) and is_concrete(orelse) and body == orelse:
                return body
            truths = {special.truth_of(self, value) for value in (body, orelse)}
            origin = ("if", unknown.key, key_of(body), key_of(orelse))
            return NotKnown(self.source_of(node), unknown.why, origin, truths.pop() if len(truths) == 1 else None)
        return self.evaluate(node.body if is_true else node.orelse, scope)

    def joined(self, node: ast.JoinedStr, parts: list[object]) -> object:
        """Return a text that is made of parts, one of which is no plain text."""
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
            yield Further(stop.unknown.name, stop.unknown.why)
        return None

    def source_of_part(self, form: Comprehension, number: int, scope: Scope) -> Iterator[object] | NotKnown:
        """Return what a ``for`` of a comprehension goes through."""
        part, node = form.node.generators[number], form.node
        value = form.parts[number].iterated(self, scope)
        source = self.iterate_async(value) if part.is_async else special.iterate_over(self, value)
        # Elements that act make it matter whether there are any: one run has none, another a single unknown item for
        # all.
        if isinstance(source, NotKnown) and self.library.acts(node):
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
            value = self._decide_further(form.node, depth, item) if type(item) in FURTHER else item
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

    def _decide_further(self, node: ComprehensionNode, depth: int, further: Any) -> NotKnown:
        """Return one item in place of an unknown number of them, ABSENT for none, where elements act."""
        if not self.library.acts(node):
            raise NotFollowed(further)
        iterated = node.generators[depth].iter
        text, spot = f"{self.source_of(iterated)} is empty", (iterated.lineno, iterated.col_offset)
        return ABSENT if self.decide(text, further.why, spot, default=True) else further.part("[…]")

    def _holds(self, node: ComprehensionNode, test: ast.expr, value: object) -> bool:
        """Whether a condition of a comprehension holds, by its value."""
        is_true = special.truth_of(self, value)
        if is_true is not None:
            return is_true
        unknown = value if isinstance(value, NotKnown) else NotKnown(describe_value(value))
        if not self.library.acts(node):
            raise NotFollowed(unknown)
        return self.decide(
            self.source_of(test), unknown.why, (test.lineno, test.col_offset), default=False, about=unknown
        )

    def assign(self, target: ast.expr, value: object, scope: Scope) -> None:
        """Bind a value to what stands on the left of ``=``."""
        raise NotImplementedError


def _is_long(value: object) -> bool:
    return isinstance(value, Sized) and len(value) > _LARGE


def _opposite_of(unknown: NotKnown) -> NotKnown:
    name, key = f"not {unknown.name}"[:_LONG_EXPRESSION], unknown.key
    # Twice the opposite is decided as the thing itself.
    is_opposite = isinstance(key, tuple) and key[0] == "not"
    return NotKnown(name, unknown.why, key[1] if is_opposite else ("not", key))  # type: ignore[index]


def _text_of(node: ast.AST) -> str:
    try:
        return write_expression(node)[:_LONG_EXPRESSION].partition("\n")[0]
    except (RecursionError, ValueError):
        return type(node).__name__


_CONVERTERS = (str, int, float)


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


# ---- the compiled forms

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


def _finish(machine: Expressions, value: object, *, settles: bool) -> object:
    """Count the size of what an expression gives, or settle it; asked only for a value of ``_UNFINISHED`` types."""
    if type(value) is not TargetExpression:
        machine.count_size(value)
        return value
    return machine.settle(value) if settles else value


def _compile_constant(_compiler: Compiler, node: ast.Constant) -> Value:
    value: Any = node.value
    known: Any = value if value is None or type(value) is bool else bound_size("constant", value)
    if type(known) not in _SIZED or len(known) <= _LARGE:
        return lambda _machine, _scope: known

    def large(machine: Expressions, _scope: Scope) -> object:
        machine.count_size(known)
        return known

    return large


def _compile_name(_compiler: Compiler, node: ast.Name, *, settles: bool) -> Value:
    name = node.id

    def load(machine: Expressions, scope: Scope) -> object:
        names = scope.names
        if name in names and not scope.outer_names:
            value = names[name]
        elif (
            (around := scope.around) is not None
            and name in around.names
            and name not in scope.bound
            and not (scope.outer_names or around.outer_names or around.is_class)
        ):
            value = around.names[name]
        else:
            value = machine.look_up(name, scope)
        kind = type(value)
        if kind in _SIZED:
            if len(value) > _LARGE:  # type: ignore[arg-type]
                machine.count_size(value)
        elif kind is Deferred or (settles and kind is TargetExpression):
            return machine.settle(value)
        return value

    return load


def _compile_attribute(compiler: Compiler, node: ast.Attribute, *, settles: bool) -> Value:
    owner, name, line = compiler.value(node.value, settles=False), node.attr, compiler.line(node)

    def take(machine: Expressions, scope: Scope) -> object:
        value = owner(machine, scope)
        if line:
            machine.frames[-1].line = line
        value = machine.attribute_of(value, name)
        kind = type(value)
        if kind in _SIZED:
            if len(value) > _LARGE:  # type: ignore[arg-type]
                machine.count_size(value)
        elif settles and kind is TargetExpression:
            return machine.settle(value)
        return value

    return take


def _compile_arguments(
    compiler: Compiler, node: ast.Call
) -> Callable[[Any, Scope, object], tuple[list[Any], dict[str, Any]]]:
    """Return what evaluates the arguments of a call; it gets the function."""
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        spread = _compile_items(compiler, node.args)
    else:
        parts = tuple(compiler.value(argument, settles=False) for argument in node.args)
        if not node.keywords and len(parts) <= len(_FEW):
            return _FEW[len(parts) - 1](*parts) if parts else lambda _machine, _scope, _function: ([], {})
        spread = lambda machine, scope: [part(machine, scope) for part in parts]  # noqa: E731
    if not node.keywords:
        return lambda machine, scope, _function: (spread(machine, scope), {})
    keywords = tuple((keyword.arg, compiler.value(keyword.value)) for keyword in node.keywords)
    if all(keyword.arg is not None for keyword in node.keywords):
        return lambda machine, scope, _function: (
            spread(machine, scope),
            {name: value(machine, scope) for name, value in keywords},  # type: ignore[misc]
        )

    def gather(machine: Expressions, scope: Scope, function: object) -> tuple[list[object], dict[str, object]]:
        args = spread(machine, scope)
        named = [(name, value(machine, scope)) for name, value in keywords]
        return args, machine.arguments(node, function, args, named)

    return gather


_FEW: Final[tuple[Callable[..., Callable[[Any, Scope, object], tuple[list[Any], dict[str, Any]]]], ...]] = (
    lambda a: lambda machine, scope, _function: ([a(machine, scope)], {}),
    lambda a, b: lambda machine, scope, _function: ([a(machine, scope), b(machine, scope)], {}),
    lambda a, b, c: lambda machine, scope, _function: ([a(machine, scope), b(machine, scope), c(machine, scope)], {}),
)
"""What evaluates one, two and three arguments, as nearly all calls have them."""


def _compile_call(compiler: Compiler, node: ast.Call, *, settles: bool) -> Value:
    func = node.func
    if isinstance(func, ast.Attribute):
        return _compile_method_call(compiler, node, func, settles=settles)
    called, arguments, line = compiler.value(func), _compile_arguments(compiler, node), compiler.line(node)

    def call(machine: Expressions, scope: Scope) -> object:
        function = called(machine, scope)
        args, kwargs = arguments(machine, scope, function)
        if line:
            machine.frames[-1].line = line
        value = machine.call_here(node, function, args, kwargs, scope)
        return _finish(machine, value, settles=settles) if type(value) in _UNFINISHED else value

    return call


def _compile_method_call(compiler: Compiler, node: ast.Call, func: ast.Attribute, *, settles: bool) -> Value:
    """Compile ``value.method()``: methods of Python's own containers are called without making an object of them."""
    compiler.steps += 1
    owner, name = compiler.value(func.value, settles=False), func.attr
    arguments = _compile_arguments(compiler, node)
    # A traceback shows the line where the name of the method ends (Python/compile.c); the arguments may have moved the
    # line on.
    line, end_line = compiler.line(func), compiler.line(func) and (func.end_lineno or func.lineno)
    is_quick = name in QUICK and not node.keywords

    def call(machine: Expressions, scope: Scope) -> object:
        value = owner(machine, scope)
        if line:
            machine.frames[-1].line = line
        if has_method(value, name):
            args, kwargs = arguments(machine, scope, value)
            if line:
                machine.frames[-1].line = end_line
            if is_quick and type(value) is str:
                result = call_quickly(value, name, args)
                if result is not ABSENT:
                    return result
            value = HostMethod(value, name).call(machine, list(map(machine.settle, args)), kwargs)
            if isinstance(value, NotKnown):
                value = machine.of_target(node, value, args)
        else:
            function = machine.settle(machine.attribute_of(value, name))
            args, kwargs = arguments(machine, scope, function)
            if line:
                machine.frames[-1].line = end_line
            value = machine.call_here(node, function, args, kwargs, scope)
        return _finish(machine, value, settles=settles) if type(value) in _UNFINISHED else value

    return call


def _compile_bool_op(compiler: Compiler, node: ast.BoolOp) -> Value:
    decisive = isinstance(node.op, ast.Or)
    parts = tuple(enumerate(map(compiler.value, node.values)))

    def join(machine: Expressions, scope: Scope) -> object:
        value: object = not decisive
        for number, part in parts:
            value = part(machine, scope)
            is_true = value if value is True or value is False else special.truth_of(machine, value)
            if is_true is decisive:
                return value
            if is_true is None:
                return machine.bool_op_on(node, number, value, scope)
        return value

    return join


def _compile_compare(compiler: Compiler, node: ast.Compare, *, settles: bool) -> Value:
    if len(node.ops) > 1:
        compiler.steps += len(node.ops)
        return lambda machine, scope: machine.compare_chain(node, scope)
    (op,), (comparator,) = node.ops, node.comparators
    if isinstance(op, (ast.Is, ast.IsNot)) and isinstance(comparator, ast.Constant) and comparator.value is None:
        return _compile_is_none(compiler, node, op, settles=settles)
    first, second = compiler.value(node.left, settles=False), compiler.value(comparator, settles=False)
    if isinstance(op, (ast.In, ast.NotIn)):
        return _compile_in(first, second, op, settles=settles)
    quick = _QUICK_COMPARISONS.get(type(op))

    def compare(machine: Expressions, scope: Scope) -> object:
        left, right = first(machine, scope), second(machine, scope)
        kind = type(left)
        # Python itself compares texts, numbers and None with their like.
        if quick is not None and kind in EVERYDAY and (type(right) is kind or (right is None and quick in _EQUALITY)):
            return quick(left, right)
        value = machine.compared(op, left, right)
        return machine.settle(value) if settles and type(value) is TargetExpression else value

    return compare


def _compile_in(first: Value, second: Value, op: ast.cmpop, *, settles: bool) -> Value:
    """Compile ``value in container``."""
    expected = isinstance(op, ast.In)

    def compare(machine: Expressions, scope: Scope) -> object:
        item, container = first(machine, scope), second(machine, scope)
        # Python itself looks for a plain value among plain ones.
        kind = type(container)
        if type(item) in EVERYDAY and (
            (kind in _HOLDERS and EVERYDAY.issuperset(map(type, container))) or (kind is str and type(item) is str)
        ):
            if len(container) > _LARGE:
                machine.count_size(container)
            return (item in container) is expected
        value = machine.compared(op, item, container)
        return machine.settle(value) if settles and type(value) is TargetExpression else value

    return compare


_HOLDERS: Final = _SIZED - {str, bytes}


def _compile_is_none(compiler: Compiler, node: ast.Compare, op: ast.cmpop, *, settles: bool) -> Value:
    """Compile ``value is None``."""
    compiler.steps += 1
    operand, expected = compiler.value(node.left, settles=False), isinstance(op, ast.Is)

    def compare(machine: Expressions, scope: Scope) -> object:
        value = operand(machine, scope)
        if value is None:
            return expected
        if type(value) in _NEVER_NONE:
            return not expected
        value = machine.compared(op, value, None)
        return machine.settle(value) if settles and type(value) is TargetExpression else value

    return compare


_NEVER_NONE: Final = _SIZED | {int, bool, float, PythonFunction, Class, Instance, PythonModule, TextWithHoles}
_EQUALITY: Final = (operator.eq, operator.ne)
_QUICK_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def _compile_binary(compiler: Compiler, node: ast.BinOp) -> Value:
    first, second, op = compiler.value(node.left), compiler.value(node.right), node.op
    is_sum, is_difference = isinstance(op, ast.Add), isinstance(op, ast.Sub)

    def apply(machine: Expressions, scope: Scope) -> object:
        left, right = first(machine, scope), second(machine, scope)
        kind = type(left)
        if kind is type(right):
            if kind is int:
                if is_sum and -_SMALL < left < _SMALL and -_SMALL < right < _SMALL:
                    return left + right
                if is_difference and -_SMALL < left < _SMALL and -_SMALL < right < _SMALL:
                    return left - right
            elif kind is str and is_sum and len(left) + len(right) <= LONGEST:
                value = left + right
                if len(value) > _LARGE:
                    machine.count_size(value)
                return value
        value = special.apply_binary(machine, op, left, right)
        if type(value) in _SIZED:
            machine.count_size(value)
        return value

    return apply


def _compile_unary(compiler: Compiler, node: ast.UnaryOp) -> Value:
    operand, op = compiler.value(node.operand), node.op
    if not isinstance(op, ast.Not):
        return lambda machine, scope: special.apply_unary(machine, op, operand(machine, scope))

    def negate(machine: Expressions, scope: Scope) -> object:
        value = operand(machine, scope)
        is_true = special.truth_of(machine, value)
        if is_true is None:
            return _opposite_of(value) if isinstance(value, NotKnown) else NotKnown("not …")
        return not is_true

    return negate


def _compile_if_exp(compiler: Compiler, node: ast.IfExp) -> Value:
    test, body, orelse = compiler.value(node.test), compiler.value(node.body), compiler.value(node.orelse)

    def choose(machine: Expressions, scope: Scope) -> object:
        value = test(machine, scope)
        is_true = value if value is True or value is False else special.truth_of(machine, value)
        if is_true is None:
            return machine.if_exp_on(node, value, scope)
        return body(machine, scope) if is_true else orelse(machine, scope)

    return choose


def _compile_items(compiler: Compiler, nodes: Sequence[ast.expr]) -> Callable[[Any, Scope], list[Any]]:
    """Return what evaluates expressions, some of which may be starred."""
    parts = tuple(
        (isinstance(node, ast.Starred), compiler.value(node.value if isinstance(node, ast.Starred) else node))
        for node in nodes
    )

    def gather(machine: Expressions, scope: Scope) -> list[object]:
        values: list[object] = []
        for is_starred, part in parts:
            value = part(machine, scope)
            if is_starred:
                values.extend(further_items(machine.items(value)))
            else:
                values.append(value)
        return values

    return gather


def _is_small(value: Any) -> bool:
    """Whether a constant is the same each time, and takes no steps for its size."""
    kind = type(value)
    return (
        value is None
        or kind is bool
        or kind is float
        or (kind is str and len(value) <= _LARGE)
        or (kind is int and -_SMALL < value < _SMALL)
    )


def _compile_list(compiler: Compiler, node: ast.List | ast.Tuple | ast.Set) -> Value:
    known: list[object] = [part.value for part in node.elts if isinstance(part, ast.Constant) and _is_small(part.value)]
    make: Callable[[list[object]], object] = tuple if isinstance(node, ast.Tuple) else list
    size = len(known)
    if size == len(node.elts) and not isinstance(node, ast.Set):
        compiler.steps += size + size // _ITEMS_OF_A_STEP
        folded = make(known)
        return lambda _machine, _scope: folded if make is tuple else known[:]
    gather = _compile_items(compiler, node.elts)

    def build(machine: Expressions, scope: Scope) -> object:
        values = gather(machine, scope)
        if len(values) > _LARGE:
            machine.count_size(values)
        return values

    if isinstance(node, ast.List):
        return build
    if isinstance(node, ast.Tuple):
        return lambda machine, scope: tuple(build(machine, scope))  # type: ignore[arg-type]
    return lambda machine, scope: make_set(machine, set, build(machine, scope))  # type: ignore[arg-type]


def _compile_dict(compiler: Compiler, node: ast.Dict) -> Value:
    parts = tuple(
        (None if key is None else compiler.value(key), compiler.value(value))
        for key, value in zip(node.keys, node.values, strict=True)
    )

    def build(machine: Expressions, scope: Scope) -> object:
        made: dict[object, object] = {}
        for key_of_part, value_of_part in parts:
            if key_of_part is None:
                if not fill_dict(machine, made, value_of_part(machine, scope)):
                    made[NotKnown("**")] = NotKnown("**")
                continue
            # Language reference, 6.2.7: the key is evaluated before the value, and hashed after it.
            key = key_of_part(machine, scope)
            value = value_of_part(machine, scope)
            made[key if type(key) is str else special.hashed_key(machine, made, key)] = value
        if len(made) > _LARGE:
            machine.count_size(made)
        return made

    return build


def _compile_subscript(compiler: Compiler, node: ast.Subscript, *, settles: bool) -> Value:
    owner, place, line = compiler.value(node.value, settles=False), compiler.value(node.slice), compiler.line(node)

    def take(machine: Expressions, scope: Scope) -> object:
        value = owner(machine, scope)
        index = place(machine, scope)
        if line:
            machine.frames[-1].line = line
        if type(value) is dict and type(index) is str and index in value:
            value = machine.settle(value[index])
        else:
            if isinstance(value, NotKnown):
                machine.perhaps_uses(value, [index])
            lifted = machine.with_target("[]", take_item, value, index) if type(value) is TargetExpression else None
            value = lifted or special.get_item(machine, machine.settle(value), index)
        return _finish(machine, value, settles=settles) if type(value) in _UNFINISHED else value

    return take


def _compile_slice(compiler: Compiler, node: ast.Slice) -> Value:
    parts = tuple(None if bound is None else compiler.value(bound) for bound in (node.lower, node.upper, node.step))

    def build(machine: Expressions, scope: Scope) -> object:
        bounds = [None if part is None else part(machine, scope) for part in parts]
        return slice(*bounds) if is_concrete(bounds) else NotKnown("slice")

    return build


def _compile_joined(compiler: Compiler, node: ast.JoinedStr, *, settles: bool) -> Value:
    parts = tuple(compiler.value(part, settles=False) for part in node.values)

    def join(machine: Expressions, scope: Scope) -> object:
        texts = [part(machine, scope) for part in parts]
        if all(type(part) is str for part in texts) and sum(map(len, texts)) <= LONGEST:
            value: object = "".join(texts)
        else:
            value = machine.joined(node, texts)
        return _finish(machine, value, settles=settles) if type(value) in _UNFINISHED else value

    return join


def _compile_formatted(compiler: Compiler, node: ast.FormattedValue, *, settles: bool) -> Value:
    inner = compiler.value(node.value, settles=False)
    specification = None if node.format_spec is None else compiler.value(node.format_spec)
    is_plain = specification is None and node.conversion == -1

    def show(machine: Expressions, scope: Scope) -> object:
        value = inner(machine, scope)
        if is_plain and type(value) is str:
            return value
        value = machine.formatted(node, value, "" if specification is None else specification(machine, scope))
        return _finish(machine, value, settles=settles) if type(value) in _UNFINISHED else value

    return show


def _compile_template(compiler: Compiler, node: Any) -> Value:
    """Compile ``t"…"``: its values are computed, and nothing is made of them."""
    parts = [compiler.value(part.value) for part in node.values if not isinstance(part, ast.Constant)]

    def evaluate(machine: Expressions, scope: Scope) -> object:
        for part in parts:
            part(machine, scope)
        return NotKnown(machine.source_of(node))

    return evaluate


def _compile_lambda(compiler: Compiler, node: ast.Lambda) -> Value:
    defaults = compile_defaults(compiler, node.args)
    return lambda machine, scope: PythonFunction(
        "<lambda>", node, scope, defaults(machine, scope), qualified=scope.qualify("<lambda>")
    )


def compile_defaults(compiler: Compiler, args: ast.arguments) -> Callable[[Any, Scope], dict[str, object]]:
    """Return what evaluates the default arguments of a function."""
    positional = [*args.posonlyargs, *args.args][-len(args.defaults) :] if args.defaults else []
    pairs = [*zip(positional, args.defaults, strict=True), *zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    given = tuple((parameter.arg, value) for parameter, value in pairs if value is not None)
    known: dict[str, object] = {
        name: value.value for name, value in given if isinstance(value, ast.Constant) and _is_small(value.value)
    }
    if len(known) == len(given):
        compiler.steps += len(given)
        return lambda _machine, _scope: known.copy()
    values = tuple((name, compiler.value(value)) for name, value in given)
    return lambda machine, scope: {name: value(machine, scope) for name, value in values}


def _compile_named(compiler: Compiler, node: ast.NamedExpr) -> Value:
    inner, name = compiler.value(node.value), node.target.id

    def evaluate(machine: Expressions, scope: Scope) -> object:
        value = inner(machine, scope)
        machine.bind_named(name, value, scope)
        return value

    return evaluate


def _compile_parts(compiler: Compiler, node: ComprehensionNode) -> Comprehension:
    # The first iterable belongs to the scope around (language reference, 6.2.4), and is evaluated once.
    made: list[Part] = []
    outer = compiler
    for part in node.generators:
        iterated = outer.value(part.iter)
        if made:
            made[-1] = replace(made[-1], steps=made[-1].steps + outer.steps)
        inner = Compiler(is_long=compiler.is_long)
        target = inner.target(part.target)
        conditions = tuple((test, inner.value(test)) for test in part.ifs)
        made.append(Part(iterated=iterated, target=target, conditions=conditions, steps=inner.steps + 1))
        outer = Compiler(is_long=compiler.is_long)
    inner = Compiler(is_long=compiler.is_long)
    if isinstance(node, ast.DictComp):
        key, item = inner.value(node.key), inner.value(node.value)
        element: Value = lambda machine, scope: (key(machine, scope), item(machine, scope))  # noqa: E731
    else:
        element = inner.value(node.elt)
    made[-1] = replace(made[-1], steps=made[-1].steps + inner.steps)
    return Comprehension(node=node, parts=tuple(made), element=element)


def _compile_comprehension(compiler: Compiler, node: ast.ListComp | ast.SetComp | ast.DictComp) -> Value:
    form = _compile_parts(compiler, node)
    element = form.element

    def evaluate(machine: Expressions, scope: Scope) -> object:
        inner = Scope({}, scope.module, scope, is_comprehension=True, prefix=scope.prefix)
        results: list[object] = []
        try:
            for _ in machine.rounds(form, machine.source_of_part(form, 0, scope), inner):
                results.append(element(machine, inner))  # noqa: PERF401 - those before the end of a round count
        except NotFollowed as stop:
            return NotKnown(machine.source_of(node), stop.unknown.why)
        if isinstance(node, ast.DictComp):
            made: dict[object, object] = {}
            fill_dict(machine, made, results)
            return made
        if isinstance(node, ast.SetComp):
            return make_set(machine, set, results)
        if len(results) > _LARGE:
            machine.count_size(results)
        return results

    return evaluate


def _compile_generator(compiler: Compiler, node: ast.GeneratorExp) -> Value:
    """Compile a generator expression: only what its first ``for`` goes through is evaluated at once."""
    form = _compile_parts(compiler, node)

    def evaluate(machine: Expressions, scope: Scope) -> object:
        inner = Scope({}, scope.module, scope, is_comprehension=True, prefix=scope.prefix)
        first = machine.source_of_part(form, 0, scope)
        if isinstance(first, NotKnown) and not machine.library.acts(node):
            return NotKnown(machine.source_of(node), first.why)
        here = machine.frames[-1]
        frame = Frame(file=here.file, line=node.lineno, function=here.function)
        return GeneratorObject(machine.source_of(node), frame, machine.elements(form, first, inner), node)

    return evaluate


def _compile_await(compiler: Compiler, node: ast.Await) -> Value:
    inner = compiler.value(node.value)
    return lambda machine, scope: machine.awaited(inner(machine, scope))


def _compile_yield(_compiler: Compiler, node: ast.Yield | ast.YieldFrom) -> Value:
    # The statement that it is in has run it: see ``flow``.
    return lambda machine, _scope: machine.frames[-1].sent.pop(node, NotKnown("yield"))


_UNFINISHED: Final = _SIZED | {TargetExpression}
QUESTIONS.update({
    ast.Name: _compile_name,
    ast.Attribute: _compile_attribute,
    ast.Call: _compile_call,
    ast.Compare: _compile_compare,
    ast.Subscript: _compile_subscript,
    ast.JoinedStr: _compile_joined,
    ast.FormattedValue: _compile_formatted,
})  # fmt: skip
VALUES.update({
    ast.Constant: _compile_constant,
    ast.BoolOp: _compile_bool_op,
    ast.BinOp: _compile_binary,
    ast.UnaryOp: _compile_unary,
    ast.IfExp: _compile_if_exp,
    ast.List: _compile_list,
    ast.Tuple: _compile_list,
    ast.Set: _compile_list,
    ast.Dict: _compile_dict,
    ast.Slice: _compile_slice,
    TemplateStr: _compile_template,
    ast.Lambda: _compile_lambda,
    ast.NamedExpr: _compile_named,
    ast.ListComp: _compile_comprehension,
    ast.SetComp: _compile_comprehension,
    ast.GeneratorExp: _compile_generator,
    ast.DictComp: _compile_comprehension,
    ast.Yield: _compile_yield,
    ast.YieldFrom: _compile_yield,
    ast.Await: _compile_await,
})  # fmt: skip
OTHERS[ast.expr] = lambda node: lambda machine, _scope: machine.not_followed_value(node)
"""An expression of another kind is a gap. ``Starred`` is a part of others."""
