"""What other installed packages lack, and the functions of a package that use it: Python itself has the same names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from abiscan.python.reading import PackageReader
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources
from tests.unit.verdict.test_other_imports import LAZY, around

SITE = {
    "plain/__init__.py": "from enum import Enum\nfrom plain import part\nhere = 1\nclass Kind(Enum):\n    one = 1\n",
    "plain/part.py": "inside = 1\n",
    "plain/apart.py": "inside = 1\n",
    "other/__init__.py": LAZY,
    "other/part.py": "Thing = 1\n",
    "adding.py": "import plain\nplain.added = 1\n",
    "filled/__init__.py": "import sys\nfrom enum import Enum\nclass Mode(Enum):\n    NEAREST = 0\n"
    "module = sys.modules[__name__]\nfor member in Mode:\n    setattr(module, member.name, member.value)\n"
    "def f(cls):\n    return sys.modules[cls.__module__]\n",
}
USES = (
    ("import plain", "plain.here"),
    ("import plain", "plain.gone"),
    ("import plain as p", "p.part.inside"),
    ("import plain as p", "p.part.gone"),
    ("from plain import part", "part.gone"),
    ("from plain.part import gone", "gone"),
    ("from plain import Kind", "Kind.one"),
    ("from plain import Kind", "Kind.gone"),
    ("import plain, adding", "plain.added"),
    ("import plain\n  plain.mine = 1", "plain.mine"),
    ("import other", "other.Thing"),
    ("import other", "other.Gone"),
    ("from other import Gone", "Gone"),
    ("import filled", "filled.NEAREST"),
    ("import filled", "filled.ANTIALIAS"),
    ("try:\n    import plain\n    plain.gone\n  except AttributeError:\n    plain = 1", "plain"),
)


def later(site: Path, code: str) -> list[str]:
    for name, text in SITE.items():
        path = site / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
    world = FakeWorld(torch_names=embedded_names.names("2.13.0"), python=sys.version_info[:2])
    with around(site) as surroundings:
        sources = TextSources({"pkg/__init__.py": code})
        found = PackageReader(sources, ["pkg"]).later_uses(world, surroundings)
    return [use.name for use in found if not use.doubtful]


@pytest.mark.parametrize(("imports", "use"), USES)
def test_a_function_that_uses_what_another_package_lacks(tmp_path: Path, imports: str, use: str) -> None:
    function = f"def f():\n  {imports}\n  return {use}\n"
    site = tmp_path / "site"
    found = later(site, f"import torch\n{function}")
    ends = [
        sys.executable,
        "-S",
        "-c",
        f"{function}try:\n  f()\nexcept (AttributeError, ImportError):\n  print('fails')",
    ]
    fails = subprocess.run(ends, cwd=site, check=True, capture_output=True, text=True).stdout == "fails\n"
    # What classes have is not looked at, and an object in the place of a module is not followed for it.
    assert bool(found) is (fails and "Kind" not in use and "other" not in imports)
