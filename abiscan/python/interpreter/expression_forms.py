"""The compiled form of each kind of expression: see ``compiling``."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from abiscan.python.interpreter import special
from abiscan.python.interpreter.attributes import method_of
from abiscan.python.interpreter.builtin_methods import (
    CHANGING,
    OF_ONE_ITEM,
    QUICK,
    HostMethod,
    call_quickly,
    fill_dict,
    make_set,
    models_of,
    types_with,
)
from abiscan.python.interpreter.compiling import OTHERS, QUESTIONS, VALUES, Compiler, Value
from abiscan.python.interpreter.cost import LONGEST
from abiscan.python.interpreter.expressions import (
    ITEMS_OF_A_STEP,
    LARGE,
    Comprehension,
    ComprehensionNode,
    Expressions,
    NotFollowed,
    Part,
    opposite_of,
)
from abiscan.python.interpreter.iteration import GeneratorObject
from abiscan.python.interpreter.machine import Frame
from abiscan.python.interpreter.operations import bound_size, take_item
from abiscan.python.interpreter.values import (
    ABSENT,
    EVERYDAY,
    MORE_ITEMS,
    REMAINING,
    WAITING,
    Class,
    Deferred,
    Instance,
    Listing,
    NotKnown,
    NotNone,
    PythonFunction,
    PythonModule,
    Scope,
    TargetExpression,
    TextWithHoles,
    given_defaults,
    is_concrete,
    more_items,
    reopened,
)
from abiscan.python.language.nodes import TemplateStr

_SIZED: Final = frozenset({str, bytes, list, tuple, dict, set, frozenset})
_SMALL: Final = 1 << 256
"""Sums of whole numbers below this are small enough."""


def _finish(machine: Expressions, value: object, *, settles: bool) -> object:
    """Count the size of what an expression gives, or settle it; asked only for a value of ``_UNFINISHED`` types."""
    if type(value) is not TargetExpression:
        machine.count_size(value)
        return value
    return machine.settle(value) if settles else value


def _compile_constant(_compiler: Compiler, node: ast.Constant) -> Value:
    value: Any = node.value
    known: Any = value if value is None or type(value) is bool else bound_size("constant", value)
    if type(known) not in _SIZED or len(known) <= LARGE:
        return lambda _machine, _scope: known

    def large(machine: Expressions, _scope: Scope) -> object:
        machine.count_size(known)
        return known

    return large


def _compile_name(_compiler: Compiler, node: ast.Name, *, settles: bool, is_whole: bool = True) -> Value:
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
            if is_whole and len(value) > LARGE:  # type: ignore[arg-type]
                machine.count_size(value)
        elif kind is Deferred or (settles and kind is TargetExpression):
            return machine.settle(value)
        return value

    return load


def _compile_attribute(compiler: Compiler, node: ast.Attribute, *, settles: bool, is_whole: bool = True) -> Value:
    owner, name, line = compiler.value(node.value, settles=False), node.attr, compiler.line(node)

    def take(machine: Expressions, scope: Scope) -> object:
        value = owner(machine, scope)
        if line:
            machine.frames[-1].line = line
        value = machine.attribute_of(value, name)
        kind = type(value)
        if kind in _SIZED:
            if is_whole and len(value) > LARGE:  # type: ignore[arg-type]
                machine.count_size(value)
        elif settles and kind is TargetExpression:
            return machine.settle(value)
        return value

    return take


def _evaluate_all(parts: Sequence[Value]) -> Callable[[Any, Scope], list[Any]]:
    return lambda machine, scope: [part(machine, scope) for part in parts]


def _pair_of(key: Value, item: Value) -> Value:
    return lambda machine, scope: (key(machine, scope), item(machine, scope))


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
        spread = _evaluate_all(parts)
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


def compile_call(compiler: Compiler, node: ast.Call, *, settles: bool, for_names: bool = False) -> Value:
    """Compile a call.

    :param for_names: whether what it gives is bound to several names at once
    """
    func = node.func
    if isinstance(func, ast.Attribute):
        return _compile_method_call(compiler, node, func, settles=settles, for_names=for_names)
    called, arguments, line = compiler.value(func), _compile_arguments(compiler, node), compiler.line(node)

    def call(machine: Expressions, scope: Scope) -> object:
        function = called(machine, scope)
        args, kwargs = arguments(machine, scope, function)
        if line:
            machine.frames[-1].line = line
        if for_names:
            machine.called_for_names = function
        value = machine.call_here(node, function, args, kwargs, scope)
        return _finish(machine, value, settles=settles) if type(value) in _UNFINISHED else value

    return call


def _compile_method_call(
    compiler: Compiler, node: ast.Call, func: ast.Attribute, *, settles: bool, for_names: bool
) -> Value:
    """Compile ``value.method()``: methods of Python's own containers are called without making an object of them."""
    compiler.steps += 1
    name = func.attr
    owner = compiler.value(func.value, settles=False, is_whole=name not in OF_ONE_ITEM)
    arguments = _compile_arguments(compiler, _with_list(node) if name == "join" else node)
    # A traceback shows the line where the name of the method ends (Python/compile.c); the arguments may have moved the
    # line on.
    line, end_line = compiler.line(func), compiler.line(func) and (func.end_lineno or func.lineno)
    is_quick = name in QUICK and not node.keywords
    holders, of_holder = types_with(name), _compile_holder_call(node, name)

    def call(machine: Expressions, scope: Scope) -> object:
        value = owner(machine, scope)
        if line:
            machine.frames[-1].line = line
        if type(value) in holders:
            args, kwargs = arguments(machine, scope, value)
            if line:
                machine.frames[-1].line = end_line
            if is_quick and type(value) is str:
                result = call_quickly(value, name, args)
                if result is not ABSENT:
                    return result
            value = of_holder(machine, value, args, kwargs)
        else:
            method = method_of(value, name) if type(value) is Instance else None
            function = machine.attribute_of(value, name) if method is None else method
            if type(function) in WAITING:
                function = machine.settle(function)
            args, kwargs = arguments(machine, scope, function)
            if method is not None:
                args = [value, *args]
            if line:
                machine.frames[-1].line = end_line
            if for_names:
                machine.called_for_names = function
            value = machine.call_here(node, function, args, kwargs, scope)
        return _finish(machine, value, settles=settles) if type(value) in _UNFINISHED else value

    return call


