"""What is said about a backend, against the running torch with that backend loaded: every operator is really called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from abiscan import rules
from abiscan.inputs.session import Session
from abiscan.pipelines.check import check_targets
from abiscan.pipelines.coverage import backend_report
from abiscan.results.coverage import BackendReport
from abiscan.torches.torch import TorchOf
from abiscan.verdict.torch_set import CheckRequest
from tests import live_torch

SAMPLES = Path(__file__).resolve().parents[2] / "sample_binaries" / "coverage"
BUILT_FOR = "2.13.0"
OF_PYTHON_OR_WITHOUT_TENSORS = {
    "_c10d_functional_autograd",
    "_native",
    "debugprims",
    "export",
    "inductor_prims",
    "static_runtime",
    "symm_mem",
}
OTHERWISE_IN_PYTHON = {"aten::linalg_lu_solve.out"}  # torch/_refs registers a kernel for MPS, so MPS is in the list
pytestmark = pytest.mark.skipif(
    live_torch.version() != BUILT_FOR, reason=f"needs torch {BUILT_FOR} in this interpreter"
)

# Loads a sample, and calls operators with arguments made from their schemas: tensors of the backend, and its device.
CALL = """
import json, sys, torch
torch.ops.load_library(sys.argv[1])
given = json.load(sys.stdin)
DEVICE = torch.device("privateuseone")
t = torch.ops.aten.empty.memory_format([2, 2], device=DEVICE)
VALUES = {"Tensor": t, "List[Tensor]": [t], "List[Optional[Tensor]]": [t], "int": 1, "float": 1.0, "bool": False,
          "number": 1, "str": "x", "Device": DEVICE, "Storage": t.untyped_storage(), "complex": 1j}

def value(argument):
    text = str(argument.type)
    if argument.name == "device":
        return DEVICE
    if text.startswith("Optional"):
        return None
    if argument.has_default_value():
        return argument.default_value
    if text.startswith("List[") and text not in VALUES:
        return [VALUES.get(text[5:-1], 1)] * (argument.N or 1)
    return VALUES.get(text, 1)

said = {}
with torch.inference_mode():
    for name in given:
        base, _, overload = name.partition(".")
        namespace, _, word = base.partition("::")
        op = getattr(getattr(getattr(torch.ops, namespace), word), overload or "default")
        if "__torch__" in str(op._schema):
            continue  # takes an object of a class, which a tensor cannot stand in for
        positional = [value(argument) for argument in op._schema.arguments if not argument.kwarg_only]
        named = {argument.name: value(argument) for argument in op._schema.arguments if argument.kwarg_only}
        try:
            op(*positional, **named)
            said[name] = None
        except Exception as error:
            said[name] = str(error)
has = torch._C._dispatch_has_computed_kernel_for_dispatch_key
json.dump({
    "has": {name: has(name, "PrivateUse1") for name in torch._C._dispatch_get_all_op_names()},
    "said": said,
}, sys.stdout)
"""


def report(name: str, folder: Path, **options: Any) -> BackendReport:
    return backend_report(SAMPLES / name, TorchOf(None), Session(folder=folder), **options)


def ask(name: str, call: list[str]) -> Any:
    done = live_torch.run(CALL, SAMPLES / name, input=json.dumps(call), check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests here: reading the operators of a torch takes seconds."""
    return tmp_path_factory.mktemp("operators")


def test_every_operator_that_is_reported_raises_what_is_said_and_no_other_does(folder: Path) -> None:
    found = report("backend.so", folder)
    assert (found.backend, found.kernels, found.has_fallback) == ("PrivateUse1", 5, False)
    missing = {each.operator: each for each in found.coverage.missing}
    callers = {caller: each for each in missing.values() for caller in each.reached_from}
    answer = ask("backend.so", [*missing, *callers])
    has, said = answer["has"], answer["said"]

    assert {name for name in missing if has[name]} == set()
    # Without a kernel and not reported: what Python defines, and operators to which no tensor and no device is given.
    silent = {name for name, found in has.items() if not found and name not in missing}
    assert {name.partition("::")[0] for name in silent} <= OF_PYTHON_OR_WITHOUT_TENSORS

    texts = {name: text.partition("\n\n")[0] for name, text in said.items() if text is not None}
    wrong = {name: texts.get(name) for name in missing if name in said and texts.get(name) != missing[name].message}
    assert {name for name in wrong if missing[name].exact} <= OTHERWISE_IN_PYTHON
    assert len(said) > 1000

    # What the composite operators say is of the one that they call, unless they refuse the arguments before.
    assert {name for name in callers if said[name] is None} == set()
    assert sum(texts[name] == each.message for name, each in callers.items()) > 280


def test_a_fallback_serves_everything(folder: Path) -> None:
    found = report("backend_with_fallback.so", folder)
    assert found.has_fallback
    assert found.coverage.missing == ()
    answer = ask("backend_with_fallback.so", [])
    assert {name for name, has in answer["has"].items() if not has} == set()


GRADIENT = """
import sys, torch
torch.ops.load_library(sys.argv[1])
table = dict(line.split(": ", 1) for line in torch._C._dispatch_dump_table("aten::softmax.int").splitlines())
print("[math kernel]" in table["AutogradXPU"], "[math kernel]" in table["AutogradPrivateUse1"])
"""


def test_the_gradient_that_a_kernel_takes_away(folder: Path) -> None:
    rule = rules.by_name("lost-autograd")
    assert rule is not None
    request = CheckRequest(targets=(SAMPLES / "backend.so",), torches=(TorchOf(None),), rules=(rule,))
    checked = check_targets(request, Session(folder=folder))
    (finding,) = checked.results[0].findings
    assert [each.subject for each in finding.evidence] == ["aten::softmax.int"]
    done = live_torch.run(GRADIENT, SAMPLES / "backend.so", check=True)
    assert done.stdout.split() == ["True", "False"]
