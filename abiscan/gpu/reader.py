"""The code for GPUs in an object: its sections, and only headers in them."""

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
    """A section of an ELF file.

    :ivar name: its name
    :ivar address: its virtual address
    :ivar offset: where it begins in the file
    :ivar size: its bytes in the file
    """

    name: bytes
    address: int
    offset: int
    size: int


def read_gpu_code(read: Read, size: int) -> GpuCode:
    """Read the code for GPUs in an object.

    Nothing in the file raises: what cannot be read is a gap.

    :param read: reads some bytes of the file; fewer at its end
    :param size: the size of the file
    """
    containers: list[Container] = []
    gaps: list[str] = []
    sections = {section.name: section for section in _read_sections(read, 0, size)}
    # nvcc puts code that GPUs run into .nv_fatbin, and code for the device linker into __nv_relfatbin.
    for name, is_relocatable in ((b".nv_fatbin", False), (b"__nv_relfatbin", True)):
        if section := sections.get(name):
            cuda_containers = cuda.read_containers(
                read, section.offset, section.size, section.address, relocatable=is_relocatable
            )
            _collect_containers(cuda_containers, containers, gaps)
    if section := sections.get(b".hip_fatbin"):
        _collect_containers(hip.read_bundles(read, section.offset, section.size, section.address), containers, gaps)
    if unknown := sorted({number for container in containers for number in container.unknown}):
        gaps.append(f"has code of unknown kinds: {listed(map(hex, unknown))}")
    return GpuCode(containers=tuple(containers), toolkit=_find_toolkit(read, containers), gaps=tuple(gaps))


def _collect_containers(readable: Iterator[Container], containers: list[Container], gaps: list[str]) -> None:
    """Add what can be read of some containers; the first that cannot is a gap."""
    try:
        containers.extend(readable)
    except Damaged as error:
        gaps.append(f"damaged: {error}; code for GPUs after it was not read")
    except hip.NoZstd:
        gaps.append(
            "code for AMD's GPUs is compressed with zstd, which this Python cannot read: install backports.zstd"
        )


def _read_sections(read: Read, start: int, size: int) -> list[Section]:
    """Read the sections of the ELF file at an offset; none if it has no table of them, or a damaged one."""
    head = read(start, 64)
    if len(head) < 64 or not head.startswith(b"\x7fELF\x02\x01"):
        return []
    # ELF gABI, "ELF Header": e_shoff is at 40; e_shentsize, e_shnum and e_shstrndx are at 58.
    table, row_size, count, names_at = *struct.unpack_from("<Q", head, 40), *struct.unpack_from("<HHH", head, 58)
    if row_size != _SECTION.size or not 0 < count <= _MOST_SECTIONS or table + count * row_size > size:
        return []
    table_bytes = read(start + table, count * row_size)
    if len(table_bytes) < count * row_size or names_at >= count:
        return []
    rows = list(_SECTION.iter_unpack(table_bytes))
    names = read(start + rows[names_at][4], min(rows[names_at][5], _LONGEST_NAMES))
    return [
        Section(_name_at(names, name), address, start + offset, length)
        for name, kind, _, address, offset, length, *_ in rows
        if kind != _NO_BITS and offset + length <= size
    ]


def _name_at(names: bytes, at: int) -> bytes:
    """Read a name from a table of strings; empty if it does not end."""
    end = names.find(b"\0", at)
    return names[at:end] if 0 <= at < end else b""


def _find_toolkit(read: Read, containers: list[Container]) -> tuple[int, int] | None:
    """Return the newest version of CUDA that PTX or machine code names; a few pieces of machine code are enough."""
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
    """Read the version of CUDA that machine code names; return None if it names none."""
    head = read(start, 64)
    if len(head) < 64 or not head.startswith(b"\x7fELF") or int.from_bytes(head[18:20], "little") != _CUDA_MACHINE:
        return None
    version = int.from_bytes(head[20:24], "little")
    # e_version has the version of CUDA, 124 for 12.4, in files of this ABI version.
    if head[8] == 7 and 60 <= version < 1000:  # EI_ABIVERSION; later ones have a note instead
        return divmod(version, 10)
    note = next((section for section in _read_sections(read, start, size) if section.name == _TOOLKIT_NOTE), None)
    text = read(note.offset, min(note.size, 1 << 12)) if note else b""
    _, separator, release = text.partition(b", release ")
    major, _, minor = release.partition(b",")[0].partition(b".")
    return (int(major), int(minor)) if separator and major.isdigit() and minor.isdigit() else None
