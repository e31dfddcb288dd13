"""Where the members of a wheel are once it is installed: what pip 23.2 and uv 0.13 did with the same wheels."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from abiscan.errors import InputError
from abiscan.inputs.files import Files, Wheel
from abiscan.inputs.spreading import installed_path

DATA = "pkg-1.0.data"
SITE = "lib/python3.11/site-packages"
INFO = "pkg-1.0.dist-info/METADATA"


# The binary distribution format, "Spreading the file".
@pytest.mark.parametrize(
    ("member", "path"),
    [
        ("pkg/_C.so", "/site/pkg/_C.so"),
        (f"{DATA}/platlib/pkg/_C.so", "/site/pkg/_C.so"),
        (f"{DATA}/purelib/_C.so", "/site/_C.so"),
        (f"{DATA}/./platlib/_C.so", "/site/_C.so"),
        (f"{DATA}/data/{SITE}/pkg/_C.so", "/site/pkg/_C.so"),
        (f"{DATA}/data/lib/libx.so", f"/site/{DATA}/data/lib/libx.so"),
        (f"{DATA}/scripts/tool", f"/site/{DATA}/scripts/tool"),
        ("pkg-1.0.DATA/platlib/_C.so", "/site/pkg-1.0.DATA/platlib/_C.so"),
        ("a/pkg.data/platlib/_C.so", "/site/a/pkg.data/platlib/_C.so"),
        ("pkg/../_C.so", "/site/_C.so"),
    ],
)
def test_where_a_member_is_installed(member: str, path: str) -> None:
    assert installed_path(member, "/site") == path


def test_data_are_relative_to_the_environment() -> None:
    assert installed_path(f"{DATA}/data/lib/libx.so", f"/venv/{SITE}") == "/venv/lib/libx.so"
    assert installed_path(f"{DATA}/data/{SITE}/_C.so", f"/venv/{SITE}") == f"/venv/{SITE}/_C.so"
    other = "lib/python3.9/site-packages"
    assert installed_path(f"{DATA}/data/{other}/_C.so", f"/venv/{SITE}") == f"/venv/{other}/_C.so"


def content_at(tmp_path: Path, names: tuple[str, ...], place: str = "/site/pkg/f") -> str | None:
    """What is at a place once a wheel is installed whose members each contain their number."""
    path = tmp_path / "pkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for number, name in enumerate((*names, INFO)):
            archive.writestr(name, str(number))
    files = Files()
    files.mount_archive(Wheel(path), "/site")
    source = files.find_source(place)
    return source.read_head(1).decode() if source else None


@pytest.mark.parametrize(
    ("names", "number"),
    [
        (("pkg/f", f"{DATA}/platlib/pkg/f"), "1"),
        ((f"{DATA}/platlib/pkg/f", "pkg/f"), "0"),
        ((f"{DATA}/data/{SITE}/pkg/f", "pkg/f"), "0"),
        (("pkg/f", f"{DATA}/platlib/pkg/F"), "0"),
        (("pkg/f", "pkg-1.0.DATA/platlib/pkg/f"), "0"),
    ],
)
def test_what_both_install(tmp_path: Path, names: tuple[str, ...], number: str) -> None:
    assert content_at(tmp_path, names) == number


def test_a_name_twice(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        assert content_at(tmp_path, ("pkg/f", "pkg/f")) == "1"


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (
            (f"{DATA}/purelib/pkg/f", f"{DATA}/platlib/pkg/f"),
            f"overwrites {DATA}/purelib/pkg/f with some",
        ),
        ((f"{DATA}/platlib/pkg/f", f"{DATA}/data/{SITE}/pkg/f"), f"overwrites {DATA}/platlib/pkg/f with some"),
        (("pkg/./f", "pkg/f"), "overwrites pkg/./f with some installers"),
        (("pkg/f", "other.data/platlib/pkg/f"), "elsewhere by pip than by uv, since the package is pkg-1.0"),
        (("pkg/f", "Pkg-1.0.data/platlib/pkg/f"), "elsewhere by pip than by uv, since the package is pkg-1.0"),
        (("pkg/f", f"{DATA}/PLATLIB/pkg/f"), "cannot be installed"),
        (("pkg/f", f"{DATA}/f"), "cannot be installed"),
        (("pkg/f", f"{DATA}/scripts/../../pkg/f"), "cannot be installed"),
    ],
)
def test_what_installers_disagree_on_or_refuse(tmp_path: Path, names: tuple[str, ...], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        content_at(tmp_path, names)


def test_the_same_bytes_twice(tmp_path: Path) -> None:
    path = tmp_path / "pkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("pkg/f", f"{DATA}/purelib/pkg/f", f"{DATA}/platlib/pkg/f", f"{DATA}/scripts/f"):
            archive.writestr(name, "f")
    assert list(Wheel(path).list_members()) == [f"{DATA}/platlib/pkg/f", f"{DATA}/scripts/f"]
