from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from abiscan.binary.machines import Machine
from abiscan.dispatch.operators import Kernel, Operator, Operators
from abiscan.inputs.session import Session
from abiscan.pipelines import diff
from abiscan.pipelines.diff import Side, compare_sides
from abiscan.pipelines.use import Use
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer
from abiscan.python.package.sources import PackageFiles
from abiscan.results.diff import Break, KeyChange, SymbolChange
from abiscan.torches.name_changes import NameChanges, SignatureChange
from abiscan.torches.torch import TorchChoice
from tests.fakes import package_wheel
from tests.unit.python.packages import TextSources


def operator(name: str, schema: str) -> Operator:
    return Operator(name=name, schema=schema, tags=(), file=None, line=None)


def kernel(name: str, key: str) -> Kernel:
    return Kernel(operator=name, key=key, signature=None, schema=None, fallthrough=False, file=None, line=None)


def operators(
    *entries: Operator,
    kernels: tuple[Kernel, ...] = (),
    keys: Mapping[int, str] | None = None,
    gaps: tuple[str, ...] = (),
) -> Operators:
    return Operators(
        operators={entry.name: entry for entry in entries},
        kernels=kernels,
        fallbacks=(),
        namespaces={},
        classes=frozenset(),
        keys=keys or {},
        aliases={},
        gaps=gaps,
    )


def side(
    exports: Mapping[str, frozenset[str]] | None = None,
    keys: Mapping[int, str] | None = None,
    found: Operators | None = None,
    release: str | None = "2.8.0",
) -> Side:
    found = found or operators(keys=keys)
    return Side(name="torch", exports=exports or {}, operators=found, release=release, version="2.8.0")


def test_symbols_come_and_go_by_library() -> None:
    old = side({"libc10.so": frozenset("ab"), "libgone.so": frozenset("x"), "libsame.so": frozenset("s")})
    new = side({"libc10.so": frozenset("bc"), "libsame.so": frozenset("s")})
    assert compare_sides(old, new).symbols == (
        SymbolChange(library="libc10.so", added=("c",), removed=("a",)),
        SymbolChange(library="libgone.so", added=(), removed=("x",)),
    )


def versions(old: str, new: str) -> tuple[Side, Side]:
    before, after = (Side(name="torch", exports={}, operators=operators(), version=version) for version in (old, new))
    return before, after


def test_python_names_come_go_and_change() -> None:
    later = compare_sides(*versions("2.3.1", "2.4.0")).names
    last = compare_sides(*versions("1.13.1", "2.0.0"), Use(symbols=(), operators=(), names={"torch._six.inf"})).names
    assert later
    assert {"torch.amp.custom_bwd", "torch.library.register_fake"} <= set(later.added)
    assert "torch.autograd.function.traceable" in later.removed
    assert SignatureChange(name="torch.cuda.is_bf16_supported", old="", new="including_emulation=") in later.signatures
    assert last == NameChanges(removed=("torch._six",))


def test_a_name_and_back() -> None:
    there, back = (compare_sides(*versions(*pair)).names for pair in (("2.8.0", "2.9.1"), ("2.9.1", "2.8.0")))
    assert there
    assert back
    assert (there.added, there.removed) == (back.removed, back.added)


def test_names_are_not_compared_with_a_torch_that_is_no_release() -> None:
    comparison = compare_sides(*versions("2.8.0", "2.999.0"))
    assert comparison.names is None
    assert "torch: Python names are not compared" in comparison.gaps


def test_an_extension_limits_symbols_to_its_own() -> None:
    old, new = side({"l": frozenset("abc")}), side({"l": frozenset("cd")})
    changes = compare_sides(old, new, Use(symbols={"a", "c"}, operators=())).symbols
    assert changes == (SymbolChange(library="l", added=(), removed=("a",)),)


def test_dispatch_keys_are_renumbered() -> None:
    changes = compare_sides(side(keys={1: "CPU", 2: "CUDA", 3: "Old"}), side(keys={1: "CPU", 3: "CUDA", 4: "New"})).keys
    assert changes == (
        KeyChange(key="CUDA", old=2, new=3),
        KeyChange(key="New", old=None, new=4),
        KeyChange(key="Old", old=3, new=None),
    )


