"""What became of crafted libraries, and the recorded ones."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from tools.loader_truth.crafting import Case

FOLDERS: Final = re.compile(r"(?<![.\w])/(?:[^/: )]+/)+")
"""The folders of paths in the words of ``ld.so``."""
_FILES: Final = ("x.so", "libdep.so")


class Outcome(Struct, frozen=True, kw_only=True):
    """The end of a load, predicted or real.

    :ivar verdict: ``loads``, ``raises`` or ``aborts``; a prediction may be ``unknown`` or ``unreadable``, too
    :ivar message: the words, after the path of the file
    """

    verdict: str
    message: str = ""

    def compare(self, predicted: Outcome) -> str:
        """Return how a prediction compares with this truth."""
        if predicted == self:
            return "agree"
        if predicted.verdict == "unreadable":  # said, with an exit code of its own
            return "unreadable" if self.verdict != "loads" else "unreadable, but loads"
        if predicted.verdict == "unknown":
            return "unknown"
        return "other words" if predicted.verdict == self.verdict else "other verdict"


def outcome_of(*, aborts: bool, name: str | None, message: str, signal: int | None) -> Outcome:
    """Return a prediction in the words of a truth."""
    if signal is not None:
        return Outcome(verdict="aborts", message=f"signal {signal}")
    message = FOLDERS.sub("", message)
    return Outcome(verdict="aborts" if aborts else "raises", message=f"{name}: {message}" if name else message)


def pack(archive: Path, folder: Path, cases: Sequence[tuple[Case, Outcome]], most: int = 1) -> None:
    """Keep so many cases of each kind and outcome."""
    kept: Counter[tuple[str, str]] = Counter()
    told: dict[str, dict[str, object]] = {}
    with tarfile.open(archive, "w:xz") as target:
        for case, truth in cases:
            key = case.name.partition("-")[2], re.sub("dep_[a-z]+|x_[a-z]+|0x[0-9a-f]+", "", truth.message)
            kept[key] += 1
            if kept[key] <= most:
                told[case.name] = {"steps": case.steps, **asdict(truth)}
                for name in _FILES:
                    _add(target, f"{case.name}/{name}", (folder / case.name / name).read_bytes())
        _add(target, "truth.json", json.dumps(told, indent=1).encode())


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)  # without the time, so that the same cases are the same archive
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def unpack(archive: Path) -> tuple[dict[str, dict[str, str]], dict[str, bytes]]:
    """Return the truth by case, and the libraries by path."""
    with tarfile.open(archive) as source:
        files = {member.name: stream.read() for member in source if (stream := source.extractfile(member))}
    return json.loads(files.pop("truth.json")), files
