"""A package is read once for all targets that answer its questions alike, and each gets the reading of its own."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace

import pytest

from abiscan.python.importing import runs
from abiscan.python.importing.runs import Run
from abiscan.python.importing.uses import AllLoadWorld
from abiscan.python.interpreter.imports import PythonInterpreter
from abiscan.python.interpreter.machine import Choices, Limits
from abiscan.python.interpreter.questions import Answered, AskedWorld, KeptAnswers
from abiscan.python.interpreter.values import Scope
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer, OtherTorch, Raised, Reading, Skipped, World
from abiscan.python.reading import PackageReader, read_package
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources

LOADS = "torch.ops.load_library(os.path.join(os.path.dirname(__file__), 'a.so'))\n"


CACHED = (
    "import functools\n@functools.lru_cache\ndef find():\n    return torch.__version__\n"
    "@functools.lru_cache\ndef newer(than):\n    return find() >= than\n"
)


@pytest.fixture
def plain_imports(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules whose import was run as it is on a target, with the likely way of each condition."""
    found: list[str] = []
    import_once = runs._import_once

    def counting(machine: PythonInterpreter, module: str, choices: Choices) -> Run:
        if not (choices or isinstance(machine.world._world._world, AllLoadWorld)):
            found.append(module)
        return import_once(machine, module, choices)

    monkeypatch.setattr(runs, "_import_once", counting)
    return found


def package(code: str) -> TextSources:
    return TextSources({"p/__init__.py": f"import os, torch\n{code}", "p/a.so": ""})


def torch(version: str, cuda: str | None = None, error: str | None = None) -> FakeWorld:
    return FakeWorld(torch_version=version, cuda=cuda, error=lambda _path: error)


def readings(code: str, targets: Sequence[World]) -> list[Reading]:
    """The reading for each target, by one reader."""
    reader = PackageReader(package(code))
    return [reader.read(lambda target=target: target) for target in targets]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("code", "targets", "times"),
    [
        (LOADS, [torch("2.6.0"), torch("2.7.1+cu126", "12.6"), torch("2.13.0")], 1),
        (f"if torch.__version__ >= '2.9':\n    {LOADS}", [torch("2.6.0"), torch("2.8.0"), torch("2.9.1")], 2),
        (f"if '2.9' <= torch.__version__:\n    {LOADS}", [torch("2.10.0"), torch("2.8.0"), torch("2.9.1")], 2),
        (
            f"V = torch.__version__.split('.')[:2]\nif V == ['2', '8']:\n    {LOADS}",
            [torch("2.8.0"), torch("2.8.1")],
            1,
        ),
        (
            f"from packaging.version import parse\nV = parse(torch.__version__)\nif V.release >= (2, 9):\n    {LOADS}",
            [torch("2.6.0"), torch("2.7.0"), torch("2.13.0"), torch("2.15.0+cu130", "13.0")],
            2,
        ),
        (
            f"def find():\n    return True, torch.__version__\nfound, V = find()\nif V >= '2.9':\n    {LOADS}",
            [torch("2.6.0"), torch("2.8.0"), torch("2.9.1")],
            2,
        ),
        (
            f"def find():\n    return torch.__version__\nif find() >= '2.9':\n    {LOADS}",
            [torch("2.6.0"), torch("2.8.0"), torch("2.9.1")],
            2,
        ),
        (
            f"{CACHED}if newer('2.9'):\n    {LOADS}",
            [torch("2.8.0"), torch("2.8.0+cu128", "12.8"), torch("2.9.1")],
            2,
        ),
        (
            "def find():\n    return True, torch.__version__\nV = find()\nfor v in V: pass\nraise ImportError(v)",
            [torch("2.6.0"), torch("2.7.0")],
            2,
        ),
        (
            f"import logging\nlogging.getLogger(__name__).info(f'beside torch {{torch.__version__}}')\n{LOADS}",
            [torch("2.6.0"), torch("2.7.0")],
            1,
        ),
        (f"if torch.version.cuda is None:\n    {LOADS}", [torch("2.6.0"), torch("2.6.0", "12.4"), torch("2.8.0")], 2),
        ("raise ImportError(torch.__version__)", [torch("2.6.0"), torch("2.7.0")], 2),
        (f"parts = torch.__version__.split('.')\nparts.pop()\n{LOADS}", [torch("2.6.0"), torch("2.7.0")], 2),
        (LOADS, [torch("2.6.0"), torch("2.7.0", error="p/a.so: bad"), torch("2.8.0", error="p/a.so: bad")], 2),
        ("torch.library.custom_op", [torch("2.3.0"), torch("2.4.0"), torch("2.13.0")], 2),
    ],
)
def test_a_package_is_read_again_only_for_a_target_that_answers_otherwise(
    plain_imports: list[str], code: str, targets: list[FakeWorld], times: int
) -> None:
    found = readings(code, targets)
    assert plain_imports == ["p"] * times
    assert found == [read_package(package(code), (), lambda target=target: target) for target in targets]  # type: ignore[misc]


