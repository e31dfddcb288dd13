from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from abiscan.binary.elf import Machine, Reference, SymbolVersion
from abiscan.binary.symbols import Definition
from abiscan.linkage.model import Closure, Process
from abiscan.linkage.resolve import binds_to, relocation_order
from abiscan.linkage.scope import Loader, SearchPath
from tests.world import ObjectsByPath, shared_object

graphs = st.integers(1, 8).flatmap(
    lambda size: st.lists(st.lists(st.integers(0, size - 1), max_size=4, unique=True), min_size=size, max_size=size)
)
definitions = st.builds(
    Definition,
    st.sampled_from([None, "V_1", "V_2", "V_3"]),
    st.booleans(),
    st.integers(0, 6),
    st.just(2),
    st.integers(0, 64),
)


def opened(graph: list[list[int]]) -> Closure:
    objects = {str(node): shared_object(needed=map(str, needed)) for node, needed in enumerate(graph)}
    search = SearchPath(siblings={name: name for name in objects})
    return Loader(ObjectsByPath(objects), search, Machine.X86_64).open(Process(has_python=True), "0")


def reached(graph: list[list[int]]) -> set[int]:
    found, rest = {0}, [0]
    while rest:
        new = set(graph[rest.pop()]) - found
        found |= new
        rest += new
    return found


@given(graphs)
def test_the_closure_is_what_is_reached_each_once(graph: list[list[int]]) -> None:
    modules = [int(module.name) for module in opened(graph).modules]
    assert len(modules) == len(set(modules))
    assert set(modules) == reached(graph)
    assert modules[0] == 0


@given(graphs)
def test_relocation_order_is_a_permutation_that_ends_with_the_extension(graph: list[list[int]]) -> None:
    closure = opened(graph)
    order = relocation_order(closure)
    assert sorted(module.name for module in order) == sorted(module.name for module in closure.modules)
    assert order[-1] is closure.modules[0]


@given(graphs)
def test_dependencies_come_first_where_there_is_no_cycle(graph: list[list[int]]) -> None:
    acyclic = [[other for other in needed if other > node] for node, needed in enumerate(graph)]
    order = [int(module.name) for module in relocation_order(opened(acyclic))]
    place = {node: index for index, node in enumerate(order)}
    assert all(place[other] < place[node] for node in order for other in acyclic[node])


@given(st.sampled_from(["V_1", "V_2", "V_3"]), definitions, st.lists(definitions, max_size=3))
def test_a_version_never_gets_another(wanted: str, definition: Definition, rivals: list[Definition]) -> None:
    reference = Reference("f", SymbolVersion("liba.so", wanted), weak=False)
    if binds_to(reference, definition, [definition, *rivals]):
        assert definition.version == wanted or (definition.version is None and not definition.hidden)


@given(definitions, st.lists(definitions, max_size=3))
def test_a_hidden_definition_of_a_later_version_needs_to_be_asked_for(
    definition: Definition, rivals: list[Definition]
) -> None:
    bound = binds_to(Reference("f", None, weak=False), definition, [definition, *rivals])
    assert not (bound and definition.hidden and definition.version_index > 2)


@given(definitions, st.lists(definitions, max_size=3))
def test_a_version_always_gets_itself(definition: Definition, rivals: list[Definition]) -> None:
    version = definition.version or "V_9"
    bound = binds_to(Reference("f", SymbolVersion("liba.so", version), weak=False), definition, [definition, *rivals])
    assert bound == (definition.version is not None or not definition.hidden)
