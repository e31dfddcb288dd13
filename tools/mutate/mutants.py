"""Small changes of the package: in one function, a comparison, operator, number, condition or jump is another one.

What no test can see is not changed: assertions, annotations, ``__repr__``, decorators, and arguments that only decide
how much is read at once, how long something is waited for, how a document is indented, or how hard it is compressed.
Nor is it changed whether a limit, such as ``_LARGEST`` or ``_SMALL``, is part of what it allows.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
ROOMS: Final = tuple(sorted({path.parent.name for path in (ROOT / "abiscan").glob("*/*.py")}))
_OTHER: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.Break: ast.Continue, ast.Continue: ast.Break,
}  # fmt: skip
_UNSEEN_OPTIONS: Final = ("indent", "maxsize", "stacklevel", "strict", "timeout")
_READING: Final = ("copyfileobj", "read", "read_head", "text")
_COMPRESSING: Final = ("compress", "compressobj")
_LEAST_SIZE: Final = 64
_LIMIT: Final = re.compile(
    r"_?(?:ABANDONED|DEEPEST|HIGHEST|LARGE|LARGEST|LIMIT|LONGEST|MAX|MOST|SMALL|WIDEST)(?:_|$)|limit$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A file with one change, in some lines."""

    path: str
    lines: range
    change: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.lines[0]}: {self.change}"

    @property
    def room(self) -> str:
        """The package that it is in."""
        return self.path.split("/")[1]

    def diff(self) -> str:
        """What is changed, with the lines around it."""
        before = (ROOT / self.path).read_text("utf-8").splitlines()
        return "\n".join(list(difflib.unified_diff(before, self.text.splitlines(), lineterm="", n=2))[2:])


def mutant(seed: int, number: int, room: str) -> Mutant:
    """A mutant of a room by its number; the larger a file, the more of them are in it."""
    random = Random(f"{seed} {number} {room}")
    files = sorted((ROOT / "abiscan" / room).rglob("*.py"))
    while True:
        file = random.choices(files, [path.stat().st_size for path in files])[0]
        text = file.read_text("utf-8")
        places = list(_places(ast.parse(text)))
        if places:
            return _changed(file.relative_to(ROOT).as_posix(), text, random.choice(places))


def _places(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """The nodes in functions that can be another one."""
    unseen = {id(inner) for node in ast.walk(tree) for part in _unseen(node) for inner in ast.walk(part)}
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    inside = {id(node): node for function in functions for part in function.body for node in ast.walk(part)}
    for node in inside.values():  # once, though it may be in a function within another one
        if isinstance(node, ast.expr | ast.stmt) and id(node) not in unseen and _can_be_other(node):
            yield node


def _unseen(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node whose change makes no difference to a program that is right."""
    for name in ("annotation", "returns"):
        if isinstance(annotation := getattr(node, name, None), ast.AST):
            yield annotation
    yield from getattr(node, "decorator_list", ())
    if isinstance(node, ast.Assert) or (isinstance(node, ast.FunctionDef) and node.name == "__repr__"):
        yield node
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        yield node
    match node:
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="hexdigest")), slice=length):
            yield length  # how many characters of a hash are a name
        case ast.FormattedValue():  # how many characters of a text are shown
            slices = (part for part in ast.walk(node) if isinstance(part, ast.Slice))
            yield from (part.upper for part in slices if part.upper is not None and _is_size(part.upper))
    if isinstance(node, ast.Call):
        yield from (option for option in node.keywords if option.arg in _UNSEEN_OPTIONS)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        yield from (size for size in node.args if name in _READING and _is_size(size))
        yield from node.args[1:] if name in _COMPRESSING else ()


def _is_size(node: ast.expr) -> bool:
    """Whether it is a number, or a power of two, for a size that nothing in a file has."""
    match node:
        case ast.BinOp(left=ast.Constant(value=int()), op=ast.LShift(), right=ast.Constant(value=int())):
            return True
        case ast.Constant(value=int(number)):
            return number >= _LEAST_SIZE
    return False


def _can_be_other(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in _OTHER and not _compares_with_limit(node)
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return type(node.op) in _OTHER
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    if isinstance(node, ast.Constant):
        return type(node.value) in (bool, int)
    return isinstance(node, ast.BoolOp | ast.Break | ast.Continue | ast.IfExp)


def _compares_with_limit(node: ast.Compare) -> bool:
    """Whether it would differ for what is exactly as large as hostile input may be, and nothing else is."""
    parts = (getattr(part, "id", getattr(part, "attr", "")) for part in (node.left, *node.comparators))
    return any(map(_LIMIT.match, parts)) and isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)


def _changed(path: str, text: str, node: ast.expr | ast.stmt) -> Mutant:
    before = ast.get_source_segment(text, node) or ""
    if isinstance(node, ast.Constant):
        value = not node.value if isinstance(node.value, bool) else int(str(node.value)) + 1
        after = repr(value)
    else:
        after = f"({ast.unparse(_other(node))})" if isinstance(node, ast.expr) else ast.unparse(_other(node))
    lines = text.encode().split(b"\n")
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start = sum(len(line) + 1 for line in lines[: node.lineno - 1]) + node.col_offset
    end = sum(len(line) + 1 for line in lines[: node.end_lineno - 1]) + node.end_col_offset
    data = text.encode()
    new = (data[:start] + after.encode() + data[end:]).decode()
    lines_ = range(node.lineno, node.end_lineno + 1)
    return Mutant(path=path, lines=lines_, change=f"{' '.join(before.split())} -> {after}", text=new)


def _other(node: ast.AST) -> ast.AST:
    """The node as something else."""
    if isinstance(node, ast.Compare):
        node.ops = [_swapped(node.ops[0]), *node.ops[1:]]
    elif isinstance(node, ast.BoolOp | ast.BinOp | ast.AugAssign):
        node.op = _swapped(node.op)
    elif isinstance(node, ast.UnaryOp):
        return node.operand
    elif isinstance(node, ast.IfExp):
        node.body, node.orelse = node.orelse, node.body
    else:
        other: ast.AST = _swapped(node)
        return other
    return node


def _swapped(node: ast.AST) -> Any:
    return _OTHER[type(node)]()
