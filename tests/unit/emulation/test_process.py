"""The emulated process: its memory, what imports are bound to, and how doubles are called."""

from __future__ import annotations

import platform
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.doubles import finder
from abiscan.emulation.doubles.cpython import fill_datum
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.emulator import HEAP_BASE, HEAP_SIZE, IMPORT_BASE, IMPORT_SLOT, PAGE_SIZE, Stop
from abiscan.emulation.loader import BASE, SPACING
from abiscan.emulation.process import Call, Double, EmulatedProcess

SAMPLES = Path(__file__).parents[3] / "sample_binaries" / "registrations"
needs_gcc = pytest.mark.skipif(not shutil.which("gcc") or platform.machine() != "x86_64", reason="needs gcc for x86-64")


@pytest.fixture(params=["library", "library_aarch64"])
def process(request: pytest.FixtureRequest) -> Iterator[EmulatedProcess]:
    file = ElfFile.open(SAMPLES / f"{request.param}.so")
    found = EmulatedProcess(file, file.facts().machine, finder((LIBC,)), fill_datum)
    found.call_limit = 10_000
    yield found
    found.close()


def built(folder: Path, *sources: str, doubles: dict[str, Double] | None = None) -> EmulatedProcess:
    """A process of objects made of C; the first imports from the others what has no double."""
    files = []
    for number, source in enumerate(sources):
        path = folder / f"{number}.so"
        command = ["gcc", "-O1", "-fPIC", "-shared", "-nostdlib", "-w", "-x", "c", "-", "-o", str(path)]
        subprocess.run(command, input=source.encode(), check=True)
        files.append(ElfFile.open(path))
    first, *others = files
    process = EmulatedProcess(first, first.facts().machine, (doubles or {}).get, fill_datum, others)
    process.call_limit = 100
    return process


def run(process: EmulatedProcess, name: str, *arguments: int) -> int:
    symbol = next(found for image in process.images if (found := image.find(name)))
    image = next(image for image in process.images if image.find(name))
    return process.machine.start(image.base + symbol.value, arguments, 10_000)


def unsigned(value: int) -> int:
    return value % 2**64


# Memory


def test_allocations_know_their_sizes(process: EmulatedProcess) -> None:
    first, second = process.allocate(24), process.allocate(1)
    assert (process.size_of(first), process.size_of(second)) == (24, 1)
    assert process.size_of(0x1000) == process.size_of(process.image.base) == 0  # nobody can have allocated that
    assert second - first == 48  # 24 bytes take 32, and 16 are between two of them
    assert process.allocate(0) - second == 32
    assert process.heap_top() % 16 == 0
    assert process.allocate(16) == process.heap_top() - 32
    for alignment in (16, 64, 4096):
        assert process.allocate(8, alignment) % alignment == 0


def test_the_largest_allocation(process: EmulatedProcess) -> None:
    largest = 0x1000_0000
    assert process.size_of(process.allocate(largest)) == largest
    with pytest.raises(Stop, match=f"allocation of {largest + 1} bytes"):
        process.allocate(largest + 1)


def test_what_a_function_may_take(process: EmulatedProcess) -> None:
    top, process.calls = process.heap_top(), 50
    with process.budget(0x1000, 7):
        assert process.call_limit == 57
        first = process.allocate(0x1000 - 16)
        with pytest.raises(Stop, match="memory budget exhausted"):
            process.allocate(1)
    assert process.heap_top() == top + 0x1000  # what it took within its bounds stays
    assert process.size_of(first) == 0x1000 - 16
    process.allocate(0x2000)  # and others may take what they like


