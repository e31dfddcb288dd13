from __future__ import annotations

import ast

import pytest

from abiscan.python.language import nodes


def test_the_fields_of_each_kind_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[type[ast.AST]] = []
    fields_of = nodes._fields_of

    def noting(kind: type[ast.AST]) -> tuple[str, ...]:
        looked_up.append(kind)
        return fields_of(kind)

    monkeypatch.setattr(nodes, "_fields_of", noting)
    for node in ast.walk(ast.parse("f(a, 1, b=a)\n" * 2)):
        nodes.child_nodes(node)
    assert len(looked_up) == len(set(looked_up))
    assert {ast.Name, ast.Constant}.isdisjoint(looked_up)  # nothing is inside of them
