"""30 runs that are killed, and 48 that share a cache: what the next one says is the same."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.commands.processes import Finished, run, start
from tests.fakes import extension, package_wheel
from tests.index_server import serving

pytestmark = [pytest.mark.hostile, pytest.mark.slow]

SAMPLES: Final = Path(__file__).parents[2] / "sample_binaries"
NAMES: Final = ("loads/loads.so", "registrations/backend.so", "stable/stable.so")
TARGETS: Final = tuple(str(SAMPLES / name) for name in NAMES if (SAMPLES / name).exists())
CHECK: Final = ("check", *TARGETS, "--torch", "2.13.0", "--format", "json")


def ran(cache: Path, words: Sequence[str] = CHECK) -> Finished:
    return run(*words, env={"XDG_CACHE_HOME": str(cache)})


def test_runs_that_are_killed_leave_nothing_behind(tmp_path: Path) -> None:
    """With SIGKILL, at 30 moments of a run: nothing can be put in order, and nothing needs to be."""
    began = time.monotonic()
    expected = ran(tmp_path / "first")
    seconds = time.monotonic() - began
    for number in range(30):
        cache = tmp_path / str(number % 5)  # six kills each, one after the other
        with start(*CHECK, env={"XDG_CACHE_HOME": str(cache)}) as running:
            time.sleep(seconds * (number + 1) / 30)
            with contextlib.suppress(ProcessLookupError):
                running.send(signal.SIGKILL, group=True)
        if number >= 25:
            again = ran(cache)
            assert (again.code, again.out, again.err) == (expected.code, expected.out, expected.err)
    for number in range(25, 30):
        assert ran(tmp_path / str(number % 5)).out == expected.out


def test_48_runs_at_once(tmp_path: Path) -> None:
    """Half of them read from an index, whose wheels all of them keep in the same files."""
    for version in ("1.0", "2.0"):
        package_wheel(tmp_path, "eye", {"eye/_C.so": extension()}, version=version)
    with serving(tmp_path) as index, contextlib.ExitStack() as stack:
        fit = ("fit", "eye", "--torch", "2.13.0", "--index-url", index.url, "--format", "requirements")
        expected = {words: ran(tmp_path / "alone", words) for words in (CHECK, fit)}
        assert "eye==2.0" in expected[fit].out
        env = {"XDG_CACHE_HOME": str(tmp_path / "shared")}
        runs = [(words, stack.enter_context(start(*words, env=env))) for words in (CHECK, fit) * 24]
        for words, running in runs:
            done = running.finish()
            assert (done.code, done.out) == (expected[words].code, expected[words].out), done.err
