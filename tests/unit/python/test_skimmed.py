"""Modules that are not passed over, since what they use of another module loads something or raises."""

from __future__ import annotations

import pytest

from abiscan.python.harmless import LARGEST_DOUBTFUL
from abiscan.python.library import PythonCode
from abiscan.python.model import Answer, Raised
from abiscan.python.sources import PackageFiles
from tests.unit.python.packages import FakeWorld, TextSources, reading_of

_LOAD = "import os, torch\ndef load():\n    torch.ops.load_library(os.path.join(os.path.dirname(__file__), 'bad.so'))\n"
_CLASS = "from . import load\nclass K:\n    @classmethod\n    def go(cls):\n        load()\n        return cls\n"
_REGISTERED = "from . import load\nclass Base:\n    def __init_subclass__(cls):\n        cls.note()\n"
_NOTE = "    @classmethod\n    def note(cls):\n        "


@pytest.mark.parametrize(
    ("defining", "using"),
    [
        (_CLASS, "from .k import K\nK.go()\n"),
        (_CLASS, "from .k import K\nclass Mine(K):\n    pass\nMine.go()\n"),
        (_CLASS, "from .k import K as Other\nvalue = Other.go()\n"),
        ("from . import load\nTABLE = {'a': load}\n", "from .k import TABLE\nTABLE['a']()\n"),
        ("from . import load\nstart = lambda: load()\n", "from .k import start\nstart()\n"),
        ("from . import load\ndef go(x): load()\n", "from .k import go\nlist(map(go, [1]))\n"),
        (_REGISTERED + _NOTE + "load()\n", "from .k import Base\nclass C(Base):\n    pass\n"),
        ("def require(v):\n    raise OSError\n", "from .k import require\nrequire(1)\n"),
        ("", "def check():\n    raise OSError\nx = check()\n"),
    ],
)
def test_a_module_that_uses_what_acts_is_run(defining: str, using: str) -> None:
    files: dict[str, str | bytes] = {"p/__init__.py": _LOAD + "from . import user\n", "p/bad.so": ""}
    files |= {"p/k.py": defining, "p/user.py": using}
    (outcome,) = (one for one in reading_of(files, FakeWorld(error=lambda _path: "no")).imports if one.module == "p")
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.exception == "OSError"


def _is_run(defining: str, using: str) -> bool:
    files: dict[str, str | bytes] = {"p/__init__.py": _LOAD + "from . import user\n", "p/bad.so": ""}
    files |= {"p/k.py": defining, "p/user.py": using}
    return PythonCode(PackageFiles(TextSources(files)), ("p",), (3, 11)).eager("p/user.py")


def test_a_hook_that_gets_to_no_load_runs_no_module() -> None:
    hook = _REGISTERED + _NOTE + "cls.x = 1\n    def other(self):\n        load()\n"
    assert not _is_run(hook, "from .k import Base\nclass C(Base):\n    pass\n")


def test_a_large_module_is_run_only_for_what_is_certain() -> None:
    doubtful, large = "x = {}['x']\n", "# what fills the source\n" * LARGEST_DOUBTFUL
    assert _is_run("", doubtful)
    assert not _is_run("", doubtful + large)
    assert _is_run("", "x = lacking\n" + large)


_NO_PYTHON = "def f():\n    # a body that is long enough to be parsed later than what is around it\n    x = = 1\n"


@pytest.mark.parametrize(
    ("source", "raised"),
    [
        ("import ctypes\nctypes.CDLL\n" + _NO_PYTHON, "SyntaxError"),
        ("x = {'x': 1}['x']\n" + _NO_PYTHON, "SyntaxError"),
        # Python raises a SyntaxError, too: that it does is not known here, and must not go unnoticed.
        ("# what fills the source\n" * LARGEST_DOUBTFUL + _NO_PYTHON + "import sys\nsys.exit(f())\n", None),
    ],
)
def test_a_function_that_is_no_python(source: str, raised: str | None) -> None:
    files: dict[str, str | bytes] = {"p/__init__.py": "from . import k\n", "p/k.py": source}
    (outcome,) = reading_of(files, FakeWorld()).imports
    if raised is None:
        assert outcome.raised is Answer.UNKNOWN
        assert outcome.gaps
    else:
        assert isinstance(outcome.raised, Raised)
        assert outcome.raised.exception == raised
