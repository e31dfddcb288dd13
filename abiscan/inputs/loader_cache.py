"""``/etc/ld.so.cache``: where ``ldconfig`` saw libraries when it last ran; ``ld.so`` does not read ``ld.so.conf``.

Sources: glibc, sysdeps/generic/dl-cache.h (the format) and ``search_cache`` in elf/dl-cache.c.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from abiscan.binary.machines import Machine

_MAGIC: Final = b"glibc-ld.so.cache1.1"
_HEADER: Final = struct.Struct("<20sIIB3xI12x")  # magic, number of entries, size of their texts, flags, extensions
_ENTRY: Final = struct.Struct("<iIIIQ")  # flags, name, path, (unused), required features
_EXTENSIONS: Final = struct.Struct("<II")  # magic, number of sections
_SECTION: Final = struct.Struct("<IIII")  # tag, flags, offset, size
_EXTENSION_MAGIC: Final = 0xEAA4_2174
_SUBFOLDER_NAMES: Final = 1  # cache_extension_tag_glibc_hwcaps
_BIG_ENDIAN, _INVALID = 3, 1
# In the upper half of the features: this bit says that the lower half is the number of a subfolder; ten bits have the
# level that the library in it requires.
_IN_SUBFOLDER: Final = 1 << 30
_LEVEL: Final = (1 << 10) - 1


def read_cache(content: bytes, machine: Machine, subfolders: Sequence[str]) -> Mapping[bytes, bytes]:
    """Return the path of each library that ``ld.so`` takes from the cache; none if it cannot read the cache.

    :param subfolders: those of ``glibc-hwcaps`` that it searches, the best one first
    """
    start = content.find(_MAGIC)  # older ones have a cache of another format in front of it
    try:
        return dict(_cache_entries(content, start, machine, subfolders)) if start >= 0 else {}
    except (struct.error, ValueError, IndexError):
        return {}


def _cache_entries(
    content: bytes, start: int, machine: Machine, subfolders: Sequence[str]
) -> list[tuple[bytes, bytes]]:
    _, count, _, flags, extensions = _HEADER.unpack_from(content, start)
    if flags & 3 in (_INVALID, _BIG_ENDIAN):
        return []
    table = content[start + _HEADER.size : start + _HEADER.size + count * _ENTRY.size]
    priorities = _rank_subfolders(content, extensions, subfolders) if extensions else ()
    ranked: list[tuple[int, bytes, int]] = []
    for entry_flags, name, path, _, features in _ENTRY.iter_unpack(table):
        if entry_flags != machine.traits.cache:
            continue
        upper, number = features >> 32, features & 0xFFFF_FFFF
        if not features:
            rank = len(subfolders)
        elif upper & ~_LEVEL == _IN_SUBFOLDER and number < len(priorities) and priorities[number] is not None:
            rank = priorities[number] or 0
        else:
            continue  # for another processor, or from a folder of the kind that glibc 2.37 has given up
        ranked.append((rank, _text_at(content, start + name), path))
    # The last of a name wins in the dictionary: the first of the best rank.
    ranked.reverse()
    ranked.sort(key=lambda item: -item[0])
    return [(name, _text_at(content, start + path)) for _, name, path in ranked]


def _rank_subfolders(content: bytes, extensions: int, subfolders: Sequence[str]) -> list[int | None]:
    """Return the place of each subfolder of the cache in the order of preference, None for those that do not count."""
    magic, count = _EXTENSIONS.unpack_from(content, extensions)
    if magic != _EXTENSION_MAGIC:
        return []
    sections = content[extensions + _EXTENSIONS.size :][: count * _SECTION.size]
    for tag, _, offset, size in _SECTION.iter_unpack(sections):
        if tag == _SUBFOLDER_NAMES:
            texts = struct.unpack_from(f"<{size // 4}I", content, offset)
            names = [_text_at(content, text).decode("utf-8", "replace") for text in texts]
            return [subfolders.index(name) if name in subfolders else None for name in names]
    return []


def _text_at(content: bytes, offset: int) -> bytes:
    return content[offset : content.index(b"\0", offset)]
