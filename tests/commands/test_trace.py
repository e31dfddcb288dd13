"""``--trace``: the decisions that lead to a verdict, the same in every circumstance."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.processes import Finished, run
from tests.commands.same_bytes import SAMPLES
from tests.fakes import extension, package_wheel

KERNELS = str(SAMPLES / "registration_conflicts" / "dispatch_key_drift.so")
UNDEFINED = str(SAMPLES / "undefined_symbol_signature" / "undefined_symbol_signature.so")
TORCH = ("--torch", "2.13.0+cpu")
CODE = """
import torch
try:
    import absent_package
except ImportError:
    pass
if torch.__version__ >= "2.9":
    from . import _C
"""


@pytest.fixture
def package(tmp_path: Path) -> str:
    objects = {"eye/_C.so": extension()}
    metadata = {"Requires-Dist": "torch"}
    return str(package_wheel(tmp_path, "eye", objects, files={"eye/__init__.py": CODE}, metadata=metadata))


def traced(folder: Path, *words: str, cache: Path | None = None, env: dict[str, str] | None = None) -> list[str]:
    """The lines of the trace of a command."""
    file = folder / "trace"
    run("--trace", file, *words, env={"XDG_CACHE_HOME": str(cache or folder / "cache"), **(env or {})})
    return file.read_text("utf-8").splitlines()


def test_an_undefined_symbol(tmp_path: Path) -> None:
    lines = traced(tmp_path, "check", UNDEFINED, *TORCH)
    name = "_ZN2at4_ops8align_as4callERKNS_6TensorES4_"
    mapped = next(line for line in lines if line.startswith("linkage: maps ") and line.endswith(UNDEFINED))
    missing = f"linkage: undefined_symbol_signature.so: {name} resolves to nothing: undefined"
    on = "undefined_symbol_signature.so on torch 2.13.0+cpu"
    asked = f"rules: {on}: undefined-symbol: 2 findings"
    assert lines.index(mapped) < lines.index(missing) < lines.index(asked)
    assert lines[-1].startswith(f"verdict: {on}: fails: undefined symbol: ")
    assert any("resolves to libtorch_cpu.so" in line for line in traced(tmp_path, "check", KERNELS, *TORCH))


def test_initialisers_and_registrations(tmp_path: Path) -> None:
    lines = [line for line in traced(tmp_path, "ops", KERNELS) if line.startswith("emulation: ")]
    (registering,) = (
        line for line in lines if "registers RegisteredKernel(operator=aten::tanh, dispatch_key=62" in line
    )
    place = registering.split()[1]
    about = [line for line in lines if place in line]
    assert about[0] == f"emulation: static-init: runs {place}"
    assert about[-1].startswith(f"emulation: {place} returns after ")


def test_what_ties_an_extension(tmp_path: Path) -> None:
    (line,) = traced(tmp_path, "stable", UNDEFINED)
    assert line.startswith("pipelines: undefined_symbol_signature.so is tied: _ZN")


def test_a_package(package: str, tmp_path: Path) -> None:
    lines = [line for line in traced(tmp_path, "check", package, *TORCH) if not line.startswith("rules: ")]
    first = [
        "python: imports eye",
        "python: enters eye, eye/__init__.py",
        "python: eye/__init__.py:4: imports absent_package, which is not a module of the package",
        "python: ModuleNotFoundError, raised at eye/__init__.py:4, is caught at line 5",
        "python: eye/__init__.py:7: torch.__version__ >= '2.9' is True",
        "python: asks the target: load eye/_C.so import: it loads",
        "python: the import of eye: it succeeds",
    ]
    places = [lines.index(line) for line in first]
    assert places == sorted(places)
    assert lines[-1] == "verdict: package eye on torch 2.13.0+cpu: works"


def test_the_trace_is_the_same_every_time(package: str, tmp_path: Path) -> None:
    words = ("matrix", KERNELS, UNDEFINED, package, *TORCH, "--torch", "2.9.1+cpu")
    first = traced(tmp_path, *words, "--jobs", "1", env={"PYTHONHASHSEED": "1"})
    again = traced(tmp_path, *words, "--jobs", "2", env={"PYTHONHASHSEED": "2", "LC_ALL": "C", "PYTHONUTF8": "0"})
    assert [line for line in again if line not in first] == []
    assert again == first


def test_a_survey_is_traced_target_by_target(tmp_path: Path) -> None:
    words = ("survey", UNDEFINED, KERNELS, *TORCH, "--jobs", "2", "--output", str(tmp_path / "lines"))
    lines = traced(tmp_path, *words)
    places = [
        [number for number, line in enumerate(lines) if Path(target).name in line] for target in (UNDEFINED, KERNELS)
    ]
    assert all(places)
    assert max(places[0]) < min(places[1])


def test_where_it_goes(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    plain = run("check", UNDEFINED, *TORCH, env=cache)
    by_variable = run("check", UNDEFINED, *TORCH, env={**cache, "ABISCAN_TRACE": str(tmp_path / "trace")})
    assert by_variable == plain
    trace = (tmp_path / "trace").read_text("utf-8")
    on_stderr = run("--trace", "-", "check", UNDEFINED, *TORCH, env=cache)
    assert on_stderr == Finished(code=plain.code, out=plain.out, err=trace)


@pytest.mark.parametrize("file", ["folder", "absent/trace"])
def test_a_file_that_cannot_be_written(file: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    finished = run("--trace", file, "releases", cwd=tmp_path)
    assert (finished.code, finished.out) == (2, "")
    assert finished.err.startswith(f"abiscan: {file}: cannot be written: ")
    assert finished.err.endswith("(pass another file with --trace)\n")


def test_a_full_disk_ends_the_trace_and_not_the_run(tmp_path: Path) -> None:
    finished = run("--trace", "/dev/full", "check", UNDEFINED, *TORCH, env={"XDG_CACHE_HOME": str(tmp_path)})
    assert finished.code == 1
    assert "/dev/full: the trace ends here: " in finished.err
    assert finished.err.count("\n") == 1
