"""Where libraries have code for GPUs: as readelf says, and only what looks like it."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.binary.section_headers import HEADER, find_gpu_code

FOLDER: Final = Path(__file__).parents[2] / "data" / "gpu"


@pytest.mark.skipif(not shutil.which("readelf"), reason="needs readelf")
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.so")), ids=lambda path: path.stem)
def test_code_for_gpus_is_where_readelf_says(path: Path) -> None:
    text = subprocess.run(["readelf", "--wide", "-S", path], capture_output=True, text=True, check=True).stdout
    (section,) = re.findall(r" \.nv_fatbin +PROGBITS +\S+ (\S+) (\S+)", text)
    offset, size = (int(number, 16) for number in section)
    assert find_gpu_code(memoryview(path.read_bytes())) == range(offset, offset + size)


def test_texts_are_not_searched_for_in_code_for_gpus() -> None:
    content = (FOLDER / "lz4.so").read_bytes()
    code = find_gpu_code(memoryview(content))
    text = b"\0only the code for GPUs has this\0"
    changed = content[: code.start + 64] + text + content[code.start + 64 + len(text) :]
    assert list(ElfFile.from_bytes(changed, "lz4.so").find_in_data(text)) == []
    # A section of that name with other contents is none.
    lying = content[: code.start] + text + content[code.start + len(text) :]
    assert list(ElfFile.from_bytes(lying, "lz4.so").find_in_data(text)) == [code.start]


def test_a_damaged_table_is_none() -> None:
    content = (FOLDER / "lz4.so").read_bytes()
    table, *_ = HEADER.unpack_from(content)
    for end in (10, HEADER.size, table + 10, len(content) - 1):
        assert not find_gpu_code(memoryview(content[:end]))
    assert not find_gpu_code(memoryview(content[:40] + b"\xff" * 8 + content[48:]))


def _with_section(contents: bytes) -> bytes:
    """A library whose section for code for GPUs, and nothing else, has other contents."""
    content = (FOLDER / "lz4.so").read_bytes()
    code = find_gpu_code(memoryview(content))
    assert len(contents) <= len(code)
    return content[: code.start] + contents.ljust(len(code), b"!") + content[code.stop :]


FAT_BINARY: Final = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 48) + b"c" * 48
BUNDLE: Final = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", 1, 80, 40, 16) + b"hipv4-amdgcn-amd" + b"c" * 48


@pytest.mark.parametrize("container", [FAT_BINARY, BUNDLE], ids=["cuda", "hip"])
def test_a_section_for_code_for_gpus_hides_no_text_behind_its_containers(container: bytes) -> None:
    text = b"\0the text of the host\0"
    size = 120 if container is BUNDLE else len(container)
    content = _with_section(container[:size] + b"\0" * 8 + container[:size] + b"\0" * 8 + text)
    code = find_gpu_code(memoryview(content))
    assert len(code) == 2 * size + 8
    assert list(ElfFile.from_bytes(content, "lz4.so").find_in_data(text)) == [code.start + 2 * size + 16]


@pytest.mark.parametrize("size", [0, 1 << 40, (1 << 64) - 1])
def test_a_container_that_is_larger_than_its_section_is_none(size: int) -> None:
    content = _with_section(struct.pack("<IHHQ", 0xBA55ED50, 1, 16 if size else 0, size))
    assert not find_gpu_code(memoryview(content))


def test_a_container_whose_entries_are_beyond_any_file_is_none() -> None:
    """The length of a name in a bundle is 64 bits: the next entry would be at more than an offset can be."""
    bundle = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", 2, 0, 0, 2**64 - 64)
    assert not find_gpu_code(memoryview(_with_section(bundle)))
