"""A package in a folder or an archive: what it requires, and whether that is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from abiscan.inputs.files import LARGEST_TEXT, Wheel
from abiscan.inputs.package_files import Package, of_archive, of_folder, of_module
from tests.fakes import install, wheel


def package(requires: str | None, end: str = "\n") -> Package:
    lines = "".join(f"Requires-Dist: {line}\n" for line in (requires or "").split(" & ") if line)
    metadata = f"Metadata-Version: 2.1\nName: pkg\nVersion: 1\n{lines}\nRequires-Dist: quoted\n".replace("\n", end)
    files = {"pkg/__init__.py": b"", **({} if requires is None else {"pkg-1.dist-info/METADATA": metadata.encode()})}
    return Package(
        name="pkg", version="1", root="/site", members=lambda: files, read=files.__getitem__, installed=False
    )


@pytest.mark.parametrize(
    ("requires", "changes", "missing"),
    [
        ("", "", ()),
        (None, None, ()),  # nothing states what it requires
        ("there", "", ()),
        ("There>=1,<2", "", ()),
        ("there>=2", "there", ()),
        ("there & gone", "gone", ("gone",)),
        ("gone; sys_platform == 'win32'", "", ()),
        ("gone; extra == 'more'", "", ()),
        ("gone; python_version < '3.5'", "gone", ()),  # for the Python of the environment
        ("odd", "", ()),
        ("odd>=1", "odd", ()),  # its version is none
        ("torch==0.1", "", ("torch",)),  # torch is what it is checked on
        ("Torch & gone & gone>=2", "gone", ("Torch", "gone")),
        # pip also brings what an installed package lacks, as after --no-deps, and replaces one for another torch.
        ("half_there", "below", ()),
        ("whole[more]", "below", ()),
        ("of-another-torch", "of-another-torch", ()),
        ("of-torch", "", ()),
        # Another version may want others of what it requires.
        ("tower<1", "there tower", ()),
    ],
)
def test_what_installing_it_changes(
    requires: str | None, changes: str | None, missing: tuple[str, ...], tmp_path: Path
) -> None:
    """As in the plans of ``pip install --dry-run`` next to the same packages."""
    install(tmp_path, "there", {}, version="1.5", requires="")
    install(tmp_path, "odd", {}, version="unknown", requires="")
    install(tmp_path, "half-there", {}, requires="below>=1")
    install(tmp_path, "whole", {}, requires="below; extra == 'more'")
    install(tmp_path, "tower", {}, requires="there")
    install(tmp_path, "of-torch", {}, requires="torch")
    install(tmp_path, "of-another-torch", {}, requires="torch==2.5.1")
    install(tmp_path / "torches", "torch", {}, version="2.13.0", requires="")
    path = [str(tmp_path), str(tmp_path / "torches")]
    result = package(requires)
    expected = None if changes is None else frozenset(changes.split())
    assert (result.changes(path, (3, 4)), result.missing_requirements(str(tmp_path))) == (expected, missing)


def test_metadata_of_a_wheel_that_was_made_on_windows(tmp_path: Path) -> None:
    """``email.parser``, with which pip reads them, takes CR LF for the end of a line."""
    assert package("gone>=2", "\r\n").changes([str(tmp_path)]) == frozenset({"gone"})


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
