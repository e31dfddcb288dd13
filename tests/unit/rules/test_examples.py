"""What the rules' documentation says of torch, held against the data on its releases."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import cast

import pytest
from packaging.version import Version

from abiscan.binary.elf import Machine
from abiscan.dispatch.keys import keys_of
from abiscan.linkage.layout_drift import TypeDrift
from abiscan.rules import dispatch_key_drift, layout_drift
from abiscan.torches.layouts import find_layout


def text_of(documentation: str) -> str:
    return " ".join(documentation.split())


def test_the_dispatch_keys_in_the_examples_have_the_numbers_that_they_give() -> None:
    text = text_of(dispatch_key_drift.RULE.documentation)
    prose = re.search(r"(\d+) is `(\w+)` in torch ([\d.]+) and `(\w+)` in torch ([\d.]+): (\S+) dropped `(\w+)`", text)
    example = re.search(r"key (\d+), which is (\w+) in torch ([\d.]+) but (\w+) in torch ([\d.]+)`", text)
    assert prose is not None
    assert example is not None
    for number, old_name, old, new_name, new, *_ in (prose.groups(), example.groups()):
        assert keys_of(Version(old)).name(int(number)) == old_name
        assert keys_of(Version(new)).name(int(number)) == new_name


def test_the_dropped_key_moved_the_keys_after_it_down_by_one() -> None:
    text = text_of(dispatch_key_drift.RULE.documentation)
    match = re.search(r"in torch ([\d.]+) and `\w+` in torch ([\d.]+): \2 dropped `(\w+)`, and the keys after", text)
    assert match is not None
    old, new, dropped = match.groups()
    before = {name: number for number, name in keys_of(Version(old)).names.items()}
    after = {name: number for number, name in keys_of(Version(new)).names.items()}
    assert before.keys() - after.keys() == {dropped}
    later = {name: number for name, number in before.items() if number > before[dropped]}
    assert later
    assert {name: after[name] for name in later} == {name: number - 1 for name, number in later.items()}


def test_the_sizes_in_the_example_of_layout_drift_are_those_of_the_releases() -> None:
    text = text_of(layout_drift.RULE.documentation)
    match = re.search(r"`sizeof\(([\w:]+)\)` is (\d+) in ([\d.]+) and (\d+) in ([\d.]+)\.$", text)
    assert match is not None
    name, old_size, old, new_size, new = match.groups()
    for version, size in ((old, old_size), (new, new_size)):
        known = find_layout(name, f"{version}.0", Machine.X86_64)
        assert known is not None
        assert known.size == int(size)


@pytest.mark.parametrize(
    ("field", "said"),
    [("key_set_", "c10::Storage (8 bytes, members moved)"), ("base class", "c10::Storage (another base)")],
)
def test_how_a_class_of_the_same_size_differs(field: str, said: str) -> None:
    """What has no name of a member is told by its difference."""
    new = SimpleNamespace(size=8, fields=[SimpleNamespace(name=field)])
    change = SimpleNamespace(name="c10::Storage", resized=False, new=new, differences=("another base",))
    assert layout_drift._format_sizes(cast("TypeDrift", SimpleNamespace(change=change))) == said
