"""The installed torch, read as a new release would be: it gives what the package has of its build."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Final

import pytest

from abiscan.binary.elf import Machine
from abiscan.torches import (
    embedded,
    embedded_assertions,
    embedded_declarations,
    embedded_operators,
    embedded_registries,
    headers,
    layouts,
)
from abiscan.torches.clang import Include
from tests import live_torch
from tests.tables import operator_table
from tools import data_files, registration_abi
from tools.data_files import Build, Headers
from tools.read_release import read_build, read_include
from tools.release import ATEN, DISPATCH

CLANG: Final = shutil.which("clang++-19") or shutil.which("clang++")
FULL: Final = live_torch.build() or ""
RELEASE: Final = FULL.partition("+")[0]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        (FULL, Machine.X86_64) not in {(full, machine) for _, machine, full in embedded.builds()},
        reason="needs a torch whose very build is embedded",
    ),
]


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
    number = table.numbers[build.name]
    assert table.meta[number]["libraries"] == build.identities
    assert operator_table(build.operators).operators(0) == table.operators(number)


def test_every_message_is_a_string_in_a_library(build: Build) -> None:
    assert build.operators.unworded == frozenset()
    assert build.operators.reworded == {}


def test_registries_and_places_of_assertions(build: Build) -> None:
    known = embedded_registries.entries(FULL, Machine.X86_64)
    assert known is not None
    assert set(known) == set(build.operators.entries or ())
    assert embedded_assertions.assertions(FULL, Machine.X86_64) == build.operators.assertions


def test_lines_of_assertions_in_headers(include: Headers) -> None:
    table = headers._make_table()
    assert {
        line for bits, lines in table.by_columns().items() if bits >> table.numbers[RELEASE] & 1 for line in lines
    } == set(include.assertions)


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


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(CLANG is None, reason="needs clang")
def test_what_registration_depends_on(package: Path) -> None:
    assert CLANG is not None
    rows = registration_abi.read(Include(folder=package / "include", machine=Machine.X86_64, cxx11=True), CLANG)
    for name in (registration_abi.ENUMERATION, registration_abi.FUNCTION):
        row = rows.get(name)
        known = layouts.find_layout(name, RELEASE, Machine.X86_64)
        assert known == (layouts.as_layout(name, row) if row else None)
