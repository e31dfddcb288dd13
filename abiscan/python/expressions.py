"""Expressions of Python, evaluated with what is known."""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Callable, Iterator
from typing import Any

from packaging.version import Version

from abiscan.python import attributes
from abiscan.python.hosts import text, truth
from abiscan.python.machine import PythonMachine
from abiscan.python.model import World
from abiscan.python.modelled import Modelled, Native
from abiscan.python.operations import attempt, binary, bounded, compare, described, subscript, unary
from abiscan.python.targets import asks
from abiscan.python.values import (
    Class,
    Deferred,
    Instance,
    NotKnown,
    OfTarget,
    Perhaps,
    PythonFunction,
    Scope,
    Why,
    concrete,
    further,
    thrown,
)

_MOST_ITEMS = 10_000
_LONG_EXPRESSION = 200


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

    builtins: dict[str, object]

    def evaluate(self, node: ast.expr, scope: Scope) -> object:
        """The value of an expression."""
        self.tick()
        method = _EVALUATE.get(type(node))
        value = NotKnown(self.source_of(node)) if method is None else method(self, node, scope)
        return self.settle(value) if type(value) is OfTarget else value

    def unsettled(self, node: ast.expr, scope: Scope) -> object:
        """The value of an expression, or what is still to be asked of the target: see ``OfTarget``."""
        self.tick()
        method = _EVALUATE.get(type(node))
        return NotKnown(self.source_of(node)) if method is None else method(self, node, scope)

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
            one = one.around
        if name == "__name__":
            return scope.module.name
        if name in {"__file__", "__path__", "__package__", "__spec__", "__doc__"}:
            return attributes.of_module(self, scope.module, name)
        if name in self.builtins:
            return self.builtins[name]
        hook = scope.module.open_ or hasattr(builtins, name)
        if hook or not self.catches(NameError):
            return NotKnown(name)
        raise thrown(NameError, f"name '{name}' is not defined")

    def items(self, value: object) -> list[object] | NotKnown:
        """What iterating over a value gives."""
        value = self.settle(value)
        if isinstance(value, (list, tuple, set, frozenset, dict, str, bytes, range)):
            if value[_MOST_ITEMS:] if isinstance(value, range) else len(value) > _MOST_ITEMS:  # its length may overflow
                return NotKnown(f"list({described(value)})")
            ordered = sorted(value, key=described) if isinstance(value, (set, frozenset)) else value
            items = (one for one in ordered if type(one) is not Perhaps)
            return [self.settle(one) if isinstance(one, Deferred) else one for one in items]
        if isinstance(value, Instance) and isinstance(value.cls.find("__iter__"), PythonFunction):
            return self.items(self.call(self.attribute(value, "__iter__"), [], {}))
        if isinstance(value, NotKnown):
            return value
        return NotKnown(f"list({described(value)})")

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
            elif isinstance(value, dict):
                kwargs.update({str(key): one for key, one in value.items() if isinstance(key, str)})
        if isinstance(node.func, ast.Name) and node.func.id in {"super", "globals", "locals", "vars", "exec", "eval"}:
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
        value: object = not decisive
        for one in node.values:
            value = self.evaluate(one, scope)
            known = truth(value)
            if known is decisive and unknown is None:
                return value
            if known is decisive:
                return decisive
            if known is None and (unknown is None or _is_of_target(value)):
                unknown = value if isinstance(value, NotKnown) else NotKnown(described(value))
        return value if unknown is None else NotKnown(self.source_of(node), unknown.why)

    def _compare(self, node: ast.Compare, scope: Scope) -> object:
        if len(node.ops) == 1:
            (op,), (comparator,) = node.ops, node.comparators
            return self._compared(op, self.unsettled(node.left, scope), self.unsettled(comparator, scope))
        left = self.evaluate(node.left, scope)
        unknown: NotKnown | None = None
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(comparator, scope)
            result = self._compared(op, left, right)
            if isinstance(result, NotKnown):
                unknown = unknown or result
            elif not result:
                return False
            left = right
        return True if unknown is None else unknown

    def _compared(self, op: ast.cmpop, left: object, right: object) -> object:
        lifted = self.with_target(f" {type(op).__name__}", functools.partial(compare, op), left, right)
        if lifted is not None:
            return lifted
        left, right = self.settle(left), self.settle(right)
        if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, (Modelled, Instance)):
            hook = self.attribute(right, "__contains__")
            if isinstance(hook, NotKnown):
                return hook
            found = self.call(hook, [left], {})
            return found if isinstance(found, NotKnown) else bool(found) is isinstance(op, ast.In)
        return compare(op, left, right)

    def _binary(self, node: ast.BinOp, scope: Scope) -> object:
        return binary(node.op, self.evaluate(node.left, scope), self.evaluate(node.right, scope))

    def _unary(self, node: ast.UnaryOp, scope: Scope) -> object:
        value = self.evaluate(node.operand, scope)
        if not isinstance(node.op, ast.Not):
            return unary(node.op, value)
        known = truth(value)
        if known is None:
            return NotKnown(f"not {described(value)}", value.why) if isinstance(value, NotKnown) else NotKnown("not …")
        return not known

    def _if_exp(self, node: ast.IfExp, scope: Scope) -> object:
        test = self.evaluate(node.test, scope)
        known = truth(test)
        if known is None:
            body, other = self.evaluate(node.body, scope), self.evaluate(node.orelse, scope)
            if concrete(body) and concrete(other) and body == other:
                return body
            return (
                NotKnown(self.source_of(node), test.why)
                if isinstance(test, NotKnown)
                else NotKnown(self.source_of(node))
            )
        return self.evaluate(node.body if known else node.orelse, scope)

    def _list(self, node: ast.List | ast.Tuple | ast.Set, scope: Scope) -> object:
        values: list[object] = []
        for one in node.elts:
            if isinstance(one, ast.Starred):
                values.extend(further(self.items(self.evaluate(one.value, scope))))
            else:
                values.append(self.evaluate(one, scope))
        if isinstance(node, ast.Set):
            return attempt("set", set, values)
        return tuple(values) if isinstance(node, ast.Tuple) else values

    def _dict(self, node: ast.Dict, scope: Scope) -> object:
        made: dict[object, object] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.evaluate(value_node, scope)
            if key_node is None:
                made.update(value if isinstance(value, dict) else {NotKnown("**"): NotKnown("**")})
                continue
            key = self.evaluate(key_node, scope)
            made[key if not isinstance(key, (list, dict, set)) else NotKnown("key")] = value
        return made

    def _subscript(self, node: ast.Subscript, scope: Scope) -> object:
        value = self.unsettled(node.value, scope)
        index = self.evaluate(node.slice, scope)
        self.frames[-1].line = node.lineno
        lifted = self.with_target("[]", subscript, value, index)
        if lifted is not None:
            return lifted
        value = self.settle(value)
        if isinstance(value, (type, Class)):
            return value
        if isinstance(value, (Modelled, Instance)):
            return self.call(self.attribute(value, "__getitem__"), [index], {})
        return self.settle(subscript(value, index))

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
            return attempt("repr()", repr, value) if concrete(value) else NotKnown(f"repr({described(value)})")
        if not isinstance(spec, str) or any(len(run) > 3 for run in spec.split(".") if run.isdigit()):
            return NotKnown(described(value))
        if spec and concrete(value) and node.conversion != ord("s"):
            return attempt("format()", format, value, spec)
        shown = text(self, value)
        return attempt("format()", format, shown, spec) if isinstance(shown, str) else shown

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
        scope.names[node.target.id] = value
        return value

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, scope: Scope
    ) -> object:
        inner = Scope({}, scope.module, scope)
        found: list[object] = []
        element = ast.Tuple([node.key, node.value], ast.Load()) if isinstance(node, ast.DictComp) else node.elt
        try:
            found.extend(self.evaluate(element, inner) for _ in self._rounds(node.generators, inner))
        except _NotFollowed as stop:
            return NotKnown(self.source_of(node), stop.unknown.why)
        if isinstance(node, ast.DictComp):
            pairs = [one for one in found if isinstance(one, tuple)]
            return attempt("dict", dict, pairs)
        return attempt("set", set, found) if isinstance(node, ast.SetComp) else found

    def _rounds(self, generators: list[ast.comprehension], scope: Scope) -> Iterator[None]:
        if not generators:
            yield
            return
        first, *others = generators
        values = self.items(self.evaluate(first.iter, scope))
        if isinstance(values, NotKnown):
            raise _NotFollowed(values)
        for value in values:
            self.assign(first.target, value, scope)
            tests = [self.evaluate(test, scope) for test in first.ifs]
            known = [truth(test) for test in tests]
            if False in known:
                continue
            if None in known:
                test = tests[known.index(None)]
                raise _NotFollowed(test if isinstance(test, NotKnown) else NotKnown(described(test)))
            yield from self._rounds(others, scope)

    def assign(self, target: ast.expr, value: object, scope: Scope) -> None:
        """Bind a value to what stands on the left of ``=``."""
        raise NotImplementedError

    def _yield(self, node: ast.Yield | ast.YieldFrom, scope: Scope) -> object:
        value = None if node.value is None else self.evaluate(node.value, scope)
        yields = self.frames[-1].yields
        if yields is None:
            return NotKnown("yield")
        if isinstance(node, ast.YieldFrom):
            for one in further(self.items(value)):
                yields(one)
            return None
        return yields(value)


