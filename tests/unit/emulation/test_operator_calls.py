"""What the samples' operators without arguments return: as one reads in their source."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation import NotRun, call_operator

SAMPLES = Path(__file__).parents[3] / "sample_binaries" / "registrations"
needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")

# A kernel that asks a library beside it, which computes the answer while it is loaded.
ASKS = """
extern int aoti_torch_library_init_def(const char*, const char*, unsigned, void**);
extern int aoti_torch_library_init_impl(const char*, const char*, const char*, unsigned, void**);
extern int aoti_torch_library_def(void*, const char*);
extern int torch_library_impl(void*, const char*, void*, unsigned long);
extern unsigned long answer(void);
static void asks(unsigned long* stack, unsigned long n, unsigned long m) { stack[0] = answer(); }
static void turns(unsigned long* stack, unsigned long n, unsigned long m) { for (;;) ++*(volatile long*)stack; }
__attribute__((constructor)) static void begin(void) {
  void* kernels;
  aoti_torch_library_init_impl("one", "CompositeExplicitAutograd", "one.c", 2, &kernels);
  torch_library_impl(kernels, "asks", asks, 0x20a000000000000);
  torch_library_impl(kernels, "turns", turns, 0x20a000000000000);
}
"""
ANSWERS = """
static unsigned long value = 1;
__attribute__((constructor)) static void begin(void) { value += 41; }
unsigned long answer(void) { return value; }
"""


def built(path: Path, source: str) -> ElfFile:
    command = ["gcc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=source.encode(), check=True)
    return ElfFile.open(path)


@pytest.mark.parametrize(
    "name", ["library", "library_unoptimised", "library_aarch64", "library_avx512", "library_2_1_2", "library_1_11_0"]
)
def test_a_sample_returns_its_version(name: str) -> None:
    file = ElfFile.open(SAMPLES / f"{name}.so")
    assert call_operator(file, file.facts(), "sample::version", "sample::version() -> int _0") == 3


def test_an_operator_that_takes_arguments_is_not_called() -> None:
    file = ElfFile.open(SAMPLES / "library.so")
    schema = "sample::touch(Tensor(a!) self) -> ()"
    assert call_operator(file, file.facts(), "sample::touch", schema) == NotRun(reason="it takes arguments")


def test_an_operator_without_a_kernel_has_no_result() -> None:
    file = ElfFile.open(SAMPLES / "library.so")
    assert call_operator(file, file.facts(), "sample::x", "sample::x() -> int") == NotRun(reason="it has 0 kernels")


@needs_gcc
def test_functions_of_a_sibling_are_run_too(tmp_path: Path) -> None:
    file, sibling = built(tmp_path / "asks.so", ASKS), built(tmp_path / "answers.so", ANSWERS)
    asked = call_operator(file, file.facts(), "one::asks", "one::asks() -> int", siblings=[sibling])
    assert asked == 42
    alone = call_operator(file, file.facts(), "one::asks", "one::asks() -> int")
    assert alone == NotRun(reason="its kernel calls answer")


@needs_gcc
def test_a_kernel_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    file = built(tmp_path / "asks.so", ASKS)
    found = call_operator(file, file.facts(), "one::turns", "one::turns() -> int")
    assert found == NotRun(reason="instruction budget exhausted")
