"""Public submodules that the import of a package does not reach: how often each is imported."""

from __future__ import annotations

import functools

import pytest

from abiscan.python import explore, submodules
from abiscan.python.explore import explore_import
from abiscan.python.reading import PackageReader
from abiscan.python.runs import Run, Runs
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources

LAZY = """
import sys, types
class Lazy(types.ModuleType):
    pass
sys.modules[__name__] = Lazy(__name__)
"""
ABSENT = "import torch\ntry:\n    import torch._six\nexcept ImportError:\n    pass\n"


def test_a_package_that_puts_something_else_in_its_place_is_not_imported_again(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []
    explore = explore_import

    def note(*args: object, **options: object) -> object:
        imported.append(str(args[1]))
        return explore(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(submodules, "explore_import", note)
    files = {
        "pack/__init__.py": "",
        "pack/lazy/__init__.py": LAZY,
        "pack/lazy/used.py": ABSENT,
        "pack/fails/__init__.py": LAZY,
        "pack/fails/used.py": "from torch._six import inf\n",
    }
    fresh = functools.partial(FakeWorld, torch_names=embedded_names.names("2.13.0"))
    reader = PackageReader(TextSources(files), ["pack"])
    outcomes = reader.failing_submodules(fresh, None, reader.read(fresh).imports, lambda _: True)
    assert [outcome.module for outcome in outcomes] == ["pack.fails.used"]
    # What fails is imported once more, by itself; the others were imported in turn.
    assert imported == ["pack.fails.used"]


@pytest.mark.parametrize("is_of_torch", [False, True])
def test_one_path_is_enough_where_a_module_fails_for_another_reason(
    monkeypatch: pytest.MonkeyPatch, *, is_of_torch: bool
) -> None:
    explored: list[str] = []
    explore_from = explore._explore_from

    def note(runs: Runs, module: str, first: Run) -> explore.Explored:
        explored.append(module)
        return explore_from(runs, module, first)

    monkeypatch.setattr(explore, "_explore_from", note)
    unknown = "import other_thing\nif other_thing.there: raise RuntimeError(1)\nraise RuntimeError(2)\n"
    reader = PackageReader(TextSources({"pack/__init__.py": "", "pack/fails.py": ABSENT + unknown}), ["pack"])
    fresh = functools.partial(FakeWorld, torch_names=embedded_names.names("2.13.0"))
    imports = reader.read(fresh).imports
    explored.clear()
    outcomes = reader.failing_submodules(fresh, None, imports, lambda _: is_of_torch)
    # All of its paths fail, so it does if the usual one does because of torch.
    assert [outcome.module for outcome in outcomes] == explored == ["pack.fails"] * is_of_torch


@pytest.mark.parametrize(
    ("source", "fails"),
    [
        ("from torch.utils.data.dataloader import _DataLoaderIter\n", True),  # microsoft/nni#2026: gone before 1.4.0
        ("from torch.utils.data.dataloader import DataLoader\n", False),
        ("try:\n  from torch.utils.data.dataloader import _DataLoaderIter\nexcept ImportError: pass\n", False),
    ],
)
def test_a_name_that_no_known_release_has(source: str, *, fails: bool) -> None:
    fresh = functools.partial(FakeWorld, torch_names=embedded_names.names("1.4.0"))
    reader = PackageReader(TextSources({"pack/__init__.py": "", "pack/old.py": source}), ["pack"])
    outcomes = reader.failing_submodules(fresh, None, reader.read(fresh).imports, lambda _: True)
    assert [outcome.module for outcome in outcomes] == ["pack.old"] * fails
