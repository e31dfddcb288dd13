"""The operators of a running torch, against those that its own binaries have."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from abiscan.dispatch.operators import Kernel, Operators
from abiscan.inputs import interpreter
from abiscan.torches import from_python


@pytest.fixture(scope="module")
def package() -> Path:
    found = interpreter.installed_torch()
    if found is None:
        pytest.skip("needs torch")
    return found


@pytest.fixture(scope="module")
def live(package: Path) -> Operators:
    assert package.is_dir()
    return from_python.read_operators(sys.executable)


def of_python(file: str | None) -> bool:
    return file is not None and (file.endswith(".py") or file == "/dev/null")


def rows(kernels: list[Kernel]) -> Counter[tuple[object, ...]]:
    return Counter((kernel.operator, kernel.key, kernel.file, kernel.line, kernel.schema) for kernel in kernels)


def test_what_cpp_registers_is_what_the_libraries_say(live: Operators, static: Operators) -> None:
    assert rows([kernel for kernel in live.kernels if not of_python(kernel.file)]) == rows(list(static.kernels))
    assert {name for name, operator in live.operators.items() if not of_python(operator.file)} == set(static.operators)
    assert {fallback.key for fallback in live.fallbacks} == {fallback.key for fallback in static.fallbacks}
    assert live.keys == static.keys
    assert live.aliases == static.aliases


def test_what_python_registers_is_there_too(live: Operators) -> None:
    # torch/_meta_registrations.py and torch/_decomp give Meta kernels, torch/_library and others operators.
    added = [kernel for kernel in live.kernels if of_python(kernel.file)]
    assert {"Meta"} <= {kernel.key for kernel in added}
    assert len(added) > 1_000


def test_a_well_known_operator(live: Operators) -> None:
    operator = live.operators["aten::add.Tensor"]
    assert operator.schema == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert "pointwise" in operator.tags
    assert live.keys[0] == "Undefined"
    assert "AutogradCPU" in live.aliases["Autograd"]
