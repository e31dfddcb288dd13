"""The emulator against the processor: the same initialisers leave the same memory, and register the same.

Programs are made at random and compiled in several ways. On the processor, a small executable loads the library, where
twins of the doubles of torch's API print what is registered; then it prints the memory. Everything that C leaves open
is avoided: the order of evaluation, overflows of signed numbers, conversions that do not fit, texts that overlap.
``ABISCAN_PROGRAMS=1000`` makes so many.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Final

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.loader import BASE
from abiscan.emulation.recovery import Recovery
from abiscan.registrations import Phase
from tests.processor import HAS_AVX2

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")

SEEDS: Final = range(int(os.environ.get("ABISCAN_PROGRAMS", "4")))
_SCALAR: Final = ("-fno-tree-vectorize", "-fno-tree-slp-vectorize")
# With floating-point numbers or without: what few initialisers do, vectors of them, is a gap.
BUILDS: Final = {
    "not optimised": (True, ("-O0",)),
    "optimised": (True, ("-O2", *_SCALAR)),
    "small, protected": (True, ("-Os", "-fstack-protector-all", *_SCALAR)),
    "SSE": (False, ("-O3", "-funroll-loops")),
    "AVX2": (False, ("-O3", "-mavx2")),
}
ELEMENTS: Final = 24

_HEAD: Final = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
extern int aoti_torch_library_init_def(const char*, const char*, unsigned, void**);
extern int aoti_torch_library_def(void*, const char*);
struct Memory {
  uint8_t u8[N]; uint16_t u16[N]; uint32_t u32[N]; uint64_t u64[N];
  int8_t i8[N]; int16_t i16[N]; int32_t i32[N]; int64_t i64[N];
  float f32[N]; double f64[N]; char text[8][64];
} memory;
static volatile uint64_t one = 1;
static uint64_t mixed(uint64_t x) { x ^= x >> 31; x *= 0x9E3779B97F4A7C15u; return x ^ x >> 29; }
static int sign(int x) { return (x > 0) - (x < 0); }
static void* library;
static void define(int number, uint64_t value) {
  char schema[96], *copy;
  unsigned long high = value >> 40;
  snprintf(schema, sizeof schema, "f%d(int x=%lu, str s='%x') -> ()", number, high, (unsigned)value & 0xFFFF);
  copy = strdup(schema);
  memset(schema, '?', sizeof schema - 1);
  aoti_torch_library_def(library, copy);
  free(copy);
}
"""
_RUNNER: Final = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int aoti_torch_library_init_def(const char* space, const char* file, unsigned line, void** made) {
  *made = malloc(16);
  return 0;
}
int aoti_torch_library_def(void* library, const char* schema) { fprintf(stderr, "%s\\n", schema); return 0; }
int main(int count, char** words) {
  void* handle = dlopen(words[1], RTLD_NOW);
  if (!handle) { fprintf(stderr, "%s\\n", dlerror()); return 1; }
  return fwrite(dlsym(handle, "memory"), 1, atol(words[2]), stdout) != (size_t)atol(words[2]);
}
"""
_REAL: Final = 5
_INTEGERS: Final = {"u8": 8, "u16": 16, "u32": 32, "u64": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


class _Program:
    """C code of one initialiser, with floating-point numbers or without."""

    def __init__(self, seed: int, *, has_reals: bool) -> None:
        self.random = Random(seed)
        self.has_reals = has_reals

    def source(self) -> str:
        reals = "memory.f32[i] = (float)(int16_t)state / 8; memory.f64[i] = (double)(int32_t)(state >> 7) / 64;"
        statements = "\n".join(self.statement(number) for number in range(30))
        return (
            _HEAD.replace("N]", f"{ELEMENTS}]")
            + f"""
