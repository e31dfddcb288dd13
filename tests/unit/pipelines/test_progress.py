"""What is said while a command works: what it is at, and how much of all that is."""

from __future__ import annotations

from pathlib import Path

import abiscan
from abiscan.inputs.session import Session
from tests.fakes import SAMPLES

TARGETS = [SAMPLES / "loads/loads.so", SAMPLES / "weak_reference/weak_reference.so"]


def said(tmp_path: Path, count: int, *torches: str) -> list[str]:
    lines: list[str] = []
    session = Session(folder=tmp_path, progress=lines.append)
    for torch in torches:
        abiscan.check(TARGETS[:count], torch, session=session)
    return [line for line in lines if " on torch" in line]


def test_several_targets_are_counted_on_all_torches(tmp_path: Path) -> None:
    lines = said(tmp_path, 2, ">=2.9,<2.10")
    releases = sum(release.startswith("2.9.") for release in abiscan.releases())
    last = {line.rpartition(" (")[2] for line in lines}
    assert last == {f"{number + 1} of {2 * releases})" for number in range(2 * releases)}


def test_one_target_is_not_counted(tmp_path: Path) -> None:
    (line,) = said(tmp_path, 1, "2.9.1")
    assert " of " not in line
