"""The process of ``warm_python``: it needs nothing but the standard library.

It gets a request for each program from the socket, with the program's standard streams, forks, and answers with the
exit code of the child.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import socket
import sys
import types
from pathlib import Path


def _requested(connection: socket.socket) -> list[str]:
    """Answer requests; in each child, return the words of its program."""
    while True:
        message, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        if not message:
            os._exit(0)
        child = os.fork()
        if not child:
            connection.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            told = json.loads(message)
            os.chdir(told["folder"])
            os.environ.clear()
            os.environ.update(told["environment"])
            words: list[str] = told["words"]
            return words
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def _run(words: list[str]) -> None:
    """Run a program as the command line of Python does."""
    first, *rest = words
    importlib.invalidate_caches()
    if first == "-m":
        sys.argv[:], sys.path[0] = rest, str(Path.cwd())
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv[:], sys.path[0] = ["-c", *rest[1:]], ""
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), vars(module))
    else:
        sys.argv[:], sys.path[0] = words, str(Path(first).parent)
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    exec(sys.argv[2])
    _run(_requested(socket.socket(fileno=int(sys.argv[1]))))
