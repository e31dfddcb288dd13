"""What is done once for a package, and what is not imported to check it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from abiscan import api
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.reading import PackageReader
from abiscan.verdict.checker import Checker
from tests.oracle import corpus
from tests.oracle.corpus import needs_corpus

WHEELS = Path(__file__).parents[2] / "data" / "wheels"
AUDIO = WHEELS / "torchaudio-2.9.1-cp311-cp311-manylinux_2_28_aarch64.whl"
DLPACK = WHEELS / "torch_c_dlpack_ext-0.1.5-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl"
HARMONICS = WHEELS / "torch_harmonics-0.9.3-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl"


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str]]:
    """How often each extension is linked, by the torch."""
    counted: Counter[tuple[str, str]] = Counter()
    link = Checker._link

    def counting(self: Checker, examined: Any, setting: Any, *rest: Any, **named: Any) -> Any:
        counted[examined.path, setting.release.build] += 1
        return link(self, examined, setting, *rest, **named)

    monkeypatch.setattr(Checker, "_link", counting)
    return counted


def test_an_extension_that_a_package_loads_first_is_linked_once_on_each_torch(
    linked: Counter[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    api.matrix([HARMONICS], ["2.4.0", "2.11.0"], explained=False)
    first = {torch: count for (path, torch), count in linked.items() if path.startswith("attention_helpers.")}
    assert list(first.values()) == [1, 1]


def test_a_load_that_fails_is_resolved_once_whatever_is_said_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    resolved: list[tuple[str, Any]] = []
    resolve = Checker._resolve

    def noting(self: Checker, examined: Any, setting: Any) -> Any:
        assert (examined.path, setting.process) not in resolved
        resolved.append((examined.path, setting.process))
        return resolve(self, examined, setting)

    monkeypatch.setattr(Checker, "_resolve", noting)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert {result.verdict.value for result in api.check([AUDIO], "1.13.1").results} == {"fails"}
    assert resolved


def test_of_the_other_builds_of_a_release_nothing_but_the_verdict_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []
    python_needs = PackageReader.python_needs

    def noting(self: PackageReader, world: Any, *rest: Any) -> Any:
        asked.append(world.torch_version)
        return python_needs(self, world, *rest)

    monkeypatch.setattr(PackageReader, "python_needs", noting)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    api.check([DLPACK], "2.13.0")
    assert asked == ["2.13.0+cpu"]


@pytest.mark.parametrize(
    ("module", "unwanted"),
    {
        "a doctor who asks no index": ("abiscan.hooks.doctor", ["unearth", "requests", "abiscan.hooks.solution"]),
        "the emulator": ("abiscan.emulation.recovery", ["capstone", "icicle"]),
    }.values(),
)
def test_what_is_rarely_needed_is_not_imported(module: str, unwanted: list[str]) -> None:
    code = f"import sys, {module}; print([name for name in {unwanted} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# What a check of a wheel on a release asks neither for its own answer nor to find out that there is nothing to say.
UNWANTED = (
    *("abiscan.extension.gpu", "abiscan.gpu.reader", "abiscan.hooks", "abiscan.index"),
    *("abiscan.torches.from_libs", "abiscan.torches.unlisted_torch_names", "capstone", "dataclasses", "icicle", "lief"),
    *("packaging.requirements", "requests", "rich", "unearth"),
)
MOST_MODULES = 351  # of 678 in abiscan; every rule is one, the options for locks, what the reading of Python keeps


def test_a_check_of_a_wheel_imports_only_what_it_uses(tmp_path: Path) -> None:
    words = ["check", str(DLPACK), "--torch", "2.11.0", "--no-config"]
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from abiscan.__main__ import main\n"
        f"sys.argv[1:] = ['--no-isolation', *{words}]\n"
        "main()\n"
    )
    # Not what a test run itself puts into each Python.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTHONPATH"))}
    environment["XDG_CACHE_HOME"] = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    names = set(done.stderr.splitlines()[-1].split())
    assert {"abiscan.pipelines.check", "abiscan.python.reading"} <= names
    # From Python 3.14 on, logging imports it, by traceback and _colorize.
    of_python = {"dataclasses"} if sys.version_info >= (3, 14) else set()
    assert [name for name in UNWANTED if name in names - of_python] == []
    assert sum(name.startswith("abiscan.") for name in names) < MOST_MODULES


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> list[PythonMachine]:
    """The runs of a package's Python code."""
    made: list[PythonMachine] = []
    initialise = PythonMachine.__init__

    def noting(self: PythonMachine, *args: Any) -> None:
        made.append(self)
        initialise(self, *args)

    monkeypatch.setattr(PythonMachine, "__init__", noting)
    return made


def _count(machines: list[PythonMachine], wheel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Return how many steps a wheel takes on a single torch, and on all."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "single"))
    api.check([wheel], "2.13.0")
    single = sum(machine.steps for machine in machines)
    machines.clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "all"))
    (package,) = api.matrix([wheel]).packages
    assert len(package.results) > 30
    return single, sum(machine.steps for machine in machines)


@pytest.mark.slow
def test_many_torches_take_a_few_readings(
    machines: list[PythonMachine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    single, all_ = _count(machines, AUDIO, tmp_path, monkeypatch)
    assert 0 < single < all_ < 10 * single  # on a single one it fails early; where it works, large bodies run once


@pytest.mark.long
@needs_corpus
def test_all_torches_take_the_work_of_six_readings_at_most(
    machines: list[PythonMachine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vision = corpus.wheel("torchvision-0.28.0")
    single, all_ = _count(machines, vision, tmp_path, monkeypatch)
    # Where all libraries load, as on the single torch, one reading is three runs; elsewhere there are more ways to go.
    assert 0 < single < all_ <= 6 * single
