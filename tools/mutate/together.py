"""What all tests of ``.ci/run`` notice of many changes: one run with all of them, then what failed with one at a time.

Where a test fails, it is hardly ever because of two changes that are harmless alone: it runs again with each of them.
Where none fails, none notices any of the changes: one run instead of one for each. A change may be taken for
a survivor because another one hides it; what counts as noticed fails with that change alone, and passes without any.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tools.mutate.mutants import ROOT, Mutant
from tools.mutate.processes import Processes

_SECONDS: Final = 3600
"""The processor time of a process, several times what it takes: with a change, a test may run for ever."""


def noticed(mutants: Sequence[Mutant], started: Processes, options: Sequence[str]) -> dict[Mutant, str]:
    """The mutants that a test notices, and the test; the options are those of a run of all tests."""
    result = {}
    for group in _groups(mutants):
        failed = _failed(group, started, [*options, "--numprocesses=2", "--dist=loadgroup"])
        sound = failed - _failed((), started, [*options, *sorted(failed)]) if failed else failed
        for one in group if sound else ():
            if by := _failed([one], started, [*options, "-x", *sorted(sound)]):
                result[one] = min(by)
    return result


def _groups(mutants: Sequence[Mutant]) -> Iterator[list[Mutant]]:
    """Mutants of different files each: two of one file would be two texts of it."""
    left = list(mutants)
    while left:
        group = {one.path: one for one in reversed(left)}
        yield list(group.values())
        left = [one for one in left if one not in group.values()]


def _failed(mutants: Sequence[Mutant], started: Processes, options: Sequence[str]) -> set[str]:
    """The tests that fail in a new process with some mutants."""
    with tempfile.TemporaryDirectory() as folder, started.changed(mutants):
        command = [sys.executable, "-m", "pytest", *options, "-p", "cacheprovider", "-o", f"cache_dir={folder}"]
        subprocess.run(command, cwd=ROOT, capture_output=True, check=False, preexec_fn=_limit)
        failed = Path(folder, "v/cache/lastfailed")
        return set(json.loads(failed.read_text("utf-8"))) if failed.is_file() else set()


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
