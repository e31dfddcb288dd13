"""Whether code may set an attribute of that name on an object of others: by its text."""

from __future__ import annotations

import pytest

from abiscan.python.package.added_names import may_add_in, may_set_in

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


@pytest.mark.parametrize(
    ("source", "may"),
    [
        ("import sys\nsys.modules.update(made)", True),
        ("import sys as _sys\n_sys.modules.setdefault('lib.part', made)", True),
        ("from sys import modules\nmodules.update(made)", True),
        ("import sys\nmodules = sys.modules\nmodules.update(made)", True),
        ("import sys\nsys.modules['lib'] = made", True),
        ("import sys\nsys.modules['lib.part'] = made", True),
        ("import sys\nsys.modules['lib.other'] = made", False),
        # as peft/peft_model.py of peft 0.17.1, in which HybridCache was said to be there (xorbitsai/inference#5260)
        ("modules = set()\nmodules.update(saved)", False),
        ("self.modules.setdefault('lib.part', made)", False),
    ],
)
def test_what_puts_a_module_in_its_place(source: str, *, may: bool) -> None:
    assert may_add_in(f"import lib\n{source}\n".encode(), "lib", "part") is may
