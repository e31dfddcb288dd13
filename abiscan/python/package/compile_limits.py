"""The Pythons that ``torch.compile`` does not run on: it raises there, whatever it compiles.

A release has wheels for a Python before its compiler can read the bytecode of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from abiscan.inputs.version import MinorVersion
from abiscan.python.language.nodes import TryStar, child_nodes
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import PythonLine, PythonNeed, World
from abiscan.python.package.sources import is_for_users
from abiscan.python.torch_api.torch_texts import release_of
from abiscan.regex import regex


class CompileLimit(Struct, frozen=True, kw_only=True):
    """What ``torch.compile`` says from a Python on.

    :ivar first: the release of torch that says it first, up to the next limit
    :ivar python: the first Python that it refuses
    """

    first: MinorVersion
    python: MinorVersion
    text: str

    @property
    def words(self) -> str:
        """The first Python that it refuses: ``3.12``."""
        return ".".join(map(str, self.python))

    def why(self, called: str) -> str:
        """Return why an older Python is needed.

        :param called: where ``torch.compile`` is called, as a sentence
        """
        return f"{called}, which raises from Python {self.words} on: RuntimeError: {self.text}"


_LIMITS: Final = (
    CompileLimit(first=(2, 1), python=(3, 12), text="Dynamo is not supported on Python 3.12+"),
    CompileLimit(first=(2, 4), python=(3, 13), text="Dynamo is not supported on Python 3.13+"),
    CompileLimit(first=(2, 6), python=(3, 14), text="torch.compile is not supported on Python 3.14+"),
    CompileLimit(first=(2, 10), python=(3, 15), text="torch.compile is not supported on Python 3.15+"),
)
"""From torch/__init__.py, which 2.0 leaves to torch/_dynamo: that says it of the function that is compiled."""
_CALLED: Final = regex(rb"\btorch\.compile\b")
_IMPORTS_TORCH: Final = regex(rb"(?m)^import torch\b")
_GUARDING: Final = (ast.If, ast.IfExp, ast.Try, TryStar, ast.While, ast.Match, ast.With, ast.BoolOp)
"""What may decide whether the rest of a function is run, or whether its failure is noticed."""
_DECORATED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ENVIRONMENT: Final = frozenset({"os.environ.get", "os.getenv"})


def limit_of(world: World) -> CompileLimit | None:
    """Return from which Python on the ``torch.compile`` of a target raises; None if no Python that it may be is."""
    release, newest = release_of(world.torch_version), world.newest_python
    limits = [limit for limit in _LIMITS if release is not None and limit.first <= release]
    return limits[-1] if limits and newest is not None and newest >= limits[-1].python else None


def refused_text(world: World) -> str | None:
    """Return what ``torch.compile`` of a target raises in any case; None if it may run."""
    limit, oldest = limit_of(world), world.oldest_python
    return limit.text if limit is not None and oldest is not None and oldest >= limit.python else None


def compile_needs(code: PythonCode, world: World) -> Iterator[PythonNeed]:
    """Yield the first call of ``torch.compile`` that no condition guards, be it by a decorator."""
    limit = limit_of(world)
    if limit is None:
        return
    for file in filter(is_for_users, code.sources):
        source = code.source(file)
        tree = code.tree(file) if _CALLED.search(source) and _IMPORTS_TORCH.search(source) else None
        lines = [*_calls(tree), *_calls_of_decorators(code, tree)] if tree else []
        if lines:
            line = PythonLine(file=file, line=min(lines))
            why = limit.why(f"{line} calls torch.compile")
            yield PythonNeed(below=limit.python, why=why, is_refused=refused_text(world) is not None)
            return


def _calls(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that surely call ``torch.compile`` where the module is run."""
    for node in _run_with(tree):
        # Whether a function is called is up to its users: it may be for what they have compiled.
        if isinstance(node, _DECORATED):
            yield from (item.lineno for item in node.decorator_list if _is_compile(_called(item)))
        elif isinstance(node, ast.Call) and _is_compile(node.func):
            yield node.lineno


def _run_with(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what is surely run where a module is, or a statement."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _GUARDING):
            continue
        yield node
        is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        waiting += () if is_function else node.body if isinstance(node, ast.ClassDef) else child_nodes(node)


def _calls_of_decorators(code: PythonCode, tree: ast.Module) -> Iterator[int]:
    """Yield the lines that call ``torch.compile`` in what decorators make of functions, if nobody sets a flag."""
    flags = _constants_in(tree.body)
    for decorator in tree.body:
        if not isinstance(decorator, ast.FunctionDef):
            continue
        own = flags | _constants_in(decorator.body)
        made = [part for part in _by_default(decorator.body, own) if isinstance(part, ast.FunctionDef)]
        run = (part for function in made for part in _by_default(function.body, own))
        lines = [
            node.lineno
            for part in run
            for node in _run_with(part)
            if isinstance(node, ast.Call) and _is_compile(node.func)
        ]
        yield from lines if lines and _decorates(code, decorator.name) else ()


def _decorates(code: PythonCode, name: str) -> bool:
    """Whether a function is a decorator of others, whatever the conditions."""
    files = filter(is_for_users, code.sources_with(f"@{name}".encode()))
    decorated = (node for tree in map(code.tree, files) if tree for node in _run_with(tree))
    return any(
        isinstance(item, ast.Name) and item.id == name
        for node in decorated
        if isinstance(node, _DECORATED)
        for item in node.decorator_list
    )


def _constants_in(body: Sequence[ast.stmt]) -> dict[str, object]:
    """Return the constants that names begin with."""
    constants: dict[str, object] = {}
    for part in body:
        if isinstance(part, (ast.Assign, ast.AnnAssign)) and isinstance(part.value, ast.Constant):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    constants.setdefault(target.id, part.value.value)
    return constants


def _by_default(body: Sequence[ast.stmt], constants: Mapping[str, object]) -> list[ast.stmt]:
    """Return the statements that are run as long as names have their constants, up to what is not known."""
    run: list[ast.stmt] = []
    waiting = list(body)
    while waiting:
        part = waiting.pop(0)
        truth = _truth(part.test, constants) if isinstance(part, ast.If) else None
        if isinstance(part, ast.If) and truth is not None:
            waiting[:0] = part.body if truth else part.orelse
            continue
        if isinstance(part, (*_GUARDING, ast.Return, ast.Raise)):
            break
        run.append(part)
    return run


def _truth(test: ast.expr, constants: Mapping[str, object]) -> bool | None:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth(test.operand, constants)
        return None if inner is None else not inner
    if isinstance(test, ast.Name) and test.id in constants:
        return bool(constants[test.id])
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id in constants:
        other = test.comparators[0]
        is_none = len(test.ops) == 1 and isinstance(test.ops[0], ast.Is) and isinstance(other, ast.Constant)
        return constants[test.left.id] is None if is_none and getattr(other, "value", 0) is None else None
    # A variable that only users set.
    is_asked = isinstance(test, ast.Call) and len(test.args) == 1 and ast.unparse(test.func) in _ENVIRONMENT
    return False if is_asked else None


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _is_compile(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "compile"
        and isinstance(node.value, ast.Name)
        and node.value.id == "torch"
    )
