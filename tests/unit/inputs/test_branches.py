"""Work that is split among processes."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from abiscan.errors import AbiscanError, InputError, InternalError, NoExtensionError, StoppedError
from abiscan.inputs import branches, isolation, memory, observed_fs

_Found = TypeVar("_Found")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "is_apart", lambda: True)


def found(items: list[int], find: Callable[[int], _Found], jobs: int) -> list[tuple[int, _Found]]:
    return [(item, result()) for item, result in branches.share_in_order(items, find, str, jobs)]


@pytest.mark.parametrize("jobs", [1, 2, 9])
def test_results_come_in_order(jobs: int) -> None:
    def find(item: int) -> tuple[int, str]:
        time.sleep(0.05 * (4 - item))
        return item, str(item) * (1 << 18)  # more than a pipe holds

    assert found([1, 2, 3, 4], find, jobs) == [(item, (item, str(item) * (1 << 18))) for item in (1, 2, 3, 4)]


def test_each_item_has_a_process_and_no_more_are_at_work_than_allowed(tmp_path: Path) -> None:
    def find(item: int) -> tuple[int, int]:
        mine = tmp_path / str(item)
        mine.touch()
        at_work = len(list(tmp_path.iterdir()))
        time.sleep(0.05)
        mine.unlink()
        return os.getpid(), at_work

    results = [result for _, result in found(list(range(6)), find, 2)]
    assert len({process for process, _ in results} - {os.getpid()}) == 6
    assert {at_work for _, at_work in results} <= {1, 2}


@pytest.mark.parametrize("is_small", [True, False])
def test_no_process_begins_next_to_a_large_one(tmp_path: Path, is_small: bool) -> None:
    def wait_for(name: str) -> bool:
        until = time.monotonic() + 10
        while not (tmp_path / name).exists() and time.monotonic() < until:
            time.sleep(0.01)
        return (tmp_path / name).exists()

    def find(item: str) -> bool:
        content = bytearray(b"x" * (80 << 20)) if item == "large" and not is_small else b""
        (tmp_path / item).touch()
        if item == "large":
            wait_for("next" if is_small else "other")
            time.sleep(0.2)
            (tmp_path / "ended").touch()
            return bool(content)
        return wait_for("large") if item == "other" else (tmp_path / "ended").exists()

    room = (memory.measure(os.getpid()) or 0) + (60 << 20)
    shared = branches.share_in_order(["large", "other", "next"], find, str, 2, room=room)
    *_, is_alone = [result() for _, result in shared]
    assert is_alone is not is_small


def test_the_largest_process_goes_on_alone(tmp_path: Path) -> None:
    count, ended = tmp_path / "count", tmp_path / "ended"

    def find(item: str) -> bool:
        until = time.monotonic() + 20
        while item == "other" and not ended.exists() and time.monotonic() < until:
            with count.open("ab") as stream:
                stream.write(b"x")
            time.sleep(0.01)
        while item == "large" and not count.exists():
            time.sleep(0.01)
        content = bytearray(b"x" * (80 << 20))
        seen, since = 0, time.monotonic()
        while item == "large" and time.monotonic() < min(until, since + 1):
            if count.stat().st_size != seen:
                seen, since = count.stat().st_size, time.monotonic()
            time.sleep(0.01)
        ended.touch()
        return bool(content) and time.monotonic() < until

    room = (memory.measure(os.getpid()) or 0) + (60 << 20)
    results = [result() for _, result in branches.share_in_order(["other", "large"], find, str, 2, room=room)]
    assert results == [True, True]


def test_the_others_have_what_the_first_item_read() -> None:
    read: list[int] = []

    def find(item: int) -> tuple[bool, list[int]]:
        read.append(item)
        return os.getpid() == here, list(read)

    here = os.getpid()
    results = [result() for _, result in branches.share_in_order([1, 2, 3], find, str, 2, first_here=True)]
    assert results == [(True, [1]), (False, [1, 2]), (False, [1, 3])]


@pytest.mark.parametrize("error", [InputError("a", "b", "c"), NoExtensionError("a", "b")])
def test_an_error_is_raised_when_its_result_is_asked_for(error: Exception) -> None:
    def find(item: int) -> int:
        if item == 1:
            raise error
        return item

    results = dict(branches.share_in_order([1, 2], find, str, 2))
    assert results[2]() == 2
    with pytest.raises(type(error)) as raised:
        results[1]()
    assert str(raised.value) == str(error)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (MemoryError(), StoppedError, "1: it needs more memory than is available"),
        (
            KeyError("x"),
            InternalError,
            "1: internal error, please report it: KeyError: 'x' (abiscan/inputs/branches.py:",
        ),
    ],
)
def test_what_ends_a_process_is_about_its_target(error: Exception, kind: type[Exception], words: str) -> None:
    def find(_: int) -> int:
        raise error

    ((_, result), *_) = branches.share_in_order([1, 2], find, str, 2)
    with pytest.raises(kind) as raised:
        result()
    assert str(raised.value).startswith(words)


def test_what_is_looked_at_is_on_the_record(tmp_path: Path) -> None:
    def find(item: int) -> bool:
        if item == 2:
            observed_fs.look_once()
        return observed_fs.is_file(tmp_path / str(item))

    with observed_fs.record_observations() as record:
        assert found([1], find, 2) == [(1, False)]
    assert record.seen["file"] == {str(tmp_path / "1"): None}
    assert not record.is_final
    with observed_fs.record_observations() as record:
        found([2], find, 2)
    assert record.is_final


def test_processes_do_not_share_the_position_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(256)) * 4096)
    with (tmp_path / "file").open("rb", buffering=0) as stream:

        def find(item: int) -> bool:
            for _ in range(2000):
                stream.seek(item)
                if stream.read(1) != bytes([item]):
                    return False
            return True

        assert found([1, 2, 3, 4], find, 4) == [(item, True) for item in (1, 2, 3, 4)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_something_is_found_aside(jobs: int, tmp_path: Path) -> None:
    def find() -> list[bool]:
        return [observed_fs.is_file(tmp_path / "a"), os.getpid() == here]

    here = os.getpid()
    with observed_fs.record_observations() as record, branches.found_aside(find, jobs) as take:
        assert take() == [False, jobs == 1]
    assert record.seen["file"] == {str(tmp_path / "a"): None}


def test_what_is_found_aside_may_be_an_error() -> None:
    def find() -> int:
        raise NoExtensionError("a", "b")

    with branches.found_aside(find, 2) as take, pytest.raises(NoExtensionError, match="b"):
        take()


def test_what_ends_a_process_aside_is_found_here() -> None:
    def find() -> int:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return 1

    here = os.getpid()
    with branches.found_aside(find, 2) as take:
        assert take() == 1


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.ENOSPC, "No space left on device", "a")])
def test_what_no_target_is_to_blame_for_is_the_same_aside(error: Exception) -> None:
    def find() -> None:
        raise error

    with branches.found_aside(find, 2) as take, pytest.raises(type(error)) as raised:
        take()
    assert raised.value is error


class OverError(AbiscanError):
    pass


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_limit_of_time_is_one_in_other_processes_as_well(is_shared: bool) -> None:
    def find(*_: object) -> None:
        begin = time.process_time()
        while time.process_time() - begin < 20:
            pass

    def interrupt(*_: object) -> None:
        raise OverError

    def wait() -> None:
        if is_shared:
            found([1, 2], find, 2)
        else:
            with branches.found_aside(find, 2) as take:
                take()

    begin, before = time.monotonic(), signal.signal(signal.SIGPROF, interrupt)
    # Not while the processes are made: what is raised in a function that ``fork`` calls is lost.
    signal.setitimer(signal.ITIMER_PROF, 0.5)
    try:
        with pytest.raises(OverError):
            wait()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert time.monotonic() - begin < 15


def test_a_limit_of_time_ends_with_the_work_that_fails() -> None:
    """What it found is written without one."""
    before = signal.signal(signal.SIGPROF, signal.SIG_IGN)
    try:
        with pytest.raises(InputError), branches._bounded(60):
            raise InputError("x.so", "is damaged", "")
        assert signal.getitimer(signal.ITIMER_PROF)[0] == 0
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def test_nobody_waits_for_what_is_found_aside_if_this_fails() -> None:
    before, started = _children(), time.monotonic()
    with pytest.raises(KeyError), branches.found_aside(lambda: time.sleep(60), 2):
        raise KeyError
    assert time.monotonic() - started < 30
    assert _children() == before


def test_processes_end_with_the_one_that_waits_for_them() -> None:
    before = _children()
    started = time.monotonic()
    results = branches.share_in_order([0, 60], time.sleep, str, 2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert time.monotonic() - started < 30
    assert _children() == before


def _children() -> set[str]:
    """The processes that this one has started, those that other tests left among them."""
    return {pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}


def test_a_process_of_somebody_else_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert found([1, 2], lambda _: os.getpid(), 2) == [(1, os.getpid()), (2, os.getpid())]
