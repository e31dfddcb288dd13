"""What counts as a change of layout."""

from __future__ import annotations

from typing import Final

import pytest

from abiscan.binary.elf import Machine
from abiscan.torches import layouts
from abiscan.torches.layout_changes import (
    _match_renamed,
    change_between,
    layout_change,
    layout_changes,
    method_name,
    slots_between,
)
from abiscan.torches.layouts import Base, Field, Layout, ReleaseLayouts, VTable

X86: Final = Machine.X86_64


def cls(size: int, *fields: tuple[str, int, str, int | None], bases: tuple[tuple[str, int], ...] = ()) -> Layout:
    return Layout("c10::C", size, 8, tuple(Base(*base) for base in bases), tuple(Field(*field) for field in fields))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], Layout]:
    """Classes by name and release, in place of the embedded ones."""
    classes: dict[tuple[str, str], Layout] = {}
    monkeypatch.setattr(layouts, "find_layout", lambda name, release, _: classes.get((name, release)))
    change_between.cache_clear()
    return classes


@pytest.fixture(autouse=True)
def _forget() -> object:
    yield
    change_between.cache_clear()
    slots_between.cache_clear()


def change(world: dict[tuple[str, str], Layout], old: Layout, new: Layout) -> object:
    world["c10::C", "1"], world["c10::C", "2"] = old, new
    found = layout_change("c10::C", "1", "2", X86)
    return found and (found.differences, found.moved, found.resized)


def test_equal_layouts_have_no_change(world: dict[tuple[str, str], Layout]) -> None:
    same = cls(8, ("x", 0, "int", None))
    assert change(world, same, same) is None


def test_growth_at_the_end_moves_nothing(world: dict[tuple[str, str], Layout]) -> None:
    found = change(world, cls(8, ("x", 0, "int", None)), cls(16, ("x", 0, "int", None), ("y", 8, "int", None)))
    assert found == (("8 → 16 bytes", "y (int) is new at 8"), False, True)


def test_a_member_in_between_moves_the_rest(world: dict[tuple[str, str], Layout]) -> None:
    found = change(world, cls(8, ("x", 0, "int", None)), cls(16, ("y", 0, "long", None), ("x", 8, "int", None)))
    assert found == (("8 → 16 bytes", "y (long) is new at 0", "x moved from 0 to 8"), True, True)


@pytest.mark.parametrize(
    ("old", "new", "renamed"),
    [
        (("x", 0, "A", 8), ("y", 0, "B", 8), True),  # a class that may have been renamed with its member
        (("x", 0, "A", 8), ("y", 0, "B", 4), False),
        (("x", 0, "A", None), ("y", 0, "B", None), False),  # of types that are no classes, nobody knows the size
        (("x", 0, "A", None), ("y", 0, "A", None), True),
        (("x", 0, "A", 8), ("y", 8, "A", 8), False),
    ],
)
def test_what_counts_as_renamed(
    old: tuple[str, int, str, int | None], new: tuple[str, int, str, int | None], renamed: bool
) -> None:
    assert _match_renamed({"x": Field(*old)}, {"y": Field(*new)}) == ({"x": "y"} if renamed else {})


def test_another_name_at_the_same_place_is_no_change(world: dict[tuple[str, str], Layout]) -> None:
    assert change(world, cls(8, ("x", 0, "int", None)), cls(8, ("x_", 0, "int", None))) is None


def test_moving_into_a_base_class_is_no_change(world: dict[tuple[str, str], Layout]) -> None:
    world["c10::B", "2"] = cls(8, ("x", 0, "int", None))
    assert change(world, cls(8, ("x", 0, "int", None)), cls(8, bases=(("c10::B", 0),))) is None


def test_what_happens_in_a_member_alone_is_inherited(world: dict[tuple[str, str], Layout]) -> None:
    def inherited(*new_fields: tuple[str, int, str, int | None], size: int = 8) -> str | None:
        world["c10::A", "1"] = Layout("c10::A", 4, 4, (), (Field("x", 0, "int", 4),))
        world["c10::A", "2"] = Layout("c10::A", 4, 4, (), (Field("x", 0, "int", 4), Field("y", 0, "float", 4)))
        world["c10::B", "1"] = Layout("c10::B", 8, 8, (), (Field("a", 0, "c10::A", 4),))
        world["c10::B", "2"] = world["c10::B", "1"]
        world["c10::C", "1"] = cls(8, ("b", 0, "c10::B", 8))
        world["c10::C", "2"] = cls(size, ("b", 0, "c10::B", 8), *new_fields)
        change_between.cache_clear()
        found = layout_change("c10::C", "1", "2", X86)
        assert found is not None
        return found.inherited_from

    assert inherited() == "c10::A"
    assert inherited(("z", 4, "int", 4)) is None
    assert inherited(size=16) is None


def test_a_union_that_loses_a_member_is_no_move(world: dict[tuple[str, str], Layout]) -> None:
    found = change(world, cls(8, ("x", 0, "int", None), ("y", 0, "long", None)), cls(8, ("x", 0, "int", None)))
    assert found == (("y (long) at 0 is gone",), False, False)


