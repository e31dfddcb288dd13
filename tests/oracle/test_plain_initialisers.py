"""Libraries that register nothing, whose code ends the process as they are loaded: predicted, and really loaded."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import abiscan
from abiscan.binary.elf import ElfFile
from abiscan.results.verdict import Verdict

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and platform.machine() == "x86_64" and sys.platform == "linux"),
    reason="needs gcc for x86-64",
)

_CONSTRUCTOR = "__attribute__((constructor)) static void begin(void) { %s }"
_CHOICE = """
static int one(void) { return 1; }
static void *choose(void) { %s return one; }
int chosen(void) __attribute__((ifunc("choose")));
int call(void) { return chosen(); }
"""
ENDING = {
    "abort": "#include <stdlib.h>\n" + _CONSTRUCTOR % "abort();",
    "_exit": "#include <unistd.h>\n" + _CONSTRUCTOR % "_exit(3);",
    "exit without an error": "#include <stdlib.h>\n" + _CONSTRUCTOR % "exit(0);",
    "assertion": "#include <assert.h>\nvolatile int zero;\n" + _CONSTRUCTOR % "assert(zero == 1);",
    "raise": "#include <signal.h>\n" + _CONSTRUCTOR % "raise(SIGKILL);",
    "ud2": _CONSTRUCTOR % "__builtin_trap();",
    "int3": _CONSTRUCTOR % '__asm__("int3");',
    "call of nothing": "void (*volatile nothing)(void);\n" + _CONSTRUCTOR % "nothing();",
    "write to a constant": "const int three = 3;\n" + _CONSTRUCTOR % "*(volatile int *)&three = 1;",
    "resolver, ud2": _CHOICE % "__builtin_trap();",
    "resolver, null pointer": _CHOICE % "*(volatile int *)0 = 1;",
    "hidden resolver": '__attribute__((visibility("hidden"))) int chosen(void);' + _CHOICE % "__builtin_trap();",
}
LOADING = {
    "nothing of its own": "int answer(void) { return 42; }",
    "constructor": "int seen;\n" + _CONSTRUCTOR % "seen = 7;",
    "what the environment decides": "#include <stdlib.h>\n" + _CONSTRUCTOR % 'if (getenv("NO_SUCH_VARIABLE")) abort();',
    "ignored signal": "#include <signal.h>\n" + _CONSTRUCTOR % "raise(SIGCHLD);",
    "resolver": _CHOICE % "__builtin_cpu_init();",
}
THROWING = {
    "exception": '#include <stdexcept>\nstruct A { A() { throw std::runtime_error("no such mode"); } } a;',
    "terminate": "#include <exception>\nstruct A { A() { std::terminate(); } } a;",
}


def build(folder: Path, source: str, *options: str, language: str = "c") -> Path:
    library = folder / "x.so"
    command = ["gcc", "-O1", "-w", "-fPIC", "-shared", "-x", language, "-", "-o", str(library), *options]
    subprocess.run(command, input=source, text=True, check=True)
    return library


def load(library: Path) -> int | None:
    """Return the status of a process that loads a library, as ``subprocess`` says it; None if it goes on."""
    code = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW); os._exit(77)"
    status = subprocess.run([sys.executable, "-c", code, str(library)], capture_output=True, check=False).returncode
    return None if status == 77 else status


def predict(library: Path) -> tuple[Verdict, int | None]:
    (result,) = abiscan.check(library, torch="2.13.0").results
    error = result.predicted_error
    return result.verdict, error.signal if error else None


@pytest.mark.parametrize("case", ENDING)
def test_an_end_is_predicted(case: str, tmp_path: Path) -> None:
    library = build(tmp_path, ENDING[case])
    status, (verdict, number) = load(library), predict(library)
    assert status is not None
    assert verdict is Verdict.FAILS
    # Of a function that ends the process by itself, the words are known, and no signal.
    assert number is None or -number == status
    assert number is not None or status in (-signal.SIGABRT, 0, 3)


@pytest.mark.parametrize("case", LOADING)
def test_what_loads_is_predicted_to_load(case: str, tmp_path: Path) -> None:
    library = build(tmp_path, LOADING[case])
    assert (load(library), predict(library)) == (None, (Verdict.LOADS, None))


@pytest.mark.parametrize("case", THROWING)
def test_exceptions_end_it(case: str, tmp_path: Path) -> None:
    library = build(tmp_path, THROWING[case], "-lstdc++", language="c++")
    assert (load(library), predict(library)[0]) == (-signal.SIGABRT, Verdict.FAILS)


@pytest.mark.parametrize("options", [["-nostartfiles"], ["-nostdlib"], ["-Wl,-init=begin"]])
def test_a_library_without_the_start_files_has_initialisers_of_its_own(options: list[str], tmp_path: Path) -> None:
    own = "" if "init" in options[0] else "__attribute__((constructor)) "
    library = build(tmp_path, f"{own}void begin(void) {{ __builtin_trap(); }}", *options)
    assert (load(library), predict(library)) == (-signal.SIGILL, (Verdict.FAILS, signal.SIGILL))


def test_a_library_that_it_brings_along_ends_it_as_well(tmp_path: Path) -> None:
    build(tmp_path, ENDING["abort"], "-Wl,-soname,libdep.so").rename(tmp_path / "libdep.so")
    options = ["-Wl,--no-as-needed", f"-L{tmp_path}", "-ldep", "-Wl,-rpath,$ORIGIN"]
    library = build(tmp_path, LOADING["nothing of its own"], *options)
    assert (load(library), predict(library)[0]) == (-signal.SIGABRT, Verdict.FAILS)


def test_initialisers_that_never_end_are_a_gap(tmp_path: Path) -> None:
    library = build(tmp_path, _CONSTRUCTOR % 'for (;;) __asm__ volatile ("");')
    (result,) = abiscan.check(library, torch="2.13.0").results
    assert (result.verdict, [gap.reason for gap in result.gaps]) == (
        Verdict.UNKNOWN,
        ["instruction budget exhausted"],
    )


def test_of_what_only_has_start_files_nothing_is_run(tmp_path: Path) -> None:
    library = build(tmp_path, LOADING["nothing of its own"])
    code = "import sys, abiscan; abiscan.check(sys.argv[1], torch='2.13.0'); print('abiscan.emulation' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(library)], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert done.stdout == "False\n"


def test_nor_of_what_includes_iostream(tmp_path: Path) -> None:
    source = "#include <iostream>\nint answer() { std::cout << 1; return 42; }"
    library = build(tmp_path, source, "-O2", "-lstdc++", language="c++")
    assert not ElfFile.from_bytes(library.read_bytes(), "x.so").facts().initialises
