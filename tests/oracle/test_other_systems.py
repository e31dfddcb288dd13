"""Libraries on another system. The words are those of Debian's own ``ld.so``: of glibc 2.31 in Debian 11, where these
libraries were loaded with it (``ld.so --library-path``), and of 2.41 in Debian 13, where they load.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import abiscan
from abiscan.errors import InputError
from abiscan.inputs.target_system import target_system
from abiscan.inputs.wheel_tag import newest_of_manylinux, version_of
from tools.build_systems import SYSTEMS

needs_debian_12 = pytest.mark.skipif(
    not Path("/etc/os-release").exists() or 'VERSION_ID="12"' not in Path("/etc/os-release").read_text(),
    reason="needs Debian 12",
)
needs_gcc = pytest.mark.skipif(
    not (shutil.which("g++") and platform.machine() == "x86_64" and sys.platform == "linux"),
    reason="needs g++ for x86-64",
)
SAMPLE = Path(__file__).parents[2] / "sample_binaries/undefined_symbol_signature/undefined_symbol_signature.so"
NEW_GLIBC = "#include <pthread.h>\nint f() { pthread_t t; return pthread_create(&t, 0, 0, 0); }"
NEW_LIBSTDCXX = """
#include <charconv>
double f(const char *a, const char *b) { double d = 0; std::from_chars(a, b, d); return d; }
"""
"""With glibc 2.34 or newer, and GCC 11 or newer, these need GLIBC_2.34 and GLIBCXX_3.4.29."""


def build(folder: Path, source: str) -> Path:
    library = folder / "x.so"
    command = ["g++", "-O1", "-std=c++17", "-fPIC", "-shared", "-x", "c++", "-", "-o", str(library)]
    subprocess.run(command, input=source, text=True, check=True)
    return library


def error_on(system: str, library: Path) -> str | None:
    (result,) = abiscan.check(library, torch="2.13.0", system=system).results
    return str(result.predicted_error) if result.predicted_error else None


@needs_gcc
@pytest.mark.parametrize(
    ("source", "words"),
    [
        (NEW_GLIBC, "libc.so.6: version `GLIBC_2.34' not found (required by {})"),
        (NEW_LIBSTDCXX, "libstdc++.so.6: version `GLIBCXX_3.4.29' not found (required by {})"),
    ],
)
def test_what_a_system_lacks_is_said_as_its_loader_does(source: str, words: str, tmp_path: Path) -> None:
    library = build(tmp_path, source)
    if "GLIBC_2.34" not in str(library.read_bytes()) and "GLIBCXX_3.4.29" not in str(library.read_bytes()):
        pytest.skip("the libraries here are too old")
    assert error_on("debian11", library) == words.format(library)
    assert error_on("debian13", library) is None
    finding = abiscan.check(library, torch="2.13.0", system="debian11").results[0].findings[0]
    assert finding.message == f"/lib/x86_64-linux-gnu/{words.format(library)}"


@needs_debian_12
def test_the_table_has_what_the_libraries_define() -> None:
    here = target_system("/")
    named = target_system("debian12")
    assert (here.folder, here.newest) == (named.folder, named.newest)


@needs_debian_12
@needs_gcc
def test_the_libraries_of_an_image_are_looked_into(tmp_path: Path) -> None:
    """Of a name, nobody knows what its other libraries define; ``dlopen`` says this of the file here."""
    source = tmp_path / "x.c"
    source.write_text("int nowhere(void); int x(void) { return nowhere(); }")
    subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(tmp_path / "x.so")], check=True)
    (result,) = abiscan.check(tmp_path / "x.so", system="/").results
    assert result.predicted_error is not None
    assert result.predicted_error.message == "undefined symbol: nowhere"


@pytest.mark.parametrize("system", [system.name for system in SYSTEMS])
def test_a_distribution_has_what_the_manylinux_tag_for_its_glibc_promises(system: str) -> None:
    newest = target_system(system).newest
    promised = newest_of_manylinux(version_of(newest["GLIBC"]))
    assert all(version_of(newest[family]) >= version_of(promised[family]) for family in newest)


@pytest.mark.parametrize(
    ("system", "file", "version", "lacks"),
    {
        "as new": ("manylinux_2_28", "libc.so.6", "GLIBC_2.28", False),
        "newer": ("manylinux_2_28", "libc.so.6", "GLIBC_2.29", True),
        "as a number": ("manylinux_2_28", "libm.so.6", "GLIBC_2.4", False),
        "between two tags": ("manylinux_2_33", "libc.so.6", "GLIBC_2.33", False),
        "another name": ("manylinux2014", "libc.so.6", "GLIBC_2.18", True),
        "a newer libstdc++": ("rhel8", "libstdc++.so.6", "GLIBCXX_3.4.26", True),
        "a newer GCC than the compiler's": ("amazonlinux2023", "libstdc++.so.6", "GLIBCXX_3.4.33", False),
        "newer than that": ("amazonlinux2023", "libstdc++.so.6", "GLIBCXX_3.4.34", True),
        "of aarch64": ("rhel9", "libgcc_s.so.1", "GCC_11.0", False),
        "the newest system": ("ubuntu26.04", "libstdc++.so.6", "GLIBCXX_3.4.35", False),
        "packed relocations": ("ubuntu22.04", "libc.so.6", "GLIBC_ABI_DT_RELR", True),
        "packed relocations, read": ("debian12", "libc.so.6", "GLIBC_ABI_DT_RELR", False),
        "more digits than int() takes": ("debian11", "libc.so.6", "GLIBC_" + "9" * 5000, False),
        "without a number": ("debian11", "libc.so.6", "GLIBC_PRIVATE", False),
        "a library of somebody else": ("debian11", "libmine.so.1", "GLIBC_9.9", False),
    }.values(),
)
def test_versions_are_compared_as_numbers(system: str, file: str, version: str, lacks: bool) -> None:
    assert target_system(system).lacks(file, version) is lacks


@pytest.mark.parametrize(
    ("system", "words"),
    {
        "musl": ("musllinux_1_2", "has musl instead of glibc: there is no torch for it, and nothing loads"),
        "unknown": ("debain12", "is neither a system that abiscan knows nor a folder"),
        "too new": ("manylinux_2_99", "is neither a system that abiscan knows nor a folder"),
    }.values(),
)
def test_other_names_are_refused(system: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        target_system(system)
    assert caught.value.problem == words


def test_a_folder_without_libraries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no libc"):
        target_system(str(tmp_path))


def test_the_document_has_the_system() -> None:
    report = abiscan.check(SAMPLE, torch="2.13.0", system="debian12")
    versions = {"glibc": "2.36", "libstdcxx": "3.4.30", "cxxabi": "1.3.13", "libgcc": "12.0.0", "zlib": "1.2.12"}
    assert report.document()["system"] == {"name": "debian12", **versions}
    assert "system" not in abiscan.check(SAMPLE, torch="2.13.0").document()


@needs_gcc
def test_the_document_has_the_newest_versions_that_readelf_lists(tmp_path: Path) -> None:
    library = build(tmp_path, NEW_LIBSTDCXX + "void g() { throw 1; }")
    listed = subprocess.run(["readelf", "-V", library], capture_output=True, text=True, check=True).stdout
    versions: dict[str, list[str]] = {}
    for family, number in re.findall(r"Name: (GLIBC|GLIBCXX|CXXABI)_([0-9.]+)", listed):
        versions.setdefault(family, []).append(number)
    newest = {family: max(numbers, key=version_of) for family, numbers in versions.items()}
    (result,) = abiscan.check(library, torch="2.13.0").document()["results"]
    assert result["needs"] == {name.lower(): newest.get(name) for name in ("GLIBC", "GLIBCXX", "CXXABI")}


@needs_gcc
@pytest.mark.parametrize(("system", "loads"), [("debian12", True), ("debian13", False), ("manylinux_2_28", True)])
def test_executable_stacks_by_the_glibc_of_a_system(tmp_path: Path, system: str, *, loads: bool) -> None:
    """With glibc 2.41, of Debian 13, it is refused (``ld.so --library-path``); with that of Debian 12 it loads."""
    source = tmp_path / "x.c"
    source.write_text("int x(void) { return 1; }")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-z", "execstack", str(source), "-o", str(tmp_path / "x.so")], check=True
    )
    (result,) = abiscan.check(tmp_path / "x.so", torch="2.13.0", system=system).results
    words = "cannot enable executable stack as shared object requires: Invalid argument"
    assert (result.predicted_error and result.predicted_error.message) == (None if loads else words)
