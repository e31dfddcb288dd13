from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from packaging.version import Version

from abiscan.binary.elf import Machine, SharedObject
from abiscan.errors import InputError
from abiscan.inputs.files import Files
from abiscan.linkage.scope import Loader, SearchPath
from abiscan.torches import embedded
from abiscan.torches.model import TorchRelease
from tests.tables import name_table

# Facts about releases that everybody can look up: _ZN3c105ErrorC2E…Ss is the constructor of c10::Error with the old
# std::string, which x86_64 wheels had up to 2.6; with the new one from 2.7 on.
OLD_ERROR = "_ZN3c105ErrorC2ENS_14SourceLocationESs"
NEW_ERROR = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


def libc10(version: str, machine: Machine = Machine.X86_64) -> tuple[bool, bool]:
    files = Files()
    release = embedded.release(version, machine, files)
    facts = files.object_at(release.own_libraries["libc10.so"])
    assert facts is not None
    return bool(facts.symbols.find(OLD_ERROR)), bool(facts.symbols.find(NEW_ERROR))


def put_records(monkeypatch: pytest.MonkeyPatch, records: list[dict[str, Any]]) -> None:
    """Put these in place of the embedded builds."""
    monkeypatch.setattr(embedded, "_records_for", lambda _: records)
    monkeypatch.setattr(embedded, "_records_of_release", embedded._records_of_release.__wrapped__)
    monkeypatch.setattr(embedded, "_columns_of_builds", embedded._columns_of_builds.__wrapped__)
    monkeypatch.setattr(embedded, "_columns_of_libraries", embedded._columns_of_libraries.__wrapped__)


@pytest.mark.parametrize(
    ("version", "old", "new"), [("1.8.1", True, False), ("2.6.0", True, False), ("2.7.0", False, True)]
)
def test_strings_of_x86_64_wheels_changed_in_2_7(version: str, old: bool, new: bool) -> None:
    assert libc10(version) == (old, new)


def test_aarch64_wheels_always_had_the_new_strings() -> None:
    assert libc10("2.6.0", Machine.AARCH64) == (False, True)


def test_every_release_since_1_4_is_there() -> None:
    versions = embedded.versions()
    assert versions[0] == Version("1.4.0")
    assert Version("2.13.0") in versions
    assert {f"{version.major}.{version.minor}" for version in versions} >= {f"2.{minor}" for minor in range(16)}


def test_a_release_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(
        InputError, match=r"torch 0\.4\.1: not among the embedded releases .*nearest are 1\.4\.0, 1\.5\.0;"
    ):
        embedded.release("0.4.1", Machine.X86_64, Files())


@pytest.mark.parametrize("version", ["1.4.0", "1.5.0", "2.13.0"])
def test_a_process_starts_from_an_embedded_release(version: str) -> None:
    files = Files()
    release = embedded.release(version, Machine.X86_64, files)
    process = Loader(files, SearchPath(native=False), Machine.X86_64).start_process(
        (), global_libraries=release.global_libraries, libraries=release.local_libraries
    )
    known = {module.name for module in process.modules if module.facts}
    visible = {module.name for module in process.global_scope if module.facts}
    assert {"libc10.so", "libtorch.so", "libtorch_python.so"} <= known
    assert ("libc10.so" in visible) == (version == "1.4.0")  # torch 1.4 made everything global, newer ones do not


def test_a_name_tells_the_releases_that_export_it() -> None:
    found = embedded.releases_exporting(OLD_ERROR, Machine.X86_64)
    assert Version("2.6.0") in found
    assert Version("2.7.0") not in found
    assert embedded.releases_exporting("_ZN2at7nowhereEv", Machine.X86_64) == frozenset()


def test_a_cpu_build_says_nothing_about_names_of_cuda() -> None:
    assert Version("2.13.0") in embedded.releases_exporting("_ZN3c104cuda20getCurrentCUDAStreamEa", Machine.X86_64)


def test_the_releases_for_one_machine() -> None:
    assert Version("1.4.0") in embedded.versions(Machine.X86_64)
    assert Version("1.4.0") not in embedded.versions(Machine.AARCH64)


@pytest.mark.parametrize(("text", "expected"), [("2.6.0", True), ("2.6", True), ("torch", False), ("./lib", False)])
def test_tells_a_number_from_a_path(text: str, expected: bool) -> None:
    assert embedded.is_version(text) is expected


def test_a_release_is_described_by_its_libraries() -> None:
    """A library without a table of versions has none, which is not the same as an empty one."""
    record = SimpleNamespace(
        build="2.9.1+cpu", machine=Machine.X86_64, local_libraries=("/x/torch/_C.so",), global_libraries=("/x/a.so",)
    )
    libraries = {
        name: SimpleNamespace(soname=name, needed=("libc.so.6",), version_definitions=versions, pybind11_internals=None)
        for name, versions in (("a.so", None), ("b.so", frozenset({"V2", "V1"})))
    }
    found = embedded.make_record(cast("TorchRelease", record), cast("dict[str, SharedObject]", libraries))
    assert (found["build"], found["machine"], found["global"]) == ("2.9.1+cpu", "x86_64", ["a.so"])
    assert found["local"] == ["libtorch_python.so"]  # torch/_C is a stub for it
    assert {name: row["versions"] for name, row in found["libraries"].items()} == {"a.so": None, "b.so": ["V1", "V2"]}
    assert found["libraries"]["a.so"]["needed"] == ["libc.so.6"]


