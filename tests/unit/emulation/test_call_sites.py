"""Calls of imported functions, against what objdump and capstone read of the same code."""

from __future__ import annotations

import itertools
import platform
import re
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import capstone  # type: ignore[import-untyped]
import pytest

from abiscan.binary.elf import ElfFile, Machine, functions_in
from abiscan.binary.loadable import Segment
from abiscan.emulation.arch import ARCHITECTURES
from abiscan.emulation.arch.code_aarch64 import address_of, branched_to, page_of
from abiscan.emulation.call_sites import (
    CallSite,
    Functions,
    find_call_sites,
    functions_naming,
    instructions_before,
)
from abiscan.emulation.loader import Image, Slots
from tests.elf_builder import Elf

SAMPLES = Path(__file__).parents[3] / "sample_binaries" / "registrations"
needs_gcc = pytest.mark.skipif(not shutil.which("gcc") or platform.machine() != "x86_64", reason="needs gcc for x86-64")
SOURCE = """
extern int one(int); extern int two(int); extern int three(int);
int calls(int x) { return one(x) + two(x + 1); }
int jumps(int x) { return one(x * 3); }
int (*pointer(void))(int) { return three; }
int local(int x) { return calls(x) + x; }
/* What looks like calls, but is data: it is never executed. */
__asm__(".data\\n call one@PLT\\n jmp two@PLT\\n call *three@GOTPCREL(%rip)\\n .text\\n");
"""
FLAGS = {
    "stubs": ["-fcf-protection=none"],
    "stubs that begin with endbr64": ["-fcf-protection=full", "-Wl,-z,ibtplt"],
    "slots": ["-fno-plt"],
}
READ, WRITE, EXECUTE = 4, 2, 1


def _image(file: ElfFile, machine: Machine) -> Image:
    return Image(file, ARCHITECTURES[machine], lambda _: 0, lambda _: 0, lambda at: at)


def _build(folder: Path, source: str, *flags: str) -> Path:
    (folder / "a.c").write_text(source)
    command = ["gcc", "-O2", "-fPIC", "-shared", "-w", "-nostdlib", *flags, "a.c", "-o", "a.so"]
    subprocess.run(command, check=True, cwd=folder)
    return folder / "a.so"


