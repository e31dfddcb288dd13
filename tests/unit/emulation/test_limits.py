"""Code that means harm, or nonsense: always a gap, and the other initialisers are still read."""

from __future__ import annotations

import functools
import random
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation import recover
from abiscan.errors import InputError
from abiscan.registrations import Phase, Registrations
from tests.clock import grows_linearly

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
    "endless loop": ('for (;;) __asm__ volatile("");', "instruction budget exhausted"),
    "memory in small pieces": ("for (;;) memset(malloc(1 << 20), 1, 1 << 20);", "memory budget exhausted"),
    "giant allocation": (
        "char* volatile p = malloc((size_t)1 << 46); memset(p, 1, 4096);",
        "allocation of 70368744177664 bytes",
    ),
    "jump to nowhere": ("((void (*)(void))0x123456789)();", "jump to 0x123456789, which is not code"),
    "jump to null": ("void (*volatile f)(void) = 0; f();", "jump to 0x0, which is not code"),
    "write to code": ("*(volatile char*)(void*)&bad = 1;", "self-modifying code"),
    "system call": ('__asm__ volatile("syscall" :: "a"(39) : "rcx", "r11", "memory");', "a system call"),
    "exit by a system call": (
        '__asm__ volatile("syscall" :: "a"(60), "D"(3) : "rcx", "r11", "memory");',
        "the code makes a system call that ends the process",
    ),
    "hlt": ('__asm__ volatile("hlt");', "unknown instruction: hlt"),
    "hlt with REX": ('__asm__ volatile(".byte 0x45, 0xf4");', "unknown instruction: hlt"),
    "a port": ('__asm__ volatile("outb %al, $0xff");', "unknown instruction: out"),
    "no instruction of 64 bits": ('__asm__ volatile(".byte 6");', "unknown instruction: undecodable"),
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


NEVER_CALLED = """
void* volatile kept;
void on_call(void) {
  void* library;
  aoti_torch_library_init_def("late", "late.c", 1, &library);
  aoti_torch_library_def(library, "read(Tensor self) -> Tensor");
}
"""


@needs_gcc
@pytest.mark.parametrize("call", ["aoti_torch_library_def(library, name)", "aoti_torch_library_impl(library, name, 0)"])
def test_a_function_that_is_given_the_name(tmp_path: Path, call: str) -> None:
    source = BEFORE + "extern int aoti_torch_library_impl(void*, const char*, void*);\n" + AFTER
    source += f"""
        void on_call(const char* name) {{
          void* library;
          aoti_torch_library_init_def("late", "late.c", 1, &library);
          {call};
        }}
    """
    (tmp_path / "given.c").write_text(source)
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-w", "given.c", "-o", "given.so"], check=True, cwd=tmp_path)
    file = ElfFile.open(tmp_path / "given.so")
    found = recover(file, file.facts())
    assert [operator.name for operator in found.operators] == ["still::read"]
    assert not found.kernels
    (gap,) = found.gaps
    assert gap.reason.endswith("registers an operator under a name that it is given")


MOVED = {
    "away": "*(volatile unsigned long*)0x6000000000 = ~0ul >> 1;",
    "to nowhere": "*(volatile unsigned long*)0x6000000000 = 0;",
}


@needs_gcc
@pytest.mark.parametrize("body", MOVED.values(), ids=MOVED)
def test_the_end_of_the_heap_is_back_after_an_initialiser_that_moves_it(tmp_path: Path, body: str) -> None:
    """The last one does; a function that is never called is tried afterwards, and needs memory."""
    last = f"__attribute__((constructor(600))) void last(void) {{ {body} }}"
    (tmp_path / "bad.c").write_text(BEFORE + AFTER + NEVER_CALLED + last)
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-w", "bad.c", "-o", "bad.so"], check=True, cwd=tmp_path)
    file = ElfFile.open(tmp_path / "bad.so")
    found = recover(file, file.facts())
    assert {(operator.name, operator.phase) for operator in found.operators} == {
        ("still::read", Phase.STATIC_INIT),
        ("late::read", Phase.ON_CALL),
    }


def _recovered(folder: Path, source: str) -> Registrations:
    (folder / "made.c").write_text(source)
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-w", "made.c", "-o", "made.so"], check=True, cwd=folder)
    file = ElfFile.open(folder / "made.so")
    return recover(file, file.facts())


@needs_gcc
def test_what_an_initialiser_did_until_it_stopped_is_not_recorded_twice(tmp_path: Path) -> None:
    """The function that it stopped in has calls that nothing reached, but it is not one that is called later."""
    source = """
        __attribute__((noinline)) void part(void) {
          void* library;
          aoti_torch_library_init_def("once", "once.c", 1, &library);
          aoti_torch_library_def(library, "first(Tensor self) -> Tensor");
          *(volatile int*)0x7770000000 = 1;
          aoti_torch_library_def(library, "second(Tensor self) -> Tensor");
        }
        __attribute__((constructor)) void stops(void) { part(); }
    """
    found = _recovered(tmp_path, BEFORE + source)
    assert [(library.namespace, library.phase) for library in found.libraries] == [("once", Phase.STATIC_INIT)]
    assert [operator.name for operator in found.operators] == ["once::first"]
    assert found.gaps[0].reason.startswith("access to unmapped memory")
    assert found.gaps[0].lost == (("operator", 1),)


