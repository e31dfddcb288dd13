"""A call that only computes is made once, and no call gives anything but what Python gives."""

from __future__ import annotations

import pytest

from abiscan.python import kept_calls
from abiscan.python.machine import Limits
from abiscan.python.model import Raised
from abiscan.python.reading import read_package
from abiscan.python.runs import UNFINISHED
from tests.unit.python.packages import FakeWorld, TextSources, reading_of

COUNT = """
def count(most):
    found = {}
    for number in range(800):
        found.setdefault(number % most, []).append(str(number))
    return found
"""
PROGRAMS = {
    "what it gives is changed by its caller": f"{COUNT}first = count(2)\nfirst[0].clear()\nresult = count(2), first",
    "its arguments differ": f"{COUNT}result = count(2), count(3), count(True)",
    "a name that it uses changes": """
names = ["a"]
def join(text):
    found = ""
    for _ in range(800):
        found = text.join(names)
    return found
result = [join("-"), names.append("b"), join("-")]
""",
    "it changes a list of the module": """
names = []
def collect(text):
    alias = {"all": names}
    for number in range(800):
        alias["all"].append(number)
    return len(names)
result = collect("a"), collect("a")
""",
    "it changes a name of the module": """
calls = 0
def tell(text):
    global calls
    calls += 1
    for _ in range(800): pass
    return calls
result = tell("a"), tell("a")
""",
    "it calls what changes a name": """
calls = []
def note(text):
    calls.append(text)
def tell(text):
    for _ in range(800): pass
    note(text)
    return len(calls)
result = tell("a"), tell("a")
""",
    "its default can change": """
def tell(text, calls=[]):
    for _ in range(800): pass
    calls.append(text)
    return len(calls)
result = tell("a"), tell("a")
""",
    "it makes objects": """
class Made:
    made = 0
def make(text):
    for _ in range(800): pass
    Made.made += 1
    return Made.made
result = make("a"), make("a")
""",
    "a function that it calls is replaced": """
def inner(text): return text
def outer(text):
    for _ in range(800): pass
    return inner(text)
first = outer("a")
def inner(text): return text * 2
result = first, outer("a")
""",
    "it raises": """
def fail(text):
    for _ in range(800): pass
    return {}[text]
result = []
for _ in range(2):
    try: fail("a")
    except KeyError as error: result.append(str(error))
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_call_gives_what_python_gives(program: str) -> None:
    names: dict[str, object] = {}
    exec(program, names)
    (outcome,) = reading_of({"p/__init__.py": f"{program}\nraise ValueError(repr(result))\n"}, FakeWorld()).imports
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.message == repr(names["result"])


LISTING = """import os, importlib.util
def list_names(folder):
    found = {}
    for entry in os.scandir(folder):
        with open(entry.path, encoding="utf-8") as file:
            for line in file.read().splitlines():
                if line.startswith("def "):
                    found.setdefault(entry.name, set()).add(line[4:].partition("(")[0])
    return found
if importlib.util.find_spec("other") is not None:
    raise ImportError("with the other one")
"""


def test_the_sources_are_listed_once_for_all_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    count_parts = kept_calls._count_parts

    def noting(result: object) -> int:
        made.append(result)
        return count_parts(result)

    monkeypatch.setattr(kept_calls, "_count_parts", noting)
    text = "".join(f"def f{number}(): pass\n" for number in range(400))
    use = "if len(list_names(os.path.dirname(__file__))['inner.py']) != 400:\n    raise ValueError\n"
    code = LISTING.replace("if importlib", f"{use}if importlib")
    files = {"p/__init__.py": code, "p/inner.py": text}
    (outcome,) = reading_of(files, FakeWorld()).imports
    assert outcome.conditions
    assert len(made) == 1


def test_calls_that_compute_end_where_a_run_does() -> None:
    sources = TextSources({"p/__init__.py": f"{COUNT}for most in range(1, 2_000):\n    count(most)\n"})
    (outcome,) = read_package(sources, (), FakeWorld, limits=Limits(steps=20_000, total=40_000)).imports
    assert any(UNFINISHED in gap for gap in outcome.gaps)
