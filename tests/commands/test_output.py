"""Where reports go: what a user names is never destroyed, and a write that fails says so."""

from __future__ import annotations

import os
import pty
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.commands.processes import Finished, on_terminal, program, run
from tests.fakes import SAMPLES, extension

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")

SAMPLE = SAMPLES / "loads" / "loads.so"
CHECK = ("check", "x.so", "--torch", "2.13.0", "-q")
REPORT = "x.so: loads on torch 2.13.0+cpu\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a library, to run commands in."""
    shutil.copyfile(SAMPLE, tmp_path / "x.so")
    return tmp_path


def check(folder: Path, *words: str | Path, **options: object) -> Finished:
    return run(*CHECK, *words, cwd=folder, **options)  # type: ignore[arg-type]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def received(path: Path, written: list[bytes]) -> threading.Thread:
    """A thread that reads a pipe to its end."""
    reader = threading.Thread(target=lambda: written.append(path.read_bytes()))
    reader.start()
    return reader


def test_a_new_file_has_the_permissions_of_one(folder: Path) -> None:
    words = [*program(*CHECK, "--output", "out.txt")]
    done = subprocess.run(["sh", "-c", 'umask 027; exec "$@"', "sh", *words], cwd=folder, check=False)
    assert done.returncode == 0
    assert stat.S_IMODE((folder / "out.txt").stat().st_mode) == 0o640
    assert (folder / "out.txt").read_text() == REPORT
    assert names(folder) == {"x.so", "out.txt"}


def test_a_file_is_replaced_and_keeps_its_permissions(folder: Path) -> None:
    out = folder / "out.txt"
    out.write_text("old")
    out.chmod(0o604)
    before = out.stat().st_ino
    assert check(folder, "--output", "out.txt") == Finished(code=0, out="", err="")
    assert (out.read_text(), stat.S_IMODE(out.stat().st_mode)) == (REPORT, 0o604)
    assert out.stat().st_ino != before
    assert names(folder) == {"x.so", "out.txt"}


def test_a_link_stays_and_what_it_leads_to_is_written(folder: Path) -> None:
    (folder / "reports").mkdir()
    (folder / "reports" / "old.txt").write_text("old")
    (folder / "first").symlink_to("reports/second")
    (folder / "reports" / "second").symlink_to("old.txt")
    (folder / "dangling").symlink_to("reports/new.txt")
    for link in ("first", "dangling"):
        assert check(folder, "--output", link) == Finished(code=0, out="", err="")
        assert (folder / link).is_symlink()
        assert (folder / link).read_text() == REPORT
    assert names(folder / "reports") == {"second", "old.txt", "new.txt"}


@pytest.mark.parametrize("isolation", [(), ("--no-isolation",)])
def test_a_pipe_receives_the_report(folder: Path, isolation: tuple[str, ...]) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("pipe")
    written: list[bytes] = []
    reader = received(folder / "pipe", written)
    assert run(*isolation, *CHECK, "--output", "link", cwd=folder) == Finished(code=0, out="", err="")
    reader.join()
    assert written == [REPORT.encode()]
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)


def test_a_device_is_written_and_stays(folder: Path) -> None:
    nodes = {"null": os.makedev(1, 3), "full": os.makedev(1, 7)}
    try:
        for name, device in nodes.items():
            os.mknod(folder / name, stat.S_IFCHR | 0o666, device)
        (folder / "null").write_bytes(b"")
    except PermissionError:
        pytest.skip("needs the right to make devices")
    assert check(folder, "--output", "null", "--report", "json=null") == Finished(code=0, out="", err="")
    done = check(folder, "--output", "full")
    assert (done.code, "full: cannot be written: No space left on device" in done.err) == (2, True)
    assert [(folder / name).stat().st_rdev for name in nodes] == list(nodes.values())
    assert names(folder) == {"x.so", "null", "full"}


