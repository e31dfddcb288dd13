"""What runs whatever happens as a package is imported, or one of the packages right inside of it.

What a single model or program among many imports decides little. Nor does it count what a condition decides on, or what
stands where its failure is caught.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import Final

from abiscan.python.language.dynamic_names import package_of
from abiscan.python.language.nodes import TryStar, child_nodes
from abiscan.python.package.library import Import, PythonCode
from abiscan.python.torch_api.torch_names import list_prefixes

MOST_FOLDERS: Final = 2
"""How deep packages lie that count whatever the metadata require."""
_SCOPES: Final = frozenset({b"class", b"def"})
_IMPORTING: Final = frozenset({"__import__", "import_module", "importlib.import_module"})
"""What imports a module by its name as a text."""
_LATER: Final = (
    *(ast.Lambda, ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)
"""What may not run, or only later."""
_CONDITIONAL: Final = (ast.If, ast.For, ast.AsyncFor, ast.AsyncWith, ast.While, ast.Match, TryStar)


def reached_sources(code: PythonCode, depth: int = MOST_FOLDERS, *, lazily: bool = False) -> set[str]:
    """Return the sources that importing the package, or a public package inside of it, runs.

    :param depth: in how many folders such packages may be
    :param lazily: whether those count, too, that functions import whatever happens
    """
    waiting = [
        file for file in code.sources if file.endswith("/__init__.py") and file.count("/") <= depth and _is_public(file)
    ]
    reached = set(waiting)
    while waiting:
        file = waiting.pop()
        plain, _ = code.imports(file, package_of(file))
        if lazily:
            plain = (*plain, *_imports_by_functions(code, file))
        for name in {name for line in plain for target in line.targets for name in list_prefixes(target)}:
            located = code.locate(name)
            if located is not None and located.file is not None and located.file not in reached:
                reached.add(located.file)
                waiting.append(located.file)
    return reached


def _imports_by_functions(code: PythonCode, file: str) -> Iterator[Import]:
    """Yield the imports that stand in a function, and in nothing that may decide or catch."""
    outline = code.outline(file)
    for line in outline.imports_in_functions:
        around = outline.around(len(code.before(file, line.line)) + 1)
        if all(keyword in _SCOPES for keyword, _ in around):
            yield code.resolved(line, package_of(file))


def _is_public(file: str) -> bool:
    return not any(part.startswith("_") for part in file.split("/")[:-1])


def run_whatever_happens(tree: ast.Module, error: type[Exception]) -> Iterator[ast.stmt]:
    """Yield the statements that run as a source is imported and where nothing catches an exception, in their order."""
    waiting: list[ast.stmt] = tree.body[::-1]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Try):
            if not _catches(node, error):
                waiting += [*node.body, *node.orelse, *node.finalbody][::-1]
        elif isinstance(node, ast.With):
            if all(map(_only_warns, node.items)):
                waiting += node.body[::-1]
        elif not isinstance(node, _CONDITIONAL):
            yield node
            if isinstance(node, ast.ClassDef):
                waiting += node.body[::-1]


def evaluated(node: ast.stmt, *, annotations: bool = False) -> Iterator[ast.expr]:
    """Yield the expressions that a statement evaluates itself: of a function or a class, those around its body.

    :param annotations: whether those of parameters and variables are among them
    """
    waiting: list[ast.AST]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = node.args
        defaults = (*arguments.defaults, *(value for value in arguments.kw_defaults if value is not None))
        waiting = [*node.decorator_list, *defaults]
        if annotations:
            every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
            hints = (*(argument and argument.annotation for argument in every), node.returns)
            waiting += [hint for hint in hints if hint is not None]
    elif isinstance(node, ast.ClassDef):
        waiting = [*node.decorator_list, *node.bases, *(item.value for item in node.keywords)]
    elif isinstance(node, ast.AnnAssign) and not annotations:
        waiting = [] if node.value is None else [node.value]
    else:
        waiting = list(child_nodes(node))
    while waiting:
        part = waiting.pop()
        if isinstance(part, _LATER):
            continue
        if isinstance(part, ast.expr):
            yield part
        waiting += child_nodes(part)


def named_import(node: ast.expr) -> str | None:
    """Return the module that an expression imports by its name as a text; None for any other."""
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in _IMPORTING:
        name = node.args[0]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            return name.value
    return None


def _catches(node: ast.Try, error: type[Exception]) -> bool:
    """Whether a ``try`` may catch an exception."""
    types = [handler.type for handler in node.handlers]
    kinds = [part for kind in types for part in (kind.elts if isinstance(kind, ast.Tuple) else [kind])]
    return not all(_is_other(kind, error) for kind in kinds)


def _is_other(kind: ast.expr | None, error: type[Exception]) -> bool:
    """Whether a handler is for a built-in exception that this one is not."""
    cls = getattr(builtins, kind.id, None) if isinstance(kind, ast.Name) else None
    return isinstance(cls, type) and not issubclass(error, cls)


def _only_warns(item: ast.withitem) -> bool:
    """Whether a block only changes what is done with warnings: others, as ``suppress``, may catch exceptions."""
    called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else None
    return "catch_warnings" in {getattr(called, "id", None), getattr(called, "attr", None)}
