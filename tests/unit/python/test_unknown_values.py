"""What the reading says of values that it does not know: no more than is certain, and no less."""

from __future__ import annotations

import itertools
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest

from abiscan.inputs import packages
from abiscan.inputs.packages import Distribution
from abiscan.python.importing.runs import RunCache, Runs
from abiscan.python.interpreter.machine import Limits
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer, ImportOutcome, Raised
from abiscan.python.package.sources import PackageFiles
from abiscan.torches import embedded_names
from abiscan.torches.torch import Torch
from abiscan.verdict import package_reading
from tests.unit.python.packages import FakeWorld, TextSources, reading_of

START = "import importlib, platform, sys, traceback, torch\n"
DEFINES = "torch.library.define('p::operator', '() -> ()')"


def outcome_of(code: str, world: FakeWorld | None = None, **files: str) -> ImportOutcome:
    """How the import of a package of this code ends."""
    sources: Mapping[str, str | bytes] = {
        "p/__init__.py": START + code,
        **{f"p/{name}.py": text for name, text in files.items()},
    }
    return next(one for one in reading_of(sources, world).imports if one.module == "p")


TEXTS = {
    "f'{platform.node()}: 1'": "?: 1",
    "'a ' + f'{platform.node()}'": "a ?",
    "'%s, %d and %r' % (platform.node(), 3, 'x')": "?, 3 and 'x'",
    "'%s!' % platform.node()": "?!",
    "'{} {x}'.format(1, x=platform.node())": "1 ?",
    "'\\n'.join(['first', f'then {platform.node():>20}'])": "first\nthen ?",
    "'first:\\n' + traceback.format_exc()": None,
    "f'first:\\n{traceback.format_exc()}'": "first:\n?",
    "platform.node()": None,
    "f'{platform.node()}'": None,
    "'%d' % platform.node()": None,
}


@pytest.mark.parametrize("text", TEXTS)
def test_an_unknown_part_costs_that_part_of_a_text(text: str) -> None:
    raised = outcome_of(f"raise ValueError({text})\n").raised
    assert isinstance(raised, Raised)
    assert raised.message == TEXTS[text]
    assert not raised.exact or raised.message is None


def test_a_text_that_is_known_is_exact() -> None:
    raised = outcome_of("raise ValueError(f'{1}, {2}')\n").raised
    assert isinstance(raised, Raised)
    assert (raised.message, raised.exact) == ("1, 2", True)


UNKNOWN_IMPORTS = {
    "importlib.import_module(platform.node())\n": Answer.UNKNOWN,
    "importlib.import_module('.%s' % platform.node(), __name__)\n": Answer.UNKNOWN,
    "__import__(platform.node())\n": Answer.UNKNOWN,
    "try:\n    importlib.import_module(platform.node())\nexcept ImportError:\n    pass\n": None,
    "try:\n    __import__(platform.node())\nexcept Exception:\n    pass\n": None,
    "if platform.node() == 'x':\n    importlib.import_module(platform.node())\n": None,
    "for name in torch.list_names():\n    importlib.import_module(name)\n": None,
    "def later():\n    importlib.import_module(platform.node())\n": None,
    "import importlib.metadata\nfor plugin in importlib.metadata.entry_points(group='x'):\n"
    "    importlib.import_module(plugin.value)\n": None,
}


@pytest.mark.parametrize("code", UNKNOWN_IMPORTS)
def test_an_import_whose_name_is_not_known(code: str) -> None:
    assert outcome_of(code).raised is UNKNOWN_IMPORTS[code]


def test_what_fails_after_an_import_whose_name_is_not_known_fails_in_any_case() -> None:
    raised = outcome_of("importlib.import_module(platform.node())\nraise ValueError('in any case')\n").raised
    assert isinstance(raised, Raised)
    assert raised.message == "in any case"


@pytest.mark.parametrize("given", ["__name__", "sys.modules[__name__]", "name=__name__"])
def test_code_that_is_not_read_may_set_names_in_a_module_that_it_gets(given: str) -> None:
    api = f"import sys, other\nother.fill({given})\n__all__ = ['alpha']\n"
    assert outcome_of("from ._api import *\nfrom ._api import alpha\n", _api=api).raised is None


def test_a_module_of_which_nobody_else_hears_is_as_its_code_says() -> None:
    api = "import other\nother.fill('_api')\n__all__ = ['alpha']\n"
    raised = outcome_of("from ._api import *\n", _api=api).raised
    assert isinstance(raised, Raised)
    assert raised.exception == "AttributeError"