@pytest.mark.parametrize(
    "name",
    ["/dev/stdout", "link", *(pytest.param(f"{fd}/1", marks=pytest.mark.long) for fd in ("/proc/self/fd", "/dev/fd"))],
)
def test_the_own_stdout(folder: Path, name: str) -> None:
    (folder / "link").symlink_to("/dev/stdout")
    assert check(folder, "--output", name) == Finished(code=0, out=REPORT, err="")
    with (folder / "log").open("ab") as log:
        log.write(b"before\n")
        log.flush()
        assert check(folder, "--output", name, stdout=log).code == 0
    assert (folder / "log").read_text() == f"before\n{REPORT}"
    shown = on_terminal(*CHECK, "--output", name, cwd=folder, streams=["stdout"])
    assert (shown.code, shown.out) == (0, REPORT.replace("\n", "\r\n"))


def test_a_terminal_that_is_named(folder: Path) -> None:
    ours, theirs = pty.openpty()
    assert check(folder, "--output", os.ttyname(theirs)).code == 0
    assert os.read(ours, 1 << 10).decode() == REPORT.replace("\n", "\r\n")
    os.close(theirs)
    os.close(ours)


WRONG = [
    ("reports", "reports: cannot be written: it is a folder (name a file in it, such as reports/report)"),
    ("reports/", "reports/ is not the name of a file; type reports/report"),
    ("folder_link", "folder_link: cannot be written: it is a folder (name a file in it, such as folder_link/report)"),
    ("loop", "loop: cannot be written: Too many levels of symbolic links"),
    ("absent/a.txt", "/absent does not exist (mkdir -p "),
    ("x.so", "x.so: is a library or an archive, which the output would replace (name another file)"),
    ("hard_link", "hard_link: is a library or an archive"),
    ("link_to_target", "link_to_target: is a library or an archive"),
    ("/proc/1/fd/1", "is a descriptor of another process"),
]


@pytest.mark.parametrize(("name", "problem"), WRONG)
def test_what_is_nothing_to_write_to_is_said_first_and_stays(folder: Path, name: str, problem: str) -> None:
    (folder / "reports").mkdir()
    (folder / "folder_link").symlink_to("reports")
    (folder / "loop").symlink_to("loop")
    os.link(folder / "x.so", folder / "hard_link")
    (folder / "link_to_target").symlink_to("x.so")
    before = names(folder)
    for option, value in (("--output", name), ("--report", f"json={name}"))[: 2 if name == "x.so" else 1]:
        done = check(folder, option, value)
        assert (done.code, done.out) == (2, "")
        assert problem in done.err
        assert option in done.err
    assert names(folder) == before
    assert (folder / "x.so").read_bytes() == SAMPLE.read_bytes()


def test_what_is_read_is_not_replaced_and_each_report_has_its_own_file(folder: Path) -> None:
    (folder / "list.txt").write_text("x.so\n")
    (folder / "operators.txt").write_text("aten::add\n")
    cases = [
        (("survey", "list.txt", "--output", "list.txt"), "--output would replace list.txt, which is read"),
        (("coverage", "x.so", "--workload", "operators.txt", "--output", "./operators.txt"), "would replace"),
        (("fit", "-r", "list.txt", "--output", "list.txt"), "would replace list.txt, which is read"),
        ((*CHECK, "--output", "new", "--report", "json=./new"), "--output and --report name the same file, new"),
    ]
    for words, problem in cases:
        done = run(*words, cwd=folder)
        assert (done.code, problem in done.err) == (2, True), done
    assert names(folder) == {"x.so", "list.txt", "operators.txt"}
    assert (folder / "list.txt").read_text() == "x.so\n"


def test_a_trace_replaces_no_library(folder: Path) -> None:
    done = run("--trace", "x.so", *CHECK, cwd=folder)
    assert (done.code, "x.so: is a library or an archive" in done.err) == (2, True)
    assert (folder / "x.so").read_bytes() == SAMPLE.read_bytes()


def test_a_baseline_may_be_brought_up_to_date(folder: Path) -> None:
    assert check(folder, "--format", "json", "--output", "known.json").code == 0
    before = (folder / "known.json").read_bytes()
    words = ("--format", "json", "--baseline", "known.json", "--output", "known.json")
    assert check(folder, *words) == Finished(code=0, out="", err="")
    assert (folder / "known.json").read_bytes() == before