def _disassembled(path: Path) -> list[tuple[int, str, str]]:
    """The instructions: address, mnemonic, the rest of the line."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    lines = re.findall(r"^ +([0-9a-f]+):\t(?:bnd )?(\S+) *(.*)$", text.stdout, re.MULTILINE)
    return [(int(address, 16), mnemonic, rest) for address, mnemonic, rest in lines]


@needs_gcc
@pytest.mark.parametrize("flags", FLAGS.values(), ids=FLAGS)
def test_calls_are_where_objdump_sees_them(tmp_path: Path, flags: Sequence[str]) -> None:
    path = _build(tmp_path, SOURCE, *flags)
    names = {"one", "two", "three"}
    expected = set()
    for (address, mnemonic, rest), (following, *_) in itertools.pairwise(_disassembled(path)):
        match = re.search(r"<(\w+)@plt>|# [0-9a-f]+ <(\w+)>", rest)
        target = (match[1] or match[2]) if match else ""
        if target in names and mnemonic == "call":
            expected.add((following, target, False))
        elif target in names and mnemonic == "jmp" and match is not None and match[1]:
            expected.add((address, target, True))
    image = _image(ElfFile.open(path), Machine.X86_64)
    found = find_call_sites(image, Machine.X86_64, image.slots_of(names.__contains__))
    assert {target for _, target, _ in expected} == {"one", "two"}
    assert found == sorted(expected)
    # A function that is not asked for is not found, and without any there is nothing to look for.
    only_two = find_call_sites(image, Machine.X86_64, image.slots_of({"two"}.__contains__))
    assert only_two == [site for site in found if site.target == "two"]
    assert find_call_sites(image, Machine.X86_64, image.slots_of(lambda _: False)) == []


@pytest.mark.parametrize("name", ["library_aarch64", "operators_aarch64", "stable_aarch64"])
def test_calls_on_aarch64_are_where_capstone_sees_them(name: str) -> None:
    """``b`` and ``bl`` to where ``adrp x16`` and ``ldr x17`` fetch the address of an imported function."""
    file = ElfFile.open(SAMPLES / f"{name}.so")
    image = _image(file, Machine.AARCH64)
    slots = image.slots_of(lambda _: True)
    by_slot = {**slots.by_stub, **slots.others}
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    decoder.skipdata = True
    code = []
    for segment in file.segments:
        if segment.flags & EXECUTE:
            content = bytes(file.data[segment.offset : segment.offset + segment.file_size])
            code += [(at, mnemonic, text) for at, _, mnemonic, text in decoder.disasm_lite(content, segment.address)]
    stubs: dict[int, str] = {}
    for (at, first, page), (_, second, load) in itertools.pairwise(code):
        to_page, from_slot = re.match(r"x16, #(0x\w+)", page), re.match(r"x17, \[x16(?:, #(\w+))?\]", load)
        if first == "adrp" and second == "ldr" and to_page and from_slot:
            slot = int(to_page[1], 16) + int(from_slot[1] or "0", 0)
            stubs |= {at: by_slot[slot]} if slot in by_slot else {}
    expected = []
    for at, mnemonic, operands in code:
        target = stubs.get(int(operands[1:], 16)) if mnemonic in ("b", "bl") else None
        if target is not None:
            expected.append((at, target, True) if mnemonic == "b" else (at + 4, target, False))
    assert {is_jump for *_, is_jump in expected} >= {False}
    assert find_call_sites(image, Machine.AARCH64, slots) == sorted(expected)


@pytest.mark.parametrize("page", [0, 0x1000, 0x3000, 0x10_0000, 0xFFFF_F000, -0x1000, -0x3000, -0x1_0000_0000])
def test_the_page_that_an_adrp_computes(page: int) -> None:
    """Arm ARM, C6.2.13: the immediate, whose low bits are apart, counts pages from that of the instruction."""
    here = 0x20_0000_0ABC
    immediate = page >> 12 & 0x1F_FFFF
    word = 0x9000_0010 | (immediate & 3) << 29 | (immediate >> 2) << 5
    assert page_of(word, here) == 0x20_0000_0000 + page


@pytest.mark.parametrize("here", [0, 0x1_0000, 0x7FFF_F008])
def test_branches_and_addresses_are_those_that_capstone_reads(here: int) -> None:
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)

    def operand(word: int) -> int:
        ((*_, text),) = decoder.disasm_lite(struct.pack("<I", word), here)
        return int(text.rpartition("#")[2], 0)

    for immediate in (0, 1, 2, 5, 0x1234, 0x1FF_FFFF, 0x200_0000, 0x3FF_FFFF):
        for opcode in (0x1400_0000, 0x9400_0000):
            assert branched_to(opcode | immediate, here) % 2**64 == operand(opcode | immediate)
    for immediate in (0, 1, 2, 3, 4, 0x1234, 0xF_FFFF, 0x10_0000, 0x1F_FFFE):
        fields = (immediate & 3) << 29 | immediate >> 2 << 5 | 16
        assert address_of(0x1000_0000 | fields, here) % 2**64 == operand(0x1000_0000 | fields)
        assert page_of(0x9000_0000 | fields, here) % 2**64 == operand(0x9000_0000 | fields)


STUB, FUNCTIONS = 0x1000, 0x2000


def _code(size: int, *pieces: tuple[int, bytes], flags: int = READ | EXECUTE, address: int = 0) -> Image:
    """One segment, with some bytes in it."""
    data = bytearray(size)
    for at, piece in pieces:
        data[at : at + len(piece)] = piece
    segment = Segment(address=address, size=size, offset=0, file_size=size, flags=flags)
    file = SimpleNamespace(segments=[segment], data=memoryview(bytes(data)), let_go=lambda *_: None)
    return cast("Image", SimpleNamespace(file=file))


def _relative(opcode: int, at: int, to: int) -> tuple[int, bytes]:
    return at, bytes([opcode]) + struct.pack("<i", to - (at + 5))


def _stub(at: int, slot: int) -> tuple[int, bytes]:
    return at, b"\xff\x25" + struct.pack("<i", slot - (at + 6))


@pytest.mark.parametrize("opcode", [0xE8, 0xE9], ids=["call", "jmp"])
@pytest.mark.parametrize(
    "at", [0, 0x1100, 0x1_2345, *range(0x10_0000 - 6, 0x10_0000 + 2), 0x1F_FFFE, 0x20_0000, 0x22_0000 - 5]
)
@pytest.mark.parametrize("stub", [0x1000, 0xF_FFF0, 0x1F_0004])
def test_a_call_is_found_wherever_it_and_the_stub_are(opcode: int, at: int, stub: int) -> None:
    """Large code is searched in parts of a megabyte, and only for displacements that may lead to a stub."""
    slot, name = 0x30_0000, "f"
    image = _code(0x22_0000, _stub(stub, slot), _relative(opcode, at, stub))
    is_jump = opcode == 0xE9
    found = find_call_sites(image, Machine.X86_64, Slots({slot: name}, {}))
    assert found == [CallSite(at if is_jump else at + 5, name, is_jump)]


@pytest.mark.parametrize(("before", "is_entry"), [(0, True), (1, True), (4, True), (5, True), (2, False), (6, False)])
def test_where_a_stub_may_begin(before: int, is_entry: bool) -> None:
    """With ``endbr64``, which has four bytes, with ``bnd``, which has one, with both, or with neither."""
    image = _code(0x3000, _stub(STUB, 0x5000), _relative(0xE8, FUNCTIONS, STUB - before))
    found = find_call_sites(image, Machine.X86_64, Slots({0x5000: "f"}, {}))
    assert found == ([CallSite(FUNCTIONS + 5, "f", is_jump=False)] if is_entry else [])


def test_segments_lie_where_they_say() -> None:
    """Addresses count from the segment's, not from the beginning of the file."""
    base = 0x40_0000
    at, stub = _stub(STUB, 0x5000)
    call = _relative(0xE8, FUNCTIONS, STUB)
    image = _code(0x3000, (at, stub), call, address=base)
    found = find_call_sites(image, Machine.X86_64, Slots({base + 0x5000: "f"}, {}))
    assert found == [CallSite(base + FUNCTIONS + 5, "f", is_jump=False)]
    through_slot = _code(0x3000, (FUNCTIONS, b"\xff\x15" + struct.pack("<i", -0x100)), address=base)
    slots = Slots({}, {base + FUNCTIONS + 6 - 0x100: "f"})
    assert find_call_sites(through_slot, Machine.X86_64, slots) == [CallSite(base + FUNCTIONS + 6, "f", is_jump=False)]


