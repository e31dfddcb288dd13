"""A call that only computes is made once, and no call gives anything but what Python gives."""

from __future__ import annotations

import functools

import pytest
from msgspec.structs import replace

from abiscan.python.importing.runs import UNFINISHED
from abiscan.python.interpreter import kept_calls
from abiscan.python.interpreter.machine import Limits
from abiscan.python.package.model import Raised
from abiscan.python.reading import read_package
from tests.unit.python.packages import FakeWorld, TextSources, reading_of

LONG = "for _ in range(2_000): pass"
COUNT = """
def count(most):
    found = {}
    for number in range(1_000):
        found.setdefault(number % most, []).append(str(number))
    return {key: item[:3] for key, item in found.items()}
"""
PROGRAMS = {
    "what it gives is changed by its caller": f"{COUNT}first = count(2)\nfirst[0].clear()\nresult = count(2), first",
    "its arguments differ": f"{COUNT}result = count(2), count(3), count(True)",
    "a zero has a sign": f"""
def show(number):
    {LONG}
    return str(number)
result = show(0.0), show(-0.0), show(0), show(False), show((0.0,)), show((-0.0,))
""",
    "a name that it uses changes": """
names = ["a"]
def join(text):
    found = ""
    for _ in range(1_000):
        found = text.join(names)
    return found
result = [join("-"), names.append("b"), join("-")]
""",
    "it changes a list of the module": """
names = []
def collect(text):
    alias = {"all": names}
    for number in range(1_000):
        alias["all"].append(number)
    return len(names)
result = collect("a"), collect("a")
""",
    "it gives a list of the module away": f"""
names = ["a"]
def give(text):
    {LONG}
    return {{"all": names}}
give("a")["all"].append("b")
result = give("a"), names
""",
    "it changes a name of the module": f"""
calls = 0
def tell(text):
    global calls
    calls += 1
    {LONG}
    return calls
result = tell("a"), tell("a")
""",
    "it calls what changes a name": f"""
calls = []
def note(text):
    calls.append(text)
def tell(text):
    {LONG}
    note(text)
    return len(calls)
result = tell("a"), tell("a")
""",
    "its default can change": f"""
def tell(text, calls=[]):
    {LONG}
    calls.append(text)
    return len(calls)
result = tell("a"), tell("a")
""",
    "the default of what it calls can change": f"""
def note(text, calls=[]):
    calls.append(text)
    return len(calls)
def tell(text):
    {LONG}
    return note(text)
result = tell("a"), tell("a")
""",
    "it makes objects": f"""
class Made:
    made = 0
def make(text):
    {LONG}
    Made.made += 1
    return Made.made
result = make("a"), make("a")
""",
    "a function that it calls is replaced": f"""
def inner(text): return text
def outer(text):
    {LONG}
    return inner(text)
first = outer("a")
def inner(text): return text * 2
result = first, outer("a")
""",
    "a built-in function is replaced": f"""
def outer(text):
    {LONG}
    return len(text)
first = outer("a")
def len(text): return 7
result = first, outer("a")
""",
    "a function has attributes": f"""
def inner(): return None
def outer(text):
    {LONG}
    return inner.calls
inner.calls = 1
first = outer("a")
inner.calls = 2
result = first, outer("a")
""",
    "it raises": f"""
def fail(text):
    {LONG}
    return {{}}[text]
result = []
for _ in range(2):
    try: fail("a")
    except KeyError as error: result.append(str(error))
""",
    "it goes on after its call": f"""
def numbers(text):
    {LONG}
    return iter([text, text * 2])
first = numbers("a")
result = next(first), next(numbers("a")), next(first)
""",
    "an iterator is used up": """
left = iter(range(5))
def take(text):
    found = ""
    for _ in range(1_000): found = text
    return next(left)
result = take("a"), take("a")
""",
    "the environment changes": f"""
import os
def look(name):
    {LONG}
    return os.environ.get(name)
os.environ["P_SETTING"] = "a"
first = look("P_SETTING")
os.environ["P_SETTING"] = "b"
result = first, look("P_SETTING")
""",
    "it sets a variable": f"""
import os
def put(name):
    {LONG}
    os.environ[name] = os.environ.get(name, "") + "a"
    return os.environ[name]
os.environ["P_SET"] = ""
result = put("P_SET"), put("P_SET")
""",
    "a cached result is one object": f"""
import functools
@functools.lru_cache
def lines(text):
    {LONG}
    return [text]
lines("a").append("b")
result = lines("a"), lines("a") is lines("a")
""",
    "what it calls has a cache": f"""
import functools
@functools.lru_cache
def inner(text):
    return [text]
def outer(text):
    {LONG}
    return inner(text)
first = outer("a")
first.append("b")
second = outer("a")
inner("a").append("c")
result = first, second, inner("a"), outer("a")
""",
    "what it calls has a cache that has it": f"""
import functools
@functools.lru_cache
def inner(text):
    return [text]
def outer(text):
    {LONG}
    return inner(text)
inner("a").append("before")
first = outer("a")
result = first, outer("a"), inner("a")
""",
    "two caches are one": f"""
import functools
def inner(text):
    return [text]
one = two = functools.lru_cache(inner)
def outer(text):
    {LONG}
    one(text).append("b")
    return len(two(text))
first = outer("a")
two = functools.lru_cache(inner)
result = first, outer("c")
""",
    "two lists are one": f"""
one = two = []
def outer(text):
    {LONG}
    one.append(text)
    there = len(two)
    one.pop()
    return there
first = outer("a")
two = []
result = first, outer("a")
""",
    "parts of what it gives are one object": f"""
def twice(text):
    {LONG}
    inner = [text]
    return [inner, inner]
twice("a")
made = twice("a")
made[0].append("b")
result = made
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_call_gives_what_python_gives(program: str) -> None:
    names: dict[str, object] = {}
    exec(program, names)
    (outcome,) = reading_of({"p/__init__.py": f"{program}\nraise ValueError(repr(result))\n"}, FakeWorld()).imports
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.message == repr(names["result"])


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_second_run_gives_what_the_first_gives(program: str) -> None:
    # In the other way of the condition, all is kept that is.
    unknown = "import importlib.util\nif importlib.util.find_spec('other') is not None:\n    import p.other\n"
    files = {"p/__init__.py": f"{unknown}{program}\nraise ValueError(repr(result))\n", "p/other.py": ""}
    names: dict[str, object] = {}
    exec(program, names)
    (outcome,) = reading_of(files, FakeWorld()).imports
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.message == repr(names["result"])


LISTING = """import os, functools, importlib.util
@functools.lru_cache
def names_of(path):
    found = set()
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith("def "):
                found.add(line[4:].partition("(")[0])
    return found
def list_names(folder):
    return {entry.name: names_of(entry.path) for entry in os.scandir(folder)}
if importlib.util.find_spec("other") is not None:
    raise ImportError("with the other one")
"""


def _watched(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return what calls give that are made and kept."""
    made: list[object] = []
    watch = kept_calls._watch

    def noting(*args: object) -> tuple[object, object]:
        result, kept = watch(*args)  # type: ignore[arg-type]
        made.extend([result] if kept is not None else [])
        return result, kept

    monkeypatch.setattr(kept_calls, "_watch", noting)
    return made


def test_the_sources_are_listed_once_for_all_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _watched(monkeypatch)
    text = "".join(f"def f{number % 50}(): pass\n" for number in range(1_000))
    use = "if len(list_names(os.path.dirname(__file__))['inner.py']) != 50:\n    raise ValueError\n"
    code = LISTING.replace("if importlib", f"{use}if importlib")
    (outcome,) = reading_of({"p/__init__.py": code, "p/inner.py": text}, FakeWorld()).imports
    assert outcome.conditions
    # That of the file, and that of the folder, which has it in it.
    assert len(made) == 2


def test_what_a_cache_has_got_is_there_in_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made = _watched(monkeypatch)
    text = "".join(f"def f{number % 50}(): pass\n" for number in range(1_000))
    use = """
listed = list_names(os.path.dirname(__file__))
path = os.path.join(os.path.dirname(__file__), "inner.py")
names_of(path).add("more")
if "more" not in listed["inner.py"]:
    raise ValueError("another object")
"""
    code = LISTING.replace("if importlib", f"{use}if importlib")
    (outcome,) = reading_of({"p/__init__.py": code, "p/inner.py": text}, FakeWorld()).imports
    assert outcome.conditions
    assert len(made) == 2
    assert outcome.usual_end is not None
    assert outcome.usual_end.raised.message == "with the other one"
    assert "another object" not in str(outcome)


def test_a_call_that_asks_the_target_is_made_for_each() -> None:
    code = f"""import torch
def newer(text):
    {LONG}
    return torch.__version__ >= text
for _ in range(3):
    newer("2")
raise ValueError(str(newer("2")))
"""
    sources = TextSources({"p/__init__.py": code})
    ends = [
        read_package(sources, (), functools.partial(FakeWorld, torch_version=version)).imports[0]
        for version in ("1.13.0", "2.9.0")
    ]
    assert [isinstance(end.raised, Raised) and end.raised.message for end in ends] == ["False", "True"]


@pytest.mark.parametrize("most", [20_000, 60_000, 200_000])
def test_calls_that_compute_end_where_a_run_does(most: int) -> None:
    sources = TextSources({"p/__init__.py": f"{COUNT}for most in range(1, 2_000):\n    count(most)\n"})
    (outcome,) = read_package(sources, (), FakeWorld, limits=Limits(steps=most, total=2 * most)).imports
    assert any(UNFINISHED in gap for gap in outcome.gaps)


def test_calls_are_counted_once_in_each_reading() -> None:
    """What another target has left makes no difference to where a reading ends."""
    from abiscan.python.importing.runs import RunCache, Runs
    from abiscan.python.package.installed import Surroundings
    from abiscan.python.package.library import PythonCode
    from abiscan.python.package.sources import PackageFiles

    code = f"{COUNT}count(2)\ncount(2)\ncount(3)\n"
    sources = TextSources({"p/__init__.py": code, "p/other.py": "from p import count\ncount(2)\n"})
    world = FakeWorld()
    library = PythonCode(PackageFiles(sources), ["p"], world.python, Surroundings())
    cache = RunCache()

    def steps_of(*modules: str) -> int:
        runs = Runs(library, FakeWorld, Limits(), cache)
        for module in modules:
            runs.run(module)
        return runs.steps

    both = steps_of("p", "p.other")
    assert both == steps_of("p", "p.other") == steps_of("p.other", "p")
    apart = [steps_of("p"), steps_of("p.other")]
    assert sum(apart) > both
    library.kept_calls.calls.clear()
    cache.tasks.clear()
    assert [steps_of("p"), steps_of("p.other")] == apart


def test_a_long_call_does_not_end_the_run_of_large_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a large body raises after such a call is seen, and the call is made once."""
    from abiscan.python.importing import explore, runs
    from abiscan.python.package.library import LARGEST_ALWAYS_RUN

    monkeypatch.setattr(explore, "WITH_LARGE_BODIES", replace(runs.WITH_LARGE_BODIES, large_bodies=2_000))
    monkeypatch.setattr(kept_calls, "_LEAST_STEPS", 1_000)
    large = "# what fills the source\n" * LARGEST_ALWAYS_RUN
    init = f"from . import first\n{COUNT}count(2)\nfrom . import second\n"
    files = {"p/__init__.py": init, "p/first.py": f"x = 1\n{large}", "p/second.py": f"x = lacking\n{large}"}
    (outcome,) = read_package(TextSources(files), (), FakeWorld).imports
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.exception == "NameError"
