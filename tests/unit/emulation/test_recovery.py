"""Which functions are run, and how: what is registered by which part of an object, and what is a gap."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation import recover
from abiscan.emulation import recovery as recovery_module
from abiscan.emulation.emulator import ProcessTermination
from abiscan.registrations import Phase, Registrations

SAMPLES = Path(__file__).parents[3] / "sample_binaries" / "registrations"
HEAD = """
extern int aoti_torch_library_init_def(const char*, const char*, unsigned, void**);
extern int aoti_torch_library_def(void*, const char*);
extern long nobody_knows(void);
static volatile long kept;
static char* volatile nowhere;
#define INITIALISER __attribute__((constructor)) void
#define INITIALISER_BEFORE __attribute__((constructor(101))) void
__attribute__((always_inline)) static inline void* opened(const char* name) {
  void* library;
  aoti_torch_library_init_def(name, "x.c", 1, &library);
  return library;
}
"""
BRANCH = "if (nobody_knows()) kept = 1; else kept = 2;"
UNREACHED = 'void not_called(void) { aoti_torch_library_def(opened("late"), "x() -> ()"); }'
STOP = "*nowhere = 1;"
FIRST = 'aoti_torch_library_def(opened("one"), "first() -> ()");'

pytestmark = pytest.mark.skipif(
    not shutil.which("gcc") or platform.machine() != "x86_64", reason="needs gcc for x86-64"
)


def _recovered(folder: Path, source: str, *flags: str) -> Registrations:
    (folder / "parts.c").write_text(HEAD + source)
    command = [
        "gcc",
        *(flags or ("-O1",)),
        "-fPIC",
        "-shared",
        "-w",
        "-fcf-protection=none",
        "parts.c",
        "-o",
        "parts.so",
    ]
    subprocess.run(command, check=True, cwd=folder)
    file = ElfFile.open(folder / "parts.so")
    return recover(file, file.facts())


def _operators(found: Registrations) -> list[tuple[str, Phase]]:
    return [(operator.name, operator.phase) for operator in found.operators]


def test_a_call_that_leaves_its_function_is_reached(tmp_path: Path) -> None:
    source = 'INITIALISER begin(void) { void* one = opened("one"); aoti_torch_library_def(one, "f() -> ()"); }'
    found = _recovered(tmp_path, source, "-O2")
    assert _operators(found) == [("one::f", Phase.STATIC_INIT)]
    assert found.gaps == ()


# Functions of which the call is the first or the last instruction: it returns to where the next one begins.
AT_AN_EDGE = {
    "jumps first": "int registers(void* one, const char* schema) { return aoti_torch_library_def(one, schema); }",
    "calls last": (
        "void registers(void* library, const char* schema) {"
        " kept = 1; aoti_torch_library_def(library, schema); __builtin_unreachable(); }"
    ),
}


@pytest.mark.parametrize("function", AT_AN_EDGE.values(), ids=AT_AN_EDGE)
def test_a_call_at_the_edge_of_its_function_is_lost_with_it(tmp_path: Path, function: str) -> None:
    source = f"""
      void before(void) {{ kept = 1; }}
      {function}
      void behind(void) {{ kept = 2; }}
      INITIALISER begin(void) {{ void* one = opened("one"); {STOP} registers(one, "f() -> ()"); }}
    """
    found = _recovered(
        tmp_path, source, "-O2", "-fno-align-functions", "-fno-inline-functions", "-fno-toplevel-reorder"
    )
    assert [gap.lost for gap in found.gaps if gap.lost] == [(("operator", 1),)]


def test_functions_that_open_a_library_are_called_first(tmp_path: Path) -> None:
    source = """
      __attribute__((noinline)) void helps(void* library) { aoti_torch_library_def(library, "f() -> ()"); kept = 1; }
      void opens(void) { helps(opened("one")); kept = 2; }
    """
    found = _recovered(tmp_path, source, "-O1", "-fno-toplevel-reorder")
    assert _operators(found) == [("one::f", Phase.ON_CALL)]
    assert found.gaps == ()


@pytest.mark.parametrize(
    ("body", "is_reached"),
    [
        ('void* one = opened("one"); wait(); aoti_torch_library_def(one, "f() -> ()");', True),
        ('wait(); aoti_torch_library_def(library, "f() -> ()");', False),
    ],
    ids=["opens a library", "is given one"],
)
def test_how_long_a_function_runs_that_nobody_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, is_reached: bool
) -> None:
    monkeypatch.setattr(recovery_module, "_INSTRUCTIONS_ON_CALL", 1_000)
    wait = "__attribute__((always_inline)) static inline void wait(void) { for (int i = 0; i < 1000; i++) kept++; }"
    found = _recovered(tmp_path, f"{wait} void not_called(void* library) {{ {body} kept = 1; }}")
    reasons = [gap.reason for gap in found.gaps]
    assert reasons == ([] if is_reached else ["a call to aoti_torch_library_def was not reached"])


@pytest.mark.parametrize("condition", ["number == 0", "number > 100"])
def test_arguments_that_are_zero_and_that_are_addresses(tmp_path: Path, condition: str) -> None:
    found = _recovered(tmp_path, f"void not_called(long number) {{ if ({condition}) {{ {FIRST} }} kept = 1; }}")
    assert _operators(found) == [("one::first", Phase.ON_CALL)]
    assert found.gaps == ()


def test_a_module_without_a_definition(tmp_path: Path) -> None:
    found = _recovered(tmp_path, f"void* PyInit_parts(void) {{ return 0; }} {UNREACHED}")
    assert _operators(found) == [("late::x", Phase.ON_CALL)]
    assert found.gaps == ()


def test_names_that_are_given_are_one_gap(tmp_path: Path) -> None:
    source = """
      extern int nobody_registers(void) __asm__("_ZN5torch7Library13new_in_futureEv");
      int unknown(void) { return nobody_registers(); }
      void one(const char* schema) { aoti_torch_library_def(opened("one"), schema); kept = 1; }
      void two(const char* schema) { aoti_torch_library_def(opened("two"), schema); kept = 2; }
      void stops(void) { *nowhere = 1; }
      INITIALISER begin(void) { stops(); }
    """
    found = _recovered(tmp_path, source)
    given = "a function that the code calls later registers an operator under a name that it is given"
    assert [gap.reason for gap in found.gaps].count(given) == 1
    assert len(found.gaps) > 1
    assert found.operators == ()


# Initialisers, and whether a gap says that what is registered may depend on what an unknown function returns.
ASKING = {
    "it alone leads to a registration": (f"INITIALISER begin(void) {{ if (nobody_knows()) {{ {FIRST} }} }}", True),
    "what it leads to registers nothing": (f"INITIALISER begin(void) {{ {BRANCH} }} {UNREACHED}", False),
    "all is executed": (f"INITIALISER begin(void) {{ {FIRST} }} INITIALISER asks(void) {{ {BRANCH} }}", False),
    "it registers, and a call elsewhere is not reached": (
        f"INITIALISER begin(void) {{ {FIRST} {BRANCH} }} {UNREACHED}",
        True,
    ),
    "it stops": (f"INITIALISER begin(void) {{ {FIRST} {BRANCH} {STOP} }}", False),
    "another one before it stops": (
        f"INITIALISER_BEFORE earlier(void) {{ {STOP} }} INITIALISER begin(void) {{ {FIRST} {BRANCH} }}",
        True,
    ),
}


@pytest.mark.parametrize(("source", "matters"), ASKING.values(), ids=ASKING)
def test_whose_answers_matter(tmp_path: Path, source: str, matters: bool) -> None:
    gaps = [gap for gap in _recovered(tmp_path, source).gaps if "cannot be predicted" in gap.reason]
    assert [gap.called for gap in gaps] == (["nobody_knows"] if matters else [])


@pytest.mark.parametrize("name", ["library", "library_aarch64", "library_cow"])
def test_where_the_last_member_of_a_function_begins(name: str) -> None:
    """In ``torch::CppFunction`` as of 2.9 (torch/library.h): behind a key of one word, a ``KernelFunction`` of five, an
    optional ``CppSignature`` of two and a pointer to the schema.
    """
    file = ElfFile.open(SAMPLES / f"{name}.so")
    assert recover(file, file.facts()).debug_at == 8 * (1 + 5 + 2 + 1)


def test_code_behind_a_failed_call_may_call_another_function_first() -> None:
    state = SimpleNamespace(stable_returns={"define": 0x10}, stable_calls={1: "define", 2: "implement"})

    def attempt(address: int, _arguments: object, _instructions: int) -> ProcessTermination:
        state.stable_returns["implement"] = 0x20
        return ProcessTermination("abort", address, f"from {address:#x}")

    machine = SimpleNamespace(answer_call=lambda _result: None)
    recovery = SimpleNamespace(process=SimpleNamespace(machine=machine), state=state, attempt=attempt)
    assert recovery_module.Recovery.failures(recovery) == {1: "from 0x10"}  # type: ignore[arg-type]
