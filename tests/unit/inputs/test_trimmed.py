"""Libraries without their code for GPUs: what is left of them is what the file has, in its place."""

from __future__ import annotations

import random
import struct
import zipfile
from pathlib import Path

import pytest

from abiscan.index.remote import RemoteFile
from abiscan.index.web import Web
from abiscan.inputs.files import Wheel
from abiscan.inputs.trimmed import Trimmed, trim_library
from tests.elf_builder import Elf, exports
from tests.index_server import _hash, serving
from tests.unit.binary.test_deflate import deflated, prose

GPU_CODE = 3_000_000
LIBRARY = Elf(soname="big.so", defined=exports("_Zbig"))


def library(section: bytes = b".nv_fatbin", gpu: int = GPU_CODE, tail: int = 100_000) -> tuple[bytes, range]:
    """A library, and where its code for GPUs is: behind what the loader needs, and before other data."""
    data = LIBRARY.build() + prose(1, 500_000)
    start = len(data)
    data += random.Random(2).randbytes(gpu) + prose(3, tail)
    names = b"\0.shstrtab\0" + section + b"\0"
    strings = len(data)
    data += names
    data += bytes(-len(data) % 8)
    table = struct.pack("<IIQQQQIIQQ", *[0] * 10)
    table += struct.pack("<IIQQQQIIQQ", 11, 1, 2, 0, start, gpu, 0, 0, 1, 0)
    table += struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, strings, len(names), 0, 0, 1, 0)
    header = bytearray(data[:64])
    struct.pack_into("<Q", header, 40, len(data))
    struct.pack_into("<HHH", header, 58, 64, 3, 2)
    return bytes(header) + data[64:] + table, range(start, start + gpu)


def cut(data: bytes) -> Trimmed | None:
    packed = deflated(data, 6)
    return trim_library(len(data), len(packed), lambda size: data[:size], lambda size: packed[-size:])


@pytest.mark.parametrize("section", [b".nv_fatbin", b".hip_fatbin"])
@pytest.mark.parametrize("tail", [10, 100_000, 500_000])
def test_what_is_left_out_is_the_code_for_gpus(section: bytes, tail: int) -> None:
    data, gpu = library(section, tail=tail)
    assert cut(data) == Trimmed(beginning=data[: gpu.start], end=data[gpu.stop :])


def test_what_has_none_is_read_completely() -> None:
    assert cut(library(b".rodata")[0]) is None
    assert cut(LIBRARY.build() + prose(1, 3_000_000)) is None
    assert cut(prose(1, 3_000_000)) is None


def test_where_little_would_be_saved_it_is_read_completely() -> None:
    assert cut(library(gpu=100_000, tail=3_000_000)[0]) is None


def test_a_damaged_file_is_read_completely_or_as_it_is() -> None:
    """Whatever the section headers say: what is left is what the file has at these places, and nothing is raised."""
    data, _ = library(gpu=800_000, tail=1_000)
    choice = random.Random(7)
    found = 0
    for _ in range(15):
        torn = bytearray(data)
        for _ in range(choice.randrange(1, 4)):
            place = choice.choice([choice.randrange(64), len(data) - 1 - choice.randrange(230)])
            torn[place] = choice.choice([0, 1, 0xFF, choice.randrange(256)])
        parts = cut(bytes(torn))
        if parts is not None:
            found += 1
            assert torn.startswith(parts.beginning)
            assert torn.endswith(parts.end)
            assert len(parts.beginning) + len(parts.end) <= len(torn)
    assert found


def test_a_wheel_on_a_server(tmp_path: Path) -> None:
    data, gpu = library()
    name = "big-1.0-py3-none-any.whl"
    with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("big/big.so", data)
    with serving(tmp_path) as index:
        web = Web(tmp_path / "cache", pause=0.0)
        url = index.url.replace("/simple", f"/files/{name}")
        remote = RemoteFile(web, url, _hash(tmp_path / name), tmp_path / "cache")
        there = Wheel(Path(name), remote).find_member("big/big.so")  # type: ignore[arg-type]
        file = there.open_elf()
        assert web.bytes_read < 1_500_000
    here = Wheel(tmp_path / name).find_member("big/big.so")
    assert file.facts() == here.open_elf().facts()
    whole = bytes(file.data)
    assert whole[: gpu.start] == data[: gpu.start]
    assert whole[gpu.stop :] == data[gpu.stop :]
    assert whole[gpu.start : gpu.stop] == bytes(GPU_CODE)
    assert there.hash_content() != here.hash_content(), "it is not taken for the whole file by what is kept"
