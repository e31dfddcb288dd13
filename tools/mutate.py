"""Change the verdict's core in small ways, and see whether the fast tests notice.

    python -m tools.mutate                            # 200 mutants, seed 0
    python -m tools.mutate --count 20 --seed 3 --time-limit 600
    python -m tools.mutate --room dispatch --only 17  # one mutant again

A mutant is determined by the seed and its number: in one function, a comparison, operator, number, condition or jump is
another one. It lives in a copy of the package. It is killed if a test fails, or takes ten times as long as usual;
otherwise it survived, and either a test is missing or the change makes no difference. Exits with 1 if fewer than 95 %
are killed.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
ROOMS: Final = ("linkage", "dispatch", "emulation", "rules", "torches")
ENOUGH: Final = 0.95
_SECONDS: Final = 900  # for all tests of a mutant
_OTHER: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.Break: ast.Continue, ast.Continue: ast.Break,
}  # fmt: skip

# What kills a mutant of a room soonest; everything else that needs no torch and no corpus follows.
_FIRST: Final = {
    "linkage": ("tests/unit/linkage", "tests/property/test_linkage.py"),
    "dispatch": ("tests/unit/dispatch", "tests/property/test_dispatcher.py", "tests/property/test_schema.py"),
    "emulation": ("tests/unit/emulation",),
    "rules": ("tests/unit/rules", "tests/test_cases.py"),
    "torches": ("tests/unit/torches", "tests/property/test_names.py", "tests/property/test_operator_table.py"),
}
_ALL: Final = ("tests/unit", "tests/property", "tests/test_cases.py", "tests/golden")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A file with one change, in a line."""

    path: str
    line: int
    change: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.change}"


def mutant(seed: int, number: int, rooms: Sequence[str]) -> Mutant:
    """A mutant by its number; the larger a room, the more of them are its."""
    random = Random(f"{seed} {number}")
    files = sorted(file for room in rooms for file in (ROOT / "abiscan" / room).rglob("*.py"))
    while True:
        file = random.choices(files, [path.stat().st_size for path in files])[0]
        text = file.read_text("utf-8")
        places = list(_places(ast.parse(text)))
        if places:
            return _changed(file.relative_to(ROOT).as_posix(), text, random.choice(places))


def _places(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """The nodes in functions that can be another one."""
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(annotation := getattr(node, "annotation", getattr(node, "returns", None)), ast.AST)
        for inner in ast.walk(annotation)
    }
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in (inner for statement in function.body for inner in ast.walk(statement)):
                if isinstance(node, ast.expr | ast.stmt) and id(node) not in annotations and _can_be_other(node):
                    yield node


def _can_be_other(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in _OTHER
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return type(node.op) in _OTHER
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    if isinstance(node, ast.Constant):
        return type(node.value) in (bool, int)
    return isinstance(node, ast.BoolOp | ast.Break | ast.Continue | ast.IfExp)


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
    return Mutant(path=path, line=node.lineno, change=f"{' '.join(before.split())} -> {after}", text=new)


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


def killer(one: Mutant, tree: Path) -> str | None:
    """The first test that notices a mutant in a copy of the repository; None if it survives."""
    file = tree / one.path
    original = file.read_text("utf-8")
    file.write_text(one.text, "utf-8")
    begin = time.monotonic()
    try:
        for tests in (_FIRST[one.path.split("/")[1]], _ALL):
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
            environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)}
            try:
                done = subprocess.run(
                    command, cwd=tree, env=environment, capture_output=True, text=True, check=False,
                    timeout=_SECONDS - (time.monotonic() - begin),
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return "takes too long"
            if done.returncode:
                lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                return lines[0] if lines else f"pytest ends with {done.returncode}"
        return None
    finally:
        file.write_text(original, "utf-8")


def main() -> int:
    """Print each mutant, and what killed it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--start", type=int, default=0, metavar="NUMBER", help="the first mutant")
    parser.add_argument("--room", choices=ROOMS, action="append", help="only mutants of this room (repeatable)")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="only this mutant")
    parser.add_argument("--time-limit", type=float, default=float("inf"), metavar="SECONDS", help="begin none after it")
    parser.add_argument("--list", action="store_true", help="show the mutants, and test none")
    chosen = parser.parse_args()
    numbers = range(chosen.start, chosen.start + chosen.count) if chosen.only is None else [chosen.only]
    begin, killed, done = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        tree = Path(folder) / "tree"
        ignored = shutil.ignore_patterns(".*", "build", "__pycache__")
        shutil.copytree(ROOT, tree, ignore=ignored)
        for number in numbers:
            if time.monotonic() - begin > chosen.time_limit:
                break
            one = mutant(chosen.seed, number, chosen.room or ROOMS)
            if chosen.list:
                print(number, one)
                continue
            by = killer(one, tree)
            done, killed = done + 1, killed + (by is not None)
            print(f"{number} {'killed' if by else 'SURVIVED'} {one}{f' by {by}' if by else ''}", flush=True)
    if not done:
        return 0
    print(f"seed {chosen.seed}: {killed} of {done} killed ({killed / done:.0%}) in {time.monotonic() - begin:.0f} s")
    return 0 if killed >= ENOUGH * done else 1


if __name__ == "__main__":
    sys.exit(main())
