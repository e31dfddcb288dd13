"""Copies of large libraries, with holes in the place of the code in their containers for GPUs.

That is most of a library, and nobody reads it but those who are asked about GPUs. To write it takes longer than to
inflate it. Containers are told by their contents while a library passes by; once all of it has, ``is_in_containers``
tells from its section headers whether all that was left out was in containers for GPUs.
"""

from __future__ import annotations

import os
import struct
from typing import IO, Final

from abiscan.binary.elf import ElfFile
from abiscan.binary.section_headers import CONTAINER, CONTAINER_HEADER, size_of_container

_PAGE: Final = 1 << 12
_WORTHWHILE: Final = 1 << 16
"""The size of a hole from which on it takes less than to write."""

_MOST: Final = 1 << 16
"""How many places of a library are looked at that may begin a container."""


class HollowCopy:
    """Writes blocks to an empty file.

    :ivar holes: what was left out
    :param size: of all blocks together
    """

    def __init__(self, to: IO[bytes], size: int) -> None:
        self._to = to
        self._size = size
        self._place = 0
        self._container = range(0)
        self._before = b""  # the end of the last block, in which a header may begin
        self._left = _MOST
        self.holes: list[range] = []

    def write(self, block: bytes) -> None:
        """Write the next block, without what is in containers."""
        start, stop = self._place, self._place + len(block)
        written = start
        content = self._before + block
        while True:
            first = -(-max(self._container.start + CONTAINER_HEADER, written) // _PAGE) * _PAGE
            last = min(self._container.stop, stop) // _PAGE * _PAGE
            if last - first >= _WORTHWHILE:
                self._to.write(block[written - start : first - start])
                self._to.seek(last)
                self.holes.append(range(first, last))
                written = last
            if self._container.stop >= stop or not self._find_container(content, stop):
                break
        self._to.write(block[written - start :])
        self._before = block[-CONTAINER_HEADER:]
        self._place = stop

    def skip(self, size: int) -> None:
        """Leave out zeros, which are a hole of the file as well."""
        self._to.seek(size, os.SEEK_CUR)
        self._before = bytes(CONTAINER_HEADER)
        self._place += size

    def _find_container(self, content: bytes, stop: int) -> bool:
        """Go to the container that begins next in what ends at an offset; False if none does."""
        start = stop - len(content)
        at = max(self._container.stop - start, 0)
        while self._left and (at := content.find(CONTAINER, at)) >= 0:
            self._left -= 1
            try:
                size = size_of_container(memoryview(content), at)
            except struct.error:  # the header ends in the next block
                return False
            if 0 < size <= self._size - start - at:
                self._container = range(start + at, start + at + size)
                return True
            at += len(CONTAINER)
        return False


def is_in_containers(holes: list[range], file: ElfFile) -> bool:
    """Whether holes are in containers for GPUs, and no table of the library is there."""
    containers = iter(file.gpu_code.containers)
    container = next(containers, None)
    for hole in holes:
        while container is not None and container.stop < hole.stop:
            container = next(containers, None)
        if container is None or hole.start < container.start + CONTAINER_HEADER:
            return False
    return not file.refers_into(holes)