def test_a_call_of_a_stub_that_is_far_away() -> None:
    """The distances at which the high bytes of a displacement change, and the lowest one of a part of the code."""
    far, edge = 0x120_0000, 0x10_0000 - 1
    image = _code(far + 8, _stub(0x1_0005, 0x5000), _relative(0xE8, edge, 0x1_0000), _relative(0xE8, far, 0x1_0005))
    found = find_call_sites(image, Machine.X86_64, Slots({0x5000: "f"}, {}))
    assert found == [CallSite(edge + 5, "f", is_jump=False), CallSite(far + 5, "f", is_jump=False)]


def test_every_stub_is_found() -> None:
    """Those of slots that only stubs use, and others."""
    stubs = {0x1000: 0x5000, 0x1010: 0x5008, 0x1020: 0x5010}
    calls = [_relative(0xE8, FUNCTIONS + 0x10 * number, stub) for number, stub in enumerate(stubs)]
    image = _code(0x3000, *(_stub(at, slot) for at, slot in stubs.items()), *calls)
    expected = [CallSite(FUNCTIONS + 0x10 * number + 5, name, is_jump=False) for number, name in enumerate("abc")]
    assert find_call_sites(image, Machine.X86_64, Slots({0x5000: "a", 0x5008: "b", 0x5010: "c"}, {})) == expected
    assert find_call_sites(image, Machine.X86_64, Slots({0x5000: "a"}, {0x5008: "b", 0x5010: "c"})) == expected


def _stub_aarch64(register: int) -> bytes:
    """adrp x16, .+0x5000; ldr x<register>, [x16, #0x10]"""
    return struct.pack("<II", 0x9000_0010 | 1 << 29 | 1 << 5, 0xF940_0A00 | register)