@pytest.mark.parametrize("value", ["10", "'x'", "None", "[1]", "{}", "len", "Own()", "sys.modules[__name__]"])
def test_what_is_no_object_of_a_class_of_torch(value: str) -> None:
    code = f"class Own: pass\nif isinstance({value}, (torch.Tensor, torch.nn.Module)):\n    raise ValueError\n"
    outcome = outcome_of(code)
    assert (outcome.raised, outcome.conditions) == (None, ())


@pytest.mark.parametrize("value", ["10", "1.5", "'x'", "None", "[1]", "{}", "Own()", "bool", "sys.modules[__name__]"])
def test_what_is_no_object_of_a_class_of_numpy(value: str) -> None:
    # As numpy 1.19 and 2.4 answer; ``numpy.float64`` derives from ``float``, and no float is one for that.
    classes = "(np.ndarray, np.dtype, np.generic, np.float64, np.str_, np.int64, np.random.Generator)"
    outcome = outcome_of(f"import numpy as np\nclass Own: pass\nif isinstance({value}, {classes}):\n    {DEFINES}\n")
    assert (outcome.registrations, outcome.conditions) == ((), ())


@pytest.mark.parametrize("cls", ["np.float", "np.ndarray.of_users", "other.ndarray"])
def test_other_classes_may_be_those_of_python(cls: str) -> None:
    # ``numpy.float`` is ``float`` before 1.24.
    outcome = outcome_of(f"import numpy as np, other\nif isinstance(1.5, {cls}):\n    {DEFINES}\n")
    assert [registration.is_conditional for registration in outcome.registrations] == [True]


CHANGED_ON_UNKNOWN_WAYS = {
    "behind a second condition": """
def pick(cls):
    if isinstance(cls, str):
        return None
    if torch.is_grad_enabled():
        rules['x'] = 1
        return 1
    return 2
rules = {}
pick(torch.nn.Linear)
rules['x']
""",
    "in a function that calls itself": """
class Registry:
    def __init__(self):
        self.keys, self.made, self.rules = {torch.nn.Linear: 'l', torch.nn.Conv1d: 'c'}, {}, {}
    def get(self, cls):
        if isinstance(cls, str):
            for own, key in self.keys.items():
                if key == cls:
                    return self.get(own)
            return None
        if cls in self.made:
            return self.made[cls]
        if issubclass(cls, torch.nn.Module):
            made = type(cls.__name__, (cls,), {})
            self.made[cls] = made
            self.rules[made] = 1
            return self.get(cls)
        return None
registry = Registry()
registry.rules[registry.get('c')]
""",
}


@pytest.mark.parametrize("way", CHANGED_ON_UNKNOWN_WAYS)
def test_what_a_function_changes_on_a_way_that_is_not_known(way: str) -> None:
    outcome = outcome_of(CHANGED_ON_UNKNOWN_WAYS[way])
    assert (outcome.raised, outcome.gaps) == (None, ())


@pytest.mark.parametrize(
    ("version", "module", "there"),
    [
        ("2.13.0+cpu", "functorch", True),
        ("1.13.1", "functorch", True),
        ("1.12.1", "functorch", False),
        ("1.12.1", "torchgen", True),
        ("1.11.0", "torchgen", False),
        ("1.12.1", "caffe2", True),
        ("2.0.0", "caffe2", False),
    ],
)
def test_modules_that_the_wheels_of_torch_have(version: str, module: str, there: bool) -> None:
    code = (
        f"has = True\ntry:\n    import {module}\nexcept ImportError:\n    has = False\nif not has: raise ValueError\n"
    )
    assert (outcome_of(code, FakeWorld(torch_version=version)).raised is None) is there


def test_the_distribution_of_torch_is_no_other_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = str(tmp_path)

    def distribution(name: str, *objects: str) -> Distribution:
        paths = tuple(f"{site}/{path}" for path in objects)
        return Distribution(name=name, version="1", site=site, objects=paths, requires=(), source=None)

    of_torch = distribution("torch", "torch/_C.so", "functorch/_C.so")
    other = distribution("other", "other/_C.so")
    monkeypatch.setattr(packages, "list_installed", lambda _path: iter([of_torch, other]))
    monkeypatch.setattr(package_reading, "_search_path", lambda _executable: (site,))
    interpreter = SimpleNamespace(executable=Path("python"), over=None)
    torch = cast("Torch", SimpleNamespace(package=f"{site}/torch", interpreter=interpreter))
    assert package_reading.packages_with_libraries(torch) == {"other": other}


