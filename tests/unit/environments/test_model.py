"""What an environment has, and what its distributions require of each other: files and metadata, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec.structs
import pytest
from packaging.requirements import Requirement

from abiscan.environments import model
from abiscan.environments.model import (
    Unmet,
    WholeEnvironment,
    defers_imports,
    imports_at_once,
    mentions_import,
    modules_of,
    origin_of,
    wheel_uses_torch,
)
from abiscan.inputs import packages
from abiscan.inputs.files import Files
from abiscan.inputs.packages import Distribution, FetchedWheel
from tests.elf_builder import Elf
from tests.fakes import extension, install, wheel


def environment(site: Path) -> WholeEnvironment:
    return WholeEnvironment(python=None, distributions=tuple(packages.list_installed([str(site)])))


def installed(site: Path, files: Mapping[str, str]) -> Distribution:
    """The distribution ``pkg`` of some Python files."""
    install(site, "pkg", {}, requires="", files=files)
    found = environment(site).find("pkg")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("requires", "said"),
    [
        ("there", ()),
        ("There.Is>=1", ()),
        ("there==1.5rc1", ()),  # as pip check: a pre-release counts like any other version
        ("there>=2", ("asks 1.0 has requirement there>=2, but you have there 1.5rc1.",)),
        ("there<1,>=0.5", ("asks 1.0 has requirement there<1,>=0.5, but you have there 1.5rc1.",)),
        ("absent", ("asks 1.0 requires absent, which is not installed.",)),
        ("absent>=2", ("asks 1.0 requires absent, which is not installed.",)),
        ("absent; python_version < '3'", ()),
        ("absent; extra == 'all'", ()),
        ("there>=2; python_version >= '3'", ("asks 1.0 has requirement there>=2, but you have there 1.5rc1.",)),
        ("no requirement", ()),
    ],
)
def test_what_pip_check_complains_of(requires: str, said: tuple[str, ...], tmp_path: Path) -> None:
    """The words are those of pip's ``commands/check.py``."""
    install(tmp_path, "there", {}, version="1.5rc1", requires="")
    install(tmp_path, "there-is", {}, version="1.5", requires="")
    install(tmp_path, "asks", {}, requires=requires)
    here = environment(tmp_path)
    asks = here.find("ASKS")
    assert asks is not None
    unmet = here.unmet(asks)
    assert tuple(sorted(map(str, unmet), key=lambda line: line.split()[-1])) == said
    assert all(item.there == (None if "not installed" in str(item) else "1.5rc1") for item in unmet)
    assert (
        str(Unmet(subject="a 1", requirement="b<2", name="B", there="2"))
        == "a 1 has requirement b<2, but you have B 2."
    )


