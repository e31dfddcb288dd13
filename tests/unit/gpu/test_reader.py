"""The containers in a file, held against what ``cuobjdump`` lists; hostile files."""

from __future__ import annotations

import json
import random
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator

import pytest

from abiscan.gpu import cuda, hip, reader
from abiscan.gpu.model import CodeKind, Compression, Container, Entry, GpuCode, targets_of
from abiscan.gpu.reader import read_gpu_code
from tests.unit.gpu.samples import FOLDER, NAMES, read, read_bytes

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RECORD: dict[str, dict[str, list[str]]] = json.loads((FOLDER / "cuobjdump.json").read_text("utf-8"))


def listed(code: GpuCode) -> dict[str, list[str]]:
    """As cuobjdump lists it: it calls compute_80 sm_80, and does not show the ``f`` of a family."""
    targets: dict[str, list[str]] = {"elf": [], "ptx": []}
    for entry in code.entries:
        kind = {CodeKind.CUBIN: "elf", CodeKind.PTX: "ptx"}[entry.kind]
        targets[kind].append(f"sm_{entry.architecture}{entry.variant.replace('f', '')}")
    return targets


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_is_the_one_that_cuobjdump_lists(name: str) -> None:
    code = read(FOLDER / name)
    assert code.gaps == ()
    assert listed(code) == RECORD[name]


@pytest.mark.skipif(not shutil.which("cuobjdump"), reason="needs cuobjdump")
@pytest.mark.parametrize("name", NAMES)
def test_the_record_is_what_cuobjdump_says_here(name: str) -> None:
    command = ["cuobjdump", "-all", "--list-elf", str(FOLDER / name)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert [line.split(".")[-2] for line in output.splitlines() if line.startswith("ELF")] == RECORD[name]["elf"]


def test_targets_versions_and_compression() -> None:
    mixed, zstd, lz4, group = (read(FOLDER / f"{name}.so") for name in ("mixed", "zstd", "lz4", "group"))
    assert mixed.targets == ("sm_80", "sm_90a", "sm_120f", "compute_80")
    assert {entry.ptx_isa for entry in mixed.entries if entry.kind is CodeKind.PTX} == {(9, 5)}
    assert (mixed.toolkit, zstd.toolkit) == ((13, 5), None)  # what is compressed does not tell
    assert {entry.compression for entry in mixed.entries} == {Compression.NONE}
    # nvcc --compress-mode=speed is LZ4; what does not get smaller stays plain.
    assert {entry.compression for entry in lz4.entries} <= {Compression.LZ4, Compression.NONE}
    assert Compression.ZSTD in {entry.compression for entry in zstd.entries}
    assert [entry.target for entry in group.containers[0].entries] == ["sm_100f", "compute_120", "sm_80", "sm_90a"]


@pytest.mark.parametrize(
    ("abi_version", "version", "toolkit"),
    [(7, 60, (6, 0)), (7, 59, None), (7, 124, (12, 4)), (7, 999, (99, 9)), (7, 1000, None), (8, 124, None)],
)
def test_machine_code_names_its_toolkit(abi_version: int, version: int, toolkit: tuple[int, int] | None) -> None:
    """As ``cuobjdump --dump-elf`` writes it for ABI version 7: ``e_version`` is ten times that of CUDA."""
    ident = b"\x7fELF\x02\x01\x01\x33" + bytes([abi_version]) + bytes(7)
    code = ident + struct.pack("<HHI", 2, 190, version) + bytes(40)
    assert len(code) == 64  # the size of an ELF header
    data = container(entry(2, 80, 0x11, code, isa=(1, 7)))
    found = reader._find_toolkit(lambda offset, size: data[offset : offset + size], list(parsed(data)))
    assert found == toolkit


def test_relocatable_code_is_not_what_a_gpu_runs() -> None:
    code = read(FOLDER / "relocatable.so")
    assert [container.relocatable for container in code.containers] == [False, True, True, True]
    assert (code.targets, code.toolkit) == (("sm_80",), (13, 5))  # its machine code alone tells


def test_a_file_without_code_for_gpus() -> None:
    assert read_bytes(b"\x7fELF\x02\x01" + bytes(58)) == GpuCode()
    assert read_bytes(b"") == GpuCode()


def entry(kind: int, architecture: int, flags: int, payload: bytes, *, header: int = 64, isa: tuple[int, int]) -> bytes:
    fields = (kind, 0x101, header, len(payload), 0, 0, isa[1], isa[0], architecture, 0, 0, flags, 0, 0)
    return struct.pack("<HHIQIIHHIIIQQQ", *fields).ljust(header, b"\0") + payload


def container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def parsed(section: bytes) -> Iterator[Container]:
    return cuda.read_containers(lambda offset, size: section[offset : offset + size], 0, len(section), 0x1000)


def test_entries_with_options_padding_and_unknown_kinds() -> None:
    first = container(
        entry(1, 80, 0x2011, b"x" * 24, header=120, isa=(8, 7)), entry(2, 100, 0x200011, b"y" * 8, isa=(1, 8))
    )
    second = container(entry(0x40, 90, 0x11, b"z" * 8, isa=(0, 0)), entry(8, 90, 0x11, b"", isa=(0, 0)))
    one, two = parsed(first + bytes(256) + second + bytes(8))
    assert [(each.target, each.ptx_isa, each.compression, each.size) for each in one.entries] == [
        ("compute_80", (8, 7), Compression.LZ4, 24),
        ("sm_100f", None, Compression.NONE, 8),
    ]
    assert [each.target for each in two.entries] == ["lto_90"]
    assert (one.address, two.address) == (0x1000, 0x1000 + len(first) + 256)
    assert (one.unknown, two.unknown) == ((), (0x40,))


@pytest.mark.parametrize(
    "section",
    [
        b"not a container!",
        container(entry(2, 80, 0, b"", isa=(1, 7)))[:40],
        container(entry(2, 80, 0, b"12345678", isa=(1, 7)))[:-8] + bytes(8) + b"\xff" * 8,
        struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 62),
        container(entry(0x100, 0, 0x8000, b"", header=200, isa=(0, 0))[:64] + b"\xff" * 136),
        container(entry(2, 80, 0, b"12345678", header=63, isa=(1, 7)) + bytes(64)),
        container(entry(2, 80, 0, b"12345678", isa=(1, 7))[:-8]),
    ],
    ids=["no magic", "cut", "trailing bytes", "too long", "endless group", "a header too short", "an entry too long"],
)
def test_damage_is_said(section: bytes) -> None:
    with pytest.raises(cuda.Damaged):
        list(parsed(section))


