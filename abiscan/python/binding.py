"""What stands on the left of ``=``: names, attributes and items that get a value."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from abiscan.python import attributes, special
from abiscan.python.expressions import Expressions
from abiscan.python.values import NotKnown, Scope, Thrown, known_length, note_change, thrown


class Binding(Expressions):
    """Binds values."""

    def bind(self, name: str, value: object, scope: Scope) -> None:
        """Bind a name."""
        # What may not have run can still be seen by the code after it in the same scope, which forgets it at the end
        # (see ``forget_bindings``). A name of another scope outlives that: it is unknown at once.
        home = scope.outer_names.get(name, scope)
        home.names[name] = NotKnown(name) if self.perhaps and home is not scope else value

    def assign(self, target: ast.expr, value: object, scope: Scope) -> None:
        """Bind a value to what stands on the left of ``=``."""
        if isinstance(target, ast.Name):
            self.bind(target.id, value, scope)
        elif isinstance(target, ast.Attribute):
            self.put(self.evaluate(target.value, scope), target.attr, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value, scope)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, scope)
        elif isinstance(target, ast.Subscript):
            self.set_item(self.evaluate(target.value, scope), self.evaluate(target.slice, scope), value)

    def _unpack(self, targets: Sequence[ast.expr], value: object, scope: Scope) -> None:
        values = self._unpacked_items(value)
        starred = next((index for index, element in enumerate(targets) if isinstance(element, ast.Starred)), None)
        # It is not known how many items there are, so neither which target gets which, nor whether there are enough.
        if isinstance(values, list) and known_length(values) is None:
            values = NotKnown("a list")
        if isinstance(values, NotKnown):
            values = [values.part(f"[{index}]") for index in range(len(targets))]
        elif starred is not None:
            # The targets after the starred one take their items from the end, it takes those that are left.
            least = len(targets) - 1
            if len(values) < least:
                text = f"not enough values to unpack (expected at least {least}, got {len(values)})"
                raise thrown(ValueError, text)
            end = len(values) - (len(targets) - starred - 1)
            values = [*values[:starred], values[starred:end], *values[end:]]
        if len(values) != len(targets):
            few = len(values) < len(targets)
            text = (
                f"not enough values to unpack (expected {len(targets)}, got {len(values)})"
                if few
                else f"too many values to unpack (expected {len(targets)})"
            )
            raise thrown(ValueError, text)
        for target, element in zip(targets, values, strict=True):
            self.assign(target, element, scope)

    def _unpacked_items(self, value: object) -> list[object] | NotKnown:
        """Return the items of a value that is unpacked, which has an error of its own for one that has no items."""
        try:
            return self.items(value)
        except Thrown as error:
            name = special.type_name(value)
            if error.failure.args == (f"'{name}' object is not iterable",):
                raise thrown(TypeError, f"cannot unpack non-iterable {name} object") from None
            raise

    def put(self, owner: object, name: str, value: object) -> None:
        """Execute ``owner.name = value``."""
        attributes.set_attribute(self, owner, name, NotKnown(f".{name}") if self.perhaps else value)

    def set_item(self, container: object, index: object, value: object) -> None:
        """Execute ``container[index] = value``."""
        if self.perhaps and isinstance(container, (dict, list)):
            note_change(container)
        else:
            special.set_item(self, container, index, value)

    def forget_bindings(self, bodies: Sequence[ast.stmt], scope: Scope, unknown: NotKnown) -> None:
        """Forget the names that some statements bind: which of them ran is not known."""
        for name in set[str]().union(*map(self.library.bound_names, bodies)):
            self.bind(name, unknown, scope)
