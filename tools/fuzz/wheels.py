"""Wheels: names that lead elsewhere, lying sizes, duplicates, encryption, bombs, too many members, odd metadata."""

from __future__ import annotations

import bz2
import io
import json
import re
import struct
import sys
import tarfile
import warnings
import zipfile
from pathlib import Path
from random import Random
from typing import Final

from tools.fuzz import elf, sources
from tools.fuzz.model import EDGES, TORCH, Case, damaged
from tools.fuzz.texts import changed

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_INDEX: Final = {
    "name": "x",
    "version": "1.0",
    "build": "0",
    "build_number": 0,
    "subdir": "linux-64",
    "depends": ["python >=3.11,<3.12.0a0", "pytorch >=2.5,<2.6.0a0", "libtorch 2.5.* cuda*"],
}
_NAMES: Final = (
    "../../../../etc/cron.d/x.so", "/abiscan-absolute.so", "..\\..\\x.so", "C:\\x.so", "x.so/", "a/../../b.so",
    "a//b.so",
    "\udcff.so", "x\0y.so", "\n\x1b[31m.so", "é" * 200 + ".so", "a/" * 200 + "x.so",
    "x-1.0.data/platlib/../../y.so", ".so", "pkg",
    "pkg/__init__.py/x.so", "torch/lib/libtorch_cpu.so", "torch/version.py", "pkg/_C.so",
)  # fmt: skip
_METADATA: Final = (
    "Metadata-Version: 2.1\nName: x\nVersion: 1.0\nRequires-Dist: torch==2.5.1\n",
    "Name: x\nVersion: 1.0\nRequires-Dist: torch " + "(" * 3000 + "\n",
    "Requires-Dist: torch; " + "(" * 5000 + "\n",
    "Requires-Dist: torch==999999999999999999999999999999999999.1.*\n",
    "Requires-Dist: torch; python_version in '\n",
    "Requires-Dist: torch; extra == 'a' and sys_platform ~= 'x'\n",
    "Requires-Dist: torch; os_name < '1'\nRequires-Dist: y; python_version >= 'x'\n",
    "Name: ../../x\nVersion: \udc80\n", "", "\0" * 100, "Name: x\n" * 5000, "Requires-Dist: torch>=2,<1,!=*\n",
    "Requires-Dist: torch @ file:///etc/passwd\n", "Requires-Dist: torch===foo\n",
)  # fmt: skip
_FILE_NAMES: Final = (
    "x-1.0-cp311-cp311-linux_x86_64.whl", "x-1.0-py3-none-any.whl", "x.whl", "-.whl",
    "x-1.0-cp311-abi3-manylinux_2_99_x86_64.whl",
    "x-1.0-cp39.cp310-cp39-manylinux_999999999999999999_2_aarch64.whl", "x-1.0-1-1-cp311-cp311-macosx_11_0_arm64.whl",
    "x-v1-cp311-cp311-manylinux1_x86_64.whl",
)  # fmt: skip


def case(random: Random, folder: Path) -> Case:
    """A wheel, and a command that reads it."""
    file = folder / random.choice(_FILE_NAMES)
    _write(file, random)
    data = file.read_bytes()
    if random.random() < 0.6:
        data = _lying(data, random)
    if random.random() < 0.3:
        data = damaged(data, random, 3)
    file.write_bytes(data)
    name = str(file)
    # What takes long for the sake of torch, and not of the target, is rare.
    words = random.choices((
        ["check", name, *TORCH], ["check", name, *TORCH, "--format", "json"], ["check", name, "--torch", "declared"],
        ["check", name, *TORCH, "--each-file"], ["ops", name], ["stable", name], ["matrix", name, *TORCH],
        ["coverage", name, *TORCH, "--backend", "PrivateUse1"], ["stamp", name, *TORCH], ["check", str(folder), *TORCH],
    ), (20, 20, 1, 20, 20, 10, 10, 1, 10, 10))[0]  # fmt: skip
    return Case(words=words, may_write=words[0] == "stamp")


