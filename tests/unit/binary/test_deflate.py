"""The ends of deflated streams, against the files that they were deflated from."""

from __future__ import annotations

import random
import tracemalloc
import zlib

import pytest

from abiscan.binary.deflate import known_end


def deflated(data: bytes, level: int) -> bytes:
    stream = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def prose(seed: int, size: int) -> bytes:
    """Words of a small language, so that much is repeated from before."""
    choice = random.Random(seed)
    words = [bytes(choice.choices(b"etaoinshrdlu", k=choice.randrange(2, 12))) for _ in range(3000)]
    return b" ".join(choice.choices(words, k=size // 6))[:size]


@pytest.mark.parametrize("level", [1, 6, 9])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
@pytest.mark.parametrize("size", [250_000, 400_000])
def test_it_is_the_end_of_the_file(level: int, seed: int, size: int) -> None:
    data = prose(seed, 900_000) + random.Random(seed).randbytes(1_000_000) + prose(seed + 1, 300_000)
    end = known_end(deflated(data, level)[-size:])
    assert data.endswith(end)
    assert len(end) > 300_000, "words repeat what came before, but nothing repeats what is before the noise"


@pytest.mark.parametrize("size", [20_000, 60_000, 100_000, 300_000])
def test_it_is_never_anything_else(size: int) -> None:
    """In words alone, hardly anything is known, and what is is true."""
    data = prose(8, 3_000_000)
    assert data.endswith(known_end(deflated(data, 6)[-size:]))


def test_what_is_repeated_from_before_is_not_taken_for_known() -> None:
    """The last part of the file occurred before, so it stands nowhere in the end of the stream."""
    once = random.Random(5).randbytes(20_000)
    data = prose(5, 600_000) + once + prose(6, 2_000) + once
    for size in (6_000, 12_000, 40_000, 100_000):
        assert data.endswith(known_end(deflated(data, 9)[-size:]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_stream(seed: int) -> None:
    assert known_end(random.Random(seed).randbytes(60_000)) == b""


@pytest.mark.slow
def test_a_stream_that_is_cut_off_or_goes_on_has_no_end() -> None:
    stream = deflated(random.Random(1).randbytes(500_000) + prose(1, 300_000), 6)
    assert known_end(stream[-200_000:]) != b""
    assert known_end(stream[-200_000:-1_000]) == b""
    assert known_end(stream[-200_000:] + b"more") == b""


@pytest.mark.parametrize("size", [0, 1, 5000])
def test_too_little_to_tell(size: int) -> None:
    assert known_end(bytes(size)) == b""


@pytest.mark.slow
def test_a_bomb_is_not_inflated() -> None:
    """A stream of half a megabyte that inflates to half a gigabyte: what is held is bounded, and nothing is known."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    data = b"".join(stream.compress(bytes(1 << 20)) for _ in range(512)) + stream.flush()
    tracemalloc.start()
    try:
        assert known_end(data) == b""
        assert tracemalloc.get_traced_memory()[1] < 400 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_headers_everywhere_end_soon() -> None:
    """Blocks that begin, and lead nowhere: only so many are followed."""
    choice = random.Random(9)
    stream = deflated(choice.randbytes(50_000) + prose(9, 200_000), 6)
    assert known_end((stream[: len(stream) // 2] * 40)[:400_000]) == b""
