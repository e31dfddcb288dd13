"""The processor of this machine, as Linux describes it in ``/proc/cpuinfo``."""

from __future__ import annotations

from pathlib import Path

import pytest

from abiscan.binary.machines import Machine
from abiscan.cpu import processors
from abiscan.cpu.torches import torch_needs

# arch/x86/kernel/cpu/proc.c and arch/arm64/kernel/cpuinfo.c: a line for each field, the same for each processor.
X86 = """\
processor\t: 0
vendor_id\t: AuthenticAMD
flags\t\t: fpu sse2 ssse3 sse4_1 avx avx2 fma
bogomips\t: 4891.00

processor\t: 1
vendor_id\t: AuthenticAMD
flags\t\t: fpu
"""
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd atomics\nCPU implementer\t: 0x41\n"


@pytest.mark.parametrize(
    ("text", "architecture", "machine", "some", "maker"),
    [
        (X86, "x86_64", Machine.X86_64, {"ssse3", "avx", "avx2", "fma"}, "AuthenticAMD"),
        (ARM, "aarch64", Machine.AARCH64, {"lse"}, None),  # Arm calls atomics LSE
        (X86, "riscv64", None, set(), "AuthenticAMD"),
        ("processor\t: 0\n", "x86_64", None, set(), None),
        (None, "x86_64", None, set(), None),
    ],
)
def test_the_processor_of_this_machine(
    text: str | None,
    architecture: str,
    machine: Machine | None,
    some: set[str],
    maker: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if text is not None:
        tmp_path.joinpath("cpuinfo").write_text(text)
    monkeypatch.setattr(processors, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr("platform.machine", lambda: architecture)
    found = processors.native_cpu.__wrapped__()
    assert (found and found.machine) == machine
    assert processors.native_maker.__wrapped__() == maker
    if found is not None:
        assert found.features >= some
        assert not found.features & {"avx512f", "sve"}
        assert processors.cpuinfo(found) == text


@pytest.mark.parametrize(
    ("machine", "release", "features"),
    [
        # Recorded: "import torch" of 2.13.0 ends with SIGILL on Nehalem and Westmere, and not on SandyBridge.
        (Machine.X86_64, (2, 13), ("avx",)),
        (Machine.X86_64, (2, 12), ()),
        (Machine.AARCH64, (2, 13), ()),
        (Machine.X86_64, None, ()),
    ],
)
def test_what_torch_itself_needs(machine: Machine, release: tuple[int, int] | None, features: tuple[str, ...]) -> None:
    assert torch_needs(machine, release) == features


# arch/x86/include/asm/cpufeatures.h: only the newer ones have an underscore.
AVX512 = (
    *("avx512f", "avx512dq", "avx512ifma", "avx512pf", "avx512er", "avx512cd", "avx512bw", "avx512vl", "avx512vbmi"),
    *("avx512_vbmi2", "avx512_vnni", "avx512_bitalg", "avx512_vpopcntdq", "avx512_4vnniw", "avx512_4fmaps"),
    *("avx512_vp2intersect", "avx512_bf16", "avx512_fp16"),
)


@pytest.mark.parametrize("flag", AVX512)
def test_avx512_is_spelled_as_linux_does(flag: str) -> None:
    feature = processors.feature_of_flag(Machine.X86_64, flag)
    assert feature == flag.replace("_", "")
    assert processors.flag_of_feature(Machine.X86_64, feature) == flag
