"""Which of torch's messages stand in its libraries."""

from __future__ import annotations

from pathlib import Path

from abiscan.binary.elf import ElfFile
from abiscan.dispatch.messages import TEMPLATES
from abiscan.dispatch.wordings import unworded
from tests.elf_builder import Elf

RELEASE = (2, 13)
WITHOUT_STRINGS = {"E5", "G1"}  # that of an inline function; that of the parser of schemas, which has many
EVERY = {template.id for template in TEMPLATES if template.holds_for(RELEASE)} - WITHOUT_STRINGS


def library(path: Path, *texts: bytes) -> ElfFile:
    return ElfFile.open(Elf(texts=texts).write(path))


def test_a_library_without_any() -> None:
    assert unworded((), RELEASE) == EVERY


def test_a_part_of_a_message_is_enough_in_any_library(tmp_path: Path) -> None:
    other = library(tmp_path / "libc10.so", b"nothing of the kind")
    core = library(tmp_path / "libtorch_cpu.so", b"Mismatch in kernel C++ signatures\n  operator: ")
    assert EVERY - unworded((other, core), RELEASE) == {"K1"}


def test_another_wording_is_another_message(tmp_path: Path) -> None:
    core = library(tmp_path / "libtorch_cpu.so", b"Mismatching C++ signatures of kernels\n  operator: ")
    assert unworded((core,), RELEASE) == EVERY
