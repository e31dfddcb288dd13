"""Wheels of variants on an index: which of them there are, and which one works with a torch and a processor."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from abiscan.binary.elf import Machine
from abiscan.index.client import Index, Settings
from abiscan.index.system import System
from abiscan.inputs.session import Session
from abiscan.pipelines.fit import fit_packages
from abiscan.results.fit import FitReport
from abiscan.torches.platforms import LinuxPlatform
from tests.elf_builder import uses
from tests.fakes import extension, package_wheel, variant_wheel
from tests.index_server import LocalIndex, serving

SYSTEM = System.of((3, 11), "manylinux_2_28_x86_64")
GONE = extension(undefined=uses("_ZNK2at7Dimname5unifyES0_"))  # exported until torch 2.9: nm -D
CODE = "import os\nimport torch\ntorch.ops.load_library(os.path.join(os.path.dirname(__file__), '_C.so'))\n"


def add(folder: Path, label: str, properties: Mapping[str, Mapping[str, list[str]]], *, works: bool = True) -> Path:
    library = extension() if works else GONE
    members = {"pkg/__init__.py": CODE.encode(), "pkg/_C.so": library.build()}
    return variant_wheel(folder, label, properties, members)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalIndex]:
    with serving(tmp_path) as server:
        yield server


def index_of(server: LocalIndex) -> Index:
    return Index(Settings(index_urls=(server.url,)), SYSTEM, server.folder / "cache")


def found(server: LocalIndex, torch: str = "2.13.0", *cpus: str) -> FitReport:
    choices = [LinuxPlatform(Machine.X86_64).build_of(torch, "cpu" if torch == "2.13.0" else None)]
    session = Session(folder=server.folder / "kept", cpus=cpus)
    return fit_packages([Requirement("pkg")], choices, index_of(server), session, installed=False)


def chosen(report: FitReport) -> str | None:
    (package,) = report.packages
    return package.variant


@pytest.mark.parametrize("html", [False, True])
@pytest.mark.parametrize("described", [False, True])
def test_variants_and_their_properties(server: LocalIndex, *, described: bool, html: bool) -> None:
    server.html = html
    variants = {"x86_64_v2": {"x86_64": {"level": ["v2"]}}, "x86_64_v3": {"x86_64": {"level": ["v3"]}}, "null": {}}
    for label, properties in variants.items():
        add(server.folder, label, properties)
    if described:
        document = {"default-priorities": {"namespace": ["x86_64"]}, "variants": variants}
        (server.folder / "pkg-1.0-variants.json").write_text(json.dumps(document))
    candidates = index_of(server).candidates(Requirement("pkg"), variants=True)
    assert [str(one.variant) for one in candidates] == [
        "x86_64_v3 (x86_64 :: level :: v3)",
        "x86_64_v2 (x86_64 :: level :: v2)",
        "null (no properties)",
    ]
    assert bool(server.wheels_asked()) is not described
    (plain,) = index_of(server).candidates(Requirement("pkg"))
    assert plain.unfit == f"has only wheels of variants for {SYSTEM}: null, x86_64_v2, x86_64_v3"


@pytest.mark.parametrize("body", [b"", b"{", b'{"variants": 3}', b"\xff"])
def test_a_damaged_description_is_not_needed(server: LocalIndex, body: bytes) -> None:
    add(server.folder, "v2", {"x86_64": {"level": ["v2"]}})
    (server.folder / "pkg-1.0-variants.json").write_bytes(body)
    (candidate,) = index_of(server).candidates(Requirement("pkg"), variants=True)
    assert str(candidate.variant) == "v2 (x86_64 :: level :: v2)"


def test_a_wheel_of_no_variant_comes_first(server: LocalIndex) -> None:
    """That is the one which released installers choose."""
    package_wheel(server.folder, "pkg", {"pkg/_C.so": extension()}, version="1.0", files={"pkg/__init__.py": CODE})
    add(server.folder, "v3", {"x86_64": {"level": ["v3"]}})
    assert chosen(found(server, "2.13.0", "haswell")) is None


def test_the_variant_for_the_torch(server: LocalIndex) -> None:
    add(server.folder, "pt28", {"abi_dependency": {"torch": ["2.8"]}}, works=False)
    add(server.folder, "pt213", {"abi_dependency": {"torch": ["2.13"]}})
    assert chosen(found(server)) == "pt213 (abi_dependency :: torch :: 2.13)"
    report = found(server, "2.12.0")
    assert report.obstacle is not None
    assert "its variant pt213 is for abi_dependency :: torch :: 2.13" in report.obstacle


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cpus", "label"),
    [(["haswell"], "v3"), (["nehalem"], "v2"), (["skylake-avx512", "sandybridge"], "v2"), (["icelake-server"], "v4")],
)
def test_the_best_variant_for_the_processors(server: LocalIndex, cpus: list[str], label: str) -> None:
    for level in ("v2", "v3", "v4"):
        add(server.folder, level, {"x86_64": {"level": [level]}})
    assert chosen(found(server, "2.12.0", *cpus)) == f"{label} (x86_64 :: level :: {label})"


def test_a_variant_for_processors_needs_to_know_them(server: LocalIndex) -> None:
    add(server.folder, "v3", {"x86_64": {"level": ["v3"]}})
    report = found(server)
    assert report.obstacle is not None
    assert "name the processor with --cpu" in report.obstacle


@pytest.mark.slow
def test_the_bytes_decide_whatever_is_stated(server: LocalIndex) -> None:
    add(server.folder, "b", {"abi_dependency": {"torch": ["2"]}}, works=False)
    add(server.folder, "a", {"abi_dependency": {"torch": ["2.13"], "other": ["1"]}}, works=False)
    add(server.folder, "null", {})
    assert chosen(found(server)) == "null (no properties)"
    assert "pip install" in (found(server).command or "")
