"""What is lacking on a processor: Haswell has AVX2 and no AVX-512 (Intel's SDM), x86-64-v2 neither (the psABI)."""

from __future__ import annotations

import pytest

from abiscan.binary.elf import Machine
from abiscan.cpu.needs import CpuAtLoad, CpuGap, CpuNeeds, CpuReach, CpuUse
from abiscan.cpu.processors import capability, cpu, isa_levels


def use(feature: str) -> CpuUse:
    return CpuUse(feature=feature, address=16, symbol="f", initialiser=8, source=None, in_module=False)


NEEDS = CpuNeeds(
    machine=Machine.X86_64,
    files={
        "a.so": CpuAtLoad(uses=(use("avx2"),), unread=(CpuGap(place="one", features=("avx512f",)),)),
        "b.so": CpuAtLoad(unread=(CpuGap(place="two", features=("avx2",)), CpuGap(place="three"))),
    },
    operators={
        "ns::f": CpuReach(uses=(use("avx2"), use("avx512f")), behind=(), is_whole=True),
        "ns::g": CpuReach(uses=(), behind=("avx512f",), is_whole=True),
    },
)


@pytest.mark.parametrize(
    ("name", "lacking", "unread", "failing"),
    [
        ("haswell", [], ["a.so: one", "b.so: three"], ["avx512f"]),
        ("x86-64-v2", ["a.so"], ["a.so: one", "b.so: two", "b.so: three"], ["avx2", "avx512f"]),
        ("neoverse-n1", [], [], None),
    ],
)
def test_what_a_processor_lacks(name: str, lacking: list[str], unread: list[str], failing: list[str] | None) -> None:
    processor = cpu(name)
    assert processor is not None
    assert list(NEEDS.lacking(processor)) == lacking
    assert list(NEEDS.unread(processor)) == unread
    found = {operator: [one.feature for one in uses] for operator, uses in NEEDS.failing_operators(processor).items()}
    assert found == ({"ns::f": failing} if failing else {})


def test_what_is_needed() -> None:
    assert (NEEDS.features, NEEDS.level, NEEDS.summary) == (("avx2",), "x86-64-v3", "x86-64-v3")
    assert str(use("avx2")) == "initialiser at 0x8: instruction at 0x10 of f"


@pytest.mark.parametrize(
    ("name", "levels", "of_torch"),
    [
        # elf.h: GNU_PROPERTY_X86_ISA_1_BASELINE is bit 0, _V2 to _V4 are the next ones. torch asks for AVX2 with FMA,
        # and for four parts of AVX-512 (DispatchStub.cpp).
        ("x86-64", 0b0001, "DEFAULT"),
        ("x86-64-v2", 0b0011, "DEFAULT"),
        ("haswell", 0b0111, "AVX2"),
        ("x86-64-v4", 0b1111, "AVX512"),
    ],
)
def test_levels_as_bits_and_as_torch_calls_them(name: str, levels: int, of_torch: str) -> None:
    processor = cpu(name)
    assert processor is not None
    assert (isa_levels(processor), capability(processor)) == (levels, of_torch)