def _text_of(node: ast.AST) -> str:
    try:
        return ast.unparse(node)[:_LONG_EXPRESSION].partition("\n")[0]
    except (RecursionError, ValueError):
        return type(node).__name__


def _computes(function: object) -> bool:
    """Whether a function does nothing but compute with its arguments, and may be given those of the target."""
    return (
        isinstance(function, MethodOfTarget)
        or function is str
        or (isinstance(function, Native) and function.computes is not None)
    )


def _computation(function: object) -> Callable[..., object]:
    """The same as a function of Python."""
    if isinstance(function, MethodOfTarget):
        name = function.name
        return lambda text, *args: getattr(text, name)(*args)
    return function.computes or str if isinstance(function, Native) else str


class _NotFollowed(Exception):  # noqa: N818 - it ends a comprehension, it is no error
    def __init__(self, unknown: NotKnown) -> None:
        super().__init__(unknown.name)
        self.unknown = unknown


def _is_of_target(value: object) -> bool:
    return isinstance(value, NotKnown) and value.why is Why.TARGET


_EVALUATE: dict[type[ast.expr], Callable[[Expressions, Any, Scope], object]] = {
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
    ast.GeneratorExp: Expressions._comprehension,
    ast.DictComp: Expressions._comprehension,
    ast.Yield: Expressions._yield,
    ast.YieldFrom: Expressions._yield,
}
"""The method for each kind of expression; the value of any other is not known."""
