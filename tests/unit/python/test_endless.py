"""Loops and keys that what is not known makes long end in time."""

from __future__ import annotations

import random

from abiscan.python.machine import Limits
from abiscan.python.reading import read_package
from abiscan.python.values import _is_small
from tests.unit.python.packages import FakeWorld, TextSources

LOOP = """
import numpy as o
for thing in o.things:
    while True:
        if o.ends(thing):
            break
"""


def test_a_loop_that_may_not_run_ends_where_its_end_is_not_known() -> None:
    limits = Limits(steps=100_000, total=1_000_000)
    (outcome,) = read_package(TextSources({"p/__init__.py": LOOP}), (), FakeWorld, limits=limits).imports
    assert outcome.raised is None
    assert not outcome.gaps


def _count(key: object) -> int:
    return 1 + sum(map(_count, key)) if isinstance(key, tuple) else 1


def test_the_size_of_a_key_is_that_of_all_its_parts() -> None:
    choose = random.Random(58)
    keys: list[object] = ["a"]
    for _ in range(5_000):
        key = tuple(choose.choice([*keys, "x", 1]) for _ in range(choose.randint(0, 4)))
        assert _is_small(key) is (_count(key) < 500)
        keys = [*keys[-30:], key] if _is_small(key) else ["a"]
