"""Names that the code keeps in a register or in its frame until it looks them up."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation import recover
from abiscan.emulation.constants import _whole

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


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        *(("al", "rax"), ("ah", "rax"), ("bx", "rbx"), ("edi", "rdi"), ("sil", "rsi"), ("bp", "rbp")),
        *(("r8d", "r8"), ("r12b", "r12"), ("r15w", "r15"), ("r13", "r13"), ("rsp", "rsp"), ("xmm0", "xmm0")),
    ],
)
def test_the_register_of_which_another_is_a_part(part: str, whole: str) -> None:
    assert _whole(part) == whole
