"""What is done once for a package, and what is not imported to check it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from abiscan import api
from abiscan.verdict.judge import Judge

WHEELS = Path(__file__).parents[2] / "data" / "wheels"
HARMONICS = WHEELS / "torch_harmonics-0.9.3-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl"


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str]]:
    """How often each extension is linked, by the torch."""
    counted: Counter[tuple[str, str]] = Counter()
    link = Judge._link

    def counting(self: Judge, examined: Any, setting: Any, *rest: Any, **named: Any) -> Any:
        counted[examined.path, setting.release.build] += 1
        return link(self, examined, setting, *rest, **named)

    monkeypatch.setattr(Judge, "_link", counting)
    return counted


def test_an_extension_that_a_package_loads_first_is_linked_once_on_each_torch(
    linked: Counter[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    api.matrix([HARMONICS], ["2.4.0", "2.11.0"], explained=False)
    first = {torch: count for (path, torch), count in linked.items() if path.startswith("attention_helpers.")}
    assert list(first.values()) == [1, 1]


@pytest.mark.parametrize(
    ("module", "unwanted"),
    {
        "a doctor who asks no index": ("abiscan.hooks.doctor", ["unearth", "requests", "abiscan.hooks.solution"]),
        "the emulator": ("abiscan.emulation.recovery", ["capstone", "icicle"]),
    }.values(),
)
def test_what_is_rarely_needed_is_not_imported(module: str, unwanted: list[str]) -> None:
    code = f"import sys, {module}; print([name for name in {unwanted} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
