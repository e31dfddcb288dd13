"""``inspect.signature``, and abstract classes in ``isinstance``: the checks are those of Python itself."""

from __future__ import annotations

import pytest

from tests.unit.python.packages import check_claim

SOURCE = """\
import collections.abc, functools, inspect, numbers, typing
from inspect import Parameter, signature

def plain(a, b=2, *args, c: int, d=None, **more): ...

class Own:
    def __init__(self, x, y=1): ...
    def method(self, z): ...
    def __call__(self, called): ...
    @classmethod
    def of_class(cls, w): ...

@functools.wraps(plain)
def wrapping(*args, **kwargs): ...

parameters = signature(plain).parameters
"""
HOLDS = [
    "list(parameters) == ['a', 'b', 'args', 'c', 'd', 'more']",
    "parameters['b'].default == 2 and parameters['d'].default is None",
    "parameters['a'].default is Parameter.empty and parameters['a'].default is inspect._empty",
    "parameters['args'].kind == Parameter.VAR_POSITIONAL and parameters['more'].kind is Parameter.VAR_KEYWORD",
    "parameters['c'].kind == parameters['c'].KEYWORD_ONLY and parameters['c'].kind.name == 'KEYWORD_ONLY'",
    "parameters['a'].annotation is inspect.Signature.empty",
    "list(signature(Own).parameters) == ['x', 'y']",
    "list(signature(Own(1).method).parameters) == ['z'] and list(signature(Own.method).parameters) == ['self', 'z']",
    "list(signature(Own(1)).parameters) == ['called'] and list(signature(Own.of_class).parameters) == ['w']",
    "list(signature(wrapping).parameters) == list(parameters)",
    "len(signature(lambda one: one).parameters) == 1",
    "isinstance([0], typing.Sequence) and isinstance('a', collections.abc.Sequence)",
    "isinstance({}, typing.Mapping) and isinstance({1}, typing.AbstractSet) and isinstance([], typing.List)",
    "not isinstance(3, collections.abc.Iterable) and not isinstance([], collections.abc.Hashable)",
    "isinstance(True, numbers.Integral) and not isinstance('1', numbers.Number)",
    "issubclass(list, typing.Sequence) and not issubclass(set, collections.abc.Sequence)",
]


@pytest.mark.parametrize("claim", HOLDS)
def test_what_holds(claim: str) -> None:
    check_claim(SOURCE, claim)
