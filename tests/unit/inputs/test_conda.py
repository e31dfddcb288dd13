"""Conda packages: what is read in them is what is read in the same files once they are installed."""

from __future__ import annotations

import bz2
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from abiscan.errors import InputError
from abiscan.inputs import conda
from abiscan.inputs.conda import CondaPackage, requirement_of
from abiscan.inputs.files import Files
from abiscan.inputs.kinds import TargetKind, kind_of
from abiscan.inputs.sources import Target, read_target
from tests.elf_builder import Elf, exports, uses
from tests.fakes import conda_package, extension

SITE = "lib/python3.11/site-packages"
DEPENDS = {"name": "pkg", "version": "1.0", "depends": ["pytorch 2.5.* cpu*", "python >=3.11,<3.12.0a0"]}
NAMES = ("pkg-1.0-py311_0.conda", "pkg-1.0-py311_0.tar.bz2")
HELPER = Elf(soname="libhelper.so.1", defined=exports("helper"))
MEMBERS = {
    f"{SITE}/pkg/_C.so": extension(needed=("libtorch_cpu.so", "libhelper.so.1"), undefined=uses("helper")).build(),
    f"{SITE}/pkg/__init__.py": b"from . import _C\n",
    f"{SITE}/pkg-1.0.dist-info/METADATA": b"Name: pkg\nVersion: 1.0\n",
    "lib/libhelper.so.1.2": HELPER.build(),
}
LINKS = {"lib/libhelper.so.1": "libhelper.so.1.2"}


def read(path: Path, site: str = "/env/lib/python3.11/site-packages") -> Target:
    return read_target(path, Files(), site, f"{site}/torch")


@pytest.mark.parametrize("name", NAMES)
def test_members_lie_where_conda_installs_them(tmp_path: Path, name: str) -> None:
    files = Files()
    path = conda_package(tmp_path / name, MEMBERS, index=DEPENDS, links=LINKS)
    target = read_target(path, files, "/env/lib/python3.11/site-packages", "")
    assert target.kind is TargetKind.CONDA
    assert {member.location for member in target.extensions} == {"/env/lib/python3.11/site-packages/pkg/_C.so"}
    # $ORIGIN/../../.. of the extension is the folder of the libraries.
    link = files.object_at("/env/lib/python3.11/site-packages/pkg/../../../libhelper.so.1")
    assert link is not None
    assert link.soname == "libhelper.so.1"


def test_with_the_site_of_a_wheel_the_libraries_are_as_far_away(tmp_path: Path) -> None:
    files = Files()
    read_target(conda_package(tmp_path / NAMES[0], MEMBERS, links=LINKS), files, "/site-packages", "")
    assert files.object_at("/site-packages/pkg/../../../libhelper.so.1") is not None


def test_the_python_code_is_that_of_the_package(tmp_path: Path) -> None:
    target = read(conda_package(tmp_path / NAMES[0], MEMBERS))
    assert target.package is not None
    assert (target.package.name, target.package.version) == ("pkg", "1.0")
    assert target.package.read("pkg/__init__.py") == b"from . import _C\n"


def test_its_requirement_is_that_of_conda(tmp_path: Path) -> None:
    metadata = read(conda_package(tmp_path / NAMES[0], MEMBERS, index=DEPENDS)).metadata
    assert metadata is not None
    assert str(metadata.requires_torch) == "torch==2.5.*"


@pytest.mark.parametrize(
    ("spec", "requirement"),
    [
        # conda's documentation, "Package match specifications", in Python's language (version specifiers).
        ("pytorch", "torch"),
        ("pytorch *", "torch"),
        ("pytorch 2.5.1", "torch==2.5.1"),
        ("pytorch ==2.5.1", "torch==2.5.1"),
        ("pytorch =2.5", "torch==2.5.*"),
        ("pytorch 2.5.*", "torch==2.5.*"),
        ("pytorch 2.5* cpu_generic*", "torch==2.5.*"),
        ("pytorch >=2.5.1,<2.6.0a0", "torch<2.6.0a0,>=2.5.1"),
        ("pytorch >=2.5.1,<2.6.0a0 *_cuda126*", "torch<2.6.0a0,>=2.5.1"),
        ("libtorch 2.5.1.*", "torch==2.5.1.*"),
        ("pytorch 2.4|2.5", None),
        ("", None),
    ],
)
def test_a_dependency_in_the_language_of_wheels(spec: str, requirement: str | None) -> None:
    assert requirement_of(spec) == requirement


def test_a_link_out_of_the_package_or_in_a_circle_leads_nowhere(tmp_path: Path) -> None:
    links = {"lib/a.so": "../../etc/passwd", "lib/b.so": "c.so", "lib/c.so": "b.so", "lib/d.so": "/etc/passwd"}
    package = CondaPackage(conda_package(tmp_path / NAMES[0], MEMBERS, links=links))
    assert {path for path, _ in package.list_places("/s/l/t")} == {
        package.installed_path(name, "/s/l/t") for name in MEMBERS
    }


