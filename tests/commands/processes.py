"""Runs commands as users do, each in a process of its own.

``run`` waits for the end, ``start`` is for signals, ``on_terminal`` for what is shown and typed on a terminal. All pass
arguments through ``argv``, and run in a session of their own: a signal to the process group never reaches the tests.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, TypeAlias

ABISCAN: Final = (sys.executable, "-m", "abiscan")
"""The command, as the Python of the tests runs it."""

SECONDS: Final = 300.0
"""What no test takes: it is for a process that hangs, which would otherwise hang the tests."""

Word: TypeAlias = str | os.PathLike[str]
Stream: TypeAlias = int | IO[bytes] | None

_CHUNK: Final = 1 << 16

_ON_TERMINAL: Final = """
import fcntl, os, sys, termios
terminal = int(sys.argv[1])
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
os.close(terminal)
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A process that has ended.

    :param code: the exit code; the negative number of the signal that killed it
    :param out: what it wrote to stdout; bytes that are not UTF-8 as surrogates, so that no two outputs look the same
    :param err: what it wrote to stderr
    """

    code: int
    out: str
    err: str


def program(*arguments: Word, before: str | None = None, command: Sequence[Word] = ABISCAN) -> list[str]:
    """The words of a command line.

    :param before: Python code to run in the process before abiscan begins; then ``command`` does not count
    """
    if before is not None:
        code = f"{before}\nfrom abiscan.cli import main\nmain(prog_name='abiscan')\n"
        command = (sys.executable, "-c", code)
    return [os.fspath(word) for word in (*command, *arguments)]


def environment(changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """The environment of the tests, with some variables changed, and those that are None removed."""
    merged = {**os.environ, **(changes or {})}
    return {name: value for name, value in merged.items() if value is not None}


def run(
    *arguments: Word,
    cwd: Path | None = None,
    env: Mapping[str, str | None] | None = None,
    stdin: str | bytes | None = None,
    stdout: Stream = None,
    stderr: Stream = None,
    before: str | None = None,
    command: Sequence[Word] = ABISCAN,
    seconds: float = SECONDS,
) -> Finished:
    """Run a command to its end.

    :param env: the variables to change; those that are None are removed
    :param stdin: what it reads; None for an empty one, which is no terminal
    :param stdout: a file or descriptor to write to, instead of a pipe that is read into the result
    :param before: Python code to run in the process before abiscan begins
    :param command: the program, and its first arguments
    :raises TimeoutError: it did not end within ``seconds``; its processes are dead then
    """
    with start(
        *arguments, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, before=before, command=command
    ) as running:
        return running.finish(seconds)


@contextlib.contextmanager
def start(
    *arguments: Word,
    cwd: Path | None = None,
    env: Mapping[str, str | None] | None = None,
    stdin: str | bytes | None = None,
    stdout: Stream = None,
    stderr: Stream = None,
    before: str | None = None,
    command: Sequence[Word] = ABISCAN,
) -> Iterator[Running]:
    """Start a command, and kill whatever is left of it in the end.

    Without ``stdout`` and ``stderr``, both go to files, which never fill up as pipes do: ``Running.out`` has what was
    written so far.
    """
    with contextlib.ExitStack() as stack:
        given = stack.enter_context(tempfile.TemporaryFile())
        given.write(stdin.encode() if isinstance(stdin, str) else stdin or b"")
        given.seek(0)
        out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        process = subprocess.Popen(
            program(*arguments, before=before, command=command),
            cwd=cwd,
            env=environment(env),
            stdin=given,
            stdout=out if stdout is None else stdout,
            stderr=err if stderr is None else stderr,
            start_new_session=True,
        )
        running = Running(process, out if stdout is None else None, err if stderr is None else None)
        try:
            yield running
        finally:
            running.kill()


class Running:
    """A command at work, the leader of a session and of a process group."""

    def __init__(self, process: subprocess.Popen[bytes], out: IO[bytes] | None, err: IO[bytes] | None) -> None:
        self.process = process
        self.pid = process.pid
        self._out, self._err = out, err
        self._known = {process.pid}

    @property
    def out(self) -> str:
        """What it has written to stdout so far."""
        return _written(self._out)

    @property
    def err(self) -> str:
        """What it has written to stderr so far."""
        return _written(self._err)

    def members(self) -> set[int]:
        """The processes of its session that are alive (Linux); those that have been seen once count without it, too."""
        self._known |= {pid for pid in _processes() if _session(pid) == self.pid}
        return {pid for pid in self._known if is_alive(pid)}

    def send(self, number: int, *, group: bool = False) -> None:
        """Send a signal to the process alone, as ``kill`` does, or to its whole group, as a terminal does."""
        if group:
            os.killpg(self.pid, number)
        else:
            os.kill(self.pid, number)

    def wait_until(self, is_so: Callable[[], bool], seconds: float = SECONDS) -> None:
        """Wait for something to become true while the process runs.

        :raises AssertionError: the process ended before
        :raises TimeoutError: it took too long
        """
        if not wait(lambda: is_so() or self.process.poll() is not None, seconds):
            raise TimeoutError(f"still not so after {seconds} s; {self.out!r} {self.err!r}")
        assert is_so(), f"it ended before, with {self.process.returncode}: {self.out!r} {self.err!r}"

    def finish(self, seconds: float = SECONDS) -> Finished:
        """Wait for its end.

        :raises TimeoutError: it did not end; its processes are dead then
        """
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"not finished after {seconds} s; {self.out!r} {self.err!r}") from None
        return Finished(code=code, out=self.out, err=self.err)

    def kill(self) -> None:
        """Kill what is left of its session."""
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


def on_terminal(
    *arguments: Word,
    cwd: Path | None = None,
    env: Mapping[str, str | None] | None = None,
    typed: Sequence[tuple[str, str]] = (),
    streams: Collection[str] = ("stdin", "stdout", "stderr"),
    before: str | None = None,
    command: Sequence[Word] = ABISCAN,
    seconds: float = SECONDS,
) -> Finished:
    """Run a command on a terminal of its own of 24 lines and 80 columns.

    :param typed: pairs: a text to wait for on the terminal, and what is then typed; ``"\\x03"`` is Ctrl-C
    :param streams: those that are the terminal; the others are an empty file, or go into the result
    :return: what the terminal shows, lines ended by ``"\\r\\n"``, is in ``out``; in ``err`` if only stderr goes there
    :raises TimeoutError: it did not end within ``seconds``; its processes are dead then
    """
    import fcntl
    import struct
    import termios

    with contextlib.ExitStack() as stack:
        ours, theirs = pty.openpty()
        stack.callback(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        given, out, err = (
            None if name in streams else stack.enter_context(tempfile.TemporaryFile())
            for name in ("stdin", "stdout", "stderr")
        )
        process = subprocess.Popen(
            [sys.executable, "-c", _ON_TERMINAL, str(theirs), *program(*arguments, before=before, command=command)],
            cwd=cwd,
            env=environment({"TERM": "xterm-256color", **(env or {})}),
            stdin=given or theirs,
            stdout=out or theirs,
            stderr=err or theirs,
            pass_fds=[theirs],
            start_new_session=True,
        )
        os.close(theirs)
        running = Running(process, out, err)
        stack.callback(running.kill)
        shown = _text(_conversation(process, ours, typed, seconds))
        finished = running.finish(seconds)
    return dataclasses.replace(finished, out=shown) if out is None else dataclasses.replace(finished, err=shown)


def _conversation(
    process: subprocess.Popen[bytes], terminal: int, typed: Sequence[tuple[str, str]], seconds: float
) -> bytes:
    """Everything that a terminal shows until the process has ended, while something is typed on it."""
    shown, waiting, searched, deadline = b"", list(typed), 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        has_ended = process.poll() is not None
        if select.select([terminal], [], [], 0 if has_ended else 0.05)[0]:
            try:
                chunk = os.read(terminal, _CHUNK)
            except OSError:  # EIO: nobody has its other end open any more
                chunk = b""
            shown += chunk
            if not chunk:
                return shown
        elif has_ended:
            return shown
        if waiting and (at := shown.find(waiting[0][0].encode(), searched)) >= 0:
            text, keys = (word.encode() for word in waiting.pop(0))
            searched = at + len(text)
            os.write(terminal, keys)
    raise TimeoutError(f"not finished after {seconds} s; {shown!r}")


def wait(is_so: Callable[[], bool], seconds: float = SECONDS) -> bool:
    """Wait for something to become true; False if it has not after so many seconds."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def is_alive(pid: int) -> bool:
    """Whether a process is at work: neither gone, nor dead and waiting for its parent (Linux)."""
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def children(pid: int) -> set[int]:
    """The processes that a process has started, and that are alive (Linux)."""
    return {one for one in _processes() if _stat(one)[1:2] == [str(pid)] and is_alive(one)}


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _session(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[3]) if fields else None


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name: state, parent, group, session, …; none if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def _written(file: IO[bytes] | None) -> str:
    return "" if file is None else _text(os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
