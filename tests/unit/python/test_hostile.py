"""Sources that mean no good, or are no Python: the reading ends in time, with a gap, and never with a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from abiscan.python.model import Answer, Raised
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
    if not real.startswith("SyntaxError"):  # null bytes, before 3.11.4
        assert outcome.raised is Answer.UNKNOWN
        return
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