def test_operators_come_and_go() -> None:
    old = operators(operator("aten::a", "aten::a() -> ()"), operator("aten::b", "aten::b() -> ()"))
    new = operators(operator("aten::b", "aten::b() -> ()"), operator("aten::c", "aten::c() -> ()"))
    comparison = compare_sides(side(found=old), side(found=new))
    assert (comparison.operators_removed, comparison.operators_added) == (("aten::a",), ("aten::c",))
    assert comparison.schemas == ()


def test_a_changed_schema_says_where() -> None:
    old = operators(operator("aten::f", "aten::f(Tensor x, int n) -> Tensor"))
    new = operators(operator("aten::f", "aten::f(Tensor x, int count) -> Tensor"))
    (change,) = compare_sides(side(found=old), side(found=new)).schemas
    assert (change.old, change.new) == ("aten::f(Tensor x, int n) -> Tensor", "aten::f(Tensor x, int count) -> Tensor")
    assert change.difference is not None
    assert "'n'" in change.difference


def test_a_change_that_torch_does_not_mind_is_still_a_change() -> None:
    # To operator== of torch, SymInt and int are one type (jit_type.h, the "fake" type of an argument).
    old = operators(operator("aten::f", "aten::f(int n) -> ()"))
    new = operators(operator("aten::f", "aten::f(SymInt n) -> ()"))
    (change,) = compare_sides(side(found=old), side(found=new)).schemas
    assert change.difference is None


def test_another_spelling_is_no_change() -> None:
    old = operators(operator("aten::f", "aten::f(Tensor x)->Tensor"))
    new = operators(operator("aten::f", "aten::f(Tensor x) -> Tensor"))
    assert compare_sides(side(found=old), side(found=new)).schemas == ()


def test_a_schema_that_cannot_be_parsed_is_shown_as_it_is() -> None:
    old = operators(operator("aten::f", "aten::f(Tensor x) -> Tensor"))
    new = operators(operator("aten::f", "aten::f(??"))
    (change,) = compare_sides(side(found=old), side(found=new)).schemas
    assert (change.new, change.difference) == ("aten::f(??", None)


def test_dispatch_changes_by_key() -> None:
    name = "aten::tanh"
    entry = operator(name, "aten::tanh(Tensor self) -> Tensor")
    old = operators(entry, kernels=(kernel(name, "CompositeImplicitAutograd"),))
    new = operators(entry, kernels=(kernel(name, "CPU"), kernel(name, "Meta")))
    (change,) = compare_sides(side(found=old), side(found=new)).dispatch
    assert (change.removed, change.added) == (("CompositeImplicitAutograd",), ("CPU", "Meta"))


def test_kernels_of_cuda_are_compared_where_both_have_a_cuda() -> None:
    names = ("aten::tanh", "aten::other")
    entries = [operator(name, f"{name}(Tensor self) -> Tensor") for name in names]
    with_both = operators(*entries, kernels=tuple(kernel(name, "CUDA") for name in names))
    with_one = operators(*entries, kernels=(kernel(names[0], "CUDA"),))
    without = operators(*entries)
    (change,) = compare_sides(side(found=with_both), side(found=with_one)).dispatch
    assert (change.operator, change.removed) == ("aten::other", ("CUDA",))
    comparison = compare_sides(side(found=with_both), side(found=without))
    assert (comparison.cuda_compared, comparison.dispatch) == (False, ())


def test_the_api_is_the_same_or_not() -> None:
    one = operators(operator("aten::f", "aten::f(Tensor x) -> Tensor"), operator("aten::g", "aten::g() -> ()"))
    other = operators(operator("aten::f", "aten::f(Tensor x)->Tensor"), operator("aten::g", "aten::g(int n) -> ()"))
    whole = compare_sides(side(found=one), side(found=other))
    assert whole.old_api != whole.new_api
    of_f = compare_sides(side(found=one), side(found=other), Use(symbols=(), operators={"aten::f"}))
    assert of_f.old_api == of_f.new_api