PATHS = {
    "or": "ctypes.util.find_library('none') or os.path.join(HERE, 'own.so')",
    "if": "os.path.join(HERE, 'own.so') if platform.node() == 'x' else ctypes.util.find_library('none')",
}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_may_be_that_of_an_own_library_is_tried(path: str) -> None:
    code = f"import ctypes.util, os\nHERE = os.path.dirname(__file__)\nctypes.CDLL({PATHS[path]})\n"
    sources = {"p/__init__.py": START + code, "p/own.so": ""}
    (loads,) = reading_of(sources, FakeWorld(error=lambda _path: None)).imports
    assert loads.raised is None
    assert "p/own.so" in {load.path for load in loads.loads}
    (fails,) = reading_of(sources, FakeWorld(error=lambda _path: "undefined symbol: f")).imports
    assert fails.raised is Answer.UNKNOWN
    assert any("p/own.so" in condition.text for condition in fails.conditions)


@pytest.mark.parametrize(
    ("text", "raises"),
    [
        (b"\0p.names\0p.names.Added\0", False),
        (b"\0p.names\0Added\0", False),
        (b"\0p.names\0", True),
        (b"\0p.names.Added\0", True),
    ],
)
def test_names_that_an_extension_module_sets_on_another(text: bytes, *, raises: bool) -> None:
    """As numpy's C code adds its classes to ``numpy.dtypes``."""
    files: Mapping[str, str | bytes] = {
        "p/__init__.py": "import torch\nfrom . import _C, names\nnames.Added\n",
        "p/names.py": "import torch\nx = 1\n",
        "p/_C.so": text,
    }
    (outcome,) = reading_of(files).imports
    assert isinstance(outcome.raised, Raised) is raises


LIBRARY_FORMS = ["impl(library, 'f', 'CPU')", "impl(library, 'f')", "define(library, 'f() -> int')"]


@pytest.mark.parametrize("form", LIBRARY_FORMS)
def test_a_library_that_is_not_known_decorates_functions(form: str) -> None:
    """As ``torch.library.impl`` and ``define`` did at first: torch's own code has its libraries that way."""
    library = "from torch.ao.quantization.fx._decomposed import quantized_decomposed_lib as library\n"
    assert outcome_of(f"{library}@torch.library.{form}\ndef f():\n    return 1\n").raised is None


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("@torch.library.impl('p::f', 'CPU')\ndef f(x): ...\n", "'str' object has no attribute 'impl'"),
        ("torch.library.define('p::g', '() -> int')(len)\n", "'str' object has no attribute 'define'"),
        ("torch.library.define('p::g', '() -> int')\n", None),
        ("torch.library.impl('p::f', 'CPU', len)\n", None),
    ],
)
def test_a_name_where_torch_takes_a_library(code: str, error: str | None) -> None:
    """``impl(lib, name, dispatch_key)`` of 2.1 returns a decorator that calls ``lib.impl``; 2.2 takes names."""
    raised = {
        release: outcome_of(
            f"import torch\n{code}", FakeWorld(torch_version=release, operators=frozenset({"p::f"}))
        ).raised
        for release in ("2.1.2", "2.2.0")
    }

    assert getattr(raised["2.1.2"], "message", None) == error
    assert getattr(raised["2.2.0"], "message", None) != (error or "")


