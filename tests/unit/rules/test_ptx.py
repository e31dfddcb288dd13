"""Which driver PTX needs: https://docs.nvidia.com/cuda/parallel-thread-execution, "Release Notes"."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from abiscan.gpu.compatibility import Choice
from abiscan.rules.ptx_too_new import _format_need


def choice(*, version: tuple[int, int] | None, has_entry: bool = True) -> Choice:
    entry = SimpleNamespace(ptx_isa=version) if has_entry else None
    return cast("Choice", SimpleNamespace(entry=entry))


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (choice(version=(7, 8)), "PTX 7.8 needs driver 520"),  # CUDA 11.8, driver r520
        (choice(version=None), "PTX 0.0 needs the driver of the CUDA that compiled it or newer"),
        (choice(version=None, has_entry=False), "PTX 0.0 needs the driver of the CUDA that compiled it or newer"),
    ],
)
def test_what_ptx_needs(chosen: Choice, said: str) -> None:
    assert _format_need(chosen).startswith(said)
