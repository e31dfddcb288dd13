"""Targets that kill the process that reads them, or that get to run code in it: what they cost, and what they reach."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

from abiscan.inputs import isolation
from tests.fakes import extension, install, package_wheel, site_of, torch_package
from tests.index_server import serving

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="needs Linux"), pytest.mark.hostile]

RUN = """
import os, resource, signal, socket, sys
from pathlib import Path
from abiscan.inputs import isolation, sources
isolation.CPU_SECONDS = 1
isolation._LIMITS[resource.RLIMIT_DATA] = 1 << 30
read = sources._make_extension
def hostile(path, location, source):
    if path.endswith("hostile.so"):
        {act}
    return read(path, location, source)
sources._make_extension = hostile
from abiscan.cli import main
main(prog_name="abiscan")
"""


def command(act: str, *words: str) -> list[str]:
    return [sys.executable, "-c", RUN.format(act=act), *words]


def run(tmp_path: Path, act: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in which reading ``hostile.so`` does something; its temporary files are in ``tmp``."""
    (tmp_path / "tmp").mkdir()
    for name in ("hostile.so", "good.so"):
        extension().write(tmp_path / name)
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    return subprocess.run(
        command(act, *words), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


CHECK = ("check", "hostile.so", "good.so", "--torch", "2.13.0")


@pytest.mark.parametrize(
    ("act", "why"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the process died of SIGSEGV"),
        ("os.abort()", "the process died of SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "the system killed the process"),
        ("[0 for _ in iter(int, 1)]", "it takes more than 1 s of processor time"),
        ("bytearray(4 << 30)", "it needs more memory than is available"),
    ],
)
def test_what_kills_the_process_costs_one_result(tmp_path: Path, act: str, why: str) -> None:
    done = run(tmp_path, act, *CHECK, "--format", "json", "--output", "out.json")
    assert done.returncode == 3
    assert done.stderr.startswith("abiscan: hostile.so: ")
    assert why in done.stderr
    document = json.loads((tmp_path / "out.json").read_text())
    assert [result["path"] for result in document["results"]] == ["good.so"]
    assert [(target["target"], target["stopped"]) for target in document["unchecked"]] == [("hostile.so", True)]
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    "words", [("check", "hostile.so", "--torch", "2.13.0"), ("ops", "hostile.so"), ("stable", "hostile.so")]
)
def test_the_only_target(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(tmp_path, "os.abort()", *words)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "abiscan: hostile.so: reading it was stopped: the process died of SIGABRT "
        "(run it with abiscan --no-isolation to see where)\n"
    )


def test_without_isolation_the_process_is_the_users_own(tmp_path: Path) -> None:
    done = run(tmp_path, "os.kill(os.getpid(), signal.SIGSEGV)", "--no-isolation", *CHECK)
    assert done.returncode == -signal.SIGSEGV


HAS_LANDLOCK = isolation.landlock_version() >= 4


@pytest.mark.skipif(not HAS_LANDLOCK, reason="needs a kernel with Landlock")
@pytest.mark.parametrize(
    "act",
    [
        "Path('written').write_text('x')",
        "os.rename('good.so', 'worse.so')",
        "os.unlink('good.so')",
        "os.truncate('good.so', 0)",
        "os.symlink('good.so', 'link.so')",
        "os.mkdir('folder')",
        "open('/proc/self/mem', 'r+b')",
        "socket.create_connection(('127.0.0.1', 9))",
        "socket.create_server(('127.0.0.1', 0))",
        "os.kill(os.getppid(), signal.SIGTERM)",
        "os.system('touch written') == 0 or os.stat('written')",
    ],
)
def test_code_in_the_process_reaches_nothing(tmp_path: Path, act: str) -> None:
    attempt = f"""
        try: {act}
        except OSError as error: print(type(error).__name__, file=sys.stderr)
        else: print("it did", file=sys.stderr)
        """
    done = run(tmp_path, attempt.strip(), *CHECK)
    assert done.returncode == 0
    expected = "FileNotFoundError" if "system" in act else "PermissionError"
    assert done.stderr.splitlines()[-1] == expected
    assert {path.name for path in tmp_path.iterdir()} == {"tmp", "good.so", "hostile.so"}
    assert (tmp_path / "good.so").stat().st_size > 0


def test_it_may_write_where_it_was_told_to(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    words = ("--output", "reports/a.txt", "--report", f"json={tmp_path}/reports/b.json")
    done = run(tmp_path, "pass", *CHECK, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert {path.name for path in (tmp_path / "reports").iterdir()} == {"a.txt", "b.json"}


def test_who_ends_the_command_ends_the_process(tmp_path: Path) -> None:
    extension().write(tmp_path / "hostile.so")
    act = "print(os.getpid(), flush=True); signal.pause()"
    with subprocess.Popen(command(act, *CHECK), cwd=tmp_path, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        reader = int(running.stdout.readline())
        assert reader != running.pid
        running.terminate()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{reader}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{reader}").exists()


FIT = ("fit", "pkg", "--torch", "2.13.0", "--python-version", "3.11", "--platform", "manylinux_2_28_x86_64")


def fit(tmp_path: Path, act: str) -> subprocess.CompletedProcess[str]:
    """Find a version of a package whose newest version has ``hostile.so``; the first line names the environment."""
    (tmp_path / "index").mkdir()
    package_wheel(tmp_path / "index", "pkg", {"pkg/good.so": extension()})
    package_wheel(tmp_path / "index", "pkg", {"pkg/hostile.so": extension()}, version="2.0")
    with serving(tmp_path / "index") as server:
        done = run(tmp_path, act, *FIT, "--index-url", server.url, "-v")
    environment, *errors = done.stderr.splitlines(keepends=True)
    assert environment.startswith("abiscan: environment ")
    done.stderr = "".join(errors)
    return done


def test_a_version_that_kills_the_process_is_not_chosen(tmp_path: Path) -> None:
    done = fit(tmp_path, "os.kill(os.getpid(), signal.SIGSEGV)")
    assert (done.returncode, done.stderr) == (0, "0.0 MB read\n")
    assert "pkg==1.0" in done.stdout
    assert "reading it was stopped: the process died of SIGSEGV" in " ".join(done.stdout.split())


@pytest.mark.skipif(not HAS_LANDLOCK, reason="needs a kernel with Landlock")
@pytest.mark.parametrize("act", ["Path('written').write_text('x')", "os.kill(os.getppid(), signal.SIGTERM)"])
def test_code_in_a_version_reaches_only_the_network(tmp_path: Path, act: str) -> None:
    attempt = f"""
        try: {act}
        except OSError as error: print(type(error).__name__, file=sys.stderr)
        else: print("it did", file=sys.stderr)
        """
    done = fit(tmp_path, attempt.strip())
    assert (done.returncode, set(done.stderr.splitlines())) == (0, {"PermissionError", "0.0 MB read"})
    assert "pkg==2.0" in done.stdout


def test_a_wheel_that_kills_the_process_is_not_checked_and_nothing_is_refused(tmp_path: Path) -> None:
    venv.create(tmp_path / "environment", with_pip=False)
    site = site_of(tmp_path / "environment")
    torch_package(site)
    (site / "torch" / "__init__.py").touch()
    install(site, "torch", {}, version="9.9.0", requires="")
    hostile = package_wheel(tmp_path, "pkg", {"pkg/hostile.so": extension()})
    words = ("pip", "--python", str(tmp_path / "environment" / "bin" / "python"), "install", "--no-deps", str(hostile))
    done = run(tmp_path, "os.kill(os.getpid(), signal.SIGSEGV)", *words)
    assert done.returncode == 0, done.stderr
    assert "pkg 1.0 is not checked: reading it was stopped: the process died of SIGSEGV" in done.stderr
    assert (site / "pkg" / "hostile.so").exists()
