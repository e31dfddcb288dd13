"""The Pythons that ``torch.compile`` raises on: torch/__init__.py of 2.1.2, 2.2.2, 2.3.1, 2.5.1, 2.9.1 and 2.13.0.

instructlab/instructlab#1491 and kyutai-labs/moshi#156 report it of 2.3.1 with Python 3.12.
"""

from __future__ import annotations

import pytest

from abiscan.python.package.model import Raised
from abiscan.python.reading import PackageReader
from tests.unit.python.packages import FakeWorld, TextSources, reading_of

DECORATED = "import torch\n@torch.compile\ndef f(x): return x"
LAZY = (
    "import os\nimport torch\noff = False\ndef lazy(f):\n  if os.environ.get('OFF'): return f\n  g = None\n"
    "  def h(x):\n    nonlocal g\n    if off: return f(x)\n    if g is None: g = torch.compile(f)\n    return g(x)\n"
    "  return h\n"
)
"""A decorator that compiles when the function is first called, as that of moshi 0.1.0."""


def world(release: str, oldest: tuple[int, int], newest: tuple[int, int]) -> FakeWorld:
    return FakeWorld(torch_version=release, python=newest, oldest_python=oldest, newest_python=newest)


@pytest.mark.parametrize(
    ("release", "python", "text"),
    [
        ("2.1.2", (3, 12), "Dynamo is not supported on Python 3.12+"),
        ("2.3.1+cu121", (3, 12), "Dynamo is not supported on Python 3.12+"),
        ("2.3.1+cu121", (3, 11), None),
        ("2.4.0", (3, 12), None),
        ("2.5.1", (3, 13), "Dynamo is not supported on Python 3.13+"),
        ("2.9.1", (3, 13), None),
        ("2.9.1", (3, 14), "torch.compile is not supported on Python 3.14+"),
        ("2.13.0", (3, 14), None),
    ],
)
@pytest.mark.parametrize("code", [DECORATED, "import torch\n@torch.compile(mode='default')\ndef f(x): return x"])
def test_a_use_at_import(release: str, python: tuple[int, int], text: str | None, code: str) -> None:
    (outcome,) = reading_of({"p/__init__.py": code}, world(release, python, python)).imports

    assert (_says(outcome.raised) if outcome.raised is not None else None) == text


def _says(raised: object) -> str | None:
    return raised.message if isinstance(raised, Raised) and raised.exception == "RuntimeError" else None


@pytest.mark.parametrize(
    ("code", "is_needed"),
    [
        (DECORATED, True),
        ("import torch\ndef f(x): return torch.compile(x)", False),
        ("import torch\nclass A:\n  @torch.compile(dynamic=True)\n  def f(self): ...", True),
        ("import torch\ndef f(x, fast=False):\n  if fast: x = torch.compile(x)\n  return x", False),
        ("import torch\ndef f(x, fast=False):\n  if not fast: return x\n  return torch.compile(x)", False),
        ("import torch\ndef f(x):\n  try: return torch.compile(x)\n  except RuntimeError: return x", False),
        ("import torch, sys\nif sys.version_info < (3, 12):\n  @torch.compile\n  def f(x): ...", False),
        ("import torch\ndef f(x):\n  'torch.compile(f)'", False),
        (f"{LAZY}@lazy\ndef g(x): ...", True),
        (f"{LAZY.replace('off = False', 'off = True')}@lazy\ndef g(x): ...", False),
        (f"{LAZY.replace('off = False', 'from .flags import off')}@lazy\ndef g(x): ...", False),
        (f"{LAZY}if lazy:\n  @lazy\n  def g(x): ...", False),
        (LAZY, False),
    ],
)
def test_a_use_that_older_pythons_run(code: str, *, is_needed: bool) -> None:
    reader = PackageReader(TextSources({"p/__init__.py": code}), ["p"])

    found = reader.python_needs(world("2.3.1", (3, 8), (3, 12)))

    assert [(need.below, need.is_refused) for need in found] == [((3, 12), False)] * is_needed
    assert not reader.python_needs(world("2.3.1", (3, 8), (3, 11)))
    assert not reader.python_needs(world("2.13.0", (3, 10), (3, 14)))


@pytest.mark.parametrize(
    ("code", "needs"),
    [
        ("from .c import get\n@get()()\ndef f(x): ...", ["Python<3.12"]),  # as deepspeed 0.18.6
        ("from .c import get\ndef f(x): return get()(x)", []),
        ("from .c import get\ntry:\n  g = get()(len)\nexcept Exception: g = len", []),
    ],
)
def test_a_call_at_import_that_older_pythons_run(code: str, needs: list[str]) -> None:
    files = {"p/__init__.py": code, "p/c.py": "import torch\ndef get(): return torch.compile"}
    any_python = FakeWorld(torch_version="2.3.1", oldest_python=(3, 8), newest_python=(3, 12))

    (outcome,) = reading_of(files, any_python).imports

    assert [need.name for need in outcome.needs] == needs