def group(*architectures: int, count: int, size: int) -> bytes:
    """Pieces of code that are compressed together: their number and size, then a record for each."""
    records = b"".join(entry(2, architecture, 0, b"", isa=(1, 7)) for architecture in architectures)
    header = 64 + 8 + len(records)
    fields = (0x100, 0x101, header, 8, 0, 64, 0, 0, 0, 0, 0, 0x8000, 0, 0)
    return struct.pack("<HHIQIIHHIIIQQQ", *fields) + struct.pack("<II", count, size) + records + b"12345678"


@pytest.mark.parametrize(
    ("count", "size", "found"), [(2, 136, ["sm_80", "sm_90"]), (1, 136, ["sm_80"]), (3, 136, None), (2, 137, None)]
)
def test_the_records_of_a_group_are_those_that_fit(count: int, size: int, found: list[str] | None) -> None:
    section = container(group(80, 90, count=count, size=size))
    if found is None:
        with pytest.raises(cuda.Damaged, match="a group of"):
            list(parsed(section))
    else:
        (one,) = parsed(section)
        assert [each.target for each in one.entries] == found


@pytest.mark.parametrize(("room", "count"), [(0, 0), (4, 0), (8, 1), (71, 1), (135, 2)])
def test_a_group_whose_records_do_not_fit_into_its_header_is_damaged(room: int, count: int) -> None:
    whole = group(80, 90, count=count, size=8)
    cut = whole[:4] + struct.pack("<I", 64 + room) + whole[8:]
    with pytest.raises(cuda.Damaged, match=f"a group of {count} pieces of code"):
        list(parsed(container(cut)))


def test_what_a_linker_still_has_to_link_is_no_target() -> None:
    kinds = (CodeKind.CUBIN, CodeKind.PTX, CodeKind.LTO)
    entries = tuple(Entry(kind=kind, architecture=80 + place) for place, kind in enumerate(kinds))
    linked, relocatable = (Container(address=0, entries=entries, relocatable=item) for item in (False, True))
    assert targets_of([linked]) == ("sm_80", "compute_81")
    assert targets_of([relocatable]) == ()


EMPTY = entry(2, 80, 0, b"", isa=(1, 7))


UNKNOWN = entry(0x40, 80, 0, b"", isa=(1, 7))


@pytest.mark.parametrize("section", [container(*[UNKNOWN] * 70_000), container() * 70_000, container(EMPTY) * 40_000])
def test_no_more_is_read_than_a_library_can_have(section: bytes) -> None:
    with pytest.raises(cuda.Damaged, match="more than 65536 containers and pieces of code"):
        list(parsed(section))


def test_a_container_may_have_almost_all_of_it() -> None:
    (whole,) = parsed(container(*[EMPTY] * 40_000))
    assert len(whole.entries) == 40_000


def test_a_container_in_the_code_of_another_is_code() -> None:
    inner = container(entry(2, 120, 0, b"12345678", isa=(1, 7)))
    (outer,) = parsed(container(entry(2, 90, 0, inner, isa=(1, 7))))
    assert [each.target for each in outer.entries] == ["sm_90"]


@pytest.mark.parametrize("name", NAMES)
def test_no_damage_raises(name: str) -> None:
    data = bytearray((FOLDER / name).read_bytes())
    code = read_bytes(bytes(data))
    assert code.containers
    generator = random.Random(name)
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(generator.randrange(1, 8)):
            damaged[generator.randrange(len(data))] = generator.randrange(256)
        found = read_bytes(bytes(damaged[: generator.randrange(len(data))] if generator.random() < 0.2 else damaged))
        assert len(list(found.entries)) < 1 << 12


