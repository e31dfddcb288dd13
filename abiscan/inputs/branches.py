"""Work that is split among processes; its result does not depend on how many there are.

Each process is forked from this one: it has everything that was read so far, and sends back what it found, with what
it looked at. That is done only in the process that reads targets (``isolation``): a library does not fork its caller.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import selectors
import signal
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Generic, NoReturn, TypeVar

from abiscan import errors
from abiscan.errors import AbiscanError, InputError
from abiscan.inputs import isolation, memory, observed_fs, result_codec, tracing

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")

_CHUNK: Final = 1 << 20
_DESCRIPTORS: Final = Path("/proc/self/fd")
_OTHER_ERROR: Final = "RuntimeError"
_BETWEEN_LOOKS: Final = 0.2
"""The seconds after which the memory of processes is looked at again: within them, code allocates about 20 MB."""


def share_in_order(
    items: Iterable[_Item],
    find: Callable[[_Item], _Found],
    name: Callable[[_Item], str],
    jobs: int,
    *,
    first_here: bool = False,
    room: int | None = None,
) -> Iterator[tuple[_Item, Callable[[], _Found]]]:
    """Yield each item, and a function that returns what was found about it, or raises the error that came of it.

    :param items: in order; the next one is asked for as soon as a process is free
    :param find: its result consists of what ``result_codec`` writes
    :param name: the target that an item belongs to, in case that working on it ends the process
    :param jobs: the number of processes; 1 to find everything in this one, when it is asked for
    :param first_here: whether the first item is one for this process: the others begin with what it read
    :param room: the bytes of memory from which on only one process goes on, the largest; None if there is no bound
    """
    remaining, is_open = iter(items), True
    for item in itertools.islice(remaining, int(first_here)) if _may_fork(jobs) else remaining:
        yield item, functools.partial(find, item)
    if first_here and _may_fork(jobs):
        memory.give_back()  # the others begin with what it read, but not with what it needs no more
    # Results come in the order of the items, work is done in any order: a branch that has finished early waits in this
    # list for those before it. Its pipe is read meanwhile, or it would block as soon as the pipe is full (64 KiB).
    branches: list[_Branch[_Item, _Found]] = []  # in the order of the items
    with selectors.DefaultSelector() as working:
        try:
            while is_open or branches:
                while is_open and len(working.get_map()) < jobs and _has_room(_at_work(working), room):
                    # The next item is asked for only now: to make it, the iterator may read files, which the child then
                    # has.
                    following = list(itertools.islice(remaining, 1))
                    is_open = bool(following)
                    for item in following:
                        branches.append(_Branch(item, find, name))
                        if not branches[-1].is_done:
                            working.register(branches[-1].pipe, selectors.EVENT_READ, branches[-1])
                # Yield before waiting for more: the caller may begin to print.
                if branches and branches[0].is_done:
                    done = branches.pop(0)
                    yield done.item, done.take_result
                elif branches:
                    _receive(working, room)
        finally:
            for branch in branches:
                branch.stop_work()


@contextlib.contextmanager
def found_aside(find: Callable[[], _Found], jobs: int) -> Iterator[Callable[[], _Found]]:
    """Provide a function that returns what is found, by another process while this one does something else.

    If that process ends early, and where there may be none, it is found here, once it is asked for.

    :param find: as for ``share_in_order``; it starts no program, which nobody would end with the process
    :param jobs: the number of processes
    """
    if not _may_fork(jobs):
        yield find
        return
    branch = _Branch(None, lambda _: find(), lambda _: "")
    try:
        yield branch.await_result
    finally:
        branch.stop_work()


def _has_room(at_work: Sequence[_Branch[Any, Any]], room: int | None) -> bool:
    """Whether processes, with this one, take less memory than they may; so does one alone."""
    here = memory.measure(os.getpid()) if at_work and room is not None else None
    if room is None or here is None:
        return True
    # A branch shares what was there at the fork until it writes to it.
    return here + sum(max(0, branch.measure() - here) for branch in at_work) < room


def _receive(working: selectors.BaseSelector, room: int | None) -> None:
    """Receive what branches send; while all take more memory than they may, the largest goes on alone, to its end."""
    at_work = _at_work(working)
    largest = None if _has_room(at_work, room) else max(at_work, key=_Branch.measure)
    for branch in at_work:
        branch.pause(paused=largest is not None and branch is not largest)
    for key, _ in working.select(None if room is None else _BETWEEN_LOOKS):
        if not key.data.receive_chunk():
            working.unregister(key.fd)
            key.data.await_end()


def _at_work(working: selectors.BaseSelector) -> list[_Branch[Any, Any]]:
    return [key.data for key in working.get_map().values()]


def _may_fork(jobs: int) -> bool:
    # A traced run has one order of decisions, and without /proc the child could not open its files anew.
    return jobs > 1 and isolation.is_apart() and _DESCRIPTORS.is_dir() and not tracing.is_on()


class _Branch(Generic[_Item, _Found]):
    """A process at work on one item. ``pipe`` is where it writes what it found.

    :param name: empty if the item belongs to no target

    Where the system has no room for a process or a pipe, the work is done here, once its result is asked for.
    """

    def __init__(self, item: _Item, find: Callable[[_Item], _Found], name: Callable[[_Item], str]) -> None:
        self.item = item
        self.is_done = False
        self._is_paused = False
        self._find = find
        self._name = name
        self._received = bytearray()
        try:
            self.pipe, writing = os.pipe()
            parent, seconds = os.getpid(), signal.getitimer(signal.ITIMER_PROF)[0]
            try:
                self._process = os.fork()
            except OSError:
                os.close(self.pipe)
                os.close(writing)
                raise
        except OSError:
            self.is_done = True
            return
        if not self._process:
            os.close(self.pipe)
            _send_result(name(item), lambda: find(item), writing, parent, seconds)
        os.close(writing)

    def measure(self) -> int:
        """Return the memory that it has, in bytes; 0 where the system does not tell."""
        return memory.measure(self._process) or 0

    def pause(self, *, paused: bool) -> None:
        """Let it do nothing, or go on."""
        # A shell that lets the whole command go on does so with a process that waits, too: it is stopped again.
        if paused or self._is_paused:
            os.kill(self._process, signal.SIGSTOP if paused else signal.SIGCONT)
        self._is_paused = paused

    def receive_chunk(self) -> bool:
        """Read what it has written; False once it has written everything."""
        chunk = os.read(self.pipe, _CHUNK)
        self._received += chunk
        return bool(chunk)

    def await_end(self) -> None:
        """Wait for its end. If it died, so does this process: the next one leaves out the target."""
        status = self._reap()
        if os.WIFSIGNALED(status):
            isolation.die_of(os.WTERMSIG(status), self._name(self.item))

    def await_result(self) -> _Found:
        """Wait for its end, and return what it found; what ended it early would end this process here.

        :raises InputError: what it found is an error
        """
        while not self.is_done and self.receive_chunk():
            pass
        if not self.is_done and self._reap():
            self._received.clear()
        return self.take_result()

    def stop_work(self) -> None:
        """Stop it, if it is still at work."""
        if not self.is_done:
            with contextlib.suppress(OSError):
                # A branch that still runs here computes a result that is not needed, so it need not clean up.
                os.kill(self._process, signal.SIGKILL)
                self._reap()

    def _reap(self) -> int:
        """Wait for its end, and return its status."""
        os.close(self.pipe)
        _, status = os.waitpid(self._process, 0)
        self.is_done = True
        return status

    def take_result(self) -> _Found:
        """Return what it found.

        :raises InputError: what it found is an error
        """
        if not self._received:
            return self._find(self.item)
        # The branch's record is added to that of this process, since the result depends on it here, too.
        is_final, seen, text, error = json.loads(self._received)
        observed_fs.add_observations(seen)
        if is_final:
            observed_fs.look_once()
        if error is None:
            result: _Found = result_codec.decode_result(text)
            return result
        kind, *words = error
        raise RuntimeError(*words) if kind == _OTHER_ERROR else getattr(errors, kind, InputError)(*words)


def _send_result(target: str, find: Callable[[], object], pipe: int, parent: int, seconds: float) -> NoReturn:
    """Send what is found, and what was looked at, and end.

    :param seconds: of the processor, that the process that waits has left; 0 for no such bound
    """
    code = 1
    try:
        # Nothing of the parent may be touched: not its buffers, its exit handlers, nor the position in its open files.
        isolation.enter_branch(parent)
        _own_offsets()
        result, error = "", None
        with observed_fs.record_observations() as record:
            try:
                with _bounded(seconds), isolation.turn_of(target) if target else contextlib.nullcontext():
                    result = result_codec.encode_result(find())
            except InputError as problem:
                error = [type(problem).__name__, problem.subject, problem.problem, problem.fix]
            except Exception as problem:
                if not target or isinstance(problem, AbiscanError):
                    raise  # no target to blame: what it is, the process that waits finds out
                # It ends as it would in the process that waits.
                error = [_OTHER_ERROR, f"{type(problem).__name__}: {problem}"]
        text = memoryview(json.dumps([record.is_final, record.seen, result, error]).encode())
        while text:
            text = text[os.write(pipe, text) :]
        code = 0
    finally:
        os._exit(code)  # noqa: TID251 - nothing is cleaned up that belongs to the process that waits


@contextlib.contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    # setitimer(2): a child that is forked does not inherit the timers, but what a timer of its parent calls.
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _own_offsets() -> None:
    """Open the files anew that are read: the position in a file is shared with the process that opened it."""
    import fcntl  # which Windows lacks

    # fork(2): a child's descriptors refer to the same open file descriptions. A seek in one branch would move the
    # position under another one. /proc/self/fd/N opens what N is, even if that file has no name any more.
    for number in map(int, os.listdir(_DESCRIPTORS)):  # noqa: PTH208 - numbers, not paths
        with contextlib.suppress(OSError):
            is_read = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
            if is_read and stat.S_ISREG(os.fstat(number).st_mode):
                position = os.lseek(number, 0, os.SEEK_CUR)
                fresh = os.open(_DESCRIPTORS / str(number), os.O_RDONLY | os.O_CLOEXEC)
                os.lseek(fresh, position, os.SEEK_SET)
                os.dup2(fresh, number, inheritable=os.get_inheritable(number))
                os.close(fresh)
