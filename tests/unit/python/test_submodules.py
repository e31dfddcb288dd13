"""Public submodules that the import of a package does not reach: how often each is imported."""

from __future__ import annotations

import functools

import pytest

from abiscan.python.importing import explore, submodules
from abiscan.python.package.model import Raised
from abiscan.python.reading import PackageReader
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
    explored = explore.explore_failure

    def note(*args: object) -> object:
        imported.append(str(args[1]))
        return explored(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(submodules, "explore_failure", note)
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

    def note(*args: object, **options: object) -> object:
        explored.append(str(args[1]))
        return explore_from(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(explore, "_explore_from", note)
    unknown = "import other_thing\nif other_thing.there: raise RuntimeError(1)\nraise RuntimeError(2)\n"
    reader = PackageReader(TextSources({"pack/__init__.py": "", "pack/fails.py": ABSENT + unknown}), ["pack"])
    fresh = functools.partial(FakeWorld, torch_names=embedded_names.names("2.13.0"))
    imports = reader.read(fresh).imports
    explored.clear()
    outcomes = reader.failing_submodules(fresh, None, imports, lambda _: is_of_torch)
    # All of its paths fail, so it does if the usual one does because of torch.
    assert [outcome.module for outcome in outcomes] == explored == ["pack.fails"] * is_of_torch


def test_what_one_module_succeeds_with_is_tried_first_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    explored = explore.explore_failure

    def note(*args: object) -> object:
        result = explored(*args)  # type: ignore[arg-type]
        runs.append(len(result.runs))
        return result

    monkeypatch.setattr(submodules, "explore_failure", note)
    loading = (
        "import other, torch\nif other.a: torch.ops.load_library(other.b)\nif other.c: torch.ops.load_library('c')\n"
    )
    shared = f"{loading}if not other.d: from torch._six import inf\n"
    files = {"pack/__init__.py": "", "pack/shared.py": shared}
    files |= {f"pack/{name}.py": f"{ABSENT}import pack.shared\n" for name in ("first", "third")}
    fresh = functools.partial(FakeWorld, torch_names=embedded_names.names("2.13.0"))
    reader = PackageReader(TextSources(files), ["pack"])
    imports = reader.read(fresh).imports
    assert not reader.failing_submodules(fresh, None, imports, lambda outcome: isinstance(outcome.raised, Raised))
    assert runs == [4, 2, 2]


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
