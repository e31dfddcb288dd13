"""``abiscan matrix``, by its words, its streams and its exit codes; and ``abiscan check --torch declared``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click.testing
import pytest

from abiscan.cli import main
from abiscan.torches import embedded
from tests.elf_builder import EM_AARCH64, Elf, exports, uses
from tests.fakes import SAMPLES, extension, torch_package, wheel
from tests.schemas import validate

GONE = "_ZN2at4goneEv"
# Exported by libc10.so of x86_64 from 1.6 to 2.6, and from 2.7 on: the constructor with the old and the new string.
OLD_STRING = "_ZN3c105ErrorC2ENS_14SourceLocationESs"
NEW_STRING = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
TRACING = "_ZN2at23SavedTensorDefaultHooks11set_tracingEb"  # in libtorch_cpu.so from 2.5 on
NAME = "pkg-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"


def run(*words: str | Path) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(main, list(map(str, words)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def document(*words: str | Path) -> dict[str, Any]:
    found = json.loads(run("matrix", *words, "--format", "json").stdout)
    validate(found, "matrix")
    return found  # type: ignore[no-any-return]


def package(folder: Path, requires: str | None, *extensions: Elf, name: str = NAME) -> Path:
    metadata = "Name: pkg\nVersion: 1.0\n" + (f"Requires-Dist: {requires}\n" if requires else "")
    members = {f"pkg/_{number}.so": each.build() for number, each in enumerate(extensions)}
    return wheel(folder / name, {**members, "pkg-1.0.dist-info/METADATA": metadata.encode()})


def test_names_are_in_one_line_where_there_is_no_terminal(tmp_path: Path) -> None:
    path = "a_folder_with_a_name_that_is_rather_long/and_another_one_in_it/_a_library_with_a_long_name.so"
    extension(undefined=uses("_ZN2at4goneEv")).write(tmp_path / path)
    extension().write(tmp_path / "short.so")
    lines = run("matrix", tmp_path, "--torch", "2.9.1").stdout.splitlines()
    assert [line.split() for line in lines if line.endswith(("✗  ", "✓  "))] == [["short.so", "✓"], [path, "✗"]]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """An extension that the old string ties to torch 1.6 to 2.6."""
    return extension(undefined=uses(OLD_STRING)).write(tmp_path / "_C.so")


def version_of_a_package(folder: Path, version: str, torch_symbol: str, absent: tuple[str, ...]) -> Path:
    """A wheel of an extension that needs a function which only this version's own library has."""
    own = f"of_version_{version}"
    needing = extension(needed=("libtorch_cpu.so", "libpart.so", *absent), undefined=uses(torch_symbol, own))
    members = {"pkg/_C.so": needing.build(), "pkg/libpart.so": Elf(defined=exports(own)).build()}
    return wheel(folder / NAME.replace("1.0", version), members)


@pytest.mark.parametrize("absent", [(), ("libvendor.so.1",)])
def test_two_versions_of_a_package_are_told_apart_on_every_torch(absent: tuple[str, ...], tmp_path: Path) -> None:
    """Both would be installed at the same paths; ``check`` goes through the targets torch by torch."""
    first = version_of_a_package(tmp_path, "1.0", OLD_STRING, absent)
    second = version_of_a_package(tmp_path, "2.0", NEW_STRING, absent)
    found = json.loads(run("check", first, second, "--torch", ">=2.6,<2.8,!=2.7.1", "--format", "json").stdout)
    undefined = {(result["target"], result["torch"]): result["undefined_symbols"] for result in found["results"]}
    assert undefined == {
        (str(first), "2.6.0"): [],
        (str(first), "2.7.0"): [OLD_STRING],
        (str(second), "2.6.0"): [NEW_STRING],
        (str(second), "2.7.0"): [],
    }


def test_every_release_has_a_cell(old: Path) -> None:
    (row,) = document(old)["results"]
    # One release has a second build in the package: its number means the one for CPUs, as for ``check``.
    assert [name for name in row["releases"] if name != "2.13.0+cu130"] == [str(each) for each in embedded.versions()]
    assert "2.13.0+cu130" in row["releases"]
    verdicts = {release: cell["verdict"] for release, cell in row["releases"].items()}
    assert (verdicts["2.6.0"], verdicts["2.7.0"]) == ("loads", "fails")
    assert row["releases"]["2.7.0"] == {
        "verdict": "fails",
        "rules": ["cxx11-abi-mismatch"],
        "predicted_error": {
            "how": "raises",
            "object": "_C.so",
            "message": f"undefined symbol: {OLD_STRING}",
        },
        "torch_cuda": "12",  # the package index has 2.7.0 for CUDA 12.6
    }