def conda(random: Random, folder: Path) -> Case:
    """A conda package, in one of its two formats."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name in (*random.sample(_NAMES, 3), "lib/python3.11/site-packages/pkg/_C.so"):
            data = random.choice(elf.samples()).read_bytes()
            info = tarfile.TarInfo(name.encode("utf-8", "replace").decode().replace("\0", "?"))
            info.size = len(data)
            info.type = random.choices(
                (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE), (6, 1, 1, 1)
            )[0]
            info.linkname = random.choice(("../../../etc/passwd", name, "lib", "pkg/_C.so")).replace("\0", "?")
            archive.addfile(info, io.BytesIO(data))
        index = json.dumps(changed(_INDEX, random)).encode()
        info = tarfile.TarInfo("info/index.json")
        info.size = len(index)
        archive.addfile(info, io.BytesIO(index))
    content = stream.getvalue()
    if random.random() < 0.4:
        content = damaged(content, random, 4)
    if random.random() < 0.5:
        file, data = folder / "x-1.0-0.tar.bz2", bz2.compress(content, 1)
    else:
        file, outer = folder / "x-1.0-0.conda", io.BytesIO()
        with zipfile.ZipFile(outer, "w") as archive:
            packed = zstd.compress(content)
            archive.writestr("metadata.json", '{"conda_pkg_format_version": 2}')
            archive.writestr("pkg-x-1.0-0.tar.zst", damaged(packed, random, 2) if random.random() < 0.2 else packed)
            archive.writestr("info-x-1.0-0.tar.zst", packed)
        data = outer.getvalue()
    file.write_bytes(damaged(data, random, 3) if random.random() < 0.3 else data)
    return Case(words=[random.choice(("check", "matrix")), str(file), *TORCH, "--format", "json"])


def _write(file: Path, random: Random) -> None:
    packing = random.choices((0, 8, 12, 14), (6, 12, 1, 1))[0]  # lzma takes longer than all that follows
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", packing) as archive:
        warnings.simplefilter("ignore")  # of duplicates
        members = [*_NAMES, "pkg/_C.so", "pkg/_D.cpython-311-x86_64-linux-gnu.so"]
        for name in random.sample(members, random.randint(1, 5)):
            data = random.choice(elf.samples()).read_bytes()
            _add(archive, name, elf.mutated(data, random) if random.random() < 0.3 else data, random)
        for name in random.sample(("pkg/__init__.py", "x/__init__.py", "pkg/a.py"), random.randint(0, 3)):
            _add(archive, name, sources.module(random).encode("utf-8", "surrogateescape"), random)
        info = random.choice(("x-1.0.dist-info", "x-1.0.dist-info", "pkg-1.dist-info", "X-" + "1" * 300 + ".dist-info"))
        for name in random.choices((f"{info}/METADATA", f"{info}/RECORD", f"{info}/WHEEL"), k=random.randint(0, 4)):
            _add(archive, name, random.choice(_METADATA).encode("utf-8", "surrogateescape"), random)
        if random.random() < 0.005:
            for index in range(random.choice((1_000, 20_000, 100_000))):
                archive.writestr(f"pkg/{index}.{random.choice(('py', 'so', 'txt'))}", b"")
        if random.random() < 0.03:
            archive.writestr("pkg/bomb.so", b"\x7fELF\2\1\1" + bytes(random.choice((1 << 20, 20 << 20, 70 << 20))))
        if random.random() < 0.05:
            archive.comment = random.randbytes(random.randrange(1 << 10))


def _add(archive: zipfile.ZipFile, name: str, data: bytes, random: Random) -> None:
    info = zipfile.ZipInfo(name.encode("utf-8", "replace").decode(), (1980 + random.randrange(100), 1, 1, 0, 0, 0))
    info.compress_type = archive.compression
    info.external_attr = (
        random.choice((0o644, 0o120777, 0o60666, 0o40755, 0)) << 16
    )  # a file, a link, a device, a folder
    archive.writestr(info, data)
    if random.random() < 0.1:
        archive.writestr(info, data[:100])


def _lying(data: bytes, random: Random) -> bytes:
    """Other numbers in the records of the directory, in the headers of the members, or at the end."""
    out = bytearray(data)
    kinds = ((b"PK\x01\x02", 46), (b"PK\x03\x04", 30), (b"PK\x05\x06", 22))
    for _ in range(random.randint(1, 4)):
        magic, size = random.choice(kinds)
        places = [match.start() for match in re.finditer(re.escape(magic), out)]
        if not places:
            continue
        at = random.choice(places) + random.randrange(4, size, 2)
        width = random.choice((2, 4))
        out[at : at + width] = random.choice((*EDGES, len(out))).to_bytes(8, "little")[:width]
    if random.random() < 0.1:  # zip64: an extra field, or the end of the directory
        record = struct.pack("<IQHHIIQQQQ", 0x0606_4B50, 44, 45, 45, 0, 0, *(random.choice(EDGES) for _ in range(4)))
        locator = struct.pack("<IIQI", 0x0706_4B50, 0, random.choice((len(out), *EDGES)), 1)
        end = out.rfind(b"PK\x05\x06")
        out[end:end] = record + locator
    return bytes(out)
