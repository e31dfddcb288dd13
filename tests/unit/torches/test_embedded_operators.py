from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from abiscan.binary.elf import Machine
from abiscan.dispatch.operators import Operators
from abiscan.errors import InputError
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded, embedded_operators
from abiscan.torches.api_version import api_versions

NAMES = ("aten::add.Tensor", "aten::cat", "aten::no_such_operator")


def kernels_of(found: Operators, name: str) -> list[str | None]:
    return [kernel.key for kernel in found.kernels if kernel.operator == name]


def test_some_operators_are_what_all_of_them_say() -> None:
    every = embedded_operators.operators("2.6.0", Machine.X86_64)
    some = embedded_operators.operators("2.6.0", Machine.X86_64, NAMES)
    assert set(some.operators) == {"aten::add.Tensor", "aten::cat"}
    assert some.operators["aten::cat"] == every.operators["aten::cat"]
    assert kernels_of(some, "aten::cat") == kernels_of(every, "aten::cat")
    assert (some.fallbacks, some.namespaces, some.keys) == (every.fallbacks, every.namespaces, every.keys)


@pytest.mark.parametrize("release", ["1.13.1", "2.6.0", "2.13.0+cu130"])
def test_schemas_are_those_of_the_operators(release: str) -> None:
    some = embedded_operators.operators(release, Machine.X86_64, NAMES).operators.values()
    schemas = embedded_operators.schemas(release, Machine.X86_64, NAMES)
    assert sorted(map(str, schemas)) == sorted(str(operator.schema) for operator in some)


def in_every_release(names: Collection[str], machine: Machine) -> dict[TorchVersion, Operators]:
    versions = embedded.versions(machine)
    return {version: embedded_operators.operators(str(version), machine, names) for version in versions}


@pytest.mark.parametrize("machine", list(Machine))
def test_every_build_has_the_operators_of_torch(machine: Machine) -> None:
    for version, found in in_every_release(["aten::add.Tensor"], machine).items():
        assert {"CPU", "CPUTensorId"} & set(kernels_of(found, "aten::add.Tensor")), version
        assert set(kernels_of(found, "aten::add.Tensor")) <= {*found.keys.values(), None}
        assert found.operators["aten::add.Tensor"].schema is not None


@pytest.mark.parametrize("machine", list(Machine))
def test_every_build_was_read_whole(machine: Machine) -> None:
    gaps = {version: found.gaps for version, found in in_every_release([], machine).items() if found.gaps}
    assert gaps == {}


@pytest.mark.slow
def test_a_patch_release_does_not_change_the_api() -> None:
    """1.5.1 did not (pytorch #38973), and torch promises as much of the others."""
    for before, after in (("1.5.0", "1.5.1"), ("1.12.0", "1.12.1"), ("2.1.0", "2.1.2"), ("2.5.0", "2.5.1")):
        old, new = (api_versions(embedded_operators.operators(text, Machine.X86_64)) for text in (before, after))
        assert old == new


def test_the_number_alone_is_the_build_for_cpus() -> None:
    assert embedded.build("2.13.0", Machine.X86_64) == "2.13.0+cpu"
    cpu, cuda = (embedded_operators.operators(text, Machine.X86_64, NAMES) for text in ("2.13.0", "2.13.0+cu130"))
    assert "CUDA" not in kernels_of(cpu, "aten::cat")
    assert "CUDA" in kernels_of(cuda, "aten::cat")


def test_a_build_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"torch 2\.6\.0\+rocm6: not among .*pass 2\.6\.0\+cu124"):
        embedded_operators.operators("2.6.0+rocm6", Machine.X86_64)


def test_libraries_are_recognised_by_all_of_them() -> None:
    table = embedded_operators.table()
    for build in table.meta:
        known = build["build"] if build["libraries"] else None  # some of the oldest have no build ids
        assert embedded_operators.find_build(build["libraries"], Machine(build["machine"])) == known
    libraries = next(build["libraries"] for build in table.meta if build["build"] == "2.13.0+cpu")
    assert embedded_operators.find_build(libraries, Machine.AARCH64) is None
    for name in libraries:
        assert embedded_operators.find_build({**libraries, name: "1 00"}, Machine.X86_64) is None
        rest = {key: value for key, value in libraries.items() if key != name}
        assert embedded_operators.find_build(rest, Machine.X86_64) is None
    assert embedded_operators.find_build({}, Machine.X86_64) is None


def test_the_wheel_of_another_python_is_recognised() -> None:
    """Its kernels for CUDA were compiled again. PyPI's wheels of 2.6.0: what ``readelf`` and ``ls`` say of them."""
    python_312 = {
        "libc10.so": "1455209 96f80f0e6c8a09a71dffefd40ee11f55ff12aaa0",
        "libc10_cuda.so": "720929 62f303a24cdf426b202811cbb6330f1042c7309e",
        "libtorch.so": "196201 b170e144835ab80238a99a73fad98277f35d9563",
        "libtorch_cpu.so": "441856673 855a805e42e626f90203305127ecc88f0d1a2433",
        "libtorch_cuda.so": "902652937 49ae7f41c97350c84d41d08ad2ba8fc10f7ea36f",
        "libtorch_cuda_linalg.so": "96279193 4fe87041ea1cf252eeeab321d4e10b351a5eff0b",
        "libtorch_python.so": "",
    }
    python_313 = {**python_312, "libtorch_cuda.so": "902652937 e311a868483f3b6dcb0d05c0fea59c2c5c9d03bc"}

    def find(libraries: Mapping[str, str], stated: str | None = "2.6.0+cu124") -> str | None:
        return embedded_operators.find_build(libraries, Machine.X86_64, stated)

    assert find(python_312) == find(python_313) == "2.6.0+cu124"
    for stated in (None, "2.6.0", "2.6.0+cu126", "2.5.1+cu124"):  # it must say that it is that build
        assert find(python_312, stated) is None
    for name, identity in python_312.items():
        size, _, build_id = identity.partition(" ")
        assert find({**python_312, name: f"1 {build_id}"}) is None  # it was changed
        assert name == "libtorch_cuda.so" or find({**python_312, name: f"{size} 00"}) is None  # it was linked again
        assert find({key: value for key, value in python_312.items() if key != name}) is None
