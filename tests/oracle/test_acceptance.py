"""What the running torch accepts, against what is written of it: each type word, a second fallback for each key."""

from __future__ import annotations

import json

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
    question = json.dumps([build_acceptance_data.WORDS, keys])
    said = json.loads(live_torch.run(build_acceptance_data.ASK, question, check=True).stdout)
    known = acceptance_of(version.minor_version)
    assert set(said["type_words"]) == known.type_words
    assert set(said["repeatable_fallbacks"]) == known.repeatable_fallbacks
