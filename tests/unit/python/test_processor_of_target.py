"""What code is told of the processor: the file of Linux, and torch's own functions."""

from __future__ import annotations

import pytest

from abiscan.cpu.processors import Cpu, cpu, cpuinfo
from abiscan.python.package.model import Reading
from tests.unit.python.packages import FakeWorld, reading_of

LOADS = 'torch.ops.load_library(os.path.join(os.path.dirname(__file__), f"{name}.so"))\n'
FROM_LINUX = f"""
import os
import torch

def features():
    with open("/proc/cpuinfo") as stream:
        for line in stream:
            if line.startswith(("flags", "Features")):
                return set(line.split(":", 1)[1].split())
    return set()

name = "fast" if {{"avx2", "avx512_vnni", "abm"}} <= features() else "slow"
{LOADS}"""
FROM_TORCH = f"""
import os
import torch

capability = torch.backends.cpu.get_cpu_capability()
name = {{"AVX512": "fast", "AVX2": "middle"}}.get(capability, "slow")
{LOADS}"""
BY_SUPPORT = f"""
import os
import torch

name = "fast" if torch.cpu._is_avx512_supported() else "middle" if torch.cpu._is_avx2_supported() else "slow"
{LOADS}"""

FROM_CPUINFO = f"""
import os
import torch
from cpuinfo import get_cpu_info

flags = set(get_cpu_info()["flags"])
name = "fast" if "avx512_vnni" in flags else "middle" if "avx2" in get_cpu_info().get("flags", []) else "slow"
{LOADS}"""
FROM_ITS_MODULE = f"""
import os
import torch
import cpuinfo

info = cpuinfo.get_cpu_info()
name = "middle" if "flags" in info and info["arch"] == "X86_64" and "avx2" in info["flags"] else "slow"
{LOADS}"""


def read(source: str, processor: Cpu | None) -> Reading:
    files: dict[str, str | bytes] = {
        "pkg/__init__.py": source,
        **{f"pkg/{name}.so": b"" for name in ("fast", "middle", "slow")},
    }
    return reading_of(files, FakeWorld(cpu=processor))


@pytest.mark.parametrize(
    ("source", "name", "chosen"),
    [
        (FROM_LINUX, "icelake-server", "fast"),
        (FROM_LINUX, "haswell", "slow"),
        (FROM_TORCH, "icelake-server", "fast"),
        (FROM_TORCH, "haswell", "middle"),
        (FROM_TORCH, "nehalem", "slow"),
        (BY_SUPPORT, "x86-64-v4", "fast"),
        (BY_SUPPORT, "x86-64-v3", "middle"),
        (BY_SUPPORT, "x86-64-v2", "slow"),
        (FROM_CPUINFO, "icelake-server", "fast"),
        (FROM_CPUINFO, "haswell", "middle"),
        (FROM_CPUINFO, "nehalem", "slow"),
        (FROM_ITS_MODULE, "haswell", "middle"),
        (FROM_ITS_MODULE, "neoverse-n1", "slow"),
    ],
)
def test_code_chooses_by_the_processor(source: str, name: str, chosen: str) -> None:
    outcomes = read(source, cpu(name)).imports
    assert [load.path for outcome in outcomes for load in outcome.loads] == [f"pkg/{chosen}.so"]
    assert [outcome.conditions for outcome in outcomes] == [()]


@pytest.mark.parametrize("source", [FROM_LINUX, FROM_TORCH, BY_SUPPORT, FROM_CPUINFO, FROM_ITS_MODULE])
def test_what_is_chosen_is_open_if_the_processor_is_not_known(source: str) -> None:
    assert [outcome for outcome in read(source, None).imports if outcome.conditions or outcome.gaps]


def test_a_package_may_bring_a_module_of_that_name() -> None:
    files: dict[str, str | bytes] = {
        "pkg/__init__.py": FROM_CPUINFO,
        "cpuinfo.py": "def get_cpu_info():\n    return {'flags': ['avx2']}\n",
        "pkg/middle.so": b"",
    }
    outcomes = reading_of(files, FakeWorld(cpu=cpu("nehalem"))).imports
    assert [load.path for outcome in outcomes for load in outcome.loads] == ["pkg/middle.so"]


def test_what_else_it_tells_is_open() -> None:
    source = FROM_ITS_MODULE.replace('info["arch"] == "X86_64"', '"Intel" in info["brand_raw"]')
    assert [outcome for outcome in read(source, cpu("haswell")).imports if outcome.conditions or outcome.gaps]


def test_linux_has_names_of_its_own() -> None:
    known = cpu("icelake-server")
    assert known is not None
    (line,) = (line for line in cpuinfo(known).splitlines() if line.startswith("flags"))
    flags = set(line.split(":", 1)[1].split())
    # arch/x86/include/asm/cpufeatures.h
    assert {"pni", "sse4_2", "abm", "avx512f", "avx512vl", "avx512_vnni", "avx512_vbmi2", "avx512vbmi", "cx16"} <= flags
    assert not {"sse4.2", "lzcnt", "avx512vnni", "sse3"} & flags
