"""Where torch's assertions are in its source, read from the strings in its libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from abiscan.binary.elf import ElfFile
from abiscan.dispatch import assertions
from tests.elf_builder import Elf

REPORT: Final = b", please report a bug to PyTorch. "
LIBRARY_CPP: Final = b'"/pytorch/aten/src/ATen/core/library.cpp"'
OF_BLOCK: Final = b"!dispatch_key_.has_value() INTERNAL ASSERT FAILED at " + LIBRARY_CPP + b":108" + REPORT
OF_DEFINITION: Final = b"!dispatch_key_.has_value() INTERNAL ASSERT FAILED at " + LIBRARY_CPP + b":128" + REPORT
OF_FALLBACK: Final = b"dispatch_key.has_value() INTERNAL ASSERT FAILED at " + LIBRARY_CPP + b":293" + REPORT


def places(tmp_path: Path, *texts: bytes) -> dict[str, str]:
    return assertions.find_places(ElfFile.open(Elf(texts=(b"first", *texts)).write(tmp_path / assertions.LIBRARY)))


def test_as_torch_prints_them(tmp_path: Path) -> None:
    assert places(tmp_path, OF_FALLBACK, OF_BLOCK) == {
        "L2": '"/pytorch/aten/src/ATen/core/library.cpp":108',
        "L9": '"/pytorch/aten/src/ATen/core/library.cpp":293',
    }


def test_a_block_is_opened_before_anything_is_defined_in_it(tmp_path: Path) -> None:
    assert places(tmp_path, OF_DEFINITION, OF_BLOCK) == {"L2": '"/pytorch/aten/src/ATen/core/library.cpp":108'}


def test_without_a_space_as_in_1_9(tmp_path: Path) -> None:
    text = OF_FALLBACK.replace(b"() INTERNAL", b"()INTERNAL")
    assert places(tmp_path, text) == {"L9": '"/pytorch/aten/src/ATen/core/library.cpp":293'}


def test_the_same_condition_elsewhere_is_another_assertion(tmp_path: Path) -> None:
    elsewhere = OF_FALLBACK.replace(b"library.cpp", b"Dispatcher.cpp")
    longer = b"other." + OF_FALLBACK
    cut = OF_FALLBACK[:60]
    assert places(tmp_path, elsewhere, longer, cut) == {}
