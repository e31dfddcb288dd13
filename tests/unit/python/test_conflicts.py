"""Imports that fail if a package is installed which is not required."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import abiscan
from abiscan.python.importing import runs
from abiscan.python.interpreter.imports import PythonInterpreter
from abiscan.python.interpreter.machine import Choices
from abiscan.python.interpreter.values import TextWithHoles
from abiscan.python.reading import PackageReader
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources

# As mmengine 0.10.5. Truth: open-mmlab/mmengine#1609, on torch 2.5.0 with transformers. torch.optim has Adafactor since
# 2.5.0 (https://pytorch.org/docs/2.5/generated/torch.optim.Adafactor.html).
REGISTERS = """import inspect
import torch
class Registry:
    def __init__(self): self._known = {}
    def register(self, module, name=None, force=False):
        if not callable(module): raise TypeError('no class')
        if module is not None:
            name = name or module.__name__
            if not force and name in self._known:
                raise KeyError(f'{name} is already registered at {self._known[name].__module__}')
            self._known[name] = module
OPTIMIZERS = Registry()
for name in dir(torch.optim):
    cls = getattr(torch.optim, name)
    if not name.startswith('__') and inspect.isclass(cls) and issubclass(cls, torch.optim.Optimizer):
        OPTIMIZERS.register(cls)
try:
    from lion_pytorch import Lion
except ImportError:
    pass
else:
    OPTIMIZERS.register(Lion)
try:
    from transformers import Adafactor
except ImportError:
    pass
else:
    OPTIMIZERS.register(Adafactor, name='Adafactor')
"""


def found(source: str, release: str, required: str = "torch") -> list[tuple[str, str, str | None]]:
    metadata = f"Name: pack\nRequires-Dist: {required}\n\n"
    files = {"pack/__init__.py": "", "pack/optim.py": source, "pack-1.dist-info/METADATA": metadata}
    reader = PackageReader(TextSources(files), ["pack"])
    conflicts = reader.conflicts(lambda: FakeWorld(torch_names=embedded_names.names(release), torch_version=release))
    return [(conflict.package, conflict.module, conflict.raised.message) for conflict in conflicts]


MESSAGE = "'Adafactor is already registered at ?'"


@pytest.mark.parametrize(
    ("source", "release", "required", "expected"),
    [
        (REGISTERS, "2.5.0", "torch", [("transformers", "pack.optim", MESSAGE)]),
        (REGISTERS, "2.4.1", "torch", []),
        # What is required is there in any case: the import itself fails.
        (REGISTERS, "2.5.0", "transformers", []),
        (REGISTERS.replace("name='Adafactor'", "name='Adafactor', force=True"), "2.5.0", "torch", []),
        (REGISTERS.replace("name='Adafactor'", ""), "2.5.0", "torch", []),
        (
            REGISTERS.replace("except ImportError", "except Exception"),
            "2.5.0",
            "torch",
            [("transformers", "pack.optim", MESSAGE)],
        ),
        (
            "import torch\ndir(torch.optim)\ntry: import nope\nexcept ImportError: pass\nelse: nope.x()\n",
            "2.5.0",
            "torch",
            [],
        ),
    ],
)
def test_what_conflicts(source: str, release: str, required: str, expected: list[tuple[str, str, str]]) -> None:
    assert found(source, release, required) == expected


def test_it_is_a_condition_of_the_verdict(tmp_path: Path) -> None:
    wheel = tmp_path / "pack-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pack/__init__.py", "import torch\n")
        archive.writestr("pack/optim.py", REGISTERS)
        archive.writestr("pack-1.dist-info/METADATA", "Name: pack\nVersion: 1\nRequires-Dist: torch\n\n")
        archive.writestr("pack-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("pack-1.dist-info/RECORD", "")
    report = abiscan.check(wheel, "2.5.1")
    (package,) = report.packages
    assert package.verdict.value == "works"
    assert [(item.kind.value, item.name, item.met) for item in package.conditions] == [
        ("conflict", "transformers", None)
    ]
    assert package.condition == ", if transformers is not installed"
    assert not abiscan.check(wheel, "2.4.1").packages[0].conditions


@pytest.mark.parametrize("parts", [("", ""), ("a is at ", ""), ("a ", " b ", " c")])
def test_the_text_of_a_key_error_is_a_repr_with_holes(parts: tuple[str, ...]) -> None:
    quoted = TextWithHoles("text", parts=parts).quoted()
    assert quoted is not None
    assert "x".join(quoted.parts) == str(KeyError("x".join(parts)))
    assert TextWithHoles("text", parts=("it's", "")).quoted() is None
    assert TextWithHoles("text", parts=("a\n", "")).quoted() is None


def test_modules_are_imported_one_after_the_other_with_each_package(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[str] = []
    import_once = runs._import_once

    def counting(machine: PythonInterpreter, module: str, choices: Choices) -> runs.Run:
        alone.append(f"{module} with {machine.with_module}" if machine.with_module else module)
        return import_once(machine, module, choices)

    monkeypatch.setattr(runs, "_import_once", counting)
    harmless = REGISTERS.replace("name='Adafactor'", "force=True")
    files = {"pack/__init__.py": "", "pack/a.py": harmless, "pack/b.py": REGISTERS, "pack/c.py": harmless}
    reader = PackageReader(TextSources(files), ["pack"])
    world = FakeWorld(torch_names=embedded_names.names("2.5.0"), torch_version="2.5.0")
    (conflict,) = reader.conflicts(lambda: world)
    assert (conflict.package, conflict.module, conflict.raised.message) == ("transformers", "pack.b", MESSAGE)
    assert alone == ["pack.a", "pack.b", "pack.c", "pack.b with transformers"]
