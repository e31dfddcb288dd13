"""Expressions and statements, whose values and errors the reading has exactly as Python has them."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from abiscan.python.package.model import Raised
from tests.unit.python.packages import reading_of

if sys.version_info[:2] != (3, 11):
    pytest.skip("the reading is for Python 3.11, whose errors have words of their own", allow_module_level=True)

_, *BLOCKS = Path(__file__).with_name("as_python.txt").read_text("utf-8").split("\n\n")
LINES = [line for block in BLOCKS if block.startswith((">", "!")) for line in block.splitlines()]
EXPRESSIONS = [line.removeprefix("> ") for line in LINES if line.startswith("> ")]
ERRORS = [line.removeprefix("! ").replace("; ", "\n") for line in LINES if line.startswith("! ")]
STATEMENTS = [block.strip() for block in BLOCKS if not block.startswith((">", "!"))]


def run(code: str) -> dict[str, Any]:
    """What Python binds."""
    names: dict[str, Any] = {"__name__": "p"}
    with warnings.catch_warnings(action="ignore"):
        exec(compile(code, "real", "exec", dont_inherit=True), names)
    return names


def read(code: str) -> tuple[str, str] | None:
    """The exception in which the import of a package of this code certainly ends, and its text."""
    (outcome,) = reading_of({"p/__init__.py": f"{code}\n"}).imports
    assert outcome.gaps == ()
    raised = outcome.raised
    if isinstance(raised, Raised) and raised.exact and raised.message is not None:
        return raised.exception, raised.message
    return None


@pytest.mark.parametrize("code", [*(f"r = [{one}]" for one in EXPRESSIONS), *STATEMENTS])
def test_a_value_is_the_one_that_python_gives(code: str) -> None:
    assert read(f"{code}\nraise ValueError(repr(r))") == ("ValueError", repr(run(code)["r"]))


@pytest.mark.parametrize("code", ERRORS)
def test_an_error_is_the_one_that_python_raises(code: str) -> None:
    with pytest.raises(BaseException) as raised:  # noqa: PT011 - which one it is, is the question
        run(code)
    assert read(code) == (type(raised.value).__name__, str(raised.value))


def test_a_base_that_is_not_known_is_asked_before_getattr() -> None:
    own = "class R(MutableMapping):\n    def __getattr__(self, name): raise KeyError(name)"
    assert read(f"from collections.abc import MutableMapping\n{own}\nR().update()") is None


def test_there_are_many() -> None:
    assert min(len(EXPRESSIONS), len(ERRORS), len(STATEMENTS)) > 70
