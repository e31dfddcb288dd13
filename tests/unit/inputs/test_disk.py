"""What a run looks at on this machine."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from abiscan.inputs import disk


def test_the_hash_of_a_file_that_is_rewritten_at_once_is_that_of_its_new_bytes(tmp_path: Path) -> None:
    file = tmp_path / "lib.so"
    for content in (b"old", b"new") * 20:  # as long, and in one tick of the system's clock
        file.write_bytes(content)
        assert disk.sha256(file) == hashlib.sha256(content).hexdigest()


def test_a_file_is_read_once_for_its_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, link = tmp_path / "lib.so", tmp_path / "link.so"
    file.write_bytes(b"content")
    os.link(file, link)
    later = time.time_ns() + 10**9  # the file is not fresh any more
    monkeypatch.setattr(time, "time_ns", lambda: later)
    digest = disk.sha256(file)
    monkeypatch.setattr(hashlib, "sha256", lambda: pytest.fail("it is read again"))
    assert disk.sha256(file) == disk.sha256(link) == digest
