"""The worker processes of this machine."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Final

from abiscan.inputs import isolation, tracing
from abiscan.pipelines.survey import Surveyed, SurveyTask, judge


@contextlib.contextmanager
def local_workers(slots: int) -> Iterator[LocalWorkers]:
    """As many processes as there are slots; what they are working on is given up if the survey is.

    If the survey is traced, there is one process, whose decisions come in order.
    """
    workers = LocalWorkers(1 if tracing.is_on() else slots)
    try:
        yield workers
    finally:
        workers.shutdown()


class LocalWorkers:
    """Some processes, each in a pool of its own: when one ends, no other task is lost."""

    lost: Final = (BrokenProcessPool,)
    reads_here: Final = True

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._folder = tempfile.TemporaryDirectory(prefix="abiscan-")
        self._pools = [_pool(self._folder.name) for _ in range(slots)]

    def submit(self, task: SurveyTask, slot: int) -> Future[Surveyed]:
        """Begin to work on a task, in a slot that has no other."""
        return self._pools[slot].submit(_judge_limited, task)

    def renew(self, slot: int) -> None:
        """Start another process in a slot."""
        self._pools[slot].shutdown()
        self._pools[slot] = _pool(self._folder.name)

    def shutdown(self) -> None:
        """End the processes, all at once, when their tasks are done."""
        for wait in (False, True):
            for pool in self._pools:
                pool.shutdown(wait=wait, cancel_futures=True)
        self._folder.cleanup()


def _pool(empty_folder: str) -> ProcessPoolExecutor:
    # A new interpreter: a fork would take the threads of the progress bar along, half alive.
    here, spawn = os.getcwd(), multiprocessing.get_context("spawn")  # noqa: PTH109
    # It is started with python -c, which looks for modules in the current folder first.
    os.chdir(empty_folder)
    try:
        pool = ProcessPoolExecutor(1, mp_context=spawn, initializer=_begin, initargs=(here, tracing.destination()))
        pool.submit(os.getpid)  # it starts with its first task
    finally:
        os.chdir(here)
    return pool


def _begin(folder: str, trace: str | None) -> None:
    os.chdir(folder)
    if trace is not None:
        tracing.begin(trace, anew=False)
    isolation.limit_memory()
    atexit.register(os._exit, 0)  # the process has nothing to clean up, and doing so takes as long as a small target


def _judge_limited(task: SurveyTask) -> Surveyed:
    """Judge a target; the system ends the process if it takes too long."""
    isolation.limit_time(isolation.CPU_SECONDS)
    return judge(task)
