"""Calls of ``torch.onnx.export``, which imports onnxscript by default since torch 2.9.

That it raises ``ModuleNotFoundError: No module named 'onnxscript'`` there was seen with torch 2.13.0; 2.9.0:
open-edge-platform/anomalib#3050.
"""

from __future__ import annotations

import pytest

from abiscan.python.later.mentions import LaterUse
from abiscan.python.package.installed import Surroundings
from abiscan.python.reading import PackageReader
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources

EXPORT = "def export(model, x, **kwargs):\n    torch.onnx.export(model, x, 'a.onnx', {})\n"


def uses(code: str, release: str = "2.13.0", required: str = "torch", **around: object) -> list[LaterUse]:
    metadata = f"Metadata-Version: 2.1\nName: pack\nVersion: 1\nRequires-Dist: {required}\n"
    sources = {"pack/__init__.py": f"import torch\n{code}", "pack-1.dist-info/METADATA": metadata}
    world = FakeWorld(torch_names=embedded_names.names(release))
    surroundings = Surroundings(**around)  # type: ignore[arg-type]
    return list(PackageReader(TextSources(sources), ["pack"]).later_uses(world, surroundings))


@pytest.mark.parametrize(
    "arguments", ["opset_version=14", "dynamic_axes={}", "**kwargs", "opset_version=kwargs.pop('o', 1), **kwargs"]
)
def test_an_export_by_the_default(arguments: str) -> None:
    (use,) = uses(EXPORT.format(arguments), "2.9.0")
    assert (use.name, use.error, use.how) == ("torch.onnx.export", "No module named 'onnxscript'", "package")
    assert not uses(EXPORT.format(arguments), "2.8.0")


@pytest.mark.parametrize(
    "code",
    [
        EXPORT.format("dynamo=False"),
        EXPORT.format("**{'dynamo': False}"),
        EXPORT.format("**options()"),
        EXPORT.format("**options"),
        "def around(**kwargs):\n    def f(m, kwargs):\n        torch.onnx.export(m, (), **kwargs)\n    return f\n",
        EXPORT.format("**kwargs").replace("\n", "\n    kwargs = options()\n", 1),
        EXPORT.format("**kwargs").replace("\n", "\n    kwargs.update(options())\n", 1),
        EXPORT.format("**kwargs").replace("\n", "\n    fill(kwargs)\n", 1),
        "DEFAULTS = {'dynamo': False}\n" + EXPORT.format("**kwargs"),
        "def f(m):\n    try:\n        torch.onnx.export(m, (), 'a.onnx')\n    except ImportError:\n        pass\n",
        "def f(m):\n    import onnxscript\n    torch.onnx.export(m, (), 'a.onnx')\n",
    ],
)
def test_an_export_that_is_prepared(code: str) -> None:
    assert not uses(code)


def test_where_onnxscript_is_there() -> None:
    code = EXPORT.format("opset_version=14")
    assert not uses(code, required="onnxscript>=0.5")
    assert not uses(code, installed=lambda _name: True)
    assert uses(code, required="onnxscript; extra == 'onnx'")


LAYER = (
    "class Layer(torch.nn.Module):\n    def __init__(self): self.self_attn = torch.nn.MultiheadAttention(8, 2)\n"
    "    def forward(self, src, src_mask=None, src_key_padding_mask=None): ...\n"
)
MADE = "def make(norm):\n    layer = Layer()\n    return torch.nn.TransformerEncoder(layer, 2)\n"
DECODER = LAYER + "def make():\n    return torch.nn.TransformerDecoder(decoder_layer=Layer(), num_layers=2)\n"
TORCHS = "    layer = torch.nn.TransformerEncoderLayer(8, 2)\n    layer ="


@pytest.mark.parametrize(
    ("code", "release", "keyword"),
    [
        (LAYER + MADE, "2.0.0", "is_causal"),
        (LAYER + MADE, "1.13.1", None),
        (DECODER, "2.1.0", "tgt_is_causal"),
        (DECODER, "2.0.1", None),
        (LAYER + MADE.replace("    layer =", TORCHS), "2.0.0", None),
        (LAYER + MADE.replace("(norm)", "(layer)").replace("    layer = Layer()\n", ""), "2.0.0", None),
        (LAYER.replace("src_mask=None, src_key_padding_mask=None", "**more") + MADE, "2.0.0", None),
        (LAYER.replace("src_mask=None", "*, is_causal=False") + MADE, "2.0.0", None),
        (LAYER.replace("forward", "first") + MADE, "2.0.0", None),
        (LAYER.replace("    def forward", "    @several\n    def forward") + MADE, "2.0.0", None),
        (LAYER.replace("self.self_attn", "self.attention") + MADE, "2.0.0", None),
    ],
)
def test_a_layer_that_does_not_take_what_torch_passes(code: str, release: str, keyword: str | None) -> None:
    """As torch/nn/modules/transformer.py of the releases calls the layers (xuhongzuo/DeepOD#43)."""
    errors = [use.error for use in uses(code, release)]
    assert errors == ([f"forward() got an unexpected keyword argument '{keyword}'"] if keyword else [])
