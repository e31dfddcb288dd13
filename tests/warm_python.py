"""A Python that imports what is slow to import once, and runs every program in a child that is forked from there.

Each program is a process of its own, as with ``python -c``: it finds the modules as the import left them, and nothing
that another program did. Only the time of the import is saved. But all of them have the addresses of the one process
that they come from: what address space layout randomization decides is the same in each.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_SERVER: Final = Path(__file__).with_name("warm_python_server.py")
_SECONDS: Final = 600


class WarmPython:
    """A process that waits for programs.

    :param executable: the Python
    :param imports: the code that it runs once, before any program
    """

    def __init__(self, executable: str, imports: str) -> None:
        self._executable = executable
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_SECONDS)
        command = [executable, str(_SERVER), str(theirs.fileno()), imports]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        atexit.register(self.close)

    def run(
        self,
        program: str,
        *words: str | Path,
        input: str = "",  # noqa: A002 - as subprocess.run calls it
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program with these words in its ``sys.argv``.

        :param check: raise ``subprocess.CalledProcessError`` if it does not exit with 0
        """
        given = list(map(str, words))
        told = {
            "program": program,
            "words": given,
            "folder": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
        }
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            stdin.write(input.encode())
            stdin.seek(0)
            streams = [stream.fileno() for stream in (stdin, out, err)]
            socket.send_fds(self._socket, [json.dumps(told).encode()], streams)
            code = int(self._socket.recv(64) or -signal.SIGKILL)
            texts = []
            for stream in (out, err):
                stream.seek(0)
                texts.append(stream.read().decode())
        done = subprocess.CompletedProcess([self._executable, "-c", program, *given], code, *texts)
        if check:
            done.check_returncode()
        return done

    def close(self) -> None:
        """End the process."""
        atexit.unregister(self.close)
        self._socket.close()
        self._process.kill()
        self._process.wait()
