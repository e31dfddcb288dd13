"""Which functions lead to which, as one reads in the source that the code is made of."""

from __future__ import annotations

import platform
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile, Machine
from abiscan.emulation.arch import ARCHITECTURES, code_aarch64
from abiscan.emulation.call_graph import CalledFunctions, CallGraph, reached_functions
from abiscan.emulation.call_sites import Functions, find_call_sites
from abiscan.emulation.loader import Image

SAMPLES = Path(__file__).parents[3] / "sample_binaries" / "registrations"
needs_gcc = pytest.mark.skipif(not shutil.which("gcc") or platform.machine() != "x86_64", reason="needs gcc for x86-64")
SOURCE = """
#define FUNCTION __attribute__((noinline, noclone)) static void
typedef void (*Function)(void);
extern void imported(void), other(void), handed_on(void);
extern void takes(Function);
volatile int x;
FUNCTION leaf(void) { x = 1; }
FUNCTION first(void) { x = 2; }
FUNCTION second(void) { x = 3; }
FUNCTION third(void) { x = 4; }
FUNCTION in_table(void) { x = 5; }
FUNCTION after_hole(void) { x = 6; }
void exported(void) { x = 7; }
static Function const table[] = { in_table, second, 0, after_hole };
struct { long top; void* type; Function functions[2]; } virtuals = { 0, 0, { third, 0 } };
static int datum;
static void* const mixed[] = { in_table, &datum, second };
void calls(void) { leaf(); x = 8; }
void jumps(void) { x = 8; leaf(); }
void jumps_if(int a) { if (a) leaf(); }
void calls_exported(void) { exported(); x = 8; }
void calls_imported(void) { imported(); other(); x = 8; }
void takes_address(void) { takes(first); }
void takes_own_slot(void) { takes(exported); }
void takes_imported(void) { takes(handed_on); }
void takes_table(void) { takes((Function)table); }
void takes_mixed(void) { datum = x; takes((Function)mixed); }
void takes_virtuals(void) { takes((Function)&virtuals); }
void nothing(void) { }
__attribute__((noinline)) static int near(int a) { x = a; return 1; }
int jumps_near(int a) { return near(a + 1); }
__asm__(".skip 200");
"""
LEADS = {
    "calls": ({"leaf"}, set()),
    "jumps": ({"leaf"}, set()),
    "jumps_if": ({"leaf"}, set()),
    "calls_exported": ({"exported"}, set()),
    "calls_imported": (set(), {"imported", "other"}),
    "takes_address": ({"first"}, {"takes"}),
    "takes_own_slot": ({"exported"}, {"takes"}),
    "takes_imported": (set(), {"takes", "handed_on"}),
    "takes_table": ({"in_table", "second"}, {"takes"}),
    "takes_mixed": ({"in_table"}, {"takes"}),
    "takes_virtuals": ({"third"}, {"takes"}),
    "jumps_near": ({"near"}, set()),
    "nothing": (set(), set()),
}


def image_of(path: Path, machine: Machine = Machine.X86_64) -> Image:
    return Image(ElfFile.open(path), ARCHITECTURES[machine], lambda _: 0, lambda _: 0, lambda at: at)


