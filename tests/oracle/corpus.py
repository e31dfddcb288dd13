"""The released wheels that the recorded loads are of, as several tests read them: each is inflated and emulated once.

``ABISCAN_CORPUS`` is a folder for the wheels, which are downloaded into it. Beside them their large members stand
unpacked, to be mapped: a run of the tests opens some of them a hundred times. What an object registers depends on its
bytes and on nothing else but ``argument_tail``, so it is recovered once in a process, whichever test asks.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from abiscan.binary.elf import ElfFile, SharedObject
from abiscan.cache.cache_folder import replace_whole
from abiscan.emulation import recover
from abiscan.extension import inventory
from abiscan.inputs import files
from abiscan.registrations import Registrations
from abiscan.results.check import Result
from tests.conftest import give_memory_back
from tools import ground_truth

CORPUS: Final = os.environ.get("ABISCAN_CORPUS")
needs_corpus: Final = pytest.mark.skipif(not CORPUS, reason="needs ABISCAN_CORPUS, the folder for downloaded wheels")


def folder() -> Path:
    """The folder of the wheels."""
    path = Path(CORPUS or "")
    path.mkdir(parents=True, exist_ok=True)
    return path


def cache() -> Path:
    """What is kept between runs, next to the wheels."""
    return folder() / "cache"


def wheel(name: str) -> Path:
    """The wheel of ``package-version``."""
    package, _, version = name.rpartition("-")
    return ground_truth.wheel(package, version, folder())


def predictions(
    pairs: Sequence[ground_truth.Pair], *, embedded: bool = False
) -> Iterator[tuple[ground_truth.Pair, Result]]:
    """What ``ground_truth.predict`` says, in little memory: one torch after the other."""
    torch = None
    for pair, result in ground_truth.predict(pairs, folder(), embedded=embedded):
        if pair.torch != torch:
            give_memory_back()
            torch = pair.torch
        yield pair, result


class _Unpacked(files.WheelMember):
    """A member of a wheel that is inflated once, for all runs."""

    def open_elf(self) -> ElfFile:
        """Map the unpacked file."""
        if self.size < files._SMALL_MEMBER:
            return super().open_elf()
        return ElfFile.open(self._unpacked(), subject=self.name)

    def hash_content(self) -> str:
        """The hash of the unpacked file, which is read past once."""
        return super().hash_content() if self.size < files._SMALL_MEMBER else _sha256(self._unpacked())

    def _unpacked(self) -> Path:
        path = folder() / "unpacked" / f"{self._info.CRC:08x}-{self.size}-{Path(self._info.filename).name}"
        if not path.is_file():
            with replace_whole(path) as part, part.open("wb") as stream:
                self._wheel.copy_member(self._info, stream)
        return path


@functools.cache
def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@functools.cache
def _known() -> dict[tuple[str, int | None], Registrations]:
    return {}


def _recover_once(
    file: ElfFile,
    facts: SharedObject,
    argument_tail: int | None = None,
    syntax_error: Callable[[str], str | None] = lambda _: None,
) -> Registrations:
    if ".whl!" not in file.subject:
        return recover(file, facts, argument_tail, syntax_error)
    key = file.subject, argument_tail
    if key not in _known():
        _known()[key] = recover(file, facts, argument_tail, syntax_error)
    return _known()[key]


@pytest.fixture(autouse=True, scope="module")
def shared_work() -> Iterator[None]:
    """For a module that imports this: its tests share what they read of the wheels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "WheelMember", _Unpacked)
        patch.setattr(inventory, "recover", _recover_once)
        yield
