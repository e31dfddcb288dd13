"""``/etc/ld.so.cache`` as ``ldconfig`` writes it: what it lists of a cache is what is read from it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from abiscan.binary.elf import Machine
from abiscan.inputs import system
from abiscan.inputs.loader_cache import read_cache
from tests.elf_builder import EM_AARCH64, EM_X86_64, Elf

_LDCONFIG = shutil.which("ldconfig", path="/sbin:/usr/sbin")
_MACHINE = system.own_machine()
_TITLES = {Machine.X86_64: "libc6,x86-64", Machine.AARCH64: "libc6,AArch64"}

pytestmark = pytest.mark.skipif(_LDCONFIG is None or _MACHINE is None, reason="needs ldconfig")


def run_ldconfig(*words: str | Path) -> str:
    assert _LDCONFIG
    return subprocess.run([_LDCONFIG, *words], capture_output=True, text=True, check=True).stdout


def listed(cache: Path) -> list[tuple[str, str, str]]:
    """Return the libraries of this machine that are in a cache: name, subfolder, path, in its order."""
    assert _MACHINE
    title = _TITLES[_MACHINE]
    lines = re.findall(r"^\t(\S+) \(([^)]*)\) => (\S+)$", run_ldconfig("-p", "-C", cache), re.MULTILINE)
    entries = [(name, re.search(r"/glibc-hwcaps/([^/]+)/", path), kind, path) for name, kind, path in lines]
    return [(name, level[1] if level else "", path) for name, level, kind, path in entries if kind.startswith(title)]


def test_the_cache_of_this_system() -> None:
    cache = Path("/etc/ld.so.cache")
    if not cache.exists():
        pytest.skip("needs a cache")
    assert _MACHINE
    found = {name.decode(): path.decode() for name, path in system.cached_libraries(_MACHINE).items()}
    plain = [(name, path) for name, level, path in listed(cache) if not level]
    assert found == dict(reversed(plain))  # the first of a name counts


@pytest.mark.skipif(_MACHINE is not Machine.X86_64, reason="needs x86-64, whose subfolders have levels")
@pytest.mark.parametrize("format_name", ["new", "compat"])
def test_a_cache_with_libraries_for_newer_processors(format_name: str, tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, subfolder, name in (
        *((folders[0], "", name) for name in ("libone.so.1", "libtwo.so.1", "libten.so.10", "libten.so.9")),
        *((folders[0], f"glibc-hwcaps/x86-64-v{level}", "libone.so.1") for level in (2, 3, 4)),
        *((folders[0], "glibc-hwcaps/x86-64-v4", name) for name in ("libtwo.so.1", "libonly.so.1")),
        *((folders[1], "", name) for name in ("libone.so.1", "libthree.so.1")),
        (folders[1], "glibc-hwcaps/x86-64-v3", "libthree.so.1"),
    ):
        Elf(soname=name, needed=("libc.so.6",)).write(folder / subfolder / name)
    Elf(machine=EM_AARCH64 if _MACHINE is Machine.X86_64 else EM_X86_64, soname="libfar.so.1").write(
        folders[0] / "libfar.so.1"
    )
    configuration, cache = tmp_path / "conf", tmp_path / "cache"
    configuration.write_text("\n".join(map(str, folders)), encoding="utf-8")
    run_ldconfig("-X", "-c", format_name, "-C", cache, "-f", configuration)
    for levels in (
        (),
        ("x86-64-v2",),
        ("x86-64-v3", "x86-64-v2"),
        ("x86-64-v4", "x86-64-v3", "x86-64-v2"),
    ):
        # In the older format, glibc looks for the names of the subfolders in the wrong place, and takes none.
        order = [*(levels if format_name == "new" else ()), ""]
        best: dict[str, tuple[int, str]] = {}
        for name, level, path in listed(cache):
            if level in order and order.index(level) < best.get(name, (len(order), ""))[0]:
                best[name] = order.index(level), path
        read = read_cache(cache.read_bytes(), Machine.X86_64, levels)
        ours = {name.decode(): path.decode() for name, path in read.items()}
        mine = {name: path for name, path in ours.items() if path.startswith(str(tmp_path))}
        assert mine == {name: path for name, (_, path) in best.items() if path.startswith(str(tmp_path))}
        assert len(mine) == 5 + ("x86-64-v4" in order)


def test_a_damaged_cache_has_nothing(tmp_path: Path) -> None:
    configuration, cache = tmp_path / "conf", tmp_path / "cache"
    Elf(soname="libone.so.1", machine=EM_X86_64).write(tmp_path / "a" / "libone.so.1")
    configuration.write_text(str(tmp_path / "a"), encoding="utf-8")
    run_ldconfig("-X", "-C", cache, "-f", configuration)
    content = cache.read_bytes()
    for size in (0, 10, 30, 60, len(content) // 2):
        assert isinstance(read_cache(content[:size], Machine.X86_64, ()), dict)
    assert read_cache(b"", Machine.X86_64, ()) == {}
