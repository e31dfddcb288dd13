"""Compare the reader of code for GPUs with ``cuobjdump``, entry by entry and in order, for files of released wheels.

Each wheel of the list is downloaded with pip and unpacked one file at a time; nothing stays. Of each file with code for
NVIDIA's GPUs, what ``cuobjdump`` lists is compared with what abiscan reads. Where the machine code is not compressed,
the kernels that its symbols name are also compared with those that the initialisers of the file register, container by
container. It prints each difference, and exits with 1 if there is one.

    pip install nvidia-cuda-cuobjdump              # site-packages/nvidia/cu13/bin/cuobjdump, for PATH
    python -m tools.gpu_truth                      # every wheel: downloads 25 GB, takes 45 minutes
    python -m tools.gpu_truth vllm==0.11.0         # one wheel
    python -m tools.gpu_truth --cuobjdump cuobjdump --cuobjdump OLDER    # OLDER: CUDA 12.3, as triton 2.2.0 brings it
    python -m tools.gpu_truth --record             # also writes tests/oracle/gpu_code.zip

The record has, for each file, the list of ``cuobjdump`` and the bytes that the reader asked for: headers. With them the
comparison is repeated in every run of the tests, without the files.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from abiscan.binary.elf import ElfFile, Machine
from abiscan.emulation import recover
from abiscan.gpu.cuda import Read
from abiscan.gpu.model import CodeKind, Compression, Container, GpuCode
from abiscan.gpu.reader import read_gpu_code
from abiscan.inputs.files import DiskFile, random_access
from tools.wheels import download

RECORD: Final = Path(__file__).resolve().parent.parent / "tests" / "oracle" / "gpu_code.zip"
# torch, the libraries of CUDA that it needs, and extensions.
WHEELS: Final = tuple(
    """
    torch==1.5.0 torch==1.7.1 torch==2.7.1 torch==2.8.0 torch==2.9.1 torch==2.10.0 torch==2.14.1
    nvidia-cublas-cu12==12.8.4.1 nvidia-cudnn-cu12==9.10.2.21 nvidia-cufft-cu12==11.3.3.83
    nvidia-curand-cu12==10.3.9.90 nvidia-cusolver-cu12==11.7.3.90 nvidia-cusparse-cu12==12.5.8.93
    nvidia-cusparselt-cu12==0.7.1 nvidia-nccl-cu12==2.27.5 nvidia-nvshmem-cu12==3.4.5
    nvidia-cublas==13.1.1.3 nvidia-cudnn-cu13==9.24.0.43 nvidia-cufft==12.0.0.61 nvidia-curand==10.4.0.35
    nvidia-cusolver==12.0.4.66 nvidia-cusparse==12.6.3.3 nvidia-cusparselt-cu13==0.8.1 nvidia-nccl-cu13==2.30.7
    nvidia-nvshmem-cu13==3.4.5 nvidia-cublas==13.10.0.20
    bitsandbytes==0.50.2 fbgemm-gpu==1.3.0 fbgemm-gpu==1.9.0 fbgemm-gpu-genai==1.9.0
    sgl-kernel==0.3.21 sglang-kernel==0.4.4 sglang-kernel==0.4.7 sglang-kernel==0.4.10
    torchaudio==2.8.0 vllm==0.11.0 vllm==0.33.0
    torchao==0.7.0 torchao==0.10.0 torchao==0.12.0 torchao==0.14.1 torchao==0.15.0 torchao==0.18.0
    torchcodec==0.6.0 torchcodec==0.11.1 torchcodec==0.17.0
    torchvision==0.23.0 torchvision==0.24.1 torchvision==0.29.1
    xformers==0.0.30 xformers==0.0.31.post1 xformers==0.0.35
    sglang-kernel==0.4.4@aarch64 sglang-kernel==0.4.10@aarch64 vllm==0.33.0@aarch64 torch==2.10.0@aarch64
    bitsandbytes==0.50.2@aarch64
    """.split()  # noqa: SIM905 - a list of literals is twice as long
)
_PYTHON: Final = {"torch==1.5.0": "3.8", "torch==1.7.1": "3.8", "fbgemm-gpu==1.3.0": "3.11"}
_LINE: Final = re.compile(r"^(ELF|PTX) file\b.*\.(sm_[0-9]+[af]?)\.", re.MULTILINE)
_FIRST_EXACT: Final = 90
_PIECE: Final = struct.Struct("<QI")  # offset, size
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE: Final = 2
_FUNCTION: Final = 2
_ENTRY_POINT: Final = 0x10  # STO_CUDA_ENTRY


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The targets of the machine code and of the PTX in a file, in order, as ``cuobjdump`` names them."""

    elf: tuple[str, ...]
    ptx: tuple[str, ...]