def test_members_outside_do_not_count(tmp_path: Path) -> None:
    package = CondaPackage(conda_package(tmp_path / NAMES[0], {"../../x.so": b"x", "/etc/y.so": b"y", "z.so": b"z"}))
    assert list(package.list_members()) == ["z.so"]


def test_a_chain_of_links_has_the_limit_of_the_system(tmp_path: Path) -> None:
    def placed(length: int) -> bool:
        links = {f"lib/{number}": f"{number + 1}" for number in range(length)}
        members = {f"lib/{length}": b""}
        package = CondaPackage(conda_package(tmp_path / f"{length}{NAMES[0]}", members, links=links))
        return package.installed_path("lib/0", "/a/b/c") in dict(package.list_places("/a/b/c"))

    assert placed(40)
    assert not placed(41)


def _source_archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("setup.py"))
    return bz2.compress(buffer.getvalue())


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("pkg-1.0-0.tar.bz2", _source_archive(), "no info/index.json"),
        ("pkg-1.0-0.tar.bz2", b"BZh9nothing", "cannot be unpacked"),
        ("pkg-1.0-0.tar.bz2", bz2.compress(b"no archive" * 100), "cannot be unpacked"),
        ("pkg-1.0-0.conda", b"PK", "cannot be unpacked"),
        ("pkg-1.0-0.conda", b"", "cannot be unpacked"),
    ],
)
def test_what_is_no_conda_package(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert caught.value.subject == str(path)


@pytest.mark.parametrize("size", [10, 200, 1000])
def test_a_truncated_package(tmp_path: Path, size: int) -> None:
    for name in NAMES:
        whole = conda_package(tmp_path / name, MEMBERS)
        whole.write_bytes(whole.read_bytes()[:-size])
        with pytest.raises(InputError, match="cannot be unpacked"):
            read(whole)


def test_a_damaged_part(tmp_path: Path) -> None:
    path = tmp_path / NAMES[0]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pkg-x.tar.zst", b"(\xb5/\xfdnothing")
    with pytest.raises(InputError, match="cannot be unpacked"):
        read(path)


@pytest.mark.parametrize("name", NAMES)
def test_a_bomb_is_not_unpacked(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = conda_package(tmp_path / name, {"lib/zeros": bytes(20 << 20)})
    monkeypatch.setattr(conda, "_LARGEST", 8 << 20)
    with pytest.raises(InputError, match="unpacks to more than"):
        read(path)


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = conda_package(tmp_path / NAMES[0], {str(number): b"" for number in range(20)})
    monkeypatch.setattr(conda, "_MOST_MEMBERS", 10)
    with pytest.raises(InputError, match="has more than 10 members"):
        read(path)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a-1.0-py3-none-any.whl", TargetKind.WHEEL),
        ("a-1.0-0.conda", TargetKind.CONDA),
        ("a-b-1.0-py311_0.tar.bz2", TargetKind.CONDA),
        ("a-1.0.tar.bz2", TargetKind.SOURCE),
        ("a-1.0.tar.gz", TargetKind.SOURCE),
        ("a.zip", TargetKind.SOURCE),
        ("_C.so", TargetKind.LIBRARY),
        ("_C.cpython-311-x86_64-linux-gnu.so", TargetKind.LIBRARY),
    ],
)
def test_what_a_name_stands_for(tmp_path: Path, name: str, kind: TargetKind) -> None:
    assert kind_of(tmp_path / name) is kind


def test_a_folder_stands_for_a_folder_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "a-1.0-0.conda").mkdir()
    assert kind_of(tmp_path / "a-1.0-0.conda") is TargetKind.FOLDER


@pytest.mark.parametrize(
    ("spec", "requirement"),
    [
        # conda's documentation, "Package match specifications".
        ("pytorch", "torch"),
        ("pytorch *", "torch"),
        ("libtorch 2.5.1 cpu_generic_0", "torch==2.5.1"),
        ("pytorch 2.5.*", "torch==2.5.*"),
        ("pytorch 2.5*", "torch==2.5.*"),
        ("pytorch =2.5", "torch==2.5.*"),
        ("pytorch =2.5.*", "torch==2.5.*"),
        ("pytorch ==2.5.1", "torch==2.5.1"),
        ("pytorch >=2.5.*", "torch>=2.5"),
        ("pytorch >=2.5,<2.6.0a0", "torch<2.6.0a0,>=2.5"),
        ("pytorch !=2.5.0", "torch!=2.5.0"),
        ("numpy >=1.23,<3", "numpy<3,>=1.23"),
        ("pytorch 2.5|2.6", None),
        ("pytorch >=", None),
    ],
)
def test_specifications_of_conda(spec: str, requirement: str | None) -> None:
    assert requirement_of(spec) == requirement
