"""Which operator launches which kernels, and where they run: the samples, whose source says it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from abiscan.extension import gpu
from abiscan.extension.examined import examine
from abiscan.extension.gpu import ExtensionGpu
from abiscan.gpu.devices import find_gpu
from abiscan.gpu.model import Container, GpuCode
from abiscan.inputs.session import Session
from abiscan.registrations import GpuKernel
from tests.unit.gpu.samples import FOLDER, read
from tools.gpu_truth import kernels_of_plain_code, registered

KERNELS = {"add": "_Z10add_kernelPf", "scale": "_Z12scale_kernelPf", "fill": "_Z11fill_kernelPf"}


@pytest.fixture(scope="module", params=["mixed.so", "group.so", "relocatable.so"])
def code(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ExtensionGpu:
    return of(request.param, tmp_path_factory.mktemp("store"))


def of(name: str, folder: Path) -> ExtensionGpu:
    (extension,) = examine(FOLDER / name, Session(folder=folder)).extensions
    assert extension.gpu is not None
    return extension.gpu


def test_the_kernels_that_each_operator_launches(code: ExtensionGpu) -> None:
    launched = {
        kernel.operator.removeprefix("gpu_sample::"): {of.name for stub in stubs for of in code.kernels[stub]}
        for kernel, stubs in code.launches.items()
    }
    single = {operator: {name} for operator, name in KERNELS.items()}
    assert launched == {**single, "either": {KERNELS["add"], KERNELS["scale"]}}


def test_what_launches_nothing_is_a_gap(code: ExtensionGpu) -> None:
    assert any("gpu_sample::nothing" in gap for gap in code.gaps)
    assert not any("no kernel was seen" in gap for gap in code.gaps)


def test_where_the_operators_run(tmp_path: Path) -> None:
    code = of("mixed.so", tmp_path)
    targets = {kernel.operator: code.targets(kernel) for kernel in code.launches}
    assert targets == {
        "gpu_sample::add": ("sm_80", "compute_80"),
        "gpu_sample::scale": ("sm_90a",),
        "gpu_sample::fill": ("sm_120f",),
        "gpu_sample::either": ("sm_80", "sm_90a", "compute_80"),
    }
    failing = {}
    for name in ("7.5", "8.6", "9.0", "12.1"):
        target = find_gpu(name)
        assert target is not None
        failing[name] = {operator.removeprefix("gpu_sample::") for operator in code.on(target).failing}
    assert failing == {
        "7.5": {"add", "scale", "fill", "either"},
        "8.6": {"scale", "fill"},
        "9.0": {"fill"},
        "12.1": {"scale"},
    }


def test_what_the_file_needs(tmp_path: Path) -> None:
    code = of("zstd.so", tmp_path)
    assert (code.runtime, str(code.driver), code.code.toolkit) == ("13", "580", None)


def test_kernels_in_another_library_of_the_package(tmp_path: Path) -> None:
    """``split/operators.so`` needs ``libbetween.so``, which needs ``libkernels.so``."""
    extensions = examine(FOLDER / "split", Session(folder=tmp_path)).extensions
    (code,) = (extension.gpu for extension in extensions if extension.name == "operators.so")
    assert code is not None
    assert code.code.containers == ()
    launched = {
        kernel.operator.removeprefix("gpu_sample::"): {of.name for stub in stubs for of in code.kernels[stub]}
        for kernel, stubs in code.launches.items()
    }
    assert launched == {
        **{operator: {name} for operator, name in KERNELS.items()},
        "either": {KERNELS["add"], KERNELS["scale"]},
    }
    old, new = find_gpu("8.0"), find_gpu("9.0")
    assert old is not None
    assert new is not None
    assert set(code.on(old).failing) == set(code.operators)
    assert code.on(new).failing == {}
    assert any("gpu_sample::nothing" in gap for gap in code.gaps)


@pytest.mark.parametrize("name", ["mixed.so", "relocatable.so", "split/libkernels.so"])
def test_the_kernels_that_are_registered_are_those_of_the_machine_code(name: str) -> None:
    """The symbols of the machine code itself, which is not compressed here, against what initialisers say."""
    data = (FOLDER / name).read_bytes()
    by_symbols = kernels_of_plain_code(read(FOLDER / name), lambda offset, size: data[offset : offset + size])
    named = {address: set().union(*symbols) for address, symbols in by_symbols.items()}
    assert registered(FOLDER / name) == {address: names for address, names in named.items() if names}
    assert set().union(*named.values()) == set(KERNELS.values())


@pytest.mark.parametrize("which", [None, 1, 2])
def test_calls_into_libraries_are_followed_if_one_has_code_for_a_gpu(
    which: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: list[Any] = ["own", "first", "second"]
    with_code = GpuCode(containers=(Container(address=0x1000, entries=()),))
    codes = {name: with_code if number in (0, which) else GpuCode() for number, name in enumerate(files)}
    searched: list[Any] = []

    def find_launches(files: list[Any], *_: object) -> dict[object, object]:
        searched.extend(files)
        return {}

    monkeypatch.setattr(gpu, "_code_of", codes.__getitem__)
    monkeypatch.setattr(gpu, "_find_launches", find_launches)
    kernel = GpuKernel(name="k", stub=1, container=0x1000)
    registrations: Any = SimpleNamespace(kernels=[object()], gpu_kernels=[kernel])
    facts: Any = SimpleNamespace(needed=(), imports=())
    inventory: Any = SimpleNamespace(registrations=registrations, kernels=(), operators=())
    linked = [gpu.LinkedLibrary(source=source, registrations=lambda: registrations) for source in files[1:]]
    found = gpu.read_extension_gpu(files[0], facts, inventory, linked)
    assert searched == (files[:1] if which is None else files)
    assert found is not None
    assert found.kernels.keys() == {gpu.Stub(number, 1) for number in {0, which or 0}}
