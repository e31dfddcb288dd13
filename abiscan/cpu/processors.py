"""Processors by the names that people use for them: levels of the psABI, models, and this machine."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from abiscan.binary.machines import Machine
from abiscan.cpu.architectures import ARCHITECTURES

NATIVE: Final = "native"
_MODELS: Final = Path(__file__).with_name("models.txt")
_CPUINFO: Final = Path("/proc/cpuinfo")
_FIRST_PROCESSOR: Final = 1 << 14
_LEVELS: Final = tuple(ARCHITECTURES[Machine.X86_64].levels.values())
_NEWER_AVX512: Final = frozenset(
    ("vbmi2", "vnni", "bitalg", "vpopcntdq", "4vnniw", "4fmaps", "vp2intersect", "bf16", "fp16")
)
_AMX: Final = re.compile(r"amx_(\w+)")


class Cpu(Struct, frozen=True, kw_only=True):
    """A processor: its name as the user gave it, and its features beyond the baseline of its architecture."""

    name: str
    machine: Machine
    features: frozenset[str]

    @property
    def is_complete(self) -> bool:
        """Whether it has whatever a compiler may use without being asked for more than a level or a version."""
        return _every(self.machine) <= self.features

    def lacks(self, features: Iterable[str]) -> tuple[str, ...]:
        """Return those of some features that it does not have, in their order."""
        return tuple(feature for feature in features if feature not in self.features)


def cpu(text: str) -> Cpu | None:
    """Return the processor that a level or the name of a model stands for; None for an unknown name."""
    key = text.lower().replace("_", "-")
    return next(
        (
            Cpu(name=text, machine=machine, features=_model[key])
            for machine, _model in _models_by_machine()
            if key in _model
        ),
        None,
    )


def names() -> tuple[str, ...]:
    """Return all names that ``cpu`` knows."""
    return tuple(name for _, _model in _models_by_machine() for name in _model)


@functools.cache  # asked before files of the system can no longer be read: see ``isolation``
def native_cpu() -> Cpu | None:
    """Return the processor of this machine; None where Linux does not tell its features, or it is of another
    architecture.
    """
    machine = next((machine for machine in Machine if machine.value == platform.machine()), None)
    try:
        with _CPUINFO.open(encoding="utf-8", errors="replace") as stream:
            text = stream.read(_FIRST_PROCESSOR)
    except OSError:
        return None
    # x86 and Arm kernels have different words for it; all processors of a machine have the same features.
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    if machine is None or flags is None or os.name != "posix":
        return None
    return Cpu(
        name=NATIVE, machine=machine, features=frozenset(feature_of_flag(machine, flag) for flag in flags[1].split())
    )


@functools.cache
def native_maker() -> str | None:
    """Return the maker of the processor of this machine, as an x86 processor spells it."""
    with contextlib.suppress(OSError), _CPUINFO.open(encoding="utf-8", errors="replace") as stream:
        maker = re.search(r"^vendor_id\s*:\s*(\S+)", stream.read(_FIRST_PROCESSOR), re.MULTILINE)
        return maker[1] if maker else None
    return None


def cpuinfo(cpu: Cpu) -> str:
    """Return what ``/proc/cpuinfo`` has of a processor that decides anything: its features, as Linux names them."""
    if cpu.name == NATIVE:
        with contextlib.suppress(OSError), _CPUINFO.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(_FIRST_PROCESSOR)
    flags = linux_flags(cpu)
    title = ARCHITECTURES[cpu.machine].flags_title
    return f"processor\t: 0\n{title}: {' '.join(flags)}\n\n"


def linux_flags(cpu: Cpu) -> list[str]:
    """Return what Linux calls the features of a processor, those that every one has first."""
    return [
        *ARCHITECTURES[cpu.machine].baseline_flags,
        *sorted(flag_of_feature(cpu.machine, feature) for feature in cpu.features),
    ]


def flag_of_feature(machine: Machine, feature: str) -> str:
    """Return what Linux calls a feature: the newer ones of AVX-512 have an underscore."""
    linux = {item: flag for flag, item in ARCHITECTURES[machine].flags.items()}
    if feature in linux:
        return linux[feature]
    name = feature.removeprefix("avx512")
    is_newer = name != feature and name in _NEWER_AVX512
    return f"avx512_{name}" if is_newer else feature.replace("-", "_")


def capability(cpu: Cpu) -> str | None:
    """Return ``torch.backends.cpu.get_cpu_capability()``: ATen/native/DispatchStub.cpp; None if that is not known."""
    if cpu.machine is not Machine.X86_64:
        return None
    if not cpu.lacks(("avx512vl", "avx512bw", "avx512dq", "fma")):
        return "AVX512"
    return "DEFAULT" if cpu.lacks(("avx2", "fma")) else "AVX2"


def feature_of_flag(machine: Machine, flag: str) -> str:
    """Return the feature behind a flag of Linux."""
    if machine is Machine.X86_64 and flag.startswith("avx512"):
        return flag.replace("_", "")
    return _AMX.sub(r"amx-\1", ARCHITECTURES[machine].flags.get(flag, flag))


def level_of(features: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Return the lowest level of the x86-64 psABI that has most of some features, and those that no level has."""
    requested, (_, features_by_name) = frozenset(features), _models_by_machine()[0]
    # Each level contains the ones below (x86-64 psABI, 3.1.1), so the first one with the remaining features is the
    # lowest.
    beyond = requested - features_by_name[_LEVELS[-1]]
    level = next(level for level in _LEVELS if requested - beyond <= features_by_name[level])
    return level, tuple(sorted(beyond))


def isa_levels(cpu: Cpu) -> int:
    """Return the levels of x86-64 that a processor has, as bits of GNU_PROPERTY_X86_ISA_1_NEEDED (x86-64 psABI)."""
    _, features_by_name = _models_by_machine()[0]
    return sum(1 << bit for bit, level in enumerate(_LEVELS) if not cpu.lacks(features_by_name[level]))


def features_with(machine: Machine, flag: str) -> frozenset[str] | None:
    """Return what all known processors with a flag of Linux have; None if there are none."""
    if flag in ARCHITECTURES[machine].baseline_flags:
        return frozenset()
    feature = feature_of_flag(machine, flag)
    # No processor has AVX-512 VNNI without AVX-512F: what all of them have comes with the feature.
    having = [features for features in dict(_models_by_machine())[machine].values() if feature in features]
    return frozenset.intersection(*having) if having else None


@functools.cache
def _every(machine: Machine) -> frozenset[str]:
    """Return the features that compilers use on their own where a processor has them."""
    return dict(_models_by_machine())[machine][ARCHITECTURES[machine].newest]


@functools.cache
def _models_by_machine() -> tuple[tuple[Machine, dict[str, frozenset[str]]], ...]:
    results: list[tuple[Machine, dict[str, frozenset[str]]]] = []
    for line in _MODELS.read_text("utf-8").splitlines():
        if line.startswith("["):
            results.append((Machine(line.strip("[]")), {}))
        elif line and not line.startswith("#"):
            spelled, _, words = line.partition(":")
            name, _, aliases = spelled.strip().partition("=")
            features_by_name = results[-1][1]
            parts = (features_by_name.get(word, frozenset((word,))) for word in words.split())
            features = frozenset[str]().union(*parts)
            features_by_name.update(dict.fromkeys((name, *filter(None, aliases.split(","))), features))
    return tuple(results)
