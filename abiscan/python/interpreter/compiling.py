"""The compiled form of Python code: closures, one for each expression and statement.

A source is not walked again each time that it runs. Its parts are compiled once, each when it first runs, and kept with
their node: which operation it is, on what, and what is constant in it is settled then. Nothing here generates code. A
closure calls those of its parts and the operations of the reading, which are all there is to call.

How many steps a body takes is known as it is compiled, so that they are counted once for all its statements. What it
evaluates again and again counts where it does: the rounds of a loop or comprehension, and the body of a ``lambda``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Final

from abiscan.python.interpreter.signals import Either, Signal
from abiscan.python.interpreter.values import Scope
from abiscan.python.language.nodes import child_nodes

Value = Callable[[Any, Scope], Any]
"""What evaluates an expression: it gets the machine."""
Target = Callable[[Any, Scope, object], None]
"""What binds a value to something on the left of ``=``."""
Code = Callable[[Any, Scope], Signal | None]
"""What runs statements."""

VALUES: Final[dict[type[ast.AST], Callable[[Compiler, Any], Value]]] = {}
QUESTIONS: Final[dict[type[ast.AST], Callable[..., Value]]] = {}
"""What compiles the kinds whose value may be a question to the target; told by ``settles`` whether to ask it."""
TARGETS: Final[dict[type[ast.AST], Callable[[Compiler, Any], Target]]] = {}
STATEMENTS: Final[dict[type[ast.AST], Callable[[Compiler, Any], Code]]] = {}
"""What compiles all other kinds of nodes. The modules that say what the kinds do fill these tables."""
OTHERS: Final[dict[type, Callable[[Any], Any]]] = {}
"""What stands in for a node of a kind that is in no table."""


_HELD: Final = frozenset({ast.Name, ast.Attribute})
"""The kinds that give what is held elsewhere, and make nothing."""


class Compiler:
    """Compiles the expressions of one statement.

    :ivar steps: how many steps they take
    :ivar is_long: whether they may be on several lines, so that it matters which one the code is at
    """

    __slots__ = ("is_long", "steps")

    def __init__(self, *, is_long: bool = True) -> None:
        self.is_long, self.steps = is_long, 0

    def value(self, node: ast.expr, *, settles: bool = True, is_whole: bool = True) -> Value:
        """Compile an expression.

        :param settles: whether what is still to be asked of the target is asked: see ``TargetExpression``
        :param is_whole: whether all of a large value may be gone through, which is counted; else a part is taken of it
        """
        self.steps += 1
        kind = type(node)
        if not is_whole and kind in _HELD:
            return QUESTIONS[kind](self, node, settles=settles, is_whole=False)
        if kind in QUESTIONS:
            return QUESTIONS[kind](self, node, settles=settles)
        return VALUES[kind](self, node) if kind in VALUES else OTHERS[ast.expr](node)

    def target(self, node: ast.expr) -> Target:
        """Compile what stands on the left of ``=``."""
        self.steps += 1
        return TARGETS[type(node)](self, node)

    def line(self, node: ast.expr) -> int:
        """Return the line of an expression if code may be at another one by then, else 0."""
        return node.lineno if self.is_long else 0


def value_of(node: ast.expr) -> tuple[int, Value]:
    """Return an expression that stands for itself, compiled, and how many steps it takes."""
    made: tuple[int, Value] | None = node.__dict__.get("compiled")
    if made is None:
        compiler = Compiler()
        value = compiler.value(node)
        made = node.__dict__["compiled"] = compiler.steps, value
    return made


def target_of(node: ast.expr) -> Target:
    """Return what binds a value to something on the left of ``=``, compiled."""
    made: Target | None = node.__dict__.get("compiled_target")
    if made is None:
        made = node.__dict__["compiled_target"] = Compiler().target(node)
    return made


def statement_of(node: ast.stmt) -> tuple[int, Code]:
    """Return a statement, compiled, and how many steps it takes itself."""
    made: tuple[int, Code] | None = node.__dict__.get("compiled")
    if made is None:
        compiler = Compiler(is_long=_is_long(node))
        compile_ = STATEMENTS.get(type(node))
        code: Code = OTHERS[ast.stmt](node) if compile_ is None else compile_(compiler, node)
        made = node.__dict__["compiled"] = compiler.steps + 1, code
    return made


def body_of(statements: Sequence[ast.stmt]) -> Code:
    """Return the statements of a body, compiled as it first runs."""
    if not statements:
        return _run_nothing
    # It is kept with its first statement, which is that of no other body.
    first = statements[0].__dict__
    made: Code | None = first.get("compiled_body")
    if made is None:
        made = first["compiled_body"] = _make_body(statements)
    return made


def _make_body(statements: Sequence[ast.stmt]) -> Code:
    compiled: list[tuple[int, Code]] = []
    steps = 0

    def run(machine: Any, scope: Scope) -> Signal | None:
        nonlocal steps
        if not compiled:
            made = [(statement.lineno, *statement_of(statement)) for statement in statements]
            steps = sum(count for _line, count, _code in made)
            compiled.extend((line, code) for line, _count, code in made)
        machine.steps += steps
        if machine.steps > machine.most_steps:
            machine.count_steps(0)
        frame = machine.frames[-1]
        for line, code in compiled:
            frame.line = line
            signal = code(machine, scope)
            if signal is not None:
                if type(signal) is Either:
                    remaining = [later for _line, later in compiled[compiled.index((line, code)) + 1 :]]
                    returned: Signal = machine.returned_on_both(signal, remaining, scope)
                    return returned
                return signal
        return None

    return run


def _run_nothing(_machine: Any, _scope: Scope) -> None:
    """Run a body without statements."""


def _is_long(node: ast.stmt) -> bool:
    """Whether what a statement evaluates itself goes over several lines."""
    if node.end_lineno == node.lineno:
        return False
    value = getattr(node, "value", None)  # of most statements on several lines, which spares a look at all their parts
    if value is not None and value.end_lineno != node.lineno:
        return True
    # The body of a function may not be parsed yet: see ``late_bodies``.
    is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return any(
        getattr(part, "end_lineno", node.lineno) != node.lineno
        for part in (node.decorator_list if is_function else child_nodes(node))  # type: ignore[attr-defined]
        if not isinstance(part, (ast.stmt, ast.ExceptHandler, ast.match_case))
    )
