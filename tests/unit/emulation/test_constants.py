"""Names that the code keeps in a register or in its frame until it looks them up."""

from __future__ import annotations

import platform
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation import recover
from abiscan.emulation.arch.constants import Constants, _changes_by, _changes_of, _decoder, _Relative, _whole

# The call is so far from what loads the constants that these are not seen from the code just before it; and a run of
# the whole function, which does not know its arguments, does not get to the call.
SOURCE = """
        .intel_syntax noprefix
        .section .rodata
name:   .string "aten::to"
first:  .string "dtype"
second: .string "device"
        .text
        .globl f
        .type f, @function
f:      .cfi_startproc
        push rbp
        .cfi_def_cfa_offset 16
        .cfi_offset rbp, -16
        mov rbp, rsp
        .cfi_def_cfa_register rbp
        push r12
        sub rsp, 24
        cmp dword ptr [rdi], 42
        jne 2f
        lea rax, name[rip]
        mov [rbp-24], rax
        lea r12, first[rip]
        call another@PLT
        test eax, eax
        jne 1f
        {between}
        .skip 300, 0x90
1:      call another@PLT
        test eax, eax
        jne 2f
        mov rdi, [rbp-24]
        mov rsi, r12
        xor edx, edx
        xor ecx, ecx
        call torch_call_dispatcher@PLT
2:      add rsp, 24
        pop r12
        pop rbp
        ret
        .cfi_endproc
        .size f, .-f
        .section .note.GNU-stack,"",@progbits
"""
needs_assembler = pytest.mark.skipif(
    not shutil.which("gcc") or platform.machine() != "x86_64", reason="needs gcc for x86-64"
)
NO_CONSTANT = "calls torch_call_dispatcher with a name that is not a constant"


def _read(folder: Path, between: str) -> tuple[list[str], list[str]]:
    """The operators that are looked up, and the gaps."""
    (folder / "f.s").write_text(SOURCE.format(between=between))
    subprocess.run(["gcc", "-shared", "-nostdlib", "f.s", "-o", "f.so"], check=True, cwd=folder)
    file = ElfFile.open(folder / "f.so")
    found = recover(file, file.facts())
    return [lookup.operator for lookup in found.lookups], [gap.reason for gap in found.gaps]


@needs_assembler
@pytest.mark.parametrize(
    "between",
    ["nop", "lea r12, first[rip]", "lea rcx, first[rip]; mov r12, rcx", "lea rdi, second[rip]; mov [rbp-32], rdi"],
)
def test_a_constant_that_every_way_agrees_on(tmp_path: Path, between: str) -> None:
    assert _read(tmp_path, between) == (["aten::to.dtype"], [])


@needs_assembler
@pytest.mark.parametrize(
    "between",
    [
        "lea r12, second[rip]",  # another text on one of the two ways
        "mov r12, rdi",  # whatever the call before has left there
        "mov r12d, 0",
        "mov [rbp-24], rdx",
        "mov dword ptr [rbp-20], 1",  # half of the word
        "lea rcx, first[rip]; call another@PLT; mov r12, rcx",
    ],
)
def test_a_place_that_may_hold_something_else_is_a_gap(tmp_path: Path, between: str) -> None:
    assert _read(tmp_path, between) == ([], [NO_CONSTANT])


