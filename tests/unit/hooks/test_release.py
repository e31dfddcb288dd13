from __future__ import annotations

import base64
import csv
import email
import hashlib
import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import click.testing
import pytest
from rich.console import Console

import abiscan
from abiscan.cli import main
from abiscan.findings import Effect
from abiscan.hooks.release import compare_wheel, differences_among, with_requirement, with_tags
from abiscan.report import release_text
from abiscan.results.release import ReleaseProblem, ReleaseReport, ReleaseWheel
from abiscan.results.unchecked import Unchecked
from tests.elf_builder import Elf
from tests.fakes import SAMPLES, package_wheel

WHEEL = SAMPLES / "wheels" / "abiscan_sample-1.0-py3-none-linux_x86_64.whl"  # works on torch 2.12 and newer


def run(*words: str | Path) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["release", *map(str, words)])


def test_a_corrected_wheel_says_what_is_true_of_it(tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    dist.mkdir()
    wheel = shutil.copy(WHEEL, dist / WHEEL.name.replace("linux_x86_64", "manylinux_2_17_x86_64"))
    result = run(dist, "--write", "--format", "json")
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    (judged,) = document["wheels"]
    assert (judged["declared"], judged["requires_dist"]) == ("torch", "torch>=2.12")
    assert (judged["glibc"], judged["tags"]) == ("2.32", "py3-none-manylinux_2_32_x86_64")
    rules = {problem["rule"] for problem in judged["problems"] if problem["effect"] == "load-fails"}
    assert rules == {"declared-requirement-wrong", "platform-tag-wrong"}
    (written,) = (tmp_path / "dist-corrected").iterdir()
    assert str(written) == judged["written"]
    assert written.name == "abiscan_sample-1.0-py3-none-manylinux_2_32_x86_64.whl"
    with zipfile.ZipFile(written) as new, zipfile.ZipFile(wheel) as old:
        info = "abiscan_sample-1.0.dist-info"
        metadata = email.message_from_bytes(new.read(f"{info}/METADATA"))
        assert metadata.get_all("Requires-Dist") == ["torch>=2.12"]
        assert new.read(f"{info}/WHEEL").endswith(b"\nTag: py3-none-manylinux_2_32_x86_64\n\n")
        changed = {name for name in old.namelist() if new.read(name) != old.read(name)}
        assert changed == {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD")}
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(new.read(f"{info}/RECORD").decode()))}
        assert rows.pop(f"{info}/RECORD") == ["", ""]
        for name, (digest, size) in rows.items():
            content = new.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={expected}", len(content))
        assert set(rows) | {f"{info}/RECORD"} == set(new.namelist())
    assert abiscan.check(written, "declared").exit_code() == 0


def test_what_the_last_release_had_is_missed(tmp_path: Path) -> None:
    module = Elf(needed=("libtorch_cpu.so",))
    now = package_wheel(tmp_path, "abiscan_sample", {"abiscan_sample/_C.so": module}, version="2.0")
    report = abiscan.release(now, [WHEEL, WHEEL.parent])
    said = [(problem.effect, problem.message) for problem in report.wheels[0].problems]
    operators = "abiscan_sample::scale"
    assert (Effect.CALL_FAILS, f"no longer has the operators {operators}, unlike 1.0") in said
    assert report.exit_code() == 0
    assert report.exit_code(Effect.CALL_FAILS) == 1
    other = package_wheel(tmp_path, "abiscan_sample", {"pkg/_C.so": module}, tag="cp311-cp311-linux_x86_64")
    (gone,) = abiscan.release(other, WHEEL).problems
    assert (gone.effect, gone.message) == (Effect.CALL_FAILS, "there is no wheel for py3-none on x86_64, unlike 1.0")


def made_wheel(**changes: Any) -> ReleaseWheel:
    fields: dict[str, Any] = dict.fromkeys(("works_on", "unknown_on", "gpus", "operators", "problems"), ())
    fields |= dict.fromkeys(("declared", "stable_abi", "glibc", "minimum_torch"))
    fields |= {"target": "a.whl", "name": "a", "version": "1.0", "python": "cp312-cp312", "platform": "any"}
    return ReleaseWheel(**{**fields, "machine": "x86_64", **changes})


