"""Loads on older processors, as user-mode emulation recorded them (``tools/record_cpu_loads.py``), and as predicted."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Final

import pytest

import abiscan
from abiscan.binary.elf import Machine
from abiscan.cpu.instructions import features_of
from abiscan.cpu.processors import cpu, level_of, names
from abiscan.cpu.torches import torch_needs
from abiscan.errors import InputError
from abiscan.findings import Effect
from abiscan.results.check import Result
from abiscan.results.package import PackageVerdict
from abiscan.results.survey import SurveyEntry
from abiscan.results.verdict import Verdict
from tests.fakes import wheel
from tests.oracle.cpu_loads import DATA, RECORDED_LOADS, SIGILL, extract_libraries

LIBRARIES: Final = sorted({line["library"] for line in RECORDED_LOADS})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return extract_libraries(tmp_path_factory.mktemp("cpu"))


def result_on(library: Path, *cpus: str) -> Result:
    report = abiscan.check(library, "2.13.0", cpus=cpus)
    assert len(report.results) == 1
    return report.results[0]


@pytest.mark.parametrize("library", LIBRARIES)
def test_loads_as_recorded(folder: Path, library: str) -> None:
    real = {line["cpu"]: line.get("signal") == SIGILL for line in RECORDED_LOADS if line["library"] == library}
    assert len(real) == 4
    predicted = {}
    for name in real:
        result = result_on(folder / library, name)
        assert result.verdict is not Verdict.UNKNOWN, result.gaps
        error = result.predicted_error
        predicted[name] = error is not None and error.signal == SIGILL
        assert predicted[name] == any(finding.effect is Effect.ABORTS for finding in result.findings)
    assert predicted == real


def test_of_several_processors_the_one_that_is_too_old_counts(folder: Path) -> None:
    result = result_on(folder / "needs_avx2.so", "haswell", "SandyBridge", "nehalem")
    assert result.verdict is Verdict.FAILS
    assert [finding.message.split("; ")[-1] for finding in result.findings if finding.effect is Effect.ABORTS] == [
        "SandyBridge has no avx2",
        "nehalem has no avx, avx2",
    ]
    assert result.cpu is not None
    assert result.cpu.features == ("avx", "avx2")
    assert result.cpu.summary == "x86-64-v3"


def test_needs_are_said_without_a_processor(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from abiscan.cli import main

    with pytest.raises(SystemExit) as left:
        main(["check", str(folder / "needs_avx2.so"), "--torch", "2.13.0", "--cpu", "x86-64-v4"])
    assert left.value.code == 0
    assert "needs x86-64-v3 to load" in capsys.readouterr().out


def test_a_processor_too_old_for_torch_is_not_the_fault_of_the_extension(folder: Path) -> None:
    result = result_on(folder / "plain.so", "nehalem")  # recorded: torch 2.13.0 cannot be imported there
    assert result.verdict is Verdict.LOADS
    assert [(finding.effect, finding.message) for finding in result.findings] == [
        (Effect.NOTE, "torch 2.13.0+cpu itself executes avx when it is imported; nehalem has no avx")
    ]
    assert not result_on(folder / "plain.so", "sandybridge").findings
    assert torch_needs(Machine.X86_64, (2, 12)) == torch_needs(Machine.AARCH64, (2, 13)) == ()


CALLS: Final = [json.loads(line) for line in (DATA / "calls.jsonl").read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("operators")
    with zipfile.ZipFile(DATA / "operators.zip") as archive:
        archive.extractall(place)
    return place / "operators.so"


@pytest.mark.parametrize("name", sorted({call["cpu"] for call in CALLS}))
def test_operators_fail_as_recorded(operators: Path, name: str) -> None:
    real = {call["operator"] for call in CALLS if call["cpu"] == name and call["signal"] == SIGILL}
    result = result_on(operators, name)
    assert result.verdict is Verdict.LOADS
    findings = [finding for finding in result.findings if finding.rule == "cpu-too-old"]
    assert {evidence.subject for finding in findings for evidence in finding.evidence} == real
    assert {finding.effect for finding in findings} == ({Effect.CALL_FAILS} if real else set())


@pytest.mark.parametrize("limit", ["_MOST_STEPS", "_MOST_ASKING"])
def test_operators_that_are_not_read_to_the_end_are_a_gap(
    operators: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(f"abiscan.emulation.cpu_reach.{limit}", 3)
    result = result_on(operators, "sandybridge")
    assert result.verdict is Verdict.LOADS
    assert [
        gap.decides for gap in result.gaps if gap.stage == "cpu" and gap.reason.startswith("not all code that")
    ] == [False]
    assert "cpu" not in {gap.stage for gap in result_on(operators, "x86-64-v4").gaps}


def test_operators_behind_a_question(operators: Path) -> None:
    document = json.loads(abiscan.operators(operators).to_json())["cpu"]["operators"]
    asked = {name: facts["asks"] for name, facts in document.items() if facts["asks"]}
    assert asked["cpu_uses::asks_avx512"] == ["avx", "avx512f"]
    assert asked["cpu_uses::uses_then_asks"] == ["avx512f"]
    assert document["cpu_uses::uses_then_asks"]["needs"] == ["avx", "avx2"]
    assert {name for name in document if "asks_" in name} == asked.keys() - {"cpu_uses::uses_then_asks"}


def test_a_matrix_says_what_its_rows_need(folder: Path) -> None:
    document = json.loads(
        abiscan.matrix([folder / "avx2.so", folder / "plain.so"], "2.12.0", cpus=["haswell"]).to_json()
    )
    assert [row["cpu"] for row in document["results"]] == ["x86-64-v3", None]


def test_a_survey_says_what_targets_need() -> None:
    needs = [{"load": ["avx2"], "level": "x86-64-v3"}, {"load": ["amx-tile"], "level": "x86-64"}, None]
    line: dict[str, object] = {
        "version": 1,
        "tool": {"name": "abiscan", "version": abiscan.__version__},
        **dict.fromkeys(("target", "torch", "verdict"), "some"),
        **dict.fromkeys(("sha256", "package", "unchecked")),
        "exit_code": 0,
        "results": [{"path": "a.so", "predicted_error": None, "findings": [], "cpu": each} for each in needs],
    }
    assert SurveyEntry.read(json.dumps(line)).cpu == "x86-64-v3 and amx-tile"
    assert SurveyEntry.read(json.dumps({**line, "results": []})).cpu is None


def test_an_unknown_processor_is_an_error(folder: Path) -> None:
    with pytest.raises(InputError, match="is not a processor that abiscan knows"):
        abiscan.check(folder / "plain.so", "2.13.0", cpus=["haswel"])


def test_a_question_guards_what_follows(folder: Path) -> None:
    result = result_on(folder / "avx512_guarded.so", "x86-64")
    assert (result.verdict, result.cpu.features if result.cpu else None) == (Verdict.LOADS, ())


@pytest.mark.parametrize(
    ("name", "has", "lacks"),
    [
        ("Nehalem", {"sse4.2", "popcnt"}, {"avx", "pclmul"}),
        ("SandyBridge", {"avx", "pclmul"}, {"avx2", "f16c"}),
        ("haswell", {"avx2", "fma", "bmi2", "movbe"}, {"adx", "avx512f"}),
        ("icelake-server", {"avx512vnni", "avx512vbmi", "gfni"}, {"avx512bf16", "amx-tile"}),
        ("zen2", {"avx2", "sha"}, {"avx512f", "vaes"}),
        ("zen4", {"avx512bf16", "avx512vnni"}, {"avx512fp16"}),
        ("neoverse-n1", {"lse", "dotprod"}, {"sve", "bf16"}),
        ("neoverse-v1", {"sve", "bf16", "i8mm"}, {"avx"}),
    ],
)
def test_models(name: str, has: set[str], lacks: set[str]) -> None:
    known = cpu(name)
    assert known is not None
    assert has <= known.features
    assert not lacks & known.features


MACROS: Final = {
    "bmi1": "BMI",
    "sahf": "LAHF_SAHF",
    "sse4.1": "SSE4_1",
    "sse4.2": "SSE4_2",
    "rdrnd": "RDRND",
    "cmpxchg16b": "",  # which GCC does not tell
}
GCC_DIFFERS: Final = {
    "btver1": {"xsave"},  # LLVM has it from btver2 on
    "sapphirerapids": {"avx512vp2intersect"},  # only in GCC before 13
}


@pytest.mark.skipif(shutil.which("gcc") is None or Machine.X86_64.value != platform.machine(), reason="needs gcc")
def test_models_of_x86_are_those_of_compilers() -> None:
    models = [known for name in names() if (known := cpu(name)) is not None and known.machine is Machine.X86_64]
    macros = {
        feature: f"__{MACROS.get(feature, feature.upper().replace('-', '_'))}__"
        for model in models
        for feature in model.features
    }
    compared = 0
    for model in models:
        command = ["gcc", f"-march={model.name}", "-dM", "-E", "-x", "c", "/dev/null"]
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        if listed.returncode:
            continue  # this GCC does not have it, or not by that name
        compared += 1
        defined = {line.split()[1] for line in listed.stdout.splitlines()}
        of_gcc = {feature for feature, macro in macros.items() if macro in defined}
        assert of_gcc - model.features == GCC_DIFFERS.get(model.name, set()) & of_gcc, model.name
        assert model.features - of_gcc <= {"cmpxchg16b", "aes"}, model.name
    assert compared > 20


def test_levels() -> None:
    assert level_of(()) == ("x86-64", ())
    assert level_of(("sse3",)) == ("x86-64-v2", ())
    assert level_of(("avx", "aes")) == ("x86-64-v3", ("aes",))
    assert level_of(("avx512vl", "avx512vnni")) == ("x86-64-v4", ("avx512vnni",))


@pytest.mark.parametrize(
    ("code", "features"),
    [  # as assemblers make them
        ("c5f877", ("avx",)),  # vzeroupper
        ("c5fdfec1", ("avx2",)),  # vpaddd ymm0, ymm0, ymm1
        ("c5f9fec1", ("avx",)),  # vpaddd xmm0, xmm0, xmm1
        ("62f17d48fec1", ("avx512f",)),  # vpaddd zmm0, zmm0, zmm1
        ("62f17d28fec1", ("avx512f", "avx512vl")),  # the same with ymm and EVEX
        ("62f17d48fcc1", ("avx512f", "avx512bw")),  # vpaddb zmm0, zmm0, zmm1
        ("62f27d4850c1", ("avx512f", "avx512vnni")),  # vpdpbusd zmm0, zmm0, zmm1
        ("c4e271b8c2", ("fma",)),  # vfmadd231ps xmm0, xmm1, xmm2
        ("c4e27913c1", ("f16c",)),  # vcvtph2ps xmm0, xmm1
        ("c4e2f8f2c0", ("bmi1",)),  # andn rax, rax, rax
        ("c4e2f9f7c0", ("bmi2",)),  # shlx rax, rax, rax
        ("f3480fb8c0", ("popcnt",)),  # popcnt rax, rax
        ("f3480fbdc0", ()),  # lzcnt rax, rax, which older processors execute
        ("660f3800c0", ("ssse3",)),  # pshufb xmm0, xmm0
        ("f20f38f0c0", ("sse4.2",)),  # crc32 eax, al
        ("660f6fc1", ()),  # movdqa xmm0, xmm1
        ("4889c3", ()),  # mov rbx, rax
    ],
)
def test_features_of_instructions(code: str, features: tuple[str, ...]) -> None:
    assert features_of(Machine.X86_64, bytes.fromhex(code) + bytes(8)) == features


@pytest.mark.parametrize(
    ("word", "features"),
    [
        (0xF8E00041, ("lse",)),  # ldaddal x0, x1, [x2]
        (0xC8A07C41, ("lse",)),  # cas x0, x1, [x2]
        (0x4E829420, ("dotprod",)),  # sdot v0.4s, v1.16b, v2.16b
        (0x4E82A420, ("i8mm",)),  # smmla v0.4s, v1.16b, v2.16b
        (0x6E42FC20, ("bf16",)),  # bfdot v0.4s, v1.8h, v2.8h
        (0x04A00000, ("sve",)),  # add z0.s, z0.s, z0.s
        (0x1EE24020, ()),  # fcvt s0, h1
        (0xC85FFC20, ()),  # ldaxr x0, [x1]
        (0x8B020020, ()),  # add x0, x1, x2
    ],
)
def test_features_of_instructions_of_aarch64(word: int, features: tuple[str, ...]) -> None:
    assert features_of(Machine.AARCH64, word.to_bytes(4, "little")) == features


CHOOSES: Final = """
import os
import torch

