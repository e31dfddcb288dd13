"""The operators of a running torch, against those that its own binaries have."""

from __future__ import annotations

from collections import Counter

from abiscan.dispatch.operators import Kernel, Operators


def of_python(file: str | None) -> bool:
    return file is not None and (file.endswith(".py") or file == "/dev/null")


def rows(kernels: list[Kernel]) -> Counter[tuple[object, ...]]:
    return Counter((kernel.operator, kernel.key, kernel.file, kernel.line, kernel.schema) for kernel in kernels)


def test_what_cpp_registers_is_what_the_libraries_say(running: Operators, static: Operators) -> None:
    assert rows([kernel for kernel in running.kernels if not of_python(kernel.file)]) == rows(list(static.kernels))
    assert {name for name, operator in running.operators.items() if not of_python(operator.file)} == set(
        static.operators
    )
    assert {fallback.key for fallback in running.fallbacks} == {fallback.key for fallback in static.fallbacks}
    assert running.keys == static.keys
    assert running.aliases == static.aliases


def test_what_python_registers_is_there_too(running: Operators) -> None:
    # torch/_meta_registrations.py and torch/_decomp give Meta kernels, torch/_library and others operators.
    added = [kernel for kernel in running.kernels if of_python(kernel.file)]
    assert {"Meta"} <= {kernel.key for kernel in added}
    assert len(added) > 1_000


def test_a_well_known_operator(running: Operators) -> None:
    operator = running.operators["aten::add.Tensor"]
    assert operator.schema == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert "pointwise" in operator.tags
    assert running.keys[0] == "Undefined"
    assert "AutogradCPU" in running.aliases["Autograd"]
