"""Builds ``libraries.zip``, the libraries whose loads on older processors are recorded in ``loads.jsonl``: with gcc.

python tests/data/cpu/build.py

Each has initialisers, or a function ``PyInit_NAME``, that use a feature of the processor; with a question before it, or
without. ``tools/record_cpu_loads.py`` records what happens. ``operators.so`` in ``operators.zip`` is ``operators.cpp``,
compiled with ``g++ -std=c++20 -O1 -fPIC -shared -s -fopenmp`` against torch 2.13.0, whose calls in ``calls.txt``
``tools/record_cpu_calls.py`` records in ``calls.jsonl``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
SUM = """
#include <stdlib.h>
volatile float numbers[64]; volatile long result;
static void work(void) {{ for (int i = 0; i < 64; i++) numbers[i] = numbers[i] * 3 + i; {more} }}
{entry}
"""
STATIC = "__attribute__((constructor)) static void start(void) { work(); }"
ON_CALL = "void called(void) { work(); }"
MODULE = "void *PyInit_{name}(void) {{ work(); return 0; }}"
# What each is compiled with, what its work has besides, and where that runs.
SAMPLES = {
    "plain": ("", "", STATIC),
    "sse3": ("-msse3", "asm volatile ('lddqu (%0), %%xmm0' :: 'r' (numbers) : 'xmm0', 'memory');", STATIC),
    "ssse3": ("-mssse3", "asm volatile ('pshufb %%xmm0, %%xmm0' ::: 'xmm0');", STATIC),
    "sse41": ("-msse4.1", "asm volatile ('roundss $1, %%xmm0, %%xmm0' ::: 'xmm0');", STATIC),
    "sse42": ("-msse4.2", "asm volatile ('crc32b %%al, %%eax' ::: 'eax');", STATIC),
    "popcnt": ("-mpopcnt", "result = __builtin_popcountl((long) numbers);", STATIC),
    "avx": ("-O3 -mavx", "", STATIC),
    "avx2": ("-O3 -mavx2", "asm volatile ('vpaddd %%ymm0, %%ymm0, %%ymm0' ::: 'xmm0');", STATIC),
    "fma": ("-O3 -mfma", "", STATIC),
    "f16c": ("-mf16c", "asm volatile ('vcvtph2ps %%xmm0, %%xmm0' ::: 'xmm0');", STATIC),
    "bmi1": ("-mbmi", "asm volatile ('andn %%rax, %%rax, %%rax' ::: 'rax');", STATIC),
    "bmi2": ("-mbmi2", "asm volatile ('shlx %%rax, %%rax, %%rax' ::: 'rax');", STATIC),
    "lzcnt": ("-mlzcnt", "result = __builtin_clzl((long) numbers);", STATIC),
    "movbe": ("-mmovbe", "asm volatile ('movbe (%0), %%eax' :: 'r' (numbers) : 'eax');", STATIC),
    "aes": ("-maes", "asm volatile ('aesenc %%xmm0, %%xmm0' ::: 'xmm0');", STATIC),
    "pclmul": ("-mpclmul", "asm volatile ('pclmulqdq $0, %%xmm0, %%xmm0' ::: 'xmm0');", STATIC),
    "adx": ("-madx", "asm volatile ('adcx %%rax, %%rax' ::: 'rax');", STATIC),
    "avx512": ("", "asm volatile ('vpaddd %%zmm0, %%zmm0, %%zmm0' ::: 'xmm0');", STATIC),
    "avx2_on_call": ("-O3 -mavx2", "", ON_CALL),
    "avx2_in_module": ("-O3 -mavx2", "asm volatile ('vpaddd %%ymm0, %%ymm0, %%ymm0' ::: 'xmm0');", MODULE),
    "avx2_guarded": (
        "",
        "if (__builtin_cpu_supports('avx2')) asm volatile ('vpaddd %%ymm0, %%ymm0, %%ymm0' ::: 'xmm0');",
        STATIC,
    ),
    "avx512_guarded": (
        "",
        "if (__builtin_cpu_supports('avx512f')) asm volatile ('vpaddd %%zmm0, %%zmm0, %%zmm0' ::: 'xmm0');",
        STATIC,
    ),
    "avx_after_popcnt": ("-mpopcnt -O3 -mavx", "result = __builtin_popcountl((long) numbers);", STATIC),
}
NEEDING = {"needs_avx2": "avx2", "needs_plain": "plain"}


def build(folder: Path, name: str, text: str, *options: str) -> None:
    """Compile one library."""
    command = ["gcc", "-x", "c", "-", "-shared", "-fPIC", "-O2", "-s", "-Wl,-rpath,$ORIGIN", f"-L{folder}", *options]
    subprocess.run([*command, "-o", folder / f"{name}.so"], input=text, text=True, check=True)


def main() -> int:
    """Build all of them."""
    with (
        tempfile.TemporaryDirectory() as folder,
        zipfile.ZipFile(HERE / "libraries.zip", "w", zipfile.ZIP_DEFLATED) as to,
    ):
        place = Path(folder)
        for name, (options, more, entry) in SAMPLES.items():
            text = SUM.format(more=more.replace("'", '"'), entry=entry.format(name=name) if entry is MODULE else entry)
            build(place, name, text, *options.split())
        for name, library in NEEDING.items():
            build(place, name, "int used;", "-Wl,--no-as-needed", f"-l:{library}.so")
        for file in sorted(place.iterdir()):
            to.write(file, file.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
