"""What goes on is shown on a terminal, after a second, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from abiscan.cli import common

CODE = """
import time
from abiscan.cli import common
common._PATIENCE_SECONDS = {patience}
with common.working("reading [red]files") as progress:
    progress("reading [red]others")
    time.sleep({takes})
print("done")
"""


@pytest.mark.parametrize(("patience", "takes", "shown"), [(0.1, 1.5, True), (30, 0.0, False)])
def test_a_terminal_shows_what_takes_long(patience: float, takes: float, *, shown: bool) -> None:
    ours, theirs = pty.openpty()
    code = CODE.format(patience=patience, takes=takes)
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=theirs, check=False
    )
    os.write(theirs, b"end")
    os.close(theirs)
    said = os.read(ours, 65_536).decode()
    os.close(ours)
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert ("reading [red]others" in said) == shown
    assert shown or said == "end"


def test_a_pipe_shows_nothing() -> None:
    code = CODE.format(patience=0.0, takes=0.2)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"done\n", b"")


def test_a_bug_in_a_view_is_no_finding(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 means a finding; whatever breaks while a report is written must not look like one."""

    class Broken:
        def to_json(self) -> str:
            raise KeyError("of the view")

    with pytest.raises(SystemExit) as ended:
        common.write(Broken(), "json", None, {})
    assert ended.value.code == 3
    assert "internal error, please report it: KeyError: 'of the view'" in capsys.readouterr().err
