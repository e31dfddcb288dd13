"""Programs linked with libtorch, compiled here and run: what ``ld.so`` and torch print, and what is predicted."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

import abiscan
from abiscan.findings import Effect
from abiscan.inputs import interpreter
from abiscan.inputs.kinds import TargetKind
from abiscan.results.check import Result
from abiscan.results.matrix import format_legend, verdict_mark
from abiscan.results.verdict import Verdict

_TORCH: Final = interpreter.installed_torch()

pytestmark = pytest.mark.skipif(not shutil.which("g++") or _TORCH is None, reason="needs g++ and torch")
each_kind = pytest.mark.parametrize(
    "options",
    [
        pytest.param(("-pie", "-fPIE"), id="position-independent"),
        pytest.param(("-no-pie",), id="fixed", marks=pytest.mark.long),
    ],
)

# What the program is linked with, in place of torch's own: it has more.
_STUB: Final = """
namespace at {
int get_num_threads() { return 0; }
int no_such_function() { return 0; }
int no_such_other() { return 0; }
extern const int no_such_data;
const int no_such_data = 1;
}
"""
_PROGRAM: Final = """
#include <cstdio>
namespace at { int get_num_threads(); int no_such_function(); int no_such_other(); extern const int no_such_data; }
int main(int count, char **) {
    std::printf("started %d\\n", at::get_num_threads() > 0);
    std::fflush(stdout);
#ifdef DATA
    if (count > 1) std::printf("%d\\n", at::no_such_data);
#endif
#ifdef CALL
    if (count > 1) at::no_such_function();
#endif
#ifdef POINTER
    int (*volatile pointer)() = at::no_such_other;
    if (count > 1) pointer();
#endif
}
"""
_REGISTERING: Final = """
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
namespace c10 { enum class DispatchKey : uint16_t; }
namespace torch {
class Library {
public:
    enum Kind { DEF, IMPL, FRAGMENT };
    Library(Kind, std::string, std::optional<c10::DispatchKey>, const char *, uint32_t);
    char space[512];
};
}
static torch::Library library(torch::Library::DEF, NAMESPACE, std::nullopt, "program.cpp", 7);
int main() { std::puts("started"); }
"""


def compiled(folder: Path, *options: str, source: str = _PROGRAM, stub: str | None = _STUB, rpath: bool = True) -> Path:
    """A program that is linked with the library that ``stub`` makes, or with torch's own."""
    libraries = _lib()
    if stub is not None:
        libraries = folder / "stub"
        libraries.mkdir()
        library(libraries / "libtorch_cpu.so", stub)
    (folder / "program.cpp").write_text(source, encoding="utf-8")
    program = folder / "program"
    paths = [f"-Wl,-rpath,{_lib()}"] if rpath else []
    linked = [f"-L{libraries}", "-Wl,--no-as-needed", "-ltorch_cpu", "-Wl,--allow-shlib-undefined", *paths]
    gxx("-std=c++17", "-O1", folder / "program.cpp", "-o", program, *linked, *options)
    return program


def library(path: Path, source: str, *options: str) -> None:
    path.parent.mkdir(exist_ok=True)
    code = path.with_suffix(".cpp")
    code.write_text(source, encoding="utf-8")
    gxx("-shared", "-fPIC", code, "-o", path, f"-Wl,-soname,{path.name}", *options)


def gxx(*words: str | Path) -> None:
    subprocess.run(["g++", *words], check=True, capture_output=True, text=True)


