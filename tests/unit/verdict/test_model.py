"""The verdict on a saved model, with made-up models, on embedded releases."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click.testing
import pytest

import abiscan
from abiscan.cli import main
from abiscan.extension.examined import ExaminedTarget, examine
from abiscan.inputs import packages
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source
from abiscan.models.namespaces import PACKAGES
from abiscan.results.check import Result
from abiscan.results.model import OperatorState
from abiscan.results.package import PackageResult
from abiscan.torches.torch import Torch
from abiscan.verdict.model_providers import list_brought
from tests.fakes import SAMPLES
from tests.unit.models.archives import CODE, exported, flat, script, write

DETECTOR = SAMPLES / "models" / "detector.pt"
LOADS = SAMPLES / "loads" / "loads.so"


def verdict(path: Path, torch: str = "2.13.0", *beside: Path) -> PackageResult:
    report = abiscan.check([path, *beside], torch=torch)
    return next(package for package in report.packages if package.target == str(path))


def states(result: PackageResult) -> dict[str, str]:
    assert result.model is not None
    return {operator.name: operator.state.value for operator in result.model.operators}


def test_a_model_with_operators_of_torch_works(tmp_path: Path) -> None:
    result = verdict(script(tmp_path / "m.pt", "torch.add(x, 1, alpha=2)"))
    assert str(result) == "m.pt on torch 2.13.0+cpu: works"
    assert states(result) == {"aten::add": "ok"}


def test_the_operators_of_another_target_count(tmp_path: Path) -> None:
    model = script(tmp_path / "m.pt", "ops.abiscan_loads.double_it(x)")
    alone = verdict(model)
    assert alone.verdict is abiscan.PackageVerdict.IMPORT_FAILS
    assert alone.error is not None
    assert str(alone.error) == "RuntimeError: Unknown builtin op: abiscan_loads::double_it."
    together = verdict(model, "2.13.0", LOADS)
    assert together.verdict is abiscan.PackageVerdict.WORKS
    assert together.summary == "works, once loads.so is imported"


@pytest.mark.parametrize(
    ("beside", "whom"),
    [([LOADS], "neither torch 2.13.0+cpu nor loads.so has"), ([], "torch 2.13.0+cpu does not have")],
)
def test_who_lacks_an_operator(beside: list[Path], whom: str, tmp_path: Path) -> None:
    (finding,) = verdict(script(tmp_path / "m.pt", "ops.other.op(x)"), "2.13.0", *beside).own_findings
    assert finding.message == f"m.pt: it calls other::op, which {whom}"


def test_an_extension_that_does_not_load_brings_nothing(tmp_path: Path) -> None:
    model = script(tmp_path / "m.pt", "ops.abiscan_loads.double_it(x)")
    result = verdict(model, "1.13.1", LOADS)
    assert result.verdict is abiscan.PackageVerdict.IMPORT_FAILS
    (finding,) = result.own_findings
    assert finding.rule == "model-operator-missing"
    assert "this one says" in finding.fix


def test_a_call_that_the_extension_does_not_take_has_changed(tmp_path: Path) -> None:
    result = verdict(script(tmp_path / "m.pt", "ops.abiscan_loads.double_it(x, 1, 2)"), "2.13.0", LOADS)
    assert states(result) == {"abiscan_loads::double_it": "changed"}
    assert [finding.rule for finding in result.own_findings] == ["model-operator-changed"]


def test_an_operator_that_came_later_is_missing_before(tmp_path: Path) -> None:
    model = script(tmp_path / "m.pt", "torch.rms_norm(x, [3])")  # new in torch 2.4
    assert verdict(model, "2.3.1").verdict is abiscan.PackageVerdict.IMPORT_FAILS
    assert verdict(model, "2.4.0").verdict is abiscan.PackageVerdict.WORKS


def test_an_argument_that_came_later_has_changed_before(tmp_path: Path) -> None:
    model = script(tmp_path / "m.pt", "torch.div(x, x, rounding_mode=None)", version="4\n")  # from torch 1.8 on
    assert states(verdict(model, "2.13.0")) == {"aten::div": "ok"}
    newer = script(tmp_path / "n.pt", "torch.scaled_dot_product_attention(x, x, x, enable_gqa=True)")  # from 2.5 on
    assert states(verdict(newer, "2.4.1")) == {"aten::scaled_dot_product_attention": "changed"}
    assert states(verdict(newer, "2.5.1")) == {"aten::scaled_dot_product_attention": "ok"}


@pytest.mark.parametrize(("version", "state"), [("3\n", "ok"), ("7\n", "ok"), ("10\n", "changed")])
def test_torch_replaces_old_operators_in_old_archives_alone(version: str, state: str, tmp_path: Path) -> None:
    # torch 2.13.0 loads an archive with this call if it has version 3 or 7; of 10, it says "Arguments for call are not
    # valid": until 1.10, ``steps`` had a default.
    model = script(tmp_path / "m.pt", "torch.linspace(0, 1)", version=version)
    assert states(verdict(model, "2.13.0")) == {"aten::linspace": state}


def test_what_only_torchscript_has_is_there(tmp_path: Path) -> None:
    result = verdict(script(tmp_path / "m.pt", 'torch.format("{}", torch.len(x), ops.prim.data(x))'))
    assert set(states(result).values()) == {"ok"}
    assert result.verdict is abiscan.PackageVerdict.WORKS


def test_an_overload_that_only_earlier_dispatchers_have_is_one_of_torchscript(tmp_path: Path) -> None:
    # ``str.index``, as torch 2.13.0 writes and loads it; earlier dispatchers have it as well.
    call = 'torch.index("abc", "b", 0, 2)'
    assert states(verdict(script(tmp_path / "m.pt", call), "2.13.0")) == {"aten::index": "ok"}


@pytest.mark.parametrize("torch", ["2.2.2", "2.9.1", "2.13.0"])
def test_what_was_an_operator_of_torchscript_before_is_there(tmp_path: Path, torch: str) -> None:
    # Models with these were really loaded on these releases; only the newest dispatchers have them.
    result = verdict(script(tmp_path / "m.pt", "torch.add(torch.dim(x), torch.numel(x))"), torch)
    assert result.verdict is abiscan.PackageVerdict.WORKS


def test_an_operator_that_no_release_knows_leaves_it_open(tmp_path: Path) -> None:
    result = verdict(script(tmp_path / "m.pt", "torch.abiscan_never(x)"))
    assert states(result) == {"aten::abiscan_never": "unknown"}
    assert result.verdict is abiscan.PackageVerdict.UNKNOWN
    assert any("aten::abiscan_never" in gap for gap in result.gaps)


@pytest.mark.parametrize(("torch", "exception"), [("2.8.0", "KeyError"), ("2.9.0", "RuntimeError")])
def test_an_operator_that_an_exported_program_lacks(tmp_path: Path, torch: str, exception: str) -> None:
    result = verdict(exported(tmp_path / "m.pt2", "torch.ops.ns.op.default"), torch)
    assert result.error is not None
    assert (result.error.exception, result.model and result.model.fails_at) == (exception, "torch.export.load")


def test_the_overload_of_an_exported_program_counts(tmp_path: Path) -> None:
    result = verdict(exported(tmp_path / "m.pt2", "torch.ops.aten.relu.default", "torch.ops.aten.relu.Never"))
    assert states(result) == {"aten::relu": "ok", "aten::relu.Never": "missing"}


def test_a_flat_program_names_the_node(tmp_path: Path) -> None:
    result = verdict(flat(tmp_path / "m.pt2", "torch.ops.ns.op.default"), "2.7.1")
    assert result.error is not None
    assert result.error.exception == "SerializeError"
    assert result.error.message == "Failed deserializing node Node(target='torch.ops.ns.op.default', ?"


def test_custom_classes_of_torch_and_of_nobody(tmp_path: Path) -> None:
    for name, expected in (("quantized.LinearPackedParamsBase", "works"), ("nobody.Thing", "import-fails")):
        source = CODE.format(expression="x").replace("x: Tensor", f"x: __torch__.torch.classes.{name}")
        result = verdict(script(tmp_path / f"{name}.pt", **{"code/__torch__.py": source}))
        assert result.verdict.value == expected


def test_a_pickle_before_2_6_may_need_what_nobody_knows(tmp_path: Path) -> None:
    pickle = b"\x80\x02c__main__\nNet\n)\x81."
    model = write(tmp_path / "m.pt", {"data.pkl": pickle, "version": "3\n"})
    assert verdict(model, "2.5.1").verdict is abiscan.PackageVerdict.UNKNOWN
    assert verdict(model, "2.6.0").verdict is abiscan.PackageVerdict.IMPORT_FAILS


def test_a_package_for_another_gpu(tmp_path: Path) -> None:
    metadata = json.dumps({"AOTI_DEVICE_KEY": "cuda", "AOTI_COMPUTE_CAPABILITY": "86"})
    folder = "data/aotinductor/model/"
    files = {
        f"{folder}m.cpp": "",
        f"{folder}m_metadata.json": metadata,
        "archive_format": "pt2",
        "archive_version": "0",
    }
    model = write(tmp_path / "m.pt2", files)
    for gpu, rules in (("8.6", []), ("8.9", []), ("9.0", ["no-kernel-image"]), ("8.0", ["no-kernel-image"])):
        report = abiscan.check([model], torch="2.13.0+cu130", gpus=[gpu])
        assert [finding.rule for finding in report.packages[0].own_findings] == rules
    on_cpu = verdict(model, "2.13.0+cpu")
    assert on_cpu.verdict is abiscan.PackageVerdict.IMPORT_FAILS
    assert [finding.rule for finding in on_cpu.own_findings] == ["model-not-readable"]


@pytest.mark.parametrize("here", [True, False])
def test_what_is_installed_beside_the_torch_brings_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, here: bool
) -> None:
    asked: list[tuple[str, list[str]]] = []

    def find(name: str, folders: list[str]) -> Path:
        asked.append((name, folders))
        return LOADS

    monkeypatch.setattr(packages, "find_installed", find)
    monkeypatch.setitem(PACKAGES, "abiscan_loads", "abiscan-loads")
    torch = SimpleNamespace(here=here, package="/env/torch")

    def examine_loads(source: Source) -> tuple[ExaminedTarget, tuple[Result, ...], tuple[str, ...]]:
        assert source == LOADS
        return examine(LOADS, Session(folder=tmp_path)), (), ()

    namespaces = frozenset(("abiscan_loads", "of_nobody"))
    brought = list_brought((), cast("Torch", torch), examine_loads, namespaces)
    assert asked == ([("abiscan-loads", ["/env"])] if here else [])
    assert ["abiscan_loads::double_it" in each.operators for each in brought] == ([True] if here else [])


def run(*words: object) -> tuple[int, str]:
    done = click.testing.CliRunner().invoke(main, list(map(str, words)))
    return done.exit_code, done.output


def test_exit_codes(tmp_path: Path) -> None:
    good = script(tmp_path / "good.pt")
    assert run("check", good, "--torch", "2.13.0")[0] == 0
    assert run("check", DETECTOR, "--torch", "2.13.0")[0] == 1
    damaged = tmp_path / "damaged.pt"
    damaged.write_bytes(good.read_bytes()[:-9])
    code, said = run("check", damaged, "--torch", "2.13.0")
    assert (code, "ends early or is damaged" in said) == (2, True)
    assert run("check", script(tmp_path / "open.pt", "torch.abiscan_never(x)"), "--torch", "2.13.0")[0] == 3


def test_sarif_has_the_rule_and_the_result() -> None:
    _, text = run("check", DETECTOR, "--torch", "2.13.0", "--format", "sarif")
    (log,) = json.loads(text)["runs"]
    rules = [rule["id"] for rule in log["tool"]["driver"]["rules"]]
    results: list[dict[str, Any]] = log["results"]
    assert [(result["ruleId"], result["level"]) for result in results] == [
        ("package", "error"),
        ("model-operator-missing", "error"),
    ]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in results)
    assert "Unknown builtin op: torchvision::nms" in results[0]["message"]["text"]


def test_ops_lists_what_a_model_needs() -> None:
    needed = abiscan.model_operators(DETECTOR)
    assert needed.packages == ("torchvision",)
    assert [operator.name for operator in needed.operators if operator.brought_by] == [
        "torchvision::nms",
        "torchvision::roi_align",
    ]
    code, said = run("ops", DETECTOR, "--namespace", "torchvision")
    assert code == 0
    assert "aten::cat" not in said
    with pytest.raises(abiscan.InputError, match="is not a saved model"):
        abiscan.model_operators(LOADS)


def test_the_states_have_the_names_of_the_document() -> None:
    assert [state.value for state in OperatorState] == ["ok", "missing", "changed", "unknown"]
