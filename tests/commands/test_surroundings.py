"""Commands in the surroundings that they are started in: ignored signals, a deleted folder, low limits, no locks."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.processes import ABISCAN, Finished, program, run
from tests.fakes import extension

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

CHECK = ("check", "x.so", "--torch", "2.13.0")
SURVEY = ("survey", "x.so", "--torch", "2.13.0", "--output", "out.jsonl", "-q")

BEGIN = """
import os, resource, signal, sys
{act}
os.execv(sys.argv[1], sys.argv[1:])
"""

NO_PROCESS = """
import errno, os, subprocess
def refuse(*arguments):
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
os.fork = subprocess._fork_exec = refuse
"""


def after(act: str, *words: str, cwd: Path, **options: str) -> Finished:
    """Run a command as a parent starts it that has done something before."""
    return run(*words, cwd=cwd, command=(sys.executable, "-c", BEGIN.format(act=act), *ABISCAN), env=options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    extension().write(tmp_path / "x.so")
    return tmp_path


@pytest.mark.parametrize(
    "act",
    [
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
        "[signal.signal(number, signal.SIG_IGN) for number in signal.valid_signals() - {9, 19, 32, 33}]",
        "[os.close(number) for number in (0, 2)]",
    ],
)
def test_inherited_signals_and_streams(folder: Path, act: str) -> None:
    done = after(act, *CHECK, cwd=folder)
    assert (done.code, done.out, done.err) == (0, "x.so: loads on torch 2.13.0+cpu\n", "")


ENDLESS = """
import signal
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
from abiscan.inputs import isolation, sources
isolation.CPU_SECONDS = 1
def make_endless(*arguments):
    while True: pass
sources._make_extension = make_endless
"""


def test_ignored_limit_of_time_still_ends_the_process(folder: Path) -> None:
    """A parent that ignores SIGXCPU must not take the limit from a target that never ends."""
    done = run(*CHECK, cwd=folder, before=ENDLESS)
    assert done.code == 3
    assert "it takes more than 1 s of processor time" in done.err


def test_inherited_limit_of_time(folder: Path) -> None:
    """As after ``ulimit -t 2``: the system kills the process, and nothing but the limit tells why."""
    begin = (sys.executable, "-c", BEGIN.format(act="resource.setrlimit(resource.RLIMIT_CPU, (2, 2))"))
    done = run(
        cwd=folder, command=(*begin, *program(*CHECK, before=ENDLESS.replace("CPU_SECONDS = 1", "CPU_SECONDS = 9")))
    )
    assert done.code == 3
    assert "or takes more than the 2 s of processor time that ulimit -t allows" in done.err


@pytest.mark.parametrize("words", [CHECK, ("doctor",), ("pip", "install", "x"), SURVEY])
def test_deleted_current_folder(folder: Path, words: tuple[str, ...]) -> None:
    gone = folder / "gone"
    gone.mkdir()
    done = after(f"os.rmdir({str(gone)!r})", *words, cwd=gone)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("abiscan: the current folder: cannot be used: No such file or directory (")


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
@pytest.mark.skipif(os.geteuid() != 0, reason="gives up rights that only root has")
def test_current_folder_without_rights(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0)
    rights = "-dac_override,-dac_read_search"
    begin = ("setpriv", "--bounding-set", rights, "--inh-caps", rights)
    done = run("check", str(folder / "x.so"), "--torch", "2.13.0", cwd=closed, command=(*begin, *ABISCAN))
    assert (done.code, done.out) == (2, "")
    assert done.err == "abiscan: the current folder: cannot be used: Permission denied (change to another)\n"


def test_help_needs_no_current_folder(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    assert after(f"os.rmdir({str(gone)!r})", "check", "--help", cwd=gone).code == 0


@pytest.mark.parametrize(
    ("limit", "amount", "notice"),
    [
        ("RLIMIT_NOFILE", 8, "abiscan: the limit of 8 open files is too low (raise it: ulimit -n 1024)\n"),
        (
            "RLIMIT_STACK",
            100 << 10,
            "abiscan: the limit of 102400 bytes of stack is too low (raise it: ulimit -s 8192)\n",
        ),
    ],
)
def test_limit_that_is_too_low(folder: Path, limit: str, amount: int, notice: str) -> None:
    done = after(f"resource.setrlimit(resource.{limit}, ({amount}, {amount}))", *CHECK, cwd=folder)
    assert (done.code, done.out, done.err) == (2, "", notice)


def test_too_little_memory_to_begin(folder: Path) -> None:
    done = after("resource.setrlimit(resource.RLIMIT_DATA, (16 << 20, 16 << 20))", *CHECK, cwd=folder)
    assert done.code == 2
    assert "Traceback" not in done.err
    assert "abiscan: " in done.err
    assert "ulimit -d" in done.err


DYING = """
import os
from abiscan.inputs import isolation
act = isolation.{where}
def die(*arguments):
    act(*arguments)
    os.kill(os.getpid(), {number})
