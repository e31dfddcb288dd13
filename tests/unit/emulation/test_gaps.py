"""What a gap says of a function that did not get to its end."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import click.testing
import pytest

from abiscan.binary.elf import ElfFile
from abiscan.cli import main
from abiscan.emulation import recover
from abiscan.emulation import recovery as recovery_module
from abiscan.emulation.emulator import Stop
from abiscan.emulation.recovery import Recovery
from abiscan.gaps import Gap
from abiscan.registrations import Phase
from tests.schemas import validate

SAMPLES = Path(__file__).parents[3] / "sample_binaries" / "registrations"
SOURCE = """
#include <stdlib.h>
#include <string.h>
extern int aoti_torch_library_init_def(const char*, const char*, unsigned, void**);
extern int aoti_torch_library_def(void*, const char*);
extern int torch_library_impl(void*, const char*, const char*, void*, unsigned long);
extern int* of_another_library(void);
extern int torch_library_set_python_module(void*, const char*, const char*);
typedef void (*Stops)(void);

__attribute__((noinline)) static void helper(void* library) {
  aoti_torch_library_def(library, "two() -> ()");
  torch_library_impl(library, "one", "CPU", 0, 0);
}
__attribute__((noinline)) static void nobody_calls_it(void* library) { aoti_torch_library_def(library, "x() -> ()"); }
Stops volatile null;
volatile int is_true = 1;

