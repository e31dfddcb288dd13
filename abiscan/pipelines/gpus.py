"""Which GPUs the code of each extension of a target runs on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from abiscan.extension.examined import ExaminedTarget
from abiscan.extension.gpu import ExtensionGpu
from abiscan.gpu.devices import Gpu, Hardware, find_gpu
from abiscan.results.gpus import GpuRow, mark_of

# One of each architecture that is in use.
_NVIDIA: Final = ("7.0", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1")
_AMD: Final = ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201")


def gpu_rows(target: ExaminedTarget, hardware: Hardware) -> Iterator[GpuRow]:
    """Yield a row for each extension with code for GPUs.

    :param hardware: the columns; one of each architecture in use if it names no GPU
    """
    for extension in target.extensions:
        code = extension.gpu
        if code is None:
            continue
        gpus = _gpu_columns(code, hardware)
        # With a driver's version, PTX that is too new for it counts as no code.
        outcomes = [code.on(column, hardware.driver) for column in gpus]
        yield GpuRow(
            target=target.target.name,
            path=extension.path,
            gpus=gpus,
            file=tuple(mark_of(outcome.containers) for outcome in outcomes),
            operators={
                operator: tuple(mark_of(outcome.operators[operator]) for outcome in outcomes)
                for operator in code.operators
            },
            gaps=code.gaps,
        )


def _gpu_columns(code: ExtensionGpu, hardware: Hardware) -> tuple[Gpu, ...]:
    named = hardware.gpus or tuple(filter(None, map(find_gpu, (*_NVIDIA, *_AMD))))
    return tuple(column for column in named if code.is_for_maker_of(column))