__attribute__((constructor)) static void begin(void) {{
  uint64_t state = one + {self.random.getrandbits(40)}u;
  aoti_torch_library_init_def("made", "made.c", 1, &library);
  for (int i = 0; i < {ELEMENTS}; i++) {{
    state = mixed(state + i);
    memory.u8[i] = memory.i8[i] = state; memory.u16[i] = memory.i16[i] = state >> 5;
    memory.u32[i] = memory.i32[i] = state >> 9; memory.u64[i] = memory.i64[i] = state * 3;
    REALS
  }}
{statements}
}}
""".replace("REALS", reals if self.has_reals else "")
        )

    def statement(self, number: int) -> str:
        choose, index = self.random.choice, f"(i + {self.random.randrange(ELEMENTS)}) % {ELEMENTS}"
        loop = f"  for (int i = 0; i < {ELEMENTS - self.random.choice((0, 0, 1, 3))}; i++)"
        kind = self.random.choice([kind for kind in range(10) if kind != _REAL or self.has_reals])
        if kind < 5:
            name = choose(list(_INTEGERS))
            return f"{loop} memory.{name}[i] = {self.integer(3)};"
        if kind == _REAL:
            name = choose(("f32", "f64"))
            value = self.real(3)
            return f"{loop} {{ double x = {value}; memory.{name}[i] = x > 1e5 || x < -1e5 ? 0.5 : x; }}"
        if kind == 6:
            condition = f"{self.integer(2)} & {choose((1, 2, 3))}"
            return f"{loop} if ({condition}) memory.u32[i] += {self.integer(1)}; else memory.u64[{index}] ^= i;"
        if kind == 7:
            cases = "".join(f"case {one}: state += {self.random.getrandbits(30)}u; break; " for one in range(6))
            return (
                f"{loop} switch (memory.u8[i] % 9) {{ {cases}default: state = mixed(state); }} memory.u64[0] = state;"
            )
        if kind == 8:
            return f"  define({number}, memory.u64[{self.random.randrange(ELEMENTS)}]);"
        return self.text()

    def integer(self, depth: int) -> str:
        """An expression, of an unsigned type so that it may overflow."""
        if depth == 0:
            name, at = self.random.choice(list(_INTEGERS)), self.random.choice(("i", f"(i * 5 + 3) % {ELEMENTS}"))
            return self.random.choice(
                (f"(uint64_t)memory.{name}[{at}]", f"{self.random.getrandbits(17)}u", "(uint32_t)i")
            )
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        width = self.random.choice((8, 16, 32, 64))
        return self.random.choice(
            (
                f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} ^ {b})", f"({a} & {b})", f"({a} | ~{b})",
                f"({a} / (({b}) | 1))", f"({a} % (({b}) | 1))", f"((uint64_t){a} << ({b} & 63))",
                f"((uint{width}_t){a} >> ({b} & {width - 1}))", f"(uint64_t)((int{width}_t){a} >> ({b} & {width - 1}))",
                f"({a} < {b} ? {a} : {b})", f"(uint64_t)((int{width}_t){a} > (int{width}_t){b})",
                f"(uint64_t)((int32_t)(int16_t){a} / ((int32_t)(int16_t){b} | 1))",
                f"(uint64_t)__builtin_popcountll({a})", f"(uint64_t)__builtin_clzll({a} | 1)",
                f"__builtin_bswap64({a})", "(uint64_t)(int64_t)memory.f32[i]" if self.has_reals else f"({a})",
            )
        )  # fmt: skip

    def real(self, depth: int) -> str:
        if depth == 0:
            name = self.random.choice(("f32", "f64", "i16", "u8", "i32"))
            return f"({self.random.choice(('double', 'float'))})memory.{name}[i]"
        a, b = self.real(depth - 1), self.real(depth - 1)
        return self.random.choice(
            (
                f"({a} + {b})", f"({a} - {b})", f"({a} * {b} / 65536)", f"({a} / ({b} * {b} + 1.5))",
                f"({a} < {b} ? {a} : {b})", f"(float)({a})", f"__builtin_fabs({a})",
            )
        )  # fmt: skip

    def text(self) -> str:
        """Functions of ``<string.h>`` on texts that are ended by a zero; a comparison has a sign only."""
        choose, one, two = self.random.choice, self.random.randrange(8), self.random.randrange(4)
        other = (one + 1 + two) % 8
        a, b = f"memory.text[{one}]", f"memory.text[{other}]"
        return "  " + choose(
            (
                f'snprintf({a}, 60, "%d %s|%05u %lx", memory.i16[{two}], "text", memory.u16[1], memory.u64[2] >> 9);',
                f"memcpy({a}, {b}, 64);", f"memmove({a} + 3, {a}, 40); {a}[63] = 0;",
                f"memset({a} + 2, 'a' + {two}, 20);",
                f"memory.u32[{two}] = strlen({a}) + 7 * sign(strcmp({a}, {b})) + sign(memcmp({a}, {b}, 17));",
                f"{{ char* at = strchr({a}, ' '); memory.u64[{two}] = at ? at - {a} : 77; }}",
                f"{{ char* at = strstr({a}, \"xt\"); memory.u64[{two}] = at ? at - {a} : 78; }}",
                f"memory.i64[{two}] = strtol({a}, 0, 10) + sign(strncmp({a}, {b}, 5));",
                f"strncpy({a}, {b}, 30); {a}[30] = 0;",
                f"{{ char* p = malloc(100); strcpy(p, {b}); p = realloc(p, 300); strncpy({a}, p, 62); free(p); }}",
                f"{{ char* p = calloc(9, 9); memcpy(p, {b}, 60); strcat(p, \"+\"); strncpy({a}, p, 62); free(p); }}",
            )
        )  # fmt: skip


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runner")
    (folder / "runner.c").write_text(_RUNNER)
    subprocess.run(["gcc", "-O1", "-rdynamic", "runner.c", "-o", "runner", "-ldl"], check=True, cwd=folder)
    return folder / "runner"


def _emulated(path: Path) -> tuple[bytes, list[str], list[str]]:
    """The memory, what is registered, and why something is not known."""
    file = ElfFile.open(path)
    recovery = Recovery(file, file.facts(), None)
    with contextlib.closing(recovery):
        found = recovery.run()
        symbol = recovery.process.image.find("memory")
        assert symbol is not None
        memory = recovery.process.machine.read(BASE + symbol.value, symbol.size)
    registered = [str(each.schema) for each in found.operators if each.phase is Phase.STATIC_INIT]
    return memory, registered, [gap.reason for gap in found.gaps]


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_memory_and_the_same_registrations(tmp_path: Path, runner: Path, seed: int, build: str) -> None:
    has_reals, options = BUILDS[build]
    if build == "AVX2" and not HAS_AVX2:
        options = ("-O2",)  # the same program, as this processor can run it
    (tmp_path / "made.c").write_text(_Program(seed, has_reals=has_reals).source())
    flags = ("-fPIC", "-shared", "-w", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off", *options)
    subprocess.run(["gcc", *flags, "made.c", "-o", "made.so"], check=True, cwd=tmp_path)
    memory, registered, gaps = _emulated(tmp_path / "made.so")
    assert gaps == [] or (build == "AVX2" and all(gap.startswith("unknown instruction: v") for gap in gaps[:1]))
    if gaps:  # the rarer ones of AVX2 are not emulated, and that is said
        return
    done = subprocess.run([runner, tmp_path / "made.so", str(len(memory))], check=True, capture_output=True)
    assert [f"made::{schema}" for schema in done.stderr.decode().splitlines()] == registered
    assert any(memory)
    assert memory == done.stdout
