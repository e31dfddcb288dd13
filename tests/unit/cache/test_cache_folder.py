from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from abiscan.cache import cache_folder
from abiscan.errors import InputError

DAY = 24 * 3600


def put(folder: Path, name: str, size: int = 1, *, days_ago: float = 0) -> Path:
    with cache_folder.replace_whole(folder / name) as part:
        part.write_bytes(os.urandom(size))
    os.utime(folder / name, (0, time.time() - days_ago * DAY))
    return folder / name


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_usage_and_clear(tmp_path: Path) -> None:
    assert cache_folder.measure_usage(tmp_path / "absent") == (0, 0)
    put(tmp_path, "1.headers", 5000)
    put(tmp_path, "2.headers", 5)
    put(tmp_path / "wheels", "1.data", 7)
    (tmp_path / "something else").write_bytes(b"stays")
    assert cache_folder.measure_usage(tmp_path) == (3, 5012)
    cache_folder.delete_all(tmp_path)
    assert names(tmp_path) == {"something else", "wheels"}
    assert cache_folder.measure_usage(tmp_path) == (0, 0)


def test_a_sparse_file_takes_what_is_written_of_it(tmp_path: Path) -> None:
    """As the parts of a wheel do, which is kept where it would be whole."""
    with (tmp_path / "sparse.data").open("wb") as stream:
        stream.seek(1 << 20)
        stream.write(b"end")
    status = (tmp_path / "sparse.data").stat()
    assert cache_folder.allocated_size(status) <= 64 << 10 < status.st_size
    # POSIX: st_blocks counts units of 512 bytes; Windows has none.
    assert cache_folder.allocated_size(SimpleNamespace(st_size=1000, st_blocks=1)) == 512  # type: ignore[arg-type]
    assert cache_folder.allocated_size(SimpleNamespace(st_size=1000, st_blocks=8)) == 1000  # type: ignore[arg-type]
    assert cache_folder.allocated_size(SimpleNamespace(st_size=1000)) == 1000  # type: ignore[arg-type]


def test_a_file_that_another_run_deletes_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = put(tmp_path, "1.headers", 5)
    monkeypatch.setattr(cache_folder, "_files_of_kinds", lambda *_: [there, tmp_path / "gone.headers"])
    assert cache_folder.measure_usage(tmp_path) == (2, 5)
    cache_folder.delete_all(tmp_path)
    assert names(tmp_path) == set()


def test_what_cannot_be_deleted_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(self: Path, *, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(self), missing_ok)

    put(tmp_path, "1.headers")
    monkeypatch.setattr(Path, "unlink", busy)
    with pytest.raises(InputError, match=r"cannot be cleared: Permission denied"):
        cache_folder.delete_all(tmp_path)


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    put(tmp_path, "old.answer", 4000, days_ago=3)
    put(tmp_path, "older.headers", 4000, days_ago=5)
    used = put(tmp_path, "oldest.answer", 4000, days_ago=9)
    cache_folder.note_use(used)
    cache_folder.set_limit(tmp_path, 9000)
    assert names(tmp_path) == {"limit", "old.answer", "oldest.answer"}
    assert cache_folder.read_limit(tmp_path) == 9000
    put(tmp_path, "new.answer", 4000)
    cache_folder.delete_oldest(tmp_path)
    assert names(tmp_path) == {"limit", "new.answer", "oldest.answer"}


def test_the_time_of_use_is_written_once_a_day(tmp_path: Path) -> None:
    file = put(tmp_path, "1.answer", days_ago=0.5)
    before = file.stat().st_mtime
    cache_folder.note_use(file)
    assert file.stat().st_mtime == before


def test_what_a_killed_run_left_behind_goes(tmp_path: Path) -> None:
    put(tmp_path, "left.part", days_ago=1)
    put(tmp_path, "being-written.part")
    cache_folder.delete_oldest(tmp_path)
    assert names(tmp_path) == {"being-written.part"}


@pytest.mark.parametrize("text", ["", "much", "\xff"])
def test_a_damaged_limit_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "limit").write_bytes(text.encode("latin-1"))
    assert cache_folder.read_limit(tmp_path) == cache_folder.DEFAULT_LIMIT


def test_a_limit_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match=r"file: cannot be written"):
        cache_folder.set_limit(tmp_path / "file", 1)


def test_what_fills_the_limit_exactly_stays(tmp_path: Path) -> None:
    for name, age in (("a.answer", 1), ("b.answer", 2)):
        put(tmp_path, name, 1 << 13, days_ago=age)
    assert list(cache_folder.list_oldest(tmp_path, 1 << 14, (".answer",))) == []
    assert list(cache_folder.list_oldest(tmp_path, (1 << 14) - 1, (".answer",))) == [tmp_path / "b.answer"]


def test_a_link_takes_nothing_of_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "a.answer").symlink_to(put(tmp_path, "large", 1 << 16))
    assert list(cache_folder.list_oldest(tmp_path / "cache", 1 << 12, (".answer",))) == []


def test_what_a_link_leads_to_is_not_read(tmp_path: Path) -> None:
    """Whoever may write into the folder could have another file of this user's read."""
    kept, link = tmp_path / "kept", tmp_path / "link"
    cache_folder.write_checked(kept, b"content")
    link.symlink_to(kept)
    assert cache_folder.read_checked(kept) == b"content"
    with pytest.raises(OSError, match="link"):
        cache_folder.read_checked(link)
