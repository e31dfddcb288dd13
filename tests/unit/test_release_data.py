"""Which data are read: those that came with abiscan, or those of a newer ``abiscan-data`` of the same format."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import abiscan
from abiscan import release_data

PACKAGE = Path(abiscan.__file__).parent


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which abiscan has data 1.3."""
    put(tmp_path / "abiscan", "1.3")
    monkeypatch.setattr(release_data, "_OWN", tmp_path / "abiscan")
    release_data.root.cache_clear()
    yield tmp_path
    release_data.root.cache_clear()


def put(package: Path, version: str) -> None:
    folder = package / "torches" / "data"
    folder.mkdir(parents=True)
    (folder / "version.txt").write_text(f"{version}\n")


def test_without_newer_data_its_own_are_read(site: Path) -> None:
    assert release_data.folder("torches") == site / "abiscan/torches/data"
    assert release_data.installed_version() is None


@pytest.mark.parametrize(
    ("installed", "used"),
    [("1.4", True), ("1.12", True), ("1.3", False), ("1.2", False), ("0.9", False), ("2.0", False), ("damaged", False)],
)
def test_installed_data(site: Path, installed: str, used: bool) -> None:
    put(site / "abiscan_data", installed)
    assert (release_data.root() == site / "abiscan_data") is used
    assert str(release_data.used_version()) == (installed if used else "1.3")


def test_what_tools_write_is_what_the_distribution_has() -> None:
    """All rooms whose data the tool for releases writes are those that ``abiscan-data`` is made of."""
    from tools.release import OUTPUTS

    written = {path.relative_to(PACKAGE).parts[:2] for path in OUTPUTS}
    assert written == {(room, "data") for room in release_data.ROOMS}
    project = (PACKAGE.parent / "tools/data_package/pyproject.toml").read_text("utf-8")
    for room in release_data.ROOMS:
        assert f'"../../abiscan/{room}/data" = "abiscan_data/{room}/data"' in project


@pytest.mark.parametrize(("version", "said"), [("1.999", "(data 1.999)"), ("9.0", "abiscan-data 9.0 is not used: ")])
def test_the_command_names_the_version_of_newer_data(tmp_path: Path, version: str, said: str) -> None:
    """A copy of abiscan with ``abiscan_data`` in the same folder; that of the working directory does not count."""
    shutil.copytree(
        PACKAGE, tmp_path / "site/abiscan", copy_function=os.link, ignore=shutil.ignore_patterns("__pycache__")
    )
    other = tmp_path / "site/abiscan_data"
    for room in release_data.ROOMS:
        shutil.copytree(PACKAGE / room / "data", other / room / "data", copy_function=os.link)
    file = other / "torches/data/version.txt"
    file.unlink()
    file.write_text(version)
    shutil.copytree(PACKAGE / "torches/data", tmp_path / "abiscan_data/torches/data", copy_function=os.link)
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); from abiscan.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "releases"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert said in done.stderr
    assert done.stdout.startswith("1.4.0 ")
