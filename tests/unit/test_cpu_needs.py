"""What is lacking on a processor: Haswell has AVX2 and no AVX-512 (Intel's SDM), x86-64-v2 neither (the psABI)."""

from __future__ import annotations

import pytest

from abiscan.binary.elf import Machine
from abiscan.cpu.instructions import features_of
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


@pytest.mark.parametrize(
    ("code", "features"),
    [
        # As the GNU assembler encodes them. SDM 2A, 2.7: a shorter vector than 512 bits needs AVX512VL, unless the
        # length bits say how to round, which EVEX.b does between registers; the mask is in the bits below it.
        ("62 f1 74 49 58 c2", ("avx512f",)),  # vaddps %zmm2,%zmm1,%zmm0{%k1}
        ("62 f1 74 18 58 c2", ("avx512f",)),  # vaddps {rn-sae},%zmm2,%zmm1,%zmm0
        ("62 f1 74 29 58 c2", ("avx512f", "avx512vl")),  # vaddps %ymm2,%ymm1,%ymm0{%k1}
        ("62 f1 74 38 58 00", ("avx512f", "avx512vl")),  # vaddps (%rax){1to8},%ymm1,%ymm0
        ("62 b1 74 28 58 c2", ("avx512f", "avx512vl")),  # vaddps %ymm18,%ymm1,%ymm0
        ("c5 f4 58 c2", ("avx",)),  # vaddps %ymm2,%ymm1,%ymm0
        ("c4 e2 71 98 c2", ("fma",)),  # vfmadd132ps %xmm2,%xmm1,%xmm0
        ("c4 e2 70 f2 c2", ("bmi1",)),  # andn %edx,%ecx,%eax
        ("48 01 c0", ()),  # add %rax,%rax
        ("66 0f 38 00 c1", ("ssse3",)),  # pshufb %xmm1,%xmm0
        ("66 0f 3a 0f c1 08", ("ssse3",)),  # palignr $8,%xmm1,%xmm0
        ("66 0f fe c1", ()),  # paddd %xmm1,%xmm0
        ("f3 48 0f b8 c0", ("popcnt",)),  # popcnt %rax,%rax
        ("f3 0f b8 c0", ("popcnt",)),  # popcnt %eax,%eax
    ],
)
def test_what_an_instruction_needs(code: str, features: tuple[str, ...]) -> None:
    assert features_of(Machine.X86_64, bytes.fromhex(code) + bytes(8)) == features
