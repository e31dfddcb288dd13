"""Where glibc 2.36 and older look first: ``strace`` of programs shows these folders, in this order."""

from __future__ import annotations

import pytest

from abiscan.binary.elf import Machine
from abiscan.cpu.processors import Cpu, cpu
from abiscan.inputs import system
from abiscan.linkage import host
from abiscan.linkage.host import Host

HASWELL = ["tls/haswell/x86_64", "tls/haswell", "tls/x86_64", "tls", "haswell/x86_64", "haswell", "x86_64"]
LEVELS = ["glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v2"]


def processor(name: str, *features: str) -> Cpu:
    known = cpu(name)
    assert known is not None
    return Cpu(name="native", machine=known.machine, features=known.features | set(features))


@pytest.mark.parametrize(
    ("version", "own", "maker", "folders"),
    [
        ((2, 31), processor("haswell"), "GenuineIntel", HASWELL),
        ((2, 36), processor("haswell"), "GenuineIntel", LEVELS + HASWELL),
        ((2, 37), processor("haswell"), "GenuineIntel", LEVELS),
        # Those of other makers have no name but that of the architecture.
        ((2, 31), processor("haswell"), "AuthenticAMD", ["tls/x86_64/x86_64", *["tls/x86_64"] * 2, "tls"]),
        ((2, 31), processor("neoverse-n1"), None, ["tls/aarch64/atomics", "tls/aarch64", "tls/atomics", "tls"]),
    ],
)
def test_subfolders(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int], own: Cpu, maker: str | None, folders: list[str]
) -> None:
    monkeypatch.setattr(system, "glibc_version", lambda: version)
    monkeypatch.setattr(host, "native_cpu", lambda: own)
    monkeypatch.setattr(host, "native_maker", lambda: maker)
    there = Host(own.machine).subfolders
    assert list(there[: len(folders)]) == folders
    assert all(folder.partition("/")[0] in Host(own.machine).subfolder_roots for folder in there)


def test_a_processor_with_avx512(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "glibc_version", lambda: (2, 31))
    monkeypatch.setattr(host, "native_cpu", lambda: processor("x86-64-v4"))
    monkeypatch.setattr(host, "native_maker", lambda: "GenuineIntel")
    there = Host(Machine.X86_64).subfolders
    assert there[:2] == ("tls/haswell/avx512_1/x86_64", "tls/haswell/avx512_1")
    assert (len(there), there[-1]) == (15, "x86_64")