def _with_list(node: ast.Call) -> ast.Call:
    """Return a call of ``join`` that gets a list in place of a generator, which may be a question to the target."""
    items = node.args[0] if len(node.args) == 1 else None
    if not isinstance(items, ast.GeneratorExp) or _converter_of(items) is None:
        return node
    made = ast.copy_location(ast.ListComp(items.elt, items.generators), items)
    return ast.copy_location(ast.Call(node.func, [made], node.keywords), node)


def _converter_of(node: ComprehensionNode) -> str | None:
    """Return the function of ``[str(item) for item in items]``; None for any other comprehension."""
    element, part = getattr(node, "elt", None), node.generators[0]
    if (
        isinstance(element, ast.Call)
        and isinstance(element.func, ast.Name)
        and element.func.id in {"str", "int"}
        and [getattr(argument, "id", None) for argument in element.args] == [getattr(part.target, "id", "")]
        and not (element.keywords or part.ifs or part.is_async or node.generators[1:])
    ):
        return element.func.id
    return None


def _compile_holder_call(
    node: ast.Call, name: str
) -> Callable[[Expressions, object, list[object], dict[str, object]], object]:
    """Return what calls a method of a container or text."""
    models, is_changing = models_of(name), name in CHANGING

    def call(machine: Expressions, value: object, args: list[object], kwargs: dict[str, object]) -> object:
        if not WAITING.isdisjoint(map(type, args)):
            lifted = machine.with_target(".join()", str.join, value, *args) if name == "join" else None
            if lifted is not None:
                return lifted
            args = list(map(machine.settle, args))
        model = None if is_changing and machine.is_speculative else models.get(type(value))
        if model is None:
            result = HostMethod(value, name).call(machine, args, kwargs)
        else:
            result = model(machine, value, args, kwargs)
        return machine.of_target(node, result, args) if isinstance(result, NotKnown) else result

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
    first = compiler.value(node.left, settles=False)
    second = compiler.value(comparator, settles=False, is_whole=not isinstance(op, (ast.In, ast.NotIn)))
    if isinstance(op, (ast.In, ast.NotIn)):
        is_dir = isinstance(comparator, ast.Call) and getattr(comparator.func, "id", "") == "dir"
        return _compile_in(first, second, op, settles=settles, is_dir=is_dir)
    quick = _QUICK_COMPARISONS.get(type(op))

    def compare(machine: Expressions, scope: Scope) -> object:
        left, right = first(machine, scope), second(machine, scope)
        kind = type(left)
        # Python itself compares texts, numbers and None with their like.
        if quick is not None and kind in EVERYDAY and (quick in _EQUALITY if right is None else type(right) is kind):
            return quick(left, right)
        value = machine.compared(op, left, right)
        return machine.settle(value) if settles and type(value) is TargetExpression else value

    return compare


