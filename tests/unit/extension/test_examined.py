"""Which features of a processor the code of a target uses: those of all of its libraries for that processor."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from abiscan.binary.elf import Machine
from abiscan.emulation import cpu_reach
from abiscan.extension.examined import ExaminedTarget
from abiscan.inputs.files import Files
from abiscan.inputs.sources import Target, read_target
from tests.fakes import SAMPLES

X86_64, AARCH64 = Machine.X86_64, Machine.AARCH64
USED = {("a.so", X86_64): {"avx2"}, ("b.so", X86_64): {"fma"}, ("c.so", AARCH64): {"sve"}, ("d.so", AARCH64): None}


def library(name: str, machine: Machine) -> SimpleNamespace:
    return SimpleNamespace(facts=SimpleNamespace(machine=machine), source=SimpleNamespace(open_elf=lambda: name))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("a.so b.so c.so d.so", {X86_64: {"avx2", "fma"}, AARCH64: None}),  # one that is not known may use any
        ("d.so c.so a.so", {X86_64: {"avx2"}, AARCH64: None}),
        ("c.so", {X86_64: set(), AARCH64: {"sve"}}),
        ("", {X86_64: set(), AARCH64: set()}),
    ],
)
def test_features_of_all_code(
    names: str, expected: dict[Machine, set[str] | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_reach, "features_in", lambda name, machine: USED[name, machine])
    libraries = {name: library(name, machine) for name, machine in USED if name in names.split()}
    examined = ExaminedTarget(cast("Target", SimpleNamespace(extensions=(), libraries=libraries)))
    assert {machine: examined.features_in_code(machine) for machine in Machine} == expected


def test_the_kernels_of_an_operator_are_looked_at() -> None:
    """library.cpp gives ``sample::lambda`` its one kernel, and ``sample::scale.by`` two."""
    (examined,) = ExaminedTarget(
        read_target(SAMPLES / "registrations/library.so", Files(), "/site", "/site/torch")
    ).extensions
    reach = examined.operator_needs
    assert {name: reach[name].is_whole for name in ("sample::lambda", "sample::scale.by")} == {
        "sample::lambda": True,
        "sample::scale.by": True,
    }
