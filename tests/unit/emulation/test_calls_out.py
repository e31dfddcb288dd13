"""Every double is in the table of what leaves the emulated code, in one kind."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Callable, Iterator

import pytest

from abiscan.emulation import doubles, unknown_answers
from abiscan.emulation.doubles import _ByName
from tools.calls_out import HARMLESS, PARTLY_UNKNOWN, SOURCES, CallKind, kind_of, place_of


def _libraries() -> Iterator[tuple[str, _ByName[Callable[..., object]]]]:
    for module in pkgutil.iter_modules(doubles.__path__):
        loaded = importlib.import_module(f"{doubles.__name__}.{module.name}")
        for value in vars(loaded).values() if module.name != "torch" else ():  # which puts the others together
            if isinstance(value, _ByName):
                yield module.name, value


def _doubles() -> dict[str, Callable[..., object]]:
    found: dict[str, Callable[..., object]] = {}
    for _, library in _libraries():
        for double in (*library.by_name.values(), *(double for *_, double in library.by_pattern)):
            found[place_of(double)] = double
    return found


ALL = _doubles()


def _does_nothing(double: Callable[..., object]) -> bool:
    """Whether the body is a docstring at most, and perhaps a constant that is returned."""
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(double))).body
    assert isinstance(function, ast.FunctionDef)
    body = [line for line in function.body if not (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))]
    return not body or (
        len(body) == 1 and isinstance(body[0], ast.Return) and isinstance(body[0].value, ast.Constant | None)
    )


def test_every_library_of_doubles_has_a_source() -> None:
    assert {name.partition(".")[0] for name in ALL} <= set(SOURCES)
    assert {name for name, _ in _libraries()} <= set(SOURCES)


def test_the_table_names_doubles_that_exist() -> None:
    assert set(HARMLESS) <= set(ALL)
    assert set(PARTLY_UNKNOWN) <= set(ALL)
    assert not set(HARMLESS) & set(PARTLY_UNKNOWN)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_harmless_does_nothing(name: str) -> None:
    assert _does_nothing(ALL[name]) or "process.bind" in inspect.getsource(ALL[name])
    assert kind_of(ALL[name]) is CallKind.HARMLESS


def test_what_says_that_it_does_not_know_is_in_the_table() -> None:
    unknown = ("_unknown(", "taint.answer(")
    saying = {name for name, double in ALL.items() if any(word in inspect.getsource(double) for word in unknown)}
    assert saying == set(PARTLY_UNKNOWN)


def test_a_function_is_of_one_kind() -> None:
    """One that has a double is not among those whose answers are unknown."""
    names = {name for _, library in _libraries() for name in library.by_name}
    assert not names & set(unknown_answers.WRITES)
    assert kind_of(None) is CallKind.UNKNOWN


def test_no_name_has_two_doubles() -> None:
    seen: dict[str, str] = {}
    for module, library in _libraries():
        for name in library.by_name:
            assert seen.setdefault(name, module) == module, name
