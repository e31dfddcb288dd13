"""What becomes of dataclasses, and of classes that derive from one: the checks are those of Python itself."""

from __future__ import annotations

import pytest

from abiscan.python.later.dataclass_defaults import default_needs
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Raised
from abiscan.python.package.sources import PackageFiles
from abiscan.python.reading import PackageReader
from tests.unit.python.packages import FakeWorld, TextSources, check_claim, reading_of

SOURCE = """\
from dataclasses import dataclass, field

class Abstract:
    def __init__(self):
        raise TypeError("abstract")

@dataclass(order=True)
class Config(Abstract):
    size: int = 1
    names: list = field(default_factory=list)

    def __post_init__(self):
        self.scaled = self.size * self.factor

    factor = 2

class Plain(Config):
    factor = 3

class Larger(Config):
    def __init__(self, size):
        super().__init__(size=size + 1)

@dataclass
class Further(Larger):
    depth: int = 5

class Filled:
    def __init__(self, value):
        self.value = value

@dataclass(init=False)
class Uninitialised(Filled):
    size: int = 1

@dataclass
class Own:
    size: int

    def __init__(self):
        self.size = 9

@dataclass
class Failure(Exception):
    code: int

class Patched(Config): ...
original = Patched.__init__

def initialise(self, *args, **kwargs):
    original(self, *args, **kwargs)
    self.more = 7

Patched.__init__ = initialise
"""
HOLDS = [
    "Config().size == 1 and Config(2).scaled == 4",
    "Plain(size=3).size == 3 and Plain(3).names == []",
    "Plain(2).scaled == 6",
    "Plain(2) == Plain(2) and Plain(1) < Plain(2)",
    "Larger(3).size == 4",
    "(Further(7).size, Further(7).depth) == (7, 5)",
    "Uninitialised(5).value == 5",
    "Own().size == 9",
    "Failure(5).code == 5",
    "Patched(4).size == 4 and Patched(4).more == 7",
]


@pytest.mark.parametrize("claim", HOLDS)
def test_objects(claim: str) -> None:
    check_claim(SOURCE, claim)


BASE = "from dataclasses import KW_ONLY, dataclass, field\nfrom typing import ClassVar\n@dataclass\nclass A:\n"


@pytest.mark.parametrize(
    "source",
    [
        f"{BASE}  a: int\n  key: ClassVar[int] = 1\n",  # as FP8Params in vllm 0.22.0
        f"{BASE}  a: int\n  _: KW_ONLY\n  key: int = 1\n",
        f"{BASE}  a: int\n  key: int = field(default=1, kw_only=True)\n",
        f"{BASE}  a: int\n@dataclass(kw_only=True)\nclass A(A):\n  key: int = 1\n",
    ],
)
def test_a_field_may_follow_what_bases_take_as_keywords(source: str) -> None:
    check_claim(f"{source}@dataclass\nclass B(A):\n  b: int\nb = B(3, 4)\n", "(b.a, b.b, b.key) == (3, 4, 1)")


def test_a_field_must_not_follow_the_default_of_a_base() -> None:
    source = f"{BASE}  key: ClassVar[int] = 1\n  a: int = 1\n@dataclass\nclass B(A):\n  b: int\n"
    (outcome,) = reading_of({"p/__init__.py": source}).imports
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.message == "non-default argument 'b' follows default argument"


ROLE = (
    "from dataclasses import dataclass\n@dataclass\nclass Resource:\n  cpu: int = 1\nNULL = Resource(cpu=-1)\n"
    "@dataclass\nclass Role:\n  name: str\n  resource: Resource = NULL\n"
)
"""As in torchx/specs/api.py of torchx 0.5.0, which its import does not run (meta-pytorch/torchx#744)."""


