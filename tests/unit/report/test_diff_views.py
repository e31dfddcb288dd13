"""What changed between two torches, and what the author of an extension has to do about it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from abiscan.report.diff_text import render_comparison
from abiscan.results.diff import Break, Comparison, DispatchChange, KeyChange, SchemaChange, SymbolChange

SAME = Comparison(
    old="2.8.0",
    new="2.9.0",
    old_api="1-1",
    new_api="1-1",
    symbols=(),
    keys=(),
    operators_added=(),
    operators_removed=(),
    schemas=(),
    dispatch=(),
    cuda_compared=True,
    gaps=(),
)
# A new parameter with a default: code that calls the operator compiles. One without: it does not.
WIDER = SchemaChange(operator="a::f", old="a::f() -> ()", new="a::f(int x=1) -> ()", difference=None)
OTHER = SchemaChange(operator="a::g", old="a::g() -> ()", new="a::g(int x) -> ()", difference="they take 0 and 1")
SYMBOLS = SymbolChange(library="libc10.so", added=["_ZN3c101hEv"], removed=["_ZN3c101gEv", "g"])
DISPATCH = tuple(DispatchChange(operator=f"a::{name}", added=["CUDA"], removed=["CPU"]) for name in "xy")
KEYS = (KeyChange(key="MTIA", old=None, new=3), KeyChange(key="CPU", old=1, new=2), KeyChange(key="HIP", old=2, new=4))


def lines(comparison: Comparison, *, verbose: bool = False, of_extension: bool = False) -> list[str]:
    stream = io.StringIO()
    render_comparison(comparison, Console(file=stream, width=40), verbose=verbose, of_extension=of_extension)
    return stream.getvalue().splitlines()


def changed(**changes: object) -> Comparison:
    return Comparison(**{**{name: getattr(SAME, name) for name in SAME.__struct_fields__}, **changes})


HEAD = ["2.8.0 → 2.9.0", "  nothing changed", "operator API version: unchanged"]


def test_nothing_changed() -> None:
    assert lines(SAME) == HEAD
    assert lines(SAME, of_extension=True) == [*HEAD, "nothing to do"]
    no_cuda = "CUDA kernels: not compared, because only one of the two is a CUDA build"
    assert lines(changed(cuda_compared=False, gaps=("cut",), new_api="2-1"))[2:] == [
        *("operator API version: 1-1 → 2-1", no_cuda, "gap cut"),
    ]


@pytest.mark.parametrize(
    ("changes", "verbose", "expected"),
    [
        ({"symbols": (SYMBOLS,)}, False, ["symbols libc10.so: 2 removed, 1 added"]),
        (
            {"symbols": (SYMBOLS,)},
            True,
            ["symbols libc10.so: 2 removed, 1 added", "  - c10::g()", "  - g", "  + c10::h()"],
        ),
        (
            {"keys": KEYS},
            False,
            [
                "dispatch key MTIA: none → 3",
                "dispatch keys with another number: CPU: 1 → 2, HIP: 2 → 4 (use -v to show all)",
            ],
        ),
        (
            {"keys": KEYS},
            True,
            ["dispatch key MTIA: none → 3", "dispatch key CPU: 1 → 2", "dispatch key HIP: 2 → 4"],
        ),
        ({"dispatch": DISPATCH[:1]}, False, ["dispatch -CPU +CUDA: a::x"]),
        ({"dispatch": DISPATCH}, False, ["dispatch -CPU +CUDA: a::x, a::y (2 operators; use -v to show all)"]),
        ({"dispatch": DISPATCH}, True, ["dispatch a::x: -CPU +CUDA", "dispatch a::y: -CPU +CUDA"]),
        ({"operators_removed": ("a::o",), "operators_added": ("a::n",)}, False, ["operator - a::o", "operator + a::n"]),
        (
            {"schemas": (WIDER, OTHER)},
            False,
            [
                *("schema a::f: changed", "  - a::f() -> ()", "  + a::f(int x=1) -> ()"),
                *("schema a::g: they take 0 and 1", "  - a::g() -> ()", "  + a::g(int x) -> ()"),
            ],
        ),
    ],
)
def test_each_kind_of_change(changes: dict[str, object], verbose: bool, expected: list[str]) -> None:
    printed = lines(changed(**changes), verbose=verbose)
    assert [line for line in printed[2:] if not line.startswith("operator API version")] == expected


@pytest.mark.parametrize(
    ("changes", "actions"),
    [
        ({"operators_removed": ("a::o",)}, ["change the code that calls: a::o"]),
        ({"schemas": (OTHER,)}, ["change the code that calls: a::g"]),
        ({"schemas": (WIDER,)}, ["recompile, because of: a::f"]),
        ({"symbols": (SYMBOLS,)}, ["recompile, because of: c10::g()"]),
        ({"dispatch": DISPATCH}, ["test again, nothing to compile: a::x: dispatch, a::y: dispatch"]),
        ({"operators_added": ("a::n",)}, ["nothing to do"]),
        (
            {"breaks": (Break(kind="call", name="torch.f", error="no x", places=["a.py:1"]),)},
            ["breaks, by call torch.f: no x", "  a.py:1", "change the code that calls: torch.f"],
        ),
        (
            {"breaks": (Break(kind="symbol", name="_ZN3c101gEv", places=["_C.so"]),), "symbols": (SYMBOLS,)},
            ["breaks, by symbol c10::g()", "  _C.so", "recompile, because of: c10::g()"],
        ),
    ],
)
def test_what_the_author_of_an_extension_has_to_do(changes: dict[str, object], actions: list[str]) -> None:
    comparison = changed(**changes)
    assert lines(comparison, of_extension=True)[len(lines(comparison)) :] == actions
