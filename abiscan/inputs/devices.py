"""Packages that bring torch a device, by their names: torch-npu, habana-torch-plugin, torch-mlu, torch_musa, …

What they set on torch (``torch.npu``), and the kernels of their backend, no release of torch has.
"""

from __future__ import annotations

from typing import Final

from abiscan.regex import regex

_BRINGS_DEVICE: Final = regex(
    r"(?:^|[-_.]|torch)(?:npu|ipex|intel[-_.]extension|habana|xla|directml|musa|mlu|gcu|sdaa|spyre|tpu)(?![a-z])"
)


def brings_device(name: str) -> bool:
    """Whether a package, or a module, is one that brings torch a device and may give it any name."""
    return _BRINGS_DEVICE.search(name.lower()) is not None
