"""What differs from architecture to architecture in the features of processors: one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from abiscan.binary.machines import Machine


class Architecture(Struct, frozen=True, kw_only=True):
    """The words of an architecture for features.

    :ivar flags: what Linux calls features otherwise
    :ivar baseline_flags: what every processor has, as far as programs may look at it
    :ivar flags_title: how ``/proc/cpuinfo`` begins the line of the features
    :ivar cpuinfo_name: what py-cpuinfo calls the architecture
    :ivar level: what a variant wheel calls its levels or versions
    :ivar levels: the models by the levels of variant wheels, the lowest first
    :ivar newest: the model with whatever compilers use on their own where a processor has it
    """

    flags: Mapping[str, str]
    baseline_flags: tuple[str, ...]
    flags_title: str
    cpuinfo_name: str
    level: str
    levels: Mapping[str, str]
    newest: str

    @property
    def baseline(self) -> str:
        """The model that every processor is at least."""
        return next(iter(self.levels.values()))


# The names of Linux: arch/x86/include/asm/cpufeatures.h, arch/arm64/kernel/cpuinfo.c.
ARCHITECTURES: Final = {
    Machine.X86_64: Architecture(
        flags={
            "pni": "sse3",
            "sse4_1": "sse4.1",
            "sse4_2": "sse4.2",
            "cx16": "cmpxchg16b",
            "lahf_lm": "sahf",
            "abm": "lzcnt",
            "pclmulqdq": "pclmul",
            "sha_ni": "sha",
            "rdrand": "rdrnd",
            "avx_vnni": "avxvnni",
            "avx_ifma": "avxifma",
            "avx_ne_convert": "avxneconvert",
            "avx_vnni_int8": "avxvnniint8",
            "avx_vnni_int16": "avxvnniint16",
        },
        baseline_flags=("fpu", "tsc", "msr", "cx8", "cmov", "mmx", "fxsr", "sse", "sse2", "syscall", "nx", "lm"),
        flags_title="flags\t\t",
        cpuinfo_name="X86_64",
        level="level",
        levels={"v1": "x86-64", "v2": "x86-64-v2", "v3": "x86-64-v3", "v4": "x86-64-v4"},
        newest="x86-64-v4",
    ),
    Machine.AARCH64: Architecture(
        flags={
            "atomics": "lse",
            "asimddp": "dotprod",
            "lrcpc": "rcpc",
            "fphp": "fp16",
            "crc32": "crc",
        },
        baseline_flags=("fp", "asimd"),
        flags_title="Features\t",
        cpuinfo_name="ARM_8",
        level="version",
        levels={
            "8a": "armv8-a",
            **{f"8.{minor}a": f"armv8.{minor}-a" for minor in range(1, 7)},
            "9.0a": "armv9-a",
        },
        newest="armv8.6-a",
    ),
}
