"""The operators of a torch on disk: nothing is lost, and nothing damaged is believed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec.structs
import pytest

from abiscan.binary.elf import Machine
from abiscan.cache import cache_folder
from abiscan.dispatch.operators import Fallback, Kernel, Operator, Operators, Place, RegistryEntry
from abiscan.inputs.files import Files
from abiscan.inputs.session import Session
from abiscan.torches import embedded_operators, operator_store
from abiscan.torches.from_libs import operator_libraries
from abiscan.torches.model import TorchRelease
from abiscan.torches.operator_store import OwnOperators, pack, unpack

OPERATORS = Operators(
    operators={
        "aten::add.Tensor": Operator("aten::add.Tensor", "aten::add.Tensor(Tensor a) -> Tensor", ("core",), "R.cpp", 6),
        "old::op": Operator("old::op", None, (), None, None),
    },
    kernels=(
        Kernel("aten::add.Tensor", "CPU", "FN2at6TensorERKS0_E", "(Tensor _0) -> Tensor _0", False, "CPU.cpp", 10),
        Kernel("aten::add.Tensor", None, None, None, True, None, None),
    ),
    fallbacks=(Fallback("Meta", True, "M.cpp", 1),),
    namespaces={"aten": Place("RegisterSchema.cpp", 6), "old": Place(None, None)},
    classes=frozenset({"quantized.Conv2dPackedParamsBase", "rpc._Message"}),
    keys={0: "Undefined", 49: "CPU"},
    aliases={"Autograd": frozenset({"AutogradCPU", "AutogradCUDA"})},
    gaps=("libtorch_cpu.so: something",),
    entries=(RegistryEntry("device-guard", "CPU", None), RegistryEntry("ThreadPoolRegistry", "C10", 2)),
    assertions={"L9": '"/pytorch/aten/src/ATen/core/library.cpp":293'},
)
EMPTY = Operators(
    operators={}, kernels=(), fallbacks=(), namespaces={}, classes=frozenset(), keys={}, aliases={}, gaps=()
)


def release(*libraries: str) -> TorchRelease:
    return TorchRelease(
        build="2.13.0+cpu",
        package="/torch",
        machine=Machine.X86_64,
        python=None,
        libraries=libraries,
        global_libraries=(),
        local_libraries=(),
    )


def session_at(folder: Path) -> Session:
    return Session(folder=folder)


def operators_of(given: TorchRelease, session: Session, names: Collection[str] | None = None) -> Operators:
    return OwnOperators(release=given, files=Files(), session=session).look_up(names)


@pytest.mark.parametrize("operators", [OPERATORS, EMPTY])
def test_what_is_kept_comes_back(operators: Operators) -> None:
    assert unpack(pack(operators)) == operators


def test_libraries_come_after_what_they_need() -> None:
    given = release(
        "/lib/libtorch_python.so",
        "/lib/libtorch_cuda_linalg.so",
        "/lib/libtorch.so",
        "/lib/libtorch_cuda.so",
        "/lib/libtorch_nvshmem.so",
        "/lib/libtorch_cpu.so",
        "/lib/libc10_cuda.so",
        "/lib/libc10.so",
        "/lib/libshm.so",
        "/lib/libgomp.so.1",
    )
    assert [path.removeprefix("/lib/") for path in operator_libraries(given)] == [
        "libc10.so",
        "libc10_cuda.so",
        "libtorch_cpu.so",
        "libtorch_nvshmem.so",
        "libtorch_cuda.so",
        "libtorch.so",
        "libtorch_cuda_linalg.so",
        "libtorch_python.so",
    ]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[TorchRelease]:
    """The releases that were read from their libraries."""
    read: list[TorchRelease] = []

    def read_operators(of: TorchRelease, _: Files) -> Operators:
        read.append(of)
        return OPERATORS

    monkeypatch.setattr(operator_store, "read_operators", read_operators)
    return read


def library(folder: Path, content: bytes) -> str:
    path = folder / "libtorch_cpu.so"
    sample = Path(__file__).parents[3] / "sample_binaries" / "loads" / "loads.so"
    path.write_bytes(sample.read_bytes() + content)
    return str(path)


def test_the_libraries_are_read_once(tmp_path: Path, reads: list[TorchRelease]) -> None:
    given, cache = release(library(tmp_path, b"")), tmp_path / "cache"
    for _ in range(2):
        assert operators_of(given, session_at(cache)) == OPERATORS
    assert len(reads) == 1
    assert cache_folder.measure_usage(cache)[0] == 1


def test_a_damaged_file_is_made_anew(tmp_path: Path, reads: list[TorchRelease]) -> None:
    given, cache = release(library(tmp_path, b"")), tmp_path / "cache"
    operators_of(given, session_at(cache))
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    for damaged in (b"", whole[:40], b"\0" * len(whole)):
        kept.write_bytes(damaged)
        assert operators_of(given, session_at(cache)) == OPERATORS
        assert kept.read_bytes() == whole
    assert len(reads) == 4


def test_another_library_has_another_file(tmp_path: Path, reads: list[TorchRelease]) -> None:
    cache = tmp_path / "cache"
    for content in (b"", b"another"):
        operators_of(release(library(tmp_path, content)), session_at(cache))
    assert len(reads) == 2


def test_another_version_has_another_file(tmp_path: Path, reads: list[TorchRelease]) -> None:
    """What is read depends on it: the names of dispatch keys and tags, and which messages are looked for."""
    given, cache = release(library(tmp_path, b"")), tmp_path / "cache"
    builds = ("2.13.0+cpu", "2.12.0+cpu", None)
    for build in (*builds, *builds):
        operators_of(msgspec.structs.replace(given, build=build), session_at(cache))
    assert [of.build for of in reads] == [*builds]


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path: Path, reads: list[TorchRelease]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    given = release(library(tmp_path, b""))
    for _ in range(2):
        assert operators_of(given, session_at(blocked / "cache")) == OPERATORS
    assert len(reads) == 2


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[Collection[str] | None]:
    """What is looked up in the embedded data, for a torch that is an embedded build."""
    looked: list[Collection[str] | None] = []

    def operators(_: str, __: Machine, names: Collection[str] | None = None) -> Operators:
        looked.append(names)
        return OPERATORS

    monkeypatch.setattr(embedded_operators, "find_build", lambda *_: "2.13.0+cpu")
    monkeypatch.setattr(embedded_operators, "operators", operators)
    monkeypatch.setattr(operator_store, "read_operators", lambda *_: pytest.fail("its libraries are read"))
    return looked


def test_all_operators_of_an_embedded_build_are_unpacked_once(
    tmp_path: Path, looked_up: list[Collection[str] | None]
) -> None:
    given, cache = release(library(tmp_path, b"")), tmp_path / "cache"
    for _ in range(2):
        assert operators_of(given, session_at(cache)) == OPERATORS
    assert looked_up == [None]
    assert cache_folder.measure_usage(cache)[0] == 1


def test_some_operators_of_an_embedded_build_are_looked_up(
    tmp_path: Path, looked_up: list[Collection[str] | None]
) -> None:
    """Not unpacked from the cache, which is slower; and not kept, since they are not all."""
    given, cache = release(library(tmp_path, b"")), tmp_path / "cache"
    operators_of(given, session_at(cache), ["aten::add.Tensor"])
    assert looked_up == [["aten::add.Tensor"]]
    assert cache_folder.measure_usage(cache)[0] == 0
    operators_of(given, session_at(cache))
    operators_of(given, session_at(cache), ["aten::cat"])
    assert looked_up == [["aten::add.Tensor"], None, ["aten::cat"]]


def test_some_operators_of_another_torch_are_those_that_are_kept(tmp_path: Path, reads: list[TorchRelease]) -> None:
    given, cache = release(library(tmp_path, b"")), tmp_path / "cache"
    for names in (["aten::add.Tensor"], ["aten::cat"], None):
        assert operators_of(given, session_at(cache), names) == OPERATORS
    assert len(reads) == 1


def test_the_stated_version_takes_part_in_recognising(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels for CUDA of that build may have been compiled again."""
    asked: list[object] = []
    monkeypatch.setattr(embedded_operators, "find_build", lambda *found: asked.append(found[-1]))
    given = msgspec.structs.replace(release(library(tmp_path, b"")), build="2.6.0+cu124")
    OwnOperators(release=given, files=Files(), session=session_at(tmp_path)).embedded  # noqa: B018
    assert asked == ["2.6.0+cu124"]