def test_bits_that_move(world: dict[tuple[str, str], Layout]) -> None:
    found = change(world, cls(8, ("x", 0, "bool : 0-0", None)), cls(8, ("x", 0, "bool : 1-1", None)))
    assert found == (("x moved from bits 0-0 to 1-1 of byte 0",), True, False)


def test_a_change_of_a_member_s_class_is_one(world: dict[tuple[str, str], Layout]) -> None:
    world["c10::M", "1"], world["c10::M", "2"] = cls(8, ("a", 0, "int", None)), cls(8, ("a", 4, "int", None))
    outer = cls(16, ("m", 8, "c10::M", 8))
    assert change(world, outer, outer) == (("m (c10::M): a moved from 0 to 4",), True, False)


def test_elements_that_grow_move_the_next_ones(world: dict[tuple[str, str], Layout]) -> None:
    world["c10::M", "1"], world["c10::M", "2"] = cls(8), cls(16, ("a", 8, "int", None))
    outer = cls(24, ("m", 0, "std::vector<c10::M>", 24))
    assert change(world, outer, outer) == (("m (c10::M): 8 → 16 bytes", "m (c10::M): a (int) is new at 8"), True, False)


def test_another_alignment_moves_what_comes_after(world: dict[tuple[str, str], Layout]) -> None:
    """An object of the class as a member, or on the stack, may be where the new code cannot have it."""
    aligned = Layout("c10::C", 8, 16, (), (Field("x", 0, "int", None),))
    assert change(world, cls(8, ("x", 0, "int", None)), aligned) == (("aligned to 8 → 16 bytes",), True, False)


def test_what_a_resized_member_has_in_it_follows_its_own_size(world: dict[tuple[str, str], Layout]) -> None:
    world["c10::M", "1"] = Layout("c10::M", 8, 8, (), (Field("a", 0, "int", None),))
    world["c10::M", "2"] = Layout("c10::M", 16, 16, (), (Field("a", 8, "int", None),))
    old, new = cls(8, ("m", 0, "c10::M", 8)), cls(16, ("m", 0, "c10::M", 16))
    world["c10::C", "1"], world["c10::C", "2"] = old, new
    found = layout_change("c10::C", "1", "2", X86)
    assert found is not None
    assert found.moved
    assert found.differences[0] == "8 → 16 bytes"
    assert "m (c10::M): aligned to 8 → 16 bytes" in found.differences
    assert "m (c10::M): a moved from 0 to 8" in found.differences
    assert found.differences.count("m (c10::M): 8 → 16 bytes") == 1  # m has that size, and so has its class


def test_elements_that_keep_their_size_stay_where_they_are(world: dict[tuple[str, str], Layout]) -> None:
    """A new member in the gap at the end of each element moves no other element."""
    world["c10::M", "1"] = cls(8, ("a", 0, "int", None))
    world["c10::M", "2"] = cls(8, ("a", 0, "int", None), ("b", 4, "int", None))
    outer = cls(24, ("m", 0, "std::vector<c10::M>", 24))
    assert change(world, outer, outer) == (("m (c10::M): b (int) is new at 4",), False, False)


def test_what_a_member_that_grew_has_in_it(world: dict[tuple[str, str], Layout]) -> None:
    """Its own size is said once, as that of the member; everything else in it follows."""
    world["c10::M", "1"] = cls(8, ("a", 0, "int", None))
    world["c10::M", "2"] = cls(16, ("a", 0, "int", None), ("b", 8, "int", None))
    old, new = (cls(size, ("m", 0, "c10::M", size)) for size in (8, 16))
    assert change(world, old, new) == (
        ("8 → 16 bytes", "m (c10::M): 8 → 16 bytes", "m (c10::M): b (int) is new at 8"),
        True,
        True,
    )


def test_the_size_is_said_first_and_then_the_alignment(world: dict[tuple[str, str], Layout]) -> None:
    new = Layout("c10::C", 16, 16, (), (Field("x", 0, "int", None), Field("y", 8, "int", None)))
    assert change(world, cls(8, ("x", 0, "int", None)), new) == (
        ("8 → 16 bytes", "aligned to 8 → 16 bytes", "y (int) is new at 8"),
        True,
        True,
    )


def test_members_of_bases_of_bases_are_where_all_of_these_are(world: dict[tuple[str, str], Layout]) -> None:
    """x is 8 bytes in A, which is 16 bytes in B, which is 32 bytes in C; of U nothing is known."""
    for release in ("1", "2"):
        world["c10::A", release] = cls(16, ("x", 8, "int", None))
        world["c10::B", release] = cls(48, ("y", 8, "int", None), bases=(("c10::A", 16), ("other::U", 32)))
    own = cls(96, ("y", 40, "int", None), ("x", 56, "int", None), bases=(("other::U", 64),))
    assert change(world, cls(96, bases=(("c10::B", 32),)), own) is None
    assert change(world, own, cls(96, bases=(("c10::B", 32),))) is None
    elsewhere = cls(96, bases=(("c10::B", 40),))
    world["c10::C", "1"], world["c10::C", "2"] = own, elsewhere
    change_between.cache_clear()
    found = layout_change("c10::C", "1", "2", X86)
    assert found is not None
    assert {*found.differences} == {
        "y moved from 40 to 48", "x moved from 56 to 64", "other::U moved from 64 to 72"
    }  # fmt: skip


