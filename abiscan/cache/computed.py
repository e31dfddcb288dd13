"""Values that take seconds to compute, each kept in a file of its own: see ``cache_folder``."""

from __future__ import annotations

import contextlib
import hashlib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from msgspec import Struct

from abiscan.cache import cache_folder

_Value = TypeVar("_Value")
_Default = TypeVar("_Default")

UNREADABLE: Final = (
    *(OSError, zlib.error, ValueError, LookupError, TypeError, AttributeError, ImportError, RecursionError),
)
"""Raised by the reading of a file that is absent, damaged, or written by another version."""


class _Absent:
    """Nothing is kept: any value may be, None included."""


_ABSENT: Final = _Absent()


class KeptKind(Struct, Generic[_Value], frozen=True, kw_only=True):
    """A kind of value, and how it becomes bytes and a value again.

    :ivar suffix: of its files
    :ivar version: raise it when the bytes, or the way in which the value is computed, change
    :ivar encode: returns the bytes of a value; raises ``TypeError`` for one that is not to be kept
    :ivar decode: returns the value of bytes; may raise any of ``UNREADABLE``
    """

    suffix: str
    version: int
    encode: Callable[[_Value], bytes]
    decode: Callable[[bytes], _Value]


def get_or_compute(folder: Path, kind: KeptKind[_Value], identity: str, compute: Callable[[], _Value]) -> _Value:
    """Return the value that an earlier run has kept, or compute and keep it.

    A file that cannot be read is made anew. One that cannot be written is not: the next run computes the value again.

    :param folder: the cache's
    :param identity: everything that decides on the value
    :raises Exception: whatever ``compute`` raises; nothing is kept then
    """
    kept = find(folder, kind, identity, _ABSENT)
    if not isinstance(kept, _Absent):
        return kept
    value = compute()
    keep_value(folder, kind, identity, value)
    return value


def find(folder: Path, kind: KeptKind[_Value], identity: str, default: _Default) -> _Value | _Default:
    """Return the value that an earlier run has kept; the default if there is none, or none that can be read."""
    path = _path_of(folder, kind, identity)
    with contextlib.suppress(*UNREADABLE):
        value = kind.decode(zlib.decompress(cache_folder.read_checked(path)))
        cache_folder.note_use(path)
        return value
    return default


def keep_value(folder: Path, kind: KeptKind[_Value], identity: str, value: _Value) -> None:
    """Keep a value, in place of the one with that identity; one that cannot be written is not kept."""
    with contextlib.suppress(OSError, TypeError):  # a full disk; a value that has no such bytes
        cache_folder.write_checked(_path_of(folder, kind, identity), zlib.compress(kind.encode(value), 1))
        cache_folder.delete_oldest(folder)


def _path_of(folder: Path, kind: KeptKind[_Value], identity: str) -> Path:
    return folder / f"{hashlib.sha256(identity.encode()).hexdigest()[:40]}-v{kind.version}{kind.suffix}"