@pytest.mark.parametrize("beyond", [0x1001, -16], ids=["more than it may", "the end moved back"])
def test_what_a_function_took_beyond_its_bounds_is_free_again(process: EmulatedProcess, beyond: int) -> None:
    process.allocate(1)
    top = process.heap_top()
    with process.budget(0x1000, 7):
        process.machine.write(process.allocate(8), b"x" * 8)
        process.machine.set_word(HEAP_BASE, top + beyond)  # as code does that takes memory by itself
    assert process.heap_top() == -(-top // PAGE_SIZE) * PAGE_SIZE
    assert process.machine.word(process.allocate(8)) == 0


def test_a_function_that_takes_nothing_gives_nothing_back(process: EmulatedProcess) -> None:
    process.allocate(1)
    top = process.heap_top()
    with process.budget(0x1000, 7):
        pass
    assert process.heap_top() == top


def test_the_last_byte_of_the_budget(process: EmulatedProcess) -> None:
    top = process.heap_top()
    process.heap_limit = top + 48
    assert process.allocate(32) == top
    process.heap_limit = process.heap_top() + 47
    with pytest.raises(Stop, match="memory budget exhausted"):
        process.allocate(32)


def test_memory_is_given_back_in_pages(process: EmulatedProcess) -> None:
    process.allocate(PAGE_SIZE)
    top, kept = process.heap_top(), process.heap_top() - 24
    process.machine.write(kept, b"kept")
    later = process.store(b"later" * PAGE_SIZE)
    far = HEAP_BASE + HEAP_SIZE - 8
    process.machine.write(far, b"far away")
    process.release(top)
    start = -(-top // PAGE_SIZE) * PAGE_SIZE
    assert process.heap_top() == start
    assert process.machine.read(kept, 4) == b"kept"
    assert process.machine.read(start, later + PAGE_SIZE - start) == bytes(later + PAGE_SIZE - start)
    assert process.machine.read(far, 8) == bytes(8)


@pytest.mark.parametrize("size", [24, 1 << 20, (1 << 20) + 1])
def test_the_code_that_allocates_does_as_the_double(process: EmulatedProcess, size: int) -> None:
    before = process.heap_top()
    address = process.machine.start(process.bind("_Znwm"), (size,), 1000)
    assert address == before
    assert process.size_of(address) == size
    assert process.heap_top() == before + (size + 15) // 16 * 16 + 16


def test_what_has_no_effect_is_not_called(process: EmulatedProcess) -> None:
    for name in ("free", "_ZdlPv", "__cxa_atexit", "pthread_mutex_lock", "_ZNSsD1Ev"):
        process.called.clear()
        assert process.machine.start(process.bind(name), (7,), 1000) == 0
        assert not process.called
        assert process.import_at(process.bind(name)) is not None
    # Each of its functions has the same code; another one is recorded, and is called.
    process.ask_double("free")
    process.machine.start(process.bind("free"), (7,), 1000)
    assert set(process.called) == {"free"}


def test_functions_with_code_are_known_by_it(process: EmulatedProcess) -> None:
    assert process.import_at(process.bind("_Znwm") + 4) in ("_Znwm", "_Znam")
    assert process.import_at(process.bind("strdup")) == "strdup"
    assert process.import_at(process.bind("strdup") + IMPORT_SLOT - 1) == "strdup"
    assert process.import_at(0x1000) is None


# Imports


def test_an_import_has_a_slot(process: EmulatedProcess) -> None:
    first, second = process.bind("one"), process.bind("two")
    assert second == first + IMPORT_SLOT
    assert process.bind("one") == first
    assert (process.name_at(first), process.name_at(second + IMPORT_SLOT - 1)) == ("one", "two")
    assert process.name_at(first - 1) != "one"
    assert process.name_at(second + IMPORT_SLOT) is None
    assert process.name_at(IMPORT_BASE) is None  # where functions return to
    process.call_it(0x1234, "own")
    assert process.name_at(0x1234) == "own"


def test_virtual_tables_lead_to_virtual_functions(process: EmulatedProcess) -> None:
    """Itanium C++ ABI, 2.5: two words, to which the address point leads, are before the functions."""
    table = process.bind("_ZTV3Any")
    words = process.machine.words(table, IMPORT_SLOT // 8)
    function = process.bind("virtual function of _ZTV3Any")
    assert words == (0, process.bind("_ZTI3Any"), *[function] * (IMPORT_SLOT // 8 - 2))
    # Of a table of tables, all lead behind the three words that such a table has before its functions.
    tables = process.machine.words(process.bind("_ZTT3Any"), IMPORT_SLOT // 8)
    assert set(tables) == {table + 24}


@pytest.mark.parametrize(("inner", "distance"), [("7__cxx11", 112), ("", 88)])
def test_the_virtual_table_of_a_stream(process: EmulatedProcess, inner: str, distance: int) -> None:
    """``sizeof`` of ``std::ostringstream`` less its virtual base: 376 - 264, and 352 - 264 with the old string."""
    name = f"_ZTV{'N' if inner else ''}St{inner}19basic_ostringstreamIcSt11char_traitsIcESaIcEE{'E' if inner else ''}"
    words = process.machine.words(process.bind(name), 10)
    function, type_ = process.bind("virtual function of " + name), process.bind("_ZTI" + name[4:])
    back = 2**64 - distance
    assert words == (distance, 0, type_, function, function, back, back, type_, function, function)


def test_type_information_knows_its_name(process: EmulatedProcess) -> None:
    """Itanium C++ ABI, 2.9.4: a virtual pointer, behind the two words of its table, and the name."""
    table, name = process.machine.words(process.bind("_ZTISt9exception"), 2)
    assert table == process.bind("_ZTVN10__cxxabiv117__class_type_infoE") + 16
    assert process.machine.text(name) == b"St9exception"


def test_type_information_knows_the_base_of_a_class_of_the_library(process: EmulatedProcess) -> None:
    """Itanium C++ ABI, 2.9.5: that of a class with one base leads to the base."""
    table, _, base = process.machine.words(process.bind("_ZTISt13runtime_error"), 3)
    assert table == process.bind("_ZTVN10__cxxabiv120__si_class_type_infoE") + 16
    assert base == process.bind("_ZTISt9exception")


@needs_gcc
def test_a_double_that_only_looks_on(tmp_path: Path) -> None:
    seen = []
    process = built(
        tmp_path,
        "int next(int n) { return n + 1; } int twice(int n) { return next(next(n)); }",
        doubles={"a double": lambda call: seen.append(call.argument(0))},
    )
    place = process.image.find("next")
    assert place is not None
    process.observe(process.image.base + place.value, "a double")
    process.observe(process.image.base + 0x1234, "nobody knows it")
    for _ in range(2):
        assert process.machine.start(process.image.base + place.value, (5,), 100) == 6
    assert seen == [5, 5]
    process.close()


def test_which_object_an_address_is_in(process: EmulatedProcess) -> None:
    image = process.image
    for address, expected in (
        (image.base - 1, None),
        (image.base, image),
        (image.base + image.size - 1, image),
        (image.base + image.size, None),
    ):
        assert process.image_at(address) is expected


def test_imports_keep_their_names_and_contents_when_code_is_forgotten(process: EmulatedProcess) -> None:
    slots = [process.bind(f"_ZTI{number}") for number in range(40)]
    before = [process.machine.words(slot, 2) for slot in slots]
    process.forget_code()
    assert [process.machine.words(slot, 2) for slot in slots] == before
    assert [process.name_at(slot) for slot in slots] == [f"_ZTI{number}" for number in range(40)]
    assert process.name_at(slots[-1] + IMPORT_SLOT) is None


def test_where_variables_of_a_thread_are(process: EmulatedProcess) -> None:
    pointer = process.machine.vm.reg_read(process.arch.thread_pointer)
    first, second = (process.imported_thread_variable(name) for name in ("one", "two"))
    assert first - pointer == 0x8_0000  # far above those of the objects
    assert second - first == 64
    assert process.imported_thread_variable("one") == first
    assert process.machine.word(pointer) == pointer
    assert process.machine.word(pointer + 0x28) != 0  # psABI, 6.2: what the stack protector compares
    assert process.machine.word(pointer + 0x30) == 0
    # Of an object that is none, the offset counts from the thread pointer.
    assert process.thread_variable(99, 0x10) == pointer + 0x10
    assert process.thread_variable(99, unsigned(-0x10)) == pointer - 0x10


# Calls


def with_double(process: EmulatedProcess, name: str, double: Double) -> int:
    process._find_double = {name: double}.get
    return process.bind(name)


def test_a_function_without_a_double_answers_zero(process: EmulatedProcess) -> None:
    calls = process.calls
    assert process.machine.start(process.bind("nobody_knows"), (1, 2), 1000) == 0
    assert process.answered_with_zero == "nobody_knows"
    assert process.calls == calls + 1
    assert process.machine.start(process.bind("getpagesize"), (), 1000) == 4096
    assert process.answered_with_zero is None


def test_calls_are_counted(process: EmulatedProcess) -> None:
    process.call_limit = process.calls + 2
    for _ in range(2):
        process.machine.start(process.bind("getpagesize"), (), 1000)
    with pytest.raises(Stop, match="call budget exhausted") as caught:
        process.machine.start(process.bind("getpagesize"), (), 1000)
    assert caught.value.called == "getpagesize"


def test_code_that_jumps_into_data(process: EmulatedProcess) -> None:
    with pytest.raises(Stop, match="jump into data: strdup") as caught:
        process.machine.start(process.bind("strdup") + 8, (), 1000)
    assert caught.value.called == "strdup"


@pytest.mark.parametrize("value", [0, 1, 2**63, -1, 2**64 + 5])
def test_results_of_doubles(process: EmulatedProcess, value: int) -> None:
    assert process.machine.start(with_double(process, "f", lambda _: value), (9,), 1000) == unsigned(value)


def test_a_double_without_a_result_leaves_the_register(process: EmulatedProcess) -> None:
    process.machine.vm.reg_write(process.arch.result, 5)
    arguments = (5,) if process.arch.result == process.arch.arguments[0] else ()
    assert process.machine.start(with_double(process, "f", lambda _: None), arguments, 1000) == 5


def test_the_arguments_of_a_call(process: EmulatedProcess) -> None:
    """Six registers on x86-64, eight on AArch64; what follows is in the stack, beyond the return address."""
    registers, seen = len(process.arch.arguments), list[int]()
    in_stack = (0x1111, 0x2222, 0x3333)

    def double(call: Call) -> None:
        above = call.machine.vm.sp + (8 if process.arch.hidden_result is None else 0)
        call.machine.write(above, struct.pack("<3Q", *in_stack))
        seen.extend(map(call.argument, range(registers + 3)))

    process.machine.start(with_double(process, "f", double), tuple(range(registers)), 1000)
    assert seen == [*range(registers), *in_stack]


def test_the_result_in_memory_is_passed_before_all_arguments(process: EmulatedProcess) -> None:
    """SysV psABI, 3.2.3: as the first of them, and it is returned; AAPCS64, 6.9: in a register of its own, x8."""
    seen = list[int]()

    def double(call: Call) -> int:
        seen.extend((call.result, call.argument(0), call.result))
        return 77

    function = with_double(process, "f", double)
    if process.arch.hidden_result is None:
        assert process.machine.start(function, (0x1234, 5), 1000) == 0x1234
    else:
        process.machine.vm.reg_write(process.arch.hidden_result, 0x1234)
        assert process.machine.start(function, (5,), 1000) == 5  # x0 is not for it
    assert seen == [0x1234, 5, 0x1234]


@pytest.mark.parametrize(("first", "count"), [(0, 3), (0, 5), (1, 4), (2, 4)])
def test_arguments_of_two_words(process: EmulatedProcess, first: int, count: int) -> None:
    """One that is not in registers as a whole is in the stack, and so is what follows it."""
    registers, seen = len(process.arch.arguments), list[tuple[int, int]]()
    in_stack = tuple(range(100, 112))

    def double(call: Call) -> None:
        above = call.machine.vm.sp + (8 if process.arch.hidden_result is None else 0)
        call.machine.write(above, struct.pack("<12Q", *in_stack))
        seen.extend(call.views(first, count))

    process.machine.start(with_double(process, "f", double), tuple(range(registers)), 1000)
    pairs = [(at, at + 1) for at in range(first, registers - 1, 2)]
    pairs += [(in_stack[at], in_stack[at + 1]) for at in range(0, 12, 2)]
    assert seen == pairs[:count]


def test_arguments_of_two_words_behind_the_place_of_the_result(process: EmulatedProcess) -> None:
    """On x86-64 that takes a register, so one pair fewer is in registers."""
    registers, seen = len(process.arch.arguments), list[tuple[int, int]]()

    def double(call: Call) -> None:
        above = call.machine.vm.sp + (8 if process.arch.hidden_result is None else 0)
        call.machine.write(above, struct.pack("<4Q", 100, 101, 102, 103))
        assert call.result == 0
        seen.extend(call.views(0, 4))

    process.machine.vm.reg_write(process.arch.hidden_result or process.arch.arguments[0], 0)
    process.machine.start(with_double(process, "f", double), tuple(range(registers)), 1000)
    first = 1 if process.arch.hidden_result is None else 0
    pairs = [(at, at + 1) for at in range(first, registers - 1, 2)]
    assert seen == [*pairs, (100, 101), (102, 103)][: len(seen)]


@pytest.mark.parametrize("times", [0, 3, 0x1000_0001])
def test_a_character_as_often_as_is_asked_for(process: EmulatedProcess, times: int) -> None:
    seen = list[bytes]()
    function = with_double(process, "f", lambda call: seen.append(call.repeated(1, 2)))
    if times > 0x1000_0000:
        with pytest.raises(Stop, match=f"string of {times} bytes"):
            process.machine.start(function, (0, 0x141, times), 1000)
    else:
        process.machine.start(function, (0, 0x141, times), 1000)
        assert len(seen[0]) == times
        assert set(seen[0]) <= {0x41}


# Objects

CALLER = """
extern int helper(int); extern int unknown(int); extern __thread int counter; extern __thread int of_nobody;
static __thread int own = 5;
int call_helper(int x) { return helper(x) + 1; }
int call_unknown(int x) { return unknown(x) + 1; }
int* own_place(void) { return &own; }
int* other_place(void) { return &counter; }
int read_other(void) { return counter; }
"""
HELPER = """
__thread int padding = 1, counter = 42;
int helper(int x) { return 10 * x; }
static int ten(void) { return 10; }
static int (*choose(void))(void) { return ten; }
int chosen(int) __attribute__((ifunc("choose")));
int* own_place_here(void) { return &counter; }
int* padding_here(void) { return &padding; }
int five(void) { return 5; }
"""


@pytest.fixture
def two(tmp_path: Path) -> Iterator[EmulatedProcess]:
    if not shutil.which("gcc") or platform.machine() != "x86_64":
        pytest.skip("needs gcc for x86-64")
    process = built(tmp_path, CALLER, HELPER, doubles={"__tls_get_addr": thread_variable})
    yield process
    process.close()


def thread_variable(call: Call) -> int:
    return call.process.thread_variable(*call.machine.words(call.argument(0), 2))


def test_a_function_of_another_object_is_called(two: EmulatedProcess) -> None:
    assert run(two, "call_helper", 4) == 41
    assert "helper" not in two.called
    assert run(two, "call_unknown", 4) == 1
    assert set(two.called) == {"unknown"}
    helper = two.images[1].find("helper")
    assert helper is not None
    assert two.bind("helper") == BASE + SPACING + helper.value
    assert two.is_code(two.bind("helper"))
    assert not two.is_code(two.bind("unknown"))
    assert not two.is_code(BASE)


def test_a_function_that_is_skipped_returns_zero(two: EmulatedProcess) -> None:
    two.skip(two.bind("five"))
    two.skip(0x1234)  # nobody's
    assert run(two, "five") == 0


@needs_gcc
def test_a_double_comes_before_a_definition(tmp_path: Path) -> None:
    process = built(tmp_path, CALLER, HELPER, doubles={"helper": lambda call: call.argument(0) + 100})
    assert run(process, "call_helper", 4) == 105
    process.close()


def test_variables_of_a_thread_in_two_objects(two: EmulatedProcess) -> None:
    """Each object has a block of its own, with its initial content; an import is that of the object that defines it."""
    own, other = run(two, "own_place"), run(two, "other_place")
    assert two.machine.read(own, 4) == struct.pack("<i", 5)
    assert two.machine.read(other, 4) == struct.pack("<i", 42)
    assert run(two, "own_place_here") == other == two.imported_thread_variable("counter")
    assert run(two, "padding_here") == two.imported_thread_variable("padding") != other
    assert run(two, "read_other") == 42
    pointer = two.machine.vm.reg_read("FS_OFFSET")
    assert two.imported_thread_variable("of_nobody") == pointer + 0x8_0000


@needs_gcc
def test_a_function_that_is_chosen(tmp_path: Path) -> None:
    """``STT_GNU_IFUNC``: the resolver runs at the first call, which goes on in what it chooses, as if nothing was."""
    source = """
        static long sum(long a, long b, long c, long d, long e, long f, long g) { return a + b * c + d * e + f * g; }
        static void* choose(void) { return sum; }
        long chosen(long, long, long, long, long, long, long) __attribute__((ifunc("choose")));
        long call(long a) { return chosen(a, 2, 3, 4, 5, 6, 7) + 1; }
    """
    process = built(tmp_path, source)
    assert run(process, "call", 100) == 100 + 6 + 20 + 42 + 1
    assert run(process, "call", 200) == 200 + 6 + 20 + 42 + 1
    process.close()


def stopping(reason: str, inside: bool) -> Callable[[Call], int]:
    def double(call: Call) -> int:
        if inside:  # what it calls back stops, for a reason of its own
            return call.machine.call(call.argument(0))
        raise Stop(reason, call.machine.vm.pc)

    return double


@needs_gcc
@pytest.mark.parametrize("inside", [False, True])
def test_where_it_stopped_is_in_the_object(tmp_path: Path, inside: bool) -> None:
    source = """
        extern int stops(void (*)(void));
        void bad(void) { *(volatile int*)0x1000 = 1; }
        int call(void) { return stops(bad) + 1; }
    """
    process = built(tmp_path, source, doubles={"stops": stopping("enough", inside)})
    with pytest.raises(Stop) as caught:
        run(process, "call")
    bad, call = (process.image.find(name) for name in ("bad", "call"))
    assert bad is not None
    assert call is not None
    place = bad if inside else call
    assert place.value <= caught.value.address - BASE < place.value + place.size
    assert caught.value.called == (None if inside else "stops")
    assert len(process.call_sites) == 1
    process.close()
