"""Runs a command in a process of its own, and goes on without the target that ends it."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from abiscan.cli import process
from abiscan.cli.process import print_notice
from abiscan.errors import InputError
from abiscan.inputs import isolation, result_codec, temporary
from abiscan.inputs.isolation import Confinement

_Result = TypeVar("_Result")


def is_possible() -> bool:
    """Whether a process can be split here: it is Linux, and the process is the command's own."""
    return sys.platform == "linux" and process.is_own()


def run_isolated(run: Callable[[], object], confinement: Confinement) -> object:
    """Call a function in a process of its own; this one then ends as that one did.

    Returns in the new process only, which prints the report itself: nothing has to be sent back.
    """
    code = _split_process(confinement)
    if code is None:
        return run()
    os._exit(code)  # it has nothing to clean up, and doing so takes time


def result_of(run: Callable[[], _Result], confinement: Confinement) -> _Result:
    """Call a function in a process of its own, and return its result; if that process fails, so does this one.

    The result is handed over as text, of which nothing but data is made: it is from a process that has read anything.
    """
    with tempfile.TemporaryFile(buffering=0) as file:  # of a buffer, the rest would be written again as it is closed
        code = _split_process(confinement)
        if code is None:
            text = result_codec.encode_result(run())
            isolation.finish_targets()
            try:
                file.seek(0)  # where an earlier process may have been killed as it wrote
                file.truncate()
                rest = memoryview(text.encode())
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError as error:
                raise temporary.unwritable_error(error) from error
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        if code:
            os._exit(code)
        file.seek(0)
        result: _Result = result_codec.decode_result(file.read().decode())
        return result


def _split_process(confinement: Confinement) -> int | None:
    """Split off a process; in that, return None, and here its exit code, once it has ended.

    It is forked while it has read nothing but the command line, and shares what is imported. If it dies, the next one
    leaves out the target that was being read.
    """
    stopped: dict[str, str] = {}
    while True:
        # Through this pipe the child names each target before it reads it: if it dies, the last name is the culprit.
        try:
            reading, writing = os.pipe()
        except OSError as error:
            raise _cannot_start(error) from error
        scratch = temporary.new_folder()
        temporary.add_temporary(scratch)
        # Otherwise both processes would print what is in the buffers at the fork.
        sys.stdout.flush()
        sys.stderr.flush()
        gc.freeze()  # or else collecting garbage would copy the memory that the two share
        this_address = os.getpid()
        try:
            child = os.fork()
        except OSError as error:
            temporary.remove_all()
            raise _cannot_start(error) from error
        if not child:
            process.follow_signals()
            gc.unfreeze()  # to the oldest objects, which no collection looks at in the short life of this process
            os.close(reading)
            isolation.enter_isolation(writing, stopped, scratch, confinement, parent=this_address)
            return None
        os.close(writing)
        target, status = _watch_process(child, reading)
        temporary.remove_all()
        if not os.WIFSIGNALED(status):
            return os.waitstatus_to_exitcode(status)
        number = os.WTERMSIG(status)
        # The child was stopped on purpose, so no target is at fault.
        if number in process.SIGNALS:
            process.end_process(number)
        # It died outside of any target, or of one that it should not have read: trying again would not end.
        if target is None or target in stopped:
            advice = "run it again with more memory" if number == signal.SIGKILL else "run it again, or report it"
            problem = f"the process that reads targets was stopped, and no target is at fault: {_format_reason(number)}"
            print_notice(f"abiscan: {problem} ({advice})")
            sys.exit(3)
        stopped[target] = f"reading it was stopped: {_format_reason(number)}"


def _cannot_start(error: OSError) -> InputError:
    fix = "end some processes, or raise the limits: ulimit -u, ulimit -n"
    return InputError("the process that reads targets", f"cannot be started: {error.strerror}", fix)


def _watch_process(child: int, pipe: int) -> tuple[str | None, int]:
    """Wait for a process; the target that it read last, None if it read none or was done, and its status."""
    target = None
    with os.fdopen(pipe, "rb") as stream:
        for line in stream:
            if not line.endswith(b"\n"):  # it was killed as it wrote
                break
            message = json.loads(line)
            if not isinstance(message, list):
                target = message
            elif temporary.is_part(part := Path(*message)):  # nothing else is removed for a process that reads targets
                temporary.add_temporary(part)
    return target, os.waitpid(child, 0)[1]


def _format_reason(number: int) -> str:
    if number == signal.SIGXCPU:
        return f"it takes more than {isolation.CPU_SECONDS} s of processor time"
    if number == signal.SIGKILL:
        seconds = isolation.inherited_seconds()
        time = f", or takes more than the {seconds} s of processor time that ulimit -t allows" if seconds else ""
        return f"the system killed the process, perhaps because it ran out of memory{time}"
    return f"the process died of {signal.Signals(number).name}"
