"""What Python code of the torch of this environment registers, against what is recorded of its release."""

from __future__ import annotations

import sys

import pytest

from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded_python
from abiscan.torches.embedded_python import DEFINITION
from tests import live_torch
from tools.record_python import record


def test_a_running_torch_defines_what_is_recorded() -> None:
    recorded = embedded_python.definitions(TorchVersion.parse(live_torch.build() or ""))
    if recorded is None:
        pytest.skip("what its Python code registers is not recorded")
    assert {name for what, name in record(sys.executable) if what == DEFINITION} == recorded
