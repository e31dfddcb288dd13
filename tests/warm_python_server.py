"""The process of ``warm_python``: it needs nothing but the standard library.

For each program it gets a request from the socket, with the program's standard streams; it forks, and answers with the
exit code of the child.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import socket
import sys
import threading
import types
import weakref
from typing import Any


def requested(connection: socket.socket) -> dict[str, Any]:
    """Answer requests until there are no more of them; in each child, return what was requested."""
    while True:
        message, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        if not message:
            sys.exit()
        child = os.fork()
        if not child:
            connection.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            told: dict[str, Any] = json.loads(message)
            return told
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def run(told: dict[str, Any]) -> None:
    """Run a program as ``python -c`` does, up to the functions that it has registered for its end.

    What was imported is not taken apart as the process ends: for torch, that takes ten times as long as the rest.
    """
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["environment"])
    importlib.invalidate_caches()
    sys.argv[:], sys.path[0] = ["-c", *told["words"]], ""
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    code = 0
    try:
        exec(compile(told["program"], "<string>", "exec"), vars(module))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if not isinstance(end.code, int | None):
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - the interpreter would print it, too
        sys.excepthook(*sys.exc_info())
        code = 1
    # As Py_FinalizeEx does before these functions run: it waits for threads, and has no public name.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    exec(sys.argv[2])
    for finalizer in list(weakref.finalize._registry):  # type: ignore[attr-defined]  # it is private
        finalizer.atexit = False  # those of torch's libraries take their operators back
    # No child looks for garbage among what was imported, not even as it ends: that would copy all of these pages.
    gc.freeze()
    run(requested(socket.socket(fileno=int(sys.argv[1]))))
