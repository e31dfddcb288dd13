"""Builds that are not embedded, of releases that are."""

from __future__ import annotations

from pathlib import Path

import pytest

import abiscan
from abiscan.binary.elf import Machine
from abiscan.errors import InputError
from abiscan.findings import Effect
from abiscan.inputs.files import Files
from abiscan.inputs.session import Session
from abiscan.inputs.version import TorchVersion
from abiscan.pipelines.check import check_targets
from abiscan.results.check import Report
from abiscan.results.verdict import Verdict
from abiscan.rules import RULES
from abiscan.torches import embedded
from abiscan.torches.model import TorchRelease
from abiscan.torches.string_abi import of_build
from abiscan.torches.torch import ReleaseNumber
from abiscan.verdict.torch_set import CheckRequest
from tests.elf_builder import Elf, exports, uses
from tests.fakes import SAMPLES, package_wheel

X86 = Machine.X86_64


def report(sample: str, number: str, store: Path) -> Report:
    return check_targets(
        CheckRequest(targets=(SAMPLES / sample,), torches=(ReleaseNumber(number),), rules=tuple(RULES)),
        Session(folder=store),
    )


def test_what_holds_for_the_release_stands(tmp_path: Path) -> None:
    (result,) = report("undefined_symbol_signature/undefined_symbol_signature.so", "2.11.0+cu126", tmp_path).results
    assert (result.verdict, result.torch_build) == (Verdict.FAILS, "2.11.0+cu126")
    (gap,) = (gap for gap in result.gaps if gap.stage == "torch")
    assert "like 2.11.0+cu130" in gap.reason
    assert "CUDA 12" in gap.reason


def test_what_loads_on_another_build_is_unknown(tmp_path: Path) -> None:
    found = report("loads/loads.so", "2.13.0+cu126", tmp_path)
    (result,) = found.results
    assert result.verdict is Verdict.UNKNOWN
    assert found.exit_code(Effect.CORRUPTS, strict=False) == 3
    assert found.exit_code(Effect.CORRUPTS, strict=True) == 1


# loads.so is compiled with the C++11 string, as all samples for torch 2.13.0.
def test_nothing_is_said_on_symbols_if_the_string_is_another(tmp_path: Path) -> None:
    (result,) = report("loads/loads.so", "2.6.0+cu126", tmp_path).results
    assert (result.verdict, result.findings) == (Verdict.UNKNOWN, ())
    (gap,) = result.gaps
    assert "known of it is that it has the C++11 std::string" in gap.reason


# cxx11_abi.so is compiled with the old string.
def test_an_extension_with_the_string_of_the_other_builds_fails(tmp_path: Path) -> None:
    (result,) = report("cxx11_abi/cxx11_abi.so", "2.6.0+cu126", tmp_path).results
    assert result.verdict is Verdict.FAILS
    (finding,) = result.findings
    assert (finding.rule, finding.effect) == ("cxx11-abi-mismatch", Effect.LOAD_FAILS)
    assert result.undefined_symbols


# Truth: pytorch/pytorch#148411, vllm-project/vllm#13608. 2.6.0+cu124, which stands for it, has the old string.
@pytest.mark.parametrize(("torch", "verdict"), [("2.6.0+cu126", "import-fails"), ("2.6.0+cu124", "works")])
def test_a_package_is_judged_on_the_build_that_its_files_are_judged_on(
    torch: str, verdict: str, tmp_path: Path
) -> None:
    lacking = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
    wheel = package_wheel(
        tmp_path,
        "old",
        {"old/_C.so": Elf(needed=("libc10.so",), undefined=uses(lacking), defined=exports("PyInit__C"))},
        files={"old/__init__.py": "import torch\nfrom . import _C\n"},
    )
    (package,) = abiscan.check(wheel, torch).packages
    assert package.verdict.value == verdict
    if package.error:
        assert (package.error.exception, package.error.message) == (
            "ImportError",
            f"old/_C.so: undefined symbol: {lacking}",
        )


def test_a_build_with_another_cuda_needs_its_libraries() -> None:
    files = Files()
    release = embedded.release_like("2.11.0+cu126", X86, files)
    assert (release.build, release.judged_as) == ("2.11.0+cu126", "2.11.0+cu130")
    needed = {name for path in release.libraries if (facts := files.object_at(path)) for name in facts.needed}
    assert "libcudart.so.12" in needed
    assert "libcudart.so.13" not in needed


