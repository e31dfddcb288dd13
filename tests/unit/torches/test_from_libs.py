from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec.structs
import pytest

from abiscan.binary.elf import Machine
from abiscan.dispatch.keys import keys_of_minor, newest_minor
from abiscan.dispatch.operators import Place
from abiscan.dispatch.tags import Tags
from abiscan.errors import InputError
from abiscan.gaps import Gap
from abiscan.inputs.files import Files
from abiscan.inputs.interpreter import PythonTag
from abiscan.inputs.libraries import Libraries
from abiscan.inputs.version import TorchVersion
from abiscan.registrations import (
    Library,
    LibraryKind,
    Phase,
    RegisteredKernel,
    RegisteredOperator,
    Registrations,
    TorchRegistrations,
)
from abiscan.torches.from_libs import (
    WHEEL_MOUNT,
    _name_keys,
    _tags_of_release,
    from_path,
    identify_libraries,
    operator_libraries,
    read_assertions,
    read_operators,
)
from abiscan.torches.model import TorchRelease
from tests.elf_builder import EM_AARCH64, Elf, exports
from tests.fakes import torch_libraries, torch_package, wheel


def read(path: Path) -> TorchRelease:
    return from_path(path, Files())


def test_a_package(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    assert read(package) == TorchRelease(
        build="9.9.0+cpu",
        package=str(package),
        machine=Machine.X86_64,
        python=PythonTag(major=3, minor=11),
        libraries=tuple(str(package / "lib" / name) for name in sorted(torch_libraries())),
        global_libraries=(str(package / "lib" / "libtorch_global_deps.so"),),
        local_libraries=(str(package / "_C.cpython-311-x86_64-linux-gnu.so"),),
    )


def test_its_lib_folder_stands_for_the_package(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    assert read(package / "lib") == read(package)


def test_a_package_that_is_called_lib(tmp_path: Path) -> None:
    package = torch_package(tmp_path).rename(tmp_path / "lib")
    assert read(package).package == str(package)


@pytest.mark.parametrize("name", ["libtorch_cpu.so", "libc10.so"])
def test_one_library_stands_for_its_folder(name: str, tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    assert read(package / "lib" / name) == read(package)


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = torch_package(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert read(Path("torch")) == read(package)


def test_an_environment_of_conda(tmp_path: Path) -> None:
    # conda-forge has libtorch as a package of its own, whose libraries are in the lib folder of the environment.
    package = torch_package(tmp_path / "lib/python3.11/site-packages")
    before = read(package)
    for library in sorted((package / "lib").iterdir()):
        library.rename(tmp_path / "lib" / library.name)
    (package / "lib").rmdir()
    Elf().write(tmp_path / "lib" / "libprotobuf.so")
    release = read(package)
    assert release.libraries == tuple(str(tmp_path / "lib" / name) for name in sorted(torch_libraries()))
    assert (release.build, release.python, release.local_libraries) == (
        before.build,
        before.python,
        before.local_libraries,
    )


def test_an_environment_of_conda_with_links(tmp_path: Path) -> None:
    package = torch_package(tmp_path / "lib/python3.11/site-packages")
    before = read(package)
    for library in sorted((package / "lib").iterdir()):
        library.rename(tmp_path / "lib" / library.name)
        library.symlink_to(tmp_path / "lib" / library.name)
    assert read(package) == before


def test_rocm(tmp_path: Path) -> None:
    package = torch_package(tmp_path, build="2.13.0+rocm7.0")
    for name in ("libtorch_hip.so", "libc10_hip.so", "libtorch_hip_linalg.so"):
        Elf(soname=name).write(package / "lib" / name)
    order = [Path(path).name for path in operator_libraries(read(package))]
    assert order.index("libc10.so") < order.index("libc10_hip.so") < order.index("libtorch_cpu.so")
    assert order.index("libtorch_cpu.so") < order.index("libtorch_hip.so") < order.index("libtorch_hip_linalg.so")


def test_a_wheel(tmp_path: Path) -> None:
    package = torch_package(tmp_path / "unpacked")
    files = {
        path.relative_to(tmp_path / "unpacked").as_posix(): path.read_bytes()
        for path in package.rglob("*")
        if path.is_file()
    }
    release = read(wheel(tmp_path / "torch-9.9.0.whl", files))
    assert release.package == f"{WHEEL_MOUNT}/torch"
    assert (release.build, release.python) == ("9.9.0+cpu", PythonTag(major=3, minor=11))
    assert release.local_libraries == (f"{WHEEL_MOUNT}/torch/_C.cpython-311-x86_64-linux-gnu.so",)
    assert release.libraries == tuple(f"{WHEEL_MOUNT}/torch/lib/{name}" for name in sorted(torch_libraries()))


def test_an_unpacked_lib_folder_without_a_package(tmp_path: Path) -> None:
    for name, library in torch_libraries().items():
        library.write(tmp_path / "anywhere" / name)
    release = read(tmp_path / "anywhere" / "libtorch_cpu.so")
    assert (release.build, release.version, release.python) == (None, None, None)
    assert release.local_libraries == (str(tmp_path / "anywhere" / "libtorch_python.so"),)
    assert str(release) == "torch (unknown version)"


def test_the_machine_is_that_of_the_libraries(tmp_path: Path) -> None:
    for name, library in torch_libraries(EM_AARCH64).items():
        library.write(tmp_path / "torch" / "lib" / name)
    assert read(tmp_path / "torch").machine is Machine.AARCH64


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("__version__ = '2.13.0+cpu'\ndebug = False\n", "2.13.0+cpu"),
        ("from typing import Optional\n\n__all__ = ['x']\n__version__: str = \"2.0.1\"\n", "2.0.1"),
        ("version = '1'\n", None),
        ("", None),
    ],
)
def test_the_version_is_read_from_its_file(text: str, build: str | None, tmp_path: Path) -> None:
    package = torch_package(tmp_path, build=None)
    (package / "version.py").write_text(text, encoding="utf-8")
    assert read(package).build == build


def test_the_public_version(tmp_path: Path) -> None:
    release = read(torch_package(tmp_path, build="2.6.0+cu124"))
    assert (release.version, str(release)) == ("2.6.0", "torch 2.6.0+cu124")


def test_up_to_1_4_everything_is_global(tmp_path: Path) -> None:
    # torch/__init__.py of 1.4: sys.setdlopenflags(RTLD_GLOBAL | RTLD_LAZY); from torch._C import *
    package = torch_package(tmp_path, build="1.4.0")
    (package / "lib" / "libtorch_global_deps.so").unlink()
    release = read(package)
    assert release.global_libraries == (str(package / "_C.cpython-311-x86_64-linux-gnu.so"),)
    assert release.local_libraries == ()


def test_a_torch_of_one_library(tmp_path: Path) -> None:
    Elf(soname="libtorch.so", defined=exports("x")).write(tmp_path / "torch" / "lib" / "libtorch.so")
    assert read(tmp_path / "torch").global_libraries == (str(tmp_path / "torch" / "lib" / "libtorch.so"),)


def test_what_is_no_torch(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "libfoo.so").write_bytes(Elf().build())
    (tmp_path / "libtorch.txt").write_text("x", encoding="utf-8")
    other = wheel(tmp_path / "other.whl", {"other/__init__.py": b""})
    for path, problem in (
        (tmp_path / "empty", "contains no torch"),
        (tmp_path / "libfoo.so", "is not a torch library, folder or wheel"),
        (tmp_path / "libtorch.txt", "is not a torch library, folder or wheel"),
        (tmp_path / "absent", "does not exist"),
        (other, "contains no torch"),
        (tmp_path / "absent.whl", "cannot be read"),
    ):
        with pytest.raises(InputError) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}: {problem}")


def test_a_damaged_libtorch_is_named(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    library = package / "lib" / "libtorch_cpu.so"
    library.write_bytes(library.read_bytes()[:300])
    with pytest.raises(InputError, match=r"libtorch_cpu\.so: truncated"):
        read(package)


def test_libraries_by_name_are_those_of_torch_alone(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    Elf().write(package / "lib" / "libgomp-a34b3233.so.1")
    (package / "lib" / "libshm.so").write_text("not ELF", encoding="utf-8")
    files = Files()
    libraries = Libraries(from_path(package, files).own_libraries, files)
    assert sorted(libraries) == sorted(torch_libraries())
    assert len(libraries) == len(torch_libraries())
    assert libraries["libtorch.so"].needed == ("libtorch_cpu.so",)
    for name in ("libgomp-a34b3233.so.1", "libshm.so", "libtorch_cuda.so"):
        with pytest.raises(KeyError):
            libraries[name]


def test_libraries_are_read_when_asked_for(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    files = Files()
    libraries = Libraries(from_path(package, files).own_libraries, files)
    shutil.rmtree(package / "lib")
    assert libraries["libtorch_cpu.so"].soname == "libtorch_cpu.so"  # read already: it tells the machine
    with pytest.raises(KeyError):
        libraries["libc10.so"]


def test_a_package_of_debian(tmp_path: Path) -> None:
    """As in python3-torch 1.13.1: the libraries are links to those of libtorch1.13, whose names have versions."""
    package = torch_package(tmp_path / "usr/lib/python3/dist-packages", build="1.13.0a0")
    folder = tmp_path / "usr/lib/x86_64-linux-gnu"
    folder.mkdir()
    for library in sorted((package / "lib").iterdir()):
        library.rename(folder / f"{library.name}.1.13.0")
        (folder / f"{library.name}.1.13").symlink_to(f"{library.name}.1.13.0")
        library.symlink_to(f"../../../../x86_64-linux-gnu/{library.name}.1.13")
    release = read(package)
    assert release.build == "1.13.0a0"
    assert release.own_libraries == {name: str(package / "lib" / name) for name in torch_libraries()}
    by_library = read(folder / "libtorch_cpu.so.1.13")
    assert by_library.own_libraries == {name: str(folder / f"{name}.1.13") for name in torch_libraries()}
    assert [Path(path).name for path in operator_libraries(by_library)] == [
        f"{Path(path).name}.1.13" for path in operator_libraries(release)
    ]


def test_libraries_are_identified_by_size_and_build_id(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    for number, (name, library) in enumerate(torch_libraries().items()):
        replace(library, build_id=bytes([number]) * 4).write(package / "lib" / name)
    files = Files()
    release = from_path(package, files)
    found = identify_libraries(release, files)
    sizes = {name: (package / "lib" / name).stat().st_size for name in torch_libraries()}
    assert found["libtorch_python.so"] == ""  # each Python of a release has its own
    assert found["libc10.so"] == f"{sizes['libc10.so']} 01010101"
    assert found["libtorch_cpu.so"] == f"{sizes['libtorch_cpu.so']} 02020202"
    assert [*found] == [Path(path).name for path in operator_libraries(release)]
    torch_libraries()["libc10.so"].write(package / "lib" / "libc10.so")  # without a build id
    files = Files()
    assert identify_libraries(from_path(package, files), files) == {}


def test_the_tags_of_a_release_are_known_by_its_version() -> None:
    """ATen/core/enum_tag.h of 2.1: ``core`` is the first name in the alphabet, which is how they are numbered."""
    assert "core" in _tags_of_release(TorchVersion("2.1.0")).names
    assert _tags_of_release(None).names == ()


def test_a_torch_without_the_library_that_checks() -> None:
    without = cast("TorchRelease", SimpleNamespace(own_libraries={}))
    assert read_assertions(without, Files()) == {}


def test_what_could_not_be_read_is_told_with_its_library_and_place() -> None:
    gaps = tuple(
        Gap(stage="emulation", reason=reason, address=address, symbol=None)
        for reason, address in (("damaged", None), ("stopped", 0x1234))
    )
    recovered = TorchRegistrations(
        libraries={"libtorch_cpu.so": Registrations(gaps=gaps)}, keys={}, aliases={}, registries=()
    )
    found = _name_keys(recovered, None, Tags(names=()))
    assert found.gaps == ("libtorch_cpu.so: damaged", "libtorch_cpu.so: stopped (at 0x1234)")


# The strings of aten/src/ATen/core/dispatch/Dispatcher.cpp from 1.8 on, for a second definition of an operator.
REGISTERED_TWICE = (
    b"Tried to register an operator (",
    (
        b") with the same name and overload name multiple times. Each overload's schema should only be registered with "
        b"a single call to def(). Duplicate registration: "
    ),
    b". Original registration: ",
)


@pytest.mark.parametrize(
    ("library", "counts"),
    [("libtorch_cpu.so", True), ("libc10.so", True), ("libtorch.so", True), ("libtorch_python.so", False)],
)
def test_messages_are_looked_for_in_the_libraries_that_print_them(
    library: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same text in libtorch_python.so is another message: the dispatcher is not there."""
    nothing = TorchRegistrations(libraries={}, keys={}, aliases={}, registries=())
    monkeypatch.setattr("abiscan.emulation.recover_torch", lambda *_: nothing)
    package = torch_package(tmp_path, build="2.9.1")
    path = package / "lib" / library
    elf = torch_libraries()[library]
    files = Files()
    assert "D1" in read_operators(from_path(package, files), files).unworded
    replace(elf, texts=(*elf.texts, *REGISTERED_TWICE)).write(path)
    files = Files()
    assert ("D1" not in read_operators(from_path(package, files), files).unworded) is counts


@pytest.mark.parametrize(
    ("build", "header", "assumed"),
    [
        ("2.9.1", None, {"keys"}),
        ("9.9.0", None, {"keys", "tags"}),  # newer than all that is known: its tags may be others
        (None, None, {"keys", "tags"}),
        ("9.9.0", "enum class Tag {\n  core,\n  pt2_compliant_tag,\n};", {"keys"}),
    ],
)
def test_what_is_taken_from_the_releases_is_told(
    build: str | None, header: str | None, assumed: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = TorchRegistrations(libraries={}, keys={}, aliases={}, registries=())
    monkeypatch.setattr("abiscan.emulation.recover_torch", lambda *_: nothing)
    package = torch_package(tmp_path, build=build)
    if header is not None:
        path = package / "include/ATen/core/enum_tag.h"
        path.parent.mkdir(parents=True)
        path.write_text(f"#pragma once\nnamespace at {{\n{header}\n}}\n", "utf-8")
    files = Files()
    assert read_operators(from_path(package, files), files).assumed == assumed


def kernel(key: int | None) -> RegisteredKernel:
    return RegisteredKernel(
        operator="a::op",
        dispatch_key=key,
        signature=None,
        inferred_schema=None,
        boxed=True,
        fallthrough=False,
        abi_version=None,
        stable=False,
        functions=(),
        phase=Phase.STATIC_INIT,
        order=0,
        library=None,
    )


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        # From 1.8 on, OperatorEntry::registerKernel takes it for an alias key: first Math, then renamed along with
        # DefaultBackend (DispatchKey.h). 1.7 has a key Math, but takes such a kernel for the catch-all.
        ({0: "Undefined", 1: "CPU", 2: "CompositeImplicitAutograd"}, "CompositeImplicitAutograd"),
        ({0: "Undefined", 1: "CPU", 2: "Math", 3: "DefaultBackend"}, "Math"),
        ({0: "Undefined", 1: "CPU", 2: "Math"}, None),
        ({0: "Undefined", 1: "CPU"}, None),
    ],
)
def test_a_kernel_without_a_key(keys: dict[int, str], expected: str | None) -> None:
    recovered = TorchRegistrations(
        libraries={"libtorch_cpu.so": Registrations(in_order=(kernel(None), kernel(1)))},
        keys=keys,
        aliases={},
        registries=(),
    )
    assert [each.key for each in _name_keys(recovered, None, Tags(names=())).kernels] == [expected, "CPU"]


def with_libraries(**libraries: Registrations) -> TorchRegistrations:
    return TorchRegistrations(libraries=libraries, keys={}, aliases={}, registries=())


def defined(name: str, *, jit_only: bool = False) -> RegisteredOperator:
    return RegisteredOperator(
        name=name, schema=None, inferred=False, tags=(), jit_only=jit_only,
        phase=Phase.STATIC_INIT, order=0, library=None,
    )  # fmt: skip


def test_operators_of_torchscript_alone_are_not_the_dispatcher_s() -> None:
    recovered = with_libraries(one=Registrations(in_order=(defined("a::one"), defined("a::jit", jit_only=True))))
    assert _name_keys(recovered, None, Tags(names=())).operators.keys() == {"a::one"}


def test_only_a_whole_library_takes_a_namespace() -> None:
    """library.cpp: TORCH_LIBRARY registers its namespace; FRAGMENT and IMPL do not, and IMPL(_, …) has none."""

    def block(kind: LibraryKind, namespace: str | None, line: int) -> Library:
        return Library(
            kind=kind, namespace=namespace, dispatch_key=None, file="a.cpp", line=line, phase=Phase.STATIC_INIT, order=0
        )

    blocks = (
        block(LibraryKind.DEF, "def", 1),
        block(LibraryKind.DEF, "def", 2),  # the first one, as torch would name it
        block(LibraryKind.DEF, None, 3),
        block(LibraryKind.FRAGMENT, "fragment", 4),
        block(LibraryKind.IMPL, "impl", 5),
        block(LibraryKind.IMPL, None, 6),
    )
    found = _name_keys(with_libraries(one=Registrations(in_order=blocks)), None, Tags(names=())).namespaces
    assert found == {"def": Place("a.cpp", 1)}


def test_a_key_that_torch_s_own_table_lacks_has_the_name_of_its_release() -> None:
    """AutocastCPU has a number in DispatchKey.h of 1.10, and no case in toString(DispatchKey)."""
    (number,) = (number for number, name in keys_of_minor((1, 10)).names.items() if name == "AutocastCPU")
    recovered = with_libraries(one=Registrations(in_order=(kernel(number),)))
    assert [one.key for one in _name_keys(recovered, TorchVersion("1.10.0"), Tags(names=())).kernels] == ["AutocastCPU"]


def test_tags_are_those_of_the_torch_s_own_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before those of its release: a build of a fork, say, that has more of them."""
    tagged = msgspec.structs.replace(defined("a::one"), tags=(1,))
    recovered = with_libraries(one=Registrations(in_order=(tagged,)))
    monkeypatch.setattr("abiscan.emulation.recover_torch", lambda *_: recovered)
    package = torch_package(tmp_path, build="2.9.1")
    files = Files()
    of_release = read_operators(from_path(package, files), files).operators["a::one"].tags
    assert of_release == (_tags_of_release(TorchVersion("2.9.1")).names[1],)
    path = package / "include/ATen/core/enum_tag.h"
    path.parent.mkdir(parents=True)
    path.write_text("namespace at {\nenum class Tag {\n  mine,\n  yours,\n};\n}\n", "utf-8")
    files = Files()
    assert read_operators(from_path(package, files), files).operators["a::one"].tags == ("yours",)


def test_the_newest_release_that_is_known_has_its_own_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = TorchRegistrations(libraries={}, keys={1: "CPU"}, aliases={}, registries=())
    monkeypatch.setattr("abiscan.emulation.recover_torch", lambda *_: nothing)
    major, minor = newest_minor()
    for number, assumed in ((minor, set()), (minor + 1, {"tags"})):
        files = Files()
        package = torch_package(tmp_path / str(number), build=f"{major}.{number}.0")
        assert read_operators(from_path(package, files), files).assumed == assumed


def test_the_module_of_a_torch_is_its_c_extension(tmp_path: Path) -> None:
    """torch/_C: there are other libraries in the folder, and other files that begin like it."""
    package = torch_package(tmp_path)
    for name in ("_C_flatbuffer.cpython-311-x86_64-linux-gnu.so", "_Cx.so", "_B.so", "a.so"):
        Elf().write(package / name)
    (package / "_C.pyi").write_text("x")
    (package / "_C.a.txt").write_text("x")
    assert read(package).local_libraries == (str(package / "_C.cpython-311-x86_64-linux-gnu.so"),)


def test_without_a_module_libtorch_python_stands_for_it(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    (package / "_C.cpython-311-x86_64-linux-gnu.so").unlink()
    assert read(package).local_libraries == (str(package / "lib/libtorch_python.so"),)
    (package / "lib/libtorch_python.so").unlink()
    assert read(package).local_libraries == (str(package / "lib/libtorch.so"),)
    (package / "lib/libtorch.so").unlink()
    assert read(package).local_libraries == (str(package / "lib/libtorch_cpu.so"),)


@pytest.mark.parametrize(
    ("site", "libraries", "found"),
    [
        ("env/lib/python3.11/site-packages", "env/lib", True),
        ("env/lib64/python3.11/site-packages", "env/lib64", False),
        ("env/lib/packages/site-packages", "env/lib", False),
    ],
)
def test_what_is_an_environment_of_conda(site: str, libraries: str, found: bool, tmp_path: Path) -> None:
    package = torch_package(tmp_path / site)
    for library in sorted((package / "lib").iterdir()):
        library.rename(tmp_path / libraries / library.name)
    if found:
        assert read(package).own_libraries.keys() == torch_libraries().keys()
    else:
        with pytest.raises(InputError, match="contains no torch"):
            read(package)


def test_the_libraries_of_a_torch_are_not_looked_for_elsewhere_if_it_has_them(tmp_path: Path) -> None:
    """Another torch of the environment is not mixed with that of the package."""
    package = torch_package(tmp_path / "lib/python3.11/site-packages")
    Elf(soname="libtorch_hip.so").write(tmp_path / "lib" / "libtorch_hip.so")
    assert read(package).own_libraries.keys() == torch_libraries().keys()
