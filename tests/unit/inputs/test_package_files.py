"""A package in a folder or an archive: what it requires, and whether that is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from abiscan.inputs.files import LARGEST_TEXT, Wheel
from abiscan.inputs.package_files import Package, of_archive, of_folder, of_module
from tests.fakes import install, wheel


def package(requires: str | None) -> Package:
    lines = "".join(f"Requires-Dist: {line}\n" for line in (requires or "").split(" & ") if line)
    metadata = f"Metadata-Version: 2.1\nName: pkg\nVersion: 1\n{lines}\nRequires-Dist: quoted\n".encode()
    files = {"pkg/__init__.py": b"", **({} if requires is None else {"pkg-1.dist-info/METADATA": metadata})}
    return Package(
        name="pkg", version="1", root="/site", members=lambda: files, read=files.__getitem__, installed=False
    )


@pytest.mark.parametrize(
    ("requires", "is_complete", "missing"),
    [
        ("", True, ()),
        (None, False, ()),  # nothing states what it requires
        ("there", True, ()),
        ("There>=1,<2", True, ()),
        ("there>=2", False, ()),
        ("there & gone", False, ("gone",)),
        ("gone; sys_platform == 'win32'", True, ()),
        ("gone; extra == 'more'", True, ()),
        ("odd", True, ()),
        ("odd>=1", False, ()),  # its version is none
        ("torch==0.1", True, ("torch",)),  # torch is what it is checked on
        ("Torch & gone & gone>=2", False, ("Torch", "gone")),
    ],
)
def test_whether_what_it_requires_is_installed(
    requires: str | None, is_complete: bool, missing: tuple[str, ...], tmp_path: Path
) -> None:
    install(tmp_path, "there", {}, version="1.5", requires="")
    install(tmp_path, "odd", {}, version="unknown", requires="")
    result = package(requires)
    assert (result.is_complete([str(tmp_path)]), result.missing_requirements(str(tmp_path))) == (is_complete, missing)


def test_folders_that_are_packages(tmp_path: Path) -> None:
    install(tmp_path / "unpacked", "pkg", {}, files={"pkg/__init__.py": "", "pkg/.git/x.py": "", "pkg/a/b.py": ""})
    unpacked, inside = of_folder(tmp_path / "unpacked"), of_folder(tmp_path / "unpacked" / "pkg")
    assert unpacked is not None
    assert inside is not None
    assert (str(unpacked), unpacked.installed, unpacked.root) == ("pkg 1.0", None, str(tmp_path / "unpacked"))
    assert (str(inside), inside.members, inside.root) == (
        *("pkg", ("pkg/__init__.py", "pkg/a/b.py"), str(tmp_path / "unpacked")),
    )
    install(tmp_path / "unpacked", "other", {})
    assert of_folder(tmp_path / "unpacked") is None  # several: it is a site-packages
    assert of_folder(tmp_path) is None
    module = of_module(str(tmp_path / "unpacked"), "pkg")
    assert module.members == ("pkg/__init__.py", "pkg/a/b.py")


def test_an_archive_without_metadata_is_no_package(tmp_path: Path) -> None:
    metadata = b"Metadata-Version: 2.1\nName: Pkg\nVersion: 2\n"
    members = {"pkg/a.py": b"x", "pkg-2.dist-info/METADATA": metadata}
    archived = of_archive(Wheel(wheel(tmp_path / "a.whl", members)), "/site")
    assert archived is not None
    assert (str(archived), archived.members, archived.read("pkg/a.py"), archived.installed) == (
        *("Pkg 2", ("pkg-2.dist-info/METADATA", "pkg/a.py"), b"x", False),
    )
    assert of_archive(Wheel(wheel(tmp_path / "b.whl", {"pkg/a.py": b"x"})), "/site") is None


def test_as_much_is_read_of_a_source_that_is_too_large_as_shows_that_it_is(tmp_path: Path) -> None:
    install(tmp_path, "pkg", {}, files={"pkg/__init__.py": "", "pkg/data.bin": ""})
    for name in ("__init__.py", "data.bin"):
        os.truncate(tmp_path / "pkg" / name, LARGEST_TEXT + 1)
    module = of_module(str(tmp_path), "pkg")
    assert [len(module.read(path)) for path in ("pkg/__init__.py", "pkg/data.bin")] == [LARGEST_TEXT, 0]