def test_a_build_that_is_embedded_is_itself() -> None:
    assert embedded.release_like("2.13.0+cu130", X86, Files()).judged_as is None


def test_a_release_that_is_not_embedded() -> None:
    with pytest.raises(InputError):
        embedded.release_like("9.9.0+cu126", X86, Files())


@pytest.mark.parametrize(
    ("build", "cxx11"),
    [
        ("2.5.1+cu124", False),
        ("2.5.1+cpu.cxx11.abi", True),
        ("2.5.1+rocm6.2", None),
        ("2.5.1+custom", None),
        ("2.0.1+cu117.with.pypi.cudnn", False),
        ("2.6.0+cu118", False),
        ("2.6.0+cu126", True),
        ("2.6.0+rocm6.2.4", True),
        ("2.7.0+cu118", True),
    ],
)
def test_strings_of_builds(build: str, cxx11: bool | None) -> None:
    assert of_build(TorchVersion(build), X86) is cxx11


def test_strings_of_the_embedded_builds() -> None:
    """Where the libraries themselves tell, they agree."""
    for version, machine, full in embedded.builds():
        told = of_build(TorchVersion(full), machine)
        if told is not None:
            assert told is embedded.uses_cxx11_strings(str(version), machine), full


def _names_in(release: TorchRelease, files: Files) -> set[str]:
    needed = (name for path in release.libraries if (facts := files.object_at(path)) for name in facts.needed)
    return {*needed, *(Path(path).name for path in release.libraries)}


def test_a_build_for_cpus_has_no_cuda() -> None:
    """It has what 2.13.0+cpu has, which was read from its wheel, and not what only 2.13.0+cu130 has."""
    of = {build: (files := Files(), embedded.release(build, X86, files)) for build in ("2.13.0+cpu", "2.13.0+cu130")}
    cpu, cuda = (_names_in(release, files) for files, release in of.values())
    files = Files()
    release = embedded.release_like("2.9.1+cpu", X86, files)
    assert (release.build, release.judged_as) == ("2.9.1+cpu", "2.9.1+cu128")
    assert not _names_in(release, files) & (cuda - cpu)


# Truth: pytorch/vision#9077.
def test_what_needs_cuda_does_not_load_on_a_build_for_cpus(tmp_path: Path) -> None:
    wheel = package_wheel(
        tmp_path,
        "old",
        {"old/_C.so": Elf(needed=("libc10.so", "libc10_cuda.so"), defined=exports("PyInit__C"))},
        files={"old/__init__.py": "import torch\nfrom . import _C\n"},
    )
    (package,) = abiscan.check(wheel, "2.7.0+cpu").packages
    assert package.error
    assert package.error.message
    assert "libc10_cuda.so: cannot open shared object file: No such file or directory" in package.error.message


# Truth: pytorch/FBGEMM#1923. 1.12.1+cu102, which stands for it, has no libtorch_cuda_cpp.so.
@pytest.mark.parametrize(
    ("symbol", "verdict"),
    [
        ("_ZN3c104impl8GPUTrace13gpuTraceStateE", Verdict.FAILS),
        ("_ZN3c104cuda29c10_cuda_check_implementationERKSsS2_ib", Verdict.UNKNOWN),
        ("_ZN2at4cuda4made4hereEv", Verdict.UNKNOWN),
        ("_ZN3c104impl8GPUTrace13gpuTraceStateE on 1.12.1+rocm5.1.1", Verdict.UNKNOWN),
        ("_ZN3c104impl8GPUTrace13gpuTraceStateE on 1.12.1+custom1", Verdict.UNKNOWN),
        ("_ZN3c1011MyForkThing2goEv on 2.9.1+custom1", Verdict.UNKNOWN),
        ("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", Verdict.UNKNOWN),
    ],
)
def test_what_libc10_lacks_no_build_of_its_release_has(symbol: str, verdict: Verdict, tmp_path: Path) -> None:
    symbol, _, build = symbol.partition(" on ")
    library = Elf(needed=("libtorch_cuda_cpp.so", "libc10.so"), undefined=uses(symbol), defined=exports("PyInit__C"))
    wheel = package_wheel(tmp_path, "old", {"old/_C.so": library}, files={"old/__init__.py": "import torch\n"})
    (result,) = abiscan.check(wheel, build or "1.12.1+cu113", each_file=True).results
    assert result.verdict is verdict
    assert result.undefined_symbols == ((symbol,) if verdict is Verdict.FAILS else ())
