"""A look at a source: what is found where, from its first line to its last."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abiscan.python.language import scan
from abiscan.python.language.scan import LOADING, REGISTERING, Outline
from abiscan.python.language.tokens import lone_texts
from abiscan.python.package.library import PythonCode
from abiscan.python.package.sources import PackageFiles
from tests.unit.python.packages import TextSources


def test_imports_have_their_lines_from_the_first_one_on() -> None:
    source = (
        b"import os, sys\nfrom a import (b,  # note\n    c)\n\n\nif x:\n    from .d import e \\\n        , f\nimport g"
    )
    found = [(one.line, one.module, one.names, one.nested) for one in Outline(source).imports]
    assert found == [
        (1, "os", (), False),
        (1, "sys", (), False),
        (2, "a", ("b", "c"), False),
        (6 + 1, ".d", ("e", "f"), True),
        (9, "g", (), False),
    ]


@given(
    st.lists(st.sampled_from(["\n", " ", "import", "import ", "from ", "a.b", "(", ")", ";", "\\\n", "#", ",", "x"]))
)
def test_imports_are_where_the_pattern_finds_them(parts: list[str]) -> None:
    data = b"\n" + "".join(parts).encode()
    found = [match.span() for match in scan._lines_of_imports(data)]
    assert found == [match.span() for match in scan._IMPORT.finditer(data)]


@pytest.mark.parametrize(
    "source",
    [
        "from a.b \\\n    import c",
        "if x:\n    from a \\\n        import \\\n        b, c",
        "from \\\r\n a \\\r\n import (b,\r\n c)\r\nimport d",
        "import \\\n  a, b.c \\\n  as d",
        "import a; x = 1 \\\n  + 2\nimport b",
        "# a note \\\nimport a",
        'x = """\nimport (no) name\n"""',
    ],
)
def test_imports_go_on_behind_a_backslash_as_in_python(source: str) -> None:
    real: list[tuple[int, str | None, tuple[str, ...]]] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            real.append((node.lineno, node.module, tuple(alias.name for alias in node.names)))
        elif isinstance(node, ast.Import):
            real += [(node.lineno, alias.name, ()) for alias in node.names]
    assert [(one.line, one.module, one.names) for one in Outline(source.encode()).imports] == real


def test_imports_in_functions_are_none_of_the_module() -> None:
    assert Outline(b"def f():\n    import a\n\nclass C:\n    def g(self):\n        import b\n").imports == ()


@pytest.mark.parametrize("word", [*LOADING, *REGISTERING])
def test_each_word_is_found_wherever_it_is(word: bytes) -> None:
    assert Outline(b"x = y" + word + b"z\n").eager
    inside = Outline(b"class A: pass\n\ndef f():\n    try:\n        x" + word + b"\n    except E: pass\n")
    assert not inside.eager
    assert inside.risky == {b"f"}
    assert inside.loads is (word in LOADING)


@pytest.mark.parametrize(
    ("source", "eager"),
    [
        (b"raise E", True),
        (b"if x: raise E\n", True),
        (b"if x:\n\traise\n", True),
        (b"x = 1;raise E\n", True),
        (b"raises = 1\n", False),
        (b"x.raise_ = 1\n", False),
        (b"# if x: raise E\n", False),
        (b"    # torch.ops.a.b\nx = 1\n", False),
        (b"x = torch.ops.a.b\n", True),
        (b"def f():\n    raise E\n", False),
        (b"class C:\n    def f(self):\n        raise E\n    raise E\n", True),
        (b"class C:\n    def f(self):\n        raise E\n", False),
    ],
)
def test_what_may_end_a_module_counts_outside_of_functions_and_comments(source: bytes, eager: bool) -> None:
    assert Outline(source).eager is eager


def test_calls_and_decorators() -> None:
    source = Outline(b"@register\ndef f():\n    helper()\n\ndef g(): return helper()\nmail = 'me@other'\n")
    assert source.calls(frozenset({b"register"}))
    assert not source.calls(frozenset({b"helper"}))
    assert not source.calls(frozenset({b"other"}))
    assert source.callers(frozenset({b"helper"})) == {b"f", b"g"}


def test_a_name_in_a_comment_is_not_used() -> None:
    outline = Outline(b"def f():\n    # as nn.Nope does\n    return 1  # Nope\ndef g(x='#'): return nn.Nope\n")
    assert outline.users(b"Nope") == {b"g"}
    assert not Outline(b"x = 1  # nn.Nope\n").mentions([b"Nope"])
    assert Outline(b"x = '#' + nn.Nope\n").mentions([b"Nope"])


def test_a_function_acts_by_what_stands_in_the_sources_that_define_it(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "p/__init__.py": "import torch\ndef load(path):\n    torch.ops.load_library(path)\n",
        "p/user.py": "from p import load\nclass User:\n    def start(self): load('a')\n    def stop(self): pass\n",
        "p/other.py": "from p import load\ndef unasked():\n    load('b')\n",
    }
    looked_at: list[int] = []
    acting = Outline.acting

    def look(outline: Outline, names: frozenset[bytes]) -> frozenset[bytes]:
        looked_at.append(id(outline))
        return acting(outline, names)

    monkeypatch.setattr(Outline, "acting", look)
    code = PythonCode(PackageFiles(TextSources(files)), ["p"], (3, 11))
    assert [name for name in (b"load", b"start", b"stop", b"absent") if code.is_acting(name)] == [b"load", b"start"]
    assert looked_at == [id(code.outline("p/user.py"))]


@pytest.mark.parametrize(
    ("line", "acts"),
    [
        *(("from . import other", True), ("from .other import name", True), ("from p import other", True)),
        *(("import p.other", True), ("from os import sep", False), ("import os, sys", False)),
    ],
)
def test_an_import_acts_if_it_is_one_of_the_package(line: str, acts: bool) -> None:
    code = PythonCode(PackageFiles(TextSources({"p/__init__.py": "", "p/other.py": ""})), ["p"], (3, 11))
    assert code.acts(ast.parse(line)) is acts


def test_what_a_docstring_mentions_is_not_used() -> None:
    source = (
        b'#!/bin/sh\n# note\n"""Text aa.b1"""\nimport aa\n'
        b'def f(\n    x: aa.b2,\n) -> int:\n\n    r"""Text aa.b3\n\n    :"""\n'
        b"class A(aa.b4):\n    '''Text\n    aa.b5'''\n    y = aa.b6\n"
        b'    async def g(self):\n        """aa.b7"""\n'
        b'CODE = """\naa.b8"""\nz = aa.b9\n'
    )
    outline = Outline(source)
    used = [number for number in range(1, 10) if outline.mentions([b"b%d" % number])]
    assert used == [2, 4, 6, 8, 9]


LIKE_DOCSTRINGS = {
    "a template": "TEMPLATE = '''\nclass {name}(Base):\n''' + aa.nope + '''\n    pass\n'''\n",
    "two texts": 'HEAD = """\nclass Model:\n"""\nX = aa.nope\nTAIL = """\n"""\n',
    "a docstring after it": 'HEAD = """\nclass Model(Base):\n"""\n\nclass A(aa.nope):\n    """Text."""\n',
    "a parenthesis": "HEAD = '''\nmodule(\n):\n'''\nX = aa.nope\nTAIL = '''\n'''\n",
    "quotes in a comment": '# """\nHEAD = """\nclass Model:\n"""\nX = aa.nope\nTAIL = """\n"""\n',
    "a text in quotes of one kind": 'HEAD = \'"""\\\nclass A:\\\n\'"""\n"""\nX = aa.nope\nTAIL = """\n"""\n',
    "a text that is run": 'exec({(\n):\n"""aa.nope"""}[()])\n',
    "the line breaks of old systems": '# a\rHEAD = """\nclass A:\n"""\nX = aa.nope\nTAIL = """\n"""\n',
    "a backslash in a character": '# coding: shift_jis\nHEAD = """\nclass A:\n\u8868"""\nX = aa.nope\nTAIL = """x"""\n',
}


