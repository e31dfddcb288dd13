"""The same question gets the same bytes; ``python -m tests.commands.same_bytes`` asks far more of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.commands.same_bytes import (
    FIRST,
    SAMPLES,
    TOGETHER,
    Answer,
    Circumstance,
    Question,
    ask,
    differences,
    in_other_order,
    questions_about_environment,
    questions_about_index,
)
from tests.fakes import extension, install, package_wheel, python_of, torch_package
from tests.index_server import serving

CONFLICTS = SAMPLES / "registration_conflicts"
# On the oldest releases it fails before it registers anything, and what it registers tells what it was built for.
NARROWED_BY_KEYS = str(CONFLICTS / "library_block_misuse-def_with_key.so")
UNDEFINED = str(SAMPLES / "undefined_symbol_signature" / "undefined_symbol_signature.so")
KERNELS = str(CONFLICTS / "dispatch_key_drift.so")
WHEEL = str(next((Path(__file__).parents[1] / "data" / "wheels").glob("torch_c_dlpack_ext-*.whl")))
TORCH = ("--torch", "2.13.0")
EVERYTHING_NEW, KEPT, TWO_JOBS, TRACED = TOGETHER


def assert_same(questions: Sequence[Question], *circumstances: Circumstance) -> None:
    assert list(map(str, differences(questions, circumstances))) == []


def test_check() -> None:
    reports = (word for form in ("json", "sarif", "markdown") for word in ("--report", f"{form}={{folder}}/{form}"))
    assert_same([Question(words=("check", WHEEL, UNDEFINED, KERNELS, *TORCH, *reports))], EVERYTHING_NEW, KEPT)


def test_matrix() -> None:
    assert_same([Question(words=("matrix", NARROWED_BY_KEYS))], TWO_JOBS, KEPT)


@pytest.mark.long
def test_survey() -> None:
    words = ("survey", KERNELS, UNDEFINED, *TORCH, "--output", "{folder}/lines")
    assert_same([Question(words=words)], EVERYTHING_NEW)


@pytest.mark.parametrize(
    ("words", "circumstance"),
    [
        pytest.param(("ops", KERNELS), EVERYTHING_NEW, id="ops"),
        pytest.param(("coverage", KERNELS, *TORCH, "--backend", "CPU"), KEPT, id="coverage"),
        pytest.param(("diff", "1.4.0", "1.5.0", "--used-by", KERNELS), KEPT, id="diff"),
        pytest.param(("stable", WHEEL, UNDEFINED), EVERYTHING_NEW, id="stable"),
        pytest.param(("stable", UNDEFINED), TRACED, id="traced"),
    ],
)
def test_others(words: tuple[str, ...], circumstance: Circumstance) -> None:
    assert_same([Question(words=words)], circumstance)


def test_doctor(tmp_path: Path) -> None:
    site = tmp_path / "site"
    torch_package(site)
    install(site, "torch", {}, version="9.9.0", requires="")
    install(site, "good", {"good/_C.so": extension()}, requires="")
    text, *_ = questions_about_environment(Path(python_of(site, tmp_path)))
    assert_same([text], EVERYTHING_NEW)


def test_fit(tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        package_wheel(tmp_path, "eye", {"eye/_C.so": extension()}, version=version)
    with serving(tmp_path) as index:
        text, *_ = questions_about_index(index.url, ["eye"], "2.13.0")
        assert_same([text], EVERYTHING_NEW)


def test_targets_in_another_order() -> None:
    question = Question(words=("stable", "--format", "json"))
    assert list(map(str, in_other_order(question, [KERNELS, UNDEFINED], alone=False))) == []


def test_a_difference_is_found(tmp_path: Path) -> None:
    question = Question(words=("stable", UNDEFINED))
    answer = ask(question, FIRST, tmp_path)
    assert isinstance(answer, Answer)
    assert answer.code == 0
    assert "undefined_symbol_signature.so" in answer.out
    (difference,) = differences([question], [Circumstance(name="for help", options=("--help",))])
    assert difference.lines[0] == "--- stdout"
