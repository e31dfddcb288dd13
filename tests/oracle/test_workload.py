"""The operators read from a saved model, against those of the graph that torch saved."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from abiscan.inputs.workload import read_workload
from tests import live_torch

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch in this interpreter")

SAVE = """
import json, sys, torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.conv = torch.nn.Linear(4, 3), torch.nn.Conv2d(1, 2, 3)
    def forward(self, x, y):
        z = self.conv(y).flatten(1)
        if x.sum() > 0:
            x = x * 2 - 1
        x[0] = 1
        for i in range(len(x)):
            x = x.clone().add_(i)
        total = torch.cat([z.mean().reshape(1), z.mean().reshape(1)]).sum()
        return self.linear(x).tanh() + total, len(x), float(x.max()), -x.size(0), x[1:], "torch.fake(1)", 'ops.a.b(1)'

def kinds(block):
    for node in block.nodes():
        yield node.kind()
        for inner in node.blocks():
            yield from kinds(inner)

scripted = torch.jit.script(Model())
scripted.save("model.pt")

class Exported(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.linear(x).tanh(), lambda x: self.linear(x).sin(), (x,)) + 1

def calls(graph_module):
    for node in graph_module.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            yield node.target.name()
    for _, child in graph_module.named_children():
        if isinstance(child, torch.fx.GraphModule):
            yield from calls(child)

program = torch.export.export(Exported(), (torch.ones(2, 4),))
torch.export.save(program, "model.pt2")
json.dump({"script": list(kinds(scripted.inlined_graph)), "program": list(calls(program.graph_module))}, sys.stdout)
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    folder = tmp_path_factory.mktemp("models")
    script = folder / "save.py"  # torch.jit.script reads the source of what it compiles
    script.write_text(SAVE)
    run = "import runpy, sys\nrunpy.run_path(sys.argv[1], run_name='__main__')"
    done = live_torch.run(run, script, cwd=folder, check=True)
    return folder, json.loads(done.stdout)


def test_torchscript(saved: tuple[Path, dict[str, list[str]]]) -> None:
    folder, graphs = saved
    assert {name for name in read_workload(folder / "model.pt") if not name.startswith("prim::")} == {
        name for name in graphs["script"] if not name.startswith("prim::")
    }


def test_exported_program(saved: tuple[Path, dict[str, list[str]]]) -> None:
    folder, graphs = saved
    assert set(read_workload(folder / "model.pt2")) == set(graphs["program"])
    assert {"aten::tanh", "aten::sin", "aten::add.Tensor"} <= set(graphs["program"])