def listing_of(code: GpuCode) -> Listing:
    """What ``cuobjdump`` should list: it calls ``compute_80`` ``sm_80``, and does not show the ``f`` of a family."""
    targets: dict[CodeKind, list[str]] = {CodeKind.CUBIN: [], CodeKind.PTX: [], CodeKind.LTO: []}
    for entry in code.entries:
        targets[entry.kind].append(f"sm_{entry.architecture}{entry.variant.replace('f', '')}")
    return Listing(elf=tuple(targets[CodeKind.CUBIN]), ptx=tuple(targets[CodeKind.PTX]))


def listed(path: Path, programs: Sequence[str]) -> tuple[Listing, str]:
    """What ``cuobjdump`` lists in a file, and what it says where it stops.

    :param programs: several versions of it; an older one is asked about what a newer one refuses
    """
    listing, refused = Listing(elf=(), ptx=()), "no cuobjdump"
    for program in programs:
        command = [program, "-all", "--list-elf", "--list-ptx", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = defaultdict(list)
        for kind, target in _LINE.findall(done.stdout):
            # No exact targets are older than sm_90: it takes code of another assembler, in torch 1.5, for sm_60a.
            exact = target.endswith("a") and int(target[3:-1]) >= _FIRST_EXACT
            found[kind].append(target.rstrip("af") + "a" * exact)
        listing = Listing(elf=tuple(found["ELF"]), ptx=tuple(found["PTX"]))
        refused = "; ".join(line for line in done.stderr.splitlines() if line.startswith("cuobjdump fatal"))
        if not refused:
            break
    return listing, refused


def kernels_of_plain_code(code: GpuCode, read: Read) -> dict[int, list[frozenset[str]]]:
    """The kernels that the symbols of machine code name, for each container all of whose machine code is plain.

    There is a set for each piece of code: what is compiled may depend on the GPU that it is for.
    """
    return {
        container.address: [
            frozenset(kernel_names(read(entry.offset, entry.size)))
            for entry in container.entries
            if entry.kind is CodeKind.CUBIN
        ]
        for container in code.containers
        if _is_plain(container)
    }


def _is_plain(container: Container) -> bool:
    cubins = [entry for entry in container.entries if entry.kind is CodeKind.CUBIN]
    plain = all(entry.compression is Compression.NONE for entry in cubins)
    return bool(cubins) and plain and not container.relocatable


def kernel_names(cubin: bytes) -> Iterator[str]:
    """The kernels that the symbols of machine code name."""
    table, count = *struct.unpack_from("<Q", cubin, 40), *struct.unpack_from("<H", cubin, 60)
    sections = list(_SECTION.iter_unpack(cubin[table : table + count * _SECTION.size]))
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[link][4]
        for name, info, other, _, _, _ in _SYMBOL.iter_unpack(cubin[offset : offset + size]):
            if info & 0xF == _FUNCTION and other & _ENTRY_POINT:
                yield cubin[names + name : cubin.index(b"\0", names + name)].decode("utf-8", "replace")


def registered(path: Path) -> dict[int, set[str]]:
    """The kernels of each container that the initialisers of a file register."""
    file = ElfFile.open(path)
    found = defaultdict(set)
    for kernel in recover(file, file.facts()).gpu_kernels:
        found[kernel.container].add(kernel.name)
    return found


class Recorded:
    """The headers of a file, as a file that has nothing but zeros elsewhere."""

    def __init__(self, size: int, data: bytes) -> None:
        self.size = size
        self._pieces: list[tuple[int, bytes]] = []
        at = 0
        while at < len(data):
            offset, length = _PIECE.unpack_from(data, at)
            at += _PIECE.size + length
            self._pieces.append((offset, data[at - length : at]))

    def read(self, offset: int, size: int) -> bytes:
        """At most so many bytes at an offset."""
        found = bytearray(max(0, min(size, self.size - offset)))
        first = bisect.bisect_right(self._pieces, offset, key=lambda piece: piece[0] + len(piece[1]))
        for start, piece in itertools.takewhile(lambda piece: piece[0] < offset + size, self._pieces[first:]):
            begin, end = max(start, offset), min(start + len(piece), offset + len(found))
            found[begin - offset : end - offset] = piece[begin - start : end - start]
        return bytes(found)


def headers(code: GpuCode, reads: Iterable[tuple[int, bytes]]) -> bytes:
    """What was read of a file, without the code itself."""
    pieces: list[tuple[int, bytes]] = []
    codes = sorted((entry.offset, entry.offset + entry.size) for entry in code.entries)
    done = 0
    for offset, data in sorted(reads):
        at, end = max(offset, done), offset + len(data)
        first = bisect.bisect_right(codes, at, key=lambda code: code[1])
        last = bisect.bisect_left(codes, (end, 0))
        for start, after in codes[first:last]:
            if at < start:
                pieces.append((at, data[at - offset : start - offset]))
            at = max(at, after)
        if at < end:
            pieces.append((at, data[at - offset :]))
        done = max(done, end)
    return b"".join(_PIECE.pack(offset, len(piece)) + piece for offset, piece in pieces if any(piece))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A file that was compared: what is different, and what to record of it."""

    name: str
    size: int
    listing: Listing
    kernels: int
    headers: bytes
    refused: str
    differences: tuple[str, ...]

    @property
    def entries(self) -> int:
        """How many pieces of code there are."""
        return len(self.listing.elf) + len(self.listing.ptx)


def compare(name: str, path: Path, programs: Sequence[str]) -> Compared | None:
    """Compare one file; None if it has no code for NVIDIA's GPUs."""
    reads: list[tuple[int, bytes]] = []
    source = DiskFile(path)
    with random_access(source) as read:

        def kept(offset: int, size: int) -> bytes:
            data = read(offset, size)
            reads.append((offset, data))
            return data

        code = read_gpu_code(kept, source.size)
        by_symbols = kernels_of_plain_code(code, read)
    listing, refused = listed(path, programs)
    if not refused and listing == listing_of(code) == Listing(elf=(), ptx=()):
        return None
    found = list(code.gaps)
    if refused == "" and listing != listing_of(code):
        found.append(f"cuobjdump lists {_counts(listing)}, abiscan {_counts(listing_of(code))}")
    by_calls = registered(path) if by_symbols else {}
    for address, symbols in by_symbols.items() if by_calls else ():
        names = by_calls.get(address, set())
        if other := (frozenset.intersection(*symbols) - names) | (names - frozenset.union(*symbols)):
            found.append(f"the container at {address:#x} and its registered kernels differ in {sorted(other)}")
    return Compared(
        name=name,
        size=source.size,
        listing=listing,
        kernels=sum(len(by_calls.get(address, ())) for address in by_symbols),
        headers=headers(code, reads),
        refused=refused,
        differences=tuple(found),
    )


def _counts(listing: Listing) -> str:
    return f"{len(listing.elf)} pieces of machine code and {len(listing.ptx)} of PTX"


def compared(requirement: str, folder: Path, programs: Sequence[str]) -> Iterator[Compared]:
    """Compare every file of a wheel."""
    name, _, machine = requirement.partition("@")
    wheel = download(name, folder, python=_PYTHON.get(name, "3.12"), machine=Machine(machine or "x86_64"))
    if wheel is None:
        raise SystemExit(f"{requirement}: there is no wheel")
    seen = set()
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            # Versions of a name are copies of the same file.
            if ".so" not in info.filename or (info.CRC, info.file_size) in seen:
                continue
            seen.add((info.CRC, info.file_size))
            path = folder / Path(info.filename).name
            with archive.open(info) as stream, path.open("wb") as target:
                shutil.copyfileobj(stream, target, 1 << 20)
            found = compare(f"{requirement}/{info.filename}", path, programs)
            path.unlink()
            if found:
                yield found
    wheel.unlink()


def recorded() -> Iterator[tuple[str, Listing, Recorded]]:
    """The files of the record: what ``cuobjdump`` lists, and their headers."""
    with zipfile.ZipFile(RECORD) as archive:
        for name, row in json.loads(archive.read("listed.json")).items():
            listing = Listing(elf=tuple(row["elf"].split()), ptx=tuple(row["ptx"].split()))
            yield name, listing, Recorded(row["size"], archive.read(name))


def record(files: Iterable[Compared]) -> None:
    """Write the record."""
    rows = {}
    with zipfile.ZipFile(RECORD, "w", zipfile.ZIP_LZMA) as archive:

        def add(name: str, data: bytes) -> None:
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_LZMA)

        for file in files:
            elf, ptx = " ".join(file.listing.elf), " ".join(file.listing.ptx)
            rows[file.name] = {"size": file.size, "elf": elf, "ptx": ptx}
            add(file.name, file.headers)
        add("listed.json", json.dumps(rows, indent=1).encode())


def main() -> int:
    """Print the differences, and the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="*", default=WHEELS, metavar="NAME==VERSION[@MACHINE]", help="only these")
    parser.add_argument(
        "--cuobjdump", action="append", metavar="PROGRAM", help="this one; repeat for older ones, for old code"
    )
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.name}")
    arguments = parser.parse_args()
    programs = arguments.cuobjdump or ["cuobjdump"]
    if absent := next((program for program in programs if not shutil.which(program)), None):
        raise SystemExit(f"{absent} is not there: pip install nvidia-cuda-cuobjdump")
    equal: list[Compared] = []
    wrong = entries = kernels = 0
    for wheel in arguments.wheels:
        with tempfile.TemporaryDirectory() as scratch:
            for file in compared(wheel, Path(scratch), programs):
                what = file.refused or "; ".join(file.differences) or "equal"
                print(f"{file.name}: {file.entries} entries, {file.kernels} kernels: {what}", flush=True)
                wrong += bool(file.differences)
                if not file.differences and not file.refused:
                    equal.append(file)
                    entries, kernels = entries + file.entries, kernels + file.kernels
    print(f"{len(equal)} files are equal, with {entries} entries and {kernels} kernels; {wrong} are not")
    if arguments.record:
        record(equal)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
