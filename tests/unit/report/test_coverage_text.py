"""What a backend can do on a torch, as text."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from abiscan.dispatch.coverage import Coverage, MissingKernel
from abiscan.dispatch.table import EntrySource
from abiscan.gpu.devices import Gpu
from abiscan.report.coverage_text import render_coverage
from abiscan.results.coverage import BackendReport


def missing(operator: str, *, essential: bool = False, core: bool = False, general: bool = True, **more: Any) -> Any:
    fields: dict[str, Any] = {
        "operator": operator,
        "key": "PrivateUse1",
        "message": f"Could not run '{operator}'. It has no kernel.",
        "exact": True,
        "essential": essential,
        "core": core,
        "general": general,
        "reached_from": (),
    }
    return MissingKernel(**{**fields, **more})


def lines(*kernels: MissingKernel, verbose: bool = False, width: int = 70, **fields: Any) -> list[str]:
    of_coverage = {name: fields.pop(name, ()) for name in ("ambiguous", "unknown")}
    served = fields.pop("served", {EntrySource.KERNEL: 2, EntrySource.MATH: 5})
    coverage = Coverage(backend="PrivateUse1", served=served, missing=kernels, **of_coverage)
    report: dict[str, Any] = {
        "target": "pkg.whl",
        "paths": ("_C.so",),
        "torch": "2.9.1",
        "release": "torch 2.9.1",
        "built_for": (),
        "backend": "PrivateUse1",
        "backend_name": None,
        "kernels": 2,
        "has_fallback": False,
        "workload": None,
        "coverage": coverage,
        "notes": (),
        "gaps": (),
    }
    stream = io.StringIO()
    console = Console(file=stream, width=width, highlight=False)
    render_coverage(BackendReport(**{**report, **fields}), console, verbose=verbose)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_a_backend_that_has_all() -> None:
    assert lines(backend_name="npu", has_fallback=True, kernels=1) == [
        "pkg.whl on torch 2.9.1, backend PrivateUse1 (npu)",
        "registers 1 kernel and a fallback; operators that run: 2 by kernel, 5 by math kernel",
        "every operator has a kernel",
    ]
    assert lines(served={})[1] == "registers 2 kernels; operators that run: none"


def test_what_makes_the_rest_of_no_account_is_in_the_first_line() -> None:
    first = "pkg.whl on torch 2.9.1, backend PrivateUse1"
    assert lines(load_error="undefined symbol: f\nmore")[0] == f"{first}: does not load - undefined symbol: f"
    assert lines(notes=("CUDA has moved",))[1] == "note: CUDA has moved"


def test_the_operators_without_a_kernel() -> None:
    kernels = (
        missing("aten::empty", essential=True, core=True, reached_from=("a", "b", "c", "d")),
        missing("aten::add", core=True, reached_from=("a", "b", "c")),
        missing("aten::odd", general=False),
    )
    shown = lines(*kernels)
    assert shown[2] == "no kernel for 3 operators, 2 of them core"
    assert [line.split() for line in shown[3:7]] == [
        ["operator", "called", "by"],
        ["aten::empty", "essential", "core", "a,", "b,", "c,", "…"],
        ["aten::add", "core", "a,", "b,", "c"],
        ["aten::odd", "special"],
    ]
    # One message is enough to recognise the error.
    assert shown[7:] == ["torch says: Could not run 'aten::empty'. … (use -v to show all)"]
    assert lines(*kernels, verbose=True)[7:] == [f"torch says: {kernel.message}" for kernel in kernels]


def test_many_operators_are_counted() -> None:
    kernels = [missing(f"a::f{number}") for number in range(42)]
    assert "and 2 more (use -v to show all)" in lines(*kernels)
    assert not any("more (use" in line for line in lines(*kernels[:40]))
    assert sum(line.startswith("a::f") for line in lines(*kernels, verbose=True)) == 42


def test_what_else_is_said() -> None:
    unknown = ("a::gone", "a::too")
    assert lines(unknown=unknown, workload="m.pt2")[-1] == "not registered in this torch: a::gone, a::too"
    assert lines(unknown=unknown) == lines() == lines(workload="m.pt2"), "nobody asked for these operators"
    assert lines(ambiguous=("a::f has two",))[-1] == "ambiguous autograd: a::f has two"
    operators = tuple(f"a::f{number}" for number in range(12))
    without = {Gpu(name="9.0", capability=90): operators, Gpu(name="gfx942", gfx="gfx942"): ()}
    shown = lines(without_code=without)
    assert shown[-2].startswith("sm_90: no code for 12 operators: a::f0, ")
    assert shown[-2].endswith("a::f9, and 2 more")
    assert shown[-1] == "gfx942: every operator has code"
    assert lines(without_code=without, verbose=True)[-2].endswith("a::f10, a::f11")


def test_gaps_that_differ_in_their_operators_alone_are_one() -> None:
    gaps = ("what a::f does is unknown", "what a::g.out does is unknown", "code was not read")
    assert lines(gaps=gaps)[3:] == [
        "gap: what a::f does is unknown (and 1 more like it; use -v to show all)",
        "gap: code was not read",
    ]
    assert lines(gaps=gaps, verbose=True)[3:] == [f"gap: {gap}" for gap in gaps]


def test_texts_are_lines_however_narrow_the_terminal_is() -> None:
    kernel = missing("aten::empty", reached_from=())
    fields: dict[str, Any] = {
        "unknown": ("a::gone",), "workload": "m", "ambiguous": ("a::f has two",), "gaps": ("code was not read at all",),
        "notes": ("CUDA has moved to where HIP was",), "without_code": {Gpu(name="9.0", capability=90): ("a::f",)},
    }  # fmt: skip
    texts = [line for line in lines(kernel, width=200, **fields) if not line.startswith(("aten::", "operator"))]
    narrow = lines(kernel, width=24, **fields)
    assert [line for line in texts if line not in narrow] == []
