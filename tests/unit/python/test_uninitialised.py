"""Optimizers that were not initialised as those of torch, and which torch fails for that.

What each class does was seen in a running torch 2.13.0: ``zero_grad()``, then ``step()``.
"""

from __future__ import annotations

import textwrap

import pytest

from abiscan.python.reading import PackageReader
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources

INIT = "  def __init__(self, o):\n    self.o, self.param_groups, self.defaults = o, o.param_groups, o.defaults\n"
STEP = "  def step(self, closure=None): return self.o.step(closure)\n"
CLASS = f"from torch.optim import Optimizer\nclass Ahead(Optimizer):\n{INIT}{STEP}"


def found_in(source: str, release: str = "2.13.0") -> list[tuple[int, str, str]]:
    world = FakeWorld(torch_names=embedded_names.names(release))
    reader = PackageReader(TextSources({"pack/__init__.py": textwrap.dedent(source)}), ["pack"])
    return [(use.line, use.function, use.error) for use in reader.later_uses(world)]


ERROR = "'Ahead' object has no attribute '_optimizer_step_pre_hooks'"


@pytest.mark.parametrize(
    "source",
    [
        CLASS,
        CLASS.replace("from torch.optim import", "from torch.optim.optimizer import"),
        CLASS.replace("from torch.optim import Optimizer", "import torch").replace("(O", "(torch.optim.O"),
        CLASS.replace("(Optimizer)", "(Optimizer, Checks)"),
    ],
)
def test_a_constructor_that_leaves_out_that_of_torch(source: str) -> None:
    assert found_in(source) == [(3, "Ahead.__init__", ERROR)]
    assert found_in(source, "1.13.1") == []


@pytest.mark.parametrize(
    "source",
    [
        f"{CLASS}  def zero_grad(self, set_to_none=True): self.o.zero_grad()\n",
        CLASS.replace("    self.o,", "    super().__init__(o.param_groups, {})\n    self.o,"),
        CLASS.replace("    self.o,", "    Optimizer.__init__(self, o.param_groups, {})\n    self.o,"),
        CLASS.replace("    self.o,", "    self.__dict__.update(o.__dict__)\n    self.o,"),
        CLASS.replace("    self.o,", "    self.zero_grad = o.zero_grad\n    self.o,"),
        CLASS.replace("    self.o,", "    self._optimizer_step_pre_hooks = {}\n    self.o,"),
        f"{CLASS}  def __getattr__(self, name): return getattr(self.o, name)\n",
        f"from torch.optim import Optimizer\nclass Ahead(Optimizer):\n{STEP}",
        f"from torch.optim import Optimizer\nclass Ahead(Optimizer):\n{INIT}",
        CLASS.replace("(Optimizer)", "(Checks, Optimizer)"),
        CLASS.replace("from torch.optim import", "from other import"),
    ],
)
def test_what_makes_up_for_it(source: str) -> None:
    assert found_in(source) == []