@pytest.mark.parametrize(
    "use",
    [
        "[find()][0]",
        "{'v': find()}['v']",
        "list(map(lambda _: find(), [1]))[0]",
        "(lambda: find())()",
        "C().v",
        "C().w()",
        "next(iter(C()))",
        "str(C())",
        "list(through())[0]",
        "(cached(), cached())[1]",
        "max([find()])",
        "cached().replace('x', 'y')",
        "parts()[0] + '.' + '.'.join(parts()[1:])",
    ],
)
def test_what_a_function_returns_of_the_target_is_its_own_text_wherever_it_goes(use: str) -> None:
    code = (
        "import torch, functools\ndef find():\n    return str(torch.__version__)\n"
        "cached = functools.lru_cache(find)\ndef parts():\n    return find().split('.')\n"
        "def inner():\n    if False:\n        yield 1\n    return find()\n"
        "def through():\n    found = yield from inner()\n    yield found\n"
        "class C:\n    @property\n    def v(self):\n        return find()\n    def w(self):\n        return find()\n"
        "    def __iter__(self):\n        yield find()\n    def __str__(self):\n        return find()\n"
    )
    reader = PackageReader(TextSources({"p/__init__.py": f"{code}raise ImportError({use})\n"}))
    for number in ("2.6.0", "2.7.0"):
        raised = reader.read(lambda number=number: torch(number)).imports[0].raised  # type: ignore[misc]
        assert isinstance(raised, Raised)
        assert raised.message == number


def test_a_text_of_which_a_part_is_known_is_the_same_for_each_target(plain_imports: list[str]) -> None:
    code = (
        "import sys\nfrom importlib import metadata\nsys.setrecursionlimit(f'beside {metadata.version(\"numpy\")}')\n"
    )
    metadata = "Name: p\nRequires-Dist: numpy>=1.4\n\n"
    reader = PackageReader(TextSources({"p/__init__.py": code, "p-1.dist-info/METADATA": metadata}))
    for number in ("2.6.0", "2.7.0"):
        reader.read(lambda number=number: torch(number))  # type: ignore[misc]
    assert plain_imports == ["p"]


def test_another_python_needs_no_other_look_at_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    parse_source = PythonCode._parse_source

    def noting(self: PythonCode, path: str, *parser: Callable[[bytes], ast.Module]) -> ast.Module | None:
        looked_at.append(path)
        return parse_source(self, path, *parser)

    monkeypatch.setattr(PythonCode, "_parse_source", noting)
    code = "import sys, torch\nif sys.version_info < (3, 12):\n    raise ImportError('too old')\n"
    reader = PackageReader(TextSources({"p/__init__.py": code}))
    raised = [
        reader.read(lambda python=python: FakeWorld(python=python)).imports[0].raised  # type: ignore[misc]
        for python in ((3, 11), (3, 12))
    ]
    assert [isinstance(one, Raised) for one in raised] == [True, False]
    assert looked_at == ["p/__init__.py"]


@pytest.mark.parametrize(
    ("used", "times"), [("def f():\n    torch.amp.custom_fwd\n", 1), ("value = torch.amp.custom_fwd\n", 2)]
)
def test_a_name_that_functions_alone_use_leads_to_no_other_reading(
    plain_imports: list[str], used: str, times: int
) -> None:
    sources = TextSources({"p/__init__.py": "from . import inner\n", "p/inner.py": f"import torch\n{used}"})
    reader = PackageReader(sources)
    releases = ("2.3.0", "2.4.0")  # the second one has the name
    targets = [FakeWorld(torch_version=number, torch_names=embedded_names.names(number)) for number in releases]
    for target in targets:
        reader.read(lambda target=target: target)  # type: ignore[misc]
    assert plain_imports == ["p"] * times


def test_each_target_gets_its_own_text_of_an_error() -> None:
    found = readings("raise ImportError(f'not for {torch.__version__}')", [torch("2.6.0"), torch("2.7.0")])
    raised = [one.imports[0].raised for one in found]
    assert [one.message for one in raised if isinstance(one, Raised)] == ["not for 2.6.0", "not for 2.7.0"]


