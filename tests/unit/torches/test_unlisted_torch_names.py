from __future__ import annotations

import os
import zlib
from collections import Counter
from pathlib import Path

import pytest

from abiscan.inputs import observed_fs
from abiscan.torches import embedded_names, unlisted_torch_names
from tests.elf_builder import Elf


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "__init__.py": "from torch import nn\n",
        "nn/__init__.py": "def relu6(): ...\ndef relu(): ...\n",
        "patches.py": "import torch\ntorch.late = 1\nsetattr(torch, 'later', 2)\n",
        "_C/__init__.pyi": "def compiled() -> None: ...\n",
    }
    for name, text in files.items():
        path = tmp_path / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "torch"


@pytest.mark.parametrize(
    ("name", "is_there"),
    [("relu6", True), ("relu", True), ("rel", False), ("elu", False), ("relu66", False), ("def", True)],
)
def test_a_module_mentions_whole_words(folder: Path, name: str, *, is_there: bool) -> None:
    assert unlisted_torch_names.names(folder, folder.parent / "cache").source.mentions("torch.nn", name) is is_there


def test_a_name_is_patched_where_it_is_set_or_a_text(folder: Path) -> None:
    source = unlisted_torch_names.names(folder, folder.parent / "cache").source
    assert [name for name in ("late", "later", "lat", "torch", "relu") if source.is_patched(name)] == ["late", "later"]


def test_each_file_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = observed_fs.read_file
    times: Counter[str] = Counter()

    def counted(path: observed_fs.StrPath) -> bytes:
        times[str(path)] += 1
        return read(path)

    monkeypatch.setattr(observed_fs, "read_file", counted)
    source = unlisted_torch_names.names(folder, folder.parent / "cache").source
    for name in ("late", "gone", "absent"):
        source.is_patched(name)
        source.is_compiled(name)
    assert len(times) == 4
    assert set(times.values()) == {1}
    times.clear()
    for name in ("relu", "gone", "absent"):
        source.mentions("torch.nn", name)
    assert times == {str(folder / "nn/__init__.py"): 1}


def _make_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the table say that these are the files of torch 2.13.0."""
    files = [(path.relative_to(folder.parent).as_posix(), path.read_bytes()) for path in folder.rglob("*.py*")]
    digest = embedded_names.digest_of((path, len(content), zlib.crc32(content)) for path, content in files)
    monkeypatch.setattr(unlisted_torch_names, "release_with", {digest: "2.13.0"}.get)


def test_files_that_are_those_of_a_release_have_its_names(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = folder.parent / "cache"
    assert unlisted_torch_names.names(folder, cache).has("torch.library", "custom_op") is None  # there is no such file
    _make_listed(folder, monkeypatch)
    names = unlisted_torch_names.names(folder, cache)
    assert names.has("torch.library", "custom_op") is True
    assert names.source.is_patched("late") is False
    # What is compiled is that of the build, and a folder may be a module without being in a wheel.
    assert [names.source.is_compiled(name) for name in ("compiled", "wait_stream")] == [True, True]
    (folder / "lib").mkdir()
    (folder / "lib/libtorch_python.so").write_bytes(b"no ELF")
    assert unlisted_torch_names.names(folder, cache).has_module("torch.lib") is True


@pytest.mark.parametrize("listed", [False, True])
def test_folders_and_files_are_modules(folder: Path, monkeypatch: pytest.MonkeyPatch, *, listed: bool) -> None:
    if listed:
        _make_listed(folder, monkeypatch)
    (folder / "lib").mkdir()
    source = unlisted_torch_names.names(folder, folder.parent / "cache").source
    kinds = {
        name: (source.is_module(f"torch.{name}"), source.is_package(f"torch.{name}"))
        for name in ("nn", "patches", "lib", "gone")
    }
    assert kinds == {
        "nn": (True, True),
        "patches": (True, False),
        "lib": (True, True),
        "gone": (False, False),
    }


def test_what_a_stub_or_the_library_has_is_compiled(folder: Path) -> None:
    cache = folder.parent / "cache"
    Elf(texts=(b"in_library",)).write(folder / "lib/libtorch_python.so")
    source = unlisted_torch_names.names(folder, cache).source
    assert [source.is_compiled(name) for name in ("compiled", "in_library", "absent")] == [True, True, False]


@pytest.mark.parametrize("name", ["nn/__init__.py", "_C/__init__.pyi", "nn/further.py"])
def test_files_of_which_one_is_changed_have_their_own_names(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make_listed(folder, monkeypatch)
    with (folder / name).open("ab") as stream:
        stream.write(b"relu7 = 1\n")
    names = unlisted_torch_names.names(folder, folder.parent / "cache")
    assert names.has("torch.library", "custom_op") is None
    assert names.source.is_patched("late")


def test_builds_of_a_release_differ_in_their_version_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make_listed(folder, monkeypatch)
    (folder / "version.py").write_text("cuda = '13.0'\n", encoding="utf-8")
    assert unlisted_torch_names.names(folder, folder.parent / "cache").has("torch.library", "custom_op")


def test_the_files_are_hashed_once_as_long_as_none_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[Path] = []
    digest = unlisted_torch_names._digest

    def counted(path: Path) -> str:
        hashed.append(path)
        return digest(path)

    monkeypatch.setattr(unlisted_torch_names, "_digest", counted)
    for _ in range(2):
        unlisted_torch_names.names(folder, folder.parent / "cache")
    assert hashed == [folder]
    os.utime(folder / "patches.py", ns=(1, 1))
    unlisted_torch_names.names(folder, folder.parent / "cache")
    assert hashed == [folder, folder]
