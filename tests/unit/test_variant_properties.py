"""What the properties of variants mean for processors, GPUs and drivers, and which of them are true of a wheel."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import abiscan
from abiscan.binary.elf import Machine
from abiscan.cli import main
from abiscan.cpu.variants import admitted_cpu, properties_of_needs, unknown_to_cpus
from abiscan.findings import Effect
from abiscan.gpu.drivers import Driver, cuda_of_driver, driver_of_cuda
from abiscan.gpu.model import CodeKind, Entry
from abiscan.gpu.variants import architecture_property, stated_gpus, unknown_to_gpus, unstated_targets
from abiscan.inputs.packages import find_installed
from abiscan.inputs.variants import WheelVariant, variant_of_wheel
from tests.fakes import extension, variant_wheel

DATA = Path(__file__).parents[1] / "data"


def variant(**namespaces: dict[str, list[str]]) -> WheelVariant:
    read = variant_of_wheel("v", json.dumps({"variants": {"v": namespaces}}))
    assert read is not None
    return read


def test_the_least_processor_that_is_admitted() -> None:
    least = admitted_cpu(variant(x86_64={"level": ["v3", "v2"]}), Machine.X86_64)
    assert least is not None
    assert not least.lacks(["sse4.2", "popcnt"])  # psABI: x86-64-v2
    assert least.lacks(["avx", "sse3"]) == ("avx",)
    assert admitted_cpu(variant(x86_64={"level": ["v2"]}), Machine.AARCH64) is None
    assert admitted_cpu(variant(nvidia={"sm_arch": ["90_real"]}), Machine.X86_64) is None


def test_a_feature_brings_those_that_every_processor_with_it_has() -> None:
    least = admitted_cpu(variant(x86_64={"avx512_bf16": ["on"]}), Machine.X86_64)
    assert least is not None
    assert not least.lacks(["avx512bf16", "avx512f", "avx2", "sse4.2"])
    assert least.lacks(["amx-tile"])  # Zen 4 has none


def test_versions_and_features_of_arm() -> None:
    least = admitted_cpu(variant(aarch64={"version": ["8.2a"], "asimddp": ["on"]}), Machine.AARCH64)
    assert least is not None
    assert not least.lacks(["lse", "dotprod"])  # Linux calls FEAT_DotProd asimddp
    assert least.lacks(["sve"])
    newest = admitted_cpu(variant(aarch64={"version": ["9.0a"]}), Machine.AARCH64)
    assert newest is not None
    assert not newest.lacks(["sve2", "dotprod", "lse"])


def test_what_no_provider_knows_is_told() -> None:
    stated = variant(
        x86_64={"level": ["v3", "v9"], "avx2": ["on", "off"], "sse2": ["on"], "quantum": ["on"]},
        nvidia={"sm_arch": ["90_real", "90"], "cuda_version_lower_bound": ["12.8", "12.8.1"], "driver": ["570"]},
        other={"level": ["v9"]},
    )
    assert [str(one) for one in (*unknown_to_cpus(stated), *unknown_to_gpus(stated))] == [
        "x86_64 :: level :: v9",
        "x86_64 :: avx2 :: off",
        "x86_64 :: quantum :: on",
        "nvidia :: sm_arch :: 90",
        "nvidia :: cuda_version_lower_bound :: 12.8.1",
        "nvidia :: driver :: 570",
    ]


@pytest.mark.parametrize(
    ("machine", "features", "properties"),
    [
        (Machine.X86_64, [], ["x86_64 :: level :: v1"]),
        (Machine.X86_64, ["popcnt"], ["x86_64 :: level :: v2"]),
        (Machine.X86_64, ["avx2", "avx512vnni"], ["x86_64 :: level :: v3", "x86_64 :: avx512_vnni :: on"]),
        (Machine.AARCH64, ["lse"], ["aarch64 :: version :: 8.1a"]),
        (Machine.AARCH64, ["lse", "fp16"], ["aarch64 :: version :: 8.1a", "aarch64 :: fphp :: on"]),
    ],
)
def test_needs_as_properties(machine: Machine, features: list[str], properties: list[str]) -> None:
    assert [str(one) for one in properties_of_needs(machine, frozenset(features))] == properties


# CUDA's release notes, table 3: 525.60.13 is the first driver with CUDA 12.0, 570.26 that with 12.8.
def test_drivers_and_their_cuda() -> None:
    assert cuda_of_driver(Driver(525)) == (12, 0)
    assert cuda_of_driver(Driver(570, 26)) == (12, 8)
    assert driver_of_cuda((12, 8)) == Driver(570, 26)
    assert driver_of_cuda((12, 6)) == driver_of_cuda((12, 5))  # neither has newer PTX than the other
    assert driver_of_cuda((9, 0)) is None


def test_gpus_of_properties() -> None:
    stated = variant(nvidia={"sm_arch": ["80_real", "120_virtual", "90a_real"]})
    assert [(one.gpu.capability, one.is_real) for one in stated_gpus(stated)] == [(80, True), (120, False), (90, True)]
    code = [Entry(kind=CodeKind.CUBIN, architecture=number) for number in (75, 80, 86, 90, 100)]
    assert unstated_targets(stated, code) == ("sm_75", "sm_100")


@pytest.mark.parametrize(
    ("entry", "stated"),
    [
        (Entry(kind=CodeKind.CUBIN, architecture=80), "nvidia :: sm_arch :: 80_real"),
        (Entry(kind=CodeKind.PTX, architecture=90), "nvidia :: sm_arch :: 90_virtual"),
        (Entry(kind=CodeKind.CUBIN, architecture=90, variant="a"), "nvidia :: sm_arch :: 90_real"),
        (Entry(kind=CodeKind.CUBIN, architecture=100, variant="a"), None),  # 10.3 would be given it, too
        (Entry(kind=CodeKind.CUBIN, architecture=100, variant="f"), "nvidia :: sm_arch :: 100_real"),
        (Entry(kind=CodeKind.LTO, architecture=90), None),
        (Entry(kind=CodeKind.HIP, gfx="gfx942"), None),
    ],
)
def test_code_as_property(entry: Entry, stated: str | None) -> None:
    true = architecture_property(entry)
    assert (str(true) if true else None) == stated


def printed(*paths: Path) -> dict[str, list[str]]:
    result = CliRunner().invoke(main, ["stamp", "--variant", *map(str, paths)])
    assert result.exit_code == 0, result.output
    heads = [number for number, line in enumerate(result.output.splitlines()) if not line.startswith("  ")]
    lines = result.output.splitlines()
    ends = [*heads[1:], len(lines)]
    return {
        lines[start]: [line.strip() for line in lines[start + 1 : end]] for start, end in zip(heads, ends, strict=True)
    }


def as_properties(lines: list[str]) -> dict[str, dict[str, list[str]]]:
    properties: dict[str, dict[str, list[str]]] = {}
    for line in lines:
        if not line.startswith("not known"):
            namespace, feature, value = line.split(" :: ")
            properties.setdefault(namespace, {}).setdefault(feature, []).append(value)
    return properties


@pytest.mark.slow
def test_what_stamp_prints_is_true(tmp_path: Path) -> None:
    with zipfile.ZipFile(DATA / "cpu" / "operators.zip") as archive:
        members = {"pkg/operators.so": archive.read("operators.so")}
    wrong = variant_wheel(tmp_path, "wrong", {"x86_64": {"level": ["v1"]}}, members)
    before = wrong.read_bytes()
    (lines,) = printed(wrong).values()
    assert wrong.read_bytes() == before
    assert lines[:2] == ["x86_64 :: level :: v4", "x86_64 :: aes :: on"]  # its operators: tests/data/cpu
    assert "abi_dependency :: torch :: 2.13" in lines  # built for it
    true = variant_wheel(tmp_path, "true", as_properties(lines), members)
    for path, expected in ((wrong, True), (true, False)):
        report = abiscan.check(path, "2.13.0", each_file=True)
        rules = {finding.rule for result in report.results for finding in result.findings}
        assert ("variant-property-wrong" in rules) is expected


@pytest.mark.slow
def test_gpus_of_a_wheel(tmp_path: Path) -> None:
    """``cuobjdump.json`` has what NVIDIA's tool lists of the files."""
    listed = json.loads((DATA / "gpu" / "cuobjdump.json").read_text("utf-8"))
    library = (DATA / "gpu" / "mixed.so").read_bytes()
    members = {"pkg/mixed.so": library, "pkg/_C.so": extension(needed=("mixed.so", "libtorch_cpu.so")).build()}
    path = variant_wheel(tmp_path, "v", {}, members)
    (lines,) = printed(path).values()
    assert listed["mixed.so"] == {"elf": ["sm_80", "sm_90a", "sm_120"], "ptx": ["sm_80"]}
    # Its PTX is of CUDA 13.5, which drivers with 13.0 do not know, and one operator has no other code for 9.0 and 12.0.
    assert [line for line in lines if line.startswith("nvidia")] == [
        "nvidia :: cuda_version_lower_bound :: 13.0",
        "nvidia :: sm_arch :: 80_real",
    ]
    wrong = {"nvidia": {"cuda_version_lower_bound": ["12.8"], "sm_arch": ["70_real", "80_real"]}}
    report = abiscan.check(variant_wheel(tmp_path, "wrong", wrong, members), "2.13.0", each_file=True)
    findings = [finding for result in report.results if "mixed" in result.path for finding in result.findings]
    assert [
        (finding.effect.value, [evidence.subject for evidence in finding.evidence])
        for finding in findings
        if finding.rule == "variant-property-wrong"
    ] == [
        ("call-fails", ["nvidia :: sm_arch :: 70_real"]),
        ("note", ["sm_90a", "sm_120f"]),
        ("call-fails", ["nvidia :: cuda_version_lower_bound :: 12.8"]),
    ]


