"""Files that packages load and that a torch may refuse: which loads show that they are more than tensors."""

from __future__ import annotations

import pytest

from abiscan.python.reading import PackageReader
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources

LOADS_GRAPHS = "class A:\n  def f(self): self.d, self.s = torch.load(self.paths[0])\n"


@pytest.mark.parametrize(
    ("body", "release", "told"),
    [
        # stanfordnlp/stanza#1429, yzhangcs/parser#148: really raise UnpicklingError with torch 2.6.
        ("def f(p):\n  c = torch.load(p)\n  return M(c['config'])", "2.6.0", True),
        ("def f(p):\n  c = torch.load(p)\n  return M(c['config'])", "2.5.1", False),
        ("def f(p): return torch.load(p)['args']", "2.13.0", True),
        ("def f(p):\n  c = torch.load(p, map_location='cpu')\n  m, a = c, c.get('hyper_parameters')", "2.13.0", True),
        (
            "import torch as th\nclass A:\n  def f(self, p):\n    c = th.load(p)\n    self.v = V(c['vocab'])",
            "2.13.0",
            True,
        ),
        # LucasAlegre/morl-baselines#158.
        ("import torch as th\ndef f(self, p):\n  c = th.load(p)\n  self.b = c['replay_buffer']", "2.6.0", True),
        # snap-stanford/ogb#497: a dataset of graphs, saved and loaded as torch_geometric does.
        (
            f"{LOADS_GRAPHS}  def g(self, d): torch.save(self.collate(d), self.paths[0])",
            "2.6.0",
            True,
        ),
        (
            f"{LOADS_GRAPHS}  def g(self, m): torch.save(m.state_dict(), self.paths[0])",
            "2.6.0",
            False,
        ),
        ("def f(m, s): m.load_state_dict(torch.load(s.a))\ndef g(d, s): torch.save(d, s.a)", "2.6.0", False),
        ("def f(s):\n  d = torch.load(s.a)\n  return d['mu']\ndef g(d, s): torch.save(d, s.a)", "2.6.0", False),
        ("def f(s): return torch.load(s.a)\ndef g(d, s): torch.save(d, s.a)", "2.6.0", True),
        ("def f(p): return torch.load(p)\ndef g(d, p): torch.save(d, p)", "2.6.0", False),
        ("def f(s): return torch.load(s.a)\ndef g(d, s): torch.save(d, s.b)", "2.6.0", False),
        ("def f(p, m): m.load_state_dict(torch.load(p)['state_dict'])", "2.13.0", False),
        ("def f(p):\n  c = torch.load(p)\n  return c['epoch'], c['model']", "2.13.0", False),
        ("def f(p, o):\n  c = torch.load(p)\n  return o['config']", "2.13.0", False),
        ("def f(p): return torch.load(p, weights_only=False)['args']", "2.13.0", False),
        ("def f(p):\n  torch.serialization.add_safe_globals([A])\n  return torch.load(p)['args']", "2.13.0", False),
        ("def f(p): return json.load(p)['args']\ng = torch.load", "2.13.0", False),
    ],
)
def test_a_file_that_keeps_objects(body: str, release: str, *, told: bool) -> None:
    reader = PackageReader(TextSources({"pack/__init__.py": f"import torch\n{body}"}), ["pack"])

    assert bool(reader.open_loads(FakeWorld(torch_names=embedded_names.names(release)))) is told
