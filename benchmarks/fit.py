"""What ``abiscan fit`` reads and how long it takes, beside what pip would have to download.

    python -m benchmarks.fit [--torch 2.7.1 --torch 2.9.1] [PACKAGE...]

For each package and torch, with an empty cache: the version found, the bytes read, and the seconds. Beside it: the
bytes of all wheels on the index that fit this Python and platform, which is what trying them one by one would download,
and the seconds of one ``pip download`` of the version found.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

import abiscan
from abiscan.inputs.index import Index, System, settings_of_pip
from abiscan.inputs.session import Session
from abiscan.inputs.store import Store

PACKAGES: Final = ("torchvision", "torchaudio", "torchao", "torchcodec", "xformers")
TORCHES: Final = ("2.7.1", "2.8.0", "2.9.1", "2.13.0")


def bytes_of_all(name: str) -> int:
    """The size of the wheels of all versions that pip could install here."""
    with tempfile.TemporaryDirectory() as folder:
        index = Index(settings_of_pip(None), System.of(), Path(folder))
        return sum(index.size(candidate) for candidate in index.candidates(Requirement(name)) if not candidate.unfit)


def download(requirement: str) -> float:
    """The seconds that pip takes to download a wheel."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-cache-dir", "-d", folder]
        start = time.perf_counter()
        subprocess.run([*command, requirement], check=True, stderr=subprocess.DEVNULL)
        return time.perf_counter() - start


def main() -> None:
    """Measure, and print one line for each pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=PACKAGES)
    parser.add_argument("--torch", action="append", dest="torches")
    words = parser.parse_args()
    for name in words.packages:
        everything = bytes_of_all(name)
        for torch in words.torches or TORCHES:
            with tempfile.TemporaryDirectory() as folder:
                start = time.perf_counter()
                found = abiscan.fit(name, torch, session=Session(store=Store(Path(folder))))
                seconds = time.perf_counter() - start
            version = found.packages[0].version if found.packages else None
            pip = f"{download(f'{name}=={version}'):.1f} s" if version else "-"
            ratio = everything / found.bytes_read
            sys.stdout.write(
                f"{name} {version or 'nothing'} on torch {torch}: {found.bytes_read / 1e6:.1f} MB in {seconds:.1f} s; "
                f"all wheels {everything / 1e6:.0f} MB ({ratio:.1f} times as much), pip download {pip}\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
