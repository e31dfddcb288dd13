from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import msgspec.structs
import pytest
from click.testing import CliRunner

import abiscan
from abiscan.cli import main
from abiscan.gaps import Gap
from abiscan.registrations import (
    CustomClass,
    Library,
    LibraryKind,
    Lookup,
    Phase,
    RegisteredFallback,
    RegisteredKernel,
    RegisteredOperator,
    Registrations,
    Registry,
)
from abiscan.report import ops_text
from abiscan.results.operators import ExtensionOperators
from abiscan.results.selection import Selection
from tests.schemas import validate

SAMPLES = Path(__file__).resolve().parents[3] / "sample_binaries"
LOADS = str(SAMPLES / "loads" / "loads.so")
WHEEL = str(SAMPLES / "wheels" / "abiscan_sample-1.0-py3-none-linux_x86_64.whl")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["ops", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_one_library_is_one_document() -> None:
    document = json.loads(run(LOADS, "--format", "json"))
    validate(document, "ops")
    assert document["path"] == "loads.so"
    (operator,) = document["operators"]
    assert operator["name"] == "abiscan_loads::double_it"
    assert operator["schema"] == "abiscan_loads::double_it(Tensor x) -> Tensor"
    (kernel,) = document["kernels"]
    assert kernel["signature"] == "at::Tensor (at::Tensor const&)"
    assert kernel["inferred_schema"] == "(Tensor _0) -> Tensor _0"
    assert (kernel["dispatch_key"], kernel["boxed"], kernel["phase"]) == ("CPU", False, "static-init")
    assert kernel["file"].endswith("loads.cpp")


def test_colours_unless_the_user_wants_none() -> None:
    """https://no-color.org: any value but an empty one."""
    for no_color, is_coloured in (("1", False), ("", True)):
        printed = CliRunner().invoke(main, ["ops", LOADS], color=True, env={"NO_COLOR": no_color}).output
        assert ("\x1b[" in printed) is is_coloured


def test_a_wheel_is_a_list_of_documents() -> None:
    document = json.loads(run(WHEEL, "--format", "json"))
    validate(document, "ops")
    assert document["target"] == WHEEL
    assert [result["path"] for result in document["results"]] == ["abiscan_sample/_C.so"]


@pytest.mark.parametrize("missing", ["version", "operators", "gaps"])
def test_the_schema_asks_for_every_part(missing: str) -> None:
    document = json.loads(run(LOADS, "--format", "json"))
    del document[missing]
    with pytest.raises(jsonschema.ValidationError):
        validate(document, "ops")


def test_operators_are_selected_by_name_and_namespace() -> None:
    conflicts = str(SAMPLES / "registration_conflicts" / "impl_without_def.so")
    everything = json.loads(run(conflicts, "--format", "json"))
    namespace, _, name = everything["kernels"][0]["operator"].rpartition("::")
    for words in (("--operator", name), ("--namespace", namespace)):
        document = json.loads(run(conflicts, *words, "--format", "json"))
        validate(document, "ops")
        assert document["kernels"] == everything["kernels"]
        assert bool(document["libraries"]) == ("--namespace" in words)
        assert document["gaps"] == everything["gaps"]
    nothing = json.loads(run(conflicts, "--operator", "absent", "--format", "json"))
    assert [nothing[part] for part in ("libraries", "operators", "kernels", "lookups")] == [[], [], [], []]


def test_operators_of_a_torch_are_selected() -> None:
    lines = run("--torch", "2.6.0", "--operator", "aten::add.Tensor").splitlines()
    assert lines[1] == "operator aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    assert {line.split()[1] for line in lines[2:]} == {"aten::add.Tensor"}
    document = json.loads(run("--torch", "2.6.0", "--namespace", "mkldnn", "--format", "json"))
    assert {operator["name"].partition("::")[0] for operator in document["operators"]} == {"mkldnn"}
    versions = json.loads(
        run("--torch", "2.6.0", "--operator", "aten::add.Tensor", "--api-version", "--format", "json")
    )
    assert list(versions["api_versions"]) == ["aten::add.Tensor"]
    assert "cannot be combined" in run(LOADS, "--api-version", "--operator", "add", code=2)


def test_an_operator_that_is_looked_up_in_several_places_has_one_line() -> None:
    inventory = abiscan.operators(LOADS).inventories[0]
    lookups = [Lookup(operator=f"a::{name}", function="f", address=number) for number, name in enumerate("bbbc")]
    registered = msgspec.structs.replace(inventory.registrations, lookups=tuple(lookups))
    inventory = msgspec.structs.replace(inventory, registrations=registered)
    operators = ExtensionOperators(target=LOADS, inventories=(inventory,), single=True)
    text = ops_text.render_operators(operators, lambda text, **_: str(text), verbose=False)
    assert [line for line in text.splitlines() if line.startswith("lookup")] == [
        "lookup a::b  (3 places)",
        "lookup a::c",
    ]


def test_each_kind_of_registration_has_its_words() -> None:
    at_init: dict[str, Any] = {"phase": Phase.STATIC_INIT, "order": 0}
    library = Library(kind=LibraryKind.IMPL, namespace=None, dispatch_key=49, file="a.cpp", line=3, **at_init)
    inside: dict[str, Any] = {"library": library, **at_init}
    gap = Gap(
        stage="emulation", reason="cut", address=0x40, symbol="f", called="_Z1gv", lost=(("class", 2), ("kernel", 1))
    )
    registered = Registrations(
        in_order=(
            library,
            # The numbers of tags and keys are those of torch 2.13.0.
            RegisteredOperator(name="a::f", schema="a::f(Tensor x) -> Tensor", inferred=False, tags=(0, 16), **inside),
            RegisteredKernel(operator="a::f", dispatch_key=49, boxed=True, **inside),
            RegisteredKernel(operator="a::f", dispatch_key=None, fallthrough=True, **inside),
            RegisteredFallback(dispatch_key=61, fallthrough=True, **inside),
            RegisteredFallback(dispatch_key=None, **{**inside, "phase": Phase.MODULE_INIT}),
            CustomClass(name="a.B", methods=("one",), **at_init),
            Registry(what="allocator", key=7, **at_init),
            Registry(what="hook", key=None, **at_init),
        ),
        gaps=(gap,),
    )
    inventory = msgspec.structs.replace(abiscan.operators(LOADS).inventories[0], registrations=registered)
    operators = ExtensionOperators(target=LOADS, inventories=(inventory,), single=True)
    short, long = (
        ops_text.render_operators(operators, lambda text, **_: str(text), verbose=verbose).splitlines()
        for verbose in (False, True)
    )
    assert short[0].startswith(f"{LOADS}: 1 operator, 2 kernels, 2 fallbacks, 1 class, 1 gap; built for torch ")
    assert short[1:] == [
        "library impl _ CPU",
        "operator a::f(Tensor x) -> Tensor [core, pointwise]",
        "kernel a::f CPU boxed",
        "kernel a::f (no key) fallthrough",
        "fallback PrivateUse1 fallthrough",
        "fallback (no key)  (module-init)",
        "class a.B 1 method",
        "registry allocator 7",
        "registry hook",
        "gap[emulation]: cut at 0x40 near f",
    ]
    assert [line for line in long if line not in short] == [
        *["    a.cpp:3"] * 6,
        "    called: g()",
        "    lost: 2 classes, 1 kernel",
    ]
    # What is selected are operators: fallbacks, classes and entries of registries have no name of one.
    selected = operators.only(Selection(patterns=("f",), namespaces=()))
    words = ops_text.render_operators(selected, lambda text, **_: str(text), verbose=False).splitlines()[1:]
    assert [line.partition(" ")[0] for line in words] == ["operator", "kernel", "kernel", "gap[emulation]:"]


def test_a_folder_of_wheels_is_no_single_target(tmp_path: Path) -> None:
    shutil.copy(WHEEL, tmp_path)
    assert "contains no shared object, but 1 wheel (pass a wheel)" in run(str(tmp_path), code=2)


def test_text_has_a_line_for_each_registration() -> None:
    lines = run(LOADS).splitlines()
    assert lines[0].startswith(f"{LOADS}: 1 operator, 1 kernel, 0 fallbacks, 0 classes, 0 gaps; built for torch ")
    assert "operator abiscan_loads::double_it(Tensor x) -> Tensor" in lines
    assert "kernel abiscan_loads::double_it CPU" in lines


def test_verbose_text_has_the_signatures() -> None:
    assert "    at::Tensor (at::Tensor const&)" in run(LOADS, "-v").splitlines()


def test_output_goes_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "ops.json"
    assert run(LOADS, "--format", "json", "--output", str(file)) == ""
    assert json.loads(file.read_text("utf-8"))["version"] == 1


def test_what_cannot_be_read_is_one_line_and_exits_with_2(tmp_path: Path) -> None:
    file = tmp_path / "broken.so"
    file.write_bytes(b"\x7fELF")
    output = run(str(file), code=2)
    assert output.splitlines() == [f"abiscan: {file}: truncated inside the ELF header (download it again)"]


@pytest.mark.parametrize("arguments", [(), (LOADS, "--torch", "."), (LOADS, "--live")])
def test_it_is_asked_of_one_thing(arguments: tuple[str, ...]) -> None:
    assert "pass exactly one of TARGET, --torch SPEC and --live" in run(*arguments, code=2)


def test_an_interpreter_is_for_a_running_torch() -> None:
    assert "--python requires --live" in run(LOADS, "--python", "python3", code=2)


def test_a_python_that_cannot_be_run_is_named() -> None:
    named, problem, _ = run("--live", "--python", "/bin/false", code=2).split("\n")
    assert named == "abiscan: environment /bin/false (--python)"
    assert problem.startswith("abiscan: /bin/false: cannot be run as a Python")


@pytest.mark.slow
def test_a_release_number_has_operators() -> None:
    document = json.loads(run("--torch", "2.6.0", "--format", "json"))
    validate(document, "ops")
    assert document["built_for"] == ["2.6.0"]
    operators = {operator["name"]: operator["schema"] for operator in document["operators"]}
    assert operators["aten::relu"] == "aten::relu(Tensor self) -> Tensor"
    assert {"operator": "aten::relu", "dispatch_key": "CPU"}.items() <= next(
        kernel
        for kernel in document["kernels"]
        if (kernel["operator"], kernel["dispatch_key"]) == ("aten::relu", "CPU")
    ).items()


@pytest.mark.slow
def test_the_machine_chooses_the_build() -> None:
    assert run("--torch", "2.6.0").startswith("torch 2.6.0+cu124: ")
    assert run("--torch", "2.6.0", "--machine", "aarch64").startswith("torch 2.6.0+cpu: ")
    assert run("--torch", "2.13.0+cu130").startswith("torch 2.13.0+cu130: ")


def test_each_operator_of_a_torch_has_an_api_version() -> None:
    first, *lines = run("--torch", "2.6.0", "--api-version").splitlines()
    assert first.startswith("torch 2.6.0+cu124: ")
    text = {name: version for version, name in (line.split(" ") for line in lines)}
    document = json.loads(run("--torch", "2.6.0", "--api-version", "--format", "json"))
    assert document["api_versions"] == text
    assert "aten::relu" in text


def test_whether_releases_changed_anything_for_an_extension() -> None:
    document = json.loads(run(LOADS, "--api-version", "--torch", ">=2.5,<2.6", "--torch", "2.13.0", "--format", "json"))
    assert [release["torch"] for release in document["releases"]] == ["2.5.0", "2.5.1", "2.13.0"]
    first, patch, _ = document["releases"]
    assert (first["version"], patch["changes"]) == (patch["version"], [])
    lines = run(LOADS, "--api-version", "--torch", ">=2.5,<2.6").splitlines()
    assert lines[1:] == [f"torch 2.5.0  {first['version']}", f"torch 2.5.1  {first['version']}  unchanged"]
    assert len(run(LOADS, "--api-version").splitlines()) == 1 + 46


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--torch", "2.6.0", "--torch", "2.7.0"), "pass exactly one of"),
        ((LOADS, "--torch", "2.6.0"), "pass exactly one of"),
        (("--torch", "2.99.0"), "not among the embedded releases"),
        ((LOADS, "--api-version", "--torch", ">=9"), "matches no embedded release"),
        ((LOADS, "--api-version", "--torch", "nowhere/torch"), "does not exist"),
    ],
)
def test_what_cannot_be_answered_exits_with_2(arguments: tuple[str, ...], problem: str) -> None:
    assert problem in run(*arguments, code=2)
