"""What a target imports of the other packages that a command names: Python imports the same with both installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import abiscan
from abiscan.verdict.given import GivenNeighbours, list_given
from tests.fakes import package_wheel

NEEDS = "import torch.no_such_module\n"
CASES = {
    "fails on torch": ("import torch\nimport other\n", NEEDS, True),
    "fails where it is guarded": (
        "import torch\ntry:\n    import other\nexcept ImportError:\n    pass\n",
        NEEDS,
        False,
    ),
    "lacks a name": ("import torch\nfrom other import gone\n", "there = 1\n", True),
    "has the name": ("import torch\nfrom other import there\n", "there = 1\n", False),
    "makes the name": ("import torch\nfrom other import gone\n", "def __getattr__(name):\n    return name\n", False),
    "has a version": (
        "import torch\nfrom importlib.metadata import version\nif version('other-part') == '1.0':\n    " + NEEDS,
        "",
        True,
    ),
}


def make_wheel(
    folder: Path, name: str, module: str, code: str, version: str = "1.0", tag: str = "py3-none-any"
) -> Path:
    files = {f"{module}/__init__.py": code}
    return package_wheel(folder, name, {}, version=version, files=files, metadata={"Requires-Dist": "torch"}, tag=tag)


def really(site: Path) -> list[str]:
    code = "try:\n import pkg\nexcept ImportError as error:\n print(type(error).__name__)\n print(error)"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=site, check=True, capture_output=True, text=True)
    return done.stdout.replace(f"{site}/", "").splitlines()


def test_what_is_no_package_does_not_hide_those_behind_it(tmp_path: Path) -> None:
    first, last = (make_wheel(tmp_path, name, name, "") for name in ("first", "last"))
    (tmp_path / "broken.whl").write_bytes(b"no archive")
    other: Any = "a target of another kind"
    given = list_given([first, other, tmp_path / "broken.whl", tmp_path / "absent.whl", last], str(tmp_path / "site"))
    assert [one.source for one in given] == [first, last]


def test_what_imports_raise_is_the_same_next_to_each_target(tmp_path: Path) -> None:
    """So it is found out once."""
    wheels = [make_wheel(tmp_path, name, name, "") for name in ("first", "second", "third")]
    given = list_given(wheels, str(tmp_path / "site"))
    neighbours = [GivenNeighbours.of(wheel, given) for wheel in wheels]
    assert len({one.identity for one in neighbours if one}) == 1
    assert [one.find("second") is None for one in neighbours if one] == [False, True, False]


@pytest.mark.parametrize("kind", CASES)
def test_packages_that_are_named_together_import_each_other(tmp_path: Path, kind: str) -> None:
    code, other, fails = CASES[kind]
    wheels = [make_wheel(tmp_path, "pkg", "pkg", code), make_wheel(tmp_path, "other_part", "other", other)]
    site = tmp_path / "site"
    for path in wheels:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(site)
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").touch()
    real = really(site)
    assert bool(real) is fails
    package = abiscan.check([str(path) for path in wheels], torch="2.13.0").packages[0]
    error = package.error
    assert ([error.exception, error.message] if error else []) == real
    if kind != "has a version" and error:
        assert error.of_package == "other"


def test_of_two_versions_neither_is_what_is_imported(tmp_path: Path) -> None:
    wheels = [
        make_wheel(tmp_path, "pkg", "pkg", "import torch\nimport other\n"),
        make_wheel(tmp_path, "other", "other", NEEDS, "1.0"),
        make_wheel(tmp_path, "other", "other", "import torch\n", "2.0"),
    ]
    assert abiscan.check([str(path) for path in wheels], torch="2.13.0").packages[0].error is None


@pytest.mark.parametrize(
    ("tag", "is_found"),
    [
        ("py3-none-any", True),
        ("cp311-cp311-manylinux_2_28_x86_64", True),
        ("cp311-cp311-manylinux_2_28_aarch64", False),
        ("cp311-cp311-win_amd64", False),
        ("cp311-cp311-macosx_11_0_arm64", False),
    ],
)
def test_a_wheel_for_another_system_is_not_installed_next_to_one(tmp_path: Path, tag: str, *, is_found: bool) -> None:
    wheel = make_wheel(tmp_path, "pkg", "pkg", "", tag="cp311-cp311-manylinux_2_17_x86_64")
    other = make_wheel(tmp_path, "other", "other", "", tag=tag)
    neighbours = GivenNeighbours.of(wheel, list_given([wheel, other], str(tmp_path / "site")))
    assert (neighbours is not None and neighbours.find("other") is not None) is is_found
