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

from abiscan.linkage.model import NO_SUCH_FILE
from tools.loader_truth.crafting import Case

_NOT_KEPT: Final = frozenset({"initialiser", "sibling", "start", "subfolder"})
FOLDERS: Final = re.compile(r"(?<![.\w])/(?:[^/: )]+/)+")
"""The folders of paths in the words of ``ld.so``."""


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
            # A library that is nowhere may be where the extension is used: that is said, and counted by --strict.
            library = self.message.partition(": ")[0]
            is_assumed = self.message.endswith(NO_SUCH_FILE) and predicted.message.startswith(
                f"not available: {library}"
            )
            return "assumed elsewhere" if is_assumed else "unknown"
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
            paths = sorted((folder / case.name).rglob("*"))
            # The test has neither this processor nor what runs initialisers, and an archive of files no links.
            if case.name.partition("-")[2] in _NOT_KEPT or any(path.is_symlink() or _is_empty(path) for path in paths):
                continue
            key = case.name.partition("-")[2], re.sub("dep_[a-z]+|x_[a-z]+|0x[0-9a-f]+", "", truth.message)
            kept[key] += 1
            if kept[key] <= most:
                told[case.name] = {"steps": case.steps, **asdict(truth)}
                for path in paths:
                    if path.is_file():
                        _add(target, path.relative_to(folder).as_posix(), path.read_bytes())
        _add(target, "truth.json", json.dumps(told, indent=1).encode())


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not any(folder.iterdir())


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)  # without the time, so that the same cases are the same archive
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def unpack(archive: Path) -> tuple[dict[str, dict[str, str]], dict[str, bytes]]:
    """Return the truth by case, and the libraries by path."""
    with tarfile.open(archive) as source:
        files = {member.name: stream.read() for member in source if (stream := source.extractfile(member))}
    return json.loads(files.pop("truth.json")), files
