"""``importlib.metadata.entry_points``, and finders in ``sys.meta_path``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from abiscan.python.package.installed import Surroundings
from abiscan.python.package.model import Answer, Raised
from tests.unit.python.packages import FakeWorld, reading_of

OWN = "[of.p]\none = p.plugin:Kind.make\n[of.twice]\none = p:one\none = p:two\n[console_scripts]\np = p:main\n"
PLUGIN = "class Kind:\n    def make():\n        return 'made'\n"
CLAIMS = [
    "len(points) == 1 and bool(points) and points['one'].name == 'one'",
    "[point.value for point in points] == ['p.plugin:Kind.make']",
    "(points['one'].group, points['one'].module, points['one'].attr) == ('of.p', 'p.plugin', 'Kind.make')",
    "points['one'].load()() == 'made'",
    "points.names == {'one'} and points.groups == {'of.p'}",
    "len(points.select(name='one')) == 1 and not points.select(name='two')",
    "len(entry_points(group='of.p', name='one')) == 1 and len(entry_points(group='of.p', name='two')) == 0",
    "len(entry_points(group='of.p', module='p.plugin')) == 1 and not points.select(attr='Kind')",
    "len(entry_points(group='of.twice')) == 2",
    "len(entry_points().select(group='of.p')) == 1 and not entry_points().select(group='of.p', name='two')",
    "len(entry_points(group='of.nobody')) == 0 and not entry_points(group='of.nobody')",
    "{**{point.name: point.load() for point in points}}['one']() == 'made'",
]


def _files(code: str) -> dict[str, str]:
    return {"p/__init__.py": code, "p/plugin.py": PLUGIN, "p-1.0.dist-info/entry_points.txt": OWN}


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "p-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: p\nVersion: 1.0\n")


@pytest.mark.parametrize("claim", CLAIMS)
def test_those_of_the_package_are_known(claim: str, tmp_path: Path) -> None:
    code = "from importlib.metadata import entry_points\n"
    code += "def check():\n    points = entry_points(group='of.p')\n"
    code += f"    if not ({claim}):\n        raise ValueError('no')\n"
    _write(tmp_path, _files(code))
    real = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import p; p.check()"]
    subprocess.run(real, check=True)
    for negated in (False, True):
        text = code.replace("if not (", "if (") if negated else code
        around = Surroundings(folders=(tmp_path,), is_final=True)
        (outcome,) = reading_of(_files(f"{text}check()\n"), FakeWorld(python=(3, 11)), around).imports
        assert isinstance(outcome.raised, Raised) is negated


@pytest.mark.parametrize(
    ("index", "python", "fails"),
    [
        *(("0", (3, 11), False), ("0", (3, 12), True), ("1", (3, 11), True)),
        *(("'one'", (3, 12), False), ("'two'", (3, 11), True), ("'two'", (3, 12), True)),
    ],
)
def test_python_3_12_finds_them_by_name_alone(index: str, python: tuple[int, int], fails: bool, tmp_path: Path) -> None:
    files = _files(f"from importlib.metadata import entry_points\nentry_points(group='of.p')[{index}].load()\n")
    _write(tmp_path, files)
    around = Surroundings(folders=(tmp_path,), is_final=True)
    (outcome,) = reading_of(files, FakeWorld(python=python), around).imports
    assert isinstance(outcome.raised, Raised) is fails
    if python == sys.version_info[:2]:
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import p"
        real = subprocess.run([sys.executable, "-I", "-c", code], stderr=subprocess.DEVNULL, check=False)
        assert bool(real.returncode) is fails


LOADS_OTHERS = (
    "import importlib, importlib.metadata\nfor point in importlib.metadata.entry_points(group='of.p'):\n"
    "    importlib.import_module(point.module)\nif len(importlib.metadata.entry_points(group='of.q')) > 0:\n"
    "    raise RuntimeError('there are others')\n"
)


@pytest.mark.parametrize(
    ("installed", "is_final", "raised"),
    [("", True, None), ("[of.q]\nx = q\n", True, Answer.UNKNOWN), ("[of.r]\nx = q\n", True, None), ("", False, None)],
)
def test_those_of_others_are_known_where_it_is_known_what_is_installed(
    installed: str, is_final: bool, raised: Answer | None, tmp_path: Path
) -> None:
    (tmp_path / "q-1.0.dist-info").mkdir()
    (tmp_path / "q-1.0.dist-info" / "entry_points.txt").write_text(installed)
    around = Surroundings(folders=(tmp_path,), is_final=is_final)
    (outcome,) = reading_of(_files(LOADS_OTHERS), FakeWorld(python=(3, 11)), around).imports
    shown = [condition.text for condition in outcome.conditions]
    if is_final:
        assert (outcome.raised, shown if raised is None else []) == (raised, [])
    else:
        assert outcome.raised is Answer.UNKNOWN  # with a plugin, it raises
        assert "no other package has entry points of of.q" in shown


FINDER = (
    "import sys\nclass Finder:\n    def find_spec(self, name, path, target=None):\n"
    "        if name != 'p.wanted':\n            return None\n        sys.meta_path.remove(self)\n{}\n"
    "sys.meta_path.insert(0, Finder())\n"
    "class Static:\n    @staticmethod\n    def find_spec(name, *args):\n        raise ImportError('static')\n"
)
LOADED = (
    "import sys, torch\nclass Finder:\n    def find_spec(self, name, path, target=None):\n"
    "        raise ImportError(name)\nsys.meta_path.insert(0, Finder())\nimport torch.nn.functional, collections, os\n"
)


@pytest.mark.parametrize(
    ("then", "action", "raised"),
    [
        ("import p.other\n", "        raise ImportError('asked')", None),
        ("import p.wanted\n", "        raise ImportError('asked')", "asked"),
        ("import p.wanted\nassert len(sys.meta_path) == 3, sys.meta_path\n", "        return None", None),
        ("from p import wanted, other\nimport json.decoder\n", "        import decimal", None),
        ("import p.wanted\n", "        return object()", Answer.UNKNOWN),
        ("sys.meta_path.pop(0)\nimport p.wanted\n", "        raise ImportError('asked')", None),
        ("del sys.meta_path[0]\nimport p.wanted\n", "        raise ImportError('asked')", None),
        ("sys.meta_path = sys.meta_path[1:]\nimport p.wanted\n", "        raise ImportError('asked')", None),
        ("sys.meta_path.insert(0, Static)\nimport p.wanted\n", "        return None", "static"),
    ],
)
def test_a_finder_before_pythons_own_is_asked_for_each_module(
    then: str, action: str, raised: str | Answer | None
) -> None:
    """Lib/importlib/_bootstrap.py, _find_spec."""
    files = {"p/__init__.py": FINDER.format(action) + then, "p/other.py": "", "p/wanted.py": ""}
    (outcome,) = reading_of(files).imports
    assert (outcome.raised.message if isinstance(outcome.raised, Raised) else outcome.raised) == raised
    assert bool(outcome.gaps) is (raised is Answer.UNKNOWN)


@pytest.mark.parametrize(
    ("action", "raised"),
    [("return None", None), ("raise ImportError(name)", Answer.UNKNOWN), ("return 1", Answer.UNKNOWN)],
)
def test_a_finder_of_modules_that_others_may_have_imported(action: str, raised: Answer | None) -> None:
    code = f"import sys\nclass F:\n    def find_spec(self, name, *args):\n        {action}\n"
    code += "sys.meta_path.insert(0, F())\nimport other_package\n"
    (outcome,) = reading_of({"p/__init__.py": code}).imports
    assert outcome.raised is raised


def test_a_finder_is_not_asked_for_what_others_may_have_imported() -> None:
    assert reading_of({"p/__init__.py": LOADED}).imports[0].raised is None


def test_an_environment_whose_entry_points_python_does_not_read(tmp_path: Path) -> None:
    (tmp_path / "q-1.0.dist-info").mkdir()
    (tmp_path / "q-1.0.dist-info" / "entry_points.txt").write_text("[of.q]\nno sign\n")
    (outcome,) = reading_of(_files(LOADS_OTHERS), FakeWorld(), Surroundings(folders=(tmp_path,), is_final=True)).imports
    assert outcome.raised is Answer.UNKNOWN
