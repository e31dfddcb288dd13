"""Every form of Python is followed, or is a gap; and what code that is not read may do is never forgotten."""

from __future__ import annotations

import ast
import importlib
import sys
from importlib import resources
from pathlib import Path

import pytest

from abiscan.python.interpreter import patterns
from abiscan.python.interpreter.compiling import QUESTIONS, STATEMENTS, VALUES
from abiscan.python.interpreter.models import MODELS
from abiscan.python.interpreter.models.recipes import NAMES, SINCE, followed_names
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.model import Answer, Raised
from tests.unit.python.packages import FakeWorld, reading_of

LOAD = "import torch\ndef load():\n    torch.ops.load_library(__file__.replace('__init__.py', 'bad.so'))\n"
BROKEN = FakeWorld(error=lambda path: "broken" if path.endswith("/bad.so") else None)
PARTS = {"Starred", "MatchStar", "Interpolation"}
"""Expressions and patterns that stand only inside others, which take them apart."""
OLD = {"Num", "Str", "Bytes", "NameConstant", "Ellipsis"}
"""Forms of ``Constant`` in the ``ast`` of Python 3.7 that later ones still name."""
LATER = {"TryStar", "TypeAlias", "TemplateStr"}
"""The statements and expressions that came after Python 3.10, up to 3.14: "What's New in Python 3.X"."""


def _kinds(base: type[ast.AST]) -> set[str]:
    """The kinds of a node that code may have."""
    return {cls.__name__ for cls in base.__subclasses__() if not cls.__name__.startswith("_")} - PARTS - OLD


@pytest.mark.parametrize(
    ("base", "tables"),
    [
        (ast.stmt, (STATEMENTS,)),
        (ast.expr, (VALUES, QUESTIONS)),
        (ast.pattern, (patterns.PATTERNS,)),
    ],
)
def test_each_kind_of_node_has_a_method(base: type[ast.AST], tables: tuple[dict[type[ast.AST], object], ...]) -> None:
    assert _kinds(base) == {cls.__name__ for table in tables for cls in table if base in cls.__bases__}


def test_the_nodes_of_later_pythons_have_one_on_each() -> None:
    tables = (*STATEMENTS, *VALUES)
    assert {cls.__name__ for cls in tables} >= LATER


