"""Libraries of CUDA that the extension needs, next to those that torch needs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from abiscan.binary.elf import Machine, SharedObject
from abiscan.binary.ownership import GpuLibrary, cuda_runtime, gpu_library
from abiscan.inputs.requirement import metadata_of
from abiscan.linkage.linkage import ExtensionLoad
from abiscan.linkage.model import Absence, MissingLibrary, Resolution
from abiscan.linkage.resolve import resolve_load
from abiscan.linkage.scope import Loader, SearchPath
from tests.world import ObjectsByPath, shared_object

SYSTEM = SearchPath(system=("/lib",))


def load(
    runtime: str, *, search: SearchPath = SYSTEM, runpath: tuple[str, ...] = (), undefined: str = "", **libraries: str
) -> Resolution:
    """``dlopen`` of an extension that needs libcudart.so.12, next to a torch that needs ``runtime``."""
    objects: dict[str, SharedObject] = {
        "/torch/libc10_cuda.so": shared_object(needed=(runtime,), soname="libc10_cuda.so"),
        "/x/ext.so": shared_object(needed=("libcudart.so.12",), runpath=runpath, references=undefined.split()),
        **{path: shared_object(soname=path.rpartition("/")[2]) for path in libraries.values()},
    }
    loader = Loader(ObjectsByPath(objects), search, Machine.X86_64)
    process = loader.start_process((), global_libraries=(), libraries=("/torch/libc10_cuda.so",))
    return resolve_load(process, loader.open(process, "/x/ext.so"))


@pytest.mark.parametrize(
    ("libraries", "expected"),
    [
        ({"libc10_cuda.so": ("libc10.so", "libcudart.so.11.0")}, "11"),
        ({"libc10_cuda.so": ("libcudart.so.12",)}, "12"),
        ({"libc10_cuda.so": ("libc10.so",), "libtorch_cpu.so": ("libcudart.so.11.0",)}, "11"),
        ({"libtorch_cpu.so": ("libc10.so",)}, None),
    ],
)
def test_the_cuda_that_a_torch_was_built_for(libraries: dict[str, tuple[str, ...]], expected: str | None) -> None:
    found = {name: shared_object(needed=needed, soname=name) for name, needed in libraries.items()}
    of_torch = cast("ExtensionLoad", SimpleNamespace(torch_libraries=found))
    assert vars(ExtensionLoad)["torch_cuda"].func(of_torch) == expected


def missing(resolution: Resolution) -> list[tuple[str, Absence]]:
    return [(library.name, library.absence) for library in resolution.closure.missing]


def message(resolution: Resolution) -> str | None:
    return resolution.error.message if resolution.error else None


NOT_FOUND = "libcudart.so.12: cannot open shared object file: No such file or directory"


def test_what_torch_needs_is_in_the_process() -> None:
    loaded = load("libcudart.so.12")
    assert missing(loaded) == [("libcudart.so.12", Absence.WITH_TORCH)]
    assert loaded.error is None


def test_another_version_is_not() -> None:
    loaded = load("libcudart.so.13")
    assert missing(loaded) == [("libcudart.so.12", Absence.OTHER_VERSION)]
    assert message(loaded) == NOT_FOUND


@pytest.mark.parametrize(
    "resolution",
    [
        load("libcudart.so.13", both="/lib/libcudart.so.12"),
        load("libcudart.so.13", runpath=("/opt",), beside="/opt/libcudart.so.12"),
    ],
)
def test_a_system_may_have_both(resolution: Resolution) -> None:
    assert missing(resolution) == []
    assert resolution.error is None


@pytest.mark.parametrize(
    ("search", "runpath", "absence"),
    [
        (SearchPath(own_cuda=frozenset({"libcudart.so.12"})), (), Absence.EXTERNAL),
        (SearchPath(own_cuda=frozenset({"libcudart.so.11.0"})), (), Absence.OTHER_VERSION),
        (SearchPath(native=False), ("$ORIGIN/../nvidia/cuda_runtime/lib",), Absence.EXTERNAL),
        (SearchPath(native=False), ("$ORIGIN/../pkg.libs",), Absence.OTHER_VERSION),
        (SearchPath(native=True), ("/usr/local/cuda/lib64",), Absence.OTHER_VERSION),  # it was looked for there
    ],
)
def test_an_extension_that_brings_its_own(search: SearchPath, runpath: tuple[str, ...], absence: Absence) -> None:
    assert missing(load("libcudart.so.13", search=search, runpath=runpath)) == [("libcudart.so.12", absence)]


def test_a_copy_that_a_wheel_renamed_says_nothing_about_others() -> None:
    assert missing(load("libcudart-80664282.so.10.2")) == [("libcudart.so.12", Absence.EXTERNAL)]


def test_what_fails_in_any_case_is_the_error_unless_cuda_is_where_torch_runs() -> None:
    assert message(load("libcudart.so.13", undefined="_ZN3c104warnEv")) == "undefined symbol: _ZN3c104warnEv"
    with_cuda = load("libcudart.so.13", undefined="_ZN3c104warnEv", torchs="/lib/libcudart.so.13")
    assert message(with_cuda) == NOT_FOUND


def test_only_a_missing_library_stops_a_load() -> None:
    (library,) = load("libcudart.so.12").closure.missing
    assert isinstance(library, MissingLibrary)
    assert not library.stops


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("libcudart.so.11.0", GpuLibrary(stem="cudart", version="11.0")),
        ("libamdhip64.so.6", GpuLibrary(stem="amdhip64", version="6")),
        ("libcudart-80664282.so.10.2", None),
        ("libcuda.so.1", None),  # the driver's, of which there is one version
        ("libcudart.so", None),
    ],
)
def test_names(name: str, library: GpuLibrary | None) -> None:
    assert gpu_library(name) == library


def test_the_runtime_of_a_torch() -> None:
    assert cuda_runtime("libcudart-80664282.so.10.2") == "10.2"
    assert cuda_runtime("libcublas.so.12") is None


@pytest.mark.parametrize(
    ("requirement", "libraries"),
    [  # from the lists of files in these wheels, and from what they require
        ("nvidia-cuda-runtime-cu12", {"libcudart.so.12"}),
        ("nvidia_cuda_runtime_cu11", {"libcudart.so.11.0"}),
        ("NVIDIA-CUDA-RUNTIME>=13.0.48", {"libcudart.so.13"}),
        ("nvidia-cudnn-cu12<9", {"libcudnn.so.8", "libcublas.so.12", "libcublasLt.so.12", "libnvrtc.so.12"}),
        ("nvidia-cuda-runtime-cu12 (>=12.4,<12.7)", {"libcudart.so.12"}),
        ("cuda-toolkit[cudart,curand]==12.8.1", {"libcudart.so.12", "libcurand.so.10"}),
        ("cuda-toolkit[cudart]", {"libcudart.so.13"}),
        ("cuda-toolkit==13.0.2", set()),
        ("nvidia-cutlass-dsl==4.4.2", set()),
        ("nvidia-cudnn-frontend>=1.13", set()),
        ("nvidia-nvtx", set()),
        ("nvidia-ml-py", set()),
        ("nvidia-cublas ; sys_platform == 'win32'", set()),
        ("nvidia-cublas ; extra == 'all'", set()),
        ("torch>=2.10", set()),
    ],
)
def test_requirements_that_bring_cuda(requirement: str, libraries: set[str]) -> None:
    assert metadata_of([requirement], "1.0").brings_cuda == libraries
