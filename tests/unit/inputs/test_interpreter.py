from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from abiscan.errors import InputError
from abiscan.inputs import interpreter, observed_fs, programs
from abiscan.inputs.interpreter import Interpreter, PythonTag


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("_C.cpython-311-x86_64-linux-gnu.so", "3.11"),
        ("_C.cpython-313t-aarch64-linux-gnu.so", "3.13t"),
        ("_C.cpython-310d-x86_64-linux-gnu.so", "3.10d"),
        ("_C.cpython-37m-x86_64-linux-gnu.so", "3.7"),
        ("_C.cpython-39-darwin.so", "3.9"),
        ("pkg.sub.cpython-38-x86_64-linux-musl.so", "3.8"),
    ],
)
def test_a_tag_in_a_file_name(name: str, text: str) -> None:
    assert str(PythonTag.of_file(name)) == text


@pytest.mark.parametrize(
    "name", ["_C.so", "_C.abi3.so", "libcpython-311.so", "_C.cpython-311-x86_64-linux-gnu.so.1", ""]
)
def test_no_tag_in_a_file_name(name: str) -> None:
    assert PythonTag.of_file(name) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pkg-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", "3.11"),
        ("pkg-1.0-cp313-cp313t-linux_x86_64.whl", "3.13t"),
        ("pkg-1.0-cp37-cp37m-linux_x86_64.whl", "3.7"),
        ("pkg-1.0-cp310-abi3-linux_x86_64.whl", "None"),
        ("pkg-1.0-py3-none-any.whl", "None"),
    ],
)
def test_a_tag_of_a_wheel(name: str, text: str) -> None:
    assert str(PythonTag.of_wheel(name)) == text


def test_the_version_is_the_tag_without_its_flags() -> None:
    assert PythonTag(major=3, minor=13, flags="t").version == "3.13"


def test_the_running_interpreter() -> None:
    here = interpreter.running_interpreter()
    assert here.tag.version == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert here.full_version == sys.version
    assert here.executable == Path(sys.executable)  # not what the link in a virtual environment points to


def test_an_interpreter_tells_of_itself_what_it_runs_as() -> None:
    answered, _ = interpreter.ask_interpreter(sys.executable)
    assert answered == interpreter.running_interpreter()


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_another_interpreter_is_asked_and_torch_not_imported(tmp_path: Path) -> None:
    suffixes = [".cpython-312-x86_64-linux-gnu.so", ".abi3.so", ".so"]
    answer = json.dumps(["3.12.1 (x)", suffixes, "/env/torch/__init__.py", ["/env"]])
    python = program(tmp_path / "python", f"echo '{answer}'")
    known, torch = interpreter.ask_interpreter(str(python))
    assert known == Interpreter(tag=PythonTag(major=3, minor=12), executable=python, full_version="3.12.1 (x)")
    assert torch == Path("/env/torch")


def test_an_interpreter_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = program(tmp_path / "mypython", """echo '["3.12.1", [".cpython-312-x86_64-linux-gnu.so"], null, []]'""")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    known, torch = interpreter.ask_interpreter("mypython")
    assert (known.executable, torch) == (python, None)


@pytest.mark.parametrize("text", ["exit 1", "echo no JSON", "echo '[]'", "echo '[\"3.12\", [], null, []]'"])
def test_what_is_no_python(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be run as a Python"):
        interpreter.ask_interpreter(str(program(tmp_path / "python", text)))


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be run as a Python"):
        interpreter.ask_interpreter(str(tmp_path / "absent"))


def test_the_interpreter_of_the_environment_of_a_torch(tmp_path: Path) -> None:
    python = program(tmp_path / "bin" / "python3.99", "")
    package = tmp_path / "lib" / "python3.99" / "site-packages" / "torch"
    found = interpreter.of_torch(package, PythonTag(major=3, minor=99))
    assert found == Interpreter(tag=PythonTag(major=3, minor=99), executable=python)


def test_a_program_above_a_torch_that_is_not_installed_says_nothing(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "python3.99", "")
    tag = PythonTag(major=3, minor=99)
    assert interpreter.of_torch(tmp_path / "downloads" / "torch", tag) == Interpreter(tag=tag)


def test_a_torch_outside_of_any_environment_tells_the_version_alone(tmp_path: Path) -> None:
    tag = PythonTag(major=3, minor=99)
    assert interpreter.of_torch(tmp_path / "torch", tag) == Interpreter(tag=tag)


def test_a_torch_for_the_running_version_runs_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Interpreter(tag=PythonTag(major=3, minor=99), executable=Path("/opt/python3.99"), full_version="3.99.0")
    monkeypatch.setattr(interpreter, "running_interpreter", lambda: here)
    assert interpreter.of_torch(tmp_path / "torch", here.tag) == here
    assert interpreter.of_torch(tmp_path / "torch", None) == here


def test_the_installed_torch_runs_in_the_running_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "installed_torch", lambda: tmp_path / "torch")
    assert interpreter.of_torch(tmp_path / "torch", PythonTag(major=3, minor=99)) == interpreter.running_interpreter()


def test_a_python_is_started_again_only_if_something_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer, started = programs.ask_python, 0

    def counted(executable: str, code: str) -> str:
        nonlocal started
        started += 1
        return answer(executable, code)

    monkeypatch.setattr(interpreter, "_ANSWERS", {})
    monkeypatch.setattr(programs, "ask_python", counted)
    before = interpreter.search_path(sys.executable)
    interpreter.ask_interpreter(sys.executable)
    with observed_fs.record_observations() as record:
        assert interpreter.search_path(sys.executable) == before
    assert started == 1
    assert sys.executable in record.seen["file"]  # who keeps the answer must know what it depends on
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert str(tmp_path) in interpreter.search_path(sys.executable)
    assert started == 2


def test_a_relative_path_is_another_python_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "_ANSWERS", {})
    for version in ("3.11", "3.12"):
        tag = version.replace(".", "")
        answer = json.dumps([f"{version}.0", [f".cpython-{tag}-x86_64-linux-gnu.so"], None, [f"/{version}"]])
        program(tmp_path / version / "python", f"echo '{answer}'")
    for version in ("3.11", "3.12", "3.11"):
        monkeypatch.chdir(tmp_path / version)
        assert interpreter.search_path("./python") == (f"/{version}",)
