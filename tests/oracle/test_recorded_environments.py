"""Environments as they were installed: what is said of their metadata, compared with pip and with real imports.

``tools/record_environment.py`` has recorded them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from abiscan.environments.model import WholeEnvironment
from abiscan.inputs.packages import Distribution

RECORDS = sorted((Path(__file__).parent / "environments").glob("*.json"))
MODULES = {"PIL": "pillow", "sklearn": "scikit-learn", "cv2": "opencv-python", "yaml": "pyyaml"}


@pytest.mark.parametrize("path", RECORDS, ids=[path.stem for path in RECORDS])
def test_requirements_and_imports_agree(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = json.loads(path.read_text("utf-8"))
    python = record["python"]
    markers = {"python_version": python.rpartition(".")[0], "python_full_version": python}
    monkeypatch.setattr(WholeEnvironment, "_markers", markers)
    environment = WholeEnvironment(
        python=None,
        distributions=tuple(
            Distribution(
                name=item["name"],
                version=item["version"],
                requires=tuple(item["requires"]),
                site="/site",
                objects=(),
                source=None,
            )
            for item in record["distributions"]
        ),
    )
    unmet = {canonicalize_name(item.name): environment.unmet(item) for item in environment.distributions}
    said = sorted(_without_spelling(str(one)) for several in unmet.values() for one in several)
    assert said == sorted(map(_without_spelling, record["pip_check"]))
    # What an import of a distribution misses, it requires, or something that it requires does.
    lacking = {canonicalize_name(one.name) for several in unmet.values() for one in several if one.there is None}
    absent = [item["error"] for item in record["imports"] if (item["error"] or "").startswith("ModuleNotFoundError")]
    missed = {error.partition("'")[2].partition("'")[0].partition(".")[0] for error in absent}
    assert {canonicalize_name(MODULES.get(name, name)) for name in missed} <= lacking


def _without_spelling(line: str) -> str:
    """Return a line of ``pip check`` with canonical names: releases of pip differ in that."""
    words = line.replace(",", " ,").split(" ")
    return " ".join(canonicalize_name(word) if word[:1].isalpha() and "=" not in word else word for word in words)
