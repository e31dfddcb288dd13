"""What is deflated, inflated by ISA-L: as zlib has deflated it, and nothing else."""

from __future__ import annotations

import hashlib
import io
import sys
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest

from abiscan.errors import InputError
from abiscan.inputs.files import Wheel
from abiscan.inputs.inflation import NotAsPromisedError, decompress, inflate_blocks, inflate_deflated

TEXT = b"what is repeated is repeated is repeated" * 5000


def deflated(data: bytes) -> bytes:
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflater.compress(data) + deflater.flush()


def test_what_was_deflated_is_what_comes_back() -> None:
    assert inflate_deflated(deflated(TEXT), len(TEXT), zlib.crc32(TEXT)) == TEXT


NOT_PROMISED = [
    (deflated(TEXT), len(TEXT), zlib.crc32(b"other")),
    (deflated(TEXT), len(TEXT) + 1, zlib.crc32(TEXT)),
    (deflated(TEXT), len(TEXT) - 1, zlib.crc32(TEXT)),
    (deflated(TEXT)[:-9], len(TEXT), zlib.crc32(TEXT)),
    (b"\xff" * 99, len(TEXT), zlib.crc32(TEXT)),
    (b"", 1, 0),
]


@pytest.mark.parametrize(("packed", "size", "checksum"), NOT_PROMISED)
def test_what_is_not_as_promised_is_left_to_others(packed: bytes, size: int, checksum: int) -> None:
    assert inflate_deflated(packed, size, checksum) is None


def test_no_more_is_inflated_than_was_promised() -> None:
    packed, checksum = deflated(bytes(1 << 26)), zlib.crc32(bytes(1 << 26))
    tracemalloc.start()
    try:
        assert inflate_deflated(packed, 1000, checksum) is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("is_installed", [True, False])
@pytest.mark.parametrize("content", [b"", TEXT, bytes(1 << 20)])
def test_a_part_of_a_table_is_as_zlib_packed_it(
    content: bytes, monkeypatch: pytest.MonkeyPatch, *, is_installed: bool
) -> None:
    if not is_installed:
        monkeypatch.setitem(sys.modules, "isal", None)
    assert decompress(zlib.compress(content, 9)) == content
    assert decompress(memoryview(zlib.compress(content, 9))) == content


@pytest.mark.parametrize("block", [1000, len(TEXT), 1 << 20, len(TEXT) - 1])
def test_blocks_are_of_one_length_and_only_the_last_is_shorter(block: int) -> None:
    packed = deflated(TEXT)
    stream = io.BytesIO(b"before" + packed + b"after")
    stream.seek(6)
    blocks = list(inflate_blocks(stream, len(packed), len(TEXT), zlib.crc32(TEXT), block))
    assert b"".join(blocks) == TEXT
    assert {len(part) for part in blocks[:-1]} <= {block}
    assert 0 < len(blocks[-1]) <= block


@pytest.mark.parametrize(("packed", "size", "checksum"), NOT_PROMISED)
def test_blocks_that_are_not_as_promised_are_left_to_others(packed: bytes, size: int, checksum: int) -> None:
    with pytest.raises(NotAsPromisedError):
        list(inflate_blocks(io.BytesIO(packed), len(packed), size, checksum, 1 << 14))


def wheel(folder: Path) -> Path:
    path = folder / "p-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p/__init__.py", TEXT)
        archive.writestr("p/empty.py", b"")
    return path


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_member_is_the_same_with_isal_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_installed: bool
) -> None:
    if not is_installed:
        monkeypatch.setitem(sys.modules, "isal", None)
    opened = Wheel(wheel(tmp_path))
    assert opened.read_content("p/__init__.py") == TEXT
    assert opened.read_content("p/empty.py") == b""


def test_zipfile_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = wheel(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data.replace(deflated(TEXT), bytes(len(deflated(TEXT)))))
    with pytest.raises(InputError) as with_isal:
        Wheel(path).read_content("p/__init__.py")
    monkeypatch.setitem(sys.modules, "isal", None)
    with pytest.raises(InputError) as without:
        Wheel(path).read_content("p/__init__.py")
    assert str(with_isal.value) == str(without.value)
    assert "cannot be unpacked" in str(without.value)


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_copy_of_a_member_is_the_same_with_isal_and_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_installed: bool
) -> None:
    if not is_installed:
        monkeypatch.setitem(sys.modules, "isal", None)
    opened = Wheel(wheel(tmp_path))
    (info,) = (info for info in opened._archive.infolist() if info.file_size)
    with (tmp_path / "copy").open("w+b") as copy:
        assert opened.copy_member(info, copy) == hashlib.sha256(TEXT).hexdigest()
        copy.seek(0)
        assert copy.read() == TEXT


def test_a_damaged_member_is_named_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    content = bytearray(path.read_bytes())
    content[content.index(b"p/__init__.py") + 60] ^= 0xFF
    path.write_bytes(content)
    opened = Wheel(path)
    (info,) = (info for info in opened._archive.infolist() if info.file_size)
    with (tmp_path / "copy").open("w+b") as copy, pytest.raises(InputError, match="cannot be unpacked"):
        opened.copy_member(info, copy)
