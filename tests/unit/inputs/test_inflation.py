"""What is deflated, inflated by ISA-L: as zlib has deflated it, and nothing else."""

from __future__ import annotations

import sys
import zipfile
import zlib
from pathlib import Path

import pytest

from abiscan.errors import InputError
from abiscan.inputs.files import Wheel
from abiscan.inputs.inflation import inflate_deflated

TEXT = b"what is repeated is repeated is repeated" * 5000


def deflated(data: bytes) -> bytes:
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflater.compress(data) + deflater.flush()


def test_what_was_deflated_is_what_comes_back() -> None:
    assert inflate_deflated(deflated(TEXT), len(TEXT), zlib.crc32(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("packed", "size", "checksum"),
    [
        (deflated(TEXT), len(TEXT), zlib.crc32(b"other")),
        (deflated(TEXT), len(TEXT) + 1, zlib.crc32(TEXT)),
        (deflated(TEXT), len(TEXT) - 1, zlib.crc32(TEXT)),
        (deflated(TEXT)[:-9], len(TEXT), zlib.crc32(TEXT)),
        (b"\xff" * 99, len(TEXT), zlib.crc32(TEXT)),
        (b"", 1, 0),
    ],
)
def test_what_is_not_as_promised_is_left_to_others(packed: bytes, size: int, checksum: int) -> None:
    assert inflate_deflated(packed, size, checksum) is None


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
