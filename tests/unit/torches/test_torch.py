"""A torch as commands see it: an embedded one, one with files, and one that is for another system."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.errors import InputError
from abiscan.inputs.files import Files
from abiscan.inputs.interpreter import Interpreter, PythonTag
from abiscan.inputs.session import Session
from abiscan.torches import embedded, embedded_operators, unlisted_torch_names
from abiscan.torches.operator_store import OwnOperators
from abiscan.torches.torch import EmbeddedTorch, ImageTorch, InstalledTorch, ReleaseNumber, TorchAt, TorchOf
from tests.fakes import torch_package
from tests.image_samples import WARN, torch_folder, torch_wheel

SESSION = Session(folder=Path("/nowhere"))  # which nothing embedded needs


def session_at(folder: Path) -> Session:
    return Session(folder=folder / "store")


def test_a_build_is_judged_by_the_one_that_stands_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked up is what is embedded: nothing is known by the name of the build itself."""
    chosen = ReleaseNumber("2.6.0+cu126").open(Files(), SESSION)
    assert isinstance(chosen, EmbeddedTorch)
    like = chosen.release_for(Machine.X86_64, allow_similar_build=True)
    assert (like.build, like.judged_as) == ("2.6.0+cu126", "2.6.0+cu124")
    with pytest.raises(InputError, match=r"2\.6\.0\+cu126: not among the embedded releases"):
        chosen.release_for(Machine.X86_64)
    asked: list[tuple[str, Machine]] = []
    for module, name in ((embedded_operators, "operators"), (embedded_operators, "names"), (embedded, "exports")):
        monkeypatch.setattr(module, name, lambda build, machine, *_: asked.append((build, machine)))
    chosen.operators(like).look_up()
    chosen.operators(like).names()
    chosen.exports(like)
    assert asked == [("2.6.0+cu124", Machine.X86_64)] * 3
    asked.clear()
    itself = ReleaseNumber("2.6.0").open(Files(), SESSION).for_linux()
    release = replace(like, build="2.6.0", judged_as=None)
    itself.operators(release).look_up()
    itself.operators(release).names()
    itself.exports(release)
    assert asked == [("2.6.0", Machine.X86_64)] * 3


def test_an_embedded_torch_is_nowhere() -> None:
    chosen = ReleaseNumber("2.13.0").open(Files(), SESSION)
    assert (chosen.package, chosen.build, chosen.interpreter, chosen.here) == (
        "/site-packages/torch",
        "2.13.0",
        None,
        False,
    )
    assert chosen.has_images(ImageSystem.WINDOWS, Machine.X86_64)
    assert not chosen.has_images(ImageSystem.MACOS, Machine.X86_64)  # 2.2 was the last release for it
    assert str(chosen.images(ImageSystem.WINDOWS, Machine.X86_64)).startswith("torch 2.13.0")


def test_a_torch_with_files_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = torch_package(tmp_path)
    files = Files()
    chosen = TorchAt(package).open(files, session_at(tmp_path))
    assert isinstance(chosen, InstalledTorch)
    assert (chosen.package, chosen.build) == (str(package), "9.9.0+cpu")
    release = chosen.release_for(Machine.AARCH64, allow_similar_build=True)
    assert release.machine is Machine.X86_64
    for machine in Machine:
        monkeypatch.setattr("abiscan.torches.torch.system.own_machine", lambda machine=machine: machine)
        assert chosen.here is (machine is Machine.X86_64)
    assert "_ZN2at15get_num_threadsEv" in chosen.exports(release)["libtorch_cpu.so"]
    assert "_ZN2at15get_num_threadsEv" not in chosen.exports(release)["libc10.so"]
    assert not chosen.has_images(ImageSystem.WINDOWS, Machine.X86_64)
    with pytest.raises(InputError, match="is a torch for Linux, the target is for Windows"):
        chosen.images(ImageSystem.WINDOWS, Machine.X86_64)


def test_the_layouts_of_a_torch_with_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = TorchAt(torch_package(tmp_path)).open(Files(), session_at(tmp_path))
    assert isinstance(chosen, InstalledTorch)
    answers = iter(range(9))
    monkeypatch.setattr("abiscan.torches.torch_layouts.of_installed", lambda *_: next(answers))
    release = chosen.release_for(Machine.X86_64)
    assert chosen.layouts(release) is chosen.layouts(release)


@pytest.mark.parametrize("embedded_as", [None, "2.13.0"])
def test_the_library_of_a_build_that_is_embedded_is_not_searched_for_names(
    embedded_as: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = TorchAt(torch_package(tmp_path)).open(Files(), session_at(tmp_path))
    assert isinstance(chosen, InstalledTorch)
    monkeypatch.setattr(OwnOperators, "embedded", embedded_as)
    told = list[bool]()
    monkeypatch.setattr(unlisted_torch_names, "names", lambda *_, is_embedded: told.append(is_embedded))
    chosen.python_names(chosen.release)
    assert told == [embedded_as is not None]


@pytest.mark.parametrize(
    ("module", "tag"),
    [("_C.cp312-win_amd64.pyd", PythonTag(major=3, minor=12)), ("_C.pyd", None), (None, None)],
)
def test_the_python_of_a_torch_for_windows(module: str | None, tag: PythonTag | None, tmp_path: Path) -> None:
    """As its module says, whose name has the version of Python in it (PEP 425; cpython's dynload_win.c)."""
    package = torch_folder(tmp_path, "Windows")
    if module is not None:
        (package / module).write_bytes(b"")
    chosen = TorchAt(package).open(Files(), session_at(tmp_path))
    assert isinstance(chosen, ImageTorch)
    assert chosen.interpreter == (Interpreter(tag=tag) if tag else None)
    assert (chosen.package, chosen.build, chosen.here) == (str(package), "9.9.0", False)


def test_a_torch_for_windows_is_none_for_linux(tmp_path: Path) -> None:
    chosen = TorchAt(torch_wheel(tmp_path, "Windows")).open(Files(), session_at(tmp_path))
    with pytest.raises(InputError, match="is not a torch for Linux, which this needs"):
        chosen.for_linux()
    machine = next(machine for machine in Machine if chosen.has_images(ImageSystem.WINDOWS, machine))
    images = chosen.images(ImageSystem.WINDOWS, machine)
    assert any(exports(WARN["Windows"]) for exports in images.exports.values())


@pytest.mark.parametrize("executable", [None, "/usr/bin/python3"])
def test_the_torch_of_a_python(executable: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = torch_package(tmp_path)
    running = Interpreter(tag=PythonTag(major=3, minor=11), executable=Path("/running/python"))
    named = Interpreter(tag=PythonTag(major=3, minor=12), executable=Path("/usr/bin/python3"))
    expected = named if executable else running
    found: list[Path | None] = [package]
    monkeypatch.setattr("abiscan.torches.torch.python.running_interpreter", lambda: running)
    monkeypatch.setattr("abiscan.torches.torch.python.installed_torch", lambda: found[0])
    monkeypatch.setattr("abiscan.torches.torch.python.ask_interpreter", lambda _: (named, found[0]))
    chosen = TorchOf(executable).open(Files(), session_at(tmp_path))
    assert (chosen.package, chosen.interpreter) == (str(package), expected)
    found[0] = torch_folder(tmp_path / "windows", "Windows")
    assert isinstance(TorchOf(executable).open(Files(), session_at(tmp_path)), ImageTorch)
    found[0] = None
    with pytest.raises(InputError, match=f"{expected.executable}: has no torch"):
        TorchOf(executable).open(Files(), session_at(tmp_path))
