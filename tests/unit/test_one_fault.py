"""A bug of abiscan's that one target of three meets: the answers about the others stay the same, byte for byte."""

from __future__ import annotations

import functools
import importlib
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click.testing
import pytest

import abiscan
from abiscan.cli import main
from abiscan.errors import InternalError
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.isolation import turn_of
from abiscan.inputs.session import Session
from abiscan.pipelines.fit import Opinion, _Attempt
from abiscan.pipelines.survey import SurveyTask, SurveyTorches, check_task
from abiscan.verdict.torch_set import TorchSet
from tests.elf_builder import uses
from tests.fakes import extension, package_wheel

FAULTY: Final = "faulty"
STAGES: Final = {
    "reading": "abiscan.inputs.sources._make_extension",
    "emulation": "abiscan.extension.examined.ExaminedTarget.recover",
    "linking": "abiscan.verdict.checker.Checker.link",
    "rules": "abiscan.verdict.checker._apply_rules",
    "models": "abiscan.verdict.model.model_result",
    "results": "abiscan.verdict.checker._make_result",
}
MODELS: Final = Path(__file__).parents[1] / "oracle" / "models.zip"


def is_faulty(value: object) -> bool:
    """Whether an argument is about the target that is to fail."""
    parts = [value, *(getattr(value, name, None) for name in ("name", "path", "location", "target"))]
    return any(FAULTY in str(part) for part in (*parts, getattr(parts[-1], "name", None)))


