"""Facts of large libraries, kept on disk between runs.

One SQLite file per library, written completely, renamed into place and never changed afterwards, so concurrent runs
cannot interfere. A lookup touches a few pages of the file, whereas reading a ``libtorch_cpu.so`` again takes a second.
If the store cannot be written (full disk, read-only home), runs take longer, but results are the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
import sqlite3
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from abiscan.binary.elf import Definition, Machine, Reference, SharedObject, SymbolTable, SymbolVersion
from abiscan.errors import AbiscanError
from abiscan.inputs import kept
from abiscan.inputs.files import ElfSource, read_facts

FORMAT: Final = 2
"""Part of every key: raise it when ``SharedObject`` or the tables below change."""

_WORTH_STORING: Final = 4 << 20  # below this size, reading the file again is as fast as opening the store
_HEAD: Final = 4096
_BUILD_ID_NOTE: Final = re.compile(rb"\x04\0\0\0[\x08-\x20]\0\0\0\x03\0\0\0GNU\0")

_SCHEMA: Final = """
    CREATE TABLE facts (value TEXT NOT NULL);
    CREATE TABLE symbols (
        name TEXT NOT NULL, position INTEGER NOT NULL, version TEXT, hidden INTEGER NOT NULL,
        version_index INTEGER NOT NULL, type INTEGER NOT NULL, size INTEGER NOT NULL,
        PRIMARY KEY (name, position)
    ) WITHOUT ROWID;
"""


class StoredSymbols:
    """``Symbols`` read from the store, name by name."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        weakref.finalize(self, connection.close)

    def find(self, name: str) -> tuple[Definition, ...]:
        """The definitions of ``name``."""
        rows = self._rows(
            "SELECT version, hidden, version_index, type, size FROM symbols WHERE name = ? ORDER BY position", (name,)
        )
        return tuple(Definition(row[0], bool(row[1]), *row[2:]) for row in rows)

    def starting_with(self, prefix: str) -> Iterator[str]:
        """The names that begin with ``prefix``."""
        after = prefix + "\U0010ffff"  # sorts after anything else that can follow
        rows = self._rows("SELECT DISTINCT name FROM symbols WHERE name >= ? AND name < ?", (prefix, after))
        return (name for (name,) in rows)

    def _rows(self, query: str, values: tuple[str, ...]) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise AbiscanError(f"{self._path}: damaged cache file ({error}); delete it and try again") from error


class Store:
    """The facts of libraries, read from ``folder`` if they are stored there, else from the library, and then stored.

    :param folder: the folder of the store's files; created on the first write
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def facts_of(self, source: ElfSource) -> SharedObject:
        """The facts of ``source``.

        :raises InputError: it is not an ELF object that can be read
        """
        if source.size < _WORTH_STORING:
            return read_facts(source)
        path = self.folder / f"{identity_of(source)[:40]}-v{FORMAT}.sqlite"
        stored = _load(path)
        if stored is None:
            facts = read_facts(source)
            with contextlib.suppress(OSError, sqlite3.Error):
                _save(path, facts)
                kept.tidy(self.folder)
            return facts
        kept.used(path)
        return stored


def identity_of(source: ElfSource) -> str:
    """A text that identifies a library: its build id, or else the fingerprint of the file.

    The header is included with the build id to detect a library that was rewritten after linking (``patchelf``), which
    also moves the note out of the first page.
    """
    head = source.head(_HEAD)
    identity = str(source.size) if _BUILD_ID_NOTE.search(head) else source.fingerprint()
    return hashlib.sha256(head + identity.encode()).hexdigest()


def _load(path: Path) -> SharedObject | None:
    if not path.is_file():
        return None
    try:
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
        )
    except sqlite3.Error:
        return None
    try:
        ((text,),) = connection.execute("SELECT value FROM facts").fetchall()
        return _from_json(json.loads(text), StoredSymbols(connection, path))
    except (sqlite3.Error, ValueError, KeyError, TypeError):
        connection.close()
        return None  # damaged, or written by another program: read the library again and replace the file


def _save(path: Path, facts: SharedObject) -> None:
    if not isinstance(facts.symbols, SymbolTable):
        return
    with kept.written_whole(path) as part, contextlib.closing(sqlite3.connect(part)) as connection, connection:
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _SCHEMA)
        connection.execute("INSERT INTO facts VALUES (?)", (json.dumps(_to_json(facts)),))
        connection.executemany(
            "INSERT INTO symbols VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (symbol, position, *definition)
                for symbol, definitions in sorted(facts.symbols.items())
                for position, definition in enumerate(definitions)
            ),
        )


def _to_json(facts: SharedObject) -> dict[str, Any]:
    fields = {field.name: getattr(facts, field.name) for field in dataclasses.fields(facts) if field.name != "symbols"}
    definitions = facts.version_definitions
    return {
        **fields,
        "machine": facts.machine.value,
        "version_definitions": None if definitions is None else sorted(definitions),
        "imports": sorted(facts.imports),
        "has_relr": facts.has_relr,
    }


def _from_json(data: dict[str, Any], symbols: StoredSymbols) -> SharedObject:
    def version(value: list[Any] | None) -> SymbolVersion | None:
        return None if value is None else SymbolVersion(*value)

    definitions = data["version_definitions"]
    return SharedObject(
        machine=Machine(data["machine"]),
        executable=data["executable"],
        soname=data["soname"],
        needed=tuple(data["needed"]),
        rpath=tuple(data["rpath"]),
        runpath=tuple(data["runpath"]),
        build_id=data["build_id"],
        version_needs=tuple(SymbolVersion(*value) for value in data["version_needs"]),
        version_definitions=None if definitions is None else frozenset(definitions),
        symbols=symbols,
        references=tuple(Reference(name, version(needs), weak) for name, needs, weak in data["references"]),
        imports=frozenset(data["imports"]),
        pybind11_internals=data["pybind11_internals"],
        pybind11_python=tuple(data["pybind11_python"]),
        has_relr=data["has_relr"],
    )
