"""Libraries that another package brings: found, and not taken where they fit another torch only."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

import abiscan
from abiscan.results.check import Result
from tests.elf_builder import Elf, exports, uses
from tests.fakes import SAMPLES, extension, install, package_wheel, python_of, torch_package, wheel

TORCH: Final = "2.13.0"
GONE: Final = uses("_ZN2at4goneEv")
OTHER: Final = ("libtorch_cpu.so", "libother.so.1")


def classes_assumed(result: Result) -> list[str]:
    return [gap.reason for gap in result.gaps if "abiscan_provider.Thing" in gap.reason]


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """Names a class of the provider in a schema, and needs its library."""
    (tmp_path / "user").mkdir()
    return Path(shutil.copy(SAMPLES / "class_of_another" / "abiscan_user.so", tmp_path / "user"))


@pytest.fixture
def provider(tmp_path: Path) -> Path:
    (tmp_path / "provider").mkdir()
    return Path(shutil.copy(SAMPLES / "class_of_another" / "libabiscan_provider.so", tmp_path / "provider"))


def test_a_class_of_a_library_that_is_not_there_is_a_gap(user: Path) -> None:
    (result,) = abiscan.check(user, TORCH).results
    assert (result.verdict.value, result.predicted_error) == ("loads", None)
    assert result.external == ("libabiscan_provider.so",)
    assert len(classes_assumed(result)) == 1
    assert "bad-schema-string" not in {finding.rule for finding in result.findings}


@pytest.mark.parametrize("provider_first", [False, True])
def test_a_class_of_another_target_is_known(user: Path, provider: Path, provider_first: bool) -> None:
    targets = [provider, user] if provider_first else [user, provider]
    results = {Path(result.path).name: result for result in abiscan.check(targets, TORCH).results}
    found = results[user.name]
    assert (found.verdict.value, found.external, classes_assumed(found)) == ("loads", (), [])
    assert results[provider.name].verdict.value == "loads"
    assert results[provider.name].findings == ()


def test_a_class_that_nobody_registers_is_an_abort(user: Path, tmp_path: Path) -> None:
    # The library is there, and has no class: real torch aborts.
    Elf(soname="libabiscan_provider.so").write(tmp_path / "user" / "libabiscan_provider.so")
    (result,) = abiscan.check(user, TORCH).results
    assert result.predicted_error is not None
    assert result.predicted_error.how.value == "aborts"
    assert "Unknown custom class type abiscan_provider.Thing" in result.predicted_error.message


def test_a_library_of_another_wheel_is_found_by_its_soname(tmp_path: Path) -> None:
    torch = torch_package(tmp_path / "site")
    needing = wheel(tmp_path / "a.whl", {"a/_C.so": extension(needed=OTHER, undefined=uses("other_f")).build()})
    library = extension(soname="libother.so.1", defined=exports("other_f"))
    other = wheel(tmp_path / "b.whl", {"b/libother.so": library.build()})
    (alone,) = abiscan.check(needing, str(torch)).results
    assert (alone.verdict.value, alone.external) == ("loads", ("libother.so.1",))
    result, _ = abiscan.check([needing, other], str(torch)).results
    assert (result.verdict.value, result.external) == ("loads", ())
    lacking = wheel(tmp_path / "c.whl", {"b/libother.so": extension(soname="libother.so.1").build()})
    result, _ = abiscan.check([needing, lacking], str(torch)).results
    assert (result.verdict.value, result.undefined_symbols) == ("fails", ("other_f",))


def test_of_several_libraries_the_one_that_loads_is_meant(tmp_path: Path) -> None:
    torch = torch_package(tmp_path / "site")
    needing = wheel(tmp_path / "a.whl", {"a/_C.so": extension(needed=OTHER, undefined=uses("other_f")).build()})
    libraries = {
        "b/torch-9.8/libother.so.1": extension(undefined=GONE).build(),
        "b/torch-9.9/libother.so.1": extension(defined=exports("other_f")).build(),
    }
    result = abiscan.check([needing, wheel(tmp_path / "b.whl", libraries)], str(torch)).results[0]
    assert (result.verdict.value, result.external) == ("loads", ())


def test_what_is_installed_beside_torch_is_found(tmp_path: Path) -> None:
    site = tmp_path / "site"
    torch_package(site)
    install(site, "other", {"other/libother.so.1": Elf(defined=exports("other_f"))})
    install(site, "nvidia-cuda-runtime-cu12", {"nvidia/lib/libcudart.so.12": Elf()})
    needed = (*OTHER, "libcudart.so.12")
    needing = extension(needed=needed, undefined=uses("other_f")).write(tmp_path / "build" / "_C.so")
    (result,) = abiscan.check(needing, python=python_of(site, tmp_path)).results
    # torch alone decides whether it loads CUDA's libraries: this one does not.
    assert (result.verdict.value, result.external) == ("loads", ("libcudart.so.12",))


@pytest.mark.parametrize("brought_by", ["pkg", "other"])
def test_a_library_of_an_installed_package_is_no_library_of_another_one(tmp_path: Path, brought_by: str) -> None:
    """No search path leads to it, and nothing loads it: only another package may have done so."""
    site = tmp_path / "site"
    torch_package(site)
    code = "import ctypes, os, torch\nctypes.CDLL(os.path.join(os.path.dirname(__file__), 'lib.so'))\n"
    objects = {"pkg/lib.so": extension(needed=("libtorch_cpu.so", "libpart.so"))}
    part = {f"{brought_by}/libpart.so": Elf(soname="libpart.so")}
    if brought_by == "pkg":
        objects |= part
    else:
        install(site, "other", part)
    install(site, "pkg", objects, requires="torch", files={"pkg/__init__.py": code})
    (package,) = abiscan.check("pkg", python=python_of(site, tmp_path)).packages
    if brought_by == "other":
        assert package.verdict.value == "works"
        return
    assert package.error is not None
    message = "libpart.so: cannot open shared object file: No such file or directory"
    assert (package.error.exception, package.error.message) == ("OSError", message)


@pytest.mark.parametrize(
    ("required", "code", "verdict"),
    [
        ("other", "import other", "import-fails"),
        # pip brings what is missing, and what an installed package lacks.
        ("other\nRequires-Dist: absent", "import other", "import-fails"),
        ("absent", "import other", "import-fails"),
        ("absent", "import absent", "works"),
        ("other<1", "import other", "works"),
        ("half", "import half", "works"),
    ],
)
def test_what_is_installed_and_stays_is_asked_for_a_wheel(
    required: str, code: str, verdict: str, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    torch_package(site)
    install(site, "other", {}, requires="below", files={"other/__init__.py": "from below import gone\n"})
    install(site, "below", {}, requires="", files={"below/__init__.py": "here = 1\n"})
    install(site, "half", {}, requires="further", files={"half/__init__.py": "import further\n"})
    files, metadata = {"pkg/__init__.py": f"import torch\n{code}\n"}, {"Requires-Dist": required}
    wheel = package_wheel(tmp_path, "pkg", {}, files=files, metadata=metadata, tag="py3-none-any")
    (package,) = abiscan.check(wheel, python=python_of(site, tmp_path)).packages
    assert package.verdict.value == verdict


@pytest.mark.parametrize(
    ("code", "lost"),
    [
        ("import broken\n", ["pkg.part"]),
        ("from broken.below import thing\n", ["pkg.part"]),
        ("import sound\n", []),
        ("try:\n    import broken\nexcept ImportError:\n    broken = None\n", []),
        ("def use():\n    import broken\n", []),
    ],
)
def test_a_submodule_that_imports_what_fails_here_is_lost(code: str, lost: list[str], tmp_path: Path) -> None:
    """As ``import fastai.vision.all`` fails beside a torchvision for another torch, and ``import fastai`` does not."""
    site = tmp_path / "site"
    torch_package(site)
    of_torch = "import torch\n"
    install(site, "broken", {}, files={"broken/__init__.py": of_torch + "from torch import absent_from_all\n"})
    install(site, "sound", {}, files={"sound/__init__.py": of_torch})
    install(site, "pkg", {}, requires="torch", files={"pkg/__init__.py": of_torch, "pkg/part.py": code})
    (package,) = abiscan.check("pkg", python=python_of(site, tmp_path)).packages
    assert [module.name for module in package.lost] == lost


VENDOR: Final = extension(needed=("libtorch_cpu.so", "libvendor.so.1"))
NO_VENDOR: Final = "libvendor.so.1: cannot open shared object file: No such file or directory"
IMPORT: Final = "import torch\nfrom . import _C\n"
GUARDED: Final = "import torch\ntry:\n    from . import _C\nexcept ImportError:\n    _C = None\n"


@pytest.mark.parametrize(
    ("code", "beside", "verdict"),
    [
        (IMPORT, {}, "import-fails"),
        (GUARDED, {}, "works-without"),
        ("import ctypes, helper\nctypes.CDLL(helper.find())\n" + IMPORT, {}, "unknown"),
        (IMPORT, {"nvidia/lib/libvendor.so.1": Elf()}, "unknown"),
    ],
    ids=["nowhere", "nowhere, and guarded", "not followed", "in a package of CUDA"],
)
def test_a_library_that_no_package_and_no_folder_of_the_system_has(
    tmp_path: Path, code: str, beside: dict[str, Elf], verdict: str
) -> None:
    """Where the package is installed, this is the machine that is asked about."""
    site = tmp_path / "site"
    torch_package(site)
    install(site, "nvidia-vendor", beside)
    install(site, "helper", {}, files={"helper.py": "def find(): ...\n"})
    install(site, "pkg", {"pkg/_C.so": VENDOR}, requires="torch", files={"pkg/__init__.py": code})
    (package,) = abiscan.check("pkg", python=python_of(site, tmp_path)).packages
    assert package.verdict.value == verdict
    if verdict == "import-fails":
        assert package.error is not None
        assert (package.error.exception, package.error.message) == ("ImportError", NO_VENDOR)
        assert (package.error.file, package.error.line) == ("pkg/__init__.py", 2)
