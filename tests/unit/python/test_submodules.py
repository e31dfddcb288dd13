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
