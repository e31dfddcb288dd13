"""Sources are read by the grammar of the target's Python, whichever Python runs the tests: see ``make pythons``.

``tests/data/newer_syntax.jsonl`` has sources, a digest of the tree that Python 3.14.2 makes of each, and what Python
3.7 to 3.13 say of it. ``python -m tools.record_syntax`` compares it with the Pythons of this machine.
"""

from __future__ import annotations

import ast
import functools
import json
import sys
from pathlib import Path

import pytest

from abiscan.python.language import grammar
from abiscan.python.language.grammar import find_newer, parse
from abiscan.python.language.newer_syntax import newer_parts, parse_newer
from abiscan.python.language.written import write_expression
from abiscan.python.package.model import Answer, Raised
from tests.unit.python.packages import FakeWorld, reading_of
from tools.record_syntax import RECORD, digest

ROWS = [json.loads(line) for line in RECORD.read_text("utf-8").splitlines()]
PYTHONS = [(3, minor) for minor in range(7, 15)]
WORDS_UNKNOWN = 199
"""So many of the texts depend on what is around: nested brackets, and most f-strings."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["source"])
def test_the_tree_is_that_of_the_newest_python(row: dict[str, str]) -> None:
    assert digest(parse(row["source"].encode())) == row["tree"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["source"])
def test_the_rewritten_source_has_the_tree_that_the_running_python_makes(row: dict[str, str]) -> None:
    tree = parse_newer(row["source"].encode())
    assert tree is None or digest(tree) == row["tree"]
    assert (tree is None) == ("3.10" not in row["said"])


def _import(source: str, python: tuple[int, int] | Answer, newest: tuple[int, int] | None = None) -> object:
    files = {"p/__init__.py": source, "p/lib.so": ""}
    (outcome,) = reading_of(files, FakeWorld(python=python, newest_python=newest)).imports
    return outcome.raised


def test_each_python_says_what_it_really_says() -> None:
    unknown = 0
    for row in ROWS:
        for python in PYTHONS:
            newer = find_newer(row["source"].encode(), python, functools.partial(parse, row["source"]))
            said = row["said"].get(f"3.{python[1]}")
            assert (newer is None) == (said is None), (row["source"], python)
            if newer is not None and newer.words(python) is None:
                unknown += 1
            elif newer is not None:
                assert f"SyntaxError: {newer.words(python)} (__init__.py, line {newer.line})" == said
    assert unknown <= WORDS_UNKNOWN


@pytest.mark.parametrize(
    ("python", "newest", "message"),
    [
        ((3, 11), None, "invalid syntax (__init__.py, line 2)"),
        ((3, 12), None, None),
        (Answer.UNKNOWN, (3, 14), None),
        (Answer.UNKNOWN, None, None),
        (Answer.UNKNOWN, (3, 11), "unknown"),
    ],
)
def test_syntax_that_the_target_is_too_old_for(
    python: tuple[int, int] | Answer, newest: tuple[int, int] | None, message: str | None
) -> None:
    raised = _import("import torch\ntype X = int\n", python, newest)
    if message is None:
        assert raised is None
        return
    assert isinstance(raised, Raised)
    assert raised.exception == "SyntaxError"
    assert raised.message == (None if message == "unknown" else message)


def test_a_module_that_does_nothing_is_parsed_too() -> None:
    files = {"p/__init__.py": "from . import a\n", "p/a.py": "def f():\n    type X = int\n", "p/lib.so": ""}
    (outcome,) = reading_of(files, FakeWorld(python=(3, 11))).imports
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.message == "invalid syntax (a.py, line 2)"
    (outcome,) = reading_of(files, FakeWorld(python=(3, 12))).imports
    assert outcome.raised is None


@pytest.mark.parametrize(
    ("source", "raised"),
    [
        ("try:\n    raise ExceptionGroup('', [ValueError()])\nexcept* ValueError:\n    pass\n", None),
        ("type X = missing()\n", None),
        ("class A[T: missing()]:\n    x: T\n    def f[U](self, y: U) -> T: ...\n", None),
        ("def f[T = missing()](x: T): ...\nf(1)\n", None),
        ("x = {'a': 'b'}\nif f\"{x[\"a\"]}\" != 'b': raise ValueError\n", None),
        ("x = f\"{'\\n'.join(['a', 'b'])}\"\nif x != 'a\\nb': raise ValueError\n", None),
        ("x = f\"{\n    1  # one\n}\"\nif x != '1': raise ValueError\n", None),
        ("try:\n    1 / 0\nexcept ValueError, ZeroDivisionError:\n    pass\n", None),
        ("def f(*args: *tuple[int]): return args\nif f(1) != (1,): raise ValueError\n", None),
        ("class A:\n    def __class_getitem__(cls, x): return x\nif A[*[1, 2]] != (1, 2): raise ValueError\n", None),
        ("x = t'{missing}'\n", "NameError: name 'missing' is not defined"),
        ("def f(x: missing): ...\n", None),
        ("x: int = 1\ny = f\"{x!r:>{'3'}}\"\nif y != '  1': raise ValueError\n", None),
    ],
)
def test_what_newer_syntax_does(source: str, raised: str | None) -> None:
    outcome = _import(source, (3, 14))
    assert (None if outcome is None else f"{outcome.exception}: {outcome.message}") == raised  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("source", "real"),
    [
        ("if x\n    pass\n", "SyntaxError: expected ':' (__init__.py, line 1)"),
        (
            "print 'x'\n",
            "SyntaxError: Missing parentheses in call to 'print'. Did you mean print(...)? (__init__.py, line 1)",
        ),
        ("  x\n", "IndentationError: unexpected indent (__init__.py, line 1)"),
        (
            "x = (1]\n",
            "SyntaxError: closing parenthesis ']' does not match opening parenthesis '(' (__init__.py, line 1)",
        ),
        ("x = 1\0\n", "SyntaxError: source code string cannot contain null bytes"),
        ("f(a=)\n", "SyntaxError: None"),  # each version has words of its own
        ("import\n", "SyntaxError: None"),
        ("x = f'{}'\n", "SyntaxError: None"),
    ],
)
@pytest.mark.parametrize("python", [(3, 11), (3, 12), (3, 13), (3, 14)])
def test_what_no_python_accepts_has_the_words_that_all_use(source: str, real: str, python: tuple[int, int]) -> None:
    raised = _import(source, python)
    assert isinstance(raised, Raised)
    assert f"{raised.exception}: {raised.message}" == real


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("f'{x}\\n{y!r:>{w}}'", "f'{x}\\n{y!r:>{w}}'"),
        ("f\"{', '.join(x)}\"", "f\"{', '.join(x)}\""),
        ("g(lambda: 1, [a for (a, b) in c])", "g(lambda: 1, [a for a, b in c])"),
        ("f\"{x['a'] if y else z}{{}}\"", "f\"{(x['a'] if y else z)}{{}}\""),
        ('f"{x["a"]}"', "f\"{x['a']}\""),
        ("t'{x}'", "t'{x}'"),
    ],
)
def test_expressions_are_written_alike(source: str, text: str) -> None:
    statement = parse(source).body[0]
    assert isinstance(statement, ast.Expr)
    assert write_expression(statement.value) == text


def test_the_standard_library_of_the_running_python_has_the_trees_that_it_makes() -> None:
    folder = Path(ast.__file__).parent
    names = ("typing.py", "ast.py", "dataclasses.py", "enum.py", "traceback.py", "tomllib/_parser.py")
    sources = [path.read_bytes() for name in names if (path := folder / name).is_file()]
    for source in sources:
        tree = parse_newer(source)
        assert tree is None or digest(tree) == digest(ast.parse(source))
        assert all(part.first <= sys.version_info[:2] for part in newer_parts(source))


@pytest.mark.parametrize(
    ("python", "raised"), [((3, 10), "NameError"), ((3, 11), "ExceptionGroup"), ((3, 14), "ExceptionGroup")]
)
def test_built_in_names_are_those_of_the_target(python: tuple[int, int], raised: str) -> None:
    outcome = _import("raise ExceptionGroup('x', [ValueError()])\n", python)
    assert isinstance(outcome, Raised)
    assert outcome.exception == raised


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("1 / 0", "division by zero"),
        ("1 // 0", None),  # "integer division or modulo by zero" before 3.14
        ("int('x')", "invalid literal for int() with base 10: 'x'"),
        ("[1].index(2)", "2 is not in list"),  # "list.index(x): x not in list" since 3.14
    ],
)
def test_the_words_of_built_in_operations_do_not_depend_on_the_python_that_runs(code: str, message: str | None) -> None:
    outcome = _import(f"{code}\n", (3, 11))
    assert outcome is Answer.UNKNOWN or (isinstance(outcome, Raised) and outcome.message == message)


@pytest.mark.parametrize(
    ("source", "may_be"),
    [
        ('x = t"{a}"', True),
        ('x = t"a"', True),
        ('x = (rt"""a\n""", 1)', True),
        ('x = t"a\\\nb"', True),
        ('x = t"{\n  a}"', True),
        ('x = ["Model T",\n     "modem"]', False),
    ],
)
def test_a_template_ends_in_its_line_or_has_a_field(source: str, *, may_be: bool) -> None:
    assert grammar._may_have_newer(source.encode(), (3, 13)) is may_be


def test_a_source_whose_tree_would_take_gigabytes_is_not_parsed() -> None:
    with pytest.raises(MemoryError):
        parse(b"x = [" + b"1," * 1_000_000 + b"]")