def test_a_survey_takes_only_its_own_file(folder: Path) -> None:
    (folder / "notes.txt").write_text("one line, without an end")
    os.mkfifo(folder / "pipe")
    for name, problem in (("notes.txt", "line 1 is not an answer"), ("pipe", "is not a regular file")):
        done = run("survey", "x.so", "--torch", "2.13.0", "--output", name, cwd=folder)
        assert (done.code, problem in done.err) == (2, True), done
    assert (folder / "notes.txt").read_text() == "one line, without an end"


@pytest.mark.skipif(os.geteuid() == 0, reason="needs a user who is not root")
def test_files_and_folders_that_are_read_only(folder: Path) -> None:
    (folder / "out.txt").write_text("old")
    (folder / "out.txt").chmod(0o444)
    assert check(folder, "--output", "out.txt").code == 2
    (folder / "out.txt").chmod(0o644)
    folder.chmod(0o555)
    assert check(folder, "--output", "new.txt").code == 2
    assert check(folder, "--output", "out.txt").code == 0
    folder.chmod(0o755)
    assert (folder / "out.txt").read_text() == REPORT


COMMANDS = [CHECK, ("--help",), ("check", "--help"), ("--version",), ("explain",), ("releases",), ("ops", "x.so")]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_full_disk_behind_stdout(folder: Path, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = run(*words, cwd=folder, stdout=full)
    assert done.code == 2
    assert "abiscan: stdout: cannot be written: No space left on device\n" in done.err
    assert "Exception ignored" not in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("words", [CHECK, ("releases",), ("--help",)], ids=" ".join)
def test_a_reader_who_has_seen_enough(folder: Path, words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = run(*words, cwd=folder, stdout=writing)
    os.close(writing)
    assert done == Finished(code=141, out="", err="")


def test_closed_streams(folder: Path) -> None:
    closed = ["sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh"]
    assert run(*program(*CHECK), cwd=folder, command=closed).code == 2
    assert run(*program(*CHECK, "--output", "out.txt"), cwd=folder, command=closed).code == 0
    assert (folder / "out.txt").read_text() == REPORT
    for unbuffered in (None, "1"):  # what is left in a buffer is written once more in the end
        with Path("/dev/full").open("wb") as full:
            done = run("check", "absent.so", cwd=folder, stderr=full, env={"PYTHONUNBUFFERED": unbuffered})
        assert done.code == 2


def test_a_folder_that_was_deleted(folder: Path) -> None:
    script = 'mkdir gone; cd gone; rmdir ../gone; exec "$@"'
    done = run(
        *program("check", folder / "x.so", "--torch", "2.13.0", "--output", "out.txt"),
        cwd=folder,
        command=["sh", "-c", script, "sh"],
    )
    assert (done.code, "internal error" in done.err, "Traceback" in done.err) == (2, False, False)


def test_a_view_that_fails_leaves_the_old_report(folder: Path) -> None:
    (folder / "out.json").write_text("old")
    before = "from abiscan.results import check\ncheck.Report.to_json = lambda report: 1 / 0"
    done = check(folder, "--format", "json", "--output", "out.json", before=before)
    assert done.code == 3
    assert (folder / "out.json").read_text() == "old"
    assert names(folder) == {"x.so", "out.json"}


def test_a_process_that_dies_while_it_writes_leaves_the_old_report(folder: Path) -> None:
    (folder / "out.json").write_text("old")
    extension().write(folder / "y.so")
    before = (
        "import os\nfrom abiscan.results import check\ncheck.Report.to_json = lambda report: os.kill(os.getpid(), 11)"
    )
    done = check(folder, "--format", "json", "--output", "out.json", before=before)
    assert done.code == 3
    assert (folder / "out.json").read_text() == "old"
    assert names(folder) == {"x.so", "y.so", "out.json"}