def test_what_is_installed_twice_is_what_comes_first(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    install(first, "Some-Thing", {}, version="1.0", requires="")
    install(second, "some_thing", {}, version="2.0", requires="")
    found = tuple(packages.list_installed([str(first), str(second)]))
    here = WholeEnvironment(python=None, distributions=found)
    assert here.find("some.thing") is found[0]
    assert found[0].version == "1.0"
    assert here.find("another") is None


def test_what_a_plan_makes_of_it(tmp_path: Path) -> None:
    """What comes covers what is there by the same name, and what is removed goes."""
    site, plan = tmp_path / "site", tmp_path / "plan"
    for name in ("stays", "goes", "new-er"):
        install(site, name, {}, version="1.0", requires="")
    install(plan, "New_er", {}, version="2.0", requires="stays>=2")
    before = environment(site)
    after = before.planned(str(plan), {"goes"})
    assert {item.name.lower(): item.version for item in after.distributions} == {"new_er": "2.0", "stays": "1.0"}
    assert (before.over, after.over, len(before.distributions)) == (None, str(plan), 3)
    newer = after.find("new-er")
    assert newer is not None
    assert [item.there for item in after.unmet(newer)] == ["1.0"]
    assert after.required_names(newer) == {"stays"}
    assert after.requirements(newer) == (Requirement("stays>=2"),)


@pytest.mark.parametrize(
    ("files", "modules"),
    [
        (("pkg/__init__.py", "pkg/deep/a.py"), ("pkg",)),
        (("one.py", "two.cpython-311-x86_64-linux-gnu.so", "three.pyd"), ("one", "two", "three")),
        (("notes.txt", "LICENSE", "pkg-1.0.data/x.py", "__pycache__/pkg.cpython-311.pyc", "pkg.py"), ("pkg",)),
        (("namespace/part/a.txt",), ("namespace",)),
        (("../../../bin/tool", "not-a-name/a.py"), ()),
    ],
)
def test_the_modules_of_a_distribution(files: tuple[str, ...], modules: tuple[str, ...], tmp_path: Path) -> None:
    info = install(tmp_path, "pkg", {}, requires="")
    lines = (*files, f"{info.name}/METADATA")
    (info / "RECORD").write_text("".join(f"{path},sha256=x,1\n" for path in lines), "utf-8")
    found = environment(tmp_path).find("pkg")
    assert found is not None
    assert modules_of(found) == modules
    assert [item.name for item in environment(tmp_path).providers("pkg")] == (["pkg"] if "pkg" in modules else [])
    if not modules:
        editable = msgspec.structs.replace(found, name="Some-Pkg", source="/project")
        assert modules_of(editable) == ("some_pkg",)


@pytest.mark.parametrize(
    ("installer", "origin"),
    [
        ("pip", "index"), ("uv\n", "index"), ("poetry 1.8", "unknown"), ("poetry", "index"), ("pdm", "index"),
        ("conda", "conda"), ("", "unknown"), (None, "unknown"), ("apt", "unknown"),
    ],
)  # fmt: skip
def test_where_a_distribution_came_from(installer: str | None, origin: str, tmp_path: Path) -> None:
    """The specification "Recording installed projects": INSTALLER has the name of the tool."""
    install(tmp_path, "other", {}, requires="")
    info = install(tmp_path, "some-pkg", {}, requires="")
    if installer is not None:
        (info / "INSTALLER").write_text(installer, "utf-8")
    found = environment(tmp_path).find("some-pkg")
    assert found is not None
    assert origin_of(found) == origin
    assert origin_of(msgspec.structs.replace(found, source="/project")) == "editable"
    assert origin_of(msgspec.structs.replace(found, origin="https://x.example/some_pkg.whl")) == "direct"
    assert origin_of(msgspec.structs.replace(found, version="2.0")) == "unknown", "of another version"


@pytest.mark.parametrize(
    ("code", "uses"),
    [
        ("import torch\n", True),
        ("import os\nfrom torch.nn import Module\n", True),
        ("import  torch as t\n", True),
        ("import torchvision\n", False),
        ("import os, torch\n", True),
        ("import os, \\\n    torch.nn as nn\n", True),
        ("from \\\n    torch import nn\n", True),
        ('x = """\nfrom torch to numpy\n"""\n', False),
        ("if True:\n    import torch\n", False),
        ("def f():\n    import torch\n", False),
        ("# import torch\n", False),
        ("", False),
    ],
)
def test_code_that_imports_torch_at_once(code: str, tmp_path: Path, *, uses: bool) -> None:
    """Under no condition and with no handler: code that does without torch imports it elsewhere."""
    found = installed(tmp_path, {"pkg/__init__.py": "", "pkg/deep/mod.py": code})
    assert environment(tmp_path).uses_torch(found, Files()) is uses
    path = wheel(
        tmp_path / "pkg-1.0-py3-none-any.whl", {"pkg/deep/mod.py": code.encode(), "pkg/notes.txt": b"import torch\n"}
    )
    assert wheel_uses_torch(FetchedWheel(path=path)) is uses


@pytest.mark.parametrize(
    ("path", "uses"), [("pkg.py", True), ("pkg/a.py", True), ("pkg/deep/a.py", True), ("pkg/deep/er/a.py", False)]
)
def test_how_deep_imports_of_torch_are_looked_for(path: str, tmp_path: Path, *, uses: bool) -> None:
    """In packages that are directly in a distribution's: adapters for torch are further down."""
    archive = wheel(tmp_path / "pkg-1.0-py3-none-any.whl", {path: b"import torch\n"})
    assert wheel_uses_torch(FetchedWheel(path=archive)) is uses
    assert environment(tmp_path).uses_torch(installed(tmp_path, {path: "import torch\n"}), Files()) is uses


@pytest.mark.parametrize(
    ("requires", "objects", "uses", "may_need"),
    [
        ("torch>=2", {}, True, True),
        ("torch; extra == 'all'", {}, True, True),
        ("torchvision", {}, False, False),
        ("", {"pkg/_C.so": extension()}, True, True),
        ("", {"pkg/_C.so": extension(needed=("libc.so.6",))}, False, True),
        ("", {}, False, False),
    ],
)
def test_what_has_to_do_with_torch(
    requires: str, objects: dict[str, Elf], tmp_path: Path, *, uses: bool, may_need: bool
) -> None:
    install(tmp_path, "pkg", objects, requires=requires)
    here = environment(tmp_path)
    found = here.find("pkg")
    assert found is not None
    assert (here.uses_torch(found, Files()), here.may_need_torch(found)) == (uses, may_need)
    members = {path: elf.build() for path, elf in objects.items()}
    of_code = wheel_uses_torch(FetchedWheel(path=wheel(tmp_path / "pkg-1.0-cp311-cp311-linux_x86_64.whl", members)))
    assert of_code is (uses and not requires), "metadata are not asked"


def test_libraries_for_other_systems_are_told_by_their_names(tmp_path: Path) -> None:
    for name, uses in (
        ("pkg/_C.pyd", True),
        ("pkg/_C.cp311-win_amd64.pyd", True),
        ("pkg/a.dylib", True),
        ("pkg/a.txt", False),
    ):
        path = wheel(tmp_path / "pkg-1.0-cp311-cp311-win_amd64.whl", {name: b""})
        assert wheel_uses_torch(FetchedWheel(path=path)) is uses, name


def test_what_code_imports(tmp_path: Path) -> None:
    code = "import one\nfrom two.deep import name\nimport three.part\nif True:\n    import four\n"
    found = installed(tmp_path, {"pkg/__init__.py": code, "pkg/a/b/c.py": "def f():\n\tfrom five import x\n"})
    mentioned = [
        name for name in ("one", "two", "three", "four", "five", "six", "name") if mentions_import(found, name)
    ]
    assert mentioned == ["one", "two", "three", "four", "five"]
    # ``import one`` alone takes nothing from it.
    at_once = [name for name in ("one", "two", "three", "four", "five") if imports_at_once(found, name)]
    assert at_once == ["two", "three"]


@pytest.mark.parametrize(
    ("code", "defers"),
    [
        ("def __getattr__(name): ...\n", True),
        ("import sys\nif True:\n    sys.modules[__name__] = _LazyModule(__name__)\n", True),
        ("class A:\n    def __getattr__(self, name): ...\n", False),
        ("import sys\n", False),
    ],
)
def test_modules_that_import_others_when_asked(code: str, tmp_path: Path, *, defers: bool) -> None:
    """PEP 562, and what transformers does."""
    assert defers_imports(installed(tmp_path, {"pkg/__init__.py": code})) is defers
    assert not defers_imports(installed(tmp_path / "deep", {"pkg/deep/__init__.py": code})), "its own modules count"


def test_a_listed_file_may_be_gone(tmp_path: Path) -> None:
    found = installed(tmp_path, {"pkg/__init__.py": "import torch\n", "other.py": "import torch\n"})
    (tmp_path / "other.py").unlink()
    assert mentions_import(found, "torch")
    (tmp_path / "pkg" / "__init__.py").unlink()
    assert not mentions_import(found, "torch")
    assert list(model._top_level_sources(found)) == []
