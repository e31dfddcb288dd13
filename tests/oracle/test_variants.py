"""Levels in the properties of variant wheels, compared with loads that user-mode emulation recorded.

The processors of ``tests/data/cpu/loads.jsonl`` (``tools/record_cpu_loads.py``) stand for levels: Nehalem has x86-64-v2
and nothing else, Haswell v3; Core 2 Duo has a little more than the baseline.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import abiscan
from abiscan.findings import Effect
from abiscan.results.verdict import Verdict
from tests.fakes import extension, variant_wheel
from tests.oracle.cpu_loads import RECORDED_LOADS, SIGILL, extract_libraries

LEVELS: Final = {"core2duo": "v1", "Nehalem": "v2", "Haswell": "v3"}
BEYOND: Final = {"v1": {"sse3.so", "ssse3.so"}, "v2": set[str](), "v3": {"aes.so", "pclmul.so"}}
"""What these processors run, and not all that the level stands for: QEMU, target/i386/cpu.c."""

RECORD: Final = [
    line
    for line in RECORDED_LOADS
    if line["library"] != "avx2_in_module.so"  # what needs it does not import it
]
LIBRARIES: Final = sorted({line["library"] for line in RECORD})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return extract_libraries(tmp_path_factory.mktemp("cpu"))


def brought_along(folder: Path) -> dict[str, bytes]:
    """All libraries, and for each an extension of torch that needs it."""
    libraries = {f"pkg/{name}": (folder / name).read_bytes() for name in LIBRARIES}
    return libraries | {f"pkg/uses_{name}": extension(needed=(name, "libtorch_cpu.so")).build() for name in LIBRARIES}


@pytest.mark.parametrize("level", LEVELS.values())
def test_a_level_is_wrong_where_processors_of_it_die(folder: Path, tmp_path: Path, level: str) -> None:
    path = variant_wheel(tmp_path, f"x86_64_{level}", {"x86_64": {"level": [level]}}, brought_along(folder))
    report = abiscan.check(path, "2.13.0", each_file=True)
    wrong = {
        result.path.removeprefix("pkg/uses_")
        for result in report.results
        for finding in result.findings
        if (finding.rule, finding.effect) == ("variant-property-wrong", Effect.LOAD_FAILS)
    }
    died = {line["library"] for line in RECORD if LEVELS.get(line["cpu"]) == level and line.get("signal") == SIGILL}
    assert len(report.results) == len(LIBRARIES)
    assert {result.verdict for result in report.results} == {Verdict.LOADS}  # this machine is not asked
    assert wrong == died | BEYOND[level]