# Code at 0x1000, and the constants that are at its last instruction: encodings of the Intel SDM, as GNU as makes them.
LEA_RBX, LEA_R12 = "488d1d f9000000", "4c8d25 f9000000"  # lea rbx, [rip + 0xf9]; lea r12, [rip + 0xf9]: to 0x1100
FRAME = "55 4889e5"  # push rbp; mov rbp, rsp
STORED = f"{FRAME} 488d05 f5000000 488945e8"  # lea rax, [rip + 0xf5]; mov [rbp - 24], rax
READS, NOP = "488b7de8", "90"  # mov rdi, [rbp - 24]
CODES = {
    "a register": (f"90 {LEA_RBX} {NOP}", {"rbx": 0x1101}),
    "nothing before": (f"{NOP} {NOP}", {}),
    "copied": (f"90 {LEA_RBX} 4989dc {NOP}", {"rbx": 0x1101, "r12": 0x1101}),  # mov r12, rbx
    "overwritten": (f"90 {LEA_RBX} 4889fb {NOP}", {}),  # mov rbx, rdi
    "a part is overwritten": (f"90 {LEA_RBX} b301 {NOP}", {}),  # mov bl, 1
    "computed": (f"90 {LEA_RBX} 48ffc3 {NOP}", {}),  # inc rbx
    "one operand": (f"90 {LEA_RBX} 48f7db {NOP}", {}),  # neg rbx
    "of another base": (f"90 488d5f10 {NOP}", {}),  # lea rbx, [rdi + 0x10]
    "half of it": (f"90 8d1d f9000000 {NOP}", {}),  # lea ebx, [rip + 0xf9]
    "loaded from memory": (f"90 488b1d f9000000 {NOP}", {}),  # mov rbx, [rip + 0xf9]
    "after a call": (f"90 {LEA_RBX} e800000000 {NOP}", {"rbx": 0x1101}),
    "lost in a call": ("90 488d05 f9000000 e800000000 4889c3 90", {}),  # lea rax; call; mov rbx, rax
    "lost in a call through a register": ("90 488d05 f9000000 ffd1 4889c3 90", {}),  # lea rax; call rcx; mov rbx, rax
    "kept in a jump": (f"90 {LEA_RBX} eb00 {NOP}", {"rbx": 0x1101}),
    "behind a jump": (f"90 {LEA_RBX} eb01 90 {NOP}", {"rbx": 0x1101}),
    "on one way": (f"90 7407 {LEA_RBX} {NOP}", {}),  # je behind it
    "in a loop": (f"90 {LEA_RBX} 90 75fd {NOP}", {"rbx": 0x1101}),
    "two registers": (f"90 {LEA_RBX} {LEA_R12} {NOP}", {"rbx": 0x1101, "r12": 0x1108}),
    "in the frame": (f"{STORED} {READS} {NOP}", {-24: 0x1100}),
    "without a frame": ("90 90 90 90 488d05 f5000000 488945e8 488b7de8 90", {}),
    "another word of the frame": (f"{STORED} c645f001 {READS} {NOP}", {-24: 0x1100}),  # mov byte [rbp - 16], 1
    "a byte of the word": (f"{STORED} c645ef01 {READS} {NOP}", {}),  # mov byte [rbp - 17], 1
    "with an index": (f"{STORED} 48c744cde800000000 {READS} {NOP}", {-24: 0x1100}),  # mov qword [rbp + 8 * rcx - 24], 0
    "through another pointer": (f"{STORED} 48c747e800000000 {READS} {NOP}", {-24: 0x1100}),  # mov qword [rdi - 24], 0
    "a vector over it": (f"{STORED} 0f1145e0 {READS} {NOP}", {}),  # movups [rbp - 32], xmm0
    "a vector before it": (f"{STORED} 0f1145d8 {READS} {NOP}", {-24: 0x1100}),  # movups [rbp - 40], xmm0
    "back from the frame": (f"{STORED} 488b5de8 {NOP}", {"rbx": 0x1100, -24: 0x1100}),  # mov rbx, [rbp - 24]
    "half of the word of the frame": (f"{STORED} 8b5de8 {READS} {NOP}", {-24: 0x1100}),  # mov ebx, [rbp - 24]
}


@pytest.mark.parametrize(("code", "expected"), CODES.values(), ids=CODES)
def test_the_constants_at_an_instruction(code: str, expected: dict[str | int, int]) -> None:
    content = bytes.fromhex(code)
    end = 0x1000 + len(content) - 1
    found = Constants("x86_64", lambda start: content if start == 0x1000 else b"").at(end, 0x1000, range(0x1000, end))
    assert found == expected


def test_a_function_that_is_too_long_is_not_looked_at() -> None:
    code, nop = bytes.fromhex(f"90 {LEA_RBX}"), bytes.fromhex("666666662e0f1f840000000000")
    for size, expected in ((1 << 16, {"rbx": 0x1101}), ((1 << 16) + 1, {})):
        content = (code + nop * (size // len(nop)))[:size]
        assert Constants("x86_64", lambda _, content=content: content).at(0x1008, 0x1000, range(0)) == expected  # type: ignore[misc]


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        *(("al", "rax"), ("ah", "rax"), ("bx", "rbx"), ("edi", "rdi"), ("sil", "rsi"), ("bp", "rbp")),
        *(("r8d", "r8"), ("r12b", "r12"), ("r15w", "r15"), ("r13", "r13"), ("rsp", "rsp"), ("xmm0", "xmm0")),
    ],
)
def test_the_register_of_which_another_is_a_part(part: str, whole: str) -> None:
    assert _whole(part) == whole


def test_the_text_of_an_instruction_tells_what_its_details_do() -> None:
    source, by_text = random.Random(7), 0
    opcodes = (
        0x01,
        0x03,
        0x31,
        0x33,
        0x39,
        0x63,
        0x81,
        0x83,
        0x85,
        0x89,
        0x8A,
        0x8B,
        0x8C,
        0x8D,
        0x8E,
        0xA9,
        0xB8,
        0xC7,
        0xD1,
    )
    for _ in range(6_000):
        prefix = source.choice(("", "40", "41", "48", "49", "4c", "4d", "65", "66", "67"))
        code = bytes((*bytes.fromhex(prefix), source.choice(opcodes), *source.randbytes(12)))
        for instruction in _decoder().disasm(code, 0, 1):
            detailed = dict(_changes_by(instruction))
            code = code[: instruction.size]
            changes, relative = _changes_of(code, instruction.mnemonic, instruction.op_str)
            expected = {place: change for place, change in detailed.items() if place != "rflags"}
            offsets = {place: item.offset for place, item in expected.items() if isinstance(item, _Relative)}
            by_text += not changes.keys() >= detailed.keys()
            assert relative == offsets, code.hex()
            assert {place: item for place, item in changes.items() if place != "rflags"} == {
                place: item for place, item in expected.items() if place not in offsets
            }, code.hex()
    assert by_text > 500
