"""What clang prints, read."""

from __future__ import annotations

from typing import Final

import pytest

from abiscan.torches.class_dumps import parse_records, parse_vtables

RECORDS: Final = """
*** Dumping AST Record Layout
         0 | class std::vector<int>
         0 |   struct std::_Vector_base<int> (base)
           | [sizeof=24, dsize=24, align=8,
           |  nvsize=24, nvalign=8]

*** Dumping AST Record Layout
         0 | class c10::Allocator
         0 |   (Allocator vtable pointer)
           | [sizeof=8, dsize=8, align=8,
           |  nvsize=8, nvalign=8]

*** Dumping AST Record Layout
         0 | struct c10::Thing
         0 |   class c10::Allocator (primary base)
         0 |     (Allocator vtable pointer)
         8 |   class std::vector<int> numbers_
         8 |     struct std::_Vector_base<int> (base)
    32:0-0 |   _Bool flag_
    32:1-7 |   unsigned int rest_
        40 |   const char * name_
        48 |   union c10::Thing::(anonymous at /some/where.h:3:3)\x20
        48 |     int inner
           | [sizeof=56, dsize=56, align=8,
           |  nvsize=56, nvalign=8]

*** Dumping AST Record Layout
         0 | struct c10::Empty (empty)
           | [sizeof=1, dsize=1, align=1,
           |  nvsize=1, nvalign=1]

*** Dumping AST Record Layout
         0 | struct at::_ops::add
         0 |   int x
           | [sizeof=4, dsize=4, align=4,
           |  nvsize=4, nvalign=4]
"""
VTABLES: Final = """Original map
Vtable for 'Probe' (7 entries).
   0 | offset_to_top (0)
   1 | Probe RTTI
       -- (Probe, 0) vtable address --
       -- (c10::Allocator, 0) vtable address --
   2 | Probe<c10::Allocator>::~Probe() [complete]
   3 | Probe<c10::Allocator>::~Probe() [deleting]
   4 | DataPtr c10::Allocator::allocate(size_t) [pure]
   5 | void c10::Allocator::copy(struct c10::Thing *)
   6 | void Probe<c10::Allocator>::probe() [T = c10::Allocator]

VTable indices for 'Probe' (3 entries).
   0 | Probe<c10::Allocator>::~Probe() [T = c10::Allocator] [complete]
"""

# What clang 19 prints for a class that has two bases, and for one that has a virtual base:
#     struct First { virtual void first(); virtual ~First(); };
#     struct Second { virtual void second(int) const; };
#     struct Both : First, Second { void second(int) const override; virtual void own(); };
#     struct Virt : virtual Second { virtual void virt(); };
SECOND_TABLES: Final = """Original map
 Probe<c10::Both>::~Probe() [T = c10::Both] -> c10::Both::~Both()
 c10::Both::~Both() -> c10::First::~First()
Vtable for 'Probe' (11 entries).
   0 | offset_to_top (0)
   1 | Probe RTTI
       -- (Probe, 0) vtable address --
       -- (c10::Both, 0) vtable address --
       -- (c10::First, 0) vtable address --
   2 | void c10::First::first()
   3 | Probe<c10::Both>::~Probe() [complete]
   4 | Probe<c10::Both>::~Probe() [deleting]
   5 | void c10::Both::second(int) const
   6 | void c10::Both::own()
   7 | void Probe<c10::Both>::probe() [T = c10::Both]
   8 | offset_to_top (-8)
   9 | Probe RTTI
       -- (c10::Second, 8) vtable address --
  10 | void c10::Both::second(int) const
       [this adjustment: -8 non-virtual] method: void c10::Second::second(int) const

VTable indices for 'Probe' (3 entries).
   1 | Probe<c10::Both>::~Probe() [T = c10::Both] [complete]
   2 | Probe<c10::Both>::~Probe() [T = c10::Both] [deleting]
   5 | void Probe<c10::Both>::probe() [T = c10::Both]

Vtable for 'Probe' (7 entries).
   0 | vbase_offset (0)
   1 | vcall_offset (0)
   2 | offset_to_top (0)
   3 | Probe RTTI
       -- (Probe, 0) vtable address --
       -- (c10::Second, 0) vtable address --
       -- (c10::Virt, 0) vtable address --
   4 | void c10::Second::second(int) const
   5 | void c10::Virt::virt()
   6 | void Probe<c10::Virt>::probe() [T = c10::Virt]

Virtual base offset offsets for 'Probe' (1 entry).
   c10::Second | -32

VTable indices for 'Probe' (1 entries).
   2 | void Probe<c10::Virt>::probe() [T = c10::Virt]
"""


def record(name: str, *rows: str, size: int = 8) -> str:
    """A class in clang's dump."""
    lines = [f"         0 | {name}", *rows, f"           | [sizeof={size}, dsize={size}, align=8,"]
    return "\n".join(["*** Dumping AST Record Layout", *lines, f"           |  nvsize={size}, nvalign=8]", ""])


def test_classes_in_a_dump_of_record_layouts() -> None:
    rows, polymorphic = parse_records(RECORDS)
    assert set(rows) == {"c10::Allocator", "c10::Thing"}
    assert polymorphic == {"c10::Allocator", "c10::Thing"}
    thing = rows["c10::Thing"]
    assert (thing.size, thing.align, thing.bases) == (56, 8, (("c10::Allocator", 0),))
    assert thing.fields == (
        ("numbers_", 8, "std::vector<int>", 24),
        ("flag_", 32, "bool : 0-0", None),
        ("rest_", 32, "unsigned int : 1-7", None),
        ("name_", 40, "const char *", None),
    )


