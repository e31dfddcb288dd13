"""How long abiscan takes to read a torch, and to compare two, as ratios of one run on one machine.

    python -m benchmarks.torches [--large FILE.so] [--old TORCH --new TORCH]

The torch is the installed one. Its operators are read from its libraries, and listed from the cache; ``--large`` adds
an extension whose operators are listed; two torch folders are compared with ``abiscan diff``, everything cached, and
their libtorch_cpu.so with ``abidiff``, where libabigail is installed: that takes minutes. Each is the best of several
runs, in a process of its own; the ratios are those of processor time.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.run import READ, ROUNDS, Timing, measure

IMPORT: Final = 'python -c "import torch"'


def measured(scratch: Path, large: Path | None, folders: Sequence[Path]) -> list[tuple[str, Timing]]:
    """The rows of the table, by label."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        sys.exit("torch is not installed here")
    torch = str(Path(spec.origin).parent)
    environment = {**os.environ, "XDG_CACHE_HOME": str(scratch)}
    abiscan = [sys.executable, "-m", "abiscan"]

    def best(command: Sequence[str], runs: int = ROUNDS) -> Timing:
        measure(command, environment, runs=1)  # fills the caches
        return measure(command, environment, runs)

    rows = [
        (IMPORT, best([sys.executable, "-c", "import torch"])),
        ("operators of torch, from its libraries", best([sys.executable, "-c", READ, torch], runs=2)),
        ("abiscan ops --torch, cached", best([*abiscan, "ops", "--torch", torch])),
    ]
    if large:
        rows.append((f"abiscan ops {large.name}", best([*abiscan, "ops", str(large)])))
    if folders:
        rows.append(("abiscan diff, cached", best([*abiscan, "diff", *map(str, folders)])))
        if tool := shutil.which("abidiff"):
            libraries = [str(folder / "lib" / "libtorch_cpu.so") for folder in folders]
            rows.append(("abidiff, the two libtorch_cpu.so", measure([tool, *libraries], environment, runs=1)))
        else:
            print("abidiff is not installed (Debian: abigail-tools): not compared with it")
    return rows


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", type=Path)
    parser.add_argument("--old", type=Path)
    parser.add_argument("--new", type=Path)
    arguments = parser.parse_args()
    folders = [arguments.old, arguments.new] if arguments.old and arguments.new else []
    with tempfile.TemporaryDirectory() as scratch:
        rows = measured(Path(scratch), arguments.large, folders)
    processor = dict(rows)[IMPORT].processor
    print(f"{'':40}{'seconds':>9}{'processor':>11}{'MB':>8}{'import torch = 1':>18}")
    for label, timing in rows:
        ratio = timing.processor / processor
        print(f"{label:40}{timing.seconds:9.2f}{timing.processor:11.2f}{timing.megabytes:8.0f}{ratio:18.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
