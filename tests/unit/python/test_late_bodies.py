"""Functions that are parsed when they are asked for: the tree is that of ``ast.parse``."""

from __future__ import annotations

import ast
import inspect
import re

import pytest

from abiscan.python.interpreter import calls
from abiscan.python.language.late_bodies import (
    LateAsyncFunction,
    LateFunction,
    docstring_of,
    has_late_parameters,
    parse_late,
    statements_with,
    walk_with,
)
from abiscan.python.language.nodes import walk

_LONG = "    # a body that is long enough to be worth being cut out of a source\n    return 1\n"
SOURCE = f'''"""A module.

def not_code():
{_LONG}"""
import os

@decorator(
    1)
def first(a, b=make(), c: "int" = 2):
{_LONG}

class C(Base):
    x = 1
    async def method(
        self,
        c: int = 3,  # a comment (with a parenthesis
    ) -> dict[str, int]:
        """raise inside of a text"""
        def inner():
            """
text at the margin
"""
            return (1,
                    2)
        return inner

    y = 2

if x:
    def first(a, *, sep=":", **more: int): # comment
{_LONG.replace("    ", "        ")}
else:
    first = None
# the end
'''


def _dump(tree: ast.AST) -> str:
    # What encloses a function that is not parsed yet does not know where that ends.
    for node in walk(tree):
        for name in ("end_lineno", "end_col_offset"):
            if isinstance(node, (ast.stmt, ast.excepthandler)) and hasattr(node, "body"):
                setattr(node, name, None)
    return ast.dump(tree, include_attributes=True)


def _late(tree: ast.AST) -> list[str]:
    """Return the names of the functions that are not parsed yet."""
    late, waiting = [], [tree]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (LateFunction, LateAsyncFunction)):
            late.append(node.name)
        else:
            waiting += ast.iter_child_nodes(node)
    return late


def test_functions_are_put_off_and_come_back_as_they_are() -> None:
    tree = parse_late(SOURCE.encode())
    assert sorted(_late(tree)) == ["first", "first", "method"]
    assert _dump(tree) == _dump(ast.parse(SOURCE))
    assert not _late(tree)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_sources_of_this_package_are_those_of_the_parser(newline: str) -> None:
    source = inspect.getsource(calls).replace("\n", newline)
    tree = parse_late(source.encode())
    assert len(_late(tree)) > 8
    assert _dump(tree) == _dump(ast.parse(source.encode()))


@pytest.mark.parametrize(
    "source",
    [
        # The body goes on in a line that is indented less, where brackets or a line are not closed.
        f"def f():\n    x = (1,\n2)\n{_LONG}",
        f"def f():\n{_LONG}    x = 1 + \\\n2\n",
        f"x = 'a\\\ndef f():\\\n{_LONG}'\n".replace("\n    return 1\n", "'\n"),
        # What the indentation does not tell.
        f"def f():\n{_LONG}".replace("    ", "\t"),
        f"# coding: latin-1\nx = '\xe9'\ndef f():\n{_LONG}",
        f"def f():\n{_LONG}\f\nx = 1\n",
        f"x = '# \"\"\"'\ndef f():\n{_LONG}y = '''\n'''\n",
        # Comments do not make the search for the end of a header take long.
        "def f(\n"
        + "".join(f"    a{number},  # {'a comment ' * 9}\n" for number in range(9))
        + f") -> (\n    int\n):\n{_LONG}",
    ],
)
def test_what_is_not_certain_is_parsed_at_once(source: str) -> None:
    encoded = source.encode("latin-1" if "latin" in source else "utf-8")
    try:
        whole = ast.parse(encoded)
    except SyntaxError:
        with pytest.raises(SyntaxError):
            parse_late(encoded)
    else:
        assert _dump(parse_late(encoded)) == _dump(whole)


@pytest.mark.parametrize(
    "source", [f"def f(:\n{_LONG}", f'x = 1  # """\ny = """\ndef f():\n{_LONG}', "def f():\n\nx = 1\n"]
)
def test_what_is_no_python_outside_of_functions_is_seen(source: str) -> None:
    with pytest.raises(SyntaxError):
        parse_late(source.encode())


@pytest.mark.parametrize("asked_before", [False, True])
def test_functions_without_a_word_are_left_out(*, asked_before: bool) -> None:
    long = "    x = 1\n" * 9
    source = (
        f"def here(a=1):\n{long}    load(x)\ndef other():\n{long}def in_default(a=load(1)):\n{long}"
        f"class C:\n    @made\n    def method(self):\n    {long.replace(chr(10), chr(10) + '    ')}    pass\n"
    )
    tree = parse_late(source.encode())
    if asked_before:  # the parameters are parsed then
        assert [function.args.defaults for function in tree.body if isinstance(function, ast.FunctionDef)]
    nodes = list(walk_with(tree, re.compile(b"load")))
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    assert names == {"here", "in_default"}
    assert {node.id for node in nodes if isinstance(node, ast.Name)} >= {"load", "made"}
    assert "other" in _late(tree)


_BLOCKS_OF_ALL_KINDS = """
if a:
    import b
elif c:
    import d
else:
    import e
try:
    import f
except E:
    import g
else:
    import h
finally:
    import i
match j:
    case 1:
        import k
async def l():
    async for m in n:
        import o
    async with p:
        global q
class C:
    import r
    def s(self):
        import t
"""


def test_statements_are_found_in_all_blocks() -> None:
    late = f"def here(a=1):\n    import u\n{_LONG}def other(a=load(1)):\n{_LONG}"
    tree = parse_late(f"{_BLOCKS_OF_ALL_KINDS}{late}".encode())
    found = list(statements_with(tree, re.compile(b"import|global")))
    imported = {alias.name for node in found if isinstance(node, ast.Import) for alias in node.names}
    assert imported == set("bdefghikortu")
    assert [node.names for node in found if isinstance(node, ast.Global)] == [["q"]]
    assert "other" in _late(tree)


def test_a_docstring_is_told_without_parsing() -> None:
    texts = ("'''text'''", '"""of\n    two é lines"""  # end', 'r"""raw \\d\n    """', "u''''''")
    bodies = [f"def f{number}():\n\n    # first\n    {text}\n{_LONG}" for number, text in enumerate(texts)]
    tree = parse_late("\n".join([*bodies, f"def g():\n{_LONG}"]).encode())
    assert list(map(docstring_of, tree.body)) == ["text", "of\n    two é lines", "raw \\d\n    ", "", None]
    assert _late(tree) == ["f0", "f1", "f2", "f3", "g"]


@pytest.mark.parametrize(
    "text", ["'''\\t'''", "'''a''' 'b'", "'''a'''.strip()", "f'''a'''", "b'''a'''", "'''a\r\n'''", "'a'", "'''a''';"]
)
def test_a_docstring_with_more_to_it_is_parsed(text: str) -> None:
    source = f"def f():\n    {text}\n{_LONG}"
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    assert docstring_of(parse_late(source.encode()).body[0]) == ast.get_docstring(function, clean=False)


def test_parameters_are_parsed_without_the_body() -> None:
    source = f"def f(\n    a, *, b: int = 2\n) -> None:\n{_LONG}"
    (late,), (whole,) = parse_late(source.encode()).body, ast.parse(source).body
    assert isinstance(late, LateFunction)
    assert isinstance(whole, ast.FunctionDef)
    assert has_late_parameters(late)
    assert _dump(late.args) == _dump(whole.args)
    assert type(late) is LateFunction
    assert _dump(late) == _dump(whole)