BRANCHES = [
    "if {}:\n    import torch.bad\n",
    "if not {}:\n    import torch.bad\n",
    "if not {}:\n    from torch.bad import worse\n",
    "if {}:\n    pass\nelse:\n    torch.bad\n",
    "if {}:\n    importlib.import_module('torch.bad')\n",
    "if not {}:\n    importlib.import_module('torch.' + 'bad')\n",
    "if {}:\n    use()\n",
    "if not {}:\n    use()\n",
    "if not {}:\n    fail()\n",
    "if not {}:\n    if sys:\n        undefined\n",
    "if not {}:\n    for x in (1, 2):\n        fail()\n",
    "if {}:\n    use()\nelse:\n    torch.bad\n",
    "if not {}:\n    torch.Tensor\n",
    "try:\n    if not {}:\n        fail()\nexcept KeyError:\n    pass\n",
    "try:\n    if not {}:\n        fail()\nexcept ValueError:\n    pass\n",
    "while {}:\n    torch.bad\n",
    "for x in [1] * {}:\n    torch.bad\n",
    "for x in (1, 2):\n    if {}:\n        break\n    torch.bad\n",
    "match {}:\n    case True:\n        torch.bad\n",
    "match {}:\n    case True:\n        pass\n    case _:\n        torch.bad\n",
    "x = torch.bad if {} else 1\n",
    "x = {} and torch.bad\n",
    "x = {} or use()\n",
    "assert {} or torch.bad\n",
    "x = 0 < {} < torch.bad\n",
    "x = [torch.bad for x in (1, 2) if {}]\n",
    "def late(x):\n    if x:\n        return 1\n    return torch.bad\nlate({})\n",
    "class A:\n    if not {}:\n        x = torch.bad\n",
    "with contextlib.suppress(ImportError):\n    if not {}:\n        torch.bad\n",
]
FUNCTIONS = "import contextlib\ndef use():\n    return torch.bad\ndef fail():\n    raise ValueError\n"


