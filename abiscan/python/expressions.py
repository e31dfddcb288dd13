"""Expressions of Python, evaluated with what is known."""

from __future__ import annotations

import ast
import builtins
import functools
import sys
from collections.abc import Callable, Iterator, Sized
from typing import Any

from packaging.version import Version

from abiscan.python import attributes, special
from abiscan.python.hosts import distinct, fill
from abiscan.python.iteration import Body, Coroutine, GeneratorObject
from abiscan.python.machine import Frame, PythonMachine
from abiscan.python.model import World
from abiscan.python.modelled import Modelled, Native
from abiscan.python.operations import bounded, compare, described, subscript
from abiscan.python.targets import asks
from abiscan.python.values import (
    Deferred,
    Further,
    NotKnown,
    OfTarget,
    PythonFunction,
    Scope,
    Thrown,
    Why,
    concrete,
    further,
    key_of,
    thrown,
)

_LONG_EXPRESSION = 200
_LARGE = 1_000
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

    def __init__(self, receiver: OfTarget, name: str) -> None:
        self.receiver, self.name = receiver, name

    def described(self) -> str:
        """Its name."""
        return self.name

    def call(self, machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
        """Call it on the text, which is asked for."""
        return machine.call(machine.attribute(machine.settle(self.receiver), self.name), args, kwargs)


class Expressions(PythonMachine):
    """Evaluates expressions."""

    def evaluate(self, node: ast.expr, scope: Scope) -> object:
        """The value of an expression."""
        self.tick()
        method = EVALUATE.get(type(node))
        value = self._not_followed(node) if method is None else method(self, node, scope)
        kind = type(value)
        if kind in _SIZED:
            self.weigh(value)  # type: ignore[arg-type]
        return self.settle(value) if kind is OfTarget else value

    def weigh(self, value: Sized) -> None:
        """Count steps for something large, which whatever is done with it goes through."""
        size = len(value)
        if size > _LARGE:
            self.tick(size // (_LARGE if isinstance(value, (str, bytes)) else 2))

    def unsettled(self, node: ast.expr, scope: Scope) -> object:
        """The value of an expression, or what is still to be asked of the target: see ``OfTarget``."""
        self.tick()
        method = EVALUATE.get(type(node))
        value = self._not_followed(node) if method is None else method(self, node, scope)
        if type(value) in _SIZED:
            self.weigh(value)  # type: ignore[arg-type]
        return value

    def _not_followed(self, node: ast.expr) -> object:
        if self.library.acts(node):
            self.gap(f"{type(node).__name__} is not followed")
            self.trace.is_doubtful = True
        return NotKnown(self.source_of(node))

    def source_of(self, node: ast.AST) -> str:
        """The text of an expression, for a condition or a gap."""
        known = self.library.texts
        if node not in known:
            known[node] = _text_of(node)
        return known[node]

    def attribute(self, value: object, name: str) -> object:
        """An attribute of a value."""
        return attributes.get(self, value, name)

    def look_up(self, name: str, scope: Scope) -> object:
        """What a name stands for."""
        one: Scope | None = scope
        while one is not None:
            if one.outer_names:
                one = one.outer_names.get(name, one)
            if name in one.names and (one is scope or not one.is_class):
                value = one.names[name]
                return self.settle(value) if type(value) is Deferred else value
            if one.function is not None and name in self.library.locals(one.function.node):
                return self._unbound(name, inside=one is scope)
            one = one.around
        if name == "__name__":
            return scope.module.name
        if name in {"__file__", "__path__", "__package__", "__spec__", "__doc__"}:
            return attributes.of_module(self, scope.module, name)
        if name in self.builtins:
            return self.builtins[name]
        if scope.module.open_ or hasattr(builtins, name) or self.has_guessed:
            return NotKnown(name)
        raise thrown(NameError, f"name '{name}' is not defined")

    def items(self, value: object) -> list[object] | NotKnown:
        """What iterating over a value gives."""
        return special.items(self, value)

    def iterate(self, value: object) -> Iterator[object] | NotKnown:
        """The items of a value, one after the other."""
        return special.iterate(self, value)

    def iterate_async(self, value: object) -> Iterator[object] | NotKnown:
        """The items of a value for ``async for``."""
        method = special.hook(self, value, "__aiter__")
        if method is None or isinstance(method, NotKnown):
            return special.iterate(self, value) if method is None else method
        iterator = self.call(method, [], {})
        if not special.is_own(iterator):
            return special.iterate(self, iterator)
        return self._async_items(special.hook(self, iterator, "__anext__"))

    def _async_items(self, method: object) -> Iterator[object]:
        while True:
            self.tick()
            try:
                item = self.awaited(self.call(method, [], {}))
            except Thrown as error:
                if error.failure.cls is not StopAsyncIteration:
                    raise
                return
            yield item

    def awaited(self, value: object) -> object:
        """What waiting for a value gives; one that nobody can wait for, itself."""
        if isinstance(value, Coroutine):
            return value.wait(self)
        method = special.hook(self, value, "__await__")
        if method is None or isinstance(method, NotKnown):
            return value
        waiting = self.call(method, [], {})
        self.items(waiting)
        return waiting.result if isinstance(waiting, GeneratorObject) else NotKnown("await")

    def _unbound(self, name: str, *, inside: bool) -> object:
        """A name of a function that has no value yet."""
        if self.has_guessed:
            return NotKnown(name)
        if inside:
            raise thrown(
                UnboundLocalError, f"cannot access local variable '{name}' where it is not associated with a value"
            )
        text = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
        raise thrown(NameError, text)

    # ---- one method for each form

    def _constant(self, node: ast.Constant, _scope: Scope) -> object:
        value = node.value
        return value if value is None or type(value) is bool else bounded("constant", value)

    def _name(self, node: ast.Name, scope: Scope) -> object:
        return self.look_up(node.id, scope)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> object:
        value = self.unsettled(node.value, scope)
        self.frames[-1].line = node.lineno
        return self._attribute_of(value, node.attr)

    def _attribute_of(self, value: object, name: str) -> object:
        if type(value) is not OfTarget:
            return self.attribute(value, name)
        if name in _METHODS and isinstance(self.world.foresee(value.of), str):
            return MethodOfTarget(value, name)
        found = self.with_target(f".{name}", lambda one: getattr(one, name), value)
        return found or self.attribute(self.settle(value), name)

    def with_target(self, what: str, operation: Callable[..., object], *values: object) -> OfTarget | None:
        """What Python makes of values, one of which follows from the target; None if all of them must be known."""
        others = [one for one in values if type(one) is not OfTarget]
        if len(others) == len(values) or not all(isinstance(one, _PLAIN) and concrete(one) for one in others):
            return None

        def of(world: World) -> object:
            return operation(*[one.of(world) if isinstance(one, OfTarget) else one for one in values])

        try:
            value = self.world.foresee(of)
        except Exception:  # noqa: BLE001 - it is raised again where the values are known
            return None
        names = ", ".join(one.name if isinstance(one, OfTarget) else repr(one) for one in values)
        return OfTarget(f"({names}){what}", of) if isinstance(value, (*_PLAIN, list)) and concrete(value) else None

    def _call(self, node: ast.Call, scope: Scope) -> object:
        function = self.evaluate(node.func, scope)
        computes = _computes(function) and not node.keywords
        args: list[object] = []
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                args.extend(further(self.items(self.evaluate(arg.value, scope))))
            else:
                args.append(self.unsettled(arg, scope) if computes else self.evaluate(arg, scope))
        kwargs: dict[str, object] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, scope)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif not isinstance(value, NotKnown):
                given: dict[object, object] = {}
                fill(self, given, value)
                if twice := [one for one in given if isinstance(one, str) and one in kwargs]:
                    text = f"{described(function)}() got multiple values for keyword argument '{twice[0]}'"
                    raise thrown(TypeError, text)
                kwargs.update({str(key): one for key, one in given.items() if isinstance(key, str)})
                if special.truth(self, given) is None or any(isinstance(one, NotKnown) for one in given):
                    args.append(Further("**"))
            else:
                args.append(Further(value.name, value.why))
        if (
            isinstance(node.func, ast.Name)
            and node.func.id in _LOOKING_AROUND
            and node.func.id not in scope.module.names
        ):
            return self.special(node.func.id, args, scope)
        self.frames[-1].line = (
            node.func.end_lineno or node.lineno if isinstance(node.func, ast.Attribute) else node.lineno
        )
        result = self._computed(function, args) if computes else self.call(function, args, kwargs)
        if isinstance(result, NotKnown) and result.why is Why.NOT_FOLLOWED and self._asks_for_target(node, args):
            return NotKnown(result.name, Why.TARGET)
        return result

    def _computed(self, function: object, args: list[object]) -> object:
        """Call a function that does nothing but compute with its arguments."""
        values = [function.receiver, *args] if isinstance(function, MethodOfTarget) else args
        found = self.with_target(f" {described(function)}()", _computation(function), *values)
        if found is not None:
            return found
        if isinstance(function, MethodOfTarget):
            function = self.attribute(self.settle(function.receiver), function.name)
        return self.call(function, [self.settle(one) for one in args], {})

    def _asks_for_target(self, node: ast.Call, args: list[object]) -> bool:
        """Whether a call that is not followed is about the version of torch or CUDA, or about an operator's result."""
        if any(map(_is_of_target, args)):
            return True
        if node not in self.library.asking:
            frame = self.frames[-1]
            bodies: list[ast.AST] = [frame.function.node] if frame.function else []
            if frame.file is not None and (module := self.library.tree(frame.file)) is not None:
                bodies.append(module)
            self.library.asking[node] = asks([node], [self.library.bindings(body) for body in bodies])
        return self.library.asking[node]

    def special(self, name: str, args: list[object], scope: Scope) -> object:
        """The built-in functions that look at their caller."""
        raise NotImplementedError

    def _bool_op(self, node: ast.BoolOp, scope: Scope) -> object:
        decisive = isinstance(node.op, ast.Or)
        unknown: NotKnown | None = None
        keys: list[object] = []
        value: object = not decisive
        for one in node.values:
            if unknown is not None and self.library.acts(one):
                # It is evaluated only if what is not known lets it.
                text = f"{unknown.name} is {'false' if decisive else 'true'}"
                spot = (one.lineno, one.col_offset)
                goes_on = self.decide(
                    text, unknown.why, spot, default=decisive, about=_opposite(unknown) if decisive else unknown
                )
                if not goes_on:
                    return unknown
                unknown = None
            value = self.evaluate(one, scope) if unknown is None else self._perhaps_value(one, scope)
            known = special.truth(self, value)
            if known is decisive and unknown is None:
                return value
            if known is decisive:
                return decisive
            if known is None:
                keys.append(key_of(value))
            if known is None and (unknown is None or _is_of_target(value)):
                unknown = value if isinstance(value, NotKnown) else NotKnown(described(value))
        if unknown is None:
            return value
        return NotKnown(
            self.source_of(node), unknown.why, (type(node.op).__name__, *keys) if len(keys) > 1 else unknown.key
        )

    def _perhaps_value(self, node: ast.expr, scope: Scope) -> object:
        """The value of an expression that may not be evaluated at all: it raises nothing that is certain."""
        before, self.perhaps = self.perhaps, True
        try:
            return self.evaluate(node, scope)
        except Thrown:
            return NotKnown(self.source_of(node))
        finally:
            self.perhaps = before

    def _compare(self, node: ast.Compare, scope: Scope) -> object:
        if len(node.ops) == 1:
            (op,), (comparator,) = node.ops, node.comparators
            return self._compared(op, self.unsettled(node.left, scope), self.unsettled(comparator, scope))
        left = self.evaluate(node.left, scope)
        unknown: NotKnown | None = None
        result: object = True
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(comparator, scope)
            result = self._compared(op, left, right)
            if isinstance(result, NotKnown):
                unknown = unknown or result
            elif not special.truth(self, result):
                return result
            left = right
        return result if unknown is None else unknown

    def _compared(self, op: ast.cmpop, left: object, right: object) -> object:
        lifted = self.with_target(f" {type(op).__name__}", functools.partial(compare, op), left, right)
        if lifted is not None:
            return lifted
        if type(left) is OfTarget and isinstance(right, NotKnown):
            return compare(op, NotKnown(left.name, right.why), right)  # whatever the target says
        if type(right) is OfTarget and isinstance(left, NotKnown):
            return compare(op, left, NotKnown(right.name, left.why))
        return special.compare(self, op, self.settle(left), self.settle(right))

    def _binary(self, node: ast.BinOp, scope: Scope) -> object:
        return special.binary(self, node.op, self.evaluate(node.left, scope), self.evaluate(node.right, scope))

    def _unary(self, node: ast.UnaryOp, scope: Scope) -> object:
        value = self.evaluate(node.operand, scope)
        if not isinstance(node.op, ast.Not):
            return special.unary(self, node.op, value)
        known = special.truth(self, value)
        if known is None:
            return _opposite(value) if isinstance(value, NotKnown) else NotKnown("not …")
        return not known

    def _if_exp(self, node: ast.IfExp, scope: Scope) -> object:
        test = self.evaluate(node.test, scope)
        known = special.truth(self, test)
        unknown = test if isinstance(test, NotKnown) else NotKnown(self.source_of(node.test))
        if known is None:
            known = self.taken(unknown)
        if known is None and (self.library.acts(node.body) or self.library.acts(node.orelse)):
            spot = (node.lineno, node.col_offset)
            known = self.decide(self.source_of(node.test), unknown.why, spot, default=False, about=unknown)
        if known is None:
            body, other = self._perhaps_value(node.body, scope), self._perhaps_value(node.orelse, scope)
            if concrete(body) and concrete(other) and body == other:
                return body
            return NotKnown(self.source_of(node), unknown.why, ("if", unknown.key, key_of(body), key_of(other)))
        return self.evaluate(node.body if known else node.orelse, scope)

    def _list(self, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> object:
        values: list[object] = []
        for one in node.elts:
            if isinstance(one, ast.Starred):
                values.extend(further(self.items(self.evaluate(one.value, scope))))
            else:
                values.append(self.evaluate(one, scope))
        if isinstance(node, ast.Set):
            return distinct(self, set, values)
        return tuple(values) if isinstance(node, ast.Tuple) else values

    def _dict(self, node: ast.Dict, scope: Scope) -> object:
        made: dict[object, object] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.evaluate(value_node, scope)
            if key_node is None:
                if not fill(self, made, value):
                    made[NotKnown("**")] = NotKnown("**")
                continue
            made[special.hashed(self, made, self.evaluate(key_node, scope))] = value
        return made

    def _subscript(self, node: ast.Subscript, scope: Scope) -> object:
        value = self.unsettled(node.value, scope)
        index = self.evaluate(node.slice, scope)
        self.frames[-1].line = node.lineno
        lifted = self.with_target("[]", subscript, value, index)
        if lifted is not None:
            return lifted
        return special.get_item(self, self.settle(value), index)

    def _slice(self, node: ast.Slice, scope: Scope) -> object:
        parts = [None if one is None else self.evaluate(one, scope) for one in (node.lower, node.upper, node.step)]
        return slice(*parts) if concrete(parts) else NotKnown("slice")

    def _joined(self, node: ast.JoinedStr, scope: Scope) -> object:
        parts = [self.unsettled(one, scope) for one in node.values]
        lifted = self.with_target(" f-string", lambda *texts: "".join(texts), *parts)
        if lifted is not None:
            return lifted
        parts = [self.settle(one) for one in parts]
        unknown = next((one for one in parts if isinstance(one, NotKnown)), None)
        if unknown is not None:
            return NotKnown(self.source_of(node), unknown.why)
        return bounded("f-string", "".join(str(one) for one in parts))

    def _formatted(self, node: ast.FormattedValue, scope: Scope) -> object:
        value = self.unsettled(node.value, scope)
        if type(value) is OfTarget and node.format_spec is None and node.conversion != ord("r"):
            lifted = self.with_target(" str()", str, value)
            if lifted is not None:
                return lifted
        value = self.settle(value)
        spec = "" if node.format_spec is None else self.evaluate(node.format_spec, scope)
        if node.conversion == ord("r"):
            value = special.shown(self, value)
        elif node.conversion == ord("s"):
            value = special.text(self, value)
        return special.formatted(self, value, spec)

    def _template(self, node: ast.AST, scope: Scope) -> object:
        """``t"…"``: its values are computed, and nothing is made of them."""
        for one in getattr(node, "values", ()):
            if not isinstance(one, ast.Constant):
                self.evaluate(one.value, scope)
        return NotKnown(self.source_of(node))

    def _lambda(self, node: ast.Lambda, scope: Scope) -> object:
        return PythonFunction("<lambda>", node, scope, self.defaults(node.args, scope))

    def defaults(self, args: ast.arguments, scope: Scope) -> dict[str, object]:
        """The values of a function's default arguments."""
        found: dict[str, object] = {}
        if args.defaults:
            positional = [*args.posonlyargs, *args.args][-len(args.defaults) :]
            found = {one.arg: self.evaluate(value, scope) for one, value in zip(positional, args.defaults, strict=True)}
        for one, value in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            if value:
                found[one.arg] = self.evaluate(value, scope)
        return found

    def _named(self, node: ast.NamedExpr, scope: Scope) -> object:
        value = self.evaluate(node.value, scope)
        home = scope
        while home.is_comprehension and home.around is not None:
            home = home.around
        home.outer_names.get(node.target.id, home).names[node.target.id] = value
        return value

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp, scope: Scope) -> object:
        inner = Scope({}, scope.module, scope, is_comprehension=True)
        found: list[object] = []
        element = ast.Tuple([node.key, node.value], ast.Load()) if isinstance(node, ast.DictComp) else node.elt
        try:
            found.extend(self.evaluate(element, inner) for _ in self._rounds(node, self._first(node, scope), inner))
        except _NotFollowed as stop:
            return NotKnown(self.source_of(node), stop.unknown.why)
        if isinstance(node, ast.DictComp):
            made: dict[object, object] = {}
            fill(self, made, found)
            return made
        return distinct(self, set, found) if isinstance(node, ast.SetComp) else found

    def _generator(self, node: ast.GeneratorExp, scope: Scope) -> object:
        """A generator expression: only what its first ``for`` goes through is evaluated now."""
        inner = Scope({}, scope.module, scope, is_comprehension=True)
        first = self._first(node, scope)
        if isinstance(first, NotKnown) and not self.library.acts(node):
            return NotKnown(self.source_of(node), first.why)
        here = self.frames[-1]
        frame = Frame(file=here.file, line=node.lineno, function=here.function)
        return GeneratorObject(self.source_of(node), frame, self._elements(node, first, inner), node)

    def _elements(self, node: ast.GeneratorExp, first: Iterator[object] | NotKnown, scope: Scope) -> Body:
        """The items of a generator expression."""
        try:
            for _ in self._rounds(node, first, scope):
                yield self.evaluate(node.elt, scope)
        except _NotFollowed as stop:
            yield Further(stop.unknown.name, stop.unknown.why)
        return None

    def _first(self, node: _Comprehension, scope: Scope) -> Iterator[object] | NotKnown:
        return self._source(node, node.generators[0], scope)

    def _source(self, node: _Comprehension, part: ast.comprehension, scope: Scope) -> Iterator[object] | NotKnown:
        """What a ``for`` of a comprehension goes through."""
        value = self.evaluate(part.iter, scope)
        source = self.iterate_async(value) if part.is_async else self.iterate(value)
        if isinstance(source, NotKnown) and self.library.acts(node):
            text, spot = f"{self.source_of(part.iter)} is empty", (part.iter.lineno, part.iter.col_offset)
            empty = self.decide(text, source.why, spot, default=True)
            return iter([] if empty else [source.part("[…]")])
        return source

    def _rounds(
        self, node: _Comprehension, source: Iterator[object] | NotKnown, scope: Scope, depth: int = 0
    ) -> Iterator[None]:
        if isinstance(source, NotKnown):
            raise _NotFollowed(source)
        part = node.generators[depth]
        for value in source:
            self.tick()
            self.assign(part.target, value, scope)
            if not all(self._holds(node, test, scope) for test in part.ifs):
                continue
            if depth + 1 == len(node.generators):
                yield
            else:
                yield from self._rounds(node, self._source(node, node.generators[depth + 1], scope), scope, depth + 1)

    def _holds(self, node: _Comprehension, test: ast.expr, scope: Scope) -> bool:
        value = self.evaluate(test, scope)
        known = special.truth(self, value)
        if known is not None:
            return known
        unknown = value if isinstance(value, NotKnown) else NotKnown(described(value))
        if not self.library.acts(node):
            raise _NotFollowed(unknown)
        return self.decide(
            self.source_of(test), unknown.why, (test.lineno, test.col_offset), default=False, about=unknown
        )

    def _await(self, node: ast.Await, scope: Scope) -> object:
        return self.awaited(self.evaluate(node.value, scope))

    def assign(self, target: ast.expr, value: object, scope: Scope) -> None:
        """Bind a value to what stands on the left of ``=``."""
        raise NotImplementedError

    def _yield(self, node: ast.Yield | ast.YieldFrom, _scope: Scope) -> object:
        """What a ``yield`` gives, which the statement that it is in has run: see ``flow``."""
        return self.frames[-1].sent.pop(node, NotKnown("yield"))


_LOOKING_AROUND = frozenset({"super", "globals", "locals", "vars", "exec", "eval", "dir"})
"""The built-in functions that look at their caller."""
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def _opposite(unknown: NotKnown) -> NotKnown:
    return NotKnown(f"not {unknown.name}", unknown.why, ("not", unknown.key))


def _text_of(node: ast.AST) -> str:
    try:
        return ast.unparse(node)[:_LONG_EXPRESSION].partition("\n")[0]
    except (RecursionError, ValueError):
        return type(node).__name__


_CONVERTERS = (str, int, float)


def _computes(function: object) -> bool:
    """Whether a function does nothing but compute with its arguments, and may be given those of the target."""
    return (
        isinstance(function, MethodOfTarget)
        or (isinstance(function, type) and function in _CONVERTERS)
        or (isinstance(function, Native) and function.computes is not None)
    )


def _computation(function: object) -> Callable[..., object]:
    """The same as a function of Python."""
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
    ast.Constant: Expressions._constant,
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Call: Expressions._call,
    ast.BoolOp: Expressions._bool_op,
    ast.Compare: Expressions._compare,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.IfExp: Expressions._if_exp,
    ast.List: Expressions._list,
    ast.Tuple: Expressions._list,
    ast.Set: Expressions._list,
    ast.Dict: Expressions._dict,
    ast.Subscript: Expressions._subscript,
    ast.Slice: Expressions._slice,
    ast.JoinedStr: Expressions._joined,
    ast.FormattedValue: Expressions._formatted,
    ast.Lambda: Expressions._lambda,
    ast.NamedExpr: Expressions._named,
    ast.ListComp: Expressions._comprehension,
    ast.SetComp: Expressions._comprehension,
    ast.GeneratorExp: Expressions._generator,
    ast.DictComp: Expressions._comprehension,
    ast.Yield: Expressions._yield,
    ast.YieldFrom: Expressions._yield,
    ast.Await: Expressions._await,
}
"""The method for each kind of expression; one of another kind is a gap. ``Starred`` is a part of others."""
if sys.version_info >= (3, 14):
    EVALUATE[ast.TemplateStr] = Expressions._template
