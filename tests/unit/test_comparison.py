from __future__ import annotations

from collections.abc import Mapping

from abiscan.comparison import KeyChange, Side, SymbolChange, Use, compare
from abiscan.releases.operators import Kernel, Operator, Operators


def operator(name: str, schema: str) -> Operator:
    return Operator(name=name, schema=schema, tags=(), file=None, line=None)


def kernel(name: str, key: str) -> Kernel:
    return Kernel(operator=name, key=key, signature=None, schema=None, fallthrough=False, file=None, line=None)


def operators(*entries: Operator, kernels: tuple[Kernel, ...] = ()) -> Operators:
    return Operators(
        operators={entry.name: entry for entry in entries},
        kernels=kernels,
        fallbacks=(),
        namespaces={},
        classes=frozenset(),
        keys={},
        aliases={},
        gaps=(),
    )


def side(
    exports: Mapping[str, frozenset[str]] | None = None,
    keys: Mapping[int, str] | None = None,
    found: Operators | None = None,
) -> Side:
    return Side(name="torch", exports=exports or {}, keys=keys or {}, operators=found)


def test_symbols_come_and_go_by_library() -> None:
    old = side({"libc10.so": frozenset("ab"), "libgone.so": frozenset("x"), "libsame.so": frozenset("s")})
    new = side({"libc10.so": frozenset("bc"), "libsame.so": frozenset("s")})
    assert compare(old, new).symbols == (
        SymbolChange(library="libc10.so", added=("c",), removed=("a",)),
        SymbolChange(library="libgone.so", added=(), removed=("x",)),
    )


def test_an_extension_limits_symbols_to_its_own() -> None:
    old, new = side({"l": frozenset("abc")}), side({"l": frozenset("cd")})
    changes = compare(old, new, Use(symbols={"a", "c"}, operators=())).symbols
    assert changes == (SymbolChange(library="l", added=(), removed=("a",)),)


def test_dispatch_keys_are_renumbered() -> None:
    changes = compare(side(keys={1: "CPU", 2: "CUDA", 3: "Old"}), side(keys={1: "CPU", 3: "CUDA", 4: "New"})).keys
    assert changes == (
        KeyChange(key="CUDA", old=2, new=3),
        KeyChange(key="New", old=None, new=4),
        KeyChange(key="Old", old=3, new=None),
    )


def test_operators_come_and_go() -> None:
    old = operators(operator("aten::a", "aten::a() -> ()"), operator("aten::b", "aten::b() -> ()"))
    new = operators(operator("aten::b", "aten::b() -> ()"), operator("aten::c", "aten::c() -> ()"))
    comparison = compare(side(found=old), side(found=new))
    assert comparison.operators_known
    assert (comparison.operators_removed, comparison.operators_added) == (("aten::a",), ("aten::c",))
    assert comparison.schemas == ()


def test_a_changed_schema_says_where() -> None:
    old = operators(operator("aten::f", "aten::f(Tensor x, int n) -> Tensor"))
    new = operators(operator("aten::f", "aten::f(Tensor x, int count) -> Tensor"))
    (change,) = compare(side(found=old), side(found=new)).schemas
    assert (change.old, change.new) == ("aten::f(Tensor x, int n) -> Tensor", "aten::f(Tensor x, int count) -> Tensor")
    assert change.difference is not None
    assert "'n'" in change.difference


def test_a_change_that_torch_does_not_mind_is_still_a_change() -> None:
    # To operator== of torch, SymInt and int are one type (jit_type.h, the "fake" type of an argument).
    old = operators(operator("aten::f", "aten::f(int n) -> ()"))
    new = operators(operator("aten::f", "aten::f(SymInt n) -> ()"))
    (change,) = compare(side(found=old), side(found=new)).schemas
    assert change.difference is None


def test_another_spelling_is_no_change() -> None:
    old = operators(operator("aten::f", "aten::f(Tensor x)->Tensor"))
    new = operators(operator("aten::f", "aten::f(Tensor x) -> Tensor"))
    assert compare(side(found=old), side(found=new)).schemas == ()


def test_a_schema_that_cannot_be_parsed_is_shown_as_it_is() -> None:
    old = operators(operator("aten::f", "aten::f(Tensor x) -> Tensor"))
    new = operators(operator("aten::f", "aten::f(??"))
    (change,) = compare(side(found=old), side(found=new)).schemas
    assert (change.new, change.difference) == ("aten::f(??", None)


def test_dispatch_changes_by_key() -> None:
    name = "aten::tanh"
    entry = operator(name, "aten::tanh(Tensor self) -> Tensor")
    old = operators(entry, kernels=(kernel(name, "CompositeImplicitAutograd"),))
    new = operators(entry, kernels=(kernel(name, "CPU"), kernel(name, "CUDA")))
    (change,) = compare(side(found=old), side(found=new)).dispatch
    assert (change.removed, change.added) == (("CompositeImplicitAutograd",), ("CPU", "CUDA"))


def test_without_operators_on_one_side_nothing_is_said_of_them() -> None:
    comparison = compare(side(found=operators(operator("aten::a", "aten::a() -> ()"))), side())
    assert not comparison.operators_known
    assert comparison.operators_removed == ()
