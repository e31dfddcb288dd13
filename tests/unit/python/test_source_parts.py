"""The parts of a source that have a name in their text are all that have it in their tree."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from abiscan.python.language.bound_names import names_bound_by, names_bound_in
from abiscan.python.language.grammar import parse
from abiscan.python.language.late_bodies import parse_late
from abiscan.python.language.source_parts import SourceParts, having, written_forms

SOURCE = """
import one, two
class Made:
    @one.wrap
    def first(self):
        three = 1  # of a function long enough to be parsed only when somebody asks for it
        return three
    async def second(self, one):
        def inner():
            four = self.__five = two
            return four
        return inner
def other():
    ﬁve = 5
    return [six for six in ﬁve]
"""


@pytest.mark.parametrize("lines", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("parser", [parse, parse_late])
def test_what_has_a_name_is_gone_through(lines: str, parser: Callable[[bytes], ast.Module]) -> None:
    source = SOURCE.replace("\n", lines).encode()
    everything = list(names_bound_in(parse(source)))
    for name in ("one", "two", "three", "four", "five", "six", "other", "inner", "first"):
        tree = parser(source)
        nodes = SourceParts(source).walk_having(tree, having([name]))
        bound = [one for node in nodes for one, _ in names_bound_by(node)]
        assert bound.count(name) == everything.count(name)


def test_functions_without_the_name_are_passed_over() -> None:
    tree = parse_late(SOURCE.encode())
    nodes = SourceParts(SOURCE.encode()).walk_having(tree, having(["three"]))
    assert {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))} == {
        "first", "other",
    }  # fmt: skip


def test_the_words_of_a_part_are_the_names_in_it() -> None:
    tree = parse(SOURCE.encode())
    parts = SourceParts(SOURCE.encode())
    first, second = tree.body[1].body  # type: ignore[attr-defined]
    assert {b"one", b"wrap", b"three"} <= (parts.words(first) or frozenset())
    assert b"three" not in (parts.words(second) or frozenset())
    assert not written_forms(["_Made__five"]).isdisjoint(parts.words(second) or frozenset())
    assert b"five" in (parts.words(tree.body[2]) or frozenset())  # as Python reads that name
    assert SourceParts(b"x = 1\ry = 2\n").words(tree.body[2]) is None