def test_the_names_that_a_release_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns of another build, with the same libraries, are in the same table."""
    columns = {"a": 0b0001, "b": 0b0011, "c": 0b0010, "d": 0b1100, "e": 0b1001}
    monkeypatch.setattr(embedded, "_make_table", lambda: name_table(columns))
    libraries = {"libc10.so": {"column": 0}, "libtorch.so": {"column": 1}, "libshm.so": {"column": 4}}
    monkeypatch.setattr(embedded, "find_record", lambda *_: {"libraries": libraries})
    assert embedded.exports("9.9.0", Machine.X86_64) == {
        "libc10.so": {"a", "b", "e"},
        "libtorch.so": {"b", "c"},
        "libshm.so": frozenset(),
    }


def built(build: str) -> TorchRelease:
    return TorchRelease(
        build=build,
        package="/torch",
        machine=Machine.X86_64,
        python=None,
        libraries=(),
        global_libraries=(),
        local_libraries=(),
    )


def of_cuda(build: str, needed: str) -> dict[str, object]:
    libraries = {"libtorch_cpu.so": {"needed": ["libc10.so"]}, "libtorch_cuda.so": {"needed": ["libc10.so", needed]}}
    return {"build": build, "machine": "x86_64", "libraries": libraries}


@pytest.mark.parametrize(
    ("asked", "like", "needed"),
    [
        # The same major version is the nearest, whatever its minor version.
        ("2.6.0+cu126", "2.6.0+cu124", "libcudart.so.12"),
        ("2.6.0+cu118", "2.6.0+cu124", "libcudart.so.11.0"),  # NVIDIA's soname of CUDA 11 has a minor version
        ("2.6.0+cu111", "2.6.0+cu124", "libcudart.so.11.0"),
        ("2.6.0+cu102", "2.6.0+cu124", "libcudart.so.12"),  # no build tells what those of CUDA 10 are called
    ],
)
def test_a_build_for_another_cuda(asked: str, like: str, needed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [of_cuda("2.1.0+cu118", "libcudart.so.11.0"), of_cuda("2.6.0+cu124", "libcudart.so.12")]
    records.insert(1, {"build": "2.6.0+cpu", "machine": "x86_64", "libraries": {}})
    unpacked: list[dict[str, dict[str, dict[str, list[str]]]]] = []

    def unpack(record: dict[str, dict[str, dict[str, list[str]]]], _: Files) -> TorchRelease:
        unpacked.append(record)
        return built(like)

    put_records(monkeypatch, records)
    monkeypatch.setattr(embedded, "_make_release", unpack)
    found = embedded.release_like(asked, Machine.X86_64, Files())
    assert (found.build, found.judged_as) == (asked, like)
    assert unpacked[0]["libraries"]["libtorch_cuda.so"]["needed"] == ["libc10.so", needed]
    assert unpacked[0]["libraries"]["libtorch_cpu.so"]["needed"] == ["libc10.so"]


@pytest.mark.parametrize(
    ("asked", "like"), [("2.6.0+cpu.cxx11.abi", "2.6.0+cpu"), ("2.6.0+rocm6.2", "2.6.0+cpu"), ("2.6.0+cu124", None)]
)
def test_a_build_without_cuda_is_like_one_without(
    asked: str, like: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [of_cuda("2.6.0+cu124", "libcudart.so.12"), of_cuda("2.6.0+cpu", "libgomp.so.1")]
    put_records(monkeypatch, records)
    monkeypatch.setattr(embedded, "_make_release", lambda record, _: built(record["build"]))
    found = embedded.release_like(asked, Machine.X86_64, Files())
    assert (found.build, found.judged_as) == (asked, like)


def test_the_string_of_an_embedded_release() -> None:
    """The notes of 2.7: the wheels for x86_64 have the C++11 string from then on; those for aarch64 always had it."""
    assert embedded.uses_cxx11_strings("2.6.0", Machine.X86_64) is False
    assert embedded.uses_cxx11_strings("2.7.0", Machine.X86_64) is True
    assert embedded.uses_cxx11_strings("2.6.0", Machine.AARCH64) is True
    assert embedded.uses_cxx11_strings("9.9.0", Machine.X86_64) is None


def of_release(build: str, *libraries: str) -> dict[str, object]:
    """A build with libraries, each with its column: ``libc10.so:2``."""
    described = {
        name: {"column": int(column), "needed": []} for name, column in (text.split(":") for text in libraries)
    }
    return {"build": build, "machine": "x86_64", "libraries": described}


def test_whether_each_release_exports_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A release exports what one of its builds does; a build without CUDA says nothing about the names of CUDA."""
    records = [
        of_release("2.1.0+cpu", "libtorch_cpu.so:0"),
        of_release("2.1.0+cu121", "libtorch_cpu.so:1", "libtorch_cuda.so:2"),
        of_release("2.0.0+cu118", "libtorch_cpu.so:3", "libtorch_cuda.so:4"),
        of_release("2.2.0+cpu", "libtorch_cpu.so:5"),
    ]
    columns = {"in_cpu_of_2_1": 0b1, "in_gpu_build_of_2_1": 0b10, "cuda_name": 0b100, "in_2_2": 0b100000}
    monkeypatch.setattr(embedded, "_make_table", lambda: name_table(columns))
    put_records(monkeypatch, records)

    def exported(name: str) -> dict[str, bool]:
        found = embedded.exported_by_release.__wrapped__(name, Machine.X86_64)
        return {str(release): has for release, has in found.items()}

    assert exported("in_cpu_of_2_1") == {"2.0.0": False, "2.1.0": True, "2.2.0": False}
    assert exported("in_gpu_build_of_2_1") == {"2.0.0": False, "2.1.0": True, "2.2.0": False}
    assert exported("in_2_2") == {"2.0.0": False, "2.1.0": False, "2.2.0": True}
    assert exported("cuda_name") == {"2.0.0": False, "2.1.0": True}
    assert [*exported("in_2_2")] == ["2.0.0", "2.1.0", "2.2.0"]  # the oldest first
    assert embedded.libraries_exporting("cuda_name", Machine.X86_64) == {"libtorch_cuda.so"}
    assert embedded.libraries_exporting("in_2_2", Machine.X86_64) == {"libtorch_cpu.so"}
    assert embedded.libraries_exporting("absent", Machine.X86_64) == frozenset()