def _compile_in(first: Value, second: Value, op: ast.cmpop, *, settles: bool, is_dir: bool) -> Value:
    """Compile ``value in container``.

    :param is_dir: whether the container is what a call of ``dir`` has just listed
    """
    expected = isinstance(op, ast.In)

    def compare(machine: Expressions, scope: Scope) -> object:
        item, container = first(machine, scope), second(machine, scope)
        # Python itself looks for a plain value among plain ones.
        kind = type(container)
        if type(item) is str and kind in _HASHED and item in container and REMAINING not in container:
            return expected
        if kind in _SIZED and len(container) > LARGE:
            machine.count_size(container)
        if type(item) in EVERYDAY and (
            (kind in _HOLDERS and EVERYDAY.issuperset(map(type, container))) or (kind is str and type(item) is str)
        ):
            return (item in container) is expected
        if is_dir and kind is Listing and type(item) is str and (has := container.has(item)) is not None:
            return has is expected
        value = machine.compared(op, item, container)
        return machine.settle(value) if settles and type(value) is TargetExpression else value

    return compare


_HOLDERS: Final = _SIZED - {str, bytes}
_HASHED: Final = frozenset({dict, set, frozenset})


def _compile_is_none(compiler: Compiler, node: ast.Compare, op: ast.cmpop, *, settles: bool) -> Value:
    """Compile ``value is None``."""
    compiler.steps += 1
    operand, expected = compiler.value(node.left, settles=False), isinstance(op, ast.Is)

    def compare(machine: Expressions, scope: Scope) -> object:
        value = operand(machine, scope)
        if value is None:
            return expected
        if type(value) in _NEVER_NONE or isinstance(value, NotNone):
            return not expected
        value = machine.compared(op, value, None)
        return machine.settle(value) if settles and type(value) is TargetExpression else value

    return compare


_NEVER_NONE: Final = _SIZED | {int, bool, float, PythonFunction, Class, Instance, PythonModule, TextWithHoles}
_EQUALITY: Final = (operator.eq, operator.ne)
_QUICK_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_QUICK_SUMS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
}


def _compile_binary(compiler: Compiler, node: ast.BinOp) -> Value:
    first, second, op = compiler.value(node.left), compiler.value(node.right), node.op
    quick, is_sum, divides = _QUICK_SUMS.get(type(op)), isinstance(op, ast.Add), isinstance(op, (ast.Mod, ast.FloorDiv))

    def apply(machine: Expressions, scope: Scope) -> object:
        left, right = first(machine, scope), second(machine, scope)
        kind = type(left)
        if kind is type(right):
            if kind is int:
                if quick is not None and abs(left) < _SMALL and abs(right) < _SMALL and (right or not divides):
                    return quick(left, right)
            elif kind is str and is_sum and len(left) + len(right) <= LONGEST:
                value = left + right
                if len(value) > LARGE:
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
            return opposite_of(value) if isinstance(value, NotKnown) else NotKnown("not …")
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
                values.extend(more_items(machine.items(value)))
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
        or (kind is str and len(value) <= LARGE)
        or (kind is int and -_SMALL < value < _SMALL)
    )


def _compile_list(compiler: Compiler, node: ast.List | ast.Tuple | ast.Set) -> Value:
    known: list[object] = [part.value for part in node.elts if isinstance(part, ast.Constant) and _is_small(part.value)]
    make: Callable[[list[object]], object] = tuple if isinstance(node, ast.Tuple) else list
    size = len(known)
    if size == len(node.elts) and not isinstance(node, ast.Set):
        compiler.steps += size + size // ITEMS_OF_A_STEP
        folded = make(known)
        return lambda _machine, _scope: folded if make is tuple else known[:]
    gather = _compile_items(compiler, node.elts)

    def build(machine: Expressions, scope: Scope) -> object:
        values = gather(machine, scope)
        if len(values) > LARGE:
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
        if len(made) > LARGE:
            machine.count_size(made)
        return made

    return build


def _compile_subscript(compiler: Compiler, node: ast.Subscript, *, settles: bool) -> Value:
    owner = compiler.value(node.value, settles=False, is_whole=False)
    if isinstance(node.value, ast.Call) and ast.unparse(node.value) == "globals()":
        owner = _only_read(owner)
    place, line = compiler.value(node.slice), compiler.line(node)

    def take(machine: Expressions, scope: Scope) -> object:
        value = owner(machine, scope)
        index = place(machine, scope)
        if line:
            machine.frames[-1].line = line
        kind, kind_of_index = type(value), type(index)
        if (kind is dict and kind_of_index is str and index in value and REMAINING not in value) or (
            (kind is list or kind is tuple)
            and kind_of_index is int
            and -len(value) <= index < len(value) <= LARGE
            and MORE_ITEMS.isdisjoint(map(type, value))
        ):
            value = machine.settle(value[index])
        else:
            if type(value) in _SIZED and len(value) > LARGE:
                machine.count_size(value)
            value = reopened(value)
            if isinstance(value, NotKnown):
                machine.note_possible_uses(value, [index])
            lifted = machine.with_target("[]", take_item, value, index) if type(value) is TargetExpression else None
            value = lifted or special.get_item(machine, machine.settle(value), index)
        return _finish(machine, value, settles=settles) if type(value) in _UNFINISHED else value

    return take


