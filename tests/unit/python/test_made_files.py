"""Files that the code makes at the home of the user, where nothing is assumed to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.python.packages import check_claim

SOURCE = """\
import json, os
from pathlib import Path

FOLDER = os.path.expanduser("~/.abiscan-test")
CONFIG = os.path.join(FOLDER, "config.json")
if not os.path.exists(CONFIG):
    os.makedirs(FOLDER, exist_ok=True)
    with open(CONFIG, "w") as file:
        json.dump({"name": "pytorch"}, file, indent=1)
with open(CONFIG) as file:
    config = json.load(file)
state = Path(FOLDER) / "state"
state.mkdir(exist_ok=True)
(state / "a.txt").write_text("a")
open(state / "a.txt").close()
"""
HOLDS = [
    "os.path.isdir(FOLDER) and not os.path.isdir(CONFIG)",
    "os.path.isfile(CONFIG) and state.is_dir()",
    "not os.path.exists(FOLDER + '/other')",
    "config == {'name': 'pytorch'}",
]


@pytest.mark.parametrize("claim", HOLDS)
def test_what_is_there(claim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    check_claim(SOURCE, claim)
