"""Commands that are stopped: the exit code says by what, and nothing is left of them."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.commands.processes import Running, children, is_alive, on_terminal, program, start, wait
from tests.fakes import extension

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

# Makes the process that reads a target busy for good: itself, or with a program that it has started.
BUSY: Final = {
    "python": "while True: pass",
    "program": "import subprocess; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])",
}
BEFORE: Final = """
import os, sys, tempfile
from abiscan.inputs import sources
def busy(path, location, source):
    tempfile.mkdtemp()
    {act}
sources._make_extension = busy
"""
COMMANDS: Final = {
    "check": ("check", "a.so", "b.so", "--torch", "2.13.0", "--jobs", "2", "--output", "out"),
    "matrix": ("matrix", "a.so", "b.so", "--torch", "2.12.1", "--torch", "2.13.0", "--jobs", "2", "--output", "out"),
    "matrix-1": ("matrix", "a.so", "--torch", "2.13.0", "--jobs", "1"),
    "ops": ("ops", "a.so"),
    "coverage": ("coverage", "a.so", "--torch", "2.13.0"),
    "diff": ("diff", "2.12.1", "2.13.0", "--used-by", "a.so"),
    "stable": ("stable", "a.so"),
    "no-isolation": ("--no-isolation", "matrix", "a.so", "b.so", "--torch", "2.13.0", "--output", "out"),
}
FEW: Final = ("check", "no-isolation")
"""With workers, and without."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with libraries, and one for temporary files."""
    for name in ("a.so", "b.so"):
        extension().write(tmp_path / name)
    (tmp_path / "tmp").mkdir()
    return tmp_path


def before(act: str) -> str:
    return BEFORE.format(act=BUSY[act])


def is_busy(folder: Path) -> bool:
    """Whether it has made a temporary file."""
    return any(folder.glob("tmp/*/*"))


def ends(running: Running, folder: Path, number: signal.Signals, *, group: bool) -> None:
    """Stop a command, and require that it ends as it should, with all of its processes and temporary files."""
    members = running.members()
    running.send(number, group=group)
    done = running.finish(30)
    assert (done.code, done.out, done.err) == (128 + number, "", "")
    assert wait(lambda: not any(map(is_alive, members)), 30)
    assert list((folder / "tmp").iterdir()) == []
    assert {path.name for path in folder.iterdir()} - {"answers"} == {"a.so", "b.so", "tmp"}


@pytest.mark.parametrize(
    ("name", "number", "group"),
    [
        *((name, signal.SIGINT, True) for name in COMMANDS),  # Ctrl-C
        *(
            pytest.param(name, number, False, marks=[] if name in FEW else pytest.mark.long)
            for name in COMMANDS
            for number in (signal.SIGINT, signal.SIGTERM)
        ),
    ],
)
def test_a_signal_ends_a_command(folder: Path, name: str, number: signal.Signals, *, group: bool) -> None:
    environment = {"TMPDIR": str(folder / "tmp")}
    with start(*COMMANDS[name], cwd=folder, env=environment, before=before("python")) as running:
        running.wait_until(lambda: is_busy(folder))
        ends(running, folder, number, group=group)


@pytest.mark.parametrize("isolation", [(), ("--no-isolation",)])
def test_with_the_programs_that_it_has_started(folder: Path, isolation: tuple[str, ...]) -> None:
    words, environment = (*isolation, *COMMANDS["ops"]), {"TMPDIR": str(folder / "tmp")}
    with start(*words, cwd=folder, env=environment, before=before("program")) as running:
        running.wait_until(lambda: is_busy(folder) and len(running.members()) == 2 + (not isolation))
        ends(running, folder, signal.SIGINT, group=False)


