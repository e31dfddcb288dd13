"""How fast Python code is read: steps per second, and how many times longer than Python's own run of it that takes.

    python -m benchmarks.reading [WHEEL …]

The imports of the wheels are read (torchrl, tensordict and transformers, fetched with pip if none is named) for a
target on which every library loads. Each is read several times in this process: at first its sources are parsed and
compiled, afterwards they are kept, and only what the code does is left. The least processor time of each counts. What
Python itself does in the same time shows with a program that needs no torch and no package.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from abiscan.python.importing.runs import RunCache, Runs
from abiscan.python.interpreter.machine import Limits
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.library import PythonCode
from abiscan.python.package.sources import PackageFiles, PackageSources
from tests.unit.python.packages import FakeWorld, TextSources
from tools.wheels import download

_ROUNDS: Final = 5
_WHEELS: Final = ("torchrl==0.14.1", "tensordict==0.13.0", "transformers==5.24.0")
_PROGRAM: Final = """
class Counter:
    def __init__(self):
        self.words = {}

    def add(self, word, amount=1):
        if word.startswith("_") or not word:
            return None
        self.words[word] = self.words.get(word, 0) + amount
        return word

counter = Counter()
lines = [f"word{number % 50} _hidden{number} other{number % 7}" for number in range(2_000)]
seen = []
for number, line in enumerate(lines):
    for word in line.split(" "):
        if counter.add(word.strip()) is not None and number % 3 == 0:
            seen.append((word, len(seen) + 1))
largest = sorted(counter.words, key=lambda word: -counter.words[word])[:3]
"""


class _Wheel:
    """The files of a wheel; what its libraries need is not asked."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path)

    def members(self) -> Sequence[str]:
        """Their paths."""
        return [name for name in self._archive.namelist() if not name.endswith("/")]

    def read(self, path: str) -> bytes:
        """The bytes of one."""
        return self._archive.read(path)

    def needed(self, path: str) -> Sequence[str]:
        """None of its own."""
        return () if path else ("",)


def _read(sources: PackageSources, module: str) -> tuple[int, float, float]:
    """How many steps an import takes, and the processor time of the first reading and of a later one, in seconds."""
    world = FakeWorld()
    code = PythonCode(PackageFiles(sources), [module], world.python, Surroundings())
    limits = Limits(steps=1_000_000_000, total=1_000_000_000)
    times = []
    for _ in range(_ROUNDS):
        runs = Runs(code, FakeWorld, limits, RunCache())
        start = time.process_time()
        runs.run(module)
        times.append(time.process_time() - start)
    return runs.steps, times[0], min(times)


def _run_by_python() -> float:
    times = []
    for _ in range(_ROUNDS):
        start = time.process_time()
        exec(compile(_PROGRAM, "program", "exec"), {})  # noqa: S102 - it stands above
        times.append(time.process_time() - start)
    return min(times)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="*", type=Path)
    wheels: list[Path] = parser.parse_args().wheels
    with tempfile.TemporaryDirectory() as scratch:
        if not wheels:
            wheels = [path for name in _WHEELS if (path := download(name, Path(scratch))) is not None]
        rows = [(path.name.split("-")[0], _read(_Wheel(path), path.name.split("-")[0])) for path in wheels]
    steps, first, later = _read(TextSources({"program.py": _PROGRAM}), "program")
    rows.append(("the program", (steps, first, later)))
    print(f"{'':24}{'steps':>12}{'first, s':>10}{'later, s':>10}{'steps per second':>18}")
    for label, (steps, first, later) in rows:
        print(f"{label:24}{steps:12,}{first:10.2f}{later:10.3f}{steps / later:18,.0f}")
    print(
        f"\nPython itself runs the program in {_run_by_python():.3f} s: {later / _run_by_python():.0f} times as fast."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
