"""An answer that is kept is the answer that another run would find, and is given only as long as it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import abiscan
from abiscan.inputs import observed_fs
from abiscan.inputs.session import Session
from tests.fakes import extension, install, python_of, torch_package, wheel

pytestmark = pytest.mark.slow

SAMPLES: Final = Path(__file__).parents[2] / "sample_binaries"
TORCH: Final = "2.13.0"

COMMANDS: Final[dict[str, Callable[..., Any]]] = {
    "check": lambda target, **how: abiscan.check(target, TORCH, **how),
    "check on several": lambda target, **how: abiscan.check(target, ">=2.11,<2.14", **how),
    "matrix": lambda target, **how: abiscan.matrix(target, ["2.5.1", TORCH], gpus=[], **how),
    "matrix with reasons": lambda target, **how: abiscan.matrix(target, [TORCH], explained=True, **how),
    "operators": abiscan.operators,
    "coverage": lambda target, **how: abiscan.coverage(target, TORCH, backend="CPU", **how),
}


@pytest.fixture(autouse=True)
def _no_clock_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed_fs, "_CLOCK_TICK", -(10**12))


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("sample", ["registrations/backend.so", "coverage/backend.so", "wheel"])
def test_it_is_the_same_answer(command: Callable[..., Any], sample: str, tmp_path: Path) -> None:
    steps: list[str] = []
    session = Session(folder=tmp_path / "cache", progress=steps.append)
    target = SAMPLES / sample
    if sample == "wheel":
        members = {"mine/__init__.py": b"from . import _C", "mine/_C.so": (SAMPLES / "loads" / "loads.so").read_bytes()}
        metadata = {"mine-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n"}
        target = wheel(tmp_path / "mine-1.0-cp311-cp311-linux_x86_64.whl", {**members, **metadata})
    first = command(target, session=session)
    assert list((tmp_path / "cache").glob("*.answer"))
    steps.clear()
    again = command(target, session=session)
    assert steps == []
    assert again == first
    assert again is not first
    assert again.to_json() == first.to_json()


def test_an_answer_on_rules_of_ones_own_is_not_kept(tmp_path: Path) -> None:
    rule = abiscan.Rule(name="undefined-symbol", summary="", documentation="", check=lambda _: iter(()))
    session = Session(folder=tmp_path / "cache")
    abiscan.check(SAMPLES / "loads" / "loads.so", TORCH, rules=[rule], session=session)
    assert not list(tmp_path.rglob("*.answer"))


class Watch:
    """What this process looks at in a folder: whatever is opened, listed, or asked for its status."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self.seen: set[str] = set()

    def note(self, path: object) -> None:
        if isinstance(path, str | os.PathLike) and os.path.abspath(os.fspath(path)).startswith(self._folder):  # noqa: PTH100
            self.seen.add(os.path.abspath(os.fspath(path)))  # noqa: PTH100


WATCHES: list[Watch] = []


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if event in {"open", "os.listdir", "os.scandir"}:
        for watch in WATCHES:
            watch.note(arguments[0])


def _noted(watch: Watch, function: Callable[..., Any]) -> Callable[..., Any]:
    def noted(path: object, *rest: Any, **options: Any) -> Any:
        watch.note(path)
        return function(path, *rest, **options)

    return noted


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    watch = Watch(tmp_path)
    for function in (os.stat, os.lstat, os.readlink):
        monkeypatch.setattr(os, function.__name__, _noted(watch, function))
    if not WATCHES:
        sys.addaudithook(_audit)  # which nothing removes
    WATCHES[:] = [watch]
    yield watch
    WATCHES[:] = [Watch(Path("/absent"))]


PYTHON: Final = b"""
import os
import torch
from torch.library import Library, register_fake
from torch.utils import absent
torch.ops.load_library(os.path.join(os.path.dirname(__file__), "_C.so"))
"""


def test_whatever_is_looked_at_is_on_the_record(tmp_path: Path, watch: Watch) -> None:
    """A file that is read and not recorded could change without anybody noticing."""
    site = tmp_path / "site"
    package = torch_package(site)
    (package / "utils").mkdir()
    (package / "utils" / "__init__.py").write_text("")
    (package / "library.py").write_text("")
    install(site, "other", {"other/libother.so": extension(soname="libother.so")})
    members = {
        "mine/__init__.py": PYTHON,
        "mine/_C.so": extension(needed=("libtorch_cpu.so", "libother.so", "libabsent.so")).build(),
        "mine-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: mine\nVersion: 1.0\nRequires-Dist: other\n",
    }
    target = wheel(tmp_path / "mine-1.0-py3-none-any.whl", members)
    folder = tmp_path / "unpacked"
    for name, data in members.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    python = python_of(site, tmp_path)
    watch.seen.clear()
    with observed_fs.record_observations() as record:
        for each in (target, folder, folder / "mine" / "_C.so"):
            abiscan.check(each, package, python=python, session=Session(folder=tmp_path / "cache"))
            abiscan.check(each, python=python, session=Session(folder=tmp_path / "cache2"))
            abiscan.operators(each, session=Session(folder=tmp_path / "cache3"))
    recorded = {os.path.abspath(name) for seen in record.seen.values() for name in seen}  # noqa: PTH100
    beside = {path for path in watch.seen if "/cache" in path.removeprefix(str(tmp_path))}
    # The folders on the way to a link's end, and the metadata, which stand and fall with the list of their folders.
    way = {parent for path in recorded for parent in map(str, Path(path).parents)}
    metadata = {path for path in watch.seen if ".dist-info" in path}
    assert str(package / "lib" / "libtorch_cpu.so") in watch.seen
    assert watch.seen - beside - way - metadata - recorded == set()
    assert record.still_holds()
