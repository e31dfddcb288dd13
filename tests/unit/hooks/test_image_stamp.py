"""Stamps and the guard for Windows and macOS, whose loaders are played by a ``ctypes`` of the test's own."""

from __future__ import annotations

import inspect
import json
import os
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import click.testing
import pytest

from abiscan.cli import main
from abiscan.hooks import guard
from tests.image_samples import WARN, image, package

SYSTEMS: Final = {"Windows": ("win_amd64", "pyd", "c10.dll"), "macOS": ("macosx_11_0_arm64", "so", "libc10.dylib")}
STAMP: Final = "pkg/_abiscan_stamp.json"
GUARD: Final = {"pkg/_abiscan_guard.py": inspect.getsource(guard).encode(), "pkg/__init__.py": b""}


def stamped(folder: Path, system: str, kind: str = "loads", *, code: int = 0) -> Any:
    platform, suffix, _ = SYSTEMS[system]
    members = {**GUARD, f"pkg/_C.{suffix}": image(f"{kind}.{suffix}"), "pkg-1.dist-info/RECORD": b"pkg/__init__.py,,\n"}
    wheel = package(folder, members, platform=platform)
    printed = click.testing.CliRunner().invoke(main, ["stamp", str(wheel), "--torch", "2.13.0"])
    assert printed.exit_code == code, printed.output
    with zipfile.ZipFile(wheel) as archive:
        return json.loads(archive.read(STAMP)) if code == 0 else printed.output


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_stamp_has_the_names_that_the_loader_looks_up(tmp_path: Path, system: str) -> None:
    found = stamped(tmp_path, system)
    library = SYSTEMS[system][2]
    (extension,) = found["extensions"]
    assert library in extension["needed"]
    # Every name of C gets an underscore on macOS, and dlsym() adds it.
    name = "_ZN3c104warnERKNS_7WarningE" if system == "macOS" else WARN["Windows"]
    assert extension["symbols"] == [name]
    assert found["built_for"] == ("2.13.0+cpu" if system == "Windows" else "2.13.0")
    assert (found["keys"], found["operators"], extension["layouts"]) == ({}, {}, {})


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_does_not_load_is_not_stamped(tmp_path: Path, system: str) -> None:
    assert "does not load on torch 2.13.0" in stamped(tmp_path, system, "missing_symbol", code=2)


class Library:
    """A ``ctypes.CDLL``, which has some names."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def __getattr__(self, name: str) -> object:
        if name in self.names:
            return object()
        raise AttributeError(name)


def windows(loaded: dict[str, set[str]]) -> Any:
    """The ``ctypes`` of Windows, in a process with some libraries."""
    handles = {name.lower(): number for number, name in enumerate(loaded, 1)}

    def get_module_handle(name: str) -> int | None:
        return handles.get(name.lower())

    def cdll(name: str, *, handle: int) -> Library:  # without a handle, Windows would load it
        assert handles[name.lower()] == handle
        return Library(loaded[name])

    class Function:
        argtypes: object = None
        restype: object = None

        def __call__(self, name: str) -> int | None:
            assert self.restype == "void*", "a handle has 64 bits"
            return get_module_handle(name)

    def windll(name: str) -> object:
        assert name == "kernel32"
        return SimpleNamespace(GetModuleHandleW=Function())

    return SimpleNamespace(WinDLL=windll, CDLL=cdll, c_wchar_p="wchar*", c_void_p="void*")


def macos(loaded: dict[str, set[str]], folder: Path) -> Any:
    """The ``ctypes`` of macOS, where a library that torch has loaded is known by its path."""

    def cdll(name: str, *, mode: int) -> Library:
        assert mode & os.RTLD_NOLOAD
        path = Path(name)
        if path.parent != folder or path.name not in loaded:
            raise OSError(f"dlopen({name}, 0x0011): image not already loaded")
        return Library(loaded[path.name])

    return SimpleNamespace(CDLL=cdll)


LIBRARIES: Final = {"Windows": ("c10.dll", "torch_cpu.dll"), "macOS": ("libc10.dylib", "libtorch_cpu.dylib")}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    ("state", "problems"),
    [
        ("as it was", []),
        ("without the symbol", ["undefined symbol: f"]),
        ("without the library", ["not in this torch"]),
        ("not loaded yet", []),
    ],
)
def test_the_guard_asks_the_loader_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, state: str, problems: list[str]
) -> None:
    folder = tmp_path / "torch" / "lib"
    folder.mkdir(parents=True)
    first, second = LIBRARIES[system]
    loaded = {first: {"g"}, second: {"f"}}
    if state == "without the symbol":
        loaded[second] = set()
    elif state != "as it was":
        del loaded[second]
    for name in (first, second):
        (folder / name).touch()
    if state == "without the library":
        (folder / second).unlink()
    monkeypatch.setattr(guard, "ctypes", windows(loaded) if system == "Windows" else macos(loaded, folder))
    if system == "Windows":
        for name in ("RTLD_NOLOAD", "RTLD_LAZY"):
            monkeypatch.delattr(os, name)
    extension = {"path": "pkg/_C", "needed": [first, second], "symbols": ["f", "g"]}
    torch = SimpleNamespace(__path__=[str(tmp_path / "torch")])
    found = list(guard._unresolved(extension, torch))
    assert len(found) == len(problems)
    assert all(expected in line for expected, line in zip(problems, found, strict=True))


def test_the_guard_speaks_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole check, from the stamp of a wheel to the line that users see."""
    expected = stamped(tmp_path, "Windows")
    path = tmp_path / "stamp.json"
    path.write_text(json.dumps(expected), "utf-8")
    torch = SimpleNamespace(__version__="2.9.0+cpu", __path__=[str(tmp_path)])
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(guard, "ctypes", windows({"c10.dll": set(), "torch_cpu.dll": set()}))
    with pytest.raises(ImportError, match=r"pkg 1 was built for torch 2\.13\.0\+cpu and does not work with torch"):
        guard.check(stamp=str(path))
    needed = {name: set(one["symbols"]) for one in expected["extensions"] for name in one["needed"]}
    monkeypatch.setattr(guard, "ctypes", windows(needed))
    guard.check(stamp=str(path))  # says nothing
