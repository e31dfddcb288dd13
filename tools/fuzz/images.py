"""Images of Windows and macOS: headers, load commands, tables of imports and exports, universal files with lies."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random
from typing import Final

from tools.fuzz.model import EDGES, SAMPLES, TORCH, Case, damaged

_SAMPLES: Final = SAMPLES / "images"
_SUFFIXES: Final = (".pyd", ".so", ".dll", ".dylib")
_UNIVERSAL: Final = b"\xca\xfe\xba\xbe"


def samples() -> list[Path]:
    """The images to start from."""
    return sorted(file for file in _SAMPLES.rglob("*") if file.suffix in _SUFFIXES)


def _parts(data: bytes) -> list[tuple[int, int]]:
    """Where the tables of an image are, which is in order, and how long they are."""
    if data.startswith(b"MZ"):
        header = struct.unpack_from("<I", data, 0x3C)[0]
        sections = header + 24 + struct.unpack_from("<H", data, header + 20)[0]
        found = [(0, 64), (header, 24), (header + 24, sections - header - 24)]
        for index in range(struct.unpack_from("<H", data, header + 6)[0]):
            size, offset = struct.unpack_from("<II", data, sections + 40 * index + 16)
            found += [(sections + 40 * index, 40), (offset, size)]
        return found
    if data.startswith(_UNIVERSAL):
        rows = [struct.unpack_from(">II", data, 16 + 20 * index) for index in range(data[7])]
        inner = [(offset + at, size) for offset, length in rows for at, size in _parts(data[offset : offset + length])]
        return [(0, 8 + 20 * len(rows)), *inner]
    commands = struct.unpack_from("<I", data, 20)[0]
    return [(0, 32), (32, commands), (0x8000, 1024), (0x4000, 256), (len(data) - 1024, 1024)]


def mutated(data: bytes, random: Random) -> bytes:
    """An image with one to six changes to its tables."""
    out = bytearray(data)
    order = "big" if data.startswith(_UNIVERSAL) and random.random() < 0.5 else "little"
    parts = [(at, size) for at, size in _parts(data) if size > 0 and at < len(data)]
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        start, size = random.choice(parts)
        width = random.choice((1, 2, 4, 4, 8))
        at = start + random.randrange(size) // width * width
        choice = random.randrange(4)
        value = random.choice((*EDGES, len(data), random.randrange(len(data)), 1 << random.randrange(64)))
        if choice == 1:
            value = int.from_bytes(out[at : at + width], "little") + random.choice((-8, -1, 1, 8, 24))
        elif choice == 2:
            value = random.getrandbits(64)
        elif choice == 3:  # one part of a table in the place of another one
            other = start + random.randrange(size) // width * width
            value = int.from_bytes(out[other : other + width], "little")
        number = value & (1 << 8 * width) - 1
        out[at : at + width] = number.to_bytes(width, "little" if order == "little" else "big")
    if random.random() < 0.1:
        del out[random.randrange(len(out)) :]
    return damaged(bytes(out), random, 3) if random.random() < 0.05 else bytes(out)


def case(random: Random, folder: Path) -> Case:
    """A damaged image, or a torch with a damaged library, and a command that reads it."""
    sample = random.choice(samples())
    data = mutated(sample.read_bytes(), random)
    if sample.parent.name == "torch":
        library = folder / "torch" / "lib" / sample.name
        library.parent.mkdir(parents=True)
        library.write_bytes(data)
        for other in sample.parent.glob(f"*{sample.suffix}"):
            if other.name != sample.name:
                (library.parent / other.name).write_bytes(other.read_bytes())
        target = "loads.pyd" if sample.suffix == ".dll" else "universal.so"
        return Case(words=["check", str(_SAMPLES / target), "--torch", str(folder / "torch")])
    file = folder / f"x{sample.suffix}"
    file.write_bytes(data)
    words = random.choice(
        (["check"], ["check", "--format", "json"], ["matrix", "--torch", "2.9.0"], ["stable"], ["ops"])
    )
    return Case(words=[words[0], str(file), *words[1:], *(TORCH if words[0] in ("check", "matrix") else ())])