@pytest.mark.parametrize(
    ("before", "after", "problems"),
    [
        ({}, {}, []),
        ({"works_on": ("2.8.0", "2.9.0")}, {"works_on": ("2.8.0", "2.9.0", "2.10.0")}, []),
        ({"works_on": ("2.8.0", "2.9.0")}, {"works_on": ("2.9.0",)}, ["no longer works on torch 2.8.0, unlike 1.0"]),
        ({"works_on": ("2.8.0", "2.9.0")}, {"works_on": ("2.9.0",), "unknown_on": ("2.8.0",)}, []),
        ({"gpus": ("8.0", "9.0")}, {"gpus": ("9.0", "12.0")}, ["no longer has code for 8.0, unlike 1.0"]),
        ({"operators": ("a::f", "a::g")}, {"operators": ("a::g",)}, ["no longer has the operators a::f, unlike 1.0"]),
        ({"glibc": "2.9"}, {"glibc": "2.28"}, ["needs glibc 2.28; 1.0 needs 2.9"]),
        ({"glibc": "2.28"}, {"glibc": "2.28"}, []),
        ({"glibc": "2.28"}, {"glibc": "2.17"}, []),
        ({"glibc": None}, {"glibc": "2.28"}, []),
        ({"minimum_torch": "2.10"}, {"minimum_torch": None}, ["is tied to releases of torch; 1.0 is not"]),
        ({"minimum_torch": "2.10"}, {"minimum_torch": "2.11"}, []),
        # A wheel for another Python or machine is another one.
        ({"gpus": ("8.0",), "python": "cp311-cp311"}, {"gpus": ()}, []),
        ({"gpus": ("8.0",), "machine": "aarch64"}, {"gpus": ()}, []),
        ({"gpus": ("8.0",), "name": "other"}, {"gpus": ()}, []),
    ],
)
def test_what_is_worse_than_in_the_last_release(
    before: dict[str, Any], after: dict[str, Any], problems: list[str]
) -> None:
    old, new = made_wheel(**before), made_wheel(**{"version": "2.0", **after})
    assert [problem.message for problem in compare_wheel(new, [old]).problems] == problems


@pytest.mark.parametrize(
    ("wheels", "messages"),
    [
        (({}, {"python": "cp313-cp313"}, {"python": "cp313-cp313", "machine": "aarch64"}), ["cp312-cp312"]),
        (({}, {"version": "1.1"}), ["the wheels are of 2 versions"]),
        (({"gpus": ("9.0",)}, {"gpus": ("9.0",)}), []),
        (({"gpus": ("9.0",)}, {}), ["different GPUs: 9.0 in cp312-cp312-any; none in cp312-cp312-any"]),
        # What a wheel is about to require counts, or else what it requires.
        (({"requires_dist": "torch>=2.9", "declared": "torch>=2"}, {"declared": "torch>=2.9"}), []),
        (({"requires_dist": "torch>=2.9", "declared": "torch>=2"}, {"declared": "torch>=2"}), ["torch>=2; torch>=2.9"]),
        (({}, {"declared": "torch>=2"}), ["require different torches: no requirement; torch>=2"]),
    ],
)
def test_what_the_wheels_of_a_package_do_not_share(wheels: tuple[dict[str, Any], ...], messages: list[str]) -> None:
    problems = list(differences_among([made_wheel(**changes) for changes in wheels]))
    assert [problem.message.endswith(message) for problem, message in zip(problems, messages, strict=True)] == [
        True for _ in messages
    ]
    assert {problem.effect for problem in problems} <= {Effect.NOTE}


PROBLEM = ReleaseProblem(rule=None, effect=Effect.LOAD_FAILS, message="", fix="")
NOTE = ReleaseProblem(rule=None, effect=Effect.NOTE, message="", fix="")
UNREAD = Unchecked(target="b.whl", problem="cut", fix="", readable=False)


@pytest.mark.parametrize(
    ("wheel", "report", "ready", "code", "strict"),
    [
        ({"works_on": ("2.9.0",)}, {}, True, 0, 0),
        ({"works_on": ("2.9.0",), "problems": (NOTE,)}, {}, True, 0, 0),
        ({"works_on": ("2.9.0",), "problems": (PROBLEM,)}, {}, False, 1, 1),
        ({"works_on": ("2.9.0",)}, {"problems": (PROBLEM,)}, False, 1, 1),
        ({"works_on": ("2.9.0",)}, {"unchecked": (UNREAD,)}, False, 2, 2),
        ({"works_on": ("2.9.0",), "unknown_on": ("2.8.0",)}, {}, True, 0, 1),
        ({"unknown_on": ("2.8.0",)}, {}, True, 3, 1),
    ],
)
def test_whether_wheels_can_be_published(
    wheel: dict[str, Any], report: dict[str, Any], ready: bool, code: int, strict: int
) -> None:
    whole = ReleaseReport(**{"wheels": (made_wheel(**wheel),), "problems": (), **report})
    assert (whole.is_ready(), whole.exit_code(), whole.exit_code(strict=True)) == (ready, code, strict)


