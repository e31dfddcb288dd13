"""What a running torch answers, made into operators: the texts are those of torch 2.13.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from abiscan.dispatch.operators import Fallback, Kernel, Operator
from abiscan.errors import InputError
from abiscan.torches.from_python import read_operators

DUMP = """name: aten::matrix_power
schema: aten::matrix_power(Tensor self, int n) -> Tensor
debug: registered at torch/RegisterSchema.cpp:6
alias analysis kind: FROM_SCHEMA
Tracer: registered at torch/TraceType_2.cpp:7396 :: (Tensor _0, int _1) -> Tensor _0 [ boxed unboxed ]
Meta: registered at torch/_meta_registrations.py:54 :: (none) [ boxed ]
Meta (inactive): registered at torch/RegisterMeta_0.cpp:1106 :: (Tensor _0, int _1) -> Tensor _0 [ boxed unboxed ]
AutogradOther: fallthrough registered at x.cpp:3 :: (none) [ boxed ]
CPU: registered by RegisterOperators :: (none) [ boxed ]
CompositeImplicitAutograd[alias]: registered at torch/R.cpp:5608 :: (Tensor _0, int _1) -> Tensor _0 [ boxed unboxed ]
"""
UNDEFINED = "name: ns::only_kernels\nschema: (none)\nCPU: registered at k.cpp:2 :: (none) [ boxed fallthrough ]\n"
ANSWER: dict[str, Any] = {
    "dumps": {"aten::matrix_power": DUMP, "ns::only_kernels": UNDEFINED},
    "tags": {"aten::matrix_power": ["core", "pt2"], "ns::only_kernels": []},
    "keys": {"Undefined": 0, "CPU": 1},
    "aliases": {"Autograd": ["AutogradOther"]},
    "fallbacks": {
        "BackendSelect": "BackendSelect: fallthrough registered at core/BackendSelect.cpp:3 [backend fallback]",
        "Python": "Python: registered at core/PythonFallback.cpp:194 [backend fallback]",
        "Odd": "Odd: something else [backend fallback]",
    },
}
TYPE = "(Tensor _0, int _1) -> Tensor _0"


def interpreter(folder: Path, answer: str, status: int = 0) -> str:
    (folder / "answer.json").write_text(answer, "utf-8")
    script = folder / "python"
    script.write_text(f"#!/bin/sh\ncat {folder}/answer.json\nexit {status}\n", "utf-8")
    script.chmod(0o755)
    return str(script)


def test_what_torch_answers(tmp_path: Path) -> None:
    found = read_operators(interpreter(tmp_path, json.dumps(ANSWER)))
    schema = "aten::matrix_power(Tensor self, int n) -> Tensor"
    place = "torch/RegisterSchema.cpp"
    assert found.operators == {"aten::matrix_power": Operator("aten::matrix_power", schema, ("core", "pt2"), place, 6)}
    name = "aten::matrix_power"
    assert found.kernels == (  # the oldest first; a dump has the newest first
        Kernel(name, "CompositeImplicitAutograd", None, TYPE, False, "torch/R.cpp", 5608),
        Kernel(name, "CPU", None, None, False, None, None),
        Kernel(name, "AutogradOther", None, None, True, "x.cpp", 3),
        Kernel(name, "Meta", None, TYPE, False, "torch/RegisterMeta_0.cpp", 1106),
        Kernel(name, "Meta", None, None, False, "torch/_meta_registrations.py", 54),
        Kernel(name, "Tracer", None, TYPE, False, "torch/TraceType_2.cpp", 7396),
        Kernel("ns::only_kernels", "CPU", None, None, True, "k.cpp", 2),
    )
    assert found.fallbacks == (
        Fallback("BackendSelect", True, "core/BackendSelect.cpp", 3),
        Fallback("Python", False, "core/PythonFallback.cpp", 194),
        Fallback("Odd", False, None, None),
    )
    assert found.keys == {0: "Undefined", 1: "CPU"}
    assert found.aliases == {"Autograd": frozenset({"AutogradOther"})}


@pytest.mark.parametrize(("answer", "status"), [("{}", 1), ("no JSON", 0)])
def test_who_does_not_answer_is_no_torch(tmp_path: Path, answer: str, status: int) -> None:
    with pytest.raises(InputError, match="could not list the operators of its torch"):
        read_operators(interpreter(tmp_path, answer, status))
