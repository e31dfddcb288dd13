from __future__ import annotations

import os
from pathlib import Path

import pytest

from abiscan.inputs import programs


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_what_can_be_read_once_is_kept_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("torch\n")
    for name in (str(file), os.devnull, str(tmp_path / "absent"), "https://example.org/requirements.txt", ""):
        assert programs.keep_content(name, stdin=False) == name
    reading, writing = os.pipe()
    os.write(writing, b"torch\n")
    os.close(writing)
    kept = programs.keep_content(f"/dev/fd/{reading}", stdin=False)
    os.close(reading)
    assert [Path(kept).read_text("utf-8") for _ in range(2)] == ["torch\n"] * 2
    os.close(int(kept.rpartition("/")[2]))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_each_program_reads_the_standard_input_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_is_stdin_kept", False)
    before = os.dup(0)
    try:
        reading, writing = os.pipe()
        os.write(writing, b"torch\n")
        os.close(writing)
        os.dup2(reading, 0)
        os.close(reading)
        assert programs.keep_content("-", stdin=True) == "-"
        printed = [programs.run_program(["cat"], capture_output=True).stdout for _ in range(2)]
        assert printed == ["torch\n"] * 2
    finally:
        os.dup2(before, 0)
        os.close(before)
