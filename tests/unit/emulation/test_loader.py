"""The image of an object, against the file that gcc and ld made of a source: what the gABI says of its tables."""

from __future__ import annotations

import platform
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.call_sites import Functions
from abiscan.emulation.doubles import finder
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.emulator import PAGE_SIZE
from abiscan.emulation.loader import BASE, OTHER_MODULE, OWN_MODULE, SPACING
from abiscan.emulation.process import EmulatedProcess

pytestmark = pytest.mark.skipif(
    not shutil.which("gcc") or platform.machine() != "x86_64", reason="needs gcc for x86-64"
)
COUNT = 700  # pointers: more than a page of them, and than the 63 of a bitmap
SOURCE = f"""
static int numbers[{COUNT}];
#define P(n) &numbers[n], 0, &numbers[n + 1], &numbers[n + 2],
#define P8(n) P(n) P(n + 4) P(n + 8) P(n + 12) P(n + 16) P(n + 20) P(n + 24) P(n + 28)
#define P64(n) P8(n) P8(n + 32) P8(n + 64) P8(n + 96) P8(n + 128) P8(n + 160) P8(n + 192) P8(n + 224)
void* pointers[] = {{ P64(0) P64(256) 0 }};
int exported = 7;
extern int imported;
int* own = &exported + 3;
int* other = &imported;
__thread int first = 5;
__thread int second __attribute__((tls_model("global-dynamic")));
extern int of_another(int);
int* place(void) {{ return &second; }}
int caller(int x) {{ return of_another(x) + exported; }}
int second_function(void) {{ return 2; }}
static void begin(void) {{ }}
__attribute__((constructor)) static void constructor(void) {{ begin(); exported++; }}
"""
FLAGS = {"packed": ["-Wl,-z,pack-relative-relocs"], "plain": ["-Wl,-z,nopack-relative-relocs"]}


@pytest.fixture(scope="module", params=FLAGS)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loader")
    (folder / "a.c").write_text(SOURCE)
    command = ["gcc", "-O1", "-fPIC", "-shared", "-w", "-nostdlib", *FLAGS[request.param], "a.c", "-o", "a.so"]
    if subprocess.run(command, check=False, cwd=folder, capture_output=True).returncode:
        pytest.skip("needs gcc for x86-64")
    return folder / "a.so"


@pytest.fixture
def process(file: Path) -> Iterator[EmulatedProcess]:
    elf = ElfFile.open(file)
    found = EmulatedProcess(elf, elf.facts().machine, finder((LIBC,)), lambda *_: None)
    found.call_limit = 100
    yield found
    found.close()


def value(process: EmulatedProcess, name: str) -> int:
    symbol = process.image.find(name)
    assert symbol is not None
    return symbol.value


def test_pointers_are_moved_with_the_object(process: EmulatedProcess) -> None:
    """RELATIVE relocations, and DT_RELR with its bitmaps: what stands there, and the base."""
    start = value(process, "pointers")
    found = struct.unpack(f"<{8 * COUNT // 8}Q", process.machine.read(BASE + start, 8 * COUNT))[: 4 * 128 + 1]
    numbers = found[0]
    assert BASE < numbers < BASE + process.image.size
    expected = [
        numbers + 4 * n for group in range(0, 512, 4) for n in (group, None, group + 1, group + 2) if n is not None
    ]
    assert [word for word in found if word] == expected
    assert [at for at, word in enumerate(found) if not word] == [*range(1, 512, 4), 512]
    # Those that lead to the object itself are known without the base.
    own = process.image.own_pointers()
    assert {at: word for at, word in own.items() if start <= at < start + 8 * 513} == {
        start + 8 * at: word - BASE for at, word in enumerate(found) if word
    }


def test_names_are_bound(process: EmulatedProcess) -> None:
    own, other = value(process, "own"), value(process, "other")
    assert process.machine.word(BASE + own) == BASE + value(process, "exported") + 12
    assert process.machine.word(BASE + other) == process.bind("imported")
    assert process.image.own_pointers()[own] == value(process, "exported") + 12
    assert other not in process.image.own_pointers()


def test_slots_of_imported_functions(process: EmulatedProcess) -> None:
    slots = process.image.slots_of(lambda name: name == "of_another")
    found = {**slots.by_stub, **slots.others}
    assert [*found.values()] == ["of_another"]
    (at,) = found
    assert process.machine.word(BASE + at) == process.bind("of_another")
    nothing = process.image.slots_of(lambda name: name == "of_another", own=True)
    assert not nothing.by_stub
    assert not nothing.others