@needs_gcc
def test_a_function_that_calls_itself_as_often_as_its_argument_says_invents_no_operators(tmp_path: Path) -> None:
    source = """
        #include <stdio.h>
        void* volatile library;
        __attribute__((noinline)) void define(unsigned long number) {
          char text[64];
          snprintf(text, sizeof text, "f%lu(Tensor self) -> Tensor", number);
          aoti_torch_library_def(library, text);
          if (number) define(number - 1);
          *(volatile char*)text = 0;
        }
        void on_call(unsigned long number) {
          void* opened;
          aoti_torch_library_init_def("late", "late.c", 1, &opened);
          library = opened;
          define(number ? 1500 : 0);
        }
    """
    found = _recovered(tmp_path, BEFORE + AFTER + source)
    assert [operator.name for operator in found.operators if operator.phase is Phase.STATIC_INIT] == ["still::read"]
    assert len(found.operators) < 1000
    assert any("registers more than 1000 operators" in gap.reason for gap in found.gaps)


@needs_gcc
def test_initialisers_that_leave_no_memory_at_all(tmp_path: Path) -> None:
    body = "for (int i = 0; i < 63; i++) kept = malloc(1 << 20);"
    greedy = "".join(
        f"__attribute__((constructor({600 + number}))) void f{number}(void) {{ {body} }}" for number in range(20)
    )
    (tmp_path / "bad.c").write_text(BEFORE + AFTER + NEVER_CALLED + greedy)
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-w", "bad.c", "-o", "bad.so"], check=True, cwd=tmp_path)
    file = ElfFile.open(tmp_path / "bad.so")
    found = recover(file, file.facts())
    assert [operator.name for operator in found.operators] == ["still::read"]
    assert (found.gaps[-1].reason, found.gaps[-1].address) == ("memory budget exhausted", None)


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
    assert gap.reason == "self-modifying code"


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


def _relocations(data: bytes) -> Iterator[tuple[int, int]]:
    """Where the tables of relocations lie in a sample whose first segment begins the file, and their sizes."""
    file = ElfFile.from_bytes(data, "sample")
    for address, size in ((7, 8), (23, 2)):  # DT_RELA, DT_RELASZ; DT_JMPREL, DT_PLTRELSZ
        if address in file.dynamic:
            yield file.dynamic[address], file.dynamic[size]


LIES = {
    "a symbol that is none": (8, b"\xff\xff\xff\x7f", 4),
    "the type of no relocation": (8, b"\xee\xee\x00\x00", 0),
    "a place outside": (0, b"\x00\x00\x00\x00\x00\x70\x00\x00", 0),
    "a place in the code": (0, b"\x00\x20\x00\x00\x00\x00\x00\x00", 0),
    "an address outside": (16, b"\xff\xff\xff\xff\xff\xff\xff\xff", 0),
}


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize(("member", "value", "shift"), LIES.values(), ids=LIES)
def test_relocations_that_lie(member: int, value: bytes, shift: int, every: int) -> None:
    data = bytearray((SAMPLES / "library.so").read_bytes())
    for table, size in list(_relocations(bytes(data))):
        for at in range(table, table + size, 24 * every):
            start = at + member + shift
            data[start : start + len(value)] = value
    found = _read_whatever_the_checks_say(bytes(data))
    whole = {operator.name for operator in _sample("library").operators}
    assert {operator.name for operator in found.operators} <= whole
    assert found.gaps or len(found.operators) == len(whole)


def test_a_table_of_relocations_beyond_the_file() -> None:
    data = (SAMPLES / "library.so").read_bytes()
    dynamic = next(ElfFile.from_bytes(data, "sample").dynamic[tag] for tag in (8,))
    entry = (8).to_bytes(8, "little") + dynamic.to_bytes(8, "little")
    lying = data.replace(entry, entry[:8] + (1 << 40).to_bytes(8, "little"))
    assert lying != data
    assert _read_whatever_the_checks_say(lying).gaps


def _read_whatever_the_checks_say(data: bytes) -> Registrations:
    """Emulate an object that lies; what reads its facts refuses some such, so they are those of the sample."""
    return recover(ElfFile.from_bytes(data, "lying"), ElfFile.open(SAMPLES / "library.so").facts())


def _sample(name: str) -> Registrations:
    file = ElfFile.open(SAMPLES / f"{name}.so")
    return recover(file, file.facts())


def _with_unused_code(path: Path, size: int) -> Path:
    """The sample with more code, which it never runs: the program header of the stack gives its place."""
    data = bytearray((SAMPLES / "library.so").read_bytes())
    offset, count = int.from_bytes(data[32:40], "little"), int.from_bytes(data[56:58], "little")
    headers = range(offset, offset + 56 * count, 56)
    at = next(at for at in headers if data[at : at + 4] == (0x6474E551).to_bytes(4, "little"))  # PT_GNU_STACK
    start = -(-len(data) // 0x1000) * 0x1000
    data[at : at + 56] = struct.pack("<IIQQQQQQ", 1, 5, start, 1 << 28, 1 << 28, size, size, 0x1000)  # PT_LOAD, R-X
    with path.open("wb") as stream:
        stream.write(data)
        stream.truncate(start + size)  # a hole: no disk is needed for it
    return path


@pytest.mark.slow
def test_a_library_of_300_mb(tmp_path: Path) -> None:
    def read(path: Path) -> None:
        file = ElfFile.open(path)
        assert recover(file, file.facts()) == sample

    def prepared(megabytes: int) -> Callable[[], None]:
        return functools.partial(read, _with_unused_code(tmp_path / "large.so", megabytes << 20))

    sample = _sample("library")
    assert grows_linearly(prepared, 150)
