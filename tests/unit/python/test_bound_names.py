"""The names that code binds are those that Python's own symbol tables have."""

from __future__ import annotations

import ast
import symtable
import sys
from collections.abc import Iterator

import pytest

from abiscan.python.language.bound_names import names_bound_by, names_bound_in
from abiscan.python.language.grammar import parse

SOURCES = [
    "a = b = c",
    "a, (b, *c) = d",
    "a.b = c[d] = e",
    "a: int = b",
    "a += b",
    "del a, b.c",
    "for a, b in c: d",
    "async def f():\n async for a in b: ...\n async with c as (d, e): ...",
    "with a as b, c as (d, *e): ...",
    "try: a\nexcept b as c: ...\nexcept d: ...",
    *(["try: a\nexcept* b as c: ..."] if sys.version_info >= (3, 11) else []),  # PEP 654
    "import a, b.c, d.e as f",
    "from a import b, c as d\nfrom . import e\nfrom ..f import g as h",
    "def a(b, /, c: d, *e, f=g, **h): ...",
    "a = lambda b, *c, d=e, **f: (g := b)",
    "class A(B, metaclass=C): d = e",
    "[a for b in c if d]",
    "{a: b for a, b in c for d in e}",
    "def f(): return [a := b for c in d]",
    "if (a := b): ...",
    "def f():\n global a, b\n a = 1",
    "def f():\n a = 1\n def g():\n  nonlocal a",
    "match a:\n case B(c, d=e): ...\n case {'f': g, **h}: ...\n case [i, *j]: ...",
    "match a:\n case (1 | 2) as b: ...\n case _: ...",
]

PARAMETRIZED = (("def f", "(a: T): ..."), ("class A", ": ..."), ("type A", " = T"))


def names_of_python(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        declared = symbol.is_declared_global() or symbol.is_nonlocal()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_parameter() or declared:
            yield symbol.get_name()
    for child in table.get_children():
        yield from names_of_python(child)


@pytest.mark.parametrize("source", SOURCES)
def test_all_names_that_python_finds(source: str) -> None:
    own = {".0", ".format"}  # parameters that Python makes: of a comprehension, and since 3.14 of annotations
    found = set(names_of_python(symtable.symtable(source, "p.py", "exec"))) - own
    assert set(names_bound_in(ast.parse(source))) == found


@pytest.mark.parametrize(
    "source", ["def f[T, *Ts, **P](a: T): ...", "class A[T, *Ts, **P]: ...", "type A[T, *Ts, **P] = T"]
)
def test_the_parameters_of_types(source: str) -> None:
    names = set(names_bound_in(parse(source.encode())))
    assert names == {"T", "Ts", "P", *({"f", "a"} if source.startswith("def") else {"A"})}  # PEP 695


def test_what_imports_bind_names_to() -> None:
    source = "import a.b, c.d as e\nfrom f.g import h as i, j\nfrom . import k\nfrom ..l import m\nfrom n import *"
    bound = [pair for node in ast.parse(source).body for pair in names_bound_by(node)]
    assert bound == [
        *(("a", "a"), ("e", "c.d"), ("i", "f.g.h"), ("j", "f.g.j")),
        *(("k", ".k"), ("m", "..l.m"), ("*", "n.*")),
    ]
