"""Loops and keys that what is not known makes long end in time."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Iterator

import pytest

from abiscan.python.importing.runs import RunCache, Runs
from abiscan.python.interpreter.machine import Limits
from abiscan.python.interpreter.values import _is_small, is_concrete
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Raised
from abiscan.python.package.sources import PackageFiles
from abiscan.python.reading import read_package
from tests.clock import grows_linearly
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


EMPTIED = {
    "a set": ("set('abc')", "left.pop()"),
    "a dict": ("dict.fromkeys('abc')", "left.popitem()"),
    "a list": ("list('abc')", "del left[0]"),
    "a list in a generator": ("list('abc')", "yield left.pop()"),
}


@pytest.mark.parametrize("how", EMPTIED)
def test_a_loop_ends_where_it_may_have_emptied_what_it_goes_by(how: str) -> None:
    container, change = EMPTIED[how]
    lines = f"    left = {container}\n    while left:\n        {change}\n        numpy.add(1)\n"
    code = f"import numpy\ndef run():\n{lines}for thing in numpy.things:\n    list(run() or ())\n"
    runs = Runs(
        PythonCode(PackageFiles(TextSources({"p/__init__.py": code})), ["p"], (3, 11), Surroundings()),
        FakeWorld,
        Limits(),
        RunCache(),
    )
    assert runs.run("p").raised is None
    assert runs.steps < 200


RETURNING = {
    "a round that is far away": "n = 0\nwhile True:\n    n += 1\n    if n > 2_000: return 'in it'\n",
    "a condition that is not known": "while os.getpid():\n    return 'in it'\n",
    "items that are not known": "for x in os.environ['HOME']:\n    return 'in it'\n",
    "items of which there may be none": "for x in [y for y in 'a' if os.getpid()]:\n    return 'in it'\n",
}


@pytest.mark.parametrize("loop", RETURNING)
def test_a_loop_that_may_not_run_may_return(loop: str) -> None:
    """In Python, the function returns what the loop does on a machine with processes; past it, it would fail."""
    body = textwrap.indent(f"{RETURNING[loop]}return 'after it'\n", " " * 8)
    code = f"import os\ndef pick(pid):\n    if pid:\n{body}    return 'after it'\n"
    code += "if pick(os.getpid()) == 'after it':\n    raise ValueError\n"
    (outcome,) = read_package(TextSources({"p/__init__.py": code}), (), FakeWorld).imports
    assert not isinstance(outcome.raised, Raised)


def _count(key: object) -> int:
    return 1 + sum(map(_count, key)) if isinstance(key, tuple) else 1


def test_the_size_of_a_key_is_that_of_all_its_parts() -> None:
    choose = random.Random(58)
    keys: list[object] = ["a"]
    for _ in range(5_000):
        key = tuple(choose.choice([*keys, "x", 1]) for _ in range(choose.randint(0, 4)))
        assert _is_small(key) is (_count(key) < 500)
        keys = [*keys[-30:], key] if _is_small(key) else ["a"]


class _Noted(list[object]):
    """A list that notes how often it is gone through."""

    times = 0

    def __iter__(self) -> Iterator[object]:
        self.times += 1
        return super().__iter__()


def test_what_occurs_several_times_in_a_value_is_gone_through_once() -> None:
    inner = _Noted("ab")
    assert is_concrete([(inner,) * 300] * 300)
    assert inner.times == 1
    assert not is_concrete([(inner,) * 1_000] * 1_000)  # of which Python's own operations go through all


def _outcome_of(code: str) -> object:
    (outcome,) = read_package(TextSources({"p/__init__.py": code}), (), FakeWorld).imports
    return outcome.raised


def test_a_dict_that_grows_is_not_looked_through_for_each_key() -> None:
    code = "d = {{}}\nfor i in range({}):\n    d.setdefault(str(i), i)\n"
    assert grows_linearly(lambda n: lambda: _outcome_of(code.format(n)), 2_000)


@pytest.mark.parametrize(
    "change",
    ["{}", "del d['a']\n{}", "d.clear()\n{}", "{}\ndel d['a'], d['b']\nd['b'] = 2", "{}\nd['c'] = 1"],
)
def test_a_key_that_is_not_known_is_seen_in_a_dict_that_was_looked_through(change: str) -> None:
    looked_through = "import numpy\nd = {'a': 1, 'b': 2}\nd.get('x')\n"
    assert _outcome_of(f"{looked_through}{change.format('d[numpy.f()] = 3')}\nd['x']\n") is None
    assert isinstance(_outcome_of(f"{looked_through}{change.format('d[3] = 3')}\nd['x']\n"), Raised)


def test_a_function_that_calls_itself_in_a_branch_that_is_not_taken_is_looked_at_once() -> None:
    source = "import other\ndef f(x):\n" + "    f(x)\n" * 40 + "if other.f():\n    f(1)\n"
    code = PythonCode(PackageFiles(TextSources({"p/__init__.py": source})), ("p",), (3, 11))
    runs = Runs(code, FakeWorld, Limits(), RunCache())
    assert runs.run("p").raised is None
    assert runs.steps < 40 * 3
