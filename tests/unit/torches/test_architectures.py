"""The GPUs that a torch has code for: a list in its ``libtorch_python.so``, or an embedded one."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from abiscan.gpu.devices import Gpu
from abiscan.inputs.files import Files
from abiscan.torches.architectures import architectures, has_code_for
from abiscan.torches.from_libs import from_path
from tests.elf_builder import Elf
from tests.fakes import torch_package


def of(package: Path, build: str | None = None) -> tuple[str, ...] | None:
    files = Files()
    release = from_path(package, files)
    return architectures(replace(release, build=build) if build else release, files)


def test_the_list_is_a_text_in_the_library(tmp_path: Path) -> None:
    """TORCH_CUDA_ARCH_FLAGS, which torch/csrc/cuda/Module.cpp returns, is what the build was told, with spaces."""
    package = torch_package(tmp_path)
    texts = (b"sm_", b"sm_7 is too short", b"sm_80 sm_90a compute_90")
    Elf(soname="libtorch_python.so", texts=texts).write(package / "lib/libtorch_python.so")
    assert of(package) == ("sm_80", "sm_90a", "compute_90")


def test_a_build_for_cpus_has_no_list(tmp_path: Path) -> None:
    assert of(torch_package(tmp_path)) is None


def test_a_library_that_is_damaged_or_absent_has_no_list(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    library = package / "lib/libtorch_python.so"
    library.write_bytes(library.read_bytes()[:70])
    assert of(package) is None
    library.unlink()
    assert of(package) is None


def test_an_embedded_build_needs_no_library(tmp_path: Path) -> None:
    """The notes of torch 1.8.1: its wheel for CUDA 10.2 has no code for the GPUs of CUDA 11, sm_80 and sm_86."""
    found = of(torch_package(tmp_path), "1.8.1+cu102")
    assert found == ("sm_37", "sm_50", "sm_60", "sm_70")


@pytest.mark.parametrize(
    ("targets", "capability", "expected"),
    [
        # CUDA C++ Programming Guide, "Binary Compatibility": a cubin runs on devices of its major version, from its
        # minor version on; "PTX Compatibility": PTX is compiled for any later device.
        (("sm_80",), 80, True),
        (("sm_80",), 86, True),
        (("sm_86",), 80, False),
        (("sm_80",), 90, False),
        (("compute_80",), 90, True),
        (("compute_90",), 80, False),
        (("sm_90a",), 90, True),  # for compute capability 9.0 alone
        (("sm_90a",), 100, False),
        (("compute_90a",), 100, False),
        (("sm_70", "sm_80"), 89, True),
        ((), 80, False),
        (("not a target",), 80, False),
    ],
)
def test_a_gpu_runs_what_nvidia_says(targets: tuple[str, ...], capability: int, expected: bool) -> None:
    assert has_code_for(Gpu(name="a GPU", capability=capability), targets, "2.6.0+cu126") is expected


@pytest.mark.parametrize(
    ("build", "expected"),
    [("2.13.0+cu132", True), ("2.13.0+cu140", True), ("2.13.0+cu130", False), ("2.9.0+cu129", False)],
)
def test_jetson_runs_code_of_cuda_13_2_for_other_boards(build: str, expected: bool) -> None:
    """``+cu132`` is CUDA 13.2: before it, Orin (8.7) runs nothing that is for 8.0, see ``gpu.compatibility``."""
    assert has_code_for(Gpu(name="Orin", capability=87), ("sm_80",), build) is expected


def test_the_toolkit_of_a_build_may_be_unknown() -> None:
    for build in ("2.13.0", "2.13.0+cpu", "2.13.0+cu1", None):
        assert has_code_for(Gpu(name="A100", capability=80), ("sm_80",), build)
        assert not has_code_for(Gpu(name="H100", capability=90), ("sm_80",), build)