def test_vtables() -> None:
    assert parse_vtables(VTABLES.splitlines()) == {
        "c10::Allocator": (
            "~ [complete]",
            "~ [deleting]",
            "DataPtr c10::Allocator::allocate(size_t) [pure]",
            "void c10::Allocator::copy(c10::Thing *)",
        )
    }


def test_tables_of_other_classes_than_those_that_are_probed_are_not_read() -> None:
    lines = VTABLES.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("Vtable for 'Probe'"))
    following = next((number for number, line in enumerate(lines[first + 1 :], first + 1) if not line), len(lines))
    assert parse_vtables(lines[first:following])
    assert parse_vtables(lines[first + 1 : following]) == {}


def test_the_primary_table_alone_is_read() -> None:
    """Itanium C++ ABI, 2.5.2: the tables of other bases follow it; what comes first in it are offsets and RTTI."""
    assert parse_vtables(SECOND_TABLES.splitlines()) == {
        "c10::Both": (
            "void c10::First::first()",
            "~ [complete]",
            "~ [deleting]",
            "void c10::Both::second(int) const",
            "void c10::Both::own()",
        ),
        "c10::Virt": ("void c10::Second::second(int) const", "void c10::Virt::virt()"),
    }


def test_a_class_without_virtual_functions_has_no_slots() -> None:
    lines = ["Vtable for 'Probe' (3 entries).", "   0 | offset_to_top (0)", "   1 | Probe RTTI"]
    assert parse_vtables([*lines, "   2 | void Probe<c10::X>::probe() [T = c10::X]"]) == {"c10::X": ()}
    assert parse_vtables(lines) == {}  # cut off


def test_bases_of_every_kind() -> None:
    text = record(
        "struct c10::Virt",
        "         0 |   (Virt vtable pointer)",
        "         8 |   struct c10::Plain (base) (empty)",
        "        16 |   struct c10::Second (virtual base)",
        "        16 |     (Second vtable pointer)",
        "        24 |   class c10::Primary (primary virtual base)",
        size=32,
    )
    rows, polymorphic = parse_records(text)
    row = rows["c10::Virt"]
    assert row.bases == (("c10::Plain", 8), ("c10::Second", 16), ("c10::Primary", 24))
    assert (row.fields, row.size) == ((), 32)
    assert polymorphic == {"c10::Virt"}


def test_a_class_is_polymorphic_if_a_member_of_its_base_is() -> None:
    """The pointer may be in a base of a base: its row is further in."""
    text = record(
        "struct c10::Derived",
        "         0 |   struct c10::Base (primary base)",
        "         0 |     (Base vtable pointer)",
    )
    assert parse_records(text)[1] == {"c10::Derived"}
    of_template = record("struct c10::Made<int>", "         0 |   (Made vtable pointer)")
    assert parse_records(of_template)[1] == set()  # whose functions are probed for each argument, which nobody asks for
    assert parse_records(of_template)[0].keys() == {"c10::Made<int>"}


def test_bit_fields_have_their_bits_and_classes_their_size() -> None:
    text = record("struct c10::In", "         0 |   int x", size=4) + record(
        "struct at::Has",
        "         0 |   struct c10::In in",
        "       4:3 |   unsigned int one",
        "     4:4-7 |   unsigned int four",
        "         8 |   struct c10::In[2] many",
        size=16,
    )
    assert parse_records(text)[0]["at::Has"].fields == (
        ("in", 0, "c10::In", 4),
        ("one", 4, "unsigned int : 3", None),
        ("four", 4, "unsigned int : 4-7", None),
        ("many", 8, "c10::In[2]", None),
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("struct c10::Thing", True),
        ("class at::Tensor", True),
        ("struct c10d::Work", True),
        ("class torch::nn::Module", True),
        ("class torch::nn::ModuleHolder", False),  # the front end: linked into whoever uses it
        ("class torch::optim::SGD", False),
        ("struct at::_ops::add", False),
        ("class std::vector<c10::Thing>", False),
        ("struct other::c10::Thing", False),
        ("class (lambda at /x/c10/y.h:3:4)", False),
        ("struct c10::(anonymous namespace)::Thing", False),
        ("struct c10::Made<" + "int, " * 40 + "int>", False),
        ("struct c10::Made<" + "int, " * 10 + "int>", True),
        ("struct c10::" + "M" * 155, True),  # 160 characters with the namespace, and one more
        ("struct c10::" + "M" * 156, False),
    ],
)
def test_the_classes_that_extensions_share(name: str, expected: bool) -> None:
    assert bool(parse_records(record(name, "         0 |   int x"))[0]) is expected


def test_a_class_is_kept_if_anything_is_in_it() -> None:
    assert parse_records(record("struct c10::Empty (empty)"))[0] == {}
    assert parse_records(record("struct c10::Tag", "         0 |   struct c10::Base (base) (empty)"))[0].keys() == {
        "c10::Tag"
    }
    assert parse_records("*** Dumping AST Record Layout\n         0 | struct c10::CutOff\n") == ({}, set())
    assert parse_records("") == ({}, set())