def run(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
    command = [f"./{program.name}", *words]
    return subprocess.run(
        command, cwd=program.parent, env={**environment, "LC_ALL": "C"}, capture_output=True, text=True, check=False
    )


def checked(program: Path) -> Result:
    (result,) = abiscan.check(program).results
    assert result.kind is TargetKind.PROGRAM
    return result


def effects(result: Result) -> Sequence[tuple[str, Effect]]:
    return [(finding.rule, finding.effect) for finding in result.findings]


def _lib() -> Path:
    assert _TORCH is not None
    return _TORCH / "lib"


@each_kind
def test_a_program_that_lacks_nothing(options: tuple[str, ...], tmp_path: Path) -> None:
    program = compiled(tmp_path, *options)
    done = run(program)
    assert (done.stdout, done.stderr, done.returncode) == ("started 1\n", "", 0)
    result = checked(program)
    assert (result.verdict, result.call_error, effects(result)) == (Verdict.LOADS, None, [])


_STARTING: Final = """
#include <cstdio>
#include <cstdlib>
namespace at { int get_num_threads(); int no_such_function(); int no_such_other(); }
struct Start {
    Start() {
        int threads = at::get_num_threads();
#ifdef ALWAYS
        at::no_such_other();
#endif
#ifdef RARELY
        if (threads < 0) at::no_such_other();
#endif
    }
} start;
int main(int count, char **) {
    std::printf("started\\n");
    std::fflush(stdout);
#ifndef ALONE
    if (count > 1) at::no_such_function();
#endif
}
"""


@pytest.mark.parametrize(
    "options",
    [("-pie", "-fPIE"), ("-no-pie",), ("-no-pie", "-DALONE")],
    ids=["position-independent", "fixed", "nothing else is missing"],
)
def test_a_function_that_an_initialiser_calls_is_missing(options: tuple[str, ...], tmp_path: Path) -> None:
    program = compiled(tmp_path, "-DALWAYS", "-Wl,-z,lazy", *options, source=_STARTING)
    done = run(program)
    assert (done.stdout, done.returncode) == ("", 127)
    result = checked(program)
    assert (result.verdict, result.call_error) == (Verdict.FAILS, None)
    assert f"{result.predicted_error}\n" == done.stderr
    assert effects(result) == [("undefined-symbol", Effect.LOAD_FAILS)]


def test_a_function_that_an_initialiser_calls_on_a_condition_is_missing(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-DRARELY", "-Wl,-z,lazy", source=_STARTING)
    assert run(program).stdout == "started\n"
    done = run(program, "call")
    assert (done.stdout, done.returncode) == ("started\n", 127)
    result = checked(program)
    assert result.verdict is Verdict.LOADS
    assert result.call_error is not None


@each_kind
def test_a_function_that_is_missing_ends_it_when_it_is_called(options: tuple[str, ...], tmp_path: Path) -> None:
    program = compiled(tmp_path, "-DCALL", "-Wl,-z,lazy", *options)
    assert run(program).returncode == 0
    done = run(program, "call")
    assert (done.stdout, done.returncode) == ("started 1\n", 127)
    result = checked(program)
    assert result.verdict is Verdict.LOADS
    assert str(result.call_error) + "\n" == done.stderr
    assert effects(result) == [("undefined-symbol", Effect.CALL_FAILS)]
    assert abiscan.works(program) is False
    matrix = abiscan.matrix(program, ["2.13.0"])
    assert verdict_mark(matrix.rows[0].results[matrix.releases[0]]) == "◐"
    assert "◐ starts, until a call fails" in format_legend(matrix)


AT_START: Final = {
    "bound at once": ("-DCALL", "-Wl,-z,now"),
    "called without the linkage table": ("-DCALL", "-Wl,-z,lazy", "-fno-plt", "-fPIE", "-pie"),
    "its address is taken": ("-DPOINTER", "-Wl,-z,lazy", "-fPIE", "-pie"),
    "data, copied": ("-DDATA", "-Wl,-z,lazy", "-no-pie"),
    "data before a call": ("-DCALL", "-DDATA", "-Wl,-z,lazy", "-no-pie"),
    "data, not copied": ("-DDATA", "-Wl,-z,lazy", "-fPIC", "-pie"),
}


@pytest.mark.parametrize("case", AT_START)
def test_what_keeps_it_from_starting(case: str, tmp_path: Path) -> None:
    program = compiled(tmp_path, *AT_START[case])
    done = run(program)
    assert (done.stdout, done.returncode) == ("", 127)
    result = checked(program)
    assert result.verdict is Verdict.FAILS
    assert f"{result.predicted_error}\n" == done.stderr
    assert effects(result) == [("undefined-symbol", Effect.LOAD_FAILS)]


def test_a_library_that_no_search_path_leads_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(tmp_path, rpath=False)
    done = run(program)
    assert done.returncode == 127
    result = checked(program)
    assert f"{result.predicted_error}\n" == done.stderr
    assert effects(result) == [("missing-library", Effect.LOAD_FAILS)]
    monkeypatch.setenv("LD_LIBRARY_PATH", str(_lib()))
    assert checked(program).verdict is Verdict.LOADS


def test_a_library_beside_it_is_not_found_either(tmp_path: Path) -> None:
    library(tmp_path / "libbeside.so", 'extern "C" int beside() { return 1; }')
    program = compiled(tmp_path, str(tmp_path / "libbeside.so"))
    done = run(program)
    assert done.returncode == 127
    assert f"{checked(program).predicted_error}\n" == done.stderr


def test_a_version_that_is_missing(tmp_path: Path) -> None:
    source = 'extern "C" { int versioned = 1; }'
    for folder, version in (("new", "V_2"), ("old", "V_1")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "map").write_text(f"{version} {{ global: *; }};", encoding="utf-8")
        library(tmp_path / folder / "libversioned.so", source, f"-Wl,--version-script={tmp_path / folder / 'map'}")
    uses = 'extern "C" int versioned;\nint main() { return versioned - 1; }'
    paths = (f"-L{tmp_path / 'new'}", "-lversioned", f"-Wl,-rpath,{tmp_path / 'old'}")
    program = compiled(tmp_path, *paths, source=uses)
    done = run(program)
    assert done.returncode == 1
    # The path of the library that lacks it is the base name, as in every message.
    assert f"{checked(program).predicted_error}\n" == done.stderr.replace(f"{tmp_path / 'old'}/", "")


def test_data_that_grew_since_it_was_copied(tmp_path: Path) -> None:
    for folder, size in (("then", 2), ("now", 8)):
        library(tmp_path / folder / "libgrown.so", f'extern "C" {{ int grown[{size}] = {{1}}; }}')
    uses = 'extern "C" int grown[2];\nint main() { return grown[0] - 1; }'
    paths = (f"-L{tmp_path / 'then'}", "-lgrown", f"-Wl,-rpath,{tmp_path / 'now'}", "-no-pie")
    program = compiled(tmp_path, *paths, source=uses)
    done = run(program)
    assert done.returncode == 0
    result = checked(program)
    assert effects(result) == [("copied-data-grown", Effect.CORRUPTS)]
    assert done.stderr.removeprefix("./program: ").strip() in result.findings[0].message


@each_kind
@pytest.mark.parametrize("namespace", ["abiscan_program", "aten"])
def test_what_its_initialisers_register(namespace: str, options: tuple[str, ...], tmp_path: Path) -> None:
    program = compiled(tmp_path, f'-DNAMESPACE="{namespace}"', *options, source=_REGISTERING, stub=None)
    done = run(program)
    error = checked(program).predicted_error
    assert (error is None) == (done.returncode == 0) == (namespace == "abiscan_program"), done.stderr
    if error is not None:
        assert done.stderr.splitlines()[1] == f"  what():  {error}"
    (inventory,) = abiscan.operators(program).inventories
    (block,) = inventory.registrations.libraries
    assert (block.namespace, block.line) == (namespace, 7)
