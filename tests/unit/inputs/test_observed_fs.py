"""What a run looks at on this machine."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from abiscan.inputs import observed_fs


def test_the_hash_of_a_file_that_is_rewritten_at_once_is_that_of_its_new_bytes(tmp_path: Path) -> None:
    file = tmp_path / "lib.so"
    for content in (b"old", b"new") * 20:  # as long, and in one tick of the system's clock
        file.write_bytes(content)
        assert observed_fs.hash_file(file) == hashlib.sha256(content).hexdigest()


def test_a_file_is_read_once_for_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, link = tmp_path / "lib.so", tmp_path / "link.so"
    file.write_bytes(b"content")
    os.link(file, link)
    later = time.time_ns() + 10**9  # the file is not fresh any more
    monkeypatch.setattr(time, "time_ns", lambda: later)
    digest = observed_fs.hash_file(file)
    monkeypatch.setattr(hashlib, "sha256", lambda: pytest.fail("it is read again"))
    assert observed_fs.hash_file(file) == observed_fs.hash_file(link) == digest


def test_a_walk_goes_by_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b/2", "b/1", "a/4", "a/3", "c"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()

    def backwards(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        entries = sorted(folder.iterdir(), reverse=True)
        subfolders = [entry.name for entry in entries if entry.is_dir()]
        yield str(folder), subfolders, [entry.name for entry in entries if entry.is_file()]
        for name in subfolders:
            yield from backwards(folder / name)

    monkeypatch.setattr(os, "walk", backwards)
    found = [
        Path(place, name).relative_to(tmp_path).as_posix()
        for place, _, names in observed_fs.walk_folder(tmp_path)
        for name in names
    ]
    assert found == ["c", "a/3", "a/4", "b/1", "b/2"]


@pytest.mark.parametrize("change", ["other content", "a new file", "a stub"])
def test_a_record_of_python_files_no_longer_stands_once_one_changes(tmp_path: Path, change: str) -> None:
    source = tmp_path / "package" / "module.py"
    source.parent.mkdir()
    source.write_text("a = 1", encoding="utf-8")
    (tmp_path / "package" / "data.txt").touch()
    with observed_fs.record_observations() as record:
        observed_fs.observe_sources(tmp_path)
    (tmp_path / "package" / "data.txt").write_text("is no source", encoding="utf-8")
    assert observed_fs.is_unchanged(record.seen)
    if change == "other content":
        source.write_text("a = 2", encoding="utf-8")
    else:
        source.with_suffix(".pyi" if change == "a stub" else ".x.py").touch()
    assert not observed_fs.is_unchanged(record.seen)


def test_a_record_of_names_stands_when_python_compiles_and_no_longer_when_a_file_comes(tmp_path: Path) -> None:
    with observed_fs.record_observations() as record:
        assert observed_fs.list_names(tmp_path) == []
    (tmp_path / "__pycache__").mkdir()
    assert observed_fs.is_unchanged(record.seen)
    (tmp_path / "module.py").touch()
    assert not observed_fs.is_unchanged(record.seen)


def test_a_large_file_is_known_by_its_last_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed_fs, "_LARGE", 5)
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"1234")
    large.write_bytes(b"12345")
    # As the first of two changes within a tick of the clock would look like the second, it is hashed for now.
    assert observed_fs.identify_content(large) == hashlib.sha256(b"12345").hexdigest()
    later = time.time_ns() + 1_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later)
    assert observed_fs.identify_content(small) == hashlib.sha256(b"1234").hexdigest()
    known = observed_fs.identify_content(large)
    assert known == observed_fs.identify_content(large) != hashlib.sha256(b"12345").hexdigest()
    before = large.stat()
    large.write_bytes(b"54321")
    os.utime(large, ns=(before.st_atime_ns, before.st_mtime_ns))  # what is not set back is the time of that
    assert observed_fs.identify_content(large) != known