def _only_read(namespace: Value) -> Value:
    """Return what gives the names of the module, for an item of them: nobody binds others thereby."""

    def read(machine: Expressions, scope: Scope) -> object:
        was_open = scope.module.open_
        names = namespace(machine, scope)
        scope.module.open_ = was_open
        return names

    return read


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
        "<lambda>",
        node,
        scope,
        None if defaults is None else defaults(machine, scope),
        qualified=scope.qualify("<lambda>"),
    )


def compile_defaults(compiler: Compiler, args: ast.arguments) -> Callable[[Any, Scope], dict[str, object]] | None:
    """Return what evaluates the default arguments of a function; None for constants, which it knows itself."""
    given = tuple(given_defaults(args))
    if all(isinstance(value, ast.Constant) and _is_small(value.value) for _, value in given):
        compiler.steps += len(given)
        return None
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
        iterated = outer.value(part.iter, settles=bool(made))
        if made:
            made[-1] = replace(made[-1], steps=made[-1].steps + outer.steps)
        inner = Compiler(is_long=compiler.is_long)
        target = inner.target(part.target)
        conditions = tuple((test, inner.value(test)) for test in part.ifs)
        made.append(Part(iterated=iterated, target=target, conditions=conditions, steps=inner.steps + 1))
        outer = Compiler(is_long=compiler.is_long)
    inner = Compiler(is_long=compiler.is_long)
    if isinstance(node, ast.DictComp):
        element = _pair_of(inner.value(node.key), inner.value(node.value))
    else:
        element = inner.value(node.elt)
    made[-1] = replace(made[-1], steps=made[-1].steps + inner.steps)
    return Comprehension(node=node, parts=tuple(made), element=element)


def _compile_comprehension(
    compiler: Compiler, node: ast.ListComp | ast.SetComp | ast.DictComp, *, settles: bool = True
) -> Value:
    form = _compile_parts(compiler, node)
    element, converter = form.element, _converter_of(node) if isinstance(node, ast.ListComp) else None

    def evaluate(machine: Expressions, scope: Scope) -> object:
        inner = Scope({}, scope.module, scope, is_comprehension=True, prefix=scope.prefix)
        results: list[object] = []
        source = form.parts[0].iterated(machine, scope)
        if converter is not None and (lifted := machine.converted(converter, source, scope)) is not None:
            return machine.settle(lifted) if settles else lifted
        try:
            for _ in machine.rounds(form, machine.source_from(form, 0, source), inner):
                results.append(element(machine, inner))  # noqa: PERF401 - those before the end of a round count
        except NotFollowed as stop:
            return NotKnown(machine.source_of(node), stop.unknown.why)
        if isinstance(node, ast.DictComp):
            made: dict[object, object] = {}
            fill_dict(machine, made, results)
            return made
        if isinstance(node, ast.SetComp):
            return make_set(machine, set, results)
        if len(results) > LARGE:
            machine.count_size(results)
        return results

    return evaluate


def _compile_generator(compiler: Compiler, node: ast.GeneratorExp) -> Value:
    """Compile a generator expression: only what its first ``for`` goes through is evaluated at once."""
    form = _compile_parts(compiler, node)

    def evaluate(machine: Expressions, scope: Scope) -> object:
        inner = Scope({}, scope.module, scope, is_comprehension=True, prefix=scope.prefix)
        first = machine.source_of_part(form, 0, scope)
        if isinstance(first, NotKnown) and not machine.acts(node):
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
    ast.Call: compile_call,
    ast.Compare: _compile_compare,
    ast.Subscript: _compile_subscript,
    ast.JoinedStr: _compile_joined,
    ast.ListComp: _compile_comprehension,
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
    ast.SetComp: _compile_comprehension,
    ast.GeneratorExp: _compile_generator,
    ast.DictComp: _compile_comprehension,
    ast.Yield: _compile_yield,
    ast.YieldFrom: _compile_yield,
    ast.Await: _compile_await,
})  # fmt: skip
OTHERS[ast.expr] = lambda node: lambda machine, _scope: machine.not_followed_value(node)
"""An expression of another kind is a gap. ``Starred`` is a part of others."""