def test_what_it_was_built_for_and_why(old: Path) -> None:
    (row,) = document(old)["results"]
    assert row["built_for"][-1] == "2.6.0"
    (clue,) = row["evidence"]
    assert clue["kind"] == "imports"
    assert f"{OLD_STRING} (in torch up to 2.6.0)" in clue["seen"]


def test_chosen_releases_are_the_columns(old: Path) -> None:
    found = document(old, "--torch", "2.6.0", "--torch", "2.7.0")
    assert list(found["results"][0]["releases"]) == ["2.6.0", "2.7.0"]
    assert found["suggestions"] == [{"target": str(old), "requirement": "torch==2.6.0"}]


def test_a_torch_on_disk_can_be_a_column(tmp_path: Path) -> None:
    torch = torch_package(tmp_path / "site")
    bad = extension(undefined=uses(GONE), runpath="$ORIGIN/site/torch/lib").write(tmp_path / "bad.so")
    (row,) = document(bad, "--torch", torch, "--torch", "2.6.0")["results"]
    assert {release: cell["verdict"] for release, cell in row["releases"].items()} == {
        "9.9.0": "fails",
        "2.6.0": "fails",
    }


def test_releases_without_a_wheel_for_the_machine_have_no_cell(tmp_path: Path) -> None:
    other = Elf(machine=EM_AARCH64, needed=("libtorch_cpu.so",)).write(tmp_path / "_C.so")
    (row,) = document(other)["results"]
    assert "1.4.0" not in row["releases"]
    assert "2.6.0" in row["releases"]


def test_each_release_of_a_range_has_its_own_answer(old: Path, tmp_path: Path) -> None:
    """There is no wheel of torch 1.7 for aarch64; 1.8 has one."""
    arm = extension(machine=EM_AARCH64).write(tmp_path / "arm.so")
    found = document(old, arm, "--torch", ">=1.7.1,<1.8.1")
    assert {row["path"]: list(row["releases"]) for row in found["results"]} == {
        "_C.so": ["1.7.1", "1.8.0"],
        "arm.so": ["1.8.0"],
    }
    both = run("check", old, arm, "--torch", ">=1.7.1,<1.8.1", "--format", "json")
    report = json.loads(both.stdout)
    validate(report, "check")
    assert {(one["path"], one["torch"]) for one in report["results"]} == {
        ("_C.so", "1.7.1"),
        ("_C.so", "1.8.0"),
        ("arm.so", "1.8.0"),
    }
    assert [(one["target"], one["problem"], one["readable"]) for one in report["unchecked"]] == [
        (str(arm), "there is no build of torch 1.7.1 for aarch64", True)
    ]
    assert both.exit_code == 0
    alone = run("check", arm, "--torch", ">=1.7,<1.8")
    assert alone.exit_code == 2
    assert alone.stderr.startswith(f"abiscan: torch 1.7.0: not among the embedded releases for {'aarch64'}")


def test_the_table_puts_like_neighbours_together(old: Path) -> None:
    lines = run("matrix", old).stdout.splitlines()
    assert lines[0] == str(old)
    assert any(line.split() == ["_C.so", "✗", "✓", "✗"] for line in lines), lines
    assert any("works on torch 1.6.0-2.6.0 (torch>=1.6,<2.7)" in line for line in lines), lines


def test_verbose_says_the_first_cause(old: Path) -> None:
    text = run("matrix", old, "-v").stdout
    assert f"✗ 2.7.0-2.15.0: cxx11-abi-mismatch: _C.so: undefined symbol: {OLD_STRING}" in text
    assert "c10::Error::Error(c10::SourceLocation, std::string)" in text


def test_a_cause_that_names_the_release_is_said_once_for_all_of_them() -> None:
    # torch::CppFunction is larger from 2.9 on: docs/commands/diff.md.
    target = SAMPLES / "layout_drift" / "crossing.so"
    lines = run("matrix", target, "-v", "--torch", ">=2.9,<2.12").stdout.splitlines()
    (line,) = (line for line in lines if ": layout-drift: " in line)
    assert "✗ 2.9.0-2.11.0: " in line
    assert "was built for, and 2.9.0-2.11.0: 96 → 104 bytes" in line
    (line,) = (line for line in run("matrix", target, "-v", "--torch", "2.9.1").stdout.splitlines() if "✗ 2" in line)
    assert "was built for, and 2.9.1: 96 → 104 bytes" in line


