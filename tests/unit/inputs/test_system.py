from __future__ import annotations

import platform
from pathlib import Path

import pytest

from abiscan.binary.elf import Machine
from abiscan.inputs import observed_fs, system


@pytest.mark.parametrize(
    ("system_name", "name", "machine"),
    [
        ("Linux", "x86_64", Machine.X86_64),
        ("Linux", "aarch64", Machine.AARCH64),
        ("Linux", "riscv64", None),
        ("Darwin", "arm64", None),
        ("Windows", "AMD64", None),
    ],
)
def test_machine(system_name: str, name: str, machine: Machine | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: name)
    monkeypatch.setattr(platform, "system", lambda: system_name)
    assert system.own_machine() is machine


def test_the_default_folders_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed_fs, "is_file", lambda _path: False)
    folders = system.default_folders(Machine.AARCH64)
    assert folders[:2] == ("/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu")
    assert "/lib/x86_64-linux-gnu" not in folders


def test_the_default_folders_are_those_in_the_loader(tmp_path: Path) -> None:
    loader = tmp_path / "ld.so"
    loader.write_bytes(b"\x7fELF" + bytes(5000) + b"lib64\0\0/lib64/\0/usr/lib64/\0system search path\0")
    assert system._read_built_in(str(loader), "", 0) == ("/lib64", "/usr/lib64")


def test_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "_CACHE", str(tmp_path / "absent"))
    assert system.cached_libraries(Machine.X86_64) == {}
    assert system.library_folders(Machine.X86_64) == system.default_folders(Machine.X86_64)


def test_the_environment_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colons and semicolons separate, and an empty part is the current folder."""
    monkeypatch.setenv("LD_LIBRARY_PATH", "/b::/a;/c")
    assert system.environment_folders() == ("/b", "", "/a", "/c")
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    assert system.environment_folders() == ()