def test_tags_are_written_as_wheel_does() -> None:
    """As ``python -m wheel tags --platform-tag manylinux_2_17_x86_64.manylinux2014_x86_64`` of wheel 0.48 does."""
    before = ["Wheel-Version: 1.0", "Generator: setuptools (0.1.5)", "Tag: cp311-cp311-linux_x86_64", "Build: 1"]
    after = [line for line in before if not line.startswith("Tag")]
    after += ["Tag: cp311-cp311-manylinux2014_x86_64", "Tag: cp311-cp311-manylinux_2_17_x86_64"]
    tags = "cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64"
    assert with_tags("\n".join([*before, "", ""]), tags) == "\n".join([*after, "", ""])


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (["Requires-Dist: torch"], ["torch>=2.12"]),
        (["Requires-Dist: numpy", "Requires-Dist: torch (>=2.0)"], ["numpy", "torch>=2.12"]),
        (["Requires-Dist: torchvision", "Requires-Dist: torch-npu"], ["torch>=2.12", "torchvision", "torch-npu"]),
        (["Requires-Dist: Torch>=2; python_version>='3.9'", "Requires-Dist: torch<9"], ["torch>=2.12"]),
        (["Requires-Dist: torch==2.1; extra == 'old'"], ["torch>=2.12", "torch==2.1; extra == 'old'"]),
        ([], ["torch>=2.12"]),
    ],
)
def test_the_requirement_replaces_those_of_torch(lines: list[str], after: list[str]) -> None:
    text = "\n".join(["Metadata-Version: 2.1", "Name: pkg", "Version: 1.0", *lines, "", "Requires-Dist: torch\n"])
    result = email.message_from_string(with_requirement(text, "torch>=2.12"))
    assert result.get_all("Requires-Dist") == after
    assert result.get_payload() == "Requires-Dist: torch\n"


def test_what_is_no_wheel_exits_with_2() -> None:
    result = run(SAMPLES / "loads" / "loads.so")
    assert result.exit_code == 2
    assert "is not a wheel (pass the wheels of a release, or the folder that they are in)" in result.stderr


def test_long_lines_are_not_broken() -> None:
    """Who copies a path or a command gets all of it."""
    stream, name = io.StringIO(), f"{'deep/' * 40}a.whl"
    report = ReleaseReport(wheels=(made_wheel(target=name),), problems=())
    release_text.render_release(report, Console(file=stream, width=40), Effect.CORRUPTS)
    lines = stream.getvalue().splitlines()
    assert lines[0] == name
    assert lines[-1] == "ready: 1 wheel"


def test_text_has_what_each_wheel_needs_and_what_to_write() -> None:
    of_rule = ReleaseProblem(rule="a-rule", effect=Effect.LOAD_FAILS, message="it is so", fix="mend it")
    note = ReleaseProblem(rule=None, effect=Effect.NOTE, message="they differ", fix="build all")
    corrected = {"requires_dist": "torch>=2.9", "tags": "cp312-cp312-linux_x86_64", "stamp": "a stamp", "written": "b"}
    needs = {"declared": "torch>=2", "glibc": "2.28", "stable_abi": "ready", "gpus": tuple("123456789")}
    whole = made_wheel(works_on=("2.9.0",), unknown_on=("2.8.0",), problems=(of_rule,), **needs, **corrected)
    report = ReleaseReport(wheels=(whole, made_wheel(target="c.whl")), problems=(note,), against=("old.whl",))
    stream = io.StringIO()
    release_text.render_release(report, Console(file=stream, width=80), Effect.CORRUPTS)
    assert stream.getvalue().splitlines() == [
        "a.whl",
        "  torch: works on 2.9.0; requires torch>=2",
        "  torch: unknown on 2.8.0",
        "  system: needs glibc 2.28; tagged any",
        "  stable ABI: ready",
        "  GPUs: 1, 2, 3, 4, 5, 6, 7, 8, and 1 more",
        "error[a-rule]: it is so",
        "  = fix: mend it",
        "write: Requires-Dist: torch>=2.9",
        "write: Tag: cp312-cp312-linux_x86_64",
        "write: a stamp",
        "written: b",
        "",
        "c.whl",
        "  torch: works on no release; requires no torch",
        "  system: needs no particular glibc; tagged any",
        "",
        "warning: they differ",
        "  = fix: build all",
        "not ready: 2 wheels, compared with 1 wheel",
    ]
    release_text.render_release(report, Console(file=(stream := io.StringIO())), Effect.NOTE)
    assert "error: they differ" in stream.getvalue()
