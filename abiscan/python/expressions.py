"""Expressions of Python, evaluated with what is known."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Sized
from typing import Any

from packaging.version import Version

from abiscan.python import attributes, special
from abiscan.python.builtin_methods import fill_dict, make_set
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
    Deferred,
    Further,
    NotKnown,
    PythonFunction,
    Scope,
    TargetExpression,
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

    def evaluate(self, node: ast.expr, scope: Scope) -> object:
        """Return the value of an expression."""
        self.count_steps()
        method = EVALUATE.get(type(node))
        value = self._not_followed(node) if method is None else method(self, node, scope)
        kind = type(value)
        if kind in _SIZED:
            self.count_size(value)  # type: ignore[arg-type]
        # Only those who ask by ``evaluate_unsettled`` can go on with a question to the target in place of its answer.
        return self.settle(value) if kind is TargetExpression else value

    def count_size(self, value: Sized) -> None:
        """Count steps for a large value: most operations go through all of it."""
        size = len(value)
        if size > _LARGE:
            self.count_steps(size // (_LARGE if isinstance(value, (str, bytes)) else _ITEMS_OF_A_STEP))

    def evaluate_unsettled(self, node: ast.expr, scope: Scope) -> object:
        """Return the value of an expression, or what is still to be asked of the target: see ``TargetExpression``."""
        self.count_steps()
        method = EVALUATE.get(type(node))
        value = self._not_followed(node) if method is None else method(self, node, scope)
        if type(value) in _SIZED:
            self.count_size(value)  # type: ignore[arg-type]
        return value

    def _not_followed(self, node: ast.expr) -> object:
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
            if enclosing.function is not None and name in self.library.locals(enclosing.function.node):
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

    # ---- one method for each form

    def _evaluate_constant(self, node: ast.Constant, _scope: Scope) -> object:
        value = node.value
        return value if value is None or type(value) is bool else bound_size("constant", value)

    def _evaluate_name(self, node: ast.Name, scope: Scope) -> object:
        return self.look_up(node.id, scope)

    def _evaluate_attribute(self, node: ast.Attribute, scope: Scope) -> object:
        value = self.evaluate_unsettled(node.value, scope)
        self.frames[-1].line = node.lineno
        return self._attribute_of(value, node.attr)

    def _attribute_of(self, value: object, name: str) -> object:
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

    def _evaluate_call(self, node: ast.Call, scope: Scope) -> object:
        function = self.evaluate(node.func, scope)
        # A function that only computes gets questions to the target as they are, and makes one question of them.
        computes = _only_computes(function) and not node.keywords
        args: list[object] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                args.extend(further_items(self.items(self.evaluate(arg.value, scope))))
            else:
                args.append(self.evaluate_unsettled(arg, scope) if computes else self.evaluate(arg, scope))
        kwargs: dict[str, object] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, scope)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
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
        if isinstance(function, LooksAround):
            return self.special(function.name, args, scope)
        # A traceback shows the line where the name of the method ends (Python/compile.c); the arguments may have moved
        # the line on.
        self.frames[-1].line = (
            node.func.end_lineno or node.lineno if isinstance(node.func, ast.Attribute) else node.lineno
        )
        result = self._evaluate_computed(function, args) if computes else self.call(function, args, kwargs)
        # What code that is not read makes of the version of torch is decided by the target, although its result is not
        # known.
        if isinstance(result, NotKnown) and result.why is Why.NOT_FOLLOWED and self._asks_for_target(node, args):
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

    def _bool_op(self, node: ast.BoolOp, scope: Scope) -> object:
        # ``decisive`` ends the evaluation: true for ``or``, false for ``and``. At the head of the loop, each item so
        # far was the opposite, or is not known; ``unknown`` is one of the latter that no decision was made about, and
        # the result may be the value of each of those.
        decisive = isinstance(node.op, ast.Or)
        unknown: NotKnown | None = None
        keys: list[object] = []
        value: object = not decisive
        for item in node.values:
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
            self._bind_named(name, NotKnown(name), scope)

    def _evaluate_compare(self, node: ast.Compare, scope: Scope) -> object:
        if len(node.ops) == 1:
            (op,), (comparator,) = node.ops, node.comparators
            return self._evaluate_compared(
                op, self.evaluate_unsettled(node.left, scope), self.evaluate_unsettled(comparator, scope)
            )
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
                result = self._evaluate_compared(op, left, right)
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
            return right, self._evaluate_compared(op, left, right)
        except Thrown:
            return right, NotKnown(self.source_of(comparator))

    def _evaluate_compared(self, op: ast.cmpop, left: object, right: object) -> object:
        lifted = self.with_target(f" {type(op).__name__}", functools.partial(compare_values, op), left, right)
        if lifted is not None:
            return lifted
        if type(left) is TargetExpression and isinstance(right, NotKnown):
            return compare_values(op, NotKnown(left.name, right.why), right)  # whatever the target says
        if type(right) is TargetExpression and isinstance(left, NotKnown):
            return compare_values(op, left, NotKnown(right.name, left.why))
        return special.compare_values(self, op, self.settle(left), self.settle(right))

    def _evaluate_binary(self, node: ast.BinOp, scope: Scope) -> object:
        return special.apply_binary(self, node.op, self.evaluate(node.left, scope), self.evaluate(node.right, scope))

    def _evaluate_unary(self, node: ast.UnaryOp, scope: Scope) -> object:
        value = self.evaluate(node.operand, scope)
        if not isinstance(node.op, ast.Not):
            return special.apply_unary(self, node.op, value)
        is_true = special.truth_of(self, value)
        if is_true is None:
            return _opposite_of(value) if isinstance(value, NotKnown) else NotKnown("not …")
        return not is_true

    def _if_exp(self, node: ast.IfExp, scope: Scope) -> object:
        test = self.evaluate(node.test, scope)
        is_true = special.truth_of(self, test)
        unknown = test if isinstance(test, NotKnown) else NotKnown(self.source_of(node.test))
        # Each decision may double the runs. So one that was made before counts, and without one, both sides are
        # evaluated unless one of them acts.
        if is_true is None:
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

    def _evaluate_list(self, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> object:
        values: list[object] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                values.extend(further_items(self.items(self.evaluate(element.value, scope))))
            else:
                values.append(self.evaluate(element, scope))
        if isinstance(node, ast.Set):
            return make_set(self, set, values)
        return tuple(values) if isinstance(node, ast.Tuple) else values

    def _evaluate_dict(self, node: ast.Dict, scope: Scope) -> object:
        made: dict[object, object] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            if key_node is None:
                if not fill_dict(self, made, self.evaluate(value_node, scope)):
                    made[NotKnown("**")] = NotKnown("**")
                continue
            # Language reference, 6.2.7: the key is evaluated before the value, and hashed after it.
            key = self.evaluate(key_node, scope)
            value = self.evaluate(value_node, scope)
            made[special.hashed_key(self, made, key)] = value
        return made

    def _evaluate_subscript(self, node: ast.Subscript, scope: Scope) -> object:
        value = self.evaluate_unsettled(node.value, scope)
        index = self.evaluate(node.slice, scope)
        self.frames[-1].line = node.lineno
        if isinstance(value, NotKnown):
            self.perhaps_uses(value, [index])
        lifted = self.with_target("[]", take_item, value, index)
        if lifted is not None:
            return lifted
        return special.get_item(self, self.settle(value), index)

    def _evaluate_slice(self, node: ast.Slice, scope: Scope) -> object:
        parts = [
            None if bound is None else self.evaluate(bound, scope) for bound in (node.lower, node.upper, node.step)
        ]
        return slice(*parts) if is_concrete(parts) else NotKnown("slice")

    def _evaluate_joined(self, node: ast.JoinedStr, scope: Scope) -> object:
        parts = [self.evaluate_unsettled(value, scope) for value in node.values]
        lifted = self.with_target(" f-string", lambda *texts: "".join(texts), *parts)
        if lifted is not None:
            return lifted
        parts = [self.settle(value) for value in parts]
        if any(isinstance(value, NotKnown) for value in parts):
            return make_text(self.source_of(node), lambda *texts: "".join(map(str, texts)), *parts)
        return bound_size("f-string", "".join(str(value) for value in parts))

    def _evaluate_formatted(self, node: ast.FormattedValue, scope: Scope) -> object:
        value = self.evaluate_unsettled(node.value, scope)
        if type(value) is TargetExpression and node.format_spec is None and node.conversion != ord("r"):
            lifted = self.with_target(" str()", str, value)
            if lifted is not None:
                return lifted
        value = self.settle(value)
        spec = "" if node.format_spec is None else self.evaluate(node.format_spec, scope)
        if node.conversion == ord("r"):
            value = special.repr_of(self, value)
        elif node.conversion == ord("s"):
            value = special.text(self, value)
        return special.format_value(self, value, spec)

    def _evaluate_template(self, node: ast.AST, scope: Scope) -> object:
        """Return ``t"…"``: its values are computed, and nothing is made of them."""
        for part in getattr(node, "values", ()):
            if not isinstance(part, ast.Constant):
                self.evaluate(part.value, scope)
        return NotKnown(self.source_of(node))

    def _evaluate_lambda(self, node: ast.Lambda, scope: Scope) -> object:
        return PythonFunction(
            "<lambda>", node, scope, self.defaults(node.args, scope), qualified=scope.qualify("<lambda>")
        )

    def defaults(self, args: ast.arguments, scope: Scope) -> dict[str, object]:
        """Return the values of a function's default arguments."""
        by_name: dict[str, object] = {}
        if args.defaults:
            positional = [*args.posonlyargs, *args.args][-len(args.defaults) :]
            by_name = {
                argument.arg: self.evaluate(value, scope)
                for argument, value in zip(positional, args.defaults, strict=True)
            }
        for argument, value in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            if value:
                by_name[argument.arg] = self.evaluate(value, scope)
        return by_name

    def _evaluate_named(self, node: ast.NamedExpr, scope: Scope) -> object:
        value = self.evaluate(node.value, scope)
        self._bind_named(node.target.id, value, scope)
        return value

    def _bind_named(self, name: str, value: object, scope: Scope) -> None:
        # PEP 572: the name is bound in the scope that the comprehensions around it are in.
        home = scope
        while home.is_comprehension and home.around is not None:
            home = home.around
        home.outer_names.get(name, home).names[name] = value

    def _evaluate_comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp, scope: Scope) -> object:
        # The first iterable belongs to the scope around (language reference, 6.2.4), everything else to one of its own.
        inner = Scope({}, scope.module, scope, is_comprehension=True, prefix=scope.prefix)
        results: list[object] = []
        element = ast.Tuple([node.key, node.value], ast.Load()) if isinstance(node, ast.DictComp) else node.elt
        try:
            results.extend(
                self.evaluate(element, inner)
                for _ in self._evaluate_rounds(node, self._evaluate_first(node, scope), inner)
            )
        except _NotFollowed as stop:
            return NotKnown(self.source_of(node), stop.unknown.why)
        if isinstance(node, ast.DictComp):
            made: dict[object, object] = {}
            fill_dict(self, made, results)
            return made
        return make_set(self, set, results) if isinstance(node, ast.SetComp) else results

    def _evaluate_generator(self, node: ast.GeneratorExp, scope: Scope) -> object:
        """Return a generator expression: only what its first ``for`` goes through is evaluated now."""
        inner = Scope({}, scope.module, scope, is_comprehension=True, prefix=scope.prefix)
        first = self._evaluate_first(node, scope)
        if isinstance(first, NotKnown) and not self.library.acts(node):
            return NotKnown(self.source_of(node), first.why)
        here = self.frames[-1]
        frame = Frame(file=here.file, line=node.lineno, function=here.function)
        return GeneratorObject(self.source_of(node), frame, self._evaluate_elements(node, first, inner), node)

    def _evaluate_elements(self, node: ast.GeneratorExp, first: Iterator[object] | NotKnown, scope: Scope) -> Body:
        """Yield the items of a generator expression."""
        try:
            for _ in self._evaluate_rounds(node, first, scope):
                yield self.evaluate(node.elt, scope)
        except _NotFollowed as stop:
            yield Further(stop.unknown.name, stop.unknown.why)
        return None

    def _evaluate_first(self, node: _Comprehension, scope: Scope) -> Iterator[object] | NotKnown:
        return self._evaluate_source(node, node.generators[0], scope)

    def _evaluate_source(
        self, node: _Comprehension, part: ast.comprehension, scope: Scope
    ) -> Iterator[object] | NotKnown:
        """Return what a ``for`` of a comprehension goes through."""
        value = self.evaluate(part.iter, scope)
        source = self.iterate_async(value) if part.is_async else self.iterate(value)
        # Elements that act make it matter whether there are any: one run has none, another a single unknown item for
        # all.
        if isinstance(source, NotKnown) and self.library.acts(node):
            text, spot = f"{self.source_of(part.iter)} is empty", (part.iter.lineno, part.iter.col_offset)
            empty = self.decide(text, source.why, spot, default=True)
            return iter([] if empty else [source.part("[…]")])
        return source

    def _evaluate_rounds(
        self, node: _Comprehension, source: Iterator[object] | NotKnown, scope: Scope, depth: int = 0
    ) -> Iterator[None]:
        if isinstance(source, NotKnown):
            raise _NotFollowed(source)
        # It yields once for each element, when the names of all its ``for`` parts are bound.
        part = node.generators[depth]
        for item in source:
            self.count_steps()
            value = self._decide_further(node, part, item) if isinstance(item, Further) else item
            if value is ABSENT:
                continue
            self.assign(part.target, value, scope)
            if not all(self._evaluate_condition(node, test, scope) for test in part.ifs):
                continue
            if depth + 1 == len(node.generators):
                yield
            else:
                yield from self._evaluate_rounds(
                    node, self._evaluate_source(node, node.generators[depth + 1], scope), scope, depth + 1
                )

    def _decide_further(self, node: _Comprehension, part: ast.comprehension, further: Further) -> NotKnown:
        """Return one item in place of an unknown number of them, ABSENT for none, where elements act."""
        if not self.library.acts(node):
            raise _NotFollowed(further)
        text, spot = f"{self.source_of(part.iter)} is empty", (part.iter.lineno, part.iter.col_offset)
        return ABSENT if self.decide(text, further.why, spot, default=True) else further.part("[…]")

    def _evaluate_condition(self, node: _Comprehension, test: ast.expr, scope: Scope) -> bool:
        value = self.evaluate(test, scope)
        is_true = special.truth_of(self, value)
        if is_true is not None:
            return is_true
        unknown = value if isinstance(value, NotKnown) else NotKnown(describe_value(value))
        if not self.library.acts(node):
            raise _NotFollowed(unknown)
        return self.decide(
            self.source_of(test), unknown.why, (test.lineno, test.col_offset), default=False, about=unknown
        )

    def _evaluate_await(self, node: ast.Await, scope: Scope) -> object:
        return self.awaited(self.evaluate(node.value, scope))

    def assign(self, target: ast.expr, value: object, scope: Scope) -> None:
        """Bind a value to what stands on the left of ``=``."""
        raise NotImplementedError

    def _evaluate_yield(self, node: ast.Yield | ast.YieldFrom, _scope: Scope) -> object:
        """Return what a ``yield`` gives, which the statement that it is in has run: see ``flow``."""
        return self.frames[-1].sent.pop(node, NotKnown("yield"))


