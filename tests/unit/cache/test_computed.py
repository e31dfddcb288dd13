from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from abiscan.cache.computed import KeptKind, get_or_compute

NUMBERS: KeptKind[list[int]] = KeptKind(
    suffix=".content", version=1, encode=lambda value: json.dumps(value).encode(), decode=json.loads
)
DAY = 24 * 3600


def never() -> list[int]:
    pytest.fail("it is computed again")


def the_file(folder: Path) -> Path:
    (path,) = folder.glob("*.content")
    return path


def test_what_was_computed_is_kept(tmp_path: Path) -> None:
    assert get_or_compute(tmp_path, NUMBERS, "a", lambda: [1]) == [1]
    assert get_or_compute(tmp_path, NUMBERS, "a", never) == [1]
    assert get_or_compute(tmp_path, NUMBERS, "b", lambda: [2]) == [2]


def test_another_version_is_computed_anew(tmp_path: Path) -> None:
    get_or_compute(tmp_path, NUMBERS, "a", lambda: [1])
    newer = KeptKind(suffix=NUMBERS.suffix, version=2, encode=NUMBERS.encode, decode=NUMBERS.decode)
    assert get_or_compute(tmp_path, newer, "a", lambda: [3]) == [3]


def test_what_is_used_is_not_the_first_to_go(tmp_path: Path) -> None:
    get_or_compute(tmp_path, NUMBERS, "a", lambda: [1])
    before = time.time() - 9 * DAY
    os.utime(the_file(tmp_path), (before, before))
    get_or_compute(tmp_path, NUMBERS, "a", never)
    assert time.time() - the_file(tmp_path).stat().st_mtime < DAY


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"x" * 80), lambda path: path.write_bytes(b"")])
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    get_or_compute(tmp_path, NUMBERS, "a", lambda: [1])
    damage(the_file(tmp_path))
    assert get_or_compute(tmp_path, NUMBERS, "a", lambda: [1]) == [1]
    assert get_or_compute(tmp_path, NUMBERS, "a", never) == [1]


def test_an_error_is_not_kept(tmp_path: Path) -> None:
    def fail() -> list[int]:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        get_or_compute(tmp_path, NUMBERS, "a", fail)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert get_or_compute(tmp_path / "file", NUMBERS, "a", lambda: [1]) == [1]