def test_a_list_made_of_the_version_can_be_changed_twice() -> None:
    code = """\
def last():
    parts = torch.__version__.split(".")
    return parts.pop()
raise ImportError(last() + last())
"""
    (found,) = readings(code, [torch("2.6.1")])
    raised = found.imports[0].raised
    assert isinstance(raised, Raised)
    assert raised.message == "11"


def test_a_target_whose_version_is_not_known_is_not_taken_for_another() -> None:
    code = f"if torch.__version__ >= '2.9':\n    {LOADS}"
    targets: list[World] = [torch("2.13.0"), FakeWorld(torch_version=Answer.UNKNOWN)]
    known, unknown = readings(code, targets)
    assert [load.path for load in known.imports[0].loads] == ["p/a.so"]
    assert unknown == read_package(package(code), (), lambda: targets[1])


def test_targets_share_what_is_imported_beside_another_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is for a torch that neither target is; each reading is what it is for that target alone."""
    code = "if torch.__version__ < '2.9' and torch.version.cuda != '1':\n    " + LOADS
    targets = [torch("2.13.0"), torch("2.13.0+cu130", "13.0"), torch("2.14.1")]
    other = [OtherTorch(version="2.8.0", cuda=None)]
    reader = PackageReader(package(code), built_for=lambda _library: other)
    asked: Counter[object] = Counter()
    find = Answered.find

    def noting(self: Answered[object], world: AskedWorld, kept_answers: KeptAnswers) -> object:
        found = find(self, world, kept_answers)
        times = world.times_asked
        asked[world.foresee(lambda target: target.torch_version)] += times
        return found

    monkeypatch.setattr(Answered, "find", noting)
    shared = [reader.read(lambda target=target: target) for target in targets]  # type: ignore[misc]
    alone = [
        read_package(package(code), ["p"], lambda target=target: target, built_for=lambda _: other)  # type: ignore[misc]
        for target in targets
    ]
    assert shared == alone
    assert {reading.uses["p/a.so"].skipped for reading in shared} == {Skipped.GUARD}
    assert asked["2.8.0"] == 0 < asked["2.14.1"]  # what the other one says is known


def test_a_class_counts_as_many_steps_as_it_takes_time() -> None:
    for definition, is_read in (("    def C(): pass\n", True), ("    class C: pass\n", False)):
        code = f"for number in range(20):\n{definition}{LOADS}"
        reading = read_package(package(code), (), lambda: torch("2.13.0"), limits=Limits(steps=1_000))
        assert (reading.imports[0].raised is None) is is_read


def test_the_limits_count_steps_and_a_target_gets_as_many_as_alone() -> None:
    each = "parts = torch.__version__.split('.')\nparts.pop()\n"  # so that no two targets answer alike
    code = each + "if torch.__version__ >= '2.9':\n    for x in range(10_000):\n        os.getpid()\n" + LOADS
    limits = Limits(steps=1_000, total=2_000)
    targets = [torch(f"2.{minor}.0") for minor in (8, 9, 10, 7)]
    reader = PackageReader(package(code))
    found = [reader.read(lambda target=target: target, limits=limits) for target in targets]  # type: ignore[misc]
    assert [reading.imports[0].raised is None for reading in found] == [True, False, False, True]
    assert (
        found[2].imports[0].gaps[0].endswith("was not followed to its end: after 1,000 steps, the limit of an import")
    )
    assert found == [read_package(package(code), (), lambda target=target: target, limits=limits) for target in targets]  # type: ignore[misc]


def test_a_reading_ends_after_its_steps_and_says_so() -> None:
    code = "import os\nfor x in range(10_000):\n    os.getpid()\n"
    files = TextSources({"p.py": code, "q.py": code})
    first, second = read_package(
        files, ("p", "q"), lambda: torch("2.13.0"), limits=Limits(steps=1_000, total=500)
    ).imports
    assert first.gaps[0].endswith("was not followed to its end: after 1,000 steps, the limit of an import")
    assert second.gaps == (
        "import q: was not followed: the reading ended after 500 steps in all, the limit of a package",
    )
    assert second.raised is Answer.UNKNOWN


def test_what_only_some_targets_ask_is_run_again_for_them_alone() -> None:
    """The load fails with a text of its own on each target; whatever does not load is run once."""
    more = "import os, torch\nfor x in range(200):\n    os.getpid()\n" + LOADS.replace("a.so", "b.so")
    code = f"try:\n    {LOADS}except OSError:\n    pass\n"
    files = {
        "p/__init__.py": f"import os, torch\n{code}",
        "p/a.so": "",
        "p/b.so": "",
        "p/more.py": more,
    }
    targets = [torch("2.6.0", error=f"p/a.so: undefined symbol: f{number}") for number in range(20)]
    executed = [_statements(files, targets[:count]) for count in (1, 20)]
    assert executed[1] < 3 * executed[0]


def _statements(files: Mapping[str, str | bytes], targets: Sequence[World]) -> int:
    """How many statements are executed to read a package for all of these targets."""
    count = 0
    execute = PythonInterpreter.execute

    def counting(self: PythonInterpreter, body: Sequence[ast.stmt], scope: Scope) -> None:
        nonlocal count
        count += len(body)
        execute(self, body, scope)

    reader = PackageReader(TextSources(files))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PythonInterpreter, "execute", counting)
        for target in targets:
            reader.read(lambda target=target: target)  # type: ignore[misc]
    return count


def test_a_target_tells_once_what_lasts() -> None:
    asked: list[str] = []

    def note(world: World) -> object:
        asked.append(str(world.torch_version))
        return world.torch_version

    told: KeptAnswers = {}
    for number, lasting in enumerate((True, True, False, False)):
        task: Answered[int] = Answered()
        world = AskedWorld(torch("2.6.0"))
        (world.tells if lasting else world.tells_now)("its version", note)
        task.keep(world.asked, number)
        asked.clear()
        assert task.find(AskedWorld(torch("2.6.0")), told) == number
        assert len(asked) == (0 if (lasting and number) else 1)
    assert task.find(AskedWorld(torch("2.7.1")), {}) is None


REFUSED = """import torch
class A:
    def f(self, n=0):
        return torch.__version__, 4