def survey(folder: Path, jobs: int) -> tuple[str, ...]:
    """A survey whose workers wait for a pipe that nobody writes to."""
    for name in ("a.so", "b.so"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
    return "survey", "a.so", "b.so", "--torch", "2.13.0", "--output", "answers", "--jobs", str(jobs)


@pytest.mark.parametrize(
    ("number", "group", "jobs"),
    [
        (signal.SIGINT, True, 1),
        (signal.SIGINT, True, 2),
        (signal.SIGTERM, False, 2),
        pytest.param(signal.SIGINT, False, 1, marks=pytest.mark.long),
        pytest.param(signal.SIGINT, False, 2, marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, False, 1, marks=pytest.mark.long),
    ],
)
def test_a_signal_ends_a_survey(folder: Path, jobs: int, number: signal.Signals, *, group: bool) -> None:
    with start(*survey(folder, jobs), cwd=folder, env={"TMPDIR": str(folder / "tmp")}) as running:
        running.wait_until(lambda: len(children(running.pid)) == jobs)
        ends(running, folder, number, group=group)
    assert (folder / "answers").read_text() == ""


@pytest.mark.parametrize("name", ["matrix", "survey"])
def test_workers_do_not_outlive_a_command_that_is_killed(folder: Path, name: str) -> None:
    """Whenever: also while they are being started."""
    busy = (
        "from abiscan.pipelines import matrix\ndef judge(*_, **__):\n    while True: pass\nmatrix.judge_on_all = judge"
    )
    words, code = (survey(folder, 2), None) if name == "survey" else (COMMANDS[name], busy)
    with start(*words, cwd=folder, env={"TMPDIR": str(folder / "tmp")}, before=code) as running:
        running.wait_until(lambda: len(running.members()) > 2)
        members = running.members()
        running.send(signal.SIGKILL)
        assert running.finish().code == -signal.SIGKILL
        assert wait(lambda: not any(map(is_alive, members)), 60)


def test_ctrl_c_on_a_terminal(folder: Path) -> None:
    """Twice, as impatient people do: the cursor, which the display of progress has hidden, is back."""
    words = ("check", "a.so", "--torch", "2.13.0")
    done = on_terminal(*words, cwd=folder, before=before("python"), typed=[("\x1b[?25l", "\x03\x03")])
    assert done.code == 130
    assert done.out.endswith("\x1b[?25h")
    assert "Traceback" not in done.out
    assert "Aborted" not in done.out


def test_a_signal_that_is_ignored_stays_so(folder: Path) -> None:
    """As in a job that a script puts into the background, or after ``nohup``."""
    ignoring = ["sh", "-c", 'trap "" INT HUP; : > ready; exec "$@"', "sh"]
    with start(*program("explain"), cwd=folder, command=ignoring) as running:
        running.wait_until((folder / "ready").exists)
        running.send(signal.SIGINT, group=True)
        assert running.finish().code == 0


def test_pip_gets_the_signal_and_its_exit_code_is_kept(folder: Path) -> None:
    """What installs takes the place of abiscan; what only asks pip beforehand is ended with it."""
    site = folder / "site"
    (site / "pip").mkdir(parents=True)
    code = f"import pathlib, time\npathlib.Path({str(folder / 'ready')!r}).touch()\ntime.sleep(600)\n"
    (site / "pip" / "__init__.py").write_text("")
    (site / "pip" / "__main__.py").write_text(code)
    for words, expected in ((("install", "x"), 130), (("download", "x"), -signal.SIGINT)):
        with start("pip", *words, cwd=folder, env={"PYTHONPATH": str(site)}) as running:
            running.wait_until((folder / "ready").exists)
            (folder / "ready").unlink()
            members = running.members()
            running.send(signal.SIGINT)
            assert running.finish(30).code == expected
            assert wait(lambda members=members: not any(map(is_alive, members)), 30)  # type: ignore[misc]


def test_an_interrupt_reaches_who_calls_the_library(folder: Path) -> None:
    code = """
import sys, abiscan
print("ready", flush=True)
try:
    while True: abiscan.operators("a.so")
except KeyboardInterrupt:
    sys.exit(7)
"""
    with start("-c", code, cwd=folder, command=[sys.executable]) as running:
        running.wait_until(lambda: bool(running.out))
        running.send(signal.SIGINT)
        assert running.finish(30).code == 7
        assert running.err == ""


def test_an_interrupt_of_a_survey_reaches_who_calls_the_library(folder: Path) -> None:
    words = survey(folder, 2)
    code = f"""
import sys, abiscan
try:
    abiscan.survey({words[1:3]!r}, "2.13.0", output="answers", jobs=2)
except KeyboardInterrupt:
    sys.exit(7)
"""
    with start("-c", code, cwd=folder, command=[sys.executable]) as running:
        running.wait_until(lambda: len(children(running.pid)) == 2)
        members = running.members() - {running.pid}
        running.send(signal.SIGINT)
        assert running.finish(30).code == 7
        assert running.err == ""
        assert not any(map(is_alive, members))
