"""The benchmarks' command line: they themselves take minutes, and run by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import run


@pytest.mark.parametrize(
    ("words", "fetched"),
    [(["--large"], [run.LARGE]), (["--large", "other.whl"], []), (["its.whl", "--large"], [run.LARGE])],
)
def test_large_without_a_wheel_means_the_one_to_download(
    words: list[str], fetched: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads: list[str] = []

    def download(requirement: str, folder: Path) -> Path:
        downloads.append(requirement)
        return folder / "fetched.whl"

    monkeypatch.setattr(run, "download", download)
    monkeypatch.setattr(run, "library", lambda wheel, _: wheel)
    measured: list[str] = []
    monkeypatch.setattr(run, "measure", lambda command, _: measured.append(command[-1]))
    run._large(run.parsed(words).large, tmp_path, {})
    assert downloads == fetched
    assert measured == [str(tmp_path / "fetched.whl") if fetched else "other.whl"]
