"""The installed torch, read as a new release would be: it gives what the package has of its build, byte for byte."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Final

import pytest

from abiscan.binary.elf import Machine
from abiscan.torches import embedded, embedded_declarations, embedded_operators, layouts
from abiscan.torches.clang import Include
from abiscan.torches.operator_table import OperatorTable
from tests import live_torch
from tools import data_files, registration_abi
from tools.data_files import Build, Headers
from tools.operator_packer import pack
from tools.read_release import read_build, read_include
from tools.release import ATEN, DISPATCH, TORCHES

CLANG: Final = shutil.which("clang++-19") or shutil.which("clang++")
FULL: Final = live_torch.build() or ""
RELEASE: Final = FULL.partition("+")[0]

pytestmark = pytest.mark.skipif(
    (FULL, Machine.X86_64) not in {(full, machine) for _, machine, full in embedded.builds()},
    reason="needs a torch whose very build is embedded",
)


@pytest.fixture(scope="module")
def package() -> Path:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


@pytest.fixture(scope="module")
def build(package: Path) -> Build:
    return read_build(package)


@pytest.fixture(scope="module")
def include(package: Path) -> Headers:
    return read_include(package)


def test_exports(build: Build) -> None:
    known = embedded.exports(FULL, Machine.X86_64)
    assert {library: frozenset(names) for library, names in build.exports.items()} == known
    described = embedded.find_record(FULL, Machine.X86_64)
    for library, facts in described["libraries"].items():
        known_facts = {name: value for name, value in facts.items() if name != "column"}
        assert known_facts == build.description["libraries"][library]


def test_operators(build: Build) -> None:
    table = embedded_operators.table()
    number = next(
        number for number, known in enumerate(table.builds) if (known["build"], known["machine"]) == build.name
    )
    assert table.builds[number]["libraries"] == build.identities
    alone = OperatorTable(pack([({}, build.operators)])).operators(0)  # without what has files of its own
    assert alone == table.operators(number)


def test_every_message_is_a_string_in_a_library(build: Build) -> None:
    assert build.operators.unworded == frozenset()
    assert build.operators.reworded == {}


@pytest.mark.parametrize("name", ["registries.json.gz", "assertions.json"])
def test_files_with_an_entry_for_each_build(name: str, build: Build) -> None:
    before = (TORCHES / name).read_bytes()
    put = {"registries.json.gz": data_files.registries, "assertions.json": data_files.places}[name]
    without = put(before, (), [build.name])
    assert without != before
    assert put(without, [build], ()) == before


def test_lines_of_assertions_in_headers(include: Headers) -> None:
    before = (TORCHES / "headers.bin").read_bytes()
    without = data_files.headers(before, {}, [RELEASE])
    assert without != before
    assert data_files.headers(without, {RELEASE: include}) == before


def test_hashes_of_declarations(include: Headers) -> None:
    known = {
        name: digest
        for name, digest in include.digests.items()
        if RELEASE in embedded_declarations.releases_declaring(name, digest)
    }
    assert len(known) > 700
    # The classes that are passed with registrations, and the most used others.
    for name in ("torch::CppFunction", "torch::Library", "c10::FunctionSchema", "c10::TensorImpl", "at::Tensor"):
        assert name in known


def test_keys_tags_and_operators_with_a_struct(build: Build, include: Headers) -> None:
    keys, tags, aten = (path.read_text("utf-8") for path in (DISPATCH / "keys.txt", DISPATCH / "tags.txt", ATEN))
    minors = {data_files.minor_of(str(version)) for version in embedded.versions()}
    assert data_files.keys(keys, [build]) == keys
    assert data_files.tags(tags, {RELEASE: include}, minors) == tags
    assert data_files.aten(aten, {RELEASE: include}) == aten
    assert len(tuple(include.operators)) > 2000


@pytest.mark.slow
@pytest.mark.skipif(CLANG is None, reason="needs clang")
def test_what_registration_depends_on(package: Path) -> None:
    assert CLANG is not None
    rows = registration_abi.read(Include(folder=package / "include", machine=Machine.X86_64, cxx11=True), CLANG)
    for name in (registration_abi.ENUMERATION, registration_abi.FUNCTION):
        row = rows.get(name)
        known = layouts.find_layout(name, RELEASE, Machine.X86_64)
        assert known == (layouts.as_layout(name, row) if row else None)
