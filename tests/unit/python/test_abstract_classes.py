"""Classes that abstract ones count as their own: ``register`` and ``__subclasshook__`` of the module abc."""

from __future__ import annotations

import pytest

from tests.unit.python.packages import check_claim, reading_of

SOURCE = """\
from abc import ABC, ABCMeta
from typing import Protocol

class Whole(ABC):
    @classmethod
    def __subclasshook__(cls, kind):
        return False if kind is bool else issubclass(kind, int)

class Moving(metaclass=ABCMeta):
    @classmethod
    def __subclasshook__(cls, kind):
        return True if any("go" in base.__dict__ for base in kind.__mro__) else NotImplemented

class Sequence(ABC):
    pass

class Array(Sequence):
    pass

Array.register(list)

@Sequence.register
class Rows:
    pass

class Car:
    def go(self):
        pass

class Parked(Moving):
    pass

class Stopping(Protocol):
    def stop(self): ...

class Plain:
    @classmethod
    def __subclasshook__(cls, kind):
        return True

class Base:
    pass

class Derived(Base, ABC):
    pass

Derived.register(int)
"""
HOLDS = [
    "isinstance(3, Whole) and issubclass(int, Whole) and not isinstance(True, Whole)",
    "Stopping.register(Car) is Car",
    "not isinstance(1, Plain) and isinstance(1, Derived) and not isinstance(1, Base)",
    "not isinstance(2.5, Whole) and not isinstance(None, Whole)",
    "isinstance(Car(), Moving) and issubclass(Car, Moving) and isinstance(Parked(), Moving)",
    "isinstance([], Array) and isinstance([], Sequence) and issubclass(list, (Car, Sequence))",
    "isinstance(Rows(), Sequence) and not isinstance(Rows(), Array) and not isinstance((), Sequence)",
]


@pytest.mark.parametrize("claim", HOLDS)
def test_what_abstract_classes_count_as_theirs(claim: str) -> None:
    check_claim(SOURCE, claim)


TO_IMPLEMENT = """\
import functools
import inspect
from abc import ABC, ABCMeta, abstractmethod

class Backend(metaclass=ABCMeta):
    @classmethod
    @abstractmethod
    def supports(cls): ...
    @property
    @abstractmethod
    def name(self): ...

class Unfinished(Backend):
    @staticmethod
    def supports(): ...

class Finished(Unfinished):
    @functools.lru_cache()
    def name(self): ...

class Plain: ...

class Empty(ABC): ...
"""


@pytest.mark.parametrize(
    "claim",
    [
        "inspect.isabstract(Backend) and inspect.isabstract(Unfinished)",
        "not (inspect.isabstract(Finished) or inspect.isabstract(Plain) or inspect.isabstract(Empty))",
        "not (inspect.isabstract(abstractmethod) or inspect.isabstract(3) or inspect.isabstract(None))",
        # As Triton finds its backends.
        "[c for c in (Backend, Finished) if issubclass(c, Backend) and not inspect.isabstract(c)] == [Finished]",
    ],
)
def test_which_classes_are_abstract(claim: str) -> None:
    check_claim(TO_IMPLEMENT, claim)


@pytest.mark.parametrize(
    "change", ["Other.name = 1", "Backend.name = 1", "del Backend.name", "setattr(Other, 'name', 1)"]
)
def test_a_class_that_was_changed_may_still_count_as_abstract(change: str) -> None:
    code = f"{TO_IMPLEMENT}\nclass Other(Unfinished): ...\n{change}\n"
    use = "if not inspect.isabstract(Other):\n    raise ValueError('no')\n"
    exec(compile(code + use, "real", "exec"), {"__name__": __name__})  # as Python has it
    for tail in (use, use.replace("if not", "if")):
        (outcome,) = reading_of({"p/__init__.py": code + tail}).imports
        assert outcome.raised is None


def test_a_base_that_is_not_known_may_register_in_its_own_way() -> None:
    """``register`` belongs to the metaclass of ``ABC``: any base goes before it (type_getattro)."""
    code = "from abc import ABC\nfrom other import Mixin\nclass Kind(ABC, Mixin):\n    pass\n"
    code += "@Kind.register('name')\nclass One(Kind):\n    pass\n"
    assert reading_of({"p/__init__.py": code}).imports[0].raised is None