def compiled(folder: Path, source: str, *flags: str, name: str = "a") -> Path:
    path = folder / f"{name}.so"
    command = ["gcc", "-O2", "-fPIC", "-shared", "-nostdlib", "-w", *flags, "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=source.encode(), check=True)
    return path


def symbols(path: Path) -> dict[str, int]:
    lines = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout.splitlines()
    return {fields[-1]: int(fields[0], 16) for line in lines if len(fields := line.split()) == 3}


@needs_gcc
@pytest.mark.parametrize("flags", [[], ["-fcf-protection=none"], ["-O1", "-fcf-protection=full"]])
def test_what_a_function_leads_to(tmp_path: Path, flags: list[str]) -> None:
    path = compiled(tmp_path, SOURCE, *flags)
    at = symbols(path)
    names = {address: name for name, address in at.items()}
    called = CalledFunctions(image_of(path), Machine.X86_64)
    found = {name: called.led_to(at[name]) for name in LEADS}
    assert {
        name: ({names[each] for each in leads.functions if each in names}, set(leads.imports))
        for name, leads in found.items()  # the first stub of a table looks like a function, too
    } == LEADS
    assert called.defined("calls") == at["calls"]
    assert called.defined("imported") is None
    assert called.led_to(at["calls"] + 1) == (frozenset(), frozenset())  # no function begins there


@needs_gcc
def test_so_much_code_is_looked_at(tmp_path: Path) -> None:
    path = compiled(tmp_path, SOURCE)
    at = symbols(path)
    size = len(CalledFunctions(image_of(path), Machine.X86_64)._functions.code_of(at["calls"]))
    for most, functions in ((size, {at["leaf"]}), (size - 1, set())):
        assert CalledFunctions(image_of(path), Machine.X86_64, most).led_to(at["calls"]).functions == functions
    graph = CallGraph([CalledFunctions(image_of(path), Machine.X86_64, size)])
    for _ in range(2):  # what is known already costs nothing
        assert list(graph.next_places(at["calls"])) == [at["leaf"]]
    assert not graph.next_places(at["jumps"])


IMPORTING = """
extern void one(void), two(void), three(void);
volatile int x;
__attribute__((noinline)) static void leaf(void) { x = 1; }
void calls_one(void) { one(); x = 2; }
void calls_two(void) { two(); x = 2; }
void calls_three(void) { three(); x = 2; }
void short_one(void) { leaf(); one(); }
void short_two(int which) { leaf(); if (which) one(); else two(); }
void long_one(void) { leaf(); x = 2; x = 3; x = 4; x = 5; x = 6; x = 7; x = 8; x = 9; one(); }
"""


@needs_gcc
@pytest.mark.parametrize(
    "flags", [["-fcf-protection=none"], ["-fcf-protection=full", "-Wl,-z,ibtplt"], ["-fno-plt"]], ids="-".join
)
def test_a_table_of_stubs_leads_nowhere_by_itself(tmp_path: Path, flags: list[str]) -> None:
    """To the linker's own frames, it is one function. One with a jump to an import at its end is none."""
    path = compiled(tmp_path, IMPORTING, *flags)
    at = symbols(path)
    called = CalledFunctions(image_of(path), Machine.X86_64)
    graph = CallGraph([called])
    for name in ("one", "two", "three"):
        reached = graph.reached([at[f"calls_{name}"]])
        assert {each for _, function in reached for each in called.led_to(function).imports} == {name}
    assert at["leaf"] in called.led_to(at["long_one"]).functions
    assert called.led_to(at["long_one"]).imports == {"one"}
    for name, imports in (("short_one", {"one"}), ("short_two", {"one", "two"})):
        assert at["leaf"] in called.led_to(at[name]).functions
        assert called.led_to(at[name]).imports == imports


FIRST = """
extern void of_second(void), of_nobody(void), in_both(void);
__attribute__((noinline)) static void inner(void) { of_second(); }
void root(void) { inner(); of_nobody(); in_both(); }
void in_both(void) { }
void other_root(void) { of_nobody(); }
"""
SECOND = """
extern void back(void), in_both(void);
__attribute__((noinline)) static void deeper(void) { in_both(); __asm__(""); }
void of_second(void) { deeper(); }
void in_both(void) { }
"""


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    if not shutil.which("gcc") or platform.machine() != "x86_64":
        pytest.skip("needs gcc for x86-64")
    return compiled(tmp_path, FIRST, name="first"), compiled(tmp_path, SECOND, name="second")


def test_functions_of_other_objects_are_reached_by_name(two: tuple[Path, Path]) -> None:
    first, second = map(symbols, two)
    graph = CallGraph([CalledFunctions(image_of(path), Machine.X86_64) for path in two])
    everything = {
        *((0, first[name]) for name in ("root", "inner", "in_both")),  # the first object that defines it
        *((1, second[name]) for name in ("of_second", "deeper", "in_both")),  # and its own stub leads to its own
    }
    assert graph.reached([first["root"]]) == everything
    assert graph.reached([first["other_root"]]) == {(0, first["other_root"])}
    assert graph.reached([]) == set()
    stopped = graph.reached([first["root"]], {(1, second["of_second"])})
    assert stopped == everything - {(1, second["deeper"]), (1, second["in_both"])}


def test_the_wanted_functions_that_groups_lead_to(two: tuple[Path, Path]) -> None:
    first, second = map(symbols, two)
    files = [ElfFile.open(path) for path in two]
    wanted = {(1, second["deeper"]), (0, first["other_root"])}
    groups = [[first["root"]], [first["other_root"]], [], [first["inner"], first["other_root"]]]
    found = reached_functions(files, Machine.X86_64, iter(groups), wanted)
    assert found == [{(1, second["deeper"])}, {(0, first["other_root"])}, set(), wanted]
    nonsense = ElfFile.from_bytes(bytes(files[0].data), "nonsense")
    nonsense.dynamic |= {7: 1 << 40, 8: 24}  # DT_RELA, DT_RELASZ
    assert reached_functions([nonsense], Machine.X86_64, iter(groups), wanted) == [frozenset()] * 4


def test_functions_are_told_from_places_only_where_they_are_wanted(
    two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    function_at = CallGraph.function_at

    def noting(self: CallGraph, place: int) -> tuple[int, int]:
        told.append(place)
        return function_at(self, place)

    monkeypatch.setattr(CallGraph, "function_at", noting)
    root = symbols(two[0])["root"]
    reached_functions([ElfFile.open(path) for path in two], Machine.X86_64, [[root]] * 9, [])
    assert len(told) == len(set(told)) > 3  # each once, to find what it leads to, however many groups lead there


@pytest.mark.parametrize("name", ["library_aarch64", "operators_aarch64", "stable_aarch64"])
def test_calls_through_stubs_on_aarch64(name: str) -> None:
    """A function leads to what it calls, and in this direction to nothing that no slot is for."""
    image = image_of(SAMPLES / f"{name}.so", Machine.AARCH64)
    called, functions = CalledFunctions(image, Machine.AARCH64), Functions(image)
    slots, own = image.slots_of(lambda _: True), image.slots_of(lambda _: True, own=True)
    sites: dict[int, set[str]] = {}
    for site in find_call_sites(image, Machine.AARCH64, slots):
        start = functions.containing(site.address - (not site.is_jump))
        assert start is not None
        sites.setdefault(start, set()).add(site.target)
    assert sites
    # Where the linker put the stubs of the imports is one of the functions, but it calls none of them.
    for start, targets in sites.items():
        assert targets <= called.led_to(start).imports
    by_itself = {start for start in functions.starts if called.led_to(start).imports} - sites.keys()
    assert all(called.led_to(start).imports <= set(slots.others.values()) for start in by_itself)
    for site in find_call_sites(image, Machine.AARCH64, own):
        start, target = functions.containing(site.address - (not site.is_jump)), image.find(site.target)
        assert start is not None
        assert target is not None
        assert target.value in called.led_to(start).functions


# Arm ARM, C6.2: where each leads from 0x1000, and how.
INSTRUCTIONS = {
    "b .+8": ([0x1400_0002], "code", 0x1008),
    "bl .-4": ([0x97FF_FFFF], "code", 0xFFC),
    "adr x3, .+0x21": ([0x3000_0103], "address", 0x1021),
    "adr x3, .-1": ([0x70FF_FFE3], "address", 0xFFF),
    "adrp x2, .+0x2000; add x2, x2, #0x123": ([0xD000_0002, 0x9104_8C42], "address", 0x3123),
    "nop; b .-4": ([0xD503_201F, 0x17FF_FFFF], "code", 0x1000),
    "adrp x17, .+0x5000; add x3, x17, #0x123": ([0xB000_0031, 0x9104_8E23], "address", 0x6123),
    "adrp x17, .+0x5000; ldr x5, [x17, #0x18]": ([0xB000_0031, 0xF940_0E25], "word", 0x6018),
    "adrp x2, .+0x1000; nop; ldr x0, [x2, #0x18]": ([0xB000_0002, 0xD503_201F, 0xF940_0C40], "word", 0x2018),
    "adrp x2, .+0x1000; ldr x0, [x2, #0x7ff8]": ([0xB000_0002, 0xF97F_FC40], "word", 0x2000 + 0x7FF8),
}
NONE = {
    "add of another register": [0xB000_0002, 0x9100_0463],
    "ldr of a word of 32 bits": [0xB000_0002, 0xB940_0840],
    "ldr without adrp": [0xF940_0C40],
    "cbz": [0xB400_0040],
}


@pytest.mark.parametrize(("words", "kind", "target"), INSTRUCTIONS.values(), ids=INSTRUCTIONS)
def test_what_instructions_of_aarch64_lead_to(words: list[int], kind: str, target: int) -> None:
    code = struct.pack(f"<{len(words)}I", *words)
    for behind in (b"", b"\1\2"):  # half of an instruction
        found = dict(code_aarch64.links(code + behind, 0x1000))
        assert found == {"code": set(), "address": set(), "word": set()} | {kind: {target}}


@pytest.mark.parametrize("words", NONE.values(), ids=NONE)
def test_what_instructions_of_aarch64_do_not_lead_to(words: list[int]) -> None:
    assert not any(addresses for _, addresses in code_aarch64.links(struct.pack(f"<{len(words)}I", *words), 0x1000))
