"""What is recorded, in the terms of torch's ``library.cpp``."""

from __future__ import annotations

import pytest

from abiscan.emulation.recorder import Recorder, name_as_read, operator_name
from abiscan.emulation.recovery import _without_order
from abiscan.registrations import LibraryKind, Phase


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ns::f(Tensor x) -> ()", "ns::f"),
        (" ns :: f . out (Tensor x) -> ()", "ns::f.out"),
        ("f.", "f"),
        ("f", "f"),
        ("f g(int x) -> ()", "f g"),  # blanks inside a word stay: torch refuses them
    ],
)
def test_the_name_of_an_operator(text: str, name: str) -> None:
    assert operator_name(text) == name


def test_a_name_is_read_without_blanks_around_its_parts() -> None:
    assert name_as_read(" a ::b. c ") == "a::b.c"


def test_a_library_gives_what_its_parts_leave_out() -> None:
    recorder = Recorder()
    library = recorder.library(LibraryKind.IMPL, "ns", 5, "x.cpp", 7)
    operator = recorder.define(library, "f(int x) -> ()", tags=(1,), alias_analysis=2)
    assert (operator.name, operator.schema, operator.inferred) == ("ns::f", "ns::f(int x) -> ()", False)
    assert (operator.file, operator.line, operator.library, operator.order) == ("x.cpp", 7, library, 1)
    assert (operator.tags, operator.alias_analysis, operator.jit_only) == ((1,), 2, False)
    recorder.kernel(library, "f.", None)
    recorder.kernel(library, "other::g", 6)
    recorder.fallback(library, 0, fallthrough=True)
    assert [(kernel.operator, kernel.dispatch_key) for kernel in recorder.registered().kernels] == [
        ("ns::f", 5),
        ("other::g", 6),
    ]
    assert [(kernel.order, kernel.library, kernel.line) for kernel in recorder.registered().kernels] == [
        (2, library, 7),
        (3, library, 7),
    ]
    (fallback,) = recorder.registered().fallbacks
    assert (fallback.dispatch_key, fallback.fallthrough, fallback.order, fallback.library) == (5, True, 4, library)


def test_what_needs_no_library() -> None:
    recorder = Recorder()
    operator = recorder.define(None, "f(int x) -> ()", jit_only=True)
    assert (operator.name, operator.file, operator.line, operator.library) == ("f", None, None, None)
    assert not recorder.has_operator("f")  # the dispatcher does not know those of the JIT
    recorder.define(None, "g", inferred="(int _0) -> ()", built=True)
    assert recorder.has_operator("g")
    assert recorder.registered().operators[1].schema == "g(int _0) -> ()"
    assert recorder.registered().operators[1].inferred
    assert recorder.built == {"g"}
    assert recorder.define(None, "h").schema is None
    recorder.kernel(None, "f", None)
    recorder.fallback(None, None, fallthrough=False)
    for record in (recorder.registered().kernels[0], recorder.registered().fallbacks[0]):
        assert (record.dispatch_key, record.file, record.line, record.library) == (None, None, None, None)


def test_the_wildcard_is_no_namespace_and_undefined_is_no_key() -> None:
    recorder = Recorder()
    library = recorder.library(LibraryKind.IMPL, "_", 0, None, None)
    assert (library.namespace, library.dispatch_key) == (None, None)
    recorder.kernel(library, "f", 0)
    assert (recorder.registered().kernels[0].operator, recorder.registered().kernels[0].dispatch_key) == ("f", None)


def test_a_kernel_that_comes_with_its_definition_has_its_place() -> None:
    recorder = Recorder()
    first = recorder.define(None, "f(int x) -> ()")
    recorder.kernel(None, "f", 3, definition=first)
    recorder.define(None, "g(int x) -> ()")
    assert recorder.registered().kernels[0].order == first.order == 0
    assert recorder.registered().operators[1].order == 1


def test_methods_belong_to_the_class_that_was_registered_last() -> None:
    recorder = Recorder()
    recorder.custom_class("ns.A")
    recorder.method("ns.A", "first")
    recorder.custom_class("ns.A")
    recorder.method("ns.A", "second")
    recorder.method("ns.B", "of_no_class_so_far")
    found = [(each.name, each.methods) for each in recorder.registered().classes]
    assert found == [("ns.A", ("first",)), ("ns.A", ("second",)), ("ns.B", ("of_no_class_so_far",))]


def test_what_functions_register_that_are_called_counts_once() -> None:
    """Nobody knows how often they are called; while the object is loaded, twice is twice."""
    recorder = Recorder()
    for phase, classes, entries in ((Phase.STATIC_INIT, 2, 2), (Phase.ON_CALL, 2, 3)):
        recorder.phase = phase
        for _ in range(2):
            recorder.custom_class("ns.A")
            recorder.registry("One", "key", 1)
        assert (len(recorder.registered().classes), len(recorder.registered().registries)) == (classes, entries)
    recorder.custom_class("ns.B")
    recorder.registry("One", "other")
    recorder.registry("Other", "key")
    assert (len(recorder.registered().classes), len(recorder.registered().registries)) == (3, 5)
    assert [entry.priority for entry in recorder.registered().registries] == [1, 1, 1, None, None]


def test_what_was_recorded_since() -> None:
    """Compared without the order, which another run of the same code may have otherwise."""
    one, other = Recorder(), Recorder()
    other.fallback(None, 3, fallthrough=False)
    found = []
    for recorder in (one, other):
        count = recorder.count
        assert list(recorder.since(count)) == []
        library = recorder.library(LibraryKind.DEF, "ns", None, "x.cpp", 1)
        recorder.define(library, "f(int x) -> ()")
        recorder.registry("One", "key")
        found.append(list(map(_without_order, recorder.since(count))))
    assert found[0] == found[1]
    assert len(found[0]) == 3
    assert (one.count, other.count) == (3, 4)
