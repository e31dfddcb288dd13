"""The skeleton of a module, and functions that are parsed alone."""

from __future__ import annotations

import ast

import pytest

from abiscan.python.skeleton import function_in, make_skeleton

SOURCE = b'''"""A module.

def not_code(): pass
"""
import os

@decorator
def first(a, b=make()):
    """raise inside of a text"""
    raise ValueError

class C(Base):
    x = 1
    async def method(
        self,
        c: int = 3,
    ) -> None:
        def inner():
            return 1
        return inner

    y = 2

def first(a):
    return a
'''


def test_has_all_but_the_bodies_of_functions() -> None:
    tree, whole = make_skeleton(SOURCE), ast.parse(SOURCE)
    assert tree is not None
    assert [type(node) for node in tree.body] == [type(node) for node in whole.body]
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    assert [function.name for function in functions] == ["first", "first", "method"]
    assert all(isinstance(function.body[0], ast.Pass) for function in functions)
    assert ast.unparse(functions[0].args.defaults[0]) == "make()"


@pytest.mark.parametrize("source", [b"def f(:\n    pass\n", b'x = 1  # """\n', b"\0"])
def test_there_is_none_of_what_is_no_python(source: bytes) -> None:
    assert make_skeleton(source) is None


def test_a_function_is_parsed_alone() -> None:
    last = function_in(SOURCE, ("first",))
    assert last is not None
    assert ast.unparse(last) == "def first(a):\n    return a"
    method = function_in(SOURCE, ("C", "method"))
    assert isinstance(method, ast.AsyncFunctionDef)
    assert len(method.body) == 2
    assert function_in(SOURCE, ("method",)) is not None
    assert function_in(SOURCE, ("C", "first")) is None
    assert function_in(SOURCE, ("D", "method")) is None
