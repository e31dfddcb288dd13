"""ELF objects: headers, dynamic section, symbol, hash and version tables, relocations, unwind tables, code, texts."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

from tools.fuzz.model import EDGES, SAMPLES, TORCH, Case, damaged

_PHDR: Final = struct.Struct("<IIQQQQQQ")
_PT_LOAD, _PT_DYNAMIC, _PT_GNU_EH_FRAME = 1, 2, 0x6474_E550
_DT: Final = {
    "plt sizes": 2, "hash": 4, "strings": 5, "symbols": 6, "relocations": 7, "rela size": 8, "string size": 10,
    "initialisers": 25, "plt": 23, "gnu hash": 0x6FFF_FEF5, "versions": 0x6FFF_FFF0, "definitions": 0x6FFF_FFFC,
    "needs": 0x6FFF_FFFE,
}  # fmt: skip
_ROW: Final = {"symbols": 24, "relocations": 24, "plt": 24, "versions": 2, "initialisers": 8}
_SMALL: Final = ("loads", "registrations", "registration_conflicts", "stable", "layout_drift", "symbol_version")
_LARGEST: Final = 100_000

# What an initialiser must not get away with, x86-64: it runs nowhere but in the emulator.
_CODE: Final = tuple(
    bytes.fromhex(code)
    for code in (
        "ebfe",  # jump to itself
        "e8fbffffff",  # call itself
        "50ebfd",  # push for ever
        "0f05", "cd80", "0f34", "f4", "cc", "0f0b", "f1", "0fa2", "0f31", "0f01d0", "ec", "0f30",
        "48b9ffffffffffffff7ff3aa",  # fill most of memory
        "48b9ffffffffffffff7ff348a5",
        "31c9f7f1",  # divide by zero
        "48c7c0ffffffffffe0", "ff20", "c3", "48cf", "0fae08", "c5f877", "62f17c48", "f0480fc708", "0fc7f0",
        "6690909090", "64488b042500000000", "488d3d00000000ffd7", "ff25f8ffffff", "e9fbffffff", "9d", "cf", "0f07",
    )
)  # fmt: skip
_TEXTS: Final = (
    b"(" * 300, b"Tensor?[]?[]?[]?", b"(Tensor(a!) self, *, int[" + b"9" * 40 + b"] x=[1, 2]) -> ()", b"::::",
    b"\xff\xfe",
    b"f(Tensor x, Tensor x) -> (Tensor, Tensor)",
    b"f(str s=\"\\", b"f(float f=1e999999) -> float", b"a::b.c.d(...) -> ...",
    b"f(__torch__.torch.classes.a.b c, Dict(str, Dict(str, Tensor)) d) -> Tensor(a|b!)", b"\x1b[2J\r\n\0", b"%s%n{0}",
)  # fmt: skip


@functools.cache
def samples() -> list[Path]:
    """The objects to start from."""
    found = sorted(file for name in _SMALL for file in (SAMPLES / name).rglob("*.so"))
    return [file for file in found if file.stat().st_size <= _LARGEST]


class Parts:
    """Where the parts of an object lie in its file: of a sample, which is in order."""

    def __init__(self, data: bytes) -> None:
        at, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
        headers = [_PHDR.unpack_from(data, at + 56 * index) for index in range(count)]
        self.loads = [header for header in headers if header[0] == _PT_LOAD]
        self.parts: dict[str, tuple[int, int]] = {"file header": (0, 64), "program headers": (at, 56 * count)}
        dynamic = next((header for header in headers if header[0] == _PT_DYNAMIC), None)
        tags: Mapping[int, int] = {}
        if dynamic is not None:
            self.parts["dynamic section"] = (dynamic[2], dynamic[5])
            tags = dict(struct.iter_unpack("<QQ", data[dynamic[2] : dynamic[2] + dynamic[5] // 16 * 16]))
        starts = {name: self._offset(tags[tag]) for name, tag in _DT.items() if tag in tags and name in _ROW | _OPEN}
        for name, start in starts.items():
            end = min((other for other in starts.values() if other > start), default=start + 256)
            self.parts[name] = (start, min(end - start, 1 << 16))
        for header in headers:
            if header[0] == _PT_GNU_EH_FRAME:
                self.parts["unwind index"] = (header[2], header[5])
                self.parts["unwind table"] = (header[2] + header[5], 2048)
            elif header[0] == _PT_LOAD and header[1] & 1:
                self.parts["code"] = (header[2], header[5])
            elif header[0] == _PT_LOAD and header[1] == 4:
                self.parts["texts"] = (header[2], header[5])

    def _offset(self, address: int) -> int:
        for _, _, offset, start, _, size, *_ in self.loads:
            if start <= address < start + size:
                return int(address - start + offset)
        return 0


_OPEN: Final = {"hash": 4, "strings": 1, "gnu hash": 4, "definitions": 4, "needs": 4}


def mutated(data: bytes, random: Random) -> bytes:
    """An object with one to six changes to its parts."""
    parts = Parts(data)
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        name = random.choice(list(parts.parts))
        start, size = parts.parts[name]
        if size and start < len(out):
            _change(out, name, start, min(size, len(out) - start), random)
    if random.random() < 0.03:
        del out[random.randrange(len(out)) :]
    return bytes(out)


def _change(out: bytearray, name: str, start: int, size: int, random: Random) -> None:
    if name == "code" and random.random() < 0.8:
        code = random.choice(_CODE)
        at = start + random.randrange(size)
        out[at : at + len(code)] = code
        return
    if name == "texts" and random.random() < 0.8:
        _text(out, start, size, random)
        return
    row = {"program headers": 56, "dynamic section": 16, **_ROW}.get(name, 8)
    width = 1 if name == "strings" else random.choice((1, 2, 4, 8))
    at = start + random.randrange(size) // width * width
    choice = random.randrange(5)
    if choice <= 1:
        out[at : at + width] = _number(len(out), random).to_bytes(8, "little")[:width]
    elif choice == 2:  # a little more or less
        value = int.from_bytes(out[at : at + width], "little") + random.choice((-8, -1, 1, 8, 24))
        out[at : at + width] = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
    elif choice == 3 and size >= 2 * row:  # a row in the place of another one
        one, other = (start + random.randrange(size // row) * row for _ in range(2))
        out[one : one + row] = out[other : other + row]
    else:
        out[at : at + width] = random.randbytes(width)


def _number(size: int, random: Random) -> int:
    if random.random() < 0.5:
        return random.choice(EDGES)
    return random.choice(
        (size, size - 1, size + 1, random.randrange(size), random.randrange(size) & ~7, 1 << random.randrange(64))
    )


def _text(out: bytearray, start: int, size: int, random: Random) -> None:
    """Put something else in the place of a text that looks like a schema or a name."""
    found = [at for at in range(start, start + size) if out[at - 1] == 0 and 32 < out[at] < 127]
    if not found:
        return
    at = random.choice(found)
    end = out.find(b"\0", at)
    text = random.choice(_TEXTS) if random.random() < 0.5 else damaged(bytes(out[at:end]), random, 3)
    out[at:end] = text[: end - at].ljust(end - at, b" ")


def case(random: Random, folder: Path) -> Case:
    """A damaged object, and a command that reads it."""
    file = folder / "x.so"
    file.write_bytes(mutated(random.choice(samples()).read_bytes(), random))
    words = random.choices([words for _, words in _COMMANDS], [weight for weight, _ in _COMMANDS])[0]
    return Case(words=[str(file) if word == "FILE" else word for word in words])


def torch_case(random: Random, folder: Path) -> Case:
    """A torch with a library that is damaged, or is none of torch's."""
    package = folder / "torch"
    (package / "lib").mkdir(parents=True)
    build = random.choice(("2.13.0+cpu", "2.5.1", "99.0", "1.0", "x", "2.13.0a0+git123", "'", ""))
    (package / "version.py").write_text(f"__version__ = {build!r}\n", "utf-8")
    for name in random.sample(
        ("libtorch_cpu.so", "libc10.so", "libtorch.so", "libtorch_python.so"), random.randint(1, 4)
    ):
        data = random.choice(samples()).read_bytes()
        (package / "lib" / name).write_bytes(mutated(data, random) if random.random() < 0.7 else data)
    sample = str(SAMPLES / random.choice(("loads/loads.so", "registrations/lookups.so", "cxx11_abi/cxx11_abi.so")))
    words = random.choice((["check", sample, "--torch"], ["ops", "--torch"], ["matrix", sample, "--torch"]))
    return Case(words=[*words, str(random.choice((package, package / "lib")))])


# What takes long for the sake of torch, and not of the target, is rare.
_COMMANDS: Final = (
    (25, ("check", "FILE", *TORCH)),
    (15, ("check", "FILE", *TORCH, "--format", "json")),
    (1, ("check", "FILE", "--torch", ">=2.8,<2.10", "--format", "sarif")),
    (15, ("ops", "FILE")),
    (15, ("ops", "FILE", "-v", "--format", "json")),
    (5, ("ops", "FILE", "--api-version", *TORCH)),
    (10, ("stable", "FILE")),
    (10, ("matrix", "FILE", *TORCH, "--torch", "2.5.1")),
    (1, ("coverage", "FILE", *TORCH)),
    (1, ("coverage", "FILE", *TORCH, "--backend", "PrivateUse1", "--format", "json")),
    (1, ("diff", "2.9.1", "2.13.0", "--used-by", "FILE")),
)