_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


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


class _NotFollowed(Exception):  # noqa: N818 - it ends a comprehension, it is no error
    def __init__(self, unknown: NotKnown) -> None:
        super().__init__(unknown.name)
        self.unknown = unknown


def _is_of_target(value: object) -> bool:
    return isinstance(value, NotKnown) and value.why is Why.TARGET


EVALUATE: dict[type[ast.AST], Callable[[Expressions, Any, Scope], object]] = {
    ast.Constant: Expressions._evaluate_constant,
    ast.Name: Expressions._evaluate_name,
    ast.Attribute: Expressions._evaluate_attribute,
    ast.Call: Expressions._evaluate_call,
    ast.BoolOp: Expressions._bool_op,
    ast.Compare: Expressions._evaluate_compare,
    ast.BinOp: Expressions._evaluate_binary,
    ast.UnaryOp: Expressions._evaluate_unary,
    ast.IfExp: Expressions._if_exp,
    ast.List: Expressions._evaluate_list,
    ast.Tuple: Expressions._evaluate_list,
    ast.Set: Expressions._evaluate_list,
    ast.Dict: Expressions._evaluate_dict,
    ast.Subscript: Expressions._evaluate_subscript,
    ast.Slice: Expressions._evaluate_slice,
    ast.JoinedStr: Expressions._evaluate_joined,
    ast.FormattedValue: Expressions._evaluate_formatted,
    TemplateStr: Expressions._evaluate_template,
    ast.Lambda: Expressions._evaluate_lambda,
    ast.NamedExpr: Expressions._evaluate_named,
    ast.ListComp: Expressions._evaluate_comprehension,
    ast.SetComp: Expressions._evaluate_comprehension,
    ast.GeneratorExp: Expressions._evaluate_generator,
    ast.DictComp: Expressions._evaluate_comprehension,
    ast.Yield: Expressions._evaluate_yield,
    ast.YieldFrom: Expressions._evaluate_yield,
    ast.Await: Expressions._evaluate_await,
}
"""The method for each kind of expression; one of another kind is a gap. ``Starred`` is a part of others."""
