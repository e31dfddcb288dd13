"""Modules that code loads as a whole: which loads count, and what a torch reads that older ones did not save."""

from __future__ import annotations

import pytest

from abiscan.python.reading import PackageReader
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources

KEPT = (
    "class A:\n  def __init__(self, p):\n    self.f(p)\n    self.m.eval()\n  def f(self, p): self.m = torch.load(p)\n"
)


def found_in(body: str, release: str) -> tuple[list[str], list[int]]:
    reader = PackageReader(TextSources({"pack/__init__.py": f"import torch\n{body}"}), ["pack"])
    attributes, lines = reader.old_modules(FakeWorld(torch_names=embedded_names.names(release)))
    return [item.name for item in attributes], [line.line for line in lines]


@pytest.mark.parametrize(
    ("release", "names"),
    [
        # BiomedSciAI/histocartography#33; torch/nn/modules of the wheels of these releases.
        ("1.10.2", []),
        ("1.11.0", ["recompute_scale_factor"]),
        ("1.12.1", ["approximate", "recompute_scale_factor"]),
        ("2.5.1", ["approximate", "recompute_scale_factor"]),
        ("2.6.0", []),  # refuses whole modules
    ],
)
def test_what_older_modules_lack(release: str, names: list[str]) -> None:
    assert found_in(KEPT, release) == (names, [6] if names else [])


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("def f(p):\n  m = torch.load(p)\n  m.eval()\n", [3]),
        ("def f(p):\n  m = torch.load(p)\n  m['state_dict']\n", []),
        ("def f(p, m): m.load_state_dict(torch.load(p))\n", []),
        ("import json\ndef f(p):\n  m = json.load(p)\n  m.eval()\ntorch.load\n", []),
    ],
)
def test_which_loads_are_of_modules(body: str, lines: list[int]) -> None:
    assert found_in(body, "1.13.1")[1] == lines
