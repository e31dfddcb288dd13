"""What Python code of torch defines: the data of the package, and the tool that writes them."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import pytest

from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded, embedded_python
from tools.record_python import replaced


def test_only_releases_that_are_embedded_are_recorded() -> None:
    assert set(embedded_python.data()["releases"]) <= set(map(str, embedded.versions()))


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


def test_a_release_is_replaced_or_added_and_the_others_stay() -> None:
    empty = gzip.compress(b'{"releases": [], "entries": []}')
    both, old = ("ns::both", "definition"), ("ns::old", "Meta")
    data = replaced(empty, {"2.10.0": {both, old}, "2.9.1": {both}})
    assert json.loads(gzip.decompress(data)) == {
        "releases": ["2.9.1", "2.10.0"],
        "entries": [["ns::both", "definition", "3"], ["ns::old", "Meta", "2"]],
    }
    assert replaced(data, {"2.10.0": {both, old}}) == data
    changed = json.loads(gzip.decompress(replaced(data, {"2.10.0": {both}})))
    assert changed["entries"] == [["ns::both", "definition", "3"]]


def test_the_namespaces_are_those_of_definitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for operators of others do not make their namespaces one in which Python code defines operators."""
    entries = [["prims::abs", "definition", "1"], ["aten::add", "Meta", "1"], ["rngprims::f", "definition", "1"]]
    monkeypatch.setattr(embedded_python, "data", lambda: {"releases": ["2.9.1"], "entries": entries})
    assert embedded_python.namespaces.__wrapped__() == {"prims", "rngprims"}
