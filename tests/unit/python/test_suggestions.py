"""The parameter that Python 3.13 suggests for a keyword: the texts are what CPython 3.13 said of such calls."""

from __future__ import annotations

import pytest

from abiscan.python.language.suggestions import closest_name
from abiscan.python.package.model import Answer, Raised
from tests.unit.python.packages import FakeWorld, reading_of


@pytest.mark.parametrize(
    ("keyword", "parameters", "meant"),
    [
        ("inplaced", ["input", "inplace"], "inplace"),
        ("Device", ["device", "dtype"], "device"),
        ("recursve", ["reason", "recursive"], "recursive"),
        ("gadget", ["device"], None),
        ("nope", ["mode", "name"], None),
        ("nope", [], None),
        ("b" * 41, ["a" + "b" * 41 + "c" * 41], None),
    ],
)
def test_the_nearest_parameter_is_suggested(keyword: str, parameters: list[str], meant: str | None) -> None:
    assert closest_name(keyword, parameters) == meant


@pytest.mark.parametrize(
    ("python", "text"),
    [
        ((3, 12), "f() got an unexpected keyword argument 'Device'"),
        ((3, 13), "f() got an unexpected keyword argument 'Device'. Did you mean 'device'?"),
        (Answer.UNKNOWN, None),
    ],
)
def test_only_python_3_13_and_newer_suggest(python: tuple[int, int] | Answer, text: str | None) -> None:
    code = "def f(device=0): ...\nf(Device=1)\n"
    error = reading_of({"pack/__init__.py": code}, FakeWorld(python=python)).imports[0].raised

    assert isinstance(error, Raised)
    assert (error.exception, error.message) == ("TypeError", text)