def test_a_stub_at_the_end_of_the_code_on_aarch64() -> None:
    slots = Slots({0x6010: "f"}, {})
    call = struct.pack("<I", 0x9400_0000 | (0x1FF8 - 0x100) // 4)
    image = _code(0x2000, (0x100, call), (0x1FF8, _stub_aarch64(17)))
    assert find_call_sites(image, Machine.AARCH64, slots) == [CallSite(0x104, "f", is_jump=False)]
    # What goes elsewhere with the word is no stub.
    other = _code(0x2000, (0x100, call), (0x1FF8, _stub_aarch64(0)))
    assert find_call_sites(other, Machine.AARCH64, slots) == []


@pytest.mark.parametrize("flags", [READ, READ | WRITE])
def test_data_are_no_calls(flags: int) -> None:
    image = _code(0x3000, _stub(STUB, 0x5000), _relative(0xE8, FUNCTIONS, STUB), flags=flags)
    assert find_call_sites(image, Machine.X86_64, Slots({0x5000: "f"}, {})) == []
    assert find_call_sites(image, Machine.AARCH64, Slots({0x5000: "f"}, {})) == []


@needs_gcc
def test_the_instructions_before_an_address(tmp_path: Path) -> None:
    body = "".join(f"one(x + {number}); if (x == {number * 7}) x *= {number}; " for number in range(2, 16))
    path = _build(tmp_path, f"extern int one(int); int f(int x) {{ {body} return x; }}")
    start, branches = _start_of(path, "f"), re.compile(r"j|call|ret")
    code = [line for line in _disassembled(path) if line[0] >= start]
    image = _image(ElfFile.open(path), Machine.X86_64)
    for number, (address, *_) in enumerate(code[1:80], 1):
        found = instructions_before(image, Machine.X86_64, address, start)
        expected = [(at, bool(branches.match(name))) for at, name, _ in code[:number] if at >= address - 256]
        # In the midst of long code, decoding begins somewhere: after 15 bytes at the latest it is on its way.
        sure = [one for one in expected if one[0] >= address - 256 + 15 or address - start <= 256]
        assert [tuple(one) for one in found][len(found) - len(sure) :] == sure
        assert len(found) >= len(sure)
        assert sure
    end = max(segment.address + segment.file_size for segment in image.file.segments)
    assert instructions_before(image, Machine.X86_64, end + 0x10_0000, end + 0x10_0000) == []


def _start_of(path: Path, name: str) -> int:
    text = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[0], 16) for line in text.splitlines() if line.split()[-1] == name)


def test_the_instructions_before_an_address_on_aarch64() -> None:
    # mov x0, x1; b.eq .+8; bl .; cbz x0, .; ret; add x0, x0, #1; svc #0; ldr x0, [x1]
    words = (0xAA0103E0, 0x54000040, 0x94000000, 0xB4000000, 0xD65F03C0, 0x91000400, 0xD4000001, 0xF9400020)
    is_branch = (False, True, True, True, True, False, True, False)
    image = _code(0x1000, (0x100, struct.pack("<8I", *words)))
    found = instructions_before(image, Machine.AARCH64, 0x120, 0x100)
    assert found == [(0x100 + 4 * index, branch) for index, branch in enumerate(is_branch)]
    assert instructions_before(image, Machine.AARCH64, 0x20, 0) == [(at, False) for at in range(0, 0x20, 4)]
    # What is far away is left out: 256 bytes are looked at.
    assert [one.address for one in instructions_before(image, Machine.AARCH64, 0x400, 0)] == [*range(0x300, 0x400, 4)]


def _with_table(entries: Sequence[int], *, address: int = 0x800, cut: int = 0, **fields: int) -> Image:
    """An object of one segment whose ``.eh_frame_hdr``, at ``address``, has functions there (LSB 5.0, 10.6.2)."""
    # Version, then the encodings of the pointer to .eh_frame (pcrel, sdata4), the count (udata4), the table.
    head = {"version": 1, "pointer": 0x1B, "count": 0x03, "table": 0x3B} | {
        name: value for name, value in fields.items() if name != "number"
    }
    number = fields.get("number", len(entries))
    table = bytes(head.values()) + struct.pack("<iI", 0, number)
    table += b"".join(struct.pack("<ii", entry - address, 0) for entry in entries)
    image: Any = _code(0x4000, (address, table))
    image.file.function_starts = functions_in(address, memoryview(table)[: len(table) - cut])
    image.size = 0x4000
    return cast("Image", image)


def _starts(image: Image) -> list[int]:
    return image.file.function_starts


