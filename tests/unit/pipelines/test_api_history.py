from __future__ import annotations

from abiscan.dispatch.operators import Kernel, Operator, Operators
from abiscan.pipelines.api_history import compare_releases


def torch(*schemas: str, kernels: tuple[tuple[str, str], ...] = (), gaps: tuple[str, ...] = ()) -> Operators:
    names = [schema.partition("(")[0] for schema in schemas]
    return Operators(
        operators={name: Operator(name, schema, (), None, None) for name, schema in zip(names, schemas, strict=True)},
        kernels=tuple(Kernel(name, key, None, None, False, None, None) for name, key in kernels),
        fallbacks=(),
        namespaces={},
        classes=frozenset(),
        keys={},
        aliases={},
        gaps=gaps,
    )


def test_a_release_is_compared_with_the_one_before() -> None:
    found = compare_releases(
        "_C.so",
        ["aten::f", "aten::g", "own::op"],
        {
            "1.5.0": torch("aten::f() -> ()", "aten::unused() -> ()"),
            "1.5.1": torch("aten::f() -> ()", "aten::unused(int n) -> ()"),
            "1.6.0": torch("aten::f(int n) -> ()", "aten::g() -> ()", kernels=(("aten::f", "CPU"),), gaps=("one",)),
        },
    )
    assert found.operators == ("aten::f", "aten::g")
    first, patch, minor = found.releases
    assert first.version == patch.version != minor.version
    assert (first.changes, patch.changes) == ((), ())
    assert [(change.operator, change.what) for change in minor.changes] == [
        ("aten::f", ("schema", "dispatch")),
        ("aten::g", ("added",)),
    ]
    assert (patch.gaps, minor.gaps) == (0, 1)
