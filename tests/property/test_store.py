from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from abiscan.binary.elf import Machine, Reference, SharedObject, SymbolVersion
from abiscan.binary.symbols import Definition, SymbolTable
from abiscan.inputs.files import DiskFile
from abiscan.inputs.store import Store
from tests.elf_builder import Elf

# What a name read from a file can be: any text without NUL and without lone surrogates.
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
few = st.lists(names, max_size=3).map(tuple)
versions = st.builds(SymbolVersion, names, names, st.booleans())
definitions = st.builds(
    Definition, st.none() | names, st.booleans(), st.integers(0, 0x7FFF), st.integers(0, 15), st.integers(0, 2**63 - 1)
)
tables = st.dictionaries(names, st.lists(definitions, min_size=1, max_size=3).map(tuple), max_size=6)
objects = st.builds(
    SharedObject,
    machine=st.sampled_from(Machine),
    executable=st.booleans(),
    soname=st.none() | names,
    needed=few,
    rpath=few,
    runpath=few,
    build_id=st.none() | st.binary(min_size=1, max_size=20).map(bytes.hex),
    version_needs=st.lists(versions, max_size=3).map(tuple),
    version_definitions=st.none() | st.frozensets(names, max_size=3),
    symbols=tables.map(SymbolTable),
    references=st.lists(st.builds(Reference, names, st.none() | versions, st.booleans()), max_size=4).map(tuple),
    imports=st.frozensets(names, max_size=4),
    pybind11_internals=st.none() | names,
    pybind11_python=few,
)


@settings(max_examples=60)
@given(objects, names)
def test_what_is_read_back_is_what_was_kept(facts: SharedObject, other: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = DiskFile(Elf(size=4 << 20).write(Path(folder) / "lib.so"))
        store = Store(Path(folder) / "store")
        with mock.patch("abiscan.inputs.store.read_facts", return_value=facts):
            store.facts_of(source)
        read = store.facts_of(source)
    for field in dataclasses.fields(facts):
        if field.name != "symbols":
            assert getattr(read, field.name) == getattr(facts, field.name)
    assert isinstance(facts.symbols, SymbolTable)
    for name in (*facts.symbols, other):
        assert read.symbols.find(name) == facts.symbols.find(name)
        prefix = name[: 1 + len(name) // 2]
        assert sorted(read.symbols.starting_with(prefix)) == sorted(facts.symbols.starting_with(prefix))
