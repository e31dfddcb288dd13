"""What is packed comes back: for every build, all of it or some operators, kernels in their order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abiscan.dispatch.operators import Fallback, Kernel, Operator, Operators, Place
from tests.tables import operator_table

# Few values each, so that builds have things in common, and differ.
NAMES = st.sampled_from(("aten::add", "aten::add.out", "aten::cat", "prims::add", "noname"))
NAMED = st.sampled_from(("CPU", "Meta", "Autograd"))
KEYS = st.none() | NAMED
FILES = st.sampled_from((None, "/src/aten/src/R.cpp", "/src/build/aten/src/S.cpp", "/else/where.cpp", "=odd.cpp"))
LINES = st.none() | st.integers(min_value=1, max_value=3)
TEXTS = st.sampled_from(
    (None, "", "(Tensor a) -> Tensor", "aten::add(Tensor a) -> ()", "aten::add.out(Tensor a) -> ()")
)
KERNELS = st.builds(
    Kernel, NAMES, KEYS, st.sampled_from((None, "FN2at6TensorERKS0_E", "FvvE")), TEXTS, st.booleans(), FILES, LINES
)
OPERATORS = st.builds(
    Operators,
    operators=st.lists(st.builds(Operator, NAMES, TEXTS, st.lists(st.sampled_from("ab")).map(tuple), FILES, LINES)).map(
        lambda found: {operator.name: operator for operator in found}
    ),
    kernels=st.lists(KERNELS, max_size=30).map(tuple),
    fallbacks=st.lists(st.builds(Fallback, KEYS, st.booleans(), FILES, LINES)).map(tuple),
    namespaces=st.dictionaries(NAMES, st.builds(Place, FILES, LINES)),
    classes=st.frozensets(NAMES),
    keys=st.dictionaries(st.integers(min_value=0, max_value=9), NAMED),
    aliases=st.dictionaries(NAMED, st.frozensets(NAMED)),
    gaps=st.lists(NAMES).map(tuple),
)


def by_operator(kernels: Iterable[Kernel]) -> dict[str, list[Kernel]]:
    found = defaultdict(list)
    for kernel in kernels:
        found[kernel.operator].append(kernel)
    return found


def same(one: Operators, other: Operators) -> bool:
    return (
        one.operators == other.operators
        and by_operator(one.kernels) == by_operator(other.kernels)
        and one.fallbacks == other.fallbacks
        and one.namespaces == other.namespaces
        and one.classes == other.classes
        and one.keys == other.keys
        and one.aliases == other.aliases
        and one.gaps == other.gaps
    )


def only(found: Operators, names: Iterable[str]) -> Operators:
    return Operators(
        operators={name: found.operators[name] for name in names if name in found.operators},
        kernels=tuple(kernel for kernel in found.kernels if kernel.operator in names),
        fallbacks=found.fallbacks,
        namespaces=found.namespaces,
        classes=found.classes,
        keys=found.keys,
        aliases=found.aliases,
        gaps=found.gaps,
    )


@pytest.mark.slow
@given(st.lists(OPERATORS, min_size=1, max_size=4), st.sets(NAMES))
def test_a_table_answers_as_the_builds_it_was_made_of(builds: list[Operators], names: set[str]) -> None:
    table = operator_table(*builds)
    assert table.meta == list(range(len(builds)))
    assert table.all_names >= {name for found in builds for name in found.operators}
    for number, found in enumerate(builds):
        assert table.names(number) == found.operators.keys()
        assert table.namespaces(number) == {name.partition("::")[0] for name in found.operators}
        bases = {name.partition(".")[0] for name in found.operators}
        assert all(
            table.has_operator(number, name) is (name in found.operators or name in bases)
            for name in {*table.all_names, *names, *bases}
        )
        assert same(table.operators(number), found)
        assert same(table.operators(number, names), only(found, names))