def test_gaps_of_either_side_are_told() -> None:
    assert compare_sides(side(found=operators(gaps=("a",))), side(found=operators(gaps=("b",)))).gaps == (
        "torch: a",
        "torch: b",
    )


def test_layouts_that_changed() -> None:
    changes = {each.name: each.differences for each in compare_sides(side(), side(release="2.9.0")).layouts}
    assert changes["torch::CppFunction"][0] == "96 → 104 bytes"
    assert "c10::SymInt" not in changes
    assert compare_sides(side(), side()).layouts == ()


def test_layouts_of_what_an_extension_uses() -> None:
    use = Use(symbols={"_ZN5torch11CppFunctionD1Ev"}, operators=())
    assert [each.name for each in compare_sides(side(), side(release="2.9.0"), use).layouts] == ["torch::CppFunction"]


def test_a_torch_of_unknown_layouts_is_a_gap() -> None:
    comparison = compare_sides(side(), side(release="99.0"))
    assert comparison.layouts == ()
    assert "torch: class layouts are unknown" in comparison.gaps


PACKAGE = """import torch
import torch.autograd.profiler as profiler

def run(optimizer):
    torch.ops.aten.gone(optimizer)
    torch.ops.aten.stays.out(optimizer)
    profiler.format_time(1)
    return torch.onnx.export(optimizer, 1, "f", example_outputs=1)
"""


def test_what_of_a_package_breaks_has_its_lines() -> None:
    """torch 1.9.1 has ``format_time``, 1.10.0 has not; ``export`` took ``example_outputs`` up to 1.10.2."""
    files = PackageFiles(TextSources({"pack/__init__.py": PACKAGE}))
    code = PythonCode(files, ["pack"], Answer.UNKNOWN)
    use = Use(
        symbols={"a"},
        operators={"aten::mine"},
        names=code.all_torch_uses,
        code=code,
        libraries={"a": ["pack/_C.so"], "aten::mine": ["pack/_C.so"]},
    )
    entries = [operator(name, f"{name}() -> ()") for name in ("aten::gone", "aten::mine", "aten::stays.out")]
    old = Side(name="torch", exports={"libc10.so": frozenset("a")}, operators=operators(*entries), version="1.9.1")
    new = Side(name="torch", exports={"libc10.so": frozenset()}, operators=operators(), version="1.11.0")

    assert compare_sides(old, new, use).breaks == (
        Break(kind="name", name="torch.autograd.profiler.format_time", places=("pack/__init__.py:7",)),
        Break(
            kind="call",
            name="torch.onnx.export",
            error="export() got an unexpected keyword argument 'example_outputs'",
            places=("pack/__init__.py:8",),
        ),
        Break(kind="operator", name="aten::gone", places=("pack/__init__.py:5",)),
        Break(kind="operator", name="aten::stays.out", places=("pack/__init__.py:6",)),
        Break(kind="operator", name="aten::mine", places=("pack/_C.so",)),
        Break(kind="symbol", name="a", places=("pack/_C.so",)),
    )
    assert compare_sides(old, old, use).breaks == ()


def test_the_python_of_what_uses_torch_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = "import torch.autograd.profiler as profiler\nprofiler.format_time(1)\n"
    path = package_wheel(tmp_path, "timed", {}, files={"timed/__init__.py": code}, tag="py3-none-any")
    sides = {
        "old": Side(name="torch", exports={}, operators=operators(), version="1.9.1"),
        "new": Side(name="torch", exports={}, operators=operators(), version="1.10.0"),
    }
    monkeypatch.setattr(diff, "_make_side", lambda choice, *_: sides[choice])
    monkeypatch.setattr(diff, "_choose_alike", lambda _, side, *__: side)
    old, new = (cast("TorchChoice", name) for name in sides)
    found = diff.compare_torches(old, new, Machine.X86_64, path, Session(folder=tmp_path / "cache"))
    assert found.breaks == (
        Break(kind="name", name="torch.autograd.profiler.format_time", places=("timed/__init__.py:2",)),
    )
