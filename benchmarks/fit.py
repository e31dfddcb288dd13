"""What ``abiscan fit`` reads and how long it takes, beside what pip would have to download.

    python -m benchmarks.fit [--torch 2.7.1 --torch 2.9.1] [--repeat 3] [--line 100] [PACKAGE...]

For each package and torch, with an empty cache: the version found, the bytes read, and the seconds. Beside it: the
bytes of all wheels on the index that fit this Python and platform, which is what trying them one by one would download,
and the seconds of one ``pip download`` of the version found, run right after. Of repeated runs, the fastest count.

Processor time says more than wall time if other programs run, or if the index is nearer than it is to most users: the
last figure is the speed of the line below which ``fit`` is the faster one, as it reads less and computes more. With
``--line``, both are measured on a line of so many Mbit/s.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from abiscan.index.client import Index, settings_of_pip
from abiscan.index.system import System
from benchmarks.line import line

PACKAGES: Final = ("torchvision", "torchaudio", "torchao", "torchcodec", "xformers")
TORCHES: Final = ("2.7.1", "2.8.0", "2.9.1", "2.13.0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a command: its output, and its seconds by the wall clock and of the processor."""

    output: str
    wall: float
    processor: float


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Run:
    """Run a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(output=done.stdout, wall=wall, processor=processor)


def sizes(name: str) -> dict[str, int]:
    """The sizes of the wheels of all versions that pip could install here."""
    with tempfile.TemporaryDirectory() as folder:
        index = Index(settings_of_pip(None), System.of(), Path(folder))
        candidates = [one for one in index.candidates(Requirement(name)) if not one.unfit]
        return {str(candidate.version): index.size(candidate) for candidate in candidates}


def fit(name: str, torch: str, environment: Mapping[str, str]) -> Run:
    """Find a version, with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "abiscan", "fit", name, "--torch", torch, "--format", "json"]
        return run(command, {**environment, "XDG_CACHE_HOME": folder})


def download(requirement: str, environment: Mapping[str, str]) -> Run:
    """Have pip download a wheel."""
    with tempfile.TemporaryDirectory() as folder:
        return run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-cache-dir", "-d", folder, requirement],
            environment,
        )


def row(name: str, torch: str, wheels: Mapping[str, int], repeat: int, environment: Mapping[str, str]) -> str:
    """What is printed for a package and a torch."""
    everything, pairs = sum(wheels.values()), []
    for _ in range(repeat):
        found = fit(name, torch, environment)
        document = json.loads(found.output)
        if not document["packages"]:
            return f"{name} on torch {torch}: {document['obstacle']}"
        version = document["packages"][0]["version"]
        pairs.append((found, download(f"{name}=={version}", environment)))
    wall, processor = (min(getattr(one, what) for one, _ in pairs) for what in ("wall", "processor"))
    pip_wall, pip_processor = (min(getattr(one, what) for _, one in pairs) for what in ("wall", "processor"))
    size, bytes_read = wheels[version], document["bytes_read"]
    more, less = processor - pip_processor, size - bytes_read
    slower = f"{less * 8 / more / 1e6:.0f} Mbit/s" if more > 0 < less else "any" if more <= 0 else "none"
    return (
        f"{name} {version} on torch {torch}: {bytes_read / 1e6:.1f} MB; all wheels {everything / 1e6:.0f} MB, "
        f"{everything / bytes_read:.1f} times as much; wall {wall:.1f} s, processor {processor:.1f} s; pip download of "
        f"{size / 1e6:.1f} MB: wall {pip_wall:.1f} s ({wall / pip_wall:.2f}), processor {pip_processor:.1f} s "
        f"({processor / pip_processor:.2f}); the faster one up to {slower}"
    )


def main() -> None:
    """Measure, and print one line for each pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--torch", action="append", dest="torches")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--line", type=float, metavar="MBITS")
    words = parser.parse_args()
    with contextlib.ExitStack() as stack:
        environment = dict(os.environ)
        if words.line:
            environment["HTTPS_PROXY"] = environment["https_proxy"] = stack.enter_context(line(words.line))
        for name in words.packages:
            wheels = sizes(name)
            for torch in words.torches or TORCHES:
                sys.stdout.write(f"{row(name, torch, wheels, words.repeat, environment)}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
