"""What Python code of torch defines."""

from __future__ import annotations

from collections import Counter

import pytest

from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded, embedded_python
from tests.tables import mark_table


def test_only_releases_that_are_embedded_are_recorded() -> None:
    assert set(embedded_python.table().columns) <= set(map(str, embedded.versions()))


@pytest.mark.parametrize("version", ["2.13.0", "2.13.0+cpu", "2.13.0+cu130"])
def test_what_was_counted_in_a_running_torch(version: str) -> None:
    defined = embedded_python.definitions(TorchVersion(version))
    assert defined is not None
    assert Counter(name.partition("::")[0] for name in defined)["prims"] == 126
    assert len(defined) == 131
    assert "aten::add.Tensor" not in defined
    assert {name.partition("::")[0] for name in defined} <= embedded_python.namespaces()


@pytest.mark.parametrize("version", [None, TorchVersion("1.4.0"), TorchVersion("2.99.0")])
def test_a_release_that_is_not_recorded(version: TorchVersion | None) -> None:
    assert embedded_python.definitions(version) is None


def test_the_namespaces_are_those_of_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for operators of others do not make their namespaces one in which Python code defines operators."""
    keys = {"definition": {"prims::abs": 1, "rngprims::f": 1}, "Meta": {"aten::add": 1}}
    monkeypatch.setattr(embedded_python, "table", lambda: mark_table(["2.9.1"], keys))
    assert embedded_python.namespaces.__wrapped__() == {"prims", "rngprims"}
