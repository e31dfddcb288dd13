"""What the running torch accepts, against what is written of it: each type word, a second fallback for each key."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from abiscan.dispatch.acceptance import acceptance_of
from abiscan.dispatch.keys import keys_of
from abiscan.inputs.version import TorchVersion
from tests import live_torch
from tools import build_acceptance_data


@pytest.mark.skipif(live_torch.build() is None, reason="needs torch in this interpreter")
def test_the_running_torch_accepts_what_is_written() -> None:
    version = TorchVersion(live_torch.build() or "")
    keys = sorted(keys_of(version).names.values())
    command = [sys.executable, "-c", build_acceptance_data.ASK, json.dumps([build_acceptance_data.WORDS, keys])]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    known = acceptance_of(version.minor_version)
    assert set(said["type_words"]) == known.type_words
    assert set(said["repeatable_fallbacks"]) == known.repeatable_fallbacks
