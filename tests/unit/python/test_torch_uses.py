"""Which names of torch a source mentions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from abiscan.python.torch_api.torch_uses import list_calls, torch_uses
from tests.clock import grows_linearly


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import torch\nx = torch.nn.Module", {"torch.nn.Module"}),
        ("from torch import nn\nnn.functional.relu", {"torch.nn", "torch.nn.functional.relu"}),
        (
            "from torch import (\n  nn as n,  # why\n  Tensor,\n)\nn.Linear",
            {"torch.nn", "torch.nn.Linear", "torch.Tensor"},
        ),
        (
            "    import torch.nn.functional as F\n    F.relu(F.pad)",
            {"torch.nn.functional.relu", "torch.nn.functional.pad"},
        ),
        ("import os, torch.amp as amp\namp.autocast", {"torch.amp.autocast"}),
        ("from torch import *\ntorch.ops.a.b()", {"torch.ops.a.b"}),
        ("my_torch.a; self.torch.b; torch2.c; torch. d; torch.1; # torch.e", {"torch.e"}),
        ("x = 1  # from torch import nn\nnn.relu; torch.f", {"torch.f"}),
        (
            "[`torch.a`], :class:`~torch.b` docs/nn.html#torch.c docs/torch.d.html; ~torch.e; 1/torch.f",
            {"torch.e", "torch.f"},
        ),
        ("torch.a.torch.b", {"torch.a.torch.b"}),
        ("from torch.nn \\\n  import Module, \\\n  Linear", {"torch.nn", "torch.nn.Module", "torch.nn.Linear"}),
        ("nothing of it", set()),
    ],
)
def test_names_below_torch(source: str, names: set[str]) -> None:
    found = torch_uses(source.encode())
    assert found - {"torch.nn.functional", "torch.amp"} == names


def test_a_single_long_line_takes_no_longer_than_others() -> None:
    def reading(size: int) -> Callable[[], object]:
        source = b"torch " + b"from " * size
        return lambda: torch_uses(source)

    assert grows_linearly(reading, 50_000)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('"""Export it.\n\n    >>> torch.onnx.export(model, x, "a.onnx")\n"""\n', 0),
        ("f(torch.onnx.export(model, x))\nx >> torch.onnx.export(model)\n", 2),
    ],
)
def test_an_example_in_a_docstring_is_no_call(source: str, count: int) -> None:
    assert len(list(list_calls(source.encode(), b"export"))) == count


def test_a_call_by_the_name_that_something_is_imported_under() -> None:
    source = b"from torch.onnx import re_export as r, export as  e\nfrom t.onnx import export as x\nr(a)\ne(a)\nx(b)\n"
    assert len(list(list_calls(source, b"export"))) == 2
