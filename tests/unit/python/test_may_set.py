"""Whether code may set an attribute of that name on an object of others: by its text."""

from __future__ import annotations

import pytest

from abiscan.python.library import may_set_in

SOURCES = {
    "x.name = 1": True,
    "x.name: int = 1": True,
    "myself.name = 1": True,
    "x.name == 1": False,
    "x.names = 1": False,
    "self.name = 1": False,
    "cls.name = 1": False,
    "self.name: torch.name = value": False,
    "self.name = 1\nx.name = 1": True,
    "def f(a: torch.name = 1): ...": False,
    "setattr(x, 'name', 1)": True,
    'setattr(\n    x,\n    "name",\n    1)': True,
    "mock.patch('torch.name')": False,
    "patch('name')": True,
    "f('name')": False,
    f"setattr(x, {'y' * 300}, 1); f('name')": False,
}


@pytest.mark.parametrize("source", SOURCES)
def test_what_sets_an_attribute_of_others(source: str) -> None:
    assert may_set_in(source.encode(), "name") is SOURCES[source]