@pytest.fixture(params=STAGES)
def stage(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def targets(tmp_path: Path, stage: str) -> list[str]:
    """Three libraries, or models for the stage that only they have."""
    if stage == "models":
        with zipfile.ZipFile(MODELS) as archive:
            content = archive.read("2.13.0/script.pt")
        paths = [tmp_path / f"{name}.pt" for name in ("a", FAULTY, "c")]
        for path in paths:
            path.write_bytes(content)
        return list(map(str, paths))
    code = "import torch\ntorch.ops.load_library(__path__[0] + '/_C.so')\n"
    return [
        str(
            package_wheel(
                tmp_path,
                name,
                {f"{name}/_C.so": extension(undefined=uses(symbol))},
                files={f"{name}/__init__.py": code},
            )
        )
        for name, symbol in (("a", "_ZN2at4goneEv"), (FAULTY, "_ZN2at4goneEv"), ("c", "_ZN2at6Tensor3cpuEv"))
    ]


@pytest.fixture
def broken(stage: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Break a stage for one target; the function mends it."""
    path, _, name = STAGES[stage].rpartition(".")
    module, _, cls = path.rpartition(".")
    owner: Any = getattr(importlib.import_module(module), cls) if cls[0].isupper() else importlib.import_module(path)
    function = getattr(owner, name)

    @functools.wraps(function)
    def fail(*words: Any, **named: Any) -> Any:
        if any(map(is_faulty, (*words, *named.values()))):
            raise KeyError("a bug")
        return function(*words, **named)

    monkeypatch.setattr(owner, name, fail)
    return lambda: monkeypatch.setattr(owner, name, function)


def run(*words: str) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(main, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def rows(document: dict[str, Any], *parts: str) -> str:
    """The rows about the others, as text; those of a matrix name no target, but what was built into the path."""
    found = [row for part in parts for row in document[part] if FAULTY not in json.dumps(row)]
    return json.dumps(found)


COMMANDS: Final[dict[str, tuple[Sequence[str], Sequence[str]]]] = {
    "check": (("check", "--torch", "2.13.0"), ("packages", "results")),
    "matrix": (("matrix", "--torch", "2.13.0", "--torch", "2.8.0"), ("packages",)),
    "stable": (("stable",), ("results",)),
}


@pytest.mark.parametrize(
    ("command", "stage"),
    [*((command, stage) for command in ("check", "matrix") for stage in STAGES), ("stable", "reading")],
    indirect=["stage"],
)
def test_the_others_have_their_answers(
    command: str, stage: str, targets: list[str], broken: Callable[[], None]
) -> None:
    words, parts = COMMANDS[command]
    faulty = run(*words, *targets, "--format", "json")
    broken()
    whole = json.loads(run(*words, *targets, "--format", "json").stdout)
    document = json.loads(faulty.stdout)
    assert rows(document, *parts) == rows(whole, *parts) != "[]"
    (unchecked,) = document["unchecked"]
    assert (unchecked["stopped"], FAULTY in unchecked["target"]) == (True, True)
    assert unchecked["problem"].startswith("internal error, please report it: KeyError: 'a bug' (abiscan/")
    assert "internal error" in faulty.stderr
    assert faulty.exit_code == (3 if command == "stable" or stage == "models" else 1)


@pytest.mark.usefixtures("broken")
def test_alone_it_is_unknown(targets: list[str]) -> None:
    done = run("check", "--torch", "2.13.0", targets[1])
    assert (done.exit_code, "internal error, please report it: KeyError" in done.stderr) == (3, True)
    with pytest.raises(InternalError) as raised:
        abiscan.check(targets[1], "2.13.0")
    assert isinstance(raised.value.__cause__, KeyError)


class SilentError(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "error", [AssertionError(), StopIteration(), SilentError(), SyntaxError("bad", ("f", 1, 1, "x"))]
)
def test_any_error_has_words(error: Exception) -> None:
    with pytest.raises(InternalError) as raised, turn_of("x.so"):
        raise error
    name = type(error).__name__
    assert re.match(rf"internal error, please report it: ([\w.]+\.)?{name}(: \S.*)? \(abiscan/", raised.value.problem)


@pytest.mark.usefixtures("broken")
def test_the_trace_has_the_traceback(targets: list[str], stage: str, tmp_path: Path) -> None:
    run("--trace", str(tmp_path / "trace"), "check", "--torch", "2.13.0", *targets)
    text = (tmp_path / "trace").read_text("utf-8")
    assert "inputs: Traceback (most recent call last):" in text, stage
    assert "inputs: KeyError: 'a bug'" in text


def test_of_a_survey(targets: list[str], stage: str, broken: Callable[[], None]) -> None:
    def lines() -> list[str]:
        torches = SurveyTorches(specs=("2.13.0",), python=None)
        tasks = (SurveyTask(target=target, torches=torches, names=("2.13.0",)) for target in targets)
        return [check_task(task).lines[0] for task in tasks]

    first, faulty, third = lines()
    broken()
    assert [first, third] == lines()[::2]
    assert json.loads(faulty)["verdict"] == "unknown"
    assert json.loads(faulty)["exit_code"] == 3, stage
    assert "internal error, please report it" in faulty


def test_a_damaged_installation_ends_the_command(targets: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    data = Path(abiscan.__file__).with_name("gone.bin")

    def lost(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", str(data))

    monkeypatch.setattr("abiscan.verdict.torch_set.TorchSet.check", lost)
    done = run("check", "--torch", "2.13.0", *targets)
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.startswith("abiscan: the installation of abiscan is damaged: abiscan/gone.bin: No such file")


@pytest.mark.slow
def test_a_version_that_meets_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = {"nail/__init__.py": "import torch\ntorch.ops.load_library(__path__[0] + '/_C.so')\n"}
    for version in ("1.0", "2.0", "3.0"):
        package_wheel(tmp_path / "wheels", "nail", {"nail/_C.so": extension()}, version=version, files=code)

    judge = TorchSet.check

    def fail(torch_set: TorchSet, source: Any, *words: Any, **named: Any) -> Any:
        if "nail-2.0" in str(source):
            raise KeyError("a bug")
        return judge(torch_set, source, *words, **named)

    monkeypatch.setattr(TorchSet, "check", fail)
    options = IndexOptions(no_index=True, find_links=(str(tmp_path / "wheels"),))
    session = Session(folder=tmp_path, index=options)
    table = abiscan.version_table("nail", "all", ("2.13.0",), session=session)
    assert [(row.version, bool(row.verdicts)) for row in table.rows] == [("3.0", True), ("2.0", False), ("1.0", True)]
    assert "internal error" in str(table.rows[1].reason)
    monkeypatch.setattr(_Attempt, "_opinion_of", lambda _, wheel: fail_for_newest(str(wheel)))
    fitting = abiscan.fit(
        ["nail"],
        "2.13.0",
        find_links=options.find_links,
        no_index=True,
        python_version=(3, 11),
        platform="linux_x86_64",
        session=Session(folder=tmp_path / "fit"),
    )
    assert [package.version for package in fitting.packages] == ["2.0"]


def fail_for_newest(wheel: str) -> Opinion:
    if "nail-3.0" in wheel:
        raise KeyError("a bug")
    return Opinion()
