"""What abiscan says about the small packages."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from abiscan.python.package.model import Answer, Raised
from tests.oracle.reading.truth import Outcome, package
from tests.unit.python.packages import FakeWorld, reading_of

CASES: Final = Path(__file__).with_name("cases.txt")
_HEADER: Final = re.compile(r"=== (\w+)(?: \((\d+)\.(\d+)\))?\n")


def cases() -> dict[str, str]:
    """The code of the packages that are written by hand and that this Python can parse, by name."""
    _, *parts = _HEADER.split(CASES.read_text("utf-8"))
    found = {}
    for name, major, minor, code in zip(*[iter(parts)] * 4, strict=True):
        assert name not in found, name
        if major is None or sys.version_info >= (int(major), int(minor)):
            found[name] = code
    return found


def reading(code: str, *, failing: bool) -> Outcome:
    """What reading a package says, where "bad" fails to load or does not."""

    def error(path: str) -> str | None:
        return f"Could not load this library: {path}" if failing and path.endswith("/bad.so") else None

    files: dict[str, str | bytes] = {f"p/{name}": content for name, content in package(code).items()}
    world = FakeWorld(python=sys.version_info[:2], error=error)
    (outcome,) = (one for one in reading_of(files, world).imports if one.module == "p")
    return Outcome(
        raised=outcome.raised.exception if isinstance(outcome.raised, Raised) else None,
        loads=tuple(Path(load.path).stem if load.path else "?" for load in outcome.loads),
        gaps=outcome.gaps,
        unknown=isinstance(outcome.raised, Answer),
        conditional=bool(outcome.conditions),
    )