def test_the_releases_that_export_a_name_of_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build for CPUs could have it in another build; one with CUDA, or another name, is what it is."""
    records = [
        of_release("2.0.0+cu118", "libtorch_cpu.so:0", "libtorch_cuda.so:1"),
        of_release("2.1.0+cpu", "libtorch_cpu.so:2"),
        of_release("2.2.0+cu121", "libtorch_cpu.so:3", "libtorch_cuda.so:4"),
    ]
    columns = {"of_Cuda": 0b00010, "of_cpu": 0b00100, "cuda_in_both": 0b10010}
    monkeypatch.setattr(embedded, "_make_table", lambda: name_table(columns))
    put_records(monkeypatch, records)
    embedded._find_releases.cache_clear()
    try:
        found = {name: embedded.releases_exporting(name, Machine.X86_64) for name in (*columns, "cuda_nowhere")}
    finally:
        embedded._find_releases.cache_clear()
    assert {name: sorted(map(str, releases)) for name, releases in found.items()} == {
        "of_Cuda": ["2.0.0", "2.1.0"],
        "of_cpu": ["2.1.0"],
        "cuda_in_both": ["2.0.0", "2.1.0", "2.2.0"],
        "cuda_nowhere": [],
    }


def test_the_cuda_of_each_release(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        of_cuda("2.6.0+cu124", "libcudart.so.12"),
        of_cuda("2.6.0+cu118", "libcudart.so.11.0"),
        of_cuda("2.6.0+cpu", "libgomp.so.1"),
        of_cuda("2.5.0+cpu", "libgomp.so.1"),
    ]
    put_records(monkeypatch, records)
    found = embedded.cuda_majors.__wrapped__(Machine.X86_64)
    assert {str(release): majors for release, majors in found.items()} == {"2.5.0": set(), "2.6.0": {"11", "12"}}


def test_the_newest_build_tells_what_the_libraries_of_a_cuda_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA 13 has libcufft.so.12: each library counts its own versions, which can change within a CUDA."""
    records = [
        of_cuda("2.9.0+cu130", "libcufft.so.11"),
        of_cuda("2.10.0+cu130", "libcufft.so.12"),
        of_cuda("2.11.0+cu128", "libcufft.so.10"),
    ]
    unpacked: list[dict[str, dict[str, dict[str, list[str]]]]] = []

    def unpack(record: dict[str, dict[str, dict[str, list[str]]]], _: Files) -> TorchRelease:
        unpacked.append(record)
        return built("2.11.0+cu128")

    put_records(monkeypatch, records)
    monkeypatch.setattr(embedded, "_make_release", unpack)
    embedded.release_like("2.11.0+cu131", Machine.X86_64, Files())
    embedded.release_like("2.11.0+rocm6.4", Machine.X86_64, Files())
    needed = [record["libraries"]["libtorch_cuda.so"]["needed"][1] for record in unpacked]
    assert needed == ["libcufft.so.12", "libcufft.so.10"]  # of no CUDA: as they are


def test_the_libraries_of_an_embedded_release_are_no_programs() -> None:
    files = Files()
    release = embedded.release("2.13.0", Machine.X86_64, files)
    assert not any(facts.executable for path in release.libraries if (facts := files.object_at(path)) is not None)
