from __future__ import annotations

import io
import os
import resource
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from abiscan.cli import process


@pytest.mark.parametrize("of_user", ["/var/tmp", None])
def test_temporary_files_go_where_the_user_says_afterwards(
    of_user: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "is_own", lambda: True)
    if of_user is None:
        monkeypatch.delenv("TMPDIR", raising=False)
    else:
        monkeypatch.setenv("TMPDIR", of_user)
    with process.scratch_folder():
        folder = Path(tempfile.gettempdir())
        assert folder == Path(os.environ["TMPDIR"])
        assert folder.is_dir()
    assert not folder.exists()
    assert os.environ.get("TMPDIR") == of_user


def _faults_of_calls(depth: int) -> int:
    """Return the page faults of a loop of calls at a depth."""

    def leaf(*, a: int = 1, b: int = 1, c: int = 1, d: int = 1, e: int = 1, f: int = 1, g: int = 1) -> list[int]:
        return [a, b, c, d, e, f, g, a, b, c, d, e, f, g]

    def go_down(left: int) -> int:
        if left:
            return go_down(left - 1)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(1000):
            leaf()
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    return go_down(depth)


def _most_faults() -> int:
    return max(map(_faults_of_calls, range(300)))


def test_no_loop_of_calls_maps_memory_each_time() -> None:
    most: list[int] = []
    process.call_deep(lambda: most.append(_most_faults()))
    assert most[0] < 500


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="a bug-fix release of it may keep the chunk that is given back")
def test_a_loop_of_calls_at_the_border_of_two_chunks_would() -> None:
    assert (_most_faults() >= 1000) is (sys.version_info >= (3, 11))


def test_what_a_deep_call_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        process.call_deep(lambda: print(1 // 0))


def test_a_command_has_the_main_thread_and_its_own_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, f"__{name}__"))
    answers = [process.is_own()]
    thread = threading.Thread(target=lambda: answers.append(process.is_own()))
    thread.start()
    thread.join()
    for name in ("stdout", "stderr"):
        with monkeypatch.context() as patch:
            patch.setattr(sys, name, io.StringIO())
            answers.append(process.is_own())
    assert answers == [True, False, False, False]
