"""What the package makes of enumerations: the checks are those of Python itself, run on the same source."""

from __future__ import annotations

import sys
import types

import pytest

from tests.unit.python.packages import FakeWorld, check_claim, reading_of

SOURCE = """\
from dataclasses import dataclass
from enum import Enum, Flag, IntEnum, auto, unique

class Own(Enum):
    "Derived from once more."

    @property
    def doubled(self):
        return self.value * 2

@unique
class Color(Own):
    RED = 1
    BLUE = 2
    _hidden = 3

    def shout(self):
        return self.name + "!"

class Level(IntEnum):
    LOW = 1
    HIGH = 2

class Word(str, Enum):
    YES = "yes"

class Bits(Flag):
    A = auto()

class Planet(Enum):
    EARTH = 5, 2
    MARS = 6, 3

    def __init__(self, mass, radius):
        self.mass, self.radius = mass, radius

    @property
    def density(self):
        return self.mass / self.radius

class Documented(Enum):
    FIRST = 1, "the first"

    def __new__(cls, value, text):
        made = object.__new__(cls)
        made._value_, made.text = value, text
        return made

@dataclass
class Size:
    width: int
    unit: str = "mm"

class Paper(Size, Enum):
    LARGE = 10, "cm"
    SMALL = 5

NAMES = {Color.RED: "red", Color.BLUE: "blue"}
"""
HOLDS = [
    "Color.RED.value == 1",
    "Color.BLUE.name == 'BLUE'",
    "Color.BLUE.doubled == 4",
    "Color.RED.shout() == 'RED!'",
    "NAMES[Color.BLUE] == 'blue'",
    "Color.RED is Color.RED",
    "Level.HIGH > Level.LOW",
    "Level.HIGH.value + 1 == 3",
    "Level.LOW.name == 'LOW'",
    "Word.YES == 'yes' and Word.YES.value.upper() == 'YES'",
    "Bits.A.name == 'A'",
    "Color._hidden.value == 3",
    "Planet.EARTH.density == 2.5 and Planet.MARS.radius == 3",
    "Planet.EARTH.value == (5, 2)",
    "Documented.FIRST.value == 1 and Documented.FIRST.text == 'the first'",
    "Paper.LARGE.unit == 'cm' and Paper.SMALL.unit == 'mm'",
    # Before 3.11, the value is the tuple of the arguments.
    *(["Paper.LARGE.value.width == 10"] if sys.version_info >= (3, 11) else []),
]


@pytest.mark.parametrize("claim", HOLDS)
def test_members(claim: str) -> None:
    check_claim(SOURCE, claim)


@pytest.mark.parametrize(
    ("python", "claim"),
    [
        ((3, 10), "Paper.LARGE.value == (10, 'cm') and Paper.SMALL.value == 5"),  # as 3.10.13 says
        ((3, 11), "Paper.LARGE.value.width == 10 and Paper.SMALL.value.unit == 'mm'"),
    ],
)
def test_the_value_of_a_member_with_a_dataclass(python: tuple[int, int], claim: str) -> None:
    code = f"{SOURCE}\nif not ({claim}):\n    raise ValueError\n"
    (outcome,) = reading_of({"p/__init__.py": code}, FakeWorld(python=python)).imports
    assert (outcome.raised, outcome.gaps) == (None, ())


OF_ANOTHER_PACKAGE = """\
from words import LowercaseStrEnum

class Axis(LowercaseStrEnum):
    BATCH = "batch"
    ANY = "..."

    @classmethod
    def names(cls, *axes):
        return " ".join(axis.value for axis in axes)

AXES = Axis.names(Axis.BATCH, Axis.ANY)
AXES.split(), Axis.ANY.name.lower()
"""


def test_an_enumeration_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    words = types.ModuleType("words")
    exec("from enum import Enum\nclass LowercaseStrEnum(str, Enum): ...", words.__dict__)
    monkeypatch.setitem(sys.modules, "words", words)
    exec(compile(OF_ANOTHER_PACKAGE, "real", "exec"), {"__name__": "real"})
    (outcome,) = reading_of({"p/__init__.py": OF_ANOTHER_PACKAGE}).imports
    assert (outcome.raised, outcome.gaps) == (None, ())


def test_the_table_of_values_that_are_not_known() -> None:
    code = "import enum, other\nclass E(enum.Enum):\n    A = other.a\nfound = E._value2member_map_[other.a]\n"
    (outcome,) = reading_of({"p/__init__.py": code}).imports
    assert (outcome.raised, outcome.gaps) == (None, ())


def test_a_member_with_several_values() -> None:
    code = """\
import enum, torch
class E(enum.Enum):
    half = torch.float16, "fp16", "half"
    full = torch.float32, "fp32"
    def __new__(cls, *values):
        made = object.__new__(cls)
        made._value_ = values[0]
        for value in values[1:]:
            cls._value2member_map_[value] = made
        return made
if E("half") is not E.half or E("fp32").name != "full" or E.half.value is not torch.float16:
    raise ValueError
"""
    (outcome,) = reading_of({"p/__init__.py": code}).imports
    assert (outcome.raised, outcome.gaps) == (None, ())
