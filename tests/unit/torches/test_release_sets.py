from __future__ import annotations

import pytest

from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded_names, release_sets
from abiscan.torches.release_sets import ReleaseSets

REMOVED_IN = {
    "solve": "1.12.0",
    "eig": "1.13.0",
    "lstsq": "1.13.0",
    "matrix_rank": "1.13.0",
    "symeig": "2.0.0",
    "add": None,
}
"""Functions of torch, and the releases whose notes say that they were removed."""


def test_a_function_is_removed_after_the_last_release_that_lists_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def noting(text: str) -> TorchVersion:
        read.append(text)
        return TorchVersion(text)

    monkeypatch.setattr(release_sets, "TorchVersion", noting)
    table = embedded_names.table()
    sets = ReleaseSets(table)
    for name, release in REMOVED_IN.items():
        without = {one for column, one in enumerate(table.columns) if sets.without_function(name) >> column & 1}
        assert without == {one for one in table.columns if release and TorchVersion(one) >= TorchVersion(release)}
    assert read == list(table.columns)  # each once, not for each name