@pytest.mark.parametrize("torches", [("2.13.0", "2.13.0+cu130"), ("2.13.0",), (">=2.13,<2.14",)])
def test_a_release_works_if_one_of_its_builds_does(torches: tuple[str, ...], tmp_path: Path) -> None:
    needs_cuda = extension(needed=("libtorch_cpu.so", "libc10_cuda.so"), undefined=uses(TRACING))
    found = document(needs_cuda.write(tmp_path / "_C.so"), *(f"--torch={each}" for each in torches))
    verdicts = {name: cell["verdict"] for name, cell in found["results"][0]["releases"].items()}
    assert verdicts == {"2.13.0": "fails", "2.13.0+cu130": "loads"}
    assert found["suggestions"][0]["requirement"] == "torch==2.13.0"


def test_nothing_loads(tmp_path: Path) -> None:
    bad = extension(undefined=uses(GONE)).write(tmp_path / "_C.so")
    assert document(bad)["suggestions"] == [{"target": str(bad), "requirement": None}]
    assert "works on none of torch 1.4.0-2.15.0" in run("matrix", bad).stdout


@pytest.mark.parametrize(
    ("torches", "code"), [(("2.6.0",), 0), (("2.7.0",), 1), (("2.6.0", "2.7.0"), 1), (("9.9.9",), 2), (("nowhere",), 2)]
)
def test_exit_codes(torches: tuple[str, ...], code: int, old: Path) -> None:
    result = run("matrix", old, *(word for torch in torches for word in ("--torch", torch)))
    assert result.exit_code == code
    assert bool(result.stderr) == (code == 2)


def test_what_cannot_be_read_exits_with_3(tmp_path: Path) -> None:
    path = wheel(tmp_path / "x.whl", {"bad.so": b"\x7fELF", "good.so": extension(undefined=uses(OLD_STRING)).build()})
    result = run("matrix", path, "--torch", "2.6.0")
    assert result.exit_code == 3
    assert "unknown on torch 2.6.0" in result.stdout
    assert "works on none" not in result.stdout
    assert any(line.split() == ["bad.so", "?"] for line in result.stdout.splitlines())


def test_a_missing_target_is_named(tmp_path: Path) -> None:
    for words in ((), ("--torch", "nowhere")):  # before a missing torch
        result = run("matrix", tmp_path / "none.whl", *words)
        assert result.exit_code == 2
        assert "none.whl" in result.stderr


def test_each_target_gets_its_own_row(old: Path, tmp_path: Path) -> None:
    pure = wheel(tmp_path / "pure-1-py3-none-any.whl", {"pure/__init__.py": b""})
    torches = ("--torch", "2.5.1", "--torch", "2.6.0")
    only = run("matrix", pure, *torches)
    assert (only.exit_code, only.stdout) == (0, f"{pure}: nothing to check: nothing in it uses torch\n")
    result = run("matrix", old, pure, tmp_path / "none.whl", *torches)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"{tmp_path / 'none.whl'}: does not exist" in result.stderr
    assert "works on torch 2.5.1-2.6.0" in result.stdout
    assert f"{pure}: nothing to check" in result.stdout
    found = document(old, pure, tmp_path / "none.whl", *torches)
    assert [row["target"] for row in found["results"]] == [str(old)]
    assert [one["readable"] for one in found["unchecked"]] == [True, False]


@pytest.mark.parametrize("again", ["2.13.0", "2.13", "2.13.0+cpu"])
def test_one_build_under_two_names_is_one_column(again: str, old: Path) -> None:
    (row,) = document(old, old, "--torch", "2.13.0", "--torch", again, "--torch", "2.13.0+cu130")["results"]
    assert list(row["releases"]) == ["2.13.0", "2.13.0+cu130"]


def test_into_a_file(old: Path, tmp_path: Path) -> None:
    run("matrix", old, "--format", "json", "--output", tmp_path / "matrix.json")
    validate(json.loads((tmp_path / "matrix.json").read_text("utf-8")), "matrix")


