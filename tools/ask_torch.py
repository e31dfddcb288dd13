"""Ask running torches what no file of theirs shows, and put the answers into the data files.

    python -m tools.ask_torch 2.5.0 2.7.0 [--python38 EXE]

What a release accepts (``acceptance.json``), what ``import torch`` registers from Python code (``data/python``), and
which types cross the stable ABI (``stable_types.txt``). ``tools.release`` asks the release that it reads; this program
downloads others, asks them, and deletes them. Releases that are not named stay in the files.

Nothing is asked of the torch of this environment, but what a torch needs to be imported is taken from it. Empty
libraries stand in for those of CUDA (``tools.stub_libraries``, which needs gcc). A torch runs in the Python that its
wheel is read for: 3.11, or 3.8 before torch 2.0. Those before 2.1 only tell what they accept.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from abiscan.dispatch.keys import keys_of
from tools import build_acceptance_data, record_crossing, record_python, stub_libraries
from tools.blocks import DATA, MARKS
from tools.data_files import PACKAGE
from tools.record_python import Entry
from tools.wheels import download, python_of

ACCEPTANCE: Final = PACKAGE / "dispatch/data/acceptance.json"
STABLE_TYPES: Final = PACKAGE / "dispatch/data/stable_types.txt"
THIS_PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
_TELLS: Final = Version("2.1")
"""The first release that lists its dispatcher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a release said; None where it cannot be asked."""

    accepts: Any
    registers: frozenset[Entry] | None
    crosses: frozenset[str] | None


def ask(package: Path, release: str, python: str = sys.executable, keys: Iterable[str] = ()) -> Said:
    """Ask an unpacked torch, in a process for each question.

    :param python: a Python that its wheel is for
    :param keys: its dispatch keys, if they may not be in the data files
    :raises SystemExit: it does not answer
    """
    version = Version(release)
    known = keys_of(version).names.values()
    with _importable(package):
        registers = frozenset(record_python.record(python)) if version >= _TELLS else None
        if registers is not None and not registers:
            raise SystemExit(f"torch {release} does not tell what Python code registers")
        return Said(
            accepts=build_acceptance_data.accepted(release, python, {*known, *keys}),
            registers=registers,
            crosses=record_crossing.crossing(package) if version >= record_crossing.FIRST else None,
        )


@contextlib.contextmanager
def _importable(package: Path) -> Iterator[None]:
    """Let Python import an unpacked torch."""
    with tempfile.TemporaryDirectory() as stubs:
        for name, symbols in stub_libraries.missing_symbols(package).items():
            stub_libraries.make(name, symbols, Path(stubs))
        before = dict(os.environ)
        # The folder of these tools as well: asking for types is one of them.
        here = os.pathsep.join((str(package.resolve().parent), str(PACKAGE.parent)))
        os.environ |= {"PYTHONPATH": here, "LD_LIBRARY_PATH": stubs}
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def put(said: Mapping[str, Said], without: Collection[str] = ()) -> None:
    """Put what releases said into the data files.

    :param without: releases to take out
    """
    accepts = {release: of_release.accepts for release, of_release in said.items()}
    registers = {release: one.registers for release, one in said.items() if one.registers is not None}
    crosses = {release: one.crosses for release, one in said.items() if one.crosses is not None}
    ACCEPTANCE.write_text(build_acceptance_data.replaced(ACCEPTANCE.read_text("utf-8"), accepts, without), "utf-8")
    MARKS.put(DATA / "python", registers, without)
    STABLE_TYPES.write_text(record_crossing.replaced(STABLE_TYPES.read_text("utf-8"), crosses, without), "utf-8")


def main() -> int:
    """Ask, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="+", metavar="VERSION", help="releases to ask")
    parser.add_argument("--python38", default="python3.8", metavar="EXE", help="for releases before 2.0")
    arguments = parser.parse_args()
    for release in sorted(arguments.versions, key=Version):
        python = sys.executable if python_of(release) == THIS_PYTHON else arguments.python38
        with tempfile.TemporaryDirectory() as scratch:
            wheel = download(f"torch=={release}", Path(scratch), python=python_of(release))
            if wheel is None:
                raise SystemExit(f"there is no wheel of torch {release} for Python {python_of(release)}")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(scratch)
            wheel.unlink()
            said = ask(Path(scratch, "torch"), release, python)
        put({release: said})
        print(f"torch {release}: {len(said.registers or ())} entries from Python code", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
