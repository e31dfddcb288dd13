"""Names that functions look up in torch, one after the other: ``torch.float8_e8m0fnu`` is in 2.7.0 and newer
(huggingface/peft#3158), the others since 2.1.0 and before (``dir(torch)`` of 2.5.1 and 2.13.0).
"""

from __future__ import annotations

import pytest

from abiscan.python.reading import PackageReader
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources

NAMES = '("float16", "float8_e4m3fn", "float8_e8m0fnu")'
OF_PEFT = "def f():\n    for name in NAMES:\n        kept.add(getattr(torch, name))\n"


def missing(body: str, release: str = "2.5.1") -> list[tuple[str, str, bool]]:
    sources = {
        "pack/__init__.py": "",
        "pack/constants.py": f"NAMES = {NAMES}\n",
        "pack/cast.py": f"import torch\n{body}",
    }
    world = FakeWorld(torch_names=embedded_names.names(release))
    return [
        (use.name, use.function, use.doubtful)
        for use in PackageReader(TextSources(sources), ["pack"]).later_uses(world)
    ]


@pytest.mark.parametrize(
    "body",
    [
        f"from .constants import NAMES\n{OF_PEFT}",
        f"NAMES = {NAMES}\n{OF_PEFT}",
        f"NAMES: Final = frozenset({NAMES})\n{OF_PEFT}",
        f"def f(on):\n    if not on: return\n    names = {NAMES}\n    return [getattr(torch, name) for name in names]",
        f"def f():\n    return {{getattr(torch, n) for n in sorted({NAMES})}}",
    ],
)
def test_a_name_that_is_missing(body: str) -> None:
    assert missing(body) == [("torch.float8_e8m0fnu", "f", True)]
    assert missing(body, "2.13.0") == []


@pytest.mark.parametrize(
    "body",
    [
        f"def f():\n    return [getattr(torch, n, None) for n in {NAMES}]",
        f"def f():\n    return [getattr(torch, n) for n in {NAMES} if hasattr(torch, n)]",
        f"def f():\n    for n in {NAMES}:\n        if not hasattr(torch, n): continue\n        g(getattr(torch, n))",
        f"def f():\n    for n in {NAMES}:\n        try: g(getattr(torch, n))\n        except AttributeError: pass",
        f"def f():\n    for n in {NAMES}:\n        with suppress(AttributeError): g(getattr(torch, n))",
        f"def f():\n    if torch.__version__ >= '2.7':\n        return [getattr(torch, n) for n in {NAMES}]",
        f"def f(torch):\n    return [getattr(torch, n) for n in {NAMES}]",
        f"def f(m):\n    return [getattr(torch, m) for n in {NAMES}]",
        'def f():\n    return [getattr(torch, n) for n in ("nope", "float16")]',
        'def f():\n    return [getattr(torch, n) for n in ("float8_e8m0fnu", g())]',
        'NAMES = ("float16",)\nif g(): NAMES = ("float8_e8m0fnu",)\n' + OF_PEFT,
    ],
)
def test_a_lookup_that_does_not_count(body: str) -> None:
    assert missing(body) == []