@pytest.mark.parametrize(
    ("source", "is_needed"),
    [
        (ROLE, True),
        (ROLE.replace("= NULL\n", "= Resource(2)\n"), True),
        (ROLE.replace("from dataclasses import dataclass", "import dataclasses").replace("@", "@dataclasses."), True),
        (ROLE.replace("@dataclass\nclass Resource", "@dataclass(frozen=True)\nclass Resource"), False),
        (ROLE.replace("  cpu: int = 1", "  cpu: int = 1\n  def __hash__(self): return 1"), False),
        (ROLE.replace("@dataclass\nclass Resource", "class Resource"), False),
        (ROLE.replace("class Resource:", "class Resource(Base):"), False),
        (ROLE.replace("resource: Resource", "resource: ClassVar[Resource]"), False),
        (ROLE.replace("= NULL\n", "= field(default_factory=Resource)\n"), False),
        (f"{ROLE}NULL = 1\n", False),
    ],
)
def test_a_default_that_newer_pythons_reject(source: str, *, is_needed: bool) -> None:
    reader = PackageReader(TextSources({"p/__init__.py": "", "p/api.py": source}), ["p"])

    def needs(oldest: tuple[int, int], newest: tuple[int, int]) -> list[bool]:
        world = FakeWorld(python=newest, oldest_python=oldest, newest_python=newest)
        return [need.is_refused for need in reader.python_needs(world) if "default <class 'p.api.Res" in need.why]

    assert needs((3, 8), (3, 11)) == [False] * is_needed
    assert needs((3, 11), (3, 12)) == [True] * is_needed
    assert needs((3, 8), (3, 10)) == []


SETTINGS = (
    "from dataclasses import dataclass\nfrom .detector import Detector as D\n@dataclass\nclass A:\n  d: D = D()\n"
)
"""As in sapiens_inference/predictor.py of sapiens-inferece 0.2.0 (ibaiGorordo/Sapiens-Pytorch-Inference#12)."""


@pytest.mark.parametrize(
    ("source", "detector", "is_needed"),
    [
        (SETTINGS, "from dataclasses import dataclass\n@dataclass\nclass Detector: ...\n", True),
        (
            SETTINGS.replace("import Detector", "import other, \\\n  Detector"),
            "from dataclasses import dataclass\n@dataclass\nclass Detector: ...\n",
            True,
        ),
        (SETTINGS, "from dataclasses import dataclass\n@dataclass(eq=False)\nclass Detector: ...\n", False),
        (SETTINGS, "class Detector: ...\n", False),
        (SETTINGS.replace("from .detector", "from other.detector"), "", False),
        (SETTINGS.replace("= D()", "= field(default_factory=D)"), "", False),
    ],
)
def test_a_default_of_another_module_that_newer_pythons_reject(source: str, detector: str, *, is_needed: bool) -> None:
    sources = {"p/__init__.py": "", "p/api.py": source, "p/detector.py": detector}
    reader = PackageReader(TextSources(sources), ["p"])
    world = FakeWorld(python=(3, 11), oldest_python=(3, 8), newest_python=(3, 11))

    # Seen with Python 3.11.7.
    text = "ValueError: mutable default <class 'p.detector.Detector'> for field d is not allowed: use default_factory"
    assert [text in need.why for need in reader.python_needs(world)] == [True] * is_needed


def test_sources_are_parsed_only_for_dataclasses_that_may_have_no_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(PythonCode, "tree", lambda _code, path: parsed.append(path))
    field_of = (
        "from p.other import {cls}\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    x: {cls} = {cls}()\n"
    )
    imported = "from dataclasses import dataclass\n"
    other = f"{imported}@dataclass\nclass Own:\n    x: int\n@dataclass\nclass Derived(Base):\n    y: int\n"
    files = {
        "p/own.py": field_of.format(cls="Own"),
        "p/derived.py": field_of.format(cls="Derived"),
        "p/other.py": other,
    }
    code = PythonCode(PackageFiles(TextSources({"p/__init__.py": "", **files})), ("p",), (3, 11))
    assert not list(default_needs(code, FakeWorld(newest_python=(3, 12))))
    assert parsed == ["p/own.py"]
