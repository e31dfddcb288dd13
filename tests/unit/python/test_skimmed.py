"""Modules that are not passed over, since what they use of another module loads something or raises."""

from __future__ import annotations

import pytest

from abiscan.python.importing.explore import explore_with_large_bodies
from abiscan.python.importing.runs import RunCache, Runs
from abiscan.python.interpreter.machine import Limits
from abiscan.python.language.late_bodies import has_late_parameters
from abiscan.python.package.library import LARGEST_ALWAYS_RUN, PythonCode
from abiscan.python.package.model import Answer, Raised
from abiscan.python.package.sources import PackageFiles
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


_LARGE = "# what fills the source\n" * LARGEST_ALWAYS_RUN


_FUNCTIONS = "import other\ndef refuse():\n    raise RuntimeError\ndef stop():\n    raise SystemExit(1)\n"
_REFUSES = "if other.f() != {}:\n    refuse()\n"


@pytest.mark.parametrize(
    ("source", "raised"),
    [
        ("x = {}['x']\n", None),
        ("x = lacking\n", "NameError"),
        ("x = 1\n", None),
        (_FUNCTIONS + _REFUSES, None),
        (_FUNCTIONS + _REFUSES + "stop()\n", "SystemExit"),
        (_FUNCTIONS + "".join(map(_REFUSES.format, range(5))) + "stop()\n", None),  # too much is not known
    ],
)
def test_what_a_large_body_raises(source: str, raised: str | None) -> None:
    (outcome,) = reading_of({"p/__init__.py": "from . import k\n", "p/k.py": source + _LARGE}, FakeWorld()).imports
    assert getattr(outcome.raised, "exception", None) == raised


@pytest.mark.parametrize("more", ["", _LARGE])
def test_a_function_that_is_handed_out(more: str) -> None:
    source = "import other\nfrom . import load\ndef start():\n    load()\nother.use(start)\n" + more
    files: dict[str, str | bytes] = {"p/__init__.py": _LOAD + "from . import k\n", "p/k.py": source, "p/bad.so": ""}
    (outcome, *_) = reading_of(files, FakeWorld(error=lambda _path: "no")).imports
    assert outcome.raised is Answer.UNKNOWN
    assert "whether other.use calls start" in " ".join(outcome.gaps)


def test_a_large_body_is_run_once() -> None:
    init = "import torch\nfrom . import k\nif torch.f():\n    from . import other\n"
    loop = "for number in range(5_000):\n    x = number\n" + _LARGE
    code = PythonCode(
        PackageFiles(TextSources({"p/__init__.py": init, "p/k.py": loop, "p/other.py": ""})), ("p",), (3, 11)
    )
    runs = Runs(code, FakeWorld, Limits(), RunCache())
    explored = explore_with_large_bodies(runs, "p")
    assert len(explored.runs) == 2
    assert 5_000 < runs.steps < 2 * 5_000 * 3
    assert explore_with_large_bodies(Runs(code, FakeWorld, Limits(steps=1_000), RunCache()), "p").outcome.raised is None


@pytest.mark.parametrize("classes", ["list | tuple", "(int, list | None)", "None | list"])
def test_an_instance_of_a_union(classes: str) -> None:
    source = f"assert isinstance([], {classes})\nassert not isinstance('', {classes})\n"
    exec(source, {})
    (outcome,) = reading_of({"p/__init__.py": source}, FakeWorld()).imports
    assert outcome.raised is None


@pytest.mark.parametrize(
    "source",
    [
        "__all__ = ['f']\ndef f(): pass\n",
        "__all__ = ('f', )\ndef f(): pass\n",
        "__all__ = ['g']\n__all__ += ['f']\ndef f(): pass\ng = 1\n",
        "def f(): pass\n",
    ],
)
def test_a_star_takes_the_names_of_a_large_body(source: str) -> None:
    files: dict[str, str | bytes] = {"p/__init__.py": "from .k import *\nf()\nh()\n", "p/k.py": source + _LARGE}
    (outcome,) = reading_of(files, FakeWorld()).imports
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.message == "name 'h' is not defined"


_NO_PYTHON = "def f():\n    # a body that is long enough to be parsed later than what is around it\n    x = = 1\n"


@pytest.mark.parametrize(
    ("source", "raised"),
    [
        ("import ctypes\nctypes.CDLL\n" + _NO_PYTHON, "SyntaxError"),
        ("x = {'x': 1}['x']\n" + _NO_PYTHON, "SyntaxError"),
        # Python raises a SyntaxError, too: that it does is not known here, and must not go unnoticed.
        (_LARGE + _NO_PYTHON + "import sys\nsys.exit(f())\n", None),
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


def test_annotations_that_nobody_evaluates_are_not_parsed() -> None:
    checking = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from other import Lacking\n"
    function = "def f(x: Lacking) -> Lacking:\n" + "    x = 1\n" * 20
    for future, late in (("from __future__ import annotations\n", True), ("", False)):
        files = {"p/__init__.py": "from .k import f\nf.__name__\n", "p/k.py": f"{future}{checking}{function}{_LARGE}"}
        code = PythonCode(PackageFiles(TextSources(files)), ("p",), (3, 11))
        outcome = explore_with_large_bodies(Runs(code, FakeWorld, Limits(), RunCache()), "p").outcome
        # As Python does before 3.14: the name is not defined where annotations are evaluated.
        assert getattr(outcome.raised, "exception", None) == (None if late else "NameError")
        tree = code.tree("p/k.py")
        assert tree is not None
        assert has_late_parameters(tree.body[-1]) is late


def test_what_large_bodies_do_late() -> None:
    """An import that lacks it is run with all of them, however long that takes."""
    known = "class Known:\n    def __init__(self): self.names = {}\n    def __getattr__(self, name):\n"
    known += "        if name not in self.names: raise AttributeError(name)\n        return self.names[name]\n"
    known += "    def register(self, cls): self.names[cls.__name__] = cls\nS = Known()\n"
    long = "n = [m for k in range(2_000) for m in range(200)]\n"
    files = {
        "p/__init__.py": "from . import large\nfrom .kinds import S\nS.A\n",
        "p/kinds.py": f"{known}class Kind(type):\n    def __init__(cls, *rest): S.register(cls)\n",
        "p/large.py": f"from .kinds import Kind\n{long}class A(metaclass=Kind): pass\n{_LARGE}",
    }
    assert reading_of(files).imports[0].raised is None