def test_the_table_of_functions() -> None:
    assert _starts(_with_table([0x1000, 0x1040, 0x2000])) == [0x1000, 0x1040, 0x2000]
    assert _starts(_with_table([0x100, 0x1000])) == [0x100, 0x1000]  # some lie before the table
    assert _starts(_with_table([0x1004, 0x1040], number=1)) == [0x1004]
    assert _starts(_with_table([0x1000], number=100)) == [0x1000]  # more than there are
    assert _starts(_with_table([0x1000, 0x1040], cut=1)) == [0x1000]
    assert _starts(_with_table([0x1000], pointer=0x0B)) == [0x1000]
    assert _starts(_with_table([0x1000], pointer=0x03)) == [0x1000]
    assert _starts(_with_table([0x1000], pointer=0x04)) == []
    assert _starts(_with_table([])) == []


@pytest.mark.parametrize("field", ["version", "pointer", "count", "table"])
def test_a_table_of_functions_in_another_form_is_none(field: str) -> None:
    other = {"version": 2, "pointer": 0x1A, "count": 0x04, "table": 0x1B}[field]
    assert _starts(_with_table([0x1000], **{field: other})) == []


def test_an_object_without_a_table_of_functions() -> None:
    assert ElfFile.from_bytes(Elf().build(), "x.so").function_starts == []
    assert _starts(_with_table([], cut=1)) == []  # 11 bytes


def test_the_function_that_an_address_belongs_to() -> None:
    functions = Functions(_with_table([0x1000, 0x1040]))
    assert functions.containing(0xFFF) is None
    assert functions.containing(0x1000) == functions.containing(0x103F) == 0x1000
    assert functions.containing(0x1040) == functions.containing(0x3FFF) == 0x1040
    assert (functions.end_of(0x1000), functions.end_of(0x1040)) == (0x1040, 0x4000)
    assert len(functions.code_of(0x1000)) == 0x40
    assert len(functions.code_of(0x1040)) == 0x4000 - 0x1040
    # At the ends of the only segment.
    assert len(Functions(_with_table([0, 0x1000])).code_of(0)) == 0x1000
    assert functions.code_of(0x4000) == functions.code_of(-1) == b""


def test_the_code_of_a_function() -> None:
    """The segments need not lie where they are in the file."""
    image: Any = _with_table([0x1000, 0x1004, 0x2000])
    content = bytes(range(256)) * 32
    segments = [
        Segment(address=0x1000, size=0x800, offset=0x100, file_size=0x800, flags=READ | EXECUTE),
        Segment(address=0x2000, size=0x800, offset=0x900, file_size=0x10, flags=READ | EXECUTE),
    ]
    functions = Functions(image)
    image.file = SimpleNamespace(segments=segments, data=memoryview(content))
    assert functions.code_of(0x1000) == content[0x100:0x104]
    assert functions.code_of(0x1004) == content[0x104:0x900]
    assert functions.code_of(0x2000) == content[0x900:0x910]
    assert functions.code_of(0x1801) == b""


def test_functions_that_name_an_address_in_any_of_some_ranges() -> None:
    """``lea rax, [rip+…]``, one for each function, and ranges that overlap, lie in each other, or are apart."""
    targets = [0x2000, 0x2050, 0x20A0, 0x20F0, 0x2120, 0x2180, 0x3000]
    starts = [0x100 * number for number in range(1, len(targets) + 1)]
    code = [(at, b"\x48\x8d\x05" + struct.pack("<i", to - (at + 7))) for at, to in zip(starts, targets, strict=True)]
    image = _code(0x1000, *code)
    image.file.function_starts = starts

    def found(*ranges: tuple[int, int]) -> list[int]:
        named = functions_naming(image, Functions(image), ranges)
        return sorted(to for at, to in zip(starts, targets, strict=True) if at in named)

    assert found((0x2000, 0x2060)) == [0x2000, 0x2050]
    assert found((0x2080, 0x2130), (0x2000, 0x20B0)) == [0x2000, 0x2050, 0x20A0, 0x20F0, 0x2120]
    assert found((0x2000, 0x2100), (0x2050, 0x2060)) == [0x2000, 0x2050, 0x20A0, 0x20F0]
    assert found((0x2000, 0x2010), (0x2110, 0x2130), (0x3000, 0x3001)) == [0x2000, 0x2120, 0x3000]
    assert found() == []
