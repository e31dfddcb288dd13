"""The file of exports for Windows and macOS: what is written is what is read."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.errors import InputError
from abiscan.inputs.interpreter import PythonTag
from abiscan.inputs.version import TorchVersion
from abiscan.torches.names import NameTable
from abiscan.torches.torch_images import TorchImages, find_images, has_release, of_release, releases
from abiscan.torches.torch_images import builds as embedded_builds
from tests.image_samples import WARN, torch_folder, torch_wheel
from tools.blocks import read_files
from tools.torch_images import ImageBuild, put, read_wheel


def table(folder: Path) -> NameTable:
    return NameTable(read_files(folder))


def builds(folder: Path) -> list[str]:
    return [record["build"] for record in table(folder).meta]


def exported(folder: Path, name: str) -> set[tuple[str, str]]:
    """The builds and libraries that export a name."""
    bits = table(folder).columns_with(name)
    columns = [column.split(" ") for number, column in enumerate(table(folder).columns) if bits >> number & 1]
    return {(build, library) for build, _, _, library in columns}


def build(version: str, **exports: list[str]) -> ImageBuild:
    libraries = {f"{name}.dll": names for name, names in exports.items()}
    return ImageBuild(build=version, system=ImageSystem.WINDOWS, machine=Machine.X86_64, exports=libraries)


def test_a_wheel_is_read_without_numbers(tmp_path: Path) -> None:
    found = read_wheel(torch_wheel(tmp_path, "Windows"), ImageSystem.WINDOWS, Machine.X86_64)
    assert found.build == "9.9.0"
    assert found.exports["c10.dll"] == [WARN["Windows"]]


def test_what_is_put_is_there(tmp_path: Path) -> None:
    put(tmp_path, [build("1.0", c10=["a", "b"], torch_cpu=["b"]), build("1.1", c10=["a"])])
    assert exported(tmp_path, "a") == {("1.0", "c10.dll"), ("1.1", "c10.dll")}
    assert exported(tmp_path, "b") == {("1.0", "c10.dll"), ("1.0", "torch_cpu.dll")}


def test_a_release_is_added_replaced_and_removed(tmp_path: Path) -> None:
    put(tmp_path, [build("1.0", c10=["a"]), build("1.1+cpu", c10=["a"])])
    put(tmp_path, [build("1.0", c10=["z"]), build("1.2", c10=["a"])])
    assert builds(tmp_path) == ["1.0", "1.1+cpu", "1.2"]
    assert exported(tmp_path, "a") == {("1.1+cpu", "c10.dll"), ("1.2", "c10.dll")}
    put(tmp_path, (), ["1.1"])
    assert builds(tmp_path) == ["1.0", "1.2"]


@pytest.mark.parametrize(
    ("system", "machine", "said"),
    [
        (ImageSystem.WINDOWS, Machine.X86_64, "not among the releases that are embedded for Windows on x86_64"),
        (ImageSystem.MACOS, Machine.AARCH64, "not among the releases that are embedded for macOS on aarch64"),
        (ImageSystem.MACOS, Machine.X86_64, "no release is embedded for macOS on x86_64, where 2.2.2 was the last one"),
    ],
)
def test_a_release_that_is_not_embedded(system: ImageSystem, machine: Machine, said: str) -> None:
    with pytest.raises(InputError) as caught:
        of_release("1.0.0", system, machine)
    assert said in str(caught.value)
    known = ", ".join(map(str, embedded_builds(system, machine)))
    assert caught.value.fix == (
        f"pass one of {known}, or the wheel of this torch" if known else "pass the wheel of the torch for it"
    )


@pytest.mark.parametrize("system", ["Windows", "macOS"])
def test_a_torch_is_found_in_a_wheel_and_in_a_folder(tmp_path: Path, system: str) -> None:
    wheel = torch_wheel(tmp_path, system)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    package = tmp_path / "site" / "torch"
    for path in (wheel, package, package / "lib"):
        found = find_images(path)
        assert found is not None
        assert found.build == "9.9.0"
        (system_of,) = [one for one in ImageSystem if any(found.has(one, machine) for machine in Machine)]
        assert (system_of is ImageSystem.WINDOWS) is (system == "Windows")
        machine = next(machine for machine in Machine if found.has(system_of, machine))
        images = found.on(system_of, machine)
        assert images.build == "9.9.0"
        assert any(exports(WARN[system]) for exports in images.exports.values())
        other = next(one for one in ImageSystem if one is not system_of)
        with pytest.raises(InputError, match="the target for"):
            found.on(other, machine)
    (package / "version.py").unlink()
    nameless = find_images(package)
    assert nameless is not None
    assert nameless.build is None
    for library in (package / "lib").glob("*torch_cpu*"):
        library.unlink()
    assert find_images(package) is None
    assert find_images(tmp_path / "nothing.whl") is None


def test_numbers_of_exports_are_known_from_files_alone(tmp_path: Path) -> None:
    """The table of exports has names only: what an import by number means there is unknown, not absent."""
    assert of_release("2.13.0", ImageSystem.WINDOWS, Machine.X86_64).ordinals is False
    found = find_images(torch_wheel(tmp_path, "Windows"))
    assert found is not None
    machine = next(machine for machine in Machine if found.has(ImageSystem.WINDOWS, machine))
    assert found.on(ImageSystem.WINDOWS, machine).ordinals is True


def test_an_embedded_release_exports_what_it_exports() -> None:
    found = of_release("2.13.0", ImageSystem.WINDOWS, Machine.X86_64)
    c10 = found.library("c10.dll")
    assert c10 is not None
    assert found.exports[c10](WARN["Windows"])
    assert not found.exports[c10]("?nothing@at@@YAXXZ")
    assert not found.exports[c10](WARN["macOS"])


@pytest.mark.parametrize(
    ("system", "own", "name", "expected"),
    [
        # Windows ignores case in the names of files; the loader of macOS compares install names as they are.
        (ImageSystem.WINDOWS, "c10.dll", "C10.DLL", "c10.dll"),
        (ImageSystem.WINDOWS, "c10.dll", "c10.dll", "c10.dll"),
        (ImageSystem.WINDOWS, "C10.dll", "c10.dll", "C10.dll"),
        (ImageSystem.WINDOWS, "c10.dll", "kernel32.dll", None),
        (ImageSystem.MACOS, "libc10.dylib", "@rpath/libc10.dylib", "libc10.dylib"),
        (ImageSystem.MACOS, "libc10.dylib", "@rpath/libC10.dylib", None),
        (ImageSystem.MACOS, "libC10.dylib", "@rpath/libC10.dylib", "libC10.dylib"),
    ],
)
def test_the_library_that_a_name_stands_for(system: ImageSystem, own: str, name: str, expected: str | None) -> None:
    images = TorchImages(
        build=None, system=system, machine=Machine.X86_64, exports={own: lambda _: True}, ordinals=False
    )
    assert images.library(name) == expected
    assert str(images) == f"torch (version unknown) for {system.value}"


def test_the_releases_for_a_system_are_those_of_its_builds() -> None:
    for system, machine in ((ImageSystem.WINDOWS, Machine.X86_64), (ImageSystem.MACOS, Machine.AARCH64)):
        known, of_system = releases(system, machine), embedded_builds(system, machine)
        assert TorchVersion("2.13.0") in known
        assert list(known) == sorted(known)
        assert list(of_system) == sorted(of_system)
        assert {build.of_release for build in of_system} == {*known}
        assert all(has_release(str(build), system, machine) for build in (*known, *of_system))
        assert not has_release("1.0.0", system, machine)
        assert not has_release("2.13.0+rocm1", system, machine)
    # torch 2.2 was the last for macOS on x86_64 (its deprecation notice), before the first release that is embedded.
    assert releases(ImageSystem.MACOS, Machine.X86_64) == ()


@pytest.mark.parametrize("inside", ["lib", ""])
def test_a_folder_in_a_torch_that_is_neither_it_nor_its_libraries(inside: str, tmp_path: Path) -> None:
    """``lib`` stands for the package that it is in; another folder, or a ``lib`` with a ``lib`` in it, for itself."""
    package = torch_folder(tmp_path, "Windows")
    assert find_images(package / inside) is not None
    (package / "bin").mkdir()
    assert find_images(package / "bin") is None
    assert find_images(package.rename(tmp_path / "lib")) is not None


def test_the_python_of_a_torch_is_told_by_its_module(tmp_path: Path) -> None:
    """That of torch itself: ``torch/_C.cp312-win_amd64.pyd``, not those of the packages within it."""
    wheel = torch_wheel(tmp_path, "Windows")
    with zipfile.ZipFile(wheel, "a") as archive:
        for name in (
            "torch/other/_C.cp39-win_amd64.pyd",
            "torch/_C.cp312-win_amd64.pyd",
            "other/_C.cp38-win_amd64.pyd",
        ):
            archive.writestr(name, b"")
        archive.extractall(tmp_path / "site")
    for path in (wheel, tmp_path / "site/torch"):
        found = find_images(path)
        assert found is not None
        assert found.python == PythonTag(major=3, minor=12)
