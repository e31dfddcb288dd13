"""The two ways out of two versions of CUDA or ROCm."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from abiscan.linkage.model import MissingLibrary
from abiscan.rules.cuda_runtime_mismatch import _find_fix


@pytest.mark.parametrize(
    ("needed", "of_torch", "expected"),
    [
        ("libcudart.so.12", "libcudart.so.11.0", "for CUDA 11, or a build of torch for CUDA 12"),
        ("libcudart.so.11.0", "libcudart.so.12", "for CUDA 12, or a build of torch for CUDA 11"),
        ("libcudart.so.10.1", "libcudart.so.10.2", "for CUDA 10.2, or a build of torch for CUDA 10.1"),
        ("libcufft.so.10", "libcufft.so.11", None),  # its versions are not those of the platform
        ("libfoo.so.1", "libfoo.so.2", None),
    ],
)
def test_which_builds_would_fit(needed: str, of_torch: str, expected: str | None) -> None:
    library = SimpleNamespace(name=needed, instead=SimpleNamespace(name=of_torch))
    found = _find_fix(cast("MissingLibrary", library))
    assert found == (f"install a build of the extension {expected}" if expected else None)
