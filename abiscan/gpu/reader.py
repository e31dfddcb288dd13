"""From an object to its code for GPUs: finds the sections, and reads only headers in them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from abiscan.gpu import cuda, hip
from abiscan.gpu.cuda import Damaged, Read
from abiscan.gpu.drivers import cuda_of_ptx
from abiscan.gpu.model import CodeKind, Compression, Container, GpuCode
from abiscan.words import listed

_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_NO_BITS: Final = 8
_MOST_SECTIONS: Final = 1 << 16
_LONGEST_NAMES: Final = 1 << 20
_CUDA_MACHINE: Final = 190
_TOOLKIT_NOTE: Final = b".note.nv.tkinfo"
_MOST_CUBINS: Final = 8


class Section(NamedTuple):
    """A section of an ELF file."""

    name: bytes
    address: int
    offset: int
    size: int


def gpu_code(read: Read, size: int) -> GpuCode:
    """The code for GPUs in an object.

    Nothing in the file raises: what cannot be read is a gap.

    :param read: reads some bytes of the file; fewer at its end
    :param size: the size of the file
    """
    containers: list[Container] = []
    gaps: list[str] = []
    every = {section.name: section for section in _sections(read, 0, size)}
    for name, is_relocatable in ((b".nv_fatbin", False), (b"__nv_relfatbin", True)):
        if section := every.get(name):
            found = cuda.containers(read, section.offset, section.size, section.address, relocatable=is_relocatable)
            _collect(found, containers, gaps)
    if section := every.get(b".hip_fatbin"):
        _collect(hip.containers(read, section.offset, section.size, section.address), containers, gaps)
    if unknown := sorted({number for container in containers for number in container.unknown}):
        gaps.append(f"has code of unknown kinds: {listed(map(hex, unknown))}")
    return GpuCode(containers=tuple(containers), toolkit=_toolkit(read, containers), gaps=tuple(gaps))


def _collect(found: Iterator[Container], containers: list[Container], gaps: list[str]) -> None:
    try:
        containers.extend(found)
    except Damaged as error:
        gaps.append(f"damaged: {error}; code for GPUs after it was not read")
    except hip.NoZstd:
        gaps.append(
            "code for AMD's GPUs is compressed with zstd, which this Python cannot read: install backports.zstd"
        )


def _sections(read: Read, start: int, size: int) -> list[Section]:
    """The sections of the ELF file at an offset; none if it has no table of them, or a damaged one."""
    head = read(start, 64)
    if len(head) < 64 or not head.startswith(b"\x7fELF\x02\x01"):
        return []
    table, each, count, names_at = *struct.unpack_from("<Q", head, 40), *struct.unpack_from("<HHH", head, 58)
    if each != _SECTION.size or not 0 < count <= _MOST_SECTIONS or table + count * each > size:
        return []
    data = read(start + table, count * each)
    if len(data) < count * each or names_at >= count:
        return []
    rows = list(_SECTION.iter_unpack(data))
    names = read(start + rows[names_at][4], min(rows[names_at][5], _LONGEST_NAMES))
    return [
        Section(_text(names, name), address, start + offset, length)
        for name, kind, _, address, offset, length, *_ in rows
        if kind != _NO_BITS and offset + length <= size
    ]


def _text(names: bytes, at: int) -> bytes:
    end = names.find(b"\0", at)
    return names[at:end] if 0 <= at < end else b""


def _toolkit(read: Read, containers: list[Container]) -> tuple[int, int] | None:
    """The newest version of CUDA that PTX or machine code names; plain machine code of a few containers is enough."""
    versions = []
    plain = 0
    for container in containers:
        for entry in container.entries:
            if entry.ptx_isa is not None and (version := cuda_of_ptx(entry.ptx_isa)):
                versions.append(version)
            elif entry.kind is CodeKind.CUBIN and entry.compression is Compression.NONE and plain < _MOST_CUBINS:
                plain += 1
                if version := _toolkit_of_cubin(read, entry.offset, entry.size):
                    versions.append(version)
    return max(versions, default=None)


def _toolkit_of_cubin(read: Read, start: int, size: int) -> tuple[int, int] | None:
    head = read(start, 64)
    if len(head) < 64 or not head.startswith(b"\x7fELF") or int.from_bytes(head[18:20], "little") != _CUDA_MACHINE:
        return None
    version = int.from_bytes(head[20:24], "little")
    if head[8] == 7 and 60 <= version < 1000:  # EI_ABIVERSION; later ones have a note instead
        return divmod(version, 10)
    note = next((section for section in _sections(read, start, size) if section.name == _TOOLKIT_NOTE), None)
    text = read(note.offset, min(note.size, 1 << 12)) if note else b""
    _, found, rest = text.partition(b", release ")
    major, _, minor = rest.partition(b",")[0].partition(b".")
    return (int(major), int(minor)) if found and major.isdigit() and minor.isdigit() else None
