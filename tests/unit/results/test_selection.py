"""Which operators are shown."""

from __future__ import annotations

import pytest

from abiscan.results.selection import Selection

NAMES = ("aten::add", "aten::add.Tensor", "aten::add_", "quantized::add", "aten::addmm.out", "torchvision::nms")


@pytest.mark.parametrize(
    ("patterns", "namespaces", "shown"),
    [
        ((), (), NAMES),
        (("add",), (), ("aten::add", "aten::add.Tensor", "quantized::add")),
        (("aten::add",), (), ("aten::add", "aten::add.Tensor")),
        (("add.Tensor",), (), ("aten::add.Tensor",)),
        (("aten::add*",), (), ("aten::add", "aten::add.Tensor", "aten::add_", "aten::addmm.out")),
        (("*.out", "nms"), (), ("aten::addmm.out", "torchvision::nms")),
        ((), ("quantized", "torchvision"), ("quantized::add", "torchvision::nms")),
        (("add",), ("quantized",), ("quantized::add",)),
        (("ADD",), (), ()),
    ],
)
def test_what_is_selected(patterns: tuple[str, ...], namespaces: tuple[str, ...], shown: tuple[str, ...]) -> None:
    selection = Selection(patterns=patterns, namespaces=namespaces)
    assert tuple(filter(selection.admits, NAMES)) == shown
    assert bool(selection) == (shown != NAMES)
