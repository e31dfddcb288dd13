"""What goes wrong with a server, or with a version, is what the message says."""

from __future__ import annotations

import gzip
import http.server
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from abiscan.errors import InputError
from abiscan.inputs import packages
from abiscan.inputs.version import TorchVersion
from tests.commands.processes import run
from tests.fakes import extension, package_wheel
from tests.hostile.servers import Server, page, serving

pytestmark = pytest.mark.hostile


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def stall(server: Server) -> object:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        server.over.wait(60)

    return answer


def checked(server: Server, folder: Path, **env: str) -> str:
    variables = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": server.index,
        "PIP_EXTRA_INDEX_URL": None,
        "PIP_FIND_LINKS": None,
        "PIP_NO_CACHE_DIR": "1",
        "XDG_CACHE_HOME": str(folder / "cache"),
        **env,
    }
    done = run("check", "x==1.0", "--torch", "2.13.0", cwd=folder, env=variables)
    assert (done.code, done.out) == (2, "")
    return done.err


@pytest.mark.parametrize("status", [500, 503, 403])
def test_a_server_with_an_error(server: Server, tmp_path: Path, status: int) -> None:
    server.pages["/simple/x/"] = page(b"", status=status)
    said = checked(server, tmp_path)
    assert f"/simple/x/: the server answers {status} (check the network" in said
    assert "No matching distribution" not in said


def test_a_server_that_stalls(server: Server, tmp_path: Path) -> None:
    server.pages["/simple/x/"] = stall(server)  # type: ignore[assignment]
    said = checked(server, tmp_path, PIP_DEFAULT_TIMEOUT="1")
    assert "/simple/x/: the server did not answer in time (check the network" in said


def test_a_page_that_fills_the_memory(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit as the process that reads targets has one, only lower."""
    bomb = gzip.compress(bytes(600 << 20), 1)
    server.pages["/simple/x/"] = page(bomb, {"Content-Encoding": "gzip", "Content-Type": "text/html"})
    limited = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20)); "
    command = [sys.executable, "-c", f"{limited}runpy.run_module('pip', run_name='__main__')"]
    monkeypatch.setattr(packages, "pip_command", lambda _python: command)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    options = ["--index-url", server.index, "--no-cache-dir"]
    with pytest.raises(InputError, match="pip ran out of memory as it read the index"):
        packages.fetch_wheel("x==1.0", tmp_path, None, options)


def test_a_pip_that_is_killed_for_the_memory_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
    monkeypatch.setattr(packages, "pip_command", lambda _python: killed)
    with pytest.raises(InputError, match="pip was ended by SIGKILL: the system has no more memory") as caught:
        packages.fetch_wheel("x==1.0", tmp_path, None)
    assert "there is a wheel" not in caught.value.fix


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "ERROR: Exception:\nTraceback (most recent call last):\nOSError: [Errno 28] No space left on device\n"
    full = [sys.executable, "-c", f"import sys; sys.stderr.write({said!r}); sys.exit(2)"]
    monkeypatch.setattr(packages, "pip_command", lambda _python: full)
    with pytest.raises(InputError, match=r"wheel: no space left on device \(free some space in"):
        packages.fetch_wheel("x==1.0", tmp_path, None)


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with serving() as server:
        index = server.index
    with pytest.raises(InputError, match=r"/x/: (connection refused|.*reset)"):
        packages.fetch_wheel("x==1.0", tmp_path, None, ["--index-url", index, "--no-cache-dir", "--isolated"])


def test_a_pip_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_FETCH_SECONDS", 1)
    monkeypatch.setattr(packages, "pip_command", lambda _python: [sys.executable, "-c", "import time; time.sleep(99)"])
    with pytest.raises(InputError, match="pip did not finish within 1 s, and was stopped") as caught:
        packages.fetch_wheel("x==1.0", tmp_path, None)
    assert isinstance(caught.value.__cause__, subprocess.TimeoutExpired)


def test_what_is_not_there_is_still_said(server: Server, tmp_path: Path) -> None:
    server.lists("x", [])
    assert "No matching distribution found for x==1.0" in checked(server, tmp_path)


# A version of 20,000 digits: Python makes no number of it.

DIGITS = "1" * 20_000


def test_a_version_that_is_no_number_is_none() -> None:
    assert TorchVersion.parse(DIGITS) is None
    assert TorchVersion.parse(f"2.{DIGITS}") is None


@pytest.mark.parametrize(
    "requirement", [f"torch=={DIGITS}", f"torch (>={DIGITS})", f"y; {'(' * 9000}"], ids=["exact", "least", "brackets"]
)
def test_it_costs_one_requirement(tmp_path: Path, requirement: str) -> None:
    path = package_wheel(tmp_path, "x", {"x/_C.so": extension()}, metadata={"Requires-Dist": requirement})
    for words in (("check", str(path), "--torch", "2.13.0"), ("check", str(path), "--torch", "declared")):
        done = run(*words, cwd=tmp_path)
        assert "internal error" not in done.err
        assert done.code in (0, 1, 2, 3)


@pytest.mark.parametrize("words", [("--torch", DIGITS), ("--torch", f">={DIGITS}"), ("--torch", f"2.{DIGITS}.0")])
def test_it_is_no_torch(tmp_path: Path, words: tuple[str, ...]) -> None:
    extension().write(tmp_path / "x.so")
    done = run("check", "x.so", *words, cwd=tmp_path)
    assert done.code == 2
    assert "internal error" not in done.err


def test_nothing_may_be_written(tmp_path: Path) -> None:
    """As after ``ulimit -f 0``."""
    extension().write(tmp_path / "x.so")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    read, write = os.pipe()
    with os.fdopen(read, "rb"), os.fdopen(write, "wb") as stream:
        done = run("check", "x.so", "--torch", "2.13.0", before=limit, cwd=tmp_path, stdout=stream, stderr=stream)
        stream.close()
        said = os.read(read, 1 << 16).decode()
    assert done.code == 2
    assert "the folder for temporary files: cannot be written" in said
