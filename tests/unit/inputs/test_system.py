from __future__ import annotations

import platform
from pathlib import Path

import pytest

from abiscan.binary.elf import Machine
from abiscan.inputs import system


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


def test_configured_folders_come_before_the_built_in_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = tmp_path / "ld.so.conf"
    configuration.write_text("/first # a comment\n\ninclude conf.d/*.conf\nhwcap 1 x\n/last\n", encoding="utf-8")
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "b.conf").write_text("/b\n", encoding="utf-8")
    (tmp_path / "conf.d" / "a.conf").write_text("# nothing\n/a\n", encoding="utf-8")
    (tmp_path / "conf.d" / "ignored").write_text("/ignored\n", encoding="utf-8")
    monkeypatch.setattr(system, "_CONFIGURATION", str(configuration))
    folders = system.library_folders(Machine.X86_64)
    assert folders[:4] == ("/first", "/a", "/b", "/last")
    assert set(folders[4:]) >= {"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/lib/x86_64-linux-gnu"}


def test_a_configuration_that_includes_itself_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = tmp_path / "ld.so.conf"
    configuration.write_text(f"include {configuration}\n/only\n", encoding="utf-8")
    monkeypatch.setattr(system, "_CONFIGURATION", str(configuration))
    assert "/only" in system.library_folders(Machine.X86_64)


def test_no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "_CONFIGURATION", str(tmp_path / "absent"))
    assert system.library_folders(Machine.X86_64)[0] == "/lib/x86_64-linux-gnu"


def test_the_environment_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/b::/a")
    assert system.environment_folders() == ("/b", "/a")


def test_built_in_folders_are_those_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "_CONFIGURATION", str(tmp_path / "absent"))
    assert "/lib/aarch64-linux-gnu" in system.library_folders(Machine.AARCH64)
    assert "/lib/x86_64-linux-gnu" not in system.library_folders(Machine.AARCH64)
