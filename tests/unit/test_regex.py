from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable

import pytest

import abiscan
from abiscan import native
from abiscan.regex import beginnings, regex


def test_it_is_compiled_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[tuple[str, int]] = []

    def compile_(source: str, flags: int, compile_: Callable[[str, int], re.Pattern[str]] = re.compile) -> object:
        compiled.append((source, flags))
        return compile_(source, flags)

    monkeypatch.setattr(re, "compile", compile_)
    words = regex(r"(?P<first>\w+) (\w+)", re.IGNORECASE)
    assert compiled == []
    assert [match["first"] for match in words.finditer("one two, three four")] == ["one", "three"]
    assert words.sub(r"\2 \1", "one two") == "two one"
    assert words.fullmatch("one") is None
    assert words.fullmatch("three four") is not None
    assert (words.pattern, words.groups) == (r"(?P<first>\w+) (\w+)", 2)
    assert compiled[0] == (r"(?P<first>\w+) (\w+)", re.IGNORECASE)


def test_patterns_of_bytes() -> None:
    assert regex(rb"\x00(.)", re.DOTALL).findall(b"a\x00\nb\x00c") == [b"\n", b"c"]


def test_a_wrong_one_raises_as_it_is_used() -> None:
    wrong = regex("(")
    with pytest.raises(re.error, match="unterminated subpattern"):
        wrong.match("(")


def test_every_one_of_the_package_compiles() -> None:
    found = 0
    without = {"abiscan.__main__", "abiscan.hooks.guard", "abiscan.pipelines.cluster"}
    if not native.is_compiled():
        without |= {"abiscan.emulation.icicle_fallback", "abiscan.emulation.by_native"}  # which import that part
    for module in pkgutil.walk_packages(abiscan.__path__, "abiscan."):
        if module.name not in without:
            for value in vars(importlib.import_module(module.name)).values():
                if type(value) is type(regex("")):
                    found += bool(value.pattern)
    assert found > 150


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("_ZN5torch7Library5reset", ("_ZN5torch7Library5reset",)),
        ("_ZN(?:St7|Ss)C[12]E", ("_ZNSt7", "_ZNSs")),
        ("_ZN(St7|Ss)5append", ("_ZNSt7", "_ZNSs")),
        ("(a|b)c", ("a", "b")),
        ("Py(Long|Float)_As", ("PyLong", "PyFloat")),
        ("_ZN(?:St7|Ss)?C", ("_ZN",)),
        ("_ZN(?:St7|S[sb])C", ("_ZN",)),
        ("_ZN(?:St7|(?:a|b)c)C", ("_ZN",)),
        ("_ZN(?:St7|)C", ("_ZNSt7", "_ZN")),
        ("_ZNK?St", ("_ZNKSt", "_ZNSt")),
        ("v?errx?$", ("verrx", "verr", "errx", "err")),
        ("va??b", ("v",)),
        ("abc|def", ("abc", "def")),
        ("_?Py_(A|B)|[(|]x|a\\|b|c(d|(e|f))", ("_Py_A", "_Py_B", "Py_A", "Py_B", "", "a", "c")),
        ("a(?=b)c", ("a",)),
        ("a(?P<n>b|c)d", ("a",)),
    ],
)
def test_what_matches_begin_with(pattern: str, expected: tuple[str, ...]) -> None:
    assert beginnings(pattern) == expected
