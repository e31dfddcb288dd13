"""The worker processes of this machine."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Final, NoReturn, cast

from abiscan.inputs import isolation, programs, temporary, tracing
from abiscan.pipelines.survey import Surveyed, SurveyTask, check_task

# With the search path of this process. What ends that one with this one comes first: the rest takes long to import.
_BEGIN: Final = """
import sys
parent, scratch, trace, *sys.path = sys.argv[1:]
from abiscan.inputs.isolation import die_with
die_with(int(parent))
from abiscan.pipelines.local_workers import run_worker
run_worker(scratch, trace)
"""


class WorkerEndedError(Exception):
    """The process that worked on a task has ended."""


@contextlib.contextmanager
def local_workers(slots: int) -> Iterator[LocalWorkers]:
    """Provide as many processes as there are slots; what they are working on is given up if the survey is.

    If the survey is traced, there is one process, whose decisions come in order.
    """
    with temporary.temporary_folder() as scratch:
        workers = LocalWorkers(1 if tracing.is_on() else slots, scratch)
        try:
            yield workers
        finally:
            workers.end_all()


class LocalWorkers:
    """Some processes, each with one task at a time: when one ends, no other task is lost.

    :param scratch: the folder for their temporary files
    """

    lost: Final = (WorkerEndedError,)
    reads_here: Final = True

    def __init__(self, slots: int, scratch: Path) -> None:
        self.slots = slots
        self._scratch = scratch
        self._workers: list[_Worker | None] = [None] * slots
        self._waiting = ThreadPoolExecutor(slots)

    def submit_task(self, task: SurveyTask, slot: int) -> Future[Surveyed]:
        """Begin to work on a task, in a slot that has no other.

        The process is started here and not where its answer is waited for: it ends with the thread that started it.
        """
        # PR_SET_PDEATHSIG is sent when the *thread* that forked ends (prctl(2)); those of the pool may end at any time.
        worker = self._workers[slot] = self._workers[slot] or _Worker(self._scratch)
        return self._waiting.submit(worker.check_task, task)

    def renew_slot(self, slot: int) -> None:
        """Have another process started in a slot, whose own has ended."""
        if worker := self._workers[slot]:
            worker.kill_process()
        self._workers[slot] = None

    def end_all(self) -> None:
        """End the processes, whatever they are doing."""
        workers = [worker for worker in self._workers if worker]
        temporary.stop_processes([worker.pid for worker in workers])
        for worker in workers:
            worker.kill_process()
        self._waiting.shutdown()


class _Worker:
    """A process that reads tasks from its stdin, and writes answers to its stdout.

    It is a new interpreter: a fork would take the threads of the progress bar along, half alive.
    """

    def __init__(self, scratch: Path) -> None:
        words = (str(os.getpid()), str(scratch), tracing.trace_destination() or "", *sys.path)
        # Ctrl-C goes to the whole process group: a child that is still importing would print a traceback for it.
        with _interrupts_held():
            self._process = programs.start_program(programs.python_command(sys.executable, "-c", _BEGIN, *words))

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def check_task(self, task: SurveyTask) -> Surveyed:
        """Have a target checked, and wait for the answer.

        :raises WorkerEndedError: the process has ended
        """
        try:
            pickle.dump(task, cast("IO[bytes]", self._process.stdin))
            cast("IO[bytes]", self._process.stdin).flush()
            answer: Surveyed | Exception = pickle.load(cast("IO[bytes]", self._process.stdout))  # noqa: S301 - ours
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise WorkerEndedError from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def kill_process(self) -> None:
        """Kill it, if it is still there."""
        self._process.kill()
        with contextlib.suppress(OSError):  # what could not be sent any more
            self._process.communicate()


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Start a process that holds interrupts back until it is ready for them: it would print where it was."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)


def run_worker(scratch: str, trace: str) -> NoReturn:
    """Be such a process.

    :param scratch: the folder for temporary files
    :param trace: the file for the trace; empty for none
    """
    # Everything below limits what the process can still open.
    if trace:
        tracing.begin_trace(trace, anew=False)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    tempfile.tempdir = os.environ["TMPDIR"] = scratch
    isolation.limit_memory()
    with os.fdopen(os.dup(0), "rb") as tasks, os.fdopen(os.dup(1), "wb") as answers:
        # The pipes now have numbers of their own; a print in a library must not end up among the answers.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # programs that it starts get nothing of either
        os.dup2(2, 1)
        with contextlib.suppress(EOFError, OSError):  # nobody is there any more
            while True:
                task = pickle.load(tasks)  # noqa: S301 - ours
                isolation.limit_time(isolation.CPU_SECONDS)  # or the system ends the process
                pickle.dump(_check_safely(task), answers)
                answers.flush()
        # The process has nothing to clean up, and doing so takes as long as a small target.
        os._exit(0)  # noqa: TID251


def _check_safely(task: SurveyTask) -> Surveyed | Exception:
    try:
        return check_task(task)
    except Exception as error:  # noqa: BLE001 - it is raised where the answer is waited for
        return error