void stops(void) { STOP; }
void (*volatile stop)(void) = stops;
__attribute__((constructor)) void begin(void) {
  void* library;
  aoti_torch_library_init_def("one", "one.c", 1, &library);
  aoti_torch_library_def(library, "one() -> ()");
  stop();
  aoti_torch_library_def(library, "three() -> ()");
  helper(library);
  if (!is_true) nobody_calls_it(library);
}
"""
needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
# What stops, and the import that is to blame.
STOPS = {
    "in a double": ("abort()", "abort"),
    "in code that stands for an import": ("*(char* volatile*)0", None),
    "after an import that nobody knows": ("*of_another_library() = 1", "of_another_library"),
    "on a way into nowhere": ("null()", None),
    "in code of its own for an import": ("memset((char*)null, 1, is_true)", "memset"),
}


# A second initialiser, which gets to what the first one leads to as well.
AFTERWARDS = """
__attribute__((constructor)) void afterwards(void) {
  void* library;
  aoti_torch_library_init_def("two", "two.c", 1, &library);
  helper(library);
}
"""


def _build(folder: Path, stop: str, more: str = "") -> Path:
    (folder / "stops.c").write_text(SOURCE.replace("STOP", stop) + more)
    command = ["gcc", "-O1", "-fPIC", "-shared", "-w", "-fno-optimize-sibling-calls", "stops.c", "-o", "stops.so"]
    subprocess.run(command, check=True, cwd=folder)
    return folder / "stops.so"


def _symbols(path: Path) -> dict[str, int]:
    lines = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout.splitlines()
    return {fields[-1]: int(fields[0], 16) for line in lines if len(fields := line.split()) == 3}


def _first(path: Path) -> Gap:
    file = ElfFile.open(path)
    return recover(file, file.facts()).gaps[0]


@needs_gcc
@pytest.mark.parametrize(("stop", "called"), STOPS.values(), ids=STOPS)
def test_where_in_what_and_what_is_lost(tmp_path: Path, stop: str, called: str | None) -> None:
    path = _build(tmp_path, stop)
    symbols, gap = _symbols(path), _first(path)
    assert gap.called == called
    assert gap.symbol == "stops"
    assert gap.address is not None
    assert 0 < gap.address - symbols["stops"] < 64 or gap.address == symbols["stops"]
    assert gap.started == symbols["begin"]
    # The definitions of three, two and (for all that the code says) x, and a kernel of one.
    assert dict(gap.lost) == {"operator": 3, "kernel": 1}


@needs_gcc
def test_an_initialiser_that_stopped_is_not_run_again(tmp_path: Path) -> None:
    """Functions whose calls nothing got to are called afterwards, but that is none of them."""
    file = ElfFile.open(_build(tmp_path, "abort()"))
    found = recover(file, file.facts())
    assert [(operator.name, operator.phase) for operator in found.operators if operator.name == "one::one"] == [
        ("one::one", Phase.STATIC_INIT)
    ]


@needs_gcc
def test_what_another_initialiser_gets_to_is_not_lost(tmp_path: Path) -> None:
    gap = _first(_build(tmp_path, "abort()", AFTERWARDS))
    # The definitions of three and (for all that the code says) x.
    assert dict(gap.lost) == {"operator": 2}


@needs_gcc
def test_the_program_counter_is_behind_the_call_of_the_import(tmp_path: Path) -> None:
    path = _build(tmp_path, "abort()")
    gap = _first(path)
    assert gap.address is not None
    code = bytes(ElfFile.open(path).bytes_at(gap.address - 5, 5))
    assert code[0] == 0xE8  # call, which is five bytes long


@needs_gcc
def test_in_text_and_in_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = _build(tmp_path, "abort()")
    start = _symbols(path)["begin"]
    runner = click.testing.CliRunner()
    lines = runner.invoke(main, ["ops", str(path), "-v"]).output.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("gap[emulation]: the code calls abort at"))
    assert lines[at].endswith("near stops")
    assert lines[at + 1 : at + 4] == [
        "    called: abort",
        f"    started at: {start:#x}",
        "    lost: 3 operators, 1 kernel",
    ]
    assert "lost" not in runner.invoke(main, ["ops", str(path)]).output
    document = json.loads(runner.invoke(main, ["ops", str(path), "--format", "json"]).output)
    validate(document, "ops")
    gap = next(gap for gap in document["gaps"] if gap["reason"] == "the code calls abort")
    assert (gap["symbol"], gap["called"], gap["started"]) == ("stops", "abort", f"{start:#x}")
    assert gap["lost"] == {"operator": 3, "kernel": 1}


def test_a_class_of_another_length_than_was_thought() -> None:
    """Of a real extension for 1.12, read without what says how long its arguments are: ``torch`` throws."""
    gap = _first(SAMPLES / "classes_1_12_1.so")
    assert gap.called is not None
    assert gap.called.startswith("_ZN3c106detail14torchCheckFail")
    # sample_binaries/registrations/classes.cpp: the second class, and the library with two operators.
    assert {what: count for what, count in gap.lost if what != "method"} == {"class": 1, "library": 1, "operator": 2}


@pytest.mark.parametrize(
    "name",
    ["library", "library_unoptimised", "library_cow", "library_aarch64", "classes_aarch64", "operators", "stable"],
)
def test_what_an_initialiser_registers_is_in_the_functions_that_it_leads_to(name: str) -> None:
    """What a run got to must be in what the code alone says can be got to."""
    file = ElfFile.open(SAMPLES / f"{name}.so")
    recovery = Recovery(file, file.facts(), None)
    recovery.run()
    executed = [site for site in recovery.sites if recovery.is_executed(site)]
    image = recovery.process.image
    starts = (address - image.base for address in image.initialisers())
    reached = {function for start in starts for function in recovery.functions_reached(start)}
    assert executed
    assert {recovery.functions.containing(site.address - (not site.is_jump)) for site in executed} <= reached
    recovery.process.close()


UNCALLED = """
extern int aoti_torch_library_init_def(const char*, const char*, unsigned, void**);
extern int aoti_torch_library_def(void*, const char*);
void first(void) { void* l; aoti_torch_library_init_def("one", "a.c", 1, &l); aoti_torch_library_def(l, "f() -> ()"); }
void second(void) { void* l; aoti_torch_library_init_def("two", "a.c", 1, &l); aoti_torch_library_def(l, "f() -> ()"); }
__attribute__((constructor)) void begin(void) { }
"""


@needs_gcc
@pytest.mark.parametrize("most", [0, 1, 2])
def test_so_many_functions_are_called_that_nobody_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    command = ["gcc", "-O1", "-fPIC", "-shared", "-w", "-x", "c", "-", "-o", str(tmp_path / "uncalled.so")]
    subprocess.run(command, input=UNCALLED.encode(), check=True)
    monkeypatch.setattr(recovery_module, "_MAX_ON_CALL", most)
    file = ElfFile.open(tmp_path / "uncalled.so")
    found = recover(file, file.facts())
    assert len(found.operators) == most
    assert {operator.phase for operator in found.operators} <= {Phase.ON_CALL}


def test_the_instructions_of_an_object_have_a_total(monkeypatch: pytest.MonkeyPatch) -> None:
    file = ElfFile.open(SAMPLES / "library.so")
    recovery = Recovery(file, file.facts(), None)
    (start, *_) = recovery.process.image.initialisers()
    assert not isinstance(recovery.attempt(start, (), 10_000_000), Stop)
    executed = recovery.process.machine.vm.icount
    for total, reason in ((executed, "for the whole object exhausted"), (executed + 1, "instruction budget exhausted")):
        monkeypatch.setattr(recovery_module, "_INSTRUCTIONS_PER_OBJECT", total)
        stopped = recovery.attempt(start, (), 10_000_000)
        assert isinstance(stopped, Stop)
        assert reason in stopped.reason
    recovery.close()


@pytest.mark.parametrize("error", [TypeError, KeyError, AttributeError])
def test_a_mistake_of_abiscan_is_no_gap(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    file = ElfFile.open(SAMPLES / "library.so")
    recovery = Recovery(file, file.facts(), None)
    (start, *_) = recovery.process.image.initialisers()

    def fail(*_args: object) -> None:
        raise error("ours")

    monkeypatch.setattr(recovery.process.machine, "start", fail)
    with pytest.raises(error), recovery.reported():
        recovery.attempt(start, (), 1_000)
    recovery.close()
