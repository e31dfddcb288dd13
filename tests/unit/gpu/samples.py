"""The samples with code for GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from abiscan.gpu.model import GpuCode
from abiscan.gpu.reader import read_gpu_code
from abiscan.inputs.files import DiskFile, random_access

FOLDER: Final = Path(__file__).parents[2] / "data" / "gpu"
NAMES: Final = sorted(path.name for path in FOLDER.glob("*.so"))


def read(path: Path) -> GpuCode:
    """The code for GPUs in a file."""
    source = DiskFile(path)
    with random_access(source) as reader:
        return read_gpu_code(reader, source.size)


def read_bytes(data: bytes) -> GpuCode:
    """The code for GPUs in a file that is in memory."""
    return read_gpu_code(lambda offset, size: data[offset : offset + size], len(data))
