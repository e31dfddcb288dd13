"""Code for GPUs in released libraries, against what ``cuobjdump`` lists in them: recorded by ``tools/gpu_truth.py``."""

from __future__ import annotations

import pytest

from abiscan.gpu.reader import read_gpu_code
from tools.gpu_truth import Listing, Recorded, listing_of, recorded

FILES = {name: (listing, file) for name, listing, file in recorded()}


@pytest.mark.parametrize("name", FILES)
def test_every_entry_is_the_one_that_cuobjdump_lists(name: str) -> None:
    listing, file = FILES[name]
    code = read_gpu_code(file.read, file.size)
    assert code.gaps == ()
    assert listing_of(code) == listing


def test_the_record_is_large() -> None:
    assert sum(len(listing.elf) + len(listing.ptx) for listing, _ in FILES.values()) > 90_000


def test_a_header_that_is_wrong_is_noticed() -> None:
    """The comparison itself: one architecture changed, one container cut off."""
    listing, file = FILES["torchvision==0.24.1/torchvision/_C.so"]

    class Wrong(Recorded):
        def read(self, offset: int, size: int) -> bytes:
            return file.read(offset, size).replace(b"\x5a\x00\x00\x00", b"\x5b\x00\x00\x00")

    found = listing_of(read_gpu_code(Wrong(file.size, b"").read, file.size))
    assert found != listing
    assert len(found.elf) == len(listing.elf)
    assert found != Listing(elf=(), ptx=())