isolation.{where} = die
"""


@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGKILL, "perhaps because it ran out of memory"), (signal.SIGSEGV, "the process died of SIGSEGV")],
)
@pytest.mark.parametrize("where", ["limit_memory", "finish_targets"])
def test_process_that_dies_outside_of_targets(folder: Path, where: str, number: int, reason: str) -> None:
    done = run(*CHECK, cwd=folder, before=DYING.format(where=where, number=number))
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("abiscan: the process that reads targets was stopped, and no target is at fault: ")
    assert reason in done.err


@pytest.mark.parametrize("words", [CHECK, SURVEY, ("doctor",), ("pip", "install", "x")])
def test_no_process_can_be_started(folder: Path, words: tuple[str, ...]) -> None:
    done = run(*words, cwd=folder, before=NO_PROCESS)
    assert (done.code, done.out) == (2, "")
    assert "Resource temporarily unavailable (end some processes, or raise the limit" in done.err


NO_BRANCH = """
import os
from abiscan.inputs import branches
def refuse(): raise OSError(11, "no more")
class System:
    def __getattr__(self, name): return refuse if name == "fork" else getattr(os, name)
branches.os = System()
"""


def test_work_is_done_here_where_no_branch_can_be_started(folder: Path) -> None:
    words = ("matrix", "x.so", "--format", "json")
    alone, together = (run(*words, "--jobs", jobs, cwd=folder, before=NO_BRANCH) for jobs in ("1", "4"))
    assert alone.code == together.code != 3
    assert alone.out == together.out


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_survey_in_a_folder_without_locks(folder: Path, number: int) -> None:
    """As on some network folders: flock fails, whoever else is there."""
    (folder / "flock.c").write_text(f"#include <errno.h>\nint flock(int f, int o) {{ errno = {number}; return -1; }}\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "flock.so", "flock.c"], cwd=folder, check=True)
    done = run(*SURVEY, cwd=folder, env={"LD_PRELOAD": str(folder / "flock.so")})
    assert (done.code, done.err) == (0, "")
    assert [json.loads(line)["target"] for line in (folder / "out.jsonl").read_text().splitlines()] == ["x.so"]


FULL = """
import resource
from abiscan.cli import supervisor
encode = supervisor.result_codec.encode_result
def encode_full(result):
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    return encode(result)
supervisor.result_codec.encode_result = encode_full
"""


@pytest.mark.long
def test_full_folder_for_temporary_files(folder: Path) -> None:
    """A limit on the size of files fails where a full disk does: as the result is handed over."""
    reading, writing = os.pipe()  # a file could not be written either
    with os.fdopen(reading) as notices:
        done = run("doctor", cwd=folder, before=FULL, stderr=writing)
        os.close(writing)
        assert done.code == 2
        assert "abiscan: the folder for temporary files: cannot be written: File too large (" in notices.read()
