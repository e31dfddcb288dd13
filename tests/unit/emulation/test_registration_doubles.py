"""The doubles of torch against the table of its registration API."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from abiscan.binary import registration_api as api
from abiscan.binary.elf import ElfFile
from abiscan.emulation import recover
from abiscan.emulation.doubles.torch_classes import TORCH_CLASSES
from abiscan.emulation.doubles.torch_library import TORCH_LIBRARY
from abiscan.emulation.doubles.torch_lookups import TORCH_LOOKUPS
from abiscan.emulation.doubles.torch_operators import TORCH_OPERATORS
from abiscan.emulation.doubles.torch_registries import TORCH_REGISTRIES
from abiscan.emulation.doubles.torch_stable import TORCH_STABLE
from abiscan.emulation.doubles.torch_types import TORCH_TYPES

SAMPLE = Path(__file__).parents[3] / "sample_binaries" / "registrations" / "stable.so"
# These end what a library has registered.
ENDING = {"end of a library", r"_ZN5torch7Library(5resetEv|D[12]Ev)$"}
RECORDS = re.compile(r"recorder\.(?!lookup|has_operator)|_record_kernel\(")


def doubles() -> Iterator[tuple[str, Callable[..., Any]]]:
    for library in (TORCH_LIBRARY, TORCH_STABLE, TORCH_OPERATORS, TORCH_CLASSES, TORCH_REGISTRIES):
        yield from library.by_pattern
        yield from library.by_name.items()
    for other in (TORCH_TYPES, TORCH_LOOKUPS):
        yield from other.by_pattern
        yield from other.by_name.items()


def test_every_function_of_the_api_has_one_double() -> None:
    counts = Counter(pattern for pattern, _ in doubles())
    assert {pattern: counts[pattern] for pattern in api.API} == dict.fromkeys(api.API, 1)


def test_every_double_that_records_is_one_of_the_api() -> None:
    recording = {pattern for pattern, double in doubles() if RECORDS.search(inspect.getsource(double))}
    assert len(recording) >= 15
    assert recording - ENDING <= set(api.API)


def test_an_unknown_function_of_the_api_is_a_gap(tmp_path: Path) -> None:
    data = SAMPLE.read_bytes()
    known, newer = b"\0torch_library_impl\0", b"\0torch_library_next\0"
    assert known in data
    (tmp_path / "newer.so").write_bytes(data.replace(known, newer))
    file = ElfFile.open(tmp_path / "newer.so")
    facts = file.facts()
    assert api.registers_anything(facts.imports)
    symbols = [gap.symbol for gap in recover(file, facts).gaps if "unknown part of torch's registration" in gap.reason]
    assert symbols == ["torch_library_next"]
