"""What really became of an import, in a process that may end in any way."""

from __future__ import annotations

from pathlib import Path

import pytest

from abiscan.hooks import trials
from abiscan.results.doctor import (
    Diagnosis,
    DistributionState,
    EnvironmentState,
    ImportTrial,
    ModuleState,
    Origin,
    TorchHealth,
)
from abiscan.results.package import PackageVerdict

WORKS, FAILS, UNKNOWN = PackageVerdict.WORKS, PackageVerdict.IMPORT_FAILS, PackageVerdict.UNKNOWN
CODE = {
    "good": "import sys; print('x' * 10, file=sys.stderr)",
    "failing": "raise RuntimeError('first line\\nwhat is wrong')",
    "silent": "import os; os._exit(7)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "endless": "import time; time.sleep(60)",
}


def diagnosis(*modules: ModuleState) -> Diagnosis:
    state = DistributionState(name="a", version="1", origin=Origin.INDEX, verdict=WORKS, modules=modules)
    environment = EnvironmentState(python=None, executable=None, root="/venv")
    health = TorchHealth(version="2.13.0", imports=True)
    return Diagnosis(chosen="/venv", environment=environment, torch=health, distributions=(state,))


def tried(python: str | None, *modules: ModuleState) -> tuple[list[ImportTrial | None], list[str]]:
    told: list[str] = []
    (state,) = trials.try_imports(diagnosis(*modules), python, told.append).distributions
    return [module.imported for module in state.modules], told


def test_each_module_has_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(trials, "SECONDS", 1)
    for name, code in CODE.items():
        (tmp_path / f"{name}.py").write_text(code, "utf-8")
    found, told = tried(None, *(ModuleState(name=name, verdict=WORKS) for name in CODE))
    assert found == [
        ImportTrial(works=True),
        ImportTrial(works=False, error="what is wrong"),
        ImportTrial(works=False, error="it ended with code 7"),
        ImportTrial(works=False, error="the process died of SIGKILL"),
        ImportTrial(works=None, error="did not finish within 1 s"),
    ]
    assert told == [f"importing {name}" for name in CODE]


def test_a_python_that_cannot_be_started_is_no_answer(tmp_path: Path) -> None:
    found, _ = tried(str(tmp_path / "python"), ModuleState(name="a", verdict=WORKS))
    assert found == [ImportTrial(works=None, error="cannot be started: No such file or directory")]


@pytest.mark.parametrize(
    ("verdict", "works", "differs"),
    [
        (WORKS, True, False),
        (WORKS, False, True),
        (FAILS, True, True),
        (FAILS, False, False),
        (UNKNOWN, False, False),
        (WORKS, None, False),
    ],
)
def test_what_differs_from_the_prediction(verdict: PackageVerdict, works: bool | None, differs: bool) -> None:
    assert ModuleState(name="a", verdict=verdict, imported=ImportTrial(works=works)).differs is differs
    assert ModuleState(name="a", verdict=verdict).differs is False
