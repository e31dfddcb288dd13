from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import abiscan
from abiscan.cli import main
from tests.schemas import validate

SAMPLES = Path(__file__).resolve().parents[3] / "sample_binaries"
STABLE = str(SAMPLES / "stable/scalar_argument.so")
TIED = str(SAMPLES / "undefined_symbol_signature/undefined_symbol_signature.so")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((STABLE,), 0),
        ((TIED,), 0),
        ((STABLE, "--against", "2.10"), 0),
        ((STABLE, "--against", "2.9"), 1),
        ((TIED, "--against", "2.15"), 1),
        ((STABLE, "--against", "two"), 2),
        ((), 2),
        ((STABLE, "--env"), 2),
    ],
)
def test_exit_codes(arguments: tuple[str, ...], code: int) -> None:
    assert CliRunner().invoke(main, ["stable", *arguments]).exit_code == code


def test_the_document_satisfies_its_schema_and_has_what_scripts_read() -> None:
    run = CliRunner().invoke(main, ["stable", STABLE, TIED, "--format", "json"])
    document = json.loads(run.stdout)
    validate(document, "stable")
    stable, tied = document["results"]
    assert (stable["state"], stable["minimum_torch"], stable["deciding"]) == ("stable", "2.10", ["torch_library_impl"])
    assert (stable["compiled_with"], stable["symbols"], stable["after_port"]) == ("2.10.0", [], None)
    assert (tied["state"], tied["minimum_torch"]) == ("tied", None)
    assert {symbol["counterpart"] for symbol in tied["symbols"]} == {None, "aten::zeros through torch_call_dispatcher"}


def test_the_first_torch_is_the_one_that_matrix_finds() -> None:
    matrix = abiscan.matrix(STABLE, explained=False)
    assert list(matrix.suggestions.values()) == ["torch>=2.10"]
    assert str(abiscan.stable(STABLE).minimum) == "2.10.0"