def test_symbols_are_found_as_readelf_lists_them(process: EmulatedProcess, file: Path) -> None:
    text = subprocess.run(["readelf", "--dyn-syms", "-W", str(file)], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d+: [0-9a-f]{16}", line)]
    listed = {row[7]: row for row in rows if len(row) > 7}
    defined = {name: row for name, row in listed.items() if row[6] != "UND"}
    assert defined.keys() >= {"pointers", "exported", "place", "caller", "second_function"}
    for name, row in defined.items():
        symbol = process.image.find(name)
        assert symbol is not None
        assert (symbol.value, symbol.size, symbol.defined) == (int(row[1], 16), int(row[2], 0), True)
        assert process.image.definition_of(name) == int(row[1], 16)
    for name in ("imported", "of_another", "export", "xported", "nothing"):
        assert process.image.find(name) is None
        assert process.image.definition_of(name) is None
    # ld keeps "other" as the end of "of_another", which the expression takes in whole.
    assert {symbol.name for symbol in process.image.definitions(re.compile(rb"\w+"))} >= defined.keys() - {"other"}
    assert [symbol.name for symbol in process.image.definitions(re.compile(rb"other"))] == ["other"]
    assert [symbol.name for symbol in process.image.definitions(re.compile(rb"export\w*"))] == ["exported"]
    assert process.image.definitions(re.compile(rb"xported")) == []
    assert process.image.definitions(re.compile(rb"exporte")) == []
    functions = {name: row for name, row in defined.items() if row[3] == "FUNC"}
    for name, row in functions.items():
        start, size = int(row[1], 16), int(row[2], 0)
        assert process.image.nearest_symbol(start) == process.image.nearest_symbol(start + size - 1) == name
    assert process.image.nearest_symbol(0) is None
    assert process.image.mentions(b"of_anoth")
    assert not process.image.mentions(b"of_others")


def test_initialisers_are_those_of_the_array(process: EmulatedProcess) -> None:
    entries = process.image.initialisers()
    assert entries
    assert all(process.image.is_code(entry) for entry in entries)
    exported = BASE + value(process, "exported")
    assert process.machine.read(exported, 4) == (7).to_bytes(4, "little")
    for entry in entries:
        process.machine.start(entry, (), 10_000)
    assert process.machine.read(exported, 4) == (8).to_bytes(4, "little")


def test_what_is_inside(process: EmulatedProcess) -> None:
    image = process.image
    assert image.contains(BASE)
    assert image.contains(BASE + image.size - 1)
    assert not image.contains(BASE - 1)
    assert not image.contains(BASE + image.size)
    assert image.is_code(BASE + value(process, "caller"))
    assert not image.is_code(BASE + value(process, "exported"))
    assert image.page(BASE + PAGE_SIZE * (image.size // PAGE_SIZE + 1)) is None
    data = image.page((BASE + value(process, "exported")) & -PAGE_SIZE)
    code = image.page((BASE + value(process, "caller")) & -PAGE_SIZE)
    assert data is not None
    assert code is not None
    assert data[1:] == (True, False)
    assert code[1:] == (False, True)


def test_thread_local_variables_are_below_the_thread_pointer(process: EmulatedProcess) -> None:
    """Variant II of "ELF Handling For Thread-Local Storage": the block ends at the thread pointer, aligned."""
    image = process.image
    assert image.tls is not None
    assert image.tls.size == 8
    assert image.tls_start == -image.tls_end
    assert image.tls_end % 64 == 0
    assert image.tls_end >= image.tls.size
    assert image.module == OWN_MODULE
    first = process.machine.start(BASE + value(process, "place"), (), 10_000)
    assert first % 4 == 0
    assert process.machine.read(first, 4) == bytes(4)


def test_objects_of_a_process_are_apart(file: Path) -> None:
    one, two = ElfFile.open(file), ElfFile.open(file)
    process = EmulatedProcess(one, one.facts().machine, finder((LIBC,)), lambda *_: None, siblings=[two])
    first, second = process.images
    assert (first.base, second.base) == (BASE, BASE + SPACING)
    assert (first.module, second.module) == (OWN_MODULE, OTHER_MODULE + 1)
    assert second.tls_end == 2 * first.tls_end
    assert process.image_at(second.base) is second
    assert process.image_at(first.base + first.size) is None
    process.close()


def test_functions_are_where_readelf_has_them(process: EmulatedProcess, file: Path) -> None:
    """The table of ``.eh_frame_hdr`` (LSB, 10.6.2) has every function, also those that are not exported."""
    functions, image = Functions(process.image), process.image
    starts = [value(process, name) for name in ("place", "caller", "second_function")]
    text = subprocess.run(["readelf", "--syms", "-W", str(file)], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in text.splitlines() if " FUNC " in line and " UND " not in line]
    listed = {int(row[1], 16): int(row[2], 0) for row in rows}
    assert {*starts} < {*listed} <= {*functions.starts}
    assert functions.starts == sorted(functions.starts)
    for start, size in listed.items():
        assert functions.containing(start) == functions.containing(start + size - 1) == start
        assert start + size <= functions.end_of(start) <= min((at for at in listed if at > start), default=image.size)
        assert functions.code_of(start)[:size] == process.machine.read(BASE + start, size)
    assert functions.containing(functions.starts[0] - 1) is None
    assert functions.end_of(functions.starts[-1]) == image.size
    assert functions.code_of(image.size + PAGE_SIZE) == b""