def has_avx2():
    with open("/proc/cpuinfo") as stream:
        return any(line.startswith("flags") and "avx2" in line.split() for line in stream)

name = "_fast.so" if has_avx2() is RIGHT else "_slow.so"
torch.ops.load_library(os.path.join(os.path.dirname(__file__), name))
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_what_python_loads_only_on_newer_processors_counts_only_there(tmp_path: Path) -> None:
    fast = '__attribute__((constructor)) static void f(void) { asm volatile("vpaddd %ymm0, %ymm0, %ymm0"); }'
    libraries = {}
    for name, text in {"libtorch_cpu": "int torch;", "_fast": fast, "_slow": "int slow;"}.items():
        needs = () if name == "libtorch_cpu" else ("-Wl,--no-as-needed", f"-L{tmp_path}", "-ltorch_cpu")
        command = ["gcc", "-x", "c", "-", "-shared", "-fPIC", "-o", tmp_path / f"{name}.so", *needs]
        subprocess.run(command, input=text, text=True, check=True)
        libraries[name] = (tmp_path / f"{name}.so").read_bytes()

    def verdict(right: bool, name: str) -> PackageVerdict:
        members = {
            "pkg/__init__.py": CHOOSES.replace("RIGHT", str(right)).encode(),
            **{f"pkg/{name}.so": libraries[name] for name in ("_fast", "_slow")},
            "pkg-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\nRequires-Dist: torch\n",
            "pkg-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n",
        }
        target = wheel(tmp_path / "pkg-1.0-cp311-cp311-linux_x86_64.whl", members)
        (package,) = abiscan.check(target, "2.13.0", cpus=[name]).packages
        return package.verdict

    assert verdict(right=True, name="sandybridge") is verdict(right=True, name="haswell") is PackageVerdict.WORKS
    assert verdict(right=False, name="sandybridge") is PackageVerdict.IMPORT_FAILS
    assert verdict(right=False, name="haswell") is PackageVerdict.WORKS
