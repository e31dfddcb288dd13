"""Sources that mean no good, or are no Python: the reading ends in time, with a gap, and never with a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from abiscan.python.interpreter import builtin_methods
from abiscan.python.interpreter.machine import Limits
from abiscan.python.package.model import Answer, Raised
from tests.unit.python.packages import FakeWorld, reading_of

START = "import torch\n"
CASES: dict[str, str | bytes] = {
    "syntax error": "import torch\ndef (:\n",
    "null bytes": b"import torch\x00\n",
    "return outside of a function": START + "return 3\n",
    "unknown encoding": b"# -*- coding: no-such-encoding -*-\nimport torch\n",
    "not utf-8": b"import torch\nname = '\xff\xfe'\n",
    "deep parentheses": START + "x = " + "(" * 5000 + ")" * 5000,
    "deep unary": START + "x = " + "not " * 20000 + "1",
    "long sum": START + "x = " + "1+" * 200_000 + "1",
    "long chain": START + "x = torch" + ".a" * 20_000,
    "deep blocks": START + "".join(" " * n + "if x:\n" for n in range(90)) + " " * 90 + "pass\n",
    "too large": START + "x = 1\n" * 400_000,
    "endless loop": START + "while True:\n    pass\n",
    "endless recursion": START + "def f(n):\n    return f(n + 1)\nf(0)\n",
    "mutual recursion": START + "def f(*a):\n    return g(*a, 1)\ndef g(*a):\n    return f(*a, *a)\nf(1)\n",
    "doubling text": START + "s = 'x'\nfor i in range(100):\n    s = s + s\n",
    "doubling list": START + "s = [1]\nfor i in range(100):\n    s = s + s\n    s.extend(s)\n",
    "doubling question": START + "x = torch.f()\nfor i in range(60):\n    x = x + x\nif x:\n    import y\n",
    "growing number": START + "n = 2\nfor i in range(100):\n    n = n * n\n",
    "power": START + "n = 10 ** 10 ** 10\n",
    "shift": START + "n = 1 << 10 ** 12\n",
    "wide text": START + "s = 'x' * 10 ** 12\nt = f'{1:999999999}'\nu = '%999999999d' % 1\nv = 'x'.ljust(10 ** 12)\n",
    "wide format": START + "s = '{:>999999999}'.format(1)\nt = format(1, '999999999')\n",
    "large range": START + "for i in range(10 ** 12):\n    pass\nx = list(range(10 ** 12))\n",
    "members of a large range": START
    + "r = range(10 ** 12)\n2.5 in r\n'x' in r\nr.count(2.5)\nmatch r:\n    case [a, *b]: pass\nr.index(2.5)\n",
    "range without a length": START + "r = range(10 ** 30)\nmatch r:\n    case [a]: pass\na, b = r\nlen(r)\n",
    "nested ranges": START + "x = [1 for a in range(9999) for b in range(9999) for c in range(9999)]\n",
    "slow pattern": START + "import re\nre.match('(a+)+$', 'a' * 60 + 'b')\nre.match('(a|a)*$', 'a' * 60 + 'b')\n",
    "itself in a list": START + "x = []\nx.append(x)\nstr(x)\nx == x\ny = {}\ny['y'] = y\nrepr(y)\nsorted([x, y])\n",
    "classes in a circle": START + "class A: pass\nA.__bases__ = (A,)\nA.x = A\nclass B(A, B): pass\nA().q\n",
    "a chain of classes": START + "A = object\nfor n in range(10 ** 6):\n    A = type('A', (A,), {})\nA().a\n",
    "getattr for ever": START
    + "class A:\n    def __getattr__(self, n):\n        return getattr(self, n + 'x')\nA().a\n",
    "raise for ever": START
    + "def f():\n    try:\n        raise ValueError\n    except ValueError as e:\n        raise e from e\nf()\n",
    "many decisions": START + "".join(f"if torch.f{n}():\n    import a{n}\n    raise X\n" for n in range(300)),
    "imports itself": "from . import p\nfrom .p import p as q\nimport p.p.p\n",
    "generator without end": START + "def g():\n    while True:\n        yield 1\nx = next(g())\n",
    "wrong types": START
    + "x = 1 + 'a'\ny = [][0:'a']\nz = {}[[]]\nw = -'a'\nv = (1)(2)\nu = 'a'.join(1)\nlen()\ngetattr()\n",
    "star of nothing": START + "print(*1, **2)\na, *b = 1\n[*x] = y = 3\nfor *a, b in 5: pass\n",
    "globals": START + "globals()['x'] = 1\nexec('y = 2')\nx + y\ndel x\ndel q\n",
    "odd paths": START
    + "import os\nos.listdir('\\0')\nos.path.join('a', '\\0')\ntorch.ops.load_library('\\0')\nopen(3)\n",
    "version": START + "from packaging.version import parse\nparse('1' * 100000)\nparse('x')\n",
}


@pytest.mark.parametrize("name", CASES)
def test_ends_quietly(name: str) -> None:
    reading = reading_of({"p/__init__.py": CASES[name], "p/lib.so": ""})
    (outcome,) = reading.imports
    assert outcome.raised is None or isinstance(outcome.raised, (Answer, Raised))
    assert set(reading.uses) == {"p/lib.so"}


@pytest.mark.parametrize("name", ["syntax error", "null bytes"])
def test_what_python_cannot_parse_raises_what_python_raises(name: str, tmp_path: Path) -> None:
    package = tmp_path / "p"
    package.mkdir()
    source = CASES[name]
    (package / "__init__.py").write_bytes(source if isinstance(source, bytes) else source.encode())
    program = "try:\n    import p\nexcept Exception as error:\n    print(type(error).__name__, error, sep=': ', end='')"
    command = [sys.executable, "-c", program]
    real = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    world = FakeWorld(python=sys.version_info[:2])
    (outcome,) = reading_of({"p/__init__.py": CASES[name], "p/lib.so": ""}, world).imports
    assert isinstance(outcome.raised, Raised)
    assert f"{outcome.raised.exception}: {outcome.raised.message}" == real


@pytest.mark.parametrize("name", ["syntax error", "null bytes", "return outside of a function"])
def test_what_another_python_may_be_able_to_parse_is_unknown(name: str) -> None:
    world = FakeWorld(python=(3, 99))
    (outcome,) = reading_of({"p/__init__.py": CASES[name], "p/lib.so": ""}, world).imports
    assert outcome.raised is Answer.UNKNOWN
    assert "p/__init__.py" in outcome.gaps[0]


@pytest.mark.parametrize("name", ["too large", "endless loop"])
def test_says_what_was_not_followed(name: str) -> None:
    (outcome,) = reading_of({"p/__init__.py": CASES[name], "p/lib.so": ""}).imports
    assert outcome.raised is Answer.UNKNOWN
    assert outcome.gaps
    assert "p/__init__.py" in outcome.gaps[0] or "followed" in outcome.gaps[0]


def test_paths_of_members_that_leave_the_package() -> None:
    reading = reading_of(
        {"../../etc/passwd": "", "/p/__init__.py": "", "p//x.so": "", "p/__init__.py": "import torch\n"}
    )
    assert [outcome.module for outcome in reading.imports] == ["p"]


_SHARED = START + "x, y = (1, 2), (1, 2)\nfor i in range(40):\n    x, y = (x, x), (y, y)\n"
_LARGE = START + "t = 'a' * 1000000\n"
OUT_OF_ALL_BOUNDS = {
    "tuple as a key": _SHARED + "{x: 1}\n{x}\nset([x])\n{}.get(x)\nx in {1: 2}\n{}.setdefault(x)\n",
    "tuple in a container": _SHARED + "hash(x)\nsorted([x, y])\nmax([x], default=1)\ntorch.f(x)\ntorch.f[x]\n",
    "tuple of classes": START + "x = (int, str)\nfor i in range(40):\n    x = (x, x)\nisinstance([], x)\n"
    "issubclass(list, x)\n",
    "text of a tuple": _SHARED + "repr(x)\nstr([x])\nf'{x}'\n'%s' % (x,)\n'{}'.format(x)\nprint(x)\n",
    "argument that is kept": _SHARED + "import functools\nfunctools.lru_cache(len)(x)\n",
    "deep tuple": START + "x = ()\nn = 0\nwhile n < 30000:\n    x = (x,)\n    n += 1\n{x: 1}\nx == x\nstr(x)\n"
    "torch.f(x)\n",
    "joined": _LARGE + "''.join([t] * 10000)\nt.join(['a'] * 10000)\nb''.join([b'a' * 1000000] * 10000)\n",
    "replaced": _LARGE + "t.replace('a', t)\nt.replace('', t)\nt.translate({97: t})\n",
    "filled in": _LARGE + "('{0}' * 300000).format(t)\n('{a}' * 300000).format_map({'a': t})\n"
    "('%(a)s' * 200000) % {'a': t}\n",
    "filled in with what is not known": _LARGE
    + "u = torch.f()\n('{0}{1}' * 300000).format(t, u)\n('%(a)s%(b)s' * 99999) % {'a': t, 'b': u}\n"
    + "t.join([u] * 9999)\n''.join([t, u] * 999)\n",
    "width among the values": START
    + "w = 10 ** 9\n'%*d' % (w, 1)\n'%.*f' % (w, 1.5)\n'{:{}}'.format(1, w)\n'{:.{w}f}'.format(1.5, w=w)\n"
    "f'{1:{w}}'\n",
    "method of a type": START
    + "list.__mul__([0], 10 ** 9)\nstr.ljust('a', 10 ** 10)\nint.__pow__(10, 10 ** 8)\n"
    "int.to_bytes(1, 10 ** 10, 'big')\n",
    "range in a container": START
    + "r = range(10 ** 12)\nset().update(r)\n{1.5}.isdisjoint(r)\nrange.count(r, 2.5)\nrange.__contains__(r, 2.5)\n",
    "numbers": START + "round(5, -10 ** 9)\npow(3 ** 2000, 3 ** 2000, 3 ** 2000 + 1)\nbytes(10 ** 10)\n",
    "tabs and codecs": START
    + "('\\t' * 1000000).expandtabs(1000)\n('\\u1234' * 100000).encode('punycode')\n"
    "('a' * 999999).rfind('b' + 'a' * 500000)\n",
    "pattern": START + "import re\nre.sub('', 'b' * 1000000, 'a' * 2000)\nre.match('(?:a?){30}a{30}', 'a' * 30)\n",
    "version that doubles": START
    + "v = w = torch.__version__\nfor i in range(60):\n    v = f'{v}{v}'\n"
    "    w = w.replace('.', '....................')\nprint(v, w)\n",
    "question": START + "x = torch.f()\nn = 0\nwhile n < 30000:\n    x = not x\n    n += 1\nif x: pass\n",
    "unpacked": START + "import struct\nstruct.unpack('1000000000x', b'')\n",
}  # fmt: skip
"""What Python itself would not come to the end of, or has no memory for."""
_LOAD = "import os\ntorch.ops.load_library(os.path.join(os.path.dirname(__file__), 'lib.so'))\n"


@pytest.mark.parametrize("name", OUT_OF_ALL_BOUNDS)
def test_what_takes_python_too_long_is_not_known(name: str) -> None:
    code = OUT_OF_ALL_BOUNDS[name].replace(START, START + _LOAD)
    (outcome,) = reading_of({"p/__init__.py": code, "p/lib.so": ""}).imports
    assert len(outcome.loads) == 1
    # ``struct.error`` is what Python raises there.
    assert outcome.raised is None or isinstance(outcome.raised, Answer) or name == "unpacked"


@pytest.mark.parametrize("text", ["t.join([u] * 9999)", "''.join([f'{t[:600000]}{u}'] * 9)", "t.join([f'{u}'] * 9999)"])
def test_what_is_around_unknown_parts_of_a_text_counts(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A text of gigabytes would be made, and thrown away.
    monkeypatch.setattr(builtin_methods, "_join_texts", lambda *_args: pytest.fail("is made"))
    (outcome,) = reading_of({"p/__init__.py": f"{_LARGE}u = torch.f()\n{text}\n", "p/lib.so": ""}).imports
    assert outcome.raised is None


SLOW = {"source", "copy of a list", "comparison of tuples", "item of a list"}
ENDLESS = {
    "comparison of tuples": "x == y\n",
    "order of tuples": "x < y\n(x, 1) <= (y, 1)\n",
    "item of a list": "[x].index(y)\n",
    "copy of a list": "import copy\ncopy.deepcopy([x])\n",
    "sum of lists": "while True:\n    sum([[0] * 1000] * 90, [])\n",
    "comparison of large lists": "z = [[1] * 900 for i in range(900)]\nwhile True:\n"
    "    z == [[1] * 900 for i in range(9)]\n",
    "large text": "t = 'a' * 999999\nwhile True:\n    t.count('a' * 1000 + 'b')\n",
    "source": "while True:\n    exec('x = 1\\n' * 9000)\n",
    "objects": "class A: pass\nz = [A()] * 9000\nfor i in range(7):\n    z = [z] * 9000\nrepr(z)\n",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in SLOW else name for name in ENDLESS]
)
def test_what_python_does_with_large_values_counts(name: str) -> None:
    code = _SHARED.replace(START, START + _LOAD) + ENDLESS[name]
    limits = Limits(steps=400_000)  # of which the values take all but a few
    (outcome,) = reading_of({"p/__init__.py": code, "p/lib.so": ""}, limits=limits).imports
    assert outcome.raised is Answer.UNKNOWN
    assert any(f"{limits.steps:,} steps" in gap for gap in outcome.gaps)


def test_an_error_at_the_end_of_a_large_submodule_does_not_go_unseen() -> None:
    files = {"p/__init__.py": "from . import large\n", "p/large.py": "x = 1\n" * 400_000, "p/lib.so": ""}
    (outcome,) = reading_of(files).imports
    assert (outcome.raised, outcome.gaps) == (None, ())
    (outcome,) = reading_of({**files, "p/large.py": files["p/large.py"] + "raise ValueError\n"}).imports
    assert outcome.raised is Answer.UNKNOWN
    assert outcome.gaps == ("p/large.py:1: has more than 2,000,000 bytes, too many to parse",)
