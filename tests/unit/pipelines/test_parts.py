"""The parts of the pipelines: what an extension uses, what a release changed, the workers of a cluster, versions."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from packaging.version import Version

import abiscan
from abiscan.errors import InputError, NoExtensionError
from abiscan.index.client import Candidate
from abiscan.inputs.session import Session
from abiscan.pipelines import api_history, versions
from abiscan.pipelines.api_history import compare_releases
from abiscan.pipelines.cluster import cluster_workers
from abiscan.pipelines.survey import check_task
from abiscan.pipelines.use import Use
from abiscan.results.package import PackageVerdict
from abiscan.torches.api_version import ApiVersion

if TYPE_CHECKING:
    from typing_extensions import Self


class Code:
    """Python code, as far as it is asked for uses."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def files_using(self, use: str) -> list[str]:
        return [file for file, text in self._files.items() if use.rpartition(".")[2] in text]

    def source(self, file: str) -> bytes:
        return self._files[file].encode()


def test_operators_that_python_code_names() -> None:
    code: Any = Code({"a.py": "x\ntorch.ops.aten.add.Tensor(1)\ntorch.ops.aten.add.Tensor\n", "b.py": "aten.address"})
    names = (
        "torch.ops.aten.add.Tensor",
        "torch.ops.aten.add.default",
        "torch.ops.aten",
        "torch.nn.add",
        "torch.ops.ns.f",
    )
    found = dict(Use(symbols=(), operators=(), names=names, code=code).operators_in_code())
    assert found == {"aten::add.Tensor": ("a.py:2", "a.py:3"), "aten::add": (), "ns::f": ()}
    assert dict(Use(symbols=(), operators=(), names=names).operators_in_code()) == {}
    assert list(Use(symbols=(), operators=(), names=names).find_breaks(None, None)) == []


def test_what_each_release_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    by_torch = {
        "2.7": {"a": ("1", "1"), "b": ("1", "1"), "c": ("1", "1")},
        "2.8": {"a": ("1", "1"), "b": ("2", "1"), "c": ("1", "2"), "d": ("1", "1")},
        "2.9": {"a": ("2", "2"), "b": ("2", "1"), "d": ("1", "1")},
    }

    def versions_of(operators: Any, names: frozenset[str]) -> dict[str, ApiVersion]:
        assert names == {"a", "b", "c", "d"}
        return {name: ApiVersion(*pair) for name, pair in by_torch[operators.name].items()}

    monkeypatch.setattr(api_history, "api_versions", versions_of)
    torches: Any = {name: SimpleNamespace(name=name, gaps=("x",) * int(name[-1])) for name in by_torch}
    history = compare_releases("pkg", ["d", "a", "b", "c"], torches)
    assert (history.target, history.operators) == ("pkg", ("a", "b", "c", "d"))
    changes = {one.torch: {item.operator: item.what for item in one.changes} for one in history.releases}
    assert changes == {
        "2.7": {},
        "2.8": {"b": ("schema",), "c": ("dispatch",), "d": ("added",)},
        "2.9": {"a": ("schema", "dispatch"), "c": ("removed",)},
    }
    assert [one.gaps for one in history.releases] == [7, 8, 9]
    assert len({one.version for one in history.releases}) == 3


class Client:
    """A client of dask with some workers: threads by address, and what each answers."""

    closed = False

    def __init__(self, threads: Mapping[str, int], answers: Mapping[str, object]) -> None:
        self._threads, self._answers = threads, answers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def nthreads(self) -> Mapping[str, int]:
        return self._threads

    def run(self, *_: object) -> Mapping[str, object]:
        return self._answers

    def get_executor(self, *, pure: bool) -> SimpleNamespace:
        assert not pure
        return SimpleNamespace(submit=lambda function, task: (function, task))


def install_dask(monkeypatch: pytest.MonkeyPatch, client: Client | Exception) -> list[str]:
    """Have ``distributed`` make this client; the addresses that it is asked for."""
    asked: list[str] = []

    def make(address: str, **options: object) -> Client:
        asked.append(address)
        assert options == {"timeout": "10s", "set_as_default": False}
        if isinstance(client, Exception):
            raise client
        return client

    module = types.ModuleType("distributed")
    module.__dict__.update(Client=make, KilledWorker=KeyboardInterrupt)
    monkeypatch.setitem(sys.modules, "distributed", module)
    return asked


HERE = (abiscan.__version__, ("torch 2.9.1",))
TORCHES: Any = None


