"""Loads of small libraries on older processors, recorded under user-mode emulation (``tools/record_cpu_loads.py``)."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).parent.parent / "data" / "cpu"
SIGILL: Final = 4
RECORDED_LOADS: Final[list[dict[str, Any]]] = [
    json.loads(line) for line in (DATA / "loads.jsonl").read_text("utf-8").splitlines()
]
"""``library``, ``cpu`` and, where the load was killed, ``signal``."""


def extract_libraries(folder: Path) -> Path:
    """Write the libraries that were loaded into ``folder``, and return it."""
    with zipfile.ZipFile(DATA / "libraries.zip") as archive:
        archive.extractall(folder)
    return folder
