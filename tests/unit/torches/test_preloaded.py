"""Libraries of CUDA that torch itself loads by their paths: the code is that of its ``_load_global_deps``."""

from __future__ import annotations

from pathlib import Path

import pytest

import abiscan
from abiscan.inputs.files import Files
from abiscan.torches.preloaded import list_preloaded
from tests.elf_builder import Elf
from tests.fakes import extension, install, python_of, torch_package

# Torch 2.9, 2.13 and 2.14: two calls, a list that ends at the first absent library, and one that goes on after it.
CALLS = """
cuda_libs: dict[str, str] = {"cublas": "libcublas.so.*[0-9]"}
_preload_cuda_deps("cuda_nvrtc", "libnvrtc.so.*[0-9]")
_preload_cuda_deps("nvjitlink", "libnvJitLink.so.*[0-9]")
"""
LIST = """
        ("cuda_nvrtc", "libnvrtc.so.*[0-9]"),
        ("cublas", "libcublas.so.*[0-9]"),
        ("nvjitlink", "libnvJitLink.so.*[0-9]"),
"""
GOES_ON = LIST + "_preload_cuda_lib(lib_folder, lib_name, required=required)\n"
LIBRARIES = ("cu12/lib/libnvJitLink.so.12", "cuda_nvrtc/lib/libnvrtc.so.12", "cuda_nvrtc/lib/libnvrtc.alt.so")
NVRTC, NVJITLINK = "cuda_nvrtc/lib/libnvrtc.so.12", "cu12/lib/libnvJitLink.so.12"


def make_torch(site: Path, code: str, *, cudart: str = "libcudart.so.12") -> Path:
    package = torch_package(site, build="9.9.0+cu129")
    Elf(needed=(cudart,)).write(package / "lib" / "libtorch_global_deps.so")
    (package / "__init__.py").write_text(code, encoding="utf-8")
    with (package / "version.py").open("a", encoding="utf-8") as file:
        file.write("cuda: Optional[str] = '12.9'\n")
    install(site, "nvidia-x", {f"nvidia/{path}": Elf(soname=path.rpartition("/")[2]) for path in LIBRARIES})
    return package


@pytest.mark.parametrize(
    ("code", "cudart", "loaded"),
    [
        (CALLS, "libcudart.so.12", [NVRTC, NVJITLINK]),
        (LIST, "libcudart.so.12", [NVRTC]),
        (GOES_ON, "libcudart.so.12", [NVRTC, NVJITLINK]),
        (CALLS, "libm.so.6", []),
        ("", "libcudart.so.12", []),
    ],
    ids=["calls", "list", "goes on", "for CPUs", "older"],
)
def test_libraries_are_found_as_torch_does(tmp_path: Path, code: str, cudart: str, loaded: list[str]) -> None:
    package = make_torch(tmp_path, code, cudart=cudart)
    found = list_preloaded(str(package), str(package / "lib" / "libtorch_global_deps.so"), Files())
    assert [path.removeprefix(f"{tmp_path}/nvidia/") for path in found] == loaded


def test_an_extension_finds_what_torch_has_loaded(tmp_path: Path) -> None:
    site = tmp_path / "site"
    make_torch(site, CALLS)
    needing = extension(needed=("libtorch_cpu.so", "libnvrtc.so.12", "libcuda.so.1")).write(tmp_path / "_C.so")
    (result,) = abiscan.check(needing, python=python_of(site, tmp_path)).results
    assert result.external == ("libcuda.so.1",)
