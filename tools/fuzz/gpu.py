"""Containers of GPU code inside an object: the fat binaries of CUDA and the bundles of HIP."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

from tools.fuzz.model import EDGES, ROOT, TORCH, Case, damaged

_DATA: Final = ROOT / "tests" / "data" / "gpu"
_MAGICS: Final = (
    b"\x50\xed\x55\xba",
    b"\xb1\x43\x62\x46",
    b"\xb1\x43\x62\x46"[::-1],
    b"\x28\xb5\x2f\xfd",
    b".version ",
    b"\x7fELF",
)
_BUNDLE: Final = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED: Final = b"CCOB"


def case(random: Random, folder: Path) -> Case:
    """An object with damaged containers."""
    data = bytearray(random.choice(sorted(_DATA.glob("*.so"))).read_bytes())
    places = [at for magic in _MAGICS for at in _found(data, magic, 64)]
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.choice(places) + 4 * random.randrange(0, 24)
        width = random.choice((2, 4, 8))
        value = random.choice((*EDGES, len(data), random.randrange(len(data))))
        data[at : at + width] = value.to_bytes(8, "little")[:width]
    if random.random() < 0.3:
        at = random.choice(places)
        data[at : at + 512] = bundle(random)[:512].ljust(512, b"\0")
    file = folder / "x.so"
    file.write_bytes(data)
    words = random.choice((["check", str(file), *TORCH, "--gpu", "sm_90"], ["ops", str(file), "--format", "json"],
                           ["matrix", str(file), *TORCH, "--gpus"], ["check", str(file), *TORCH, "--gpu",
                           "gfx942"]))  # fmt: skip
    return Case(words=words)


def bundle(random: Random) -> bytes:
    """A bundle of HIP code objects, or a compressed one, with numbers that may be wrong."""

    def number(value: int) -> bytes:
        return (value if random.random() < 0.7 else random.choice(EDGES)).to_bytes(8, "little")

    name = random.choice((b"hipv4-amdgcn-amd-amdhsa--gfx942", b"host-x86_64-unknown-linux--", b"hip-\xff", b""))
    plain = _BUNDLE + number(1) + number(64) + number(32) + number(len(name)) + name
    if random.random() < 0.5:
        return plain
    return (
        _COMPRESSED
        + bytes((random.randrange(4), 0))
        + number(random.randrange(3))[:2]
        + number(100)
        + damaged(plain, random)
    )


def _found(data: bytearray, magic: bytes, most: int) -> list[int]:
    found: list[int] = []
    at = data.find(magic)
    while at >= 0 and len(found) < most:
        found.append(at)
        at = data.find(magic, at + 1)
    return found
