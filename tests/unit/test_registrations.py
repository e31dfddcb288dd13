"""What registrations say of themselves."""

from __future__ import annotations

import pytest

from abiscan.registrations import ALLOCATOR, ALLOCATOR_SETTINGS, Lookup, Phase, Registry, version_of


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0x020A_0000_0000_0000, "2.10.0"),  # torch/headeronly/version.h: major, minor, patch, then five bytes of zero
        (0x0209_0100_0000_0000, "2.9.1"),
        (0x02FF_FF00_0000_0000, "2.255.255"),
        (0x0308_0000_0000_0000, None),
        (0x0108_0000_0000_0000, None),
        (0x0208_0000_0000_0001, None),
        (0x0208_0080_0000_0000, None),
        (2, None),
        (0, None),
    ],
)
def test_the_release_in_a_number(number: int, expected: str | None) -> None:
    assert version_of(number) == expected


@pytest.mark.parametrize(
    ("what", "priority", "expected"),
    [
        ("C10FlagsRegistry", 1, True),  # a c10::Registry: its entries have priorities
        ("C10FlagsRegistry", 0, True),
        ("device-guard", None, False),
        (ALLOCATOR, 3, False),  # a table of allocators, each of which has one, too
        (ALLOCATOR, None, False),
        (ALLOCATOR_SETTINGS, None, True),
    ],
)
def test_registries_that_torch_fills_as_well(what: str, priority: int | None, expected: bool) -> None:
    entry = Registry(what=what, key=1, priority=priority, phase=Phase.STATIC_INIT, order=0)
    assert entry.is_shared is expected


@pytest.mark.parametrize(
    ("function", "stable", "throws"),
    [
        ("aoti_torch_call_dispatcher", True, True),
        ("torch_call_dispatcher", True, True),
        ("c10::Dispatcher::findSchemaOrThrow", False, True),
        ("c10::Dispatcher::findSchema", False, False),
        ("at::_ops", False, False),
    ],
)
def test_what_a_lookup_calls(function: str, stable: bool, throws: bool) -> None:
    lookup = Lookup(operator="aten::add", function=function, address=None)
    assert (lookup.is_stable_call, lookup.throws) == (stable, throws)
