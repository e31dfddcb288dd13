"""Code that means harm, or nonsense: always a gap, and the other initialisers are still read."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from abiscan.elf import ElfFile
from abiscan.emulation import Registrations, recover
from abiscan.errors import InputError

SAMPLES = Path(__file__).parents[3] / "sample_binaries" / "registrations"
BEFORE = """
#include <stdlib.h>
#include <string.h>
extern int aoti_torch_library_init_def(const char*, const char*, unsigned, void**);
extern int aoti_torch_library_def(void*, const char*);
"""
AFTER = """
__attribute__((constructor(500))) static void good(void) {
  void* library;
  aoti_torch_library_init_def("still", "good.c", 1, &library);
  aoti_torch_library_def(library, "read(Tensor self) -> Tensor");
}
"""
BAD = {
    "endless loop": ('for (;;) __asm__ volatile("");', "out of its budget of instructions"),
    "memory in small pieces": ("for (;;) memset(malloc(1 << 20), 1, 1 << 20);", "out of its budget of memory"),
    "giant allocation": (
        "char* volatile p = malloc((size_t)1 << 46); memset(p, 1, 4096);",
        "allocation of 70368744177664 bytes",
    ),
    "jump to nowhere": ("((void (*)(void))0x123456789)();", "jump to 0x123456789, where there is no code"),
    "jump to null": ("void (*volatile f)(void) = 0; f();", "jump to 0x0, where there is no code"),
    "write to code": ("*(volatile char*)(void*)&bad = 1;", "code that modifies itself"),
    "system call": ('__asm__ volatile("syscall" :: "a"(60), "D"(3) : "rcx", "r11", "memory");', "a system call"),
    "wild pointer": ("*(volatile int*)0x7770000000 = 1;", "access to unmapped memory at 0x7770000000"),
    "unknown instruction": ('__asm__ volatile("vpconflictd %zmm1, %zmm1");', "unknown instruction: vpconflictd"),
    "abort": ("abort();", "the code calls abort"),
    "privileged instruction": ('__asm__ volatile("ud2");', "unknown instruction: ud2"),
}

needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


def _build(folder: Path, body: str) -> Registrations:
    source = BEFORE + f"__attribute__((constructor(400))) static void bad(void) {{ {body} }}\n" + AFTER
    source = source.replace("static void bad", "void bad", 1)
    (folder / "bad.c").write_text(source)
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-w", "bad.c", "-o", "bad.so"], check=True, cwd=folder)
    file = ElfFile.open(folder / "bad.so")
    return recover(file, file.facts())


@needs_gcc
@pytest.mark.parametrize(("body", "reason"), BAD.values(), ids=BAD)
def test_a_bad_initialiser_is_a_gap_and_takes_nobody_along(tmp_path: Path, body: str, reason: str) -> None:
    found = _build(tmp_path, body)
    (gap,) = found.gaps
    assert gap.reason.startswith(reason)
    assert gap.symbol == "bad"
    assert [operator.name for operator in found.operators] == ["still::read"]


@needs_gcc
def test_code_that_modifies_itself(tmp_path: Path) -> None:
    source = """
        __attribute__((section(".wx,\\"awx\\",@progbits#"))) unsigned char code[64] = {0xb8, 1, 0, 0, 0, 0xc3};
        __attribute__((constructor)) void change(void) {
          ((int (*)(void))code)(); code[1] = 2; ((int (*)(void))code)();
        }
    """
    (tmp_path / "self.c").write_text(source)
    command = ["gcc", "-O1", "-fPIC", "-shared", "-w", "-Wl,--no-warn-rwx-segments", "self.c", "-o", "self.so"]
    subprocess.run(command, check=True, cwd=tmp_path)
    file = ElfFile.open(tmp_path / "self.so")
    (gap,) = recover(file, file.facts()).gaps
    assert gap.reason == "code that modifies itself"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_damaged_object_is_read_as_far_as_it_goes(seed: int) -> None:
    source = random.Random(seed)
    data = bytearray((SAMPLES / "library.so").read_bytes())
    for _ in range(40):
        data[source.randrange(0x400, len(data))] = source.randrange(256)
    try:
        file = ElfFile.from_bytes(bytes(data), "damaged")
        facts = file.facts()
    except InputError:
        return
    assert isinstance(recover(file, facts), Registrations)