def g(n=0):
    return torch.__version__, 4
try:
    a, b = {call}
except TypeError:
    t = {again}
if {test}:
    raise ImportError("cpu")
"""


@pytest.mark.parametrize("test", ["t == ('2.8.0+cpu', 4)", "'2.8.0+cpu' in t", "t.count('2.8.0+cpu') == 1"])
@pytest.mark.parametrize(("call", "again"), [("A().f(k=1)", "A().f()"), ("A().f(1, 2)", "A().f()"), ("g(k=1)", "g()")])
def test_a_call_that_is_refused_leaves_nothing_to_the_next(call: str, again: str, test: str) -> None:
    code = REFUSED.format(call=call, again=again, test=test)
    reader = PackageReader(TextSources({"p/__init__.py": code}))
    for version in ("2.8.0+cpu", "2.8.0+cu128", "2.8.0+cpu"):
        module = SimpleNamespace(__version__=version)
        expected = None
        try:
            exec(code.replace("import torch\n", ""), {"torch": module})
        except ImportError as error:
            expected = str(error)
        raised = reader.read(lambda version=version: torch(version)).imports[0].raised  # type: ignore[misc]
        assert (raised.message if isinstance(raised, Raised) else raised) == expected


def made_runs(monkeypatch: pytest.MonkeyPatch, files: dict[str, str], modules: Sequence[str]) -> list[str]:
    """Return the modules whose import is run on each path, as far as that is made."""
    made: list[str] = []
    import_once = runs._import_once

    def counting(machine: PythonInterpreter, module: str, choices: Choices) -> Run:
        made.append(module)
        return import_once(machine, module, choices)

    monkeypatch.setattr(runs, "_import_once", counting)
    read_package(TextSources(files), modules, lambda: torch("2.6.0"))
    return made


def test_paths_on_which_all_loads_are_not_followed_again_in_a_world_where_all_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = "import sys\nfrom p import a\nif len(sys.argv) > 1:\n    raise ImportError\nfrom p import b\n"
    made = made_runs(monkeypatch, {"p/__init__.py": code, "p/a.so": "", "p/b.so": ""}, ["p"])
    assert made == ["p"] * 3, "for the condition, and one that others go on from"


def test_the_import_of_a_module_ends_where_that_of_its_package_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"p/__init__.py": "import os\nos.nope\nraise ImportError('no')", "p/m.py": "import os"}
    made = made_runs(monkeypatch, files, ["p", "p.m"])
    assert "p.m" not in made


@pytest.mark.parametrize(
    ("code", "targets"),
    [
        ("V = int(torch.__version__[4:])\nassert V < 1", [torch("2.9.0"), torch("2.13.0"), torch("2.9.3")]),
        (
            "import platform\nV = int(platform.python_version()[4:])\nassert V < 1",
            [FakeWorld(python=(3, 12)), FakeWorld(python=(3, 9)), FakeWorld(python=Answer.UNKNOWN)],
        ),
    ],
)
def test_what_only_some_versions_can_be_computed_with(code: str, targets: list[FakeWorld]) -> None:
    together = [reading.imports for reading in readings(code, targets)]
    assert together == [readings(code, [target])[0].imports for target in targets]
