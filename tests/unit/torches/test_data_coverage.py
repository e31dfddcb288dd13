"""Every data file covers every build that the package has: what one of them lacks would be a gap in every check."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

import abiscan
from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.dispatch import acceptance, keys, stable, tags, torchscript
from abiscan.dispatch.dispatcher import LIBRARIES
from abiscan.inputs.version import TorchVersion
from abiscan.release_data import VERSION_FILE
from abiscan.torches import (
    companion_names,
    embedded,
    embedded_assertions,
    embedded_declarations,
    embedded_names,
    embedded_operators,
    embedded_python,
    embedded_registries,
    headers,
    layouts,
    pythons,
    torch_images,
)
from tools.release import OUTPUTS

NOT_OF_TORCH = {
    "counterparts.txt": "written by hand: which function of the stable ABI replaces which of C++",
    "cuda_wheels.txt": "of CUDA (tools/record_cuda_wheels.py)",
    "libstdcxx.txt": "of GCC (tools/record_libstdcxx.py)",
    "limited_api.txt": "of Python (tools/build_tag_promises.py)",
    "manylinux.txt": "of glibc (tools/build_tag_promises.py)",
    "requiring.txt": "of packages (tools/record_companions.py): which require torchvision, torchaudio, …",
    "systems.txt": "of distributions of Linux (tools/build_systems.py)",
}
BUILDS = [(full, machine.value) for _, machine, full in embedded.builds()]
RELEASES = [str(version) for version in embedded.versions()]
MINORS = {version.minor_version for version in embedded.versions()}


def test_there_are_builds_for_both_machines() -> None:
    assert len(BUILDS) >= 86
    assert {machine for _, machine in BUILDS} == {machine.value for machine in Machine}


def test_operators() -> None:
    assert {(build["build"], build["machine"]) for build in embedded_operators.table().meta} == {*BUILDS}


def test_registries() -> None:
    assert {tuple(name.split()) for name in embedded_registries.table().columns} == {*BUILDS}
    for full, machine in BUILDS:
        entries = embedded_registries.entries(full, Machine(machine))
        assert entries is not None
        assert len(entries) > 100, (full, machine)


def test_places_of_assertions() -> None:
    known = embedded_assertions.table().columns
    since = [full for version, _, full in embedded.builds() if version.minor_version >= LIBRARIES]
    assert {name.split()[0] for name in known} == set(since)
    assert len(known) == len(since)


def test_layouts() -> None:
    for release, machine, _ in embedded.builds():
        assert layouts.is_known(str(release), machine), (release, machine)


def test_what_headers_say() -> None:
    assert headers.releases() == tuple(RELEASES)
    assert embedded_declarations.releases() == tuple(RELEASES)


def test_classes_of_cuda() -> None:
    """A build with CUDA has them, also where one for the CPU is embedded as well."""
    for release, machine, full in embedded.builds():
        if release.minor_version >= (1, 9) and "libtorch_cuda.so" in embedded.libraries(full, machine):
            assert layouts.find_layout("c10::cuda::CUDAStream", str(release), machine) is not None, (full, machine)


def test_gpus() -> None:
    known = [tuple(line.split()[:2]) for line in _text("architectures.txt").splitlines()]
    with_cuda = [
        (full, machine.value)
        for version, machine, full in embedded.builds()
        if version.minor_version >= (1, 6) and "libtorch_cuda.so" in embedded.libraries(full, machine)
    ]
    assert set(with_cuda) <= set(known)
    assert set(known) <= set(BUILDS)


def _text(name: str) -> str:
    return resources.files("abiscan.torches").joinpath("data", name).read_text("utf-8")


PACKAGE = Path(abiscan.__file__).parent
FILES = [path for path in PACKAGE.glob("**/data/**/*") if path.is_file() and path.suffix not in (".py", ".pyc")]


def test_all_data_are_small() -> None:
    """The limit is what an installed abiscan may take for them, of all rooms."""
    assert len(FILES) > 12
    assert sum(path.stat().st_size for path in FILES) < 14e6


def test_make_release_writes_every_file_that_depends_on_torch() -> None:
    written = {path.parent if path.suffix == ".blocks" else path for path in FILES if path.name not in NOT_OF_TORCH}
    assert {*OUTPUTS, PACKAGE / "torches/data" / VERSION_FILE} == written
    assert {path.name for path in FILES} >= set(NOT_OF_TORCH)


def test_names_in_python() -> None:
    assert list(embedded_names.releases()) == RELEASES


def test_operators_of_torchscript() -> None:
    assert torchscript.parse(torchscript.PATH.read_text("utf-8"))[""] == RELEASES


def test_definitions_in_python() -> None:
    """Since 2.1, torch lists its dispatcher; what Python code of an older one defines is a gap where it matters."""
    listing = [str(version) for version in embedded.versions() if version.minor_version >= (2, 1)]
    assert sorted(embedded_python.table().columns, key=TorchVersion) == listing


def test_the_stable_abi() -> None:
    """Headers of the newest release of each minor version with a wrapper, dates of each with functions."""
    head, *lines = _text("stable_abi.txt").splitlines()
    newest = {version.minor_version: str(version) for version in embedded.versions()}
    with_wrappers = [release for minor, release in newest.items() if minor >= (2, 9)]
    assert head.partition("headers of torch ")[2].split(", ") == with_wrappers
    released = [line.split()[1] for line in lines if line.startswith("released ")]
    assert released == [f"{major}.{minor}" for major, minor in newest if (major, minor) >= (2, 2)]


@pytest.mark.parametrize(
    ("system", "machine"), [(ImageSystem.WINDOWS, Machine.X86_64), (ImageSystem.MACOS, Machine.AARCH64)]
)
def test_exports_on_other_systems(system: ImageSystem, machine: Machine) -> None:
    assert list(map(str, torch_images.releases(system, machine))) == RELEASES[RELEASES.index("2.9.0") :]


def test_pythons() -> None:
    assert [release for release in RELEASES if not pythons.is_known(release)] == []


@pytest.mark.parametrize("package", companion_names.WITH_TORCH)
def test_packages_that_go_with_a_torch(package: str) -> None:
    lines = [line.split() for line in _text(f"{package}.txt").splitlines()]
    assert [torch for torch, *_ in lines] == RELEASES
    versions = {companion_names.column_of(package, words[0]) for _, *words in lines if words}
    assert versions <= set(companion_names.versions(package))


def test_numpy() -> None:
    assert len(companion_names.versions("numpy")) >= 9


def test_keys_tags_and_what_torch_accepts() -> None:
    assert {keys.keys_of_minor(minor).minor for minor in MINORS} == MINORS
    assert keys.newest_minor() == max(MINORS)
    assert {minor for minor in MINORS if not acceptance.is_known(minor)} == set()
    assert {minor for minor in MINORS if not stable.is_known(minor)} == set()
    with_tags = [version for version in embedded.versions() if version.minor_version >= (1, 13)]
    assert [version for version in with_tags if not tags.tags_of(version).names] == []
