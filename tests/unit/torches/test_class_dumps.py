"""What clang prints, read."""

from __future__ import annotations

from typing import Final

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


def test_records() -> None:
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
