"""What the processor of this machine can do: tests that really run instructions need it, those that emulate do not."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Final

import pytest


def has(*flags: str) -> bool:
    """Whether the processor has all of these flags, by their names in /proc/cpuinfo; never if it is not x86_64."""
    information = Path("/proc/cpuinfo")
    known = information.read_text("utf-8").split() if platform.machine() == "x86_64" and information.is_file() else []
    return set(flags) <= set(known)


HAS_AVX2: Final = has("avx2")
needs_avx2: Final = pytest.mark.skipif(not HAS_AVX2, reason="needs a processor with AVX2")
# x86-64-v4 of the System V ABI for x86-64, "Microarchitecture Levels".
needs_avx512: Final = pytest.mark.skipif(
    not has("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"), reason="needs a processor with AVX-512"
)