def bundle(*targets: str, host: bool = True) -> bytes:
    names = [*(["host-x86_64-unknown-linux-gnu-"] if host else []), *(f"hipv4-amdgcn-amd-amdhsa--{t}" for t in targets)]
    directory = b"".join(struct.pack("<QQQ", 4096, 8, len(name)) + name.encode() for name in names)
    return (b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names)) + directory).ljust(4096, b"\0") + b"codecode"


def bundles(section: bytes) -> list[list[str]]:
    found = hip.read_bundles(lambda offset, size: section[offset : offset + size], 0, len(section), 0)
    return [[each.target for each in one.entries] for one in found]


def test_plain_bundles_are_found_by_their_sizes() -> None:
    first = bundle("gfx90a:sramecc+:xnack-", "gfx1100")
    # The code of the first contains the first bytes of a bundle.
    inside = (first[:4096] + b"__CLANG_").ljust(8192, b"\0")
    section = inside + bundle("gfx942")
    assert bundles(section) == [["gfx90a:sramecc+:xnack-", "gfx1100"], ["gfx942"]]
    found = hip.read_bundles(lambda offset, size: section[offset : offset + size], 0, len(section), 0x5000)
    assert [one.address for one in found] == [0x5000, 0x5000 + len(inside)]


def test_the_first_compressed_bundles_go_to_the_end_of_their_section() -> None:
    """Version 1 states the uncompressed size and a hash, and not how long it is (clang: OffloadBundler.cpp)."""
    plain = bundle("gfx942", "gfx1100")
    head = struct.pack("<4sHHIQ", b"CCOB", 1, 0, len(plain), 0)
    assert bundles(head + zlib.compress(plain)) == [["gfx942", "gfx1100"]]
    assert bundles(bundle("gfx908").ljust(8192, b"\0") + head + zlib.compress(plain)) == [
        ["gfx908"],
        ["gfx942", "gfx1100"],
    ]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("method", "compress"), [(0, zlib.compress), (1, zstd.compress)], ids=["zlib", "zstd"])
def test_a_compressed_bundle(version: int, method: int, compress: Callable[[bytes], bytes]) -> None:
    plain = bundle("gfx942")
    packed = compress(plain)
    if version == 2:
        head = struct.pack("<4sHHIIQ", b"CCOB", 2, method, 24 + len(packed), len(plain), 0)
    else:
        head = struct.pack("<4sHHQQQ", b"CCOB", 3, method, 32 + len(packed), len(plain), 0)
    assert bundles((head + packed).ljust(8192, b"\0") + bundle("gfx908")) == [["gfx942"], ["gfx908"]]


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (b"garbage", "no bundle at 0x0"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + b"\xff" * 64, "a bundle of 18446744073709551615 pieces of code at 0x0"),
        (b"CCOB\x03\0\1\0", "a bundle ends too early"),
        (bundle("gfx942")[:100], "a bundle ends too early"),
        (bundle("gfx942")[:130], "the directory of the bundle at 0x0 does not end"),
        (struct.pack("<4sHHIIQ", b"CCOB", 2, 0, 64, 4096, 0) + bytes(40), "damaged zlib at 0x0"),
        (struct.pack("<4sHHIIQ", b"CCOB", 2, 1, 64, 4096, 0) + bytes(40), "damaged zstd"),
        (struct.pack("<4sHHIIQ", b"CCOB", 2, 0, 24, 4096, 0) + bytes(40), "0x0 is longer than its section"),
        (
            bundle("gfx908").ljust(8192, b"\0") + struct.pack("<4sHHIIQ", b"CCOB", 2, 0, 4096, 4096, 0) + bytes(40),
            "0x2000 is longer than its section",
        ),
        (
            struct.pack("<4sHHIIQ", b"CCOB", 2, 0, 1 << 31, 4096, 0) + zlib.compress(bundle("gfx942")),
            "the bundle at 0x0 is longer than its section",
        ),
        (
            struct.pack("<4sHHQQQ", b"CCOB", 3, 0, 4 << 10, 1 << 62, 0) + zlib.compress(bytes(1 << 20)).ljust(4096),
            "no bundle",
        ),
        (struct.pack("<4sHHIIQ", b"CCOB", 2, 7, 64, 4096, 0) + bytes(40), "compressed by an unknown method"),
    ],
)
def test_a_damaged_bundle_is_said(section: bytes, problem: str) -> None:
    with pytest.raises((cuda.Damaged, hip.NoZstd)) as error:
        bundles(section)
    assert problem in str(error.value)


def test_little_of_a_file_is_read() -> None:
    asked: list[int] = []
    data = (FOLDER / "mixed.so").read_bytes()

    def reader(offset: int, size: int) -> bytes:
        asked.append(size)
        return data[offset : offset + size]

    read_gpu_code(reader, len(data))
    assert sum(asked) < len(data) / 3
