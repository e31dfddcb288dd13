"""Imports of ``pkg_resources``, which setuptools 82 no longer has: which count, and what settles it."""

from __future__ import annotations

import pytest

from abiscan.python.installed import Surroundings
from abiscan.python.reading import PackageReader
from tests.unit.python.packages import FakeWorld, TextSources

IMPORT = "import pkg_resources\n"


def dropped(
    code: str,
    required: str = "setuptools",
    torch: str = "2.13.0",
    files: dict[str, str] | None = None,
    **around: object,
) -> list[tuple[str, list[int]]]:
    metadata = f"Metadata-Version: 2.1\nName: pack\nVersion: 1\nRequires-Dist: {required}\n"
    sources = {"pack/__init__.py": "", "pack/version.py": code, "pack-1.dist-info/METADATA": metadata, **(files or {})}
    reader = PackageReader(TextSources(sources), ["pack"])
    found = reader.dropped_imports(FakeWorld(torch_version=torch), Surroundings(**around))  # type: ignore[arg-type]
    return [(item.dropped.module, [line.line for line in item.lines]) for item in found]


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (IMPORT, [1]),  # facebookresearch/fairchem#1762
        ("import os\nfrom pkg_resources import get_distribution as g\nimport a, pkg_resources.extern\n", [2, 3]),
        ("class A:\n    import pkg_resources\n", [2]),
        ("try:\n    import pkg_resources\nexcept ValueError:\n    pass\n", [2]),
        ("try:\n    import pkg_resources\nfinally:\n    pass\n", [2]),
    ],
)
def test_an_import_that_may_fail(code: str, lines: list[int]) -> None:
    assert dropped(code) == [("pkg_resources", lines)]


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    import pkg_resources\n",
        "try:\n    import pkg_resources\nexcept ImportError:\n    pkg_resources = None\n",
        "try:\n    import pkg_resources\nexcept (OSError, ModuleNotFoundError):\n    pass\n",
        "try:\n    import pkg_resources\nexcept:\n    pass\n",
        "if A:\n    import pkg_resources\n",
        "from . import pkg_resources\n",
        "'import pkg_resources'\n",
    ],
)
def test_an_import_that_need_not_run(code: str) -> None:
    assert not dropped(code)


def test_what_requires_a_release_that_has_it() -> None:
    # torch's own metadata: 2.11 and 2.12 require setuptools<82, 2.10 and 2.13 do not.
    assert [bool(dropped(IMPORT, torch=torch)) for torch in ("2.10.0", "2.11.0", "2.12.1", "2.13.0")] == [1, 0, 0, 1]
    required = ("setuptools<82", "setuptools==69.5.1", "setuptools>=61", "setuptools!=82.0.0", "setuptools<=82.0.0")
    assert [bool(dropped(IMPORT, requirement)) for requirement in required] == [0, 0, 1, 1, 1]


def test_what_is_known_to_be_there() -> None:
    assert not dropped(IMPORT, installed=lambda _name: True)
    assert not dropped(IMPORT, files={"pkg_resources/__init__.py": ""})
    assert not dropped("", files={"tests/test_pack.py": IMPORT})