def test_workers_that_are_able(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    client = Client({"a": 1, "b": 1}, {"a": HERE, "b": HERE})
    asked = install_dask(monkeypatch, client)
    (tmp_path / "scheduler.json").write_text(json.dumps({"address": "tcp://host:1"}))
    with cluster_workers(str(tmp_path / "scheduler.json"), TORCHES, HERE[1]) as workers:
        assert (workers.slots, workers.reads_here, workers.lost) == (4, False, (KeyboardInterrupt,))
        task: Any = "task"
        submitted: Any = workers.submit_task(task, 0)
        assert submitted == (check_task, "task")
        assert not client.closed
    assert (asked, client.closed) == (["tcp://host:1"], True)


@pytest.mark.parametrize(
    ("client", "subject", "said"),
    [
        (Client({}, {}), "tcp://host:1", "the scheduler has no workers"),
        (Client({"a": 1, "b": 2}, {}), "b", "the worker has 2 threads"),
        (Client({"a": 1}, {"a": ("0.1", HERE[1])}), "a", f"the worker has abiscan 0.1, not {abiscan.__version__}"),
        (Client({"a": 1}, {"a": (HERE[0], "no torch")}), "a", "the worker has another torch: no torch"),
        (OSError("refused"), "tcp://host:1", "there is no scheduler: refused"),
        (OverflowError(), "tcp://host:1", "is no scheduler: another server answers"),
    ],
)
def test_workers_of_no_use(
    client: Client | Exception, subject: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_dask(monkeypatch, client)
    with pytest.raises(InputError) as caught, cluster_workers("tcp://host:1", TORCHES, HERE[1]):
        pass
    assert (caught.value.subject, caught.value.problem) == (subject, said)


def test_a_cluster_without_dask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"needs dask\.distributed"), cluster_workers("x", TORCHES, ()):
        pass
    install_dask(monkeypatch, Client({}, {}))
    for content in ("{", "[]", "{}"):
        (tmp_path / "s.json").write_text(content)
        with (
            pytest.raises(InputError, match="there is no scheduler"),
            cluster_workers(str(tmp_path / "s.json"), TORCHES, ()),
        ):
            pass


@pytest.mark.parametrize(("name", "wanted"), [("a b", "all"), ("a", "1.0"), ("a", ">=x"), ("", "all")])
def test_what_is_no_package_with_versions(name: str, wanted: str) -> None:
    with pytest.raises(InputError, match="is not a package with a version specifier"):
        versions._make_requirement(name, wanted)


def test_a_package_with_versions() -> None:
    assert str(versions._make_requirement("a", "all")) == "a"
    assert str(versions._make_requirement("a[x]", ">=1,<2")) == "a[x]<2,>=1"


class FakeIndex:
    """An index whose wheels are what a matrix is made of, or why there is none."""

    system = "here"

    def wheel(self, candidate: Candidate) -> Path:
        return Path(f"/{candidate.wheel}")

    def origin(self, candidate: Candidate) -> tuple[str, None]:
        return candidate.wheel, None


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (NoExtensionError("a", "nothing"), ((), "contains nothing that is compiled for torch")),
        (InputError("a", "is truncated"), ((), "is truncated")),
        (SimpleNamespace(packages=(), unchecked=()), ((), "contains nothing that is compiled for torch")),
        (SimpleNamespace(packages=(), unchecked=(SimpleNamespace(problem="why"),)), ((), "why")),
    ],
)
def test_a_version_without_a_verdict(
    made: Any, expected: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def make_matrix(*_: object, **__: object) -> object:
        if isinstance(made, Exception):
            raise made
        return made

    monkeypatch.setattr("abiscan.pipelines.matrix.make_matrix", make_matrix)
    candidate = Candidate(name="a", version=Version("1"), wheel="a-1-py3-none-any.whl")
    index: Any = FakeIndex()
    read = versions._read_candidate(candidate, index, (), Session(folder=tmp_path))
    assert (read.releases, read.reason) == expected


def test_of_several_builds_of_a_release_the_best_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    results = {build: SimpleNamespace(verdict=verdict) for build, verdict in (("2.8", PackageVerdict.WORKS),)}
    columns = (
        SimpleNamespace(release="2.8", builds=("2.8", "2.8+cpu")),
        SimpleNamespace(release="2.9", builds=("2.9",)),
    )
    matrix = SimpleNamespace(packages=(SimpleNamespace(results=results),), columns=columns)
    monkeypatch.setattr("abiscan.pipelines.matrix.make_matrix", lambda *_, **__: matrix)
    monkeypatch.setattr(versions, "best_of", lambda found: found[0] if found else None)
    candidate = Candidate(name="a", version=Version("1"), wheel="a-1-py3-none-any.whl")
    index: Any = FakeIndex()
    read = versions._read_candidate(candidate, index, (), Session(folder=tmp_path))
    assert read.releases == (("2.8", PackageVerdict.WORKS), ("2.9", None))
    unfit = Candidate(name="a", version=Version("1"), unfit="is for another Python")
    assert versions._check_candidate(unfit, index, (), Session(folder=tmp_path)).reason == "is for another Python"