def test_an_installed_package_keeps_what_its_wheel_said(tmp_path: Path) -> None:
    info = tmp_path / "pkg-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: pkg\nVersion: 1.0\n")
    installed = find_installed("pkg", [str(tmp_path)])
    assert installed is not None
    assert installed.variant is None
    (info / "variant.json").write_text('{"variants": {"v2": {"x86_64": {"level": ["v2"]}}}}')
    installed = find_installed("pkg", [str(tmp_path)])
    assert installed is not None
    assert str(variant_of_wheel("", installed.variant)) == "v2 (x86_64 :: level :: v2)"


def test_a_property_that_nobody_knows_is_a_gap(tmp_path: Path) -> None:
    members = {"pkg/_C.so": extension().build()}
    path = variant_wheel(tmp_path, "v", {"x86_64": {"level": ["v9"]}, "blas": {"library": ["mkl"]}}, members)
    (result,) = abiscan.check(path, "2.13.0", each_file=True).results
    assert [gap.reason for gap in result.gaps if gap.stage == "variant"] == [
        "unknown variant properties: x86_64 :: level :: v9: not checked"
    ]
    assert not [finding for finding in result.findings if finding.rule == "variant-property-wrong"]


def test_a_wrong_level_is_no_failure_on_the_torch_at_hand(tmp_path: Path) -> None:
    with zipfile.ZipFile(DATA / "cpu" / "libraries.zip") as archive:
        members = {"pkg/avx2.so": archive.read("avx2.so")}
    members["pkg/_C.so"] = extension(needed=("avx2.so", "libtorch_cpu.so")).build()
    path = variant_wheel(tmp_path, "v", {"x86_64": {"level": ["v1"]}}, members)
    report = abiscan.check(path, "2.13.0", each_file=True)
    (result,) = (result for result in report.results if result.path == "pkg/_C.so")
    assert result.verdict.value == "loads"
    assert not result.is_broken
    assert result.is_failure(Effect.CORRUPTS, strict=False)
