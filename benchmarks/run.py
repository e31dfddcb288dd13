"""How long abiscan takes beside its neighbours, as ratios of one run on one machine.

    python -m benchmarks.run [WHEEL] [--large [WHEEL]]

The wheel (torchvision 0.28.0 for x86_64 and Python 3.11, fetched with pip if none is named) is judged against the
installed torch with torch's exports cached, and once with an empty cache. Beside it, on the same wheel:
``auditwheel show`` and ``abi3audit``; and ``python -c "import torch"``. Each is the best of several runs, in a process
of its own. ``abiscan matrix`` judges it on all embedded releases. The peers are installed into a folder of their own.
``--large`` adds ``abiscan ops`` on a library of 262 MB, or on the largest one of a wheel that is named.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.wheels import download

RUNS: Final = 5
WHEEL: Final = "torchvision==0.28.0"
LARGE: Final = "intel_extension_for_pytorch==2.8.0"
_HINDRANCES: Final = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
OPS, OPS_LARGE, IMPORT = "abiscan ops, its _C.so", "abiscan ops, a large library", 'python -c "import torch"'
HERE: Final = "the same with --no-isolation"
PEERS: Final = ("auditwheel", "abi3audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The best wall-clock and processor times of some runs, in seconds, and the highest resident memory, in MB."""

    seconds: float
    processor: float
    megabytes: float


def measure(command: Sequence[str], environment: dict[str, str], runs: int = RUNS) -> Timing:
    """Run a command several times, whatever its exit code."""
    best = Timing(seconds=float("inf"), processor=float("inf"), megabytes=0)
    # As they are used: with compiled modules, and with output that is buffered.
    environment = {name: value for name, value in environment.items() if name not in _HINDRANCES}
    for _ in range(runs):
        # ru_maxrss of RUSAGE_CHILDREN is the maximum over all children so far: a fresh process waits for each run.
        script = (
            "import resource, subprocess, sys, time; start = time.perf_counter();"
            "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL);"
            "seconds = time.perf_counter() - start; used = resource.getrusage(resource.RUSAGE_CHILDREN);"
            "print(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, *command], capture_output=True, text=True, check=True, env=environment
        )
        seconds, processor, megabytes = map(float, done.stdout.split())
        best = Timing(
            seconds=min(best.seconds, seconds),
            processor=min(best.processor, processor),
            megabytes=max(best.megabytes, megabytes),
        )
    return best


def library(wheel: str, folder: Path) -> str:
    """The largest library of the wheel, unpacked."""
    with zipfile.ZipFile(wheel) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".so")]
        return archive.extract(max(members, key=lambda info: info.file_size), folder)


def _large(named: str | None, folder: Path, environment: dict[str, str]) -> list[tuple[str, Timing]]:
    """What ``abiscan ops`` takes on the largest library of a wheel, named or to be fetched; nothing for None."""
    if named is None:
        return []
    path = library(str(download(named, folder)) if named == LARGE else named, folder)
    return [(OPS_LARGE, measure([sys.executable, "-m", "abiscan", "ops", path], environment))]


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments: ``wheel``, and ``large``, the path of a wheel or ``LARGE``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", nargs="?", type=Path)
    # No type: argparse would apply it to the default as well.
    parser.add_argument(
        "--large", nargs="?", const=LARGE, metavar="WHEEL", help=f"by default {LARGE}, fetched with pip"
    )
    return parser.parse_args(words)


def main() -> int:
    """Measure and print."""
    arguments = parsed()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        wheel = str(arguments.wheel or download(WHEEL, scratch))
        peers = scratch / "peers"
        subprocess.run([sys.executable, "-m", "venv", str(peers)], check=True)
        subprocess.run([str(peers / "bin" / "pip"), "install", "--quiet", *PEERS], check=True)
        environment = {**os.environ, "XDG_CACHE_HOME": str(scratch / "cache")}
        empty = {**os.environ, "XDG_CACHE_HOME": str(scratch / "empty" / str(time.time_ns()))}
        check = [sys.executable, "-m", "abiscan", "check", "--quiet", wheel]
        matrix = [sys.executable, "-m", "abiscan", "matrix", "--format", "json", wheel]
        cold = measure(check, empty, runs=1)
        measure(check, environment, runs=1)
        cached = measure(check, environment)
        rows = [
            ("abiscan check, torch cached", cached),
            ("abiscan check, nothing cached", cold),
            ("abiscan check --torch 2.13.0", measure([*check, "--torch", "2.13.0"], environment)),
            ("abiscan matrix, all releases", measure(matrix, environment)),
            (HERE, measure([*check[:3], "--no-isolation", *check[3:], "--torch", "2.13.0"], environment)),
            (OPS, measure([sys.executable, "-m", "abiscan", "ops", library(wheel, scratch)], environment)),
            *_large(arguments.large, scratch, environment),
            ("auditwheel show", measure([str(peers / "bin" / "auditwheel"), "show", wheel], environment)),
            ("abi3audit", measure([str(peers / "bin" / "abi3audit"), wheel], environment)),
            (IMPORT, measure([sys.executable, "-c", "import torch"], environment)),
        ]
    print(f"{'':32}{'seconds':>9}{'MB':>8}{'abiscan cached = 1':>20}")
    for label, timing in rows:
        ratio = timing.seconds / cached.seconds
        print(f"{label:32}{timing.seconds:9.2f}{timing.megabytes:8.0f}{ratio:20.2f}")
    seconds = {label: timing.seconds for label, timing in rows}
    for other, most in (("abiscan check --torch 2.13.0", 2.0), ("auditwheel show", 0.6)):
        ratio = seconds["abiscan matrix, all releases"] / seconds[other]
        print(f"abiscan matrix takes {ratio:.2f} of the time of {other} (aim: at most {most})")
    processor = {label: timing.processor for label, timing in rows}
    isolated = processor["abiscan check --torch 2.13.0"] / processor[HERE]
    print(f"a process of its own takes {isolated:.3f} of the processor time (aim: at most 1.05)")
    for label, most in ((OPS, 0.25), (OPS_LARGE, 1.0)):
        if label in processor:
            ratio = processor[label] / processor[IMPORT]
            print(f"{label} takes {ratio:.2f} of the processor time of {IMPORT} (aim: at most {most})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
