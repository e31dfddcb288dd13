"""The end of a deflated stream, inflated without what comes before it.

A stream (RFC 1951) is a sequence of blocks. A block with codes of its own can be recognised by its header, at any bit,
and a stored one by its length, which is there twice. What they repeat from before that block is not known, up to 32 KB
back. So it is inflated twice, after different contents: bytes that differ come from there, and those that agree do not.
All of the last bytes, up to the end of the stream, are then those of the file.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterator
from typing import Final

from abiscan.regex import regex

_WINDOW: Final = 32 << 10
_ONE, _OTHER = bytes(_WINDOW), b"\xff" * _WINDOW
# The first bits of a block that is not the last one and has codes of its own: BFINAL, BTYPE, HLIT; HDIST.
_FIRST_BYTES: Final = bytes(byte for byte in range(256) if byte & 7 == 0b100 and byte >> 3 < 30)
_SECOND_BYTES: Final = bytes(byte for byte in range(256) if byte & 31 < 30)
_BLOCK: Final = regex(b"(?=[%s][%s])" % (re.escape(_FIRST_BYTES), re.escape(_SECOND_BYTES)), re.DOTALL)
_STORED: Final = regex(rb"(?=\xff\xff)")
_FIRST: Final = 4 << 10
"""What is inflated at a place that may be a header, before all of the rest is."""

_MOST: Final = 128 << 20
_MOST_TRIES: Final = 16
"""Bounds for hostile streams: one of a few kilobytes may inflate to gigabytes, or have headers everywhere."""


def known_end(stream_end: bytes) -> bytes:
    """Return the last bytes of a file, inflated from the last bytes of its stream; ``b""`` if no block begins in them.

    :param stream_end: long enough for a few blocks
    """
    promising = (stream for stream in _streams_at_blocks(stream_end) if _can_inflate(bytes(stream[:_FIRST])))
    ends = map(_inflate_known, itertools.islice(promising, _MOST_TRIES))
    return next((end for end in ends if end is not None), b"")


def _streams_at_blocks(stream_end: bytes) -> Iterator[memoryview]:
    """Yield the rest of the stream from each place that may be the header of a block, about the first one first."""
    whole = int.from_bytes(stream_end, "little")
    # Blocks begin at any bit (RFC 1951, 3.2.3): eight copies, in one of which each block begins with a byte.
    shifted = [(whole >> bit).to_bytes(len(stream_end), "little") for bit in range(8)]
    # The length of a stored block is followed by its complement.
    lengths = (whole ^ whole >> 16).to_bytes(len(stream_end), "little")
    for start in range(0, len(stream_end) - _FIRST, _FIRST):
        for stream in shifted:
            for match in _BLOCK.finditer(stream, start, start + _FIRST):
                yield memoryview(stream)[match.start() :]
        for match in _STORED.finditer(lengths, start, start + _FIRST):
            yield memoryview(b"\0" + stream_end[match.start() :])


def _can_inflate(stream_start: bytes) -> bool:
    try:
        zlib.decompressobj(-zlib.MAX_WBITS, _ONE).decompress(stream_start)
    except zlib.error:
        return False
    return True


def _inflate_known(stream: memoryview) -> bytes | None:
    """Return what is known of the rest of a stream; None if it does not end where the data do, nothing if it is too
    large.
    """
    # Twice, with windows of zeros and of ones: where both agree, nothing was copied from what is not known.
    texts: list[bytes] = []
    for before in (_ONE, _OTHER):
        inflater = zlib.decompressobj(-zlib.MAX_WBITS, before)
        try:
            texts.append(inflater.decompress(stream, _MOST))
        except zlib.error:
            return None
        if len(texts[-1]) == _MOST:
            return b""
        if not inflater.eof or len(inflater.unused_data) > 1:
            return None  # a byte at the end may be left by the shift
    first, second = texts
    return first[_last_difference(first, second) :]


def _last_difference(first: bytes, second: bytes) -> int:
    """Return where the part begins in which two texts of the same length agree to the end."""
    # Whole windows are compared first, which is fast; only the one that differs is looked at byte by byte.
    end = len(first)
    while end > 0 and first[max(0, end - _WINDOW) : end] == second[max(0, end - _WINDOW) : end]:
        end -= _WINDOW
    return next((place + 1 for place in reversed(range(max(0, end))) if first[place] != second[place]), 0)
