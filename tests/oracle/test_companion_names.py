"""The names of Triton and numpy against the modules themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.torches import companion_names

ASK = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
answers = {}
for module, names in json.load(sys.stdin).items():
    try:
        imported = importlib.import_module(module)
    except BaseException:  # a script ends the process as it is imported
        continue
    answers[module] = []
    for name in names:
        try:
            answers[module] += [name] if hasattr(imported, name) else []
        except Exception:
            pass
print()
json.dump(answers, sys.stdout)
"""


def _disagreements(package: str, names: TorchNames, folder: Path) -> list[str]:
    """What the data have and the real module lacks, or the other way round."""
    table = companion_names.table()
    asked = {
        module: sorted({mark.rstrip("?") for mark in marks if mark.rstrip("?").isidentifier()})
        for module, marks in table.items()
        if module.partition(".")[0] == package
    }
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps(asked),
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    real = json.loads(done.stdout.splitlines()[-1])  # some modules print
    assert len(real) > 10
    said = [(module, name, names.has(module, name)) for module in real for name in asked[module]]
    wrong = [f"{module}.{name}" for module, name, has in said if has is not None and has != (name in real[module])]
    return wrong + [module for module in real if names.has_module(module) is False]


@pytest.mark.long
@pytest.mark.parametrize(
    "requirement",
    ["numpy==1.26.4", "numpy==2.0.2", "numpy==2.4.6", "triton==3.1.0", "triton==3.2.0", "triton==3.7.1"],
)
def test_names(requirement: str, tmp_path: Path) -> None:
    package, _, version = requirement.partition("==")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path), requirement]
    subprocess.run(command, check=True)
    (names,) = companion_names.CompanionsOf(None).matching(package, f"=={version}")

    assert _disagreements(package, names, tmp_path) == []
