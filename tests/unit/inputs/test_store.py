from __future__ import annotations

import dataclasses
import os
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest

from abiscan.binary.elf import SharedObject
from abiscan.errors import AbiscanError, NotElfError
from abiscan.inputs import store as module
from abiscan.inputs.files import DiskFile, read_facts
from abiscan.inputs.store import Store
from tests.elf_builder import Defined, Elf, Undefined, exports

LARGE = 4 << 20
RICH = Elf(
    soname="librich.so.1",
    needed=("liba.so", "libb.so"),
    rpath="/r:$ORIGIN",
    build_id=bytes(range(20)),
    defined=(
        *exports("a", "a_b", "ä", "PyInit_m"),
        Defined(name="v", version="V_1", hidden=True),
        Defined(name="v", version="V_2", size=16),
    ),
    undefined=(
        Undefined(name="x", weak=True),
        Undefined(name="y", version=("liba.so", "A_1"), relocation="plt"),
        Undefined(name="Py_GetVersion", relocation=None),
    ),
    version_needs=(("libb.so", "B_1", True),),
    texts=(b"__pybind11_internals_v5__", b"Python version mismatch: module was compiled for Python %s, ", b"3.12"),
    size=LARGE,
)


def same(one: SharedObject, other: SharedObject) -> bool:
    names = set(one.symbols.starting_with("a")) | set(one.symbols.starting_with("v")) | {"ä", "PyInit_m", "absent"}
    return (
        all(
            getattr(one, field.name) == getattr(other, field.name)
            for field in dataclasses.fields(one)
            if field.name != "symbols"
        )
        and all(one.symbols.find(name) == other.symbols.find(name) for name in names)
        and all(
            sorted(one.symbols.starting_with(prefix)) == sorted(other.symbols.starting_with(prefix))
            for prefix in ("a", "a_", "v", "ä", "absent", "PyInit_")
        )
    )


def kept(store: Store) -> list[Path]:
    return sorted(store.folder.iterdir()) if store.folder.is_dir() else []


@pytest.fixture
def library(tmp_path: Path) -> DiskFile:
    return DiskFile(RICH.write(tmp_path / "librich.so"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_what_is_read_back_is_what_was_read(library: DiskFile, store: Store) -> None:
    direct = read_facts(library)
    assert same(store.facts_of(library), direct)
    assert len(kept(store)) == 1
    assert same(store.facts_of(library), direct)


def test_the_second_time_nothing_is_read(library: DiskFile, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.facts_of(library)
    monkeypatch.setattr(module, "read_facts", lambda source: pytest.fail(f"{source.name} was read again"))
    assert store.facts_of(library).soname == "librich.so.1"


def test_small_libraries_are_not_kept(tmp_path: Path, store: Store) -> None:
    store.facts_of(DiskFile(Elf(size=LARGE - 1).write(tmp_path / "small.so")))
    assert kept(store) == []


def test_the_same_library_elsewhere_is_the_same(library: DiskFile, store: Store, tmp_path: Path) -> None:
    store.facts_of(library)
    shutil.copy(library.path, tmp_path / "copy.so")
    store.facts_of(DiskFile(tmp_path / "copy.so"))
    assert len(kept(store)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"build_id": bytes(20)},
        {"size": LARGE + 8},
        {"soname": "librich.so.2"},  # as patchelf does, which leaves the build id alone
        {"build_id": None},
    ],
)
def test_another_library_is_another(change: dict[str, object], library: DiskFile, store: Store, tmp_path: Path) -> None:
    store.facts_of(library)
    other = DiskFile(dataclasses.replace(RICH, **change).write(tmp_path / "other.so"))  # type: ignore[arg-type]
    assert same(store.facts_of(other), read_facts(other))
    assert len(kept(store)) == 2


def test_a_library_that_grew_is_another(library: DiskFile, store: Store) -> None:
    store.facts_of(library)
    with library.path.open("ab") as stream:
        stream.write(b"more")
    store.facts_of(library)
    assert len(kept(store)) == 2


def test_another_format_is_kept_apart(library: DiskFile, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.facts_of(library)
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    store.facts_of(library)
    assert len(kept(store)) == 2


def test_without_a_build_id_a_file_that_was_written_again_is_another(store: Store, tmp_path: Path) -> None:
    path = dataclasses.replace(RICH, build_id=None).write(tmp_path / "lib.so")
    store.facts_of(DiskFile(path))
    store.facts_of(DiskFile(path))
    assert len(kept(store)) == 1
    os.utime(path, ns=(0, 0))
    store.facts_of(DiskFile(path))
    assert len(kept(store)) == 2


@pytest.mark.parametrize(
    "damage",
    [b"", b"not a database", b"SQLite format 3\0" + bytes(4_000), None],
    ids=["empty", "text", "zeroes", "cut"],
)
def test_a_damaged_file_is_replaced(damage: bytes | None, library: DiskFile, store: Store) -> None:
    store.facts_of(library)
    (file,) = kept(store)
    file.write_bytes(file.read_bytes()[:5_000] if damage is None else damage)
    assert same(store.facts_of(library), read_facts(library))
    assert same(store.facts_of(library), read_facts(library))
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM facts").fetchone() == (1,)
    connection.close()


def test_a_file_of_another_kind_is_replaced(library: DiskFile, store: Store) -> None:
    store.facts_of(library)
    (file,) = kept(store)
    connection = sqlite3.connect(file)
    with connection:
        connection.execute('UPDATE facts SET value = \'{"machine": "pdp11"}\'')
    connection.close()
    assert same(store.facts_of(library), read_facts(library))


def test_damage_that_shows_late_is_one_clear_line(library: DiskFile, store: Store) -> None:
    store.facts_of(library)
    (file,) = kept(store)
    connection = sqlite3.connect(file)
    with connection:
        connection.execute("DROP TABLE symbols")
    connection.close()
    facts = store.facts_of(library)
    with pytest.raises(AbiscanError, match=r"damaged cache file .* delete it and try again"):
        facts.symbols.find("a")


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(library: DiskFile, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    assert same(Store(tmp_path / "file" / "store").facts_of(library), read_facts(library))


@pytest.mark.skipif(os.geteuid() == 0, reason="needs a user who is not root")
def test_a_read_only_folder(library: DiskFile, store: Store) -> None:
    store.folder.mkdir()
    store.folder.chmod(0o500)
    assert same(store.facts_of(library), read_facts(library))
    store.folder.chmod(0o700)
    assert kept(store) == []


def test_a_full_disk(library: DiskFile, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device", str(self), None, str(target))

    monkeypatch.setattr(Path, "replace", full)
    assert same(store.facts_of(library), read_facts(library))
    assert kept(store) == []  # nothing half written stays


def test_two_writers(library: DiskFile, store: Store) -> None:
    barrier = threading.Barrier(4)
    results: list[SharedObject] = []

    def run() -> None:
        barrier.wait()
        results.append(Store(store.folder).facts_of(library))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [facts.soname for facts in results] == ["librich.so.1"] * 4
    assert [file.suffix for file in kept(store)] == [".sqlite"]
    assert same(store.facts_of(library), read_facts(library))


def test_what_cannot_be_read_is_not_kept(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "text.so"
    path.write_bytes(b"text" * LARGE)
    with pytest.raises(NotElfError, match="a text file"):
        store.facts_of(DiskFile(path))
    assert kept(store) == []
