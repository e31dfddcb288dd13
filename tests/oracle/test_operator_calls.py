"""What operators without arguments return in the emulator, against what they return when torch really calls them."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import abiscan
from abiscan.binary.elf import ElfFile
from abiscan.emulation import call_function, call_operator, recover
from abiscan.inputs import interpreter
from abiscan.registrations import NotRun
from abiscan.results.package import PackageVerdict
from tests import live_torch
from tests.fakes import wheel

pytestmark = [
    pytest.mark.skipif(interpreter.installed_torch() is None, reason="needs torch"),
    pytest.mark.skipif(not shutil.which("g++"), reason="needs g++"),
]

CLASSIC = """
#include <torch/library.h>
static int64_t of_the_start = 40;
struct Start { Start() { of_the_start += 2; } } start;
int64_t constant() { return 13000; }
int64_t negative() { return -1; }
int64_t from_start() { return of_the_start; }
bool yes() { return true; }
bool no() { return false; }
std::optional<int64_t> some() { return 12060; }
std::optional<int64_t> none() { return std::nullopt; }
std::string text() { return "a text that is too long for the buffer of a short one"; }
int64_t machine() { return getenv("HOME") != nullptr; }
TORCH_LIBRARY(called, m) {
  m.def("constant", &constant);
  m.def("negative() -> int", TORCH_FN(negative));
  m.def("from_start() -> int", &from_start);
  m.def("yes", &yes);
  m.def("no", &no);
  m.def("some", &some);
  m.def("none", &none);
  m.def("text", &text);
  m.def("of_lambda", []() -> int64_t { return 7; });
  m.def("machine", &machine);
  m.def("cpu_only() -> int");
}
TORCH_LIBRARY_IMPL(called, CPU, m) { m.impl("cpu_only", &constant); }
"""

STABLE = """
#include <stdint.h>
#include <stdlib.h>
extern int aoti_torch_library_init_def(const char*, const char*, unsigned, void**);
extern int aoti_torch_library_init_impl(const char*, const char*, const char*, unsigned, void**);
extern int aoti_torch_library_def(void*, const char*);
extern int torch_library_impl(void*, const char*, void (*)(uint64_t*, uint64_t, uint64_t), uint64_t);
extern uint64_t aoti_torch_abi_version(void);
static void number(uint64_t* stack, uint64_t n, uint64_t m) { stack[0] = 13000; }
static void yes(uint64_t* stack, uint64_t n, uint64_t m) { stack[0] = 1; }
static void none(uint64_t* stack, uint64_t n, uint64_t m) { stack[0] = 0; }
static void of_torch(uint64_t* stack, uint64_t n, uint64_t m) { stack[0] = aoti_torch_abi_version() >> 48; }
static void some(uint64_t* stack, uint64_t n, uint64_t m) {
  uint64_t* value = malloc(8);
  *value = -5;
  stack[0] = (uint64_t)value;
}
__attribute__((constructor)) static void begin(void) {
  void *library, *kernels;
  aoti_torch_library_init_def("called", "called.c", 1, &library);
  aoti_torch_library_init_impl("called", "CompositeExplicitAutograd", "called.c", 2, &kernels);
  uint64_t version = (uint64_t)2 << 56 | (uint64_t)10 << 48;
#define OPERATOR(name, type) \\
  aoti_torch_library_def(library, #name "() -> " type); torch_library_impl(kernels, #name, name, version);
  OPERATOR(number, "int")
  OPERATOR(yes, "bool")
  OPERATOR(none, "int?")
  OPERATOR(some, "int?")
  OPERATOR(of_torch, "int")
}
"""
NAMES = {
    "classic": ["constant", "negative", "from_start", "yes", "no", "some", "none", "text", "of_lambda"],
    "stable": ["number", "yes", "none", "some", "of_torch"],
}
CHILD = """
import json, sys, torch
torch.ops.load_library(sys.argv[1])
print(json.dumps({name: getattr(torch.ops.called, name)() for name in sys.argv[2:]}))
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds an extension of either kind as users do. The headers of the classic one take a compiler ten seconds."""
    folder, package = tmp_path_factory.mktemp("operators"), interpreter.installed_torch()
    assert package is not None
    compilers = {
        "classic": ["g++", "-std=c++20", "-fno-plt", f"-I{package}/include", "-x", "c++"],
        "stable": ["gcc", "-x", "c"],
    }
    linked = [f"-L{package}/lib", "-ltorch_cpu", "-lc10"]

    @functools.cache
    def build(kind: str) -> Path:
        path, source = folder / f"{kind}.so", {"classic": CLASSIC, "stable": STABLE}[kind]
        command = [*compilers[kind], "-O1", "-shared", "-fPIC", "-o", str(path), "-", *linked]
        subprocess.run(command, input=source.encode(), check=True)
        return path

    return build


def abi_version() -> int:
    """What ``aoti_torch_abi_version()`` returns."""
    text = live_torch.version()
    assert text is not None
    major, minor, micro = map(int, text.split("."))
    return major << 56 | minor << 48 | micro << 40


def really(path: Path, names: list[str]) -> dict[str, Any]:
    done = live_torch.run(CHILD, path, *names, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def emulated(path: Path, name: str, abi_version: int | None) -> object:
    file = ElfFile.open(path)
    facts = file.facts()
    schemas = {one.name: one.schema for one in recover(file, facts).operators}
    return call_operator(file, facts, f"called::{name}", schemas[f"called::{name}"] or "", abi_version=abi_version)


@pytest.mark.parametrize("kind", [pytest.param("classic", marks=pytest.mark.long), "stable"])
def test_results_are_those_of_torch(kind: str, build: Callable[[str], Path]) -> None:
    path = build(kind)
    real = really(path, NAMES[kind])
    found = {name: emulated(path, name, abi_version()) for name in NAMES[kind]}
    assert [(name, type(value), value) for name, value in found.items()] == [
        (name, type(value), value) for name, value in real.items()
    ]


@pytest.mark.parametrize(
    ("kind", "name", "called"),
    [
        pytest.param("classic", "machine", "getenv", marks=pytest.mark.long),
        ("stable", "of_torch", "aoti_torch_abi_version"),
    ],
)
def test_what_the_machine_decides_has_no_result(
    kind: str, name: str, called: str, build: Callable[[str], Path]
) -> None:
    assert emulated(build(kind), name, None) == NotRun(reason=f"its kernel calls {called}")


@pytest.mark.parametrize(
    ("kind", "operator"), [pytest.param("classic", "constant", marks=pytest.mark.long), ("stable", "number")]
)
@pytest.mark.parametrize("wanted", [13000, 12060])
def test_a_package_that_checks_what_it_was_built_with(
    wanted: int, kind: str, operator: str, build: Callable[[str], Path], tmp_path: Path
) -> None:
    code = (
        "import os, torch\n"
        "torch.ops.load_library(os.path.join(os.path.dirname(__file__), 'lib.so'))\n"
        f"version = torch.ops.called.{operator}()\n"
        f"if version != {wanted}:\n"
        "    raise RuntimeError(f'built with {str(version)[:-3]}, not {torch.version.cuda}')\n"
    )
    folder = tmp_path / "site" / "checks"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(code)
    shutil.copy(build(kind), folder / "lib.so")
    path = wheel(
        tmp_path / "checks-1.0-py3-none-any.whl",
        {
            **{f"checks/{file.name}": file.read_bytes() for file in folder.iterdir() if file.is_file()},
            "checks-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: checks\nVersion: 1.0\n",
            "checks-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n",
        },
    )
    done = live_torch.run("import checks", cwd=folder.parent)
    (found,) = abiscan.check(path, interpreter.installed_torch()).packages
    if done.returncode == 0:
        assert found.verdict is PackageVerdict.WORKS
    else:
        assert found.error is not None
        assert f"{found.error.exception}: {found.error.message}" == done.stderr.splitlines()[-1]
    assert (done.returncode == 0) == (wanted == 13000)


BOUND = """
#include <pybind11/pybind11.h>
#include <cstdlib>
bool has_kernels() { return true; }
namespace ops { bool has_cuda() { return false; } }
bool asks() { return std::getenv("HOME") != nullptr; }
static bool hidden() { return true; }
PYBIND11_MODULE(bound, module) {
    module.def("has_kernels", &has_kernels);
    module.def("has_cuda", &ops::has_cuda, "Whether it was built for CUDA.");
    module.def("asks", &asks);
    module.def("hidden", &hidden);
}
"""
ASK_BOUND = """
import json, sys
sys.path.insert(0, sys.argv[1])
import bound
print(json.dumps({name: getattr(bound, name)() for name in sys.argv[2:]}))
"""


@pytest.mark.long
def test_functions_of_a_module_return_what_they_really_do(tmp_path: Path) -> None:
    package = interpreter.installed_torch()
    folders = [f"-I{package}/include", f"-I{sysconfig.get_path('include')}"]
    command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", *folders, "-x", "c++", "-", "-o", "bound.so"]
    subprocess.run(command, input=BOUND.encode(), check=True, cwd=tmp_path)
    known = ["has_kernels", "has_cuda"]
    real = json.loads(live_torch.run(ASK_BOUND, tmp_path, *known, check=True).stdout)
    file = ElfFile.open(tmp_path / "bound.so")
    assert {name: call_function(file, file.facts(), name) for name in known} == real
    assert real == {"has_kernels": True, "has_cuda": False}
    for name in ("asks", "hidden", "absent"):  # the machine decides, or nobody knows which function it is
        assert isinstance(call_function(file, file.facts(), name), NotRun)
