"""Which test runs which lines, and how long it takes: kept in a file, which outlives changes of the package."""

from __future__ import annotations

import difflib
import functools
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools.mutate.mutants import ROOT, Mutant
from tools.mutate.processes import bits


@dataclass(slots=True, kw_only=True)
class Record:
    """What is known of the tests.

    :ivar seconds: the processor time of each test, its processes included
    :ivar lines: the lines of each file that each test runs, as a bit set
    :ivar texts: the files of the package and of the tests as they were
    """

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[str, int]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def save(self, file: Path) -> None:
        """Keep it for the next time."""
        file.write_text(json.dumps(asdict(self)), "utf-8")

    def of(self, one: Mutant) -> set[str]:
        """The tests that run a line of a mutant."""
        wanted = bits(one.lines)
        return {test for test, lines in self.lines.get(one.path, {}).items() if lines & wanted}

    def of_room(self, room: str) -> list[str]:
        """The tests that run anything of a room, the fastest first."""
        inside = (tests for path, tests in self.lines.items() if path.startswith(f"abiscan/{room}/"))
        return sorted(
            {test for tests in inside for test in tests if test in self.seconds}, key=self.seconds.__getitem__
        )

    def add(self, test: str, seconds: float, lines: dict[str, int]) -> None:
        """Note what a test does."""
        self.seconds[test] = seconds
        for path in (test.partition("::")[0], *lines):
            self.texts.setdefault(path, _text(path))
        for path, ran in lines.items():
            self.lines.setdefault(path, {})[test] = ran


def load(file: Path | None) -> Record:
    """What was kept, of the tests that are as they were; lines of the package may have moved."""
    if file is None or not file.is_file():
        return Record()
    record = Record(**json.loads(file.read_text("utf-8")))
    changed = {path for path, text in record.texts.items() if text != _text(path)}
    record.seconds = {test: taken for test, taken in record.seconds.items() if test.partition("::")[0] not in changed}
    for path, tests in record.lines.items():
        move = _moved(record.texts[path], _text(path)) if path in changed else int
        record.lines[path] = {test: move(ran) for test, ran in tests.items() if test in record.seconds}
    record.texts = {path: _text(path) for path in record.texts}
    return record


def _text(path: str) -> str:
    file = ROOT / path
    return file.read_text("utf-8") if file.is_file() else ""


def _moved(before: str, after: str) -> Callable[[int], int]:
    """Where lines are now: a changed or new one is run by those that ran what was there, or the line before."""
    blocks = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False).get_opcodes()

    @functools.cache
    def move(ran: int) -> int:
        result = 0
        for kind, old, old_end, new, new_end in blocks:
            part = ran >> old + 1 & (1 << old_end - old) - 1
            if kind == "equal":
                result |= part << new + 1
            elif part or (kind == "insert" and ran >> old & 1):
                result |= (1 << new_end - new) - 1 << new + 1
        return result

    return move
