"""The public API as a user of the package meets it: see docs/api.md."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import abiscan
from abiscan.inputs.session import Session
from tests.fakes import SAMPLES, python_of, torch_package

SAMPLE = SAMPLES / "undefined_symbol_signature" / "undefined_symbol_signature.so"
LOADS = SAMPLES / "loads" / "loads.so"


def test_every_public_name_is_there_and_comes_from_where_it_is_said_to() -> None:
    for name in abiscan.__all__:
        assert getattr(abiscan, name) is getattr(importlib.import_module(abiscan._HOMES[name]), name)
    assert set(abiscan.__all__) == set(abiscan._HOMES)
    assert set(abiscan.__all__) <= set(dir(abiscan))


def test_no_public_name_is_that_of_a_room() -> None:
    """Importing a room sets its name in the package, and would hide the function."""
    rooms = {module.name for module in pkgutil.iter_modules(abiscan.__path__)}
    assert rooms & set(abiscan.__all__) == set()


def test_every_public_function_and_type_is_documented() -> None:
    assert [name for name in abiscan.__all__ if name != "RULES" and not inspect.getdoc(getattr(abiscan, name))] == []


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'abiscan' has no attribute 'nothing'"):
        abiscan.__getattr__("nothing")


def test_importing_it_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import abiscan; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name for name in done.stdout.split() if not name.startswith("importlib")} <= {
        "abiscan",
        "__future__",
        "warnings",
    }


def test_targets_and_torches_are_words_or_paths(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    (by_path,) = abiscan.check([SAMPLE], package).results
    (by_word,) = abiscan.check(str(SAMPLE), str(package)).results
    assert by_path == by_word
    assert by_path.torch_build == "9.9.0+cpu"


def test_a_password_in_an_address_is_in_no_report() -> None:
    report = abiscan.check([LOADS, "http://user:secret@index.example/a.zip"], "2.13.0")
    assert [item.target for item in report.unchecked] == ["http://index.example/a.zip"]
    assert "secret" not in report.to_json()


def test_a_specifier_means_several_releases() -> None:
    report = abiscan.check(LOADS, ">=2.12,<2.14")
    assert [result.torch for result in report.results] == ["2.12.0", "2.12.1", "2.13.0"]


def test_what_takes_long_is_told_by_name(tmp_path: Path) -> None:
    steps: list[str] = []
    session = Session(folder=tmp_path, progress=steps.append)
    abiscan.check([SAMPLE, LOADS], "2.13.0", session=session)
    for number, path in enumerate((SAMPLE, LOADS), start=1):
        assert f"reading {path} ({number} of 2)" in steps
        assert f"{path} on torch 2.13.0+cpu ({number} of 2)" in steps


def test_only_the_rules_that_are_asked_for_run() -> None:
    (rule,) = (rule for rule in abiscan.RULES if rule.name == "missing-library")
    assert abiscan.check(SAMPLE, "2.13.0", rules=[rule]).results[0].findings == ()


def test_matrix() -> None:
    found = abiscan.matrix(LOADS, ["2.12.0", "2.13.0"])
    assert found.releases == ("2.12.0", "2.13.0", "2.13.0+cu130")
    assert json.loads(found.to_json())["results"][0]["path"] == "loads.so"


def test_operators() -> None:
    (inventory,) = abiscan.operators(LOADS).inventories
    assert [operator.name for operator in inventory.registrations.operators] == ["abiscan_loads::double_it"]


def test_torch_operators() -> None:
    found = abiscan.torch_operators("2.6.0", machine="aarch64")
    assert found.operators.operators["aten::tanh"].schema == "aten::tanh(Tensor self) -> Tensor"
    # All of them are in the dispatcher, with the schemas of native_functions.yaml.
    (tanh,) = (item for item in json.loads(found.to_json())["operators"] if item["name"] == "aten::tanh")
    assert (tanh["inferred"], tanh["jit_only"]) == (False, False)


def test_api_history() -> None:
    found = abiscan.api_history(LOADS, ["2.12.0", "2.13.0"])
    assert [release.torch for release in found.releases] == ["2.12.0", "2.13.0"]


def test_api_history_takes_a_path_as_a_torch(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    by_path, by_word = (abiscan.api_history(LOADS, torch).releases for torch in (package, [str(package)]))
    assert by_path == by_word
    assert len(by_path) == 1


def test_coverage() -> None:
    found = abiscan.coverage(SAMPLES / "coverage" / "backend.so", "2.13.0", backend="PrivateUse1")
    assert found.backend == "PrivateUse1"
    assert "aten::tanh.out" in {missing.operator for missing in found.coverage.missing}


@pytest.mark.slow
def test_diff() -> None:
    assert "aten::_grouped_mm" in abiscan.diff("2.7.0", "2.8.0").operators_added


def test_releases() -> None:
    found = abiscan.releases()
    assert found[0] == "1.4.0"
    assert {"1.5.0", "2.6.0", "2.13.0"} <= set(found)


@pytest.mark.parametrize(
    "call",
    [
        lambda: abiscan.check("absent.so", "2.13.0"),
        lambda: abiscan.check(LOADS, "0.0.1"),
        lambda: abiscan.matrix(LOADS, "absent/torch"),
        lambda: abiscan.operators(__file__),
        lambda: abiscan.coverage(LOADS, "2.13.0", backend="NoSuchKey"),
        lambda: abiscan.diff("2.13.0", "absent"),
        lambda: abiscan.check("", "2.13.0"),
        lambda: abiscan.check(LOADS, ""),
        lambda: abiscan.check("x" * 5000, "2.13.0"),
        lambda: abiscan.check(Path("x" * 5000), "2.13.0"),
        lambda: abiscan.check(LOADS, "x" * 5000),
        lambda: abiscan.torch_operators("2.6.0", machine="arm64"),
        lambda: abiscan.diff("2.6.0", "2.7.0", machine=""),
        lambda: abiscan.coverage(LOADS, "2.13.0", workload="a\0b"),
        lambda: abiscan.coverage(LOADS, "2.13.0", workload=Path("a\0b")),
        lambda: abiscan.api_history(LOADS, Path("absent/torch")),
    ],
)
def test_bad_input_is_an_error_of_abiscan(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(abiscan.AbiscanError):
        call()


def test_a_report_prints_as_verdicts() -> None:
    report = abiscan.check([SAMPLE, LOADS], "2.13.0")
    symbol = report.results[0].undefined_symbols[0]
    error = f"undefined_symbol_signature.so: undefined symbol: {symbol}"
    assert str(report).splitlines() == [
        f"undefined_symbol_signature.so: fails on torch 2.13.0+cpu - {error}",
        "loads.so: loads on torch 2.13.0+cpu",
    ]


@pytest.mark.parametrize("target", [None, 1, b"loads.so", [None], [b"loads.so"]])
def test_a_target_of_another_type_is_named(target: object) -> None:
    with pytest.raises(TypeError, match=r"a target is a string or a path, not (NoneType|int|bytes)"):
        abiscan.check(target, "2.13.0")  # type: ignore[arg-type]


def test_one_target_is_not_several() -> None:
    with pytest.raises(TypeError, match="a target is a string or a path, not list"):
        abiscan.operators([LOADS, LOADS])  # type: ignore[arg-type]


@pytest.mark.parametrize("torch", [1, b"2.13.0", [["2.13.0"]]])
def test_a_torch_of_another_type_is_named(torch: object) -> None:
    with pytest.raises(TypeError, match=r"a torch is a string or a path, not (int|bytes|list)"):
        abiscan.check(LOADS, torch)  # type: ignore[arg-type]


def test_a_package_has_the_findings_of_the_libraries_that_it_uses() -> None:
    wheel = SAMPLES / "wheels" / "abiscan_sample-1.0-py3-none-linux_x86_64.whl"
    report = abiscan.check(wheel, "2.11.0")  # docs/packages.md: its library does not load there
    (package,) = report.packages
    used = [library.file for library in package.libraries if library.used is not False]
    assert package.findings == tuple(
        dict.fromkeys(finding for result in report.results if result.path in used for finding in result.findings)
    )
    assert package.findings


def test_the_exit_code_has_the_defaults_of_the_command() -> None:
    report = abiscan.check(SAMPLE, "2.13.0")
    assert report.exit_code() == report.exit_code(abiscan.Effect.CORRUPTS, strict=False) == 1
    assert abiscan.matrix(LOADS, ["2.13.0"]).exit_code() == 0


@pytest.mark.parametrize("result", [abiscan.check(SAMPLE, "2.13.0"), abiscan.matrix(LOADS, ["2.13.0"])])
def test_the_repr_of_a_report_is_one_line(result: object) -> None:
    assert len(repr(result).splitlines()) == 1
    assert len(repr(result)) < 80


@pytest.mark.slow
def test_the_repr_of_a_large_result_counts_its_parts() -> None:
    backend = str(SAMPLES / "coverage" / "backend.so")
    for result in (abiscan.diff("2.8.0", "2.9.1"), abiscan.coverage(backend, "2.13.0"), abiscan.stable(LOADS)):
        assert len(repr(result).splitlines()) == 1
        assert len(repr(result)) < 300 + len(backend)  # with all parts, a million
    assert ", 9 operators_added, " in repr(abiscan.diff("2.8.0", "2.9.1"))  # as docs/commands/diff.md has them


@pytest.mark.parametrize(("target", "torch", "answer"), [(LOADS, "2.13.0", True), (SAMPLE, "2.13.0", False)])
def test_whether_it_works(target: Path, torch: str, *, answer: bool) -> None:
    assert abiscan.works(target, torch) is answer


def test_what_is_unknown_is_none(tmp_path: Path) -> None:
    broken = tmp_path / "pkg"
    broken.mkdir()
    asks = "import torch\nif open('/proc/version').read():\n    raise ImportError\n"  # nobody knows what is in there
    (broken / "__init__.py").write_text(asks, encoding="utf-8")
    assert abiscan.works(broken, "2.13.0") is None


def test_doctor_is_a_function(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    diagnosis = abiscan.doctor(python=python_of(package.parent, tmp_path))
    assert (diagnosis.torch.version, diagnosis.ailments, diagnosis.exit_code) == ("9.9.0+cpu", (), 0)
