"""What stands on the left of ``=``: names, attributes and items that get a value."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from abiscan.python.interpreter import attributes, special
from abiscan.python.interpreter.compiling import TARGETS, Compiler, Target, target_of
from abiscan.python.interpreter.expressions import Expressions
from abiscan.python.interpreter.values import (
    Deferred,
    MoreItems,
    NotKnown,
    PossibleItems,
    Scope,
    TargetExpression,
    Thrown,
    known_length,
    reopened,
    thrown,
)


class Binding(Expressions):
    """Binds values."""

    def bind(self, name: str, value: object, scope: Scope) -> None:
        """Bind a name."""
        # Names that may not have been bound are visible to the following code of the same scope, which drops them at
        # the end (see ``forget_bindings``). A name of another scope outlives that: it is unknown at once.
        home = scope.outer_names.get(name, scope)
        home.names[name] = NotKnown(name) if self.is_speculative and home is not scope else value

    def assign(self, target: ast.expr, value: object, scope: Scope) -> None:
        """Bind a value to what stands on the left of ``=``."""
        target_of(target)(self, scope, value)

    def unpacked(self, value: object, count: int, starred: int | None) -> list[object]:
        """Return what each of some targets gets of a value, the starred one a list."""
        values = self._unpacked_items(value)
        # It is not known how many items there are, so neither which target gets which, nor whether there are enough.
        if isinstance(values, list) and known_length(values) is None:
            values = NotKnown("a list")
        if isinstance(values, NotKnown):
            values = [values.part(f"[{index}]") for index in range(count)]
        elif starred is not None:
            # The targets after the starred one take their items from the end, it takes those that are left.
            least = count - 1
            if len(values) < least:
                text = f"not enough values to unpack (expected at least {least}, got {len(values)})"
                raise thrown(ValueError, text)
            values = list(map(self.settle, values))  # no list has questions to the target in it
            end = len(values) - (count - starred - 1)
            values = [*values[:starred], values[starred:end], *values[end:]]
        if len(values) != count:
            few = len(values) < count
            text = (
                f"not enough values to unpack (expected {count}, got {len(values)})"
                if few
                else f"too many values to unpack (expected {count})"
            )
            raise thrown(ValueError, text)
        return values

    def _unpacked_items(self, value: object) -> list[object] | NotKnown:
        """Return the items of a value that is unpacked, which has an error of its own for one that has no items."""
        value = reopened(value)
        parts = self.parts_of(value) if type(value) is TargetExpression else None
        if parts is not None:
            return parts
        try:
            return self.items(value)
        except Thrown as error:
            name = special.type_name(value)
            if error.failure.args == (f"'{name}' object is not iterable",):
                raise thrown(TypeError, f"cannot unpack non-iterable {name} object") from None
            raise

    def may_wait(self, targets: Sequence[ast.expr], value: TargetExpression, scope: Scope) -> bool:
        """Whether a name may stand for what is still to be asked: nothing can change that value."""
        if [type(target) for target in targets] == [ast.Tuple]:
            return True  # each of its names may stand for a part
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

    def may_return(self, value: TargetExpression) -> bool:
        """Whether a function may return what is still to be asked: nothing can change that value."""
        return not (self.is_speculative or isinstance(self.world.foresee(value.of), list))

    def put(self, owner: object, name: str, value: object) -> None:
        """Execute ``owner.name = value``."""
        attributes.set_attribute(self, owner, name, NotKnown(f".{name}") if self.is_speculative else value)

    def set_item(self, container: object, index: object, value: object) -> None:
        """Execute ``container[index] = value``."""
        special.set_item(self, container, index, value)

    def forget_bindings(self, bodies: Sequence[ast.stmt], scope: Scope, unknown: NotKnown) -> None:
        """Forget the names that some statements bind: which of them ran is not known."""
        for name in set[str]().union(*map(self.library.bound_names, bodies)):
            self.bind(name, unknown, scope)


def _compile_name(_compiler: Compiler, node: ast.Name) -> Target:
    name = node.id

    def store(machine: Binding, scope: Scope, value: object) -> None:
        if scope.outer_names:
            machine.bind(name, value, scope)
        else:
            scope.names[name] = value

    return store


def _compile_attribute(compiler: Compiler, node: ast.Attribute) -> Target:
    owner, name = compiler.value(node.value), node.attr
    return lambda machine, scope, value: machine.put(owner(machine, scope), name, value)


def _compile_item(compiler: Compiler, node: ast.Subscript) -> Target:
    owner, index = compiler.value(node.value, is_whole=False), compiler.value(node.slice)
    return lambda machine, scope, value: machine.set_item(owner(machine, scope), index(machine, scope), value)


def _compile_starred(compiler: Compiler, node: ast.Starred) -> Target:
    return compiler.target(node.value)


def _compile_several(compiler: Compiler, node: ast.Tuple | ast.List) -> Target:
    targets = tuple(map(compiler.target, node.elts))
    count = len(targets)
    starred = next((index for index, element in enumerate(node.elts) if isinstance(element, ast.Starred)), None)
    names = tuple(element.id for element in node.elts if isinstance(element, ast.Name))
    are_names = len(names) == count

    def unpack(machine: Binding, scope: Scope, value: object) -> None:
        kind = type(value)
        # A tuple or list of as many values, all of which are what they are.
        if (
            (kind is tuple or kind is list)
            and len(value) == count  # type: ignore[arg-type]
            and starred is None
            and _STAND_INS.isdisjoint(map(type, value))  # type: ignore[call-overload]
        ):
            if are_names and not scope.outer_names:
                scope.names.update(zip(names, value, strict=True))  # type: ignore[call-overload]
                return
            values = list(value)  # type: ignore[call-overload]
        else:
            values = machine.unpacked(value, count, starred)
        for element, target, item in zip(node.elts, targets, values, strict=True):
            asked = type(item) is TargetExpression and not machine.may_wait([element], item, scope)
            target(machine, scope, machine.settle(item) if asked else item)

    return unpack


_STAND_INS: Final = frozenset({MoreItems, PossibleItems, Deferred, TargetExpression})
TARGETS.update({
    ast.Name: _compile_name,
    ast.Attribute: _compile_attribute,
    ast.Tuple: _compile_several,
    ast.List: _compile_several,
    ast.Starred: _compile_starred,
    ast.Subscript: _compile_item,
})  # fmt: skip
