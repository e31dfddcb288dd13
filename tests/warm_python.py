"""A Python that imports what is slow to import once, and runs every program in a child that is forked from there.

Each program is a process of its own, as ``subprocess.run`` starts it: it finds the modules as the import left them, and
nothing that another program did. Only the seconds of the import are saved.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_SERVER: Final = Path(__file__).with_name("warm_python_server.py")
_SECONDS: Final = 600


class WarmPython:
    """A process of a Python that has run ``imports``, and waits for programs.

    :param command: what starts that Python, with its own options
    """

    def __init__(self, command: Sequence[str], imports: str) -> None:
        self._command = tuple(command)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_SECONDS)
        words = [*command, str(_SERVER), str(theirs.fileno()), imports]
        self._process = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        atexit.register(self.close)

    def run(
        self,
        words: Sequence[str | Path],
        *,
        input: str | None = None,  # noqa: A002 - as subprocess.run calls it
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``-c CODE``, ``-m MODULE`` or a file with its arguments.

        :param check: raise ``subprocess.CalledProcessError`` if it does not exit with 0
        """
        told = {
            "words": [str(word) for word in words],
            "folder": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
        }
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            stdin.write((input or "").encode())
            stdin.seek(0)
            streams = [stream.fileno() for stream in (stdin, out, err)]
            socket.send_fds(self._socket, [json.dumps(told).encode()], streams)
            code = int(self._socket.recv(64) or -signal.SIGKILL)
            texts = []
            for stream in (out, err):
                stream.seek(0)
                texts.append(stream.read().decode())
        done = subprocess.CompletedProcess([*self._command, *told["words"]], code, *texts)
        if check:
            done.check_returncode()
        return done

    def close(self) -> None:
        """End the process; more than once does nothing."""
        self._socket.close()
        self._process.wait()