def _end_in_python(code: str, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """What code raises in this Python, with a torch that has nothing but a class."""
    torch = ModuleType("torch")
    vars(torch).update(Tensor=int, __path__=[])
    monkeypatch.setitem(sys.modules, "torch", torch)
    try:
        exec(code, {})
    except (AttributeError, ImportError, NameError, ValueError) as error:
        return type(error).__name__
    return None


@pytest.mark.parametrize("code", BRANCHES)
def test_a_branch_that_fails_is_followed_on_both_ways(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = START + FUNCTIONS + code
    ends = {_end_in_python(code.format(value), monkeypatch) for value in (True, False)}
    world = FakeWorld(torch_names=embedded_names.names("2.13.0"))
    outcome = outcome_of(code.format("(platform.node() == 'x')"), world)
    end = outcome.raised.exception if isinstance(outcome.raised, Raised) else outcome.raised
    if len(ends) == 1:
        assert end == ends.pop()
    else:
        assert (end, len(outcome.conditions)) == (Answer.UNKNOWN, 1)


@pytest.mark.parametrize(("conditions", "certain"), [(3, True), (20, False)])
def test_an_import_fails_for_sure_only_if_all_its_ways_do(conditions: int, *, certain: bool) -> None:
    # There are more ways than are followed: that of no failure is after them.
    code = "import numpy\ndef fail(code):\n    raise ValueError(code)\n"
    code += "".join(f"if numpy.check({number}) != 0:\n    fail({number})\n" for number in range(conditions))
    code += "fail(-1)\n" if certain else ""
    (outcome,) = reading_of({"p/__init__.py": code}).imports
    assert (outcome.raised is not Answer.UNKNOWN) is certain


@pytest.mark.parametrize("made", ["Missing", "Missing()", "Missing('text', 1)"])
def test_an_exception_of_an_unknown_class_is_caught_by_that_class(made: str) -> None:
    code = "from foreign import Missing, Other\ntry:\n    raise {}\nexcept {}:\n    pass\n"
    assert outcome_of(code.format(made, "Missing")).raised is None
    assert outcome_of(code.format(made, "Other")).raised is not None


def test_one_question_has_one_answer_inside_of_others_too() -> None:
    # As in optimum.intel: where the first condition has been false, so is the second one.
    code = """
import importlib.util
from foreign import Missing, is_other_there
names = {}
def is_there(): return importlib.util.find_spec("other") is not None
try:
    if not is_there():
        raise Missing()
except Missing:
    pass
else:
    names["there"] = []
try:
    if not (is_there() and is_other_there()):
        raise Missing()
except Missing:
    pass
else:
    names["there"].append(1)
"""
    assert outcome_of(code).raised is None


def test_a_branch_that_raises_or_returns_is_no_check() -> None:
    code = "import numpy\ndef convert(value):\n    if isinstance(value, numpy.thing):\n        if value:\n"
    code += "            return 1\n        raise ValueError(1)\n    raise TypeError(2)\nconvert([0])\n"
    (outcome,) = reading_of({"p/__init__.py": code}).imports
    assert outcome.raised is Answer.UNKNOWN


CHECKS = {
    "import other\nif not other.there():\n    raise ImportError('no')\n": "not other.there() is false",
    "import other\nif other.there():\n    x = 1\nelse:\n    raise ImportError\n": "other.there() is true",
    "import other\ntry:\n    if other.there():\n        raise ImportError\nexcept ImportError:\n    pass\n": None,
    "import other\ndef f():\n    if other.there():\n        raise ImportError\nf()\n": None,
    "import other\nif other.there():\n    x = 1\n": None,
    "import sys\nif sys.flags.other():\n    raise ImportError\n": None,
}


@pytest.mark.parametrize("code", CHECKS)
def test_what_a_module_checks_of_a_package_that_is_not_required_is_a_condition(code: str) -> None:
    outcome = outcome_of(code)
    assert outcome.raised is None
    said = [f"the package does not require other, and raises unless {check}" for check in [CHECKS[code]] if check]
    assert [need.why for need in outcome.needs] == said


@pytest.mark.parametrize(
    "code",
    [
        "names = globals()\nother.build(names)\nnames['Made'].start = 1\n",
        "made = {}\nother.fill(made)\nif 'a' not in made:\n    made['a']\n",
        "made = {'a': 1}\nother.fill(made)\nif 'a' not in made or made['a'] != 1:\n    raise ValueError\n",
    ],
)
def test_a_dict_that_other_code_gets_may_have_more(code: str) -> None:
    assert outcome_of(f"import other\n{code}").raised is None


@pytest.mark.parametrize("holds", [True, False])
def test_a_version_of_numpy_compares_with_a_text(*, holds: bool) -> None:
    claim = "np.lib.NumpyVersion('1.26.4') >= '1.25.0' and NumpyVersion('1.9.0') < NumpyVersion('1.10.0') == '1.10.0'"
    code = (
        f"import numpy as np\nfrom numpy.lib import NumpyVersion\nif ({claim}) is not {holds}:\n    raise ValueError\n"
    )
    outcome = outcome_of(code)
    assert (outcome.raised is None, outcome.gaps) == (holds, ())


@pytest.mark.parametrize(
    ("form", "decides"), [("plugins.register_resolver('x', {})", False), ("plugins.run({})", True)]
)
def test_what_is_registered_is_called_later(form: str, *, decides: bool) -> None:
    code = (
        "import plugins, os, torch\ndef resolve():\n    torch.ops.load_library(os.path.dirname(__file__) + '/lib.so')\n"
    )
    files = {"p/__init__.py": f"{code}{form.format('resolve')}\n", "p/lib.so": ""}
    (outcome,) = reading_of(files, FakeWorld(error=lambda _path: "broken")).imports
    assert (outcome.raised is Answer.UNKNOWN) is decides


def test_what_a_decorator_makes_may_be_of_any_class() -> None:
    code = """\
import numpy

class Kernel:
    pass

@numpy.kernel
def run():
    pass

assert isinstance(run, Kernel)
"""
    (outcome,) = reading_of({"p/__init__.py": code}).imports
    assert outcome.raised is None


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("def setup():\n    global made\n    made = 1\n", "made"),
        ("items = {}\ndef inner():\n    items['k'] = 1\ndef setup():\n    inner()\n", "items['k']"),
        ("class C:\n    def run(self):\n        self.x = 1\nc = C()\nsetup = c.run\n", "c.x"),
        ("class C:\n    @classmethod\n    def run(cls):\n        cls.x = 1\ndef setup():\n    C.run()\n", "C.x"),
        ("class C:\n    pass\nc = C()\ndef set_on(o):\n    o.x = 1\ndef setup():\n    set_on(c)\n", "c.x"),
        ("class C:\n    pass\ndef setup():\n    pass\nsetattr(C, platform.node(), 1)\n", "C.x"),
    ],
)
def test_what_a_call_in_a_branch_sets_may_be_there(code: str, name: str) -> None:
    assert outcome_of(f"{code}if platform.node() == 'mine':\n    setup()\n{name}\n").raised is None


def test_what_a_followed_decorator_makes_may_have_any_name() -> None:
    code = """\
import foreign

def proxies(function):
    return foreign.made(function)

@proxies
def inner():
    pass

assert {inner.__name__} == {"run"}
"""
    (outcome,) = reading_of({"p/__init__.py": code}).imports
    assert not isinstance(outcome.raised, Raised)


