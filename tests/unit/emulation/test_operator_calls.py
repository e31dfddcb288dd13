"""What the samples' operators without arguments return: as one reads in their source."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation import call_operator
from abiscan.emulation.loader import BASE
from abiscan.emulation.operator_calls import _Caller, _is_faithful
from abiscan.emulation.recovery import Recovery
from abiscan.registrations import NotRun, Phase, RegisteredKernel

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


# Kernels of the stable ABI: they get a stack, and how many values are given and returned on it.
STABLE = """
extern int aoti_torch_library_init_impl(const char*, const char*, const char*, unsigned, void**);
extern int torch_library_impl(void*, const char*, void*, unsigned long);
extern unsigned long aoti_torch_abi_version(void);
typedef unsigned long Value;
static Value five = 5;
static void minus(Value* stack, Value n, Value m) { stack[0] = -7; }
static void yes(Value* stack, Value n, Value m) { stack[0] = 0x101; }
static void no(Value* stack, Value n, Value m) { stack[0] = 0x100; }
static void some(Value* stack, Value n, Value m) { stack[0] = (Value)&five; }
static void counts(Value* stack, Value n, Value m) { stack[0] = 0x100 + n * 16 + m; }
static void nothing(Value* stack, Value n, Value m) { if (m) for (;;) __asm__ volatile(""); }
static void version(Value* stack, Value n, Value m) { stack[0] = aoti_torch_abi_version(); }
static void untouched(Value* stack, Value n, Value m) { }
#define KERNEL(f) torch_library_impl(kernels, #f, f, 0x20a000000000000);
__attribute__((constructor)) static void begin(void) {
  void* kernels;
  aoti_torch_library_init_impl("one", "CompositeExplicitAutograd", "one.c", 2, &kernels);
  KERNEL(minus) KERNEL(yes) KERNEL(no) KERNEL(some) KERNEL(counts) KERNEL(nothing) KERNEL(version) KERNEL(untouched)
}
"""


@needs_gcc
@pytest.mark.parametrize(
    ("name", "returns", "expected"),
    [
        ("minus", "int", -7),
        ("yes", "bool", True),
        ("no", "bool", False),
        ("some", "int?", 5),
        ("untouched", "int?", None),
        ("counts", "int", 0x101),
        ("nothing", "()", None),
        ("minus", "float", NotRun(reason="it returns float")),
        ("version", "int", 0x20A << 48),
        ("minus", "int answer", -7),
    ],
)
def test_what_a_stable_kernel_returns(tmp_path: Path, name: str, returns: str, expected: object) -> None:
    file = built(tmp_path / "stable.so", STABLE)
    schema = f"one::{name}() -> {returns}"
    found = call_operator(file, file.facts(), f"one::{name}", schema, abi_version=0x20A << 48)
    assert found == expected
    assert type(found) is type(expected)


@needs_gcc
def test_a_version_that_is_not_known_is_not_guessed(tmp_path: Path) -> None:
    file = built(tmp_path / "stable.so", STABLE)
    found = call_operator(file, file.facts(), "one::version", "one::version() -> int")
    assert found == NotRun(reason="its kernel calls aoti_torch_abi_version")


# Functions as a compiler makes them of C++ (Itanium C++ ABI, 3.1.3): strings are returned where the caller says.
UNBOXED = """
struct Optional { long value; char has; };
long number(void* functor, unsigned long keys) { return -9 + (long)keys; }
_Bool yes(void* functor, unsigned long keys) { return 1; }
struct Optional some(void* functor, unsigned long keys) { return (struct Optional){ 8, 1 }; }
struct Optional none(void* functor, unsigned long keys) { return (struct Optional){ 8, 0 }; }
static const struct { unsigned long size, capacity, owners; char text[8]; } rep = { 4, 4, 0, "text" };
void* old(const char** result, void* functor, unsigned long keys) { *result = rep.text; return result; }
struct String { const char* text; unsigned long size; char local[16]; };
struct String* new(struct String* result, void* functor, unsigned long keys) {
  *result = (struct String){ rep.text, 3 };
  return result;
}
void nothing(void* functor, unsigned long keys) { }
"""
STRING = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


@pytest.mark.skipif(not shutil.which("gcc") or platform.machine() != "x86_64", reason="needs gcc for x86-64")
@pytest.mark.parametrize(
    ("name", "signature", "expected"),
    [
        ("number", "FlvE", -9),
        ("number", "DoFlvE", -9),  # noexcept
        ("yes", "FbvE", True),
        ("some", "FSt8optionalIlEvE", 8),
        ("none", "FSt8optionalIlEvE", None),
        ("old", "FSsvE", "text"),
        ("new", f"F{STRING.removesuffix('E')}EvE", "tex"),
        ("nothing", "FvvE", None),
        ("number", "FdvE", NotRun(reason="its kernel is of type FdvE")),
    ],
)
def test_what_an_unboxed_kernel_returns(tmp_path: Path, name: str, signature: str, expected: object) -> None:
    file = built(tmp_path / "unboxed.so", UNBOXED)
    recovery = Recovery(file, file.facts(), None)
    start = recovery.process.image.definition_of(name)
    assert start is not None
    kernel = RegisteredKernel(
        operator="one::f", dispatch_key=None, signature=signature, inferred_schema=None, boxed=False, fallthrough=False,
        abi_version=None, phase=Phase.STATIC_INIT, order=0, library=None,
    )  # fmt: skip
    caller = _Caller(recovery, None)
    assert caller._unboxed((recovery.process.allocate(8), BASE + start), kernel) == expected
    recovery.close()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("memcpy", True), ("__memcpy_chk", True), ("strlen", True), ("_Znwm", True), ("_ZNSs6appendERKSs", True)),
        *(("__cxa_guard_acquire", True), ("getenv", False), ("time", False), ("cudaGetDeviceCount", False)),
        *(("_ZNSt6thread20hardware_concurrencyEv", False), ("_ZNSt6chrono3_V212system_clock3nowEv", False)),
        *(("_ZNSt6localeC1Ev", False), ("_ZSt20__throw_out_of_rangePKc", False), ("strtol", True), ("strtold", False)),
    ],
)
def test_what_does_the_same_on_every_machine(name: str, expected: bool) -> None:
    assert _is_faithful(name) is expected