@pytest.mark.parametrize(
    ("code", "gap"),
    [
        ("for load in []:\n    load()\n", True),
        ("for x in load():\n    pass\n", True),
        ("for x in []:\n    pass\n", False),
    ],
)
def test_an_unknown_kind_of_statement_is_a_gap_where_it_may_load(
    code: str,
    gap: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(STATEMENTS, ast.For)
    (outcome,) = reading_of({"p/__init__.py": LOAD + code, "p/bad.so": ""}, BROKEN).imports
    assert (outcome.raised is Answer.UNKNOWN) is gap
    assert outcome.gaps == (("p/__init__.py:4: For is not followed",) if gap else ())


def test_an_unknown_kind_of_expression_is_a_gap_where_it_may_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(VALUES, ast.List)
    (outcome,) = reading_of({"p/__init__.py": LOAD + "x = [load()]\ny = [1]\n", "p/bad.so": ""}, BROKEN).imports
    assert outcome.raised is Answer.UNKNOWN
    assert outcome.gaps == ("p/__init__.py:4: List is not followed",)


@pytest.mark.parametrize(
    "code",
    [
        "import foreign\nforeign.run(load)\n",
        "import foreign\nforeign.run(functions=[load])\n",
        "import foreign\nforeign.run(lambda: load())\n",
        "import foreign\nclass C:\n    def go(self):\n        load()\nforeign.run(C().go)\n",
        "import foreign\nclass C:\n    def __call__(self):\n        load()\nforeign.run(C())\n",
        "import foreign\nforeign.run(load() for _ in [1])\n",
        "import foreign\nclass C:\n    def __radd__(self, other):\n        load()\nforeign.x + C()\n",
        "import sys\nclass Finder:\n    def find_spec(self, *args):\n        load()\nsys.meta_path.append(Finder())\n",
        "import sched\nsched.scheduler().enter(0, 1, load)\n",
    ],
)
def test_a_function_handed_to_code_that_is_not_read_may_be_called(code: str) -> None:
    (outcome,) = reading_of({"p/__init__.py": LOAD + code, "p/bad.so": ""}, BROKEN).imports
    assert outcome.raised is Answer.UNKNOWN
    (gap,) = outcome.gaps
    assert gap.startswith(f"p/__init__.py:{len((LOAD + code).splitlines())}: whether ")
    assert "is not known" in gap


@pytest.mark.parametrize(
    "code",
    [
        "import foreign\nforeign.run(len)\nforeign.run(lambda: 1)\n",  # nothing that matters
        "import foreign\n@foreign.register\ndef f():\n    load()\n",  # decorators keep what they get
        "torch.jit.script(load)\n",
        "import atexit\natexit.register(load)\n",
        "import copyreg\nclass Own: pass\ncopyreg.pickle(Own, load)\n",
        "import foreign\nforeign.found.append(load)\n",
    ],
)
def test_what_is_known_not_to_be_called_is_silent(code: str) -> None:
    (outcome,) = reading_of({"p/__init__.py": LOAD + code, "p/bad.so": ""}, BROKEN).imports
    assert (outcome.raised, outcome.gaps) == (None, ())


def test_conditions_on_the_same_unknown_go_the_same_way() -> None:
    code = (
        "import foreign\nready = True\n"
        "if foreign.flag:\n    load()\n    ready = False\n"
        "if not foreign.flag:\n    if not ready:\n        raise ValueError\n"
        "if foreign.flag and ready:\n    raise ValueError\n"
        "x = 1 if foreign.flag else load()\n"
    )
    (outcome,) = reading_of({"p/__init__.py": LOAD + code, "p/bad.so": ""}, FakeWorld()).imports
    assert (outcome.raised, outcome.gaps) == (None, ())


def test_what_an_undecided_part_of_a_condition_guards_is_undecided() -> None:
    code = "import foreign\nforeign.flag and load()\n"
    (outcome,) = reading_of({"p/__init__.py": LOAD + code, "p/bad.so": ""}, BROKEN).imports
    assert outcome.raised is Answer.UNKNOWN
    assert [one.text for one in outcome.conditions] == ["foreign.flag is true"]


@pytest.mark.parametrize(
    ("code", "gap"),
    [
        ("def f(n):\n    f(n + 1)\nf(0)\n", "f is called too deeply to be followed"),
        (
            "class C:\n    def __getattr__(self, n):\n        return getattr(self, n)\nC().x\n",
            "__getattr__ is called too deep",
        ),
        ("def g():\n    while True:\n        yield 1\nlist(g())\n", "gives more than 10000 items"),
        ("def g():\n    yield from g()\nlist(g())\n", "g() is called too deeply to be followed"),
        ("import itertools\nlist(itertools.count())\n", "gives more than 10000 items"),
        ("for n in range(3):\n    while True:\n        pass\n", "after 4,000,000 steps, the limit of an import"),
        (f"x = '{'x' * 10_000_000}'\n", "bytes, too many to parse"),
    ],
)
def test_a_limit_that_is_reached_is_named(code: str, gap: str) -> None:
    (outcome,) = reading_of({"p/__init__.py": code, "p/bad.so": ""}, BROKEN).imports
    assert any(gap in one for one in outcome.gaps), outcome.gaps


@pytest.mark.parametrize(("requires", "raised"), [("", None), ("Requires-Dist: other-thing\n", "ImportError")])
def test_a_distribution_that_is_not_required_is_not_there(requires: str, raised: str | None) -> None:
    code = (
        "import importlib.metadata as metadata\nfound = []\nfor name in ('p', 'other-thing'):\n    try:\n"
        "        metadata.version(name)\n        found.append(name)\n"
        "    except metadata.PackageNotFoundError:\n        pass\n"
        "if len(found) > 1:\n    raise ImportError('both are installed')\n"
    )
    metadata = f"Name: p\nVersion: 1.0\n{requires}\n"
    files = {"p/__init__.py": LOAD + code, "p/bad.so": "", "p-1.0.dist-info/METADATA": metadata}
    (outcome,) = reading_of(files, BROKEN, Surroundings()).imports
    assert (outcome.raised.exception if isinstance(outcome.raised, Raised) else outcome.raised) == raised


def test_a_distribution_that_the_code_insists_on_is_there() -> None:
    code = "import importlib.metadata\nimportlib.metadata.version('other-thing')\n"
    (outcome,) = reading_of({"p/__init__.py": LOAD + code, "p/bad.so": ""}, BROKEN).imports
    assert outcome.raised is None


@pytest.mark.parametrize("module", [name for name in NAMES if name.partition(".")[0] in sys.stdlib_module_names])
def test_a_recipe_has_only_names_of_its_module(module: str) -> None:
    real = __import__(module, fromlist=["*"])
    later = {name for name, since in SINCE.items() if sys.version_info[:2] < since}
    assert module in MODELS
    assert {f"{module}.{name}" for name in followed_names(module) if not hasattr(real, name)} == {
        name for name in later if name.rpartition(".")[0] == module
    }


def test_the_names_of_a_recipe_are_those_that_its_code_defines() -> None:
    folder = resources.files("abiscan.python.interpreter") / "recipes"
    for module in NAMES:
        tree = ast.parse(folder.joinpath(f"{module}.txt").read_text("utf-8"))
        parts = [node.targets if isinstance(node, ast.Assign) else [node] for node in tree.body]
        names = [getattr(part, "id", getattr(part, "name", "_")) for targets in parts for part in targets]
        assert list(followed_names(module)) == [name for name in names if not name.startswith("_")]


@pytest.mark.parametrize(("python", "raised"), [((3, 11), "ImportError"), ((3, 12), None), (Answer.UNKNOWN, None)])
def test_a_name_of_a_later_python_is_not_there(python: tuple[int, int] | Answer, raised: str | None) -> None:
    (outcome,) = reading_of({"p/__init__.py": "from itertools import batched\n"}, FakeWorld(python=python)).imports
    assert (outcome.raised.exception if isinstance(outcome.raised, Raised) else outcome.raised) == raised


@pytest.mark.parametrize(
    ("condition", "raised"),
    [("'-mpkg.tool' in sys.orig_argv", None), ("sys.orig_argv[0] == 'x'", Answer.UNKNOWN)],
)
def test_python_is_started_without_options(condition: str, raised: Answer | None) -> None:
    code = f"import sys\n{LOAD}if {condition}:\n    load()\n"
    (outcome,) = reading_of({"pkg/__init__.py": code, "pkg/bad.so": ""}, BROKEN).imports
    assert outcome.raised is raised


@pytest.mark.parametrize(
    ("top", "paths", "is_certain"),
    [("", "", True), ("", "__path__ = list(__path__)\n", False), ("p/__init__.py", "", True)],
    ids=["in a namespace package", "with a path of its own", "in a package"],
)
def test_a_package_with_a_body_is_searched_in_its_own_folder(top: str, paths: str, *, is_certain: bool) -> None:
    # As Python 3.11 says. In a namespace package, or where the code says so, other distributions may have more modules.
    files: dict[str, str | bytes] = {top: "import p.l\n"} if top else {}
    code = f"import torch, importlib\n{paths}importlib.import_module('.absent', __name__)\n"
    (outcome,) = reading_of(files | {"p/l/__init__.py": code}).imports
    raised = outcome.raised
    assert (isinstance(raised, Raised) and raised.message == "No module named 'p.l.absent'") is is_certain


ABSENT_HERE = "import platform, sys, torch\nif sys.platform == 'win32':\n    import torch.nn as nn\n"


@pytest.mark.parametrize(
    ("code", "fails"),
    [
        # As transformers 5.20 beside a torch that it disables: "name 'nn' is not defined".
        ("def f(a, b) -> tuple[int, list[nn.Module]]:\n    pass\n", True),
        ("def f(a: nn.Module, b=1):\n    '''A text that is long enough for the function to be parsed late.'''\n", True),
        ("if platform.node() == 'mine':\n    x = 1\nclass C(nn.Module):\n    pass\n", True),
        ("class C:\n    x: nn.Module = None\n", True),
        ("def f(a: 'nn.Module'):\n    pass\n", False),
        ("def f():\n    def g(a: nn.Module):\n        pass\n", False),
        ("nn = None\ndef f(a: nn):\n    pass\n", False),
        ("from foreign import *\ndef f(a: nn.Module):\n    pass\n", False),
    ],
)
def test_a_name_that_only_a_part_binds_which_did_not_run(code: str, *, fails: bool) -> None:
    (outcome,) = reading_of({"p/__init__.py": ABSENT_HERE + code}, FakeWorld(python=(3, 11))).imports
    text = outcome.raised.message if isinstance(outcome.raised, Raised) else outcome.raised
    assert text == ("name 'nn' is not defined" if fails else None)
    future = f"from __future__ import annotations\n{ABSENT_HERE}{code}"
    (later,) = reading_of({"p/__init__.py": future}, FakeWorld(python=(3, 11))).imports
    assert isinstance(later.raised, Raised) is ("C(nn" in code)


@pytest.mark.parametrize(("version", "message"), [("1", None), ("2", "_ext.so.2: cannot open shared object file")])
def test_a_library_that_an_extension_of_an_egg_loads(version: str, message: str | None) -> None:
    """As setuptools writes it: Python has the words for a file that is not there from ``dlopen``."""
    bootstrap = (
        "def __bootstrap__():\n    global __bootstrap__, __loader__, __file__\n"
        "    import pkg_resources, imp\n"
        f"    __file__ = pkg_resources.resource_filename(__name__, '_ext.so.' + {version!r})\n"
        "    __loader__ = None; del __bootstrap__, __loader__\n"
        "    imp.load_dynamic(__name__, __file__)\n__bootstrap__()\n"
    )
    files = {"pkg/__init__.py": "import torch, _ext\nclass A(_ext.A): ...\n", "_ext.py": bootstrap, "_ext.so.1": ""}
    outcome = reading_of(files, FakeWorld(python=(3, 9))).imports[0]
    raised = outcome.raised
    assert (None if raised is None else isinstance(raised, Raised) and raised.exception) == (message and "ImportError")
    if isinstance(raised, Raised):
        assert message is not None
        assert message in (raised.message or "")


def test_a_module_lists_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python lists them, in this order: some packages go through them for what their modules define."""
    files = {
        "listing/__init__.py": "from . import m\nraise ValueError([name for name in m.__dir__() if name[0] != '_'])\n",
        "listing/m.py": "import os\nx = 1\nclass B: ...\ndef a(): ...\n",
    }
    for file, source in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(source, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="os") as real:
        importlib.import_module("listing")
    (outcome,) = reading_of(files).imports
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.message == str(real.value)
