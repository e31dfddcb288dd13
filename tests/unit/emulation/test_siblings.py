"""Several objects in one process, and doubles in the place of functions that an object defines itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.doubles import finder
from abiscan.emulation.doubles.cpython import fill_datum
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.process import Call, Double, EmulatedProcess

SAMPLES = Path(__file__).parents[3] / "sample_binaries" / "registrations"
NAMES = ("library", "operators")


@pytest.fixture
def process() -> EmulatedProcess:
    first, second = (ElfFile.open(SAMPLES / f"{name}.so") for name in NAMES)
    found = EmulatedProcess(first, first.facts().machine, finder((LIBC,)), fill_datum, (second,))
    found.call_limit = 10_000
    return found


def test_each_object_has_a_place_of_its_own(process: EmulatedProcess) -> None:
    first, second = process.images
    assert process.image_at(first.base) is first
    assert process.image_at(second.base) is second
    assert process.image_at(first.base + first.size) is None


@pytest.mark.parametrize("index", [0, 1])
def test_every_exported_name_is_found(process: EmulatedProcess, index: int) -> None:
    exported = list(ElfFile.open(SAMPLES / f"{NAMES[index]}.so").facts().symbols.starting_with(""))
    image = process.images[index]
    assert exported
    for name in exported:
        found = image.find(name)
        assert found is not None
        assert found.name == name
    assert image.find("no_such_name") is None


def test_what_a_sibling_defines_is_bound_to_it(process: EmulatedProcess) -> None:
    second = process.images[1]
    names = ElfFile.open(SAMPLES / "operators.so").facts().symbols.starting_with("")
    name = next(name for name in sorted(names) if process.images[0].find(name) is None)
    assert second.contains(process.bind(name))


def defined_function(process: EmulatedProcess) -> int:
    """A function of the first object."""
    return process.images[0].initialisers()[0]


def test_a_diverted_function_is_answered_by_its_double(process: EmulatedProcess) -> None:
    seen: list[int] = []

    def double(call: Call) -> int:
        seen.append(call.argument(0))
        return 42

    find: dict[str, Double] = {"planted": double}
    process._find_double = find.get
    process.plant(defined_function(process), "planted")
    for _ in range(2):
        assert process.machine.start(defined_function(process), (7,), 1000) == 42
    assert seen == [7, 7]


def test_an_observed_function_does_its_work(process: EmulatedProcess) -> None:
    seen: list[int] = []

    def observer(call: Call) -> None:
        seen.append(call.argument(0))

    find: dict[str, Double] = {"watched": observer}
    process._find_double = find.get
    target = process.bind("strlen")
    if process.image_at(target) is None:  # code of the process itself: as good as an object's
        process.observe(target, "watched")
    text = process.store(b"four\0")
    for _ in range(2):
        assert process.machine.start(target, (text,), 1000) == 4
    assert seen == [text, text]


def test_a_skipped_function_does_nothing(process: EmulatedProcess) -> None:
    target = defined_function(process)
    process.skip(target)
    assert process.machine.start(target, (1,), 10) == 0
