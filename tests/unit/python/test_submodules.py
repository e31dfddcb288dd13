"""Public submodules that the import of a package does not reach: how often each is imported."""

from __future__ import annotations

import functools

import pytest

from abiscan.python import submodules
from abiscan.python.explore import explore_import
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
