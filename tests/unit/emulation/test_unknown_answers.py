"""An imported function that nobody knows returns zero: where that decides what is registered, it is a gap."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation import named_data, recover, recovery
from abiscan.emulation.arch import Arch
from abiscan.emulation.taint import AnswerDecision, Source
from abiscan.gaps import Gap
from abiscan.registrations import Registrations

SAMPLES = Path(__file__).parents[3] / "sample_binaries" / "registrations"
SOURCE = """
extern int aoti_torch_library_init_def(const char*, const char*, unsigned, void**);
extern int aoti_torch_library_init_impl(const char*, const char*, const char*, unsigned, void**);
extern int aoti_torch_library_def(void*, const char*);
extern long nobody_knows(void);
extern long nor_this(void);
static void* volatile library;
static volatile long kept;
static const char* const TEXTS[] = {"zero() -> ()", "one() -> ()"};

static void define(const char* schema) { aoti_torch_library_def(library, schema); }
static void* open_library(void) {
  void* opened;
  aoti_torch_library_init_def("ns", "x.c", 1, &opened);
  return opened;
}
__attribute__((constructor)) void begin(void) {
  library = open_library();
  define("first() -> ()");
  BODY
}
"""
# What the initialiser does with the answer, and whether that is a gap.
BODIES = {
    "a branch around a registration": ('if (nobody_knows()) define("more() -> ()");', True),
    "a branch for an error alone": ('if (nobody_knows() < 0) define("error() -> ()");', True),
    "a branch between equals": ("if (nobody_knows()) kept = 1; else kept = 2;", True),
    "a text": ("define(TEXTS[nobody_knows() & 1]);", True),
    "an address": ("long* p = (long*)nobody_knows(); if (p) kept = *p;", True),
    "what is kept is not used": ("kept = nobody_knows();", False),
    "what is computed is not used": ("kept = 3 * nobody_knows() + 1;", False),
    "nothing": ("nobody_knows();", False),
}
needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


def _recovered(folder: Path, body: str, source: str = SOURCE) -> tuple[Path, Registrations]:
    (folder / "asks.c").write_text(source.replace("BODY", body))
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "asks.c", "-o", "asks.so"], check=True, cwd=folder)
    file = ElfFile.open(folder / "asks.so")
    return folder / "asks.so", recover(file, file.facts())


def _names(gaps: tuple[Gap, ...]) -> list[str | None]:
    return [gap.called for gap in gaps if "cannot be predicted" in gap.reason]


@needs_gcc
@pytest.mark.parametrize(("body", "matters"), BODIES.values(), ids=BODIES)
def test_what_decides_is_a_gap(tmp_path: Path, body: str, matters: bool) -> None:
    _, found = _recovered(tmp_path, body)
    assert "ns::first" in {operator.name for operator in found.operators}
    assert _names(found.gaps) == (["nobody_knows"] if matters else [])


@needs_gcc
def test_the_gap_says_which_function_and_where(tmp_path: Path) -> None:
    path, found = _recovered(tmp_path, "kept = nor_this(); if (nobody_knows()) define(TEXTS[1]);")
    (gap,) = (gap for gap in found.gaps if gap.called)
    assert gap.reason == "registrations may depend on nobody_knows(), whose result cannot be predicted"
    assert (gap.stage, gap.symbol, gap.called) == ("emulation", "begin", "nobody_knows")
    disassembly = subprocess.run(["objdump", "-d", path], check=True, capture_output=True, text=True).stdout
    lines = disassembly.splitlines()
    call = next(number for number, line in enumerate(lines) if "call" in line and "<nobody_knows@plt>" in line)
    assert int(lines[call + 1].partition(":")[0], 16) == gap.address


@needs_gcc
@pytest.mark.parametrize(
    ("body", "certain"),
    [
        ('nobody_knows(); define("last() -> ()");', ["ns::first", "ns::last"]),
        (
            'define("second() -> ()"); if (nobody_knows()) kept = 1; define("last() -> ()");',
            ["ns::first", "ns::second"],
        ),
        (
            'if (nobody_knows()) kept = 1; define("second() -> ()"); if (nor_this()) kept = 2; define("last() -> ()");',
            ["ns::first"],
        ),
    ],
)
def test_what_is_registered_before_the_first_decision_is_certain(tmp_path: Path, body: str, certain: list[str]) -> None:
    _, found = _recovered(tmp_path, body)
    until = found.doubtful_from
    assert [operator.name for operator in found.operators if until is None or operator.order < until] == certain
    assert found.operators[-1].name == "ns::last"


@needs_gcc
def test_what_registers_nothing_may_ask_what_it_likes(tmp_path: Path) -> None:
    elsewhere = "__attribute__((constructor)) void other(void) { kept = nobody_knows() ? 1 : nor_this() ? 2 : 3; }"
    _, found = _recovered(tmp_path, "", SOURCE + elsewhere)
    assert found.gaps == ()


@needs_gcc
def test_another_initialiser_before_it_is_no_difference(tmp_path: Path) -> None:
    """Here, the way through the second initialiser is another one where the first has not run."""
    earlier = "__attribute__((constructor(101))) void earlier(void) { kept = 7; }"
    body = "if (kept == 7) define(TEXTS[0]); nobody_knows();"
    _, found = _recovered(tmp_path, body, SOURCE + earlier)
    assert [operator.name for operator in found.operators] == ["ns::first", "ns::zero"]
    assert found.gaps == ()
    _, found = _recovered(tmp_path, body + "if (nobody_knows()) define(TEXTS[1]);", SOURCE + earlier)
    assert _names(found.gaps) == ["nobody_knows"]


@needs_gcc
@pytest.mark.parametrize("is_kept", [True, False])
def test_what_two_initialisers_lead_to_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    """And what both may have written is followed: a third one registers what is there. More than a number is not kept,
    and read again.
    """
    source = (
        SOURCE.partition("__attribute__((constructor)) void begin")[0]
        + """
    static volatile long kept_too;
    __attribute__((noinline)) static void ask(void) { if (nobody_knows()) { kept = 1; kept_too = 1; } }
    __attribute__((noinline)) static void ask_too(void) { if (nor_this()) { kept = 1; kept_too = 1; } }
    __attribute__((noinline)) static void both(long more) { ask(); if (more) ask_too(); }
    __attribute__((constructor(101))) void one(void) { both(0); }
    __attribute__((constructor(102))) void two(void) { both(1); }
    __attribute__((constructor(103))) void last(void) { library = open_library(); BODY }
    """
    )
    read: list[int] = []
    data_of = named_data.data_of

    def noted(arch: Arch, address: int, code: bytes, most: int) -> tuple[list[tuple[int, int]], int]:
        read.append(address)
        return data_of(arch, address, code, most)

    monkeypatch.setattr(recovery, "data_of", noted)
    if not is_kept:
        monkeypatch.setattr(recovery, "_MOST_NAMES_KEPT", 0)
    _, found = _recovered(tmp_path, "if (kept_too) define(TEXTS[1]);", source)
    assert _names(found.gaps) == ["nobody_knows", "nor_this"]
    assert read
    assert (len(read) == len(set(read))) is is_kept


def test_code_that_does_not_name_its_data_is_not_searched_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address takes two instructions of AArch64."""
    file = ElfFile.open(SAMPLES / "library_aarch64.so")
    run = recovery.Recovery(file, file.facts(), None)
    source = Source("nobody_knows", 0)
    run.process.machine.taint.answer(*source)
    monkeypatch.setattr(recovery.Recovery, "functions_reached", lambda *_: pytest.fail("functions are looked at"))
    run.mark_written(0, (AnswerDecision(source, 0, "a branch"),))
    assert run.process.machine.taint.memory == {}
    run.close()


@pytest.mark.parametrize("name", ["expressions", "classes_1_6_0", "defaults", "legacy_1_6_0", "library_aarch64"])
def test_the_samples_ask_for_nothing_that_matters(name: str) -> None:
    file = ElfFile.open(SAMPLES / f"{name}.so")
    assert _names(recover(file, file.facts()).gaps) == []
