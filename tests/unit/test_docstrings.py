"""A docstring names only parameters that its function has.

Stale names are the commonest fault of docstrings that are held by nothing. Tools that check them want every parameter
documented (pydoclint), read no reStructuredText fields (ruff) or render the whole documentation first (pydoctor).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = ("abiscan", "benchmarks", "tests", "tools")


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[str]:
    """What may be documented: parameters; of a class, those of its constructor, which are fields in a struct."""
    if isinstance(node, ast.ClassDef):
        fields = {ast.unparse(item.target) for item in node.body if isinstance(item, ast.AnnAssign)}
        constructors = [
            item for item in node.body if isinstance(item, ast.FunctionDef) and item.name in {"__init__", "__new__"}
        ]
        return fields.union(*map(parameters, constructors))
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return {item.arg for item in (*plain, arguments.vararg, arguments.kwarg) if item is not None}


def stale_parameters(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            documented = re.findall(r"^:param \*{0,2}(\w+):", ast.get_docstring(node) or "", re.MULTILINE)
            for name in documented:
                if name not in parameters(node) or documented.count(name) > 1:
                    yield f"line {node.lineno}: {node.name} has no parameter {name}, or documents it twice"


@pytest.mark.slow
def test_docstrings_name_parameters_that_exist() -> None:
    files = [file for folder in FOLDERS for file in ROOT.joinpath(folder).rglob("*.py")]
    assert len(files) > 500
    sources = {file: text for file in files if ":param " in (text := file.read_text("utf-8"))}
    assert len(sources) > 200
    assert [(file, fault) for file, source in sources.items() for fault in stale_parameters(source)] == []


SOURCE: Final = """
def load(path):
    'Load.

    :param file: the library
    :param path: where it is
    '
""".replace("'", '"""')


def test_a_stale_parameter_is_found() -> None:
    assert list(stale_parameters(SOURCE)) == ["line 2: load has no parameter file, or documents it twice"]