@pytest.mark.parametrize(
    "call",
    [
        *("ord(platform.node())", "chr(platform.node())", "round(2.5, platform.node())"),
        *("round(2.5, ndigits=platform.node())", "pow(2, 3, mod=platform.node())", "divmod(7, platform.node())"),
    ],
)
def test_a_function_of_python_of_what_is_not_known_raises_nothing(call: str) -> None:
    outcome = outcome_of(f"x = {call}\n")
    assert (outcome.raised, outcome.gaps) == (None, ())


PAIRS = """
kinds = [Kind, *(type(f"K{number}", (Kind,), {}) for number in range(9))]
pairs = [(first, second) for first in kinds for second in kinds]
found = {}
for key in [*pairs, *pairs]:
    found[key] = found.get(key, ()) + (key,)
raise ValueError(f"{len(found)} {len(found[Kind, Kind])} {(Kind, None) in found}")
"""


@pytest.mark.parametrize("header", ["class Kind: ...", "class Meta(type): ...\nclass Kind(metaclass=Meta): ..."])
def test_keys_made_of_classes_are_found_without_going_through_all(header: str) -> None:
    source = f"{header}\n{PAIRS}"
    with pytest.raises(ValueError, match=r"\d+ \d+ False") as failure:
        exec(source, {"__name__": "p"})
    code = PythonCode(PackageFiles(TextSources({"p/__init__.py": source})), ["p"], (3, 11), Surroundings())
    runs = Runs(code, FakeWorld, Limits(), RunCache())
    raised = runs.run("p").raised
    assert isinstance(raised, Raised)
    assert raised.message == str(failure.value)
    assert runs.steps < 8_000


def test_keys_made_of_classes_are_equal_where_their_metaclass_says_so() -> None:
    source = """
class Meta(type):
    def __eq__(self, other): return True
    def __hash__(self): return 1
class A(metaclass=Meta): ...
class B(metaclass=Meta): ...
if (A, 1) in {(B, 1): 0}:
    raise ValueError("equal")
"""
    with pytest.raises(ValueError, match="equal"):
        exec(source, {"__name__": "p"})
    assert outcome_of(source).raised is not None


def test_the_class_of_the_version_of_torch_goes_by_its_name() -> None:
    raised = outcome_of("raise ImportError(type(torch.__version__).__name__)").raised
    assert isinstance(raised, Raised)
    assert raised.message == "TorchVersion"  # torch/torch_version.py


TURNS = {
    "one of three": ("found = [n for n in NAMES if asks(n)]\nif len(found) != 1: raise ValueError", "abc"),
    "appended": ("for n in NAMES:\n  if asks(n): found.append(n)\nif len(found) != 1: raise ValueError", "abc"),
    "a branch that acts": (
        "for n in NAMES:\n  if asks(n):\n    load(n)\n    found.append(n)\nif len(found) != 1: raise ValueError",
        "abc",
    ),
    "set by key": ("for n in NAMES:\n  if asks(n): seen[n] = 1\nif len(seen) != 2: raise ValueError", "abcd"),
    "another call": (
        "def take(n):\n  if asks(n): found.append(n)\nfor n in NAMES: take(n)\nif len(found) != 1: raise ValueError",
        "ab",
    ),
    "two errors": (
        "for n in NAMES:\n  if asks(n): found.append(n)\nif found: raise KeyError\nraise ValueError",
        "abc",
    ),
    "none": ("for n in NAMES:\n  if asks(n): found.append(n)\nif found: raise ValueError", "abc"),
    "whatever": ("for n in NAMES:\n  if asks(n): found.append(n)\nraise ValueError", "abcdefgh"),
    "two of many": (
        "for n in NAMES:\n  if asks(n): found.append(n)\nif len(found) != 2: raise ValueError(len(found))",
        "abcdef",
    ),
    "many that do not matter": (
        "for n in NAMES:\n  if asks(n): found.append(n)\nif asks(''): raise KeyError\nraise ValueError",
        "abcdef",
    ),
    "in a turn": ("for n in NAMES:\n  if asks(n): raise ValueError(1)\nraise ValueError(2)", "ab"),
    "the same thing": (
        "first = asks('a')\nfor n in NAMES:\n  if first: found.append(n)\nif len(found) != 1: raise ValueError",
        "abc",
    ),
}
ASKS = """
import ctypes, platform
NAMES, found, seen = {names!r}, [], {{}}
def asks(name): return platform.node().startswith(name)
def load(name):
    if name == "no such": ctypes.CDLL(name)
{body}
"""