COUNT: Final = "std::atomic<uint32_t>"


@pytest.mark.parametrize(
    ("gone", "new", "moved"),
    [
        # As in c10::intrusive_ptr_target, whose refcount_ (at 8) and weakcount_ (at 12) became one word at 8: who reads
        # the old ones finds them in it.
        (("weak", 12, COUNT, None), ("both", 8, "std::atomic<uint64_t>", None), False),
        (("count", 8, COUNT, None), ("both", 8, "std::atomic<uint64_t>", None), False),
        (("count", 15, "unsigned int", None), ("both", 8, "size_t", None), False),
        (("count", 16, COUNT, None), ("both", 8, "std::atomic<uint64_t>", None), True),  # behind the word
        (("count", 8, COUNT, None), ("both", 12, "std::atomic<uint64_t>", None), True),  # before it
        (("real", 12, "float", None), ("both", 8, "std::atomic<uint64_t>", None), True),
        (("weak", 12, COUNT, None), ("real", 8, "double", None), True),
    ],
)
def test_counters_that_became_one_word(
    gone: tuple[str, int, str, int | None],
    new: tuple[str, int, str, int | None],
    moved: bool,
    world: dict[tuple[str, str], Layout],
) -> None:
    found = change(world, cls(24, gone), cls(24, new))
    assert found == (
        (f"{new[0]} ({new[2]}) is new at {new[1]}", f"{gone[0]} ({gone[2]}) at {gone[1]} is gone"),
        moved,
        False,
    )


@pytest.mark.parametrize(
    ("kept", "gone"),
    [
        (("count", 8, COUNT, None), ("weak", 12, COUNT, None)),  # no new word: the old one is what it was
        (("x", 0, "int", None), ("y", 4, "int", None)),
        (("x", 0, "bool : 0-0", None), ("y", 0, "bool : 1-1", None)),  # a bit beside it, not a member of a union
    ],
)
def test_a_member_that_is_gone_is_missed(
    kept: tuple[str, int, str, int | None],
    gone: tuple[str, int, str, int | None],
    world: dict[tuple[str, str], Layout],
) -> None:
    found = change(world, cls(16, kept, gone), cls(16, kept))
    assert found == ((f"{gone[0]} ({gone[2]}) at {gone[1]} is gone",), True, False)


def test_a_class_in_place_of_something_else_is_no_move(world: dict[tuple[str, str], Layout]) -> None:
    """Of what is no class, the size is not known: it may be the same."""
    found = change(world, cls(8, ("x", 0, "c10::A", 8)), cls(8, ("x", 0, "void *", None)))
    assert found == (("x: c10::A → void *",), False, False)


def test_all_changes_of_a_release() -> None:
    """2.9 put a std::shared_ptr in place of an intrusive_ptr into c10::KernelFunction; 2.9.1 changed no class."""
    changes = layout_changes("2.8.0", "2.9.0", X86)
    assert {"torch::CppFunction", "c10::KernelFunction"} <= changes.keys()
    assert "torch::Library" not in changes
    assert all(name == one.name for name, one in changes.items())
    assert layout_changes("2.9.0", "2.9.1", X86) == {}


def test_a_class_that_one_release_lacks_is_no_change(world: dict[tuple[str, str], Layout]) -> None:
    world["c10::C", "1"] = cls(8)
    assert layout_change("c10::C", "1", "2", X86) is None


def test_real_changes() -> None:
    grown = layout_change("c10::KernelFunction", "2.8.0", "2.9.0", X86)
    assert grown is not None
    assert (grown.moved, grown.resized) == (False, True)
    moved = layout_change("torch::CppFunction", "2.8.0", "2.9.0", X86)
    assert moved is not None
    assert "debug_ moved from 64 to 72" in moved.differences
    assert layout_change("c10::ArrayRef<long>", "2.8.0", "2.13.0", X86) is None
    assert layout_change("torch::CppFunction", "2.9.0", "2.13.0", X86) is None


def test_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {
        "1": VTable("c10::C", ("~ [complete]", "void c10::C::f(int)", "void c10::C::g() [pure]")),
        "2": VTable("c10::C", ("~ [complete]", "void c10::C::f(long)", "int c10::C::h()", "void c10::C::g()")),
    }
    monkeypatch.setattr(layouts, "find_vtable", lambda _name, release, _machine: tables.get(release))
    slots_between.cache_clear()
    first, second, third = (ReleaseLayouts(release, X86) for release in ("1", "2", "3"))
    changes = slots_between("c10::C", first, second)
    found = [(change.number, method_name(change.old), method_name(change.new)) for change in changes]
    assert found == [(2, "g", "h"), (3, None, "g")]
    assert slots_between("c10::C", first, third) == ()