SAME = (
    *("undefined_symbol_signature", "missing_torch_library", "architecture", "loads"),
    *(
        pytest.param(sample, marks=pytest.mark.long)
        for sample in ("cxx11_abi", "weak_reference", "symbol_with_version", "pybind11_internals")
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("sample", SAME)
def test_each_cell_is_what_check_says(sample: str) -> None:
    target = SAMPLES / sample / f"{sample}.so"
    (row,) = document(target)["results"]
    for release, cell in row["releases"].items():
        (alone,) = json.loads(run("check", target, "--torch", release, "--format", "json").stdout)["results"]
        assert (cell["verdict"], cell["predicted_error"]) == (alone["verdict"], alone["predicted_error"]), release
        rules = list(dict.fromkeys(finding["rule"] for finding in alone["findings"]))
        # What torch would do about registrations is only asked where the load gets that far.
        assert cell["rules"] == rules[: len(cell["rules"])], release
        assert cell["verdict"] == "fails" or cell["rules"] == rules, release


def test_a_wheel_that_declares_what_it_works_with(tmp_path: Path) -> None:
    path = package(tmp_path, "torch>=1.13,<2.7", extension(undefined=uses(OLD_STRING)))
    result = run("check", path, "--torch", "declared")
    assert (result.exit_code, result.stdout) == (0, f"{path}: pkg/_0.so: loads on torch 2.6.0+cu124\n")


def test_a_wheel_that_declares_too_much(tmp_path: Path) -> None:
    path = package(tmp_path, "torch>=2.5", extension(undefined=uses(OLD_STRING)))
    result = run("check", path, "--torch", "declared")
    assert result.exit_code == 1
    assert "torch>=2.5 in the metadata allows torch 2.7.0-2.15.0, on which _0.so fails" in result.stdout
    assert "declare torch>=2.4,<2.7" in result.stdout  # c10::Error, which the sample makes, was another up to 2.3


def test_releases_without_a_wheel_for_its_python_do_not_count(tmp_path: Path) -> None:
    # Torch 2.7 has none for Python 3.8, so nobody can have it beside this wheel.
    name = "pkg-1.0-cp38-cp38-manylinux_2_28_x86_64.whl"
    path = package(tmp_path, "torch>=2.0", extension(undefined=uses(OLD_STRING)), name=name)
    assert run("check", path, "--torch", "declared").exit_code == 0


def test_no_requirement_admits_all(tmp_path: Path) -> None:
    for requires, words in (
        (None, "metadata without a torch requirement allows"),
        ("torch", "torch in the metadata allows"),
    ):
        result = run("check", package(tmp_path, requires, extension(undefined=uses(OLD_STRING))), "--torch", "declared")
        assert result.exit_code == 1
        assert f"{words} torch 2.7.0-2.15.0, on which _0.so fails" in result.stdout


def test_what_is_excluded_for_nothing_is_a_note(tmp_path: Path) -> None:
    path = package(tmp_path, "torch==2.6.0+cpu", extension(undefined=uses(OLD_STRING)))
    result = run("check", path, "--torch", "declared")
    assert result.exit_code == 0
    assert "torch==2.6.0+cpu in the metadata excludes torch 2.4.0-2.5.1, on which the whole wheel loads" in (
        result.stdout
    )


def test_no_note_where_another_file_of_the_wheel_fails(tmp_path: Path) -> None:
    both = (
        extension(undefined=uses(OLD_STRING)),
        extension(undefined=uses("_ZN2at23SavedTensorDefaultHooks11set_tracingEb")),
    )
    result = run("check", package(tmp_path, "torch>=2.5,<2.7", *both), "--torch", "declared")
    assert (result.exit_code, "declared-requirement-wrong" in result.stdout) == (0, False), result.stdout


@pytest.mark.parametrize("requires", ["torch>=99", "torch<1"])
def test_no_release_satisfies_it(requires: str, tmp_path: Path) -> None:
    result = run("check", package(tmp_path, requires, extension()), "--torch", "declared")
    assert result.exit_code == 2
    assert requires in result.stderr


def test_only_a_wheel_declares(old: Path, tmp_path: Path) -> None:
    result = run("check", old, "--torch", "declared")
    assert result.exit_code == 2
    assert "has no metadata" in result.stderr
    good = package(tmp_path, "torch>=1.13,<2.7", extension(undefined=uses(OLD_STRING)))
    both = run("check", old, good, "--torch", "declared")
    assert (both.exit_code, both.stdout) == (2, f"{good}: pkg/_0.so: loads on torch 2.6.0+cu124\n")
    assert "has no metadata" in both.stderr


def test_several_targets_end_in_one_table(old: Path, tmp_path: Path) -> None:
    other = extension().write(tmp_path / "other.so")
    lines = run("matrix", old, other, "--torch", "2.8.0", "--torch", "2.9.0").output.splitlines()
    start = lines.index("2 targets: 1 of 2 rows work on some release")
    assert {line.split()[0] for line in lines[start + 3 : start + 5]} == {old.name, other.name}
    assert not any(line.startswith("1 target") for line in run("matrix", old, "--torch", "2.8.0").output.splitlines())
