"""What ``torch.ops.aten`` of the torch that runs has, against what the data of its release say it lacks."""

from __future__ import annotations

import json

import pytest

from abiscan.binary.elf import Machine
from abiscan.dispatch import torchscript
from abiscan.inputs.version import TorchVersion
from abiscan.python.torch_api.torch_texts import DEFAULT_OVERLOAD
from abiscan.torches import embedded, embedded_operators, embedded_python
from abiscan.torches.embedded_operators import EmbeddedOperators
from tests import live_torch

_ASK = """
import json, sys, torch
there = []
for name in json.load(sys.stdin):
    base, _, overload = name.partition("::")[2].partition(".")
    packet = getattr(torch.ops.aten, base, None)
    if packet is not None and (not overload or hasattr(packet, overload)):
        there.append(name)
print(json.dumps(there))
"""


def test_no_operator_that_it_has_is_taken_to_be_absent() -> None:
    release = TorchVersion.parse(live_torch.version() or "")
    if release not in embedded.versions():
        pytest.skip("its release is not embedded")
    ever = embedded_operators.table().all_names | set(torchscript.parse(torchscript.PATH.read_text("utf-8")))
    names = {name for name in ever if name.startswith("aten::")}
    names |= {name.partition(".")[0] for name in names}
    names |= {f"{name}{DEFAULT_OVERLOAD}" for name in names if "." not in name}
    from_python = embedded_python.definitions(release) or frozenset()
    absent = {
        name
        for name in names
        if not EmbeddedOperators(str(release), Machine.X86_64).has(name)
        and not torchscript.may_have(name, release)
        and name.removesuffix(DEFAULT_OVERLOAD) not in from_python
    }
    there = json.loads(live_torch.run(_ASK, input=json.dumps(sorted(absent)), check=True).stdout)
    assert len(absent) > 500
    assert there == []
