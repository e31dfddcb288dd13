from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from abiscan.cli import process


@pytest.mark.parametrize("of_user", ["/var/tmp", None])
def test_temporary_files_go_where_the_user_says_afterwards(
    of_user: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "is_own", lambda: True)
    if of_user is None:
        monkeypatch.delenv("TMPDIR", raising=False)
    else:
        monkeypatch.setenv("TMPDIR", of_user)
    with process.scratch_folder():
        folder = Path(tempfile.gettempdir())
        assert folder == Path(os.environ["TMPDIR"])
        assert folder.is_dir()
    assert not folder.exists()
    assert os.environ.get("TMPDIR") == of_user