@pytest.mark.parametrize("form", LIKE_DOCSTRINGS)
def test_code_that_stands_as_a_docstring_does_is_used(form: str) -> None:
    source = LIKE_DOCSTRINGS[form].encode("shift_jis")
    with pytest.raises(AttributeError, match="nope"):
        exec(compile(source, "m.py", "exec"), {"aa": object()})
    assert Outline(source).mentions([b"nope"])


def test_lone_texts_are_statements() -> None:
    source = (
        "x = 1\n'''a'''  # comment\nr\"b\"\nx = '''c\n'''\n(x,\n'''d''')\nf'''e {x} \"\"\" '''\n'''f''' + 'g'\n"
        "def h(a={'''\n    i'''}):\n    'j'\nclass K:\n\n    # '''\n    u\"k\\\\\\\"\\\n    l\"\n    '''m''' '''n'''\n"
        "y = '''\nclass L:\n'''\nz = 1\n'''o\n'''\n"
    )
    lone = {source[start:end] for start, end in lone_texts(source.encode())}
    statements = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr)]
    texts = {ast.get_source_segment(source, node) for node in statements if isinstance(node, ast.Constant)}
    assert lone == texts - {"'''m''' '''n'''"}
    assert len(lone) == 5


def test_callers_are_looked_for_where_something_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_through: list[bytes] = []
    callers = Outline.callers

    def noting(self: Outline, names: frozenset[bytes]) -> set[bytes]:
        looked_through.append(self.data)
        return callers(self, names)

    monkeypatch.setattr(Outline, "callers", noting)
    files = {"pkg/__init__.py": "def load():\n    torch.ops.load_library(x)\n"}
    files |= {f"pkg/m{number}.py": "def other():\n    pass\n" for number in range(9)}
    files["pkg/user.py"] = "def use():\n    load()\n"
    code = PythonCode(PackageFiles(TextSources(files)), ["pkg"], (3, 11))
    assert code.risky == {b"load", b"use"}
    assert looked_through
    assert not any(b"other" in source for source in looked_through)


def test_modules_that_import_all_of_each_other() -> None:
    """``from .f import f`` alone makes the function a name of the package; a circle of ``import *`` binds nothing."""
    circle = {"p/__init__.py": "from .a import *\n", "p/a.py": "from .b import *\n", "p/b.py": "from .a import *\n"}
    bound = {"p/__init__.py": "from .a import *\n", "p/a.py": "from .f import f\n", "p/f.py": "def f(): ...\n"}
    for files, may in ((circle, False), (bound, True)):
        code = PythonCode(PackageFiles(TextSources(files)), ["p"], (3, 11))
        assert code.may_rebind("p/__init__.py", "p", "f") is may


def test_an_extension_module_that_names_no_module_is_read_once() -> None:
    read = list[str]()

    class Counted(TextSources):
        def read(self, path: str) -> bytes:
            read.append(path)
            return super().read(path)

    code = PythonCode(PackageFiles(Counted({"p/__init__.py": "", "p/_C.so": "\0p.other\0Name\0"})), ["p"], (3, 11))
    assert not any(code.may_be_filled("p.part", name, ["p/_C.so"]) for name in ("Name", "First", "Second"))
    assert read.count("p/_C.so") == 1
    assert code.may_be_filled("p.other", "Name", ["p/_C.so"])