def ends_of(source: str, names: str) -> set[str | None]:
    """How Python ends, whatever it is told of each name."""
    ends = set[str | None]()
    for answers in itertools.product((False, True), repeat=len(names)):
        told = {"": False, **dict(zip(names, answers, strict=True))}
        node = SimpleNamespace(startswith=told.__getitem__)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(platform, "node", lambda node=node: node)
            try:
                exec(source, {"__name__": "p"})
            except (ValueError, KeyError) as error:
                ends.add(type(error).__name__)
            else:
                ends.add(None)
    return ends


@pytest.mark.parametrize(("body", "names"), TURNS.values(), ids=TURNS)
def test_a_failure_is_certain_if_no_turn_decides_otherwise(body: str, names: str) -> None:
    source = ASKS.format(body=body, names=list(names))
    raised = outcome_of(source).raised
    assert isinstance(raised, Raised) is (None not in ends_of(source, names))


@pytest.mark.parametrize(("variable", "is_certain"), [("LD_LIBRARY_PATH", True), ("CUDA_HOME", False)])
def test_places_that_are_looked_at_for_a_user_alone(variable: str, *, is_certain: bool) -> None:
    """As dgl looks for its libraries, which are not in its wheel: dmlc/dgl#7247."""
    code = f"""import os
places = [os.path.dirname(__file__)]
if os.environ.get("{variable}"):
    places.append(os.environ["{variable}"])
found = [place for place in places if os.path.isfile(os.path.join(place, "libmine.so"))]
if not found:
    raise FileNotFoundError("libmine.so")
"""
    assert isinstance(outcome_of(code).raised, Raised) is is_certain


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        ("f(**other.x)", "k is None"),
        ("f(**other.x)", "not named"),
        ("f(**other.x)", "'n' not in {key: value for key, value in named.items() if value is not None}"),
        ("f(*other.x)", "a is None"),
        ("f(*other.x)", "not rest"),
        ("f(1, **other.x)", "k is None"),
    ],
)
def test_what_unknown_arguments_may_give_is_no_default(call: str, wrong: str) -> None:
    body = f"def f(a=None, *rest, k=None, **named):\n    if {wrong}:\n        raise ValueError\n"
    (outcome,) = reading_of({"p/__init__.py": f"import other\n{body}{call}\n"}).imports
    assert outcome.raised is None


@pytest.mark.parametrize("call", ["f(*other.x)", "f(1, k=2, **other.x)"])
def test_what_unknown_arguments_cannot_give_is_known(call: str) -> None:
    body = "def f(a=None, *rest, k=2, **named):\n    if k == 2:\n        raise ValueError\n"
    (outcome,) = reading_of({"p/__init__.py": f"import other\n{body}{call}\n"}).imports
    assert isinstance(outcome.raised, Raised)


@pytest.mark.parametrize(
    "code",
    [
        "class C(dict):\n    def __init__(self):\n        self.__dict__ = self\nc = C()\nc.update(other.x)\nc.name\n",
        "class C(dict):\n    def __init__(self):\n        self.__dict__ = self\nc = C()\nc[other.x] = 1\nc.name\n",
        "one = two = [1]\none *= other.x\ntwo[1]\n",
        "one = two = {1}\none -= other.x\nassert 1 not in two\n",
    ],
)
def test_what_is_not_known_may_be_in_an_object(code: str) -> None:
    (outcome,) = reading_of({"p/__init__.py": f"import other\n{code}"}).imports
    assert outcome.raised is None


ADDED_IN_A_BRANCH = (
    "m = l = []\nif platform.node():\n    l += [1]\nm[0]\n",
    "l = []\nif platform.node():\n    l.append(1)\nl.pop()\n",
    "l = []\nif platform.node():\n    l.extend([1])\nl.index(1)\n",
    "d = {}\nif platform.node():\n    d.update(a=1)\nd['a']\n",
    "d = {}\nif platform.node():\n    d |= {'a': 1}\nd.pop('a')\n",
    "s = set()\nif platform.node():\n    s.add(1)\ns.remove(1)\n",
    "class C:\n    l = []\nif platform.node():\n    C.l += [1]\nC.l[0]\n",
)


@pytest.mark.parametrize("code", ADDED_IN_A_BRANCH)
def test_what_a_branch_may_have_added_is_not_certainly_absent(code: str) -> None:
    assert not isinstance(outcome_of(code).raised, Raised)
    assert isinstance(outcome_of(code.replace("platform.node()", "False")).raised, Raised)
