"""Which GPUs the code of an extension runs on: the second table of ``abiscan matrix --gpus``."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from abiscan.gpu.compatibility import Choice, CodeFit
from abiscan.gpu.devices import Gpu
from abiscan.results.document import JsonObject


class GpuMark(enum.Enum):
    """What a GPU runs of an operator, or of a whole file."""

    NATIVE = "native"
    """Its kernels have machine code for it."""

    JIT = "jit"
    """Some of its kernels only have PTX for it, which the driver translates."""

    SOME = "some"
    """Some of its kernels have code for it, others have none."""

    NONE = "none"
    """None of its kernels run on it."""


SYMBOLS: Final = {GpuMark.NATIVE: "✓", GpuMark.JIT: "P", GpuMark.SOME: "◐", GpuMark.NONE: "✗"}
LEGEND: Final = "✓ has code  P has PTX, which the driver translates  ◐ some kernels have code  ✗ has no code"


def mark_of(choices: Sequence[Choice]) -> GpuMark:
    """Return the mark for kernels, or containers."""
    fits = {choice.fit for choice in choices}
    # From the worst to the best; translated code counts as code, but the first call takes longer.
    if not any(fit.runs for fit in fits):
        return GpuMark.NONE
    if not all(fit.runs for fit in fits):
        return GpuMark.SOME
    return GpuMark.JIT if CodeFit.JIT in fits else GpuMark.NATIVE


class GpuGapJson(JsonObject, frozen=True, kw_only=True):
    """What could not be read of the code for GPUs."""

    stage: Literal["gpu"]
    reason: str


class GpuRowJson(JsonObject, frozen=True, kw_only=True):
    """Which GPUs one extension with code for GPUs has code for, by GPU: ``sm_90``, ``gfx942``.

    :ivar file: machine code, PTX, code of some kernels only, or none
    :ivar operators: the operators that launch kernels
    """

    target: str
    path: str
    file: Mapping[str, GpuMark]
    operators: Mapping[str, Mapping[str, GpuMark]]
    gaps: Sequence[GpuGapJson]


class GpuRow(Struct, frozen=True, kw_only=True):
    """One extension with code for GPUs: the marks for each GPU, of the file and of each operator that launches any."""

    target: str
    path: str
    gpus: tuple[Gpu, ...]
    file: tuple[GpuMark, ...]
    operators: Mapping[str, tuple[GpuMark, ...]]
    gaps: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The GPUs, as they are called in short: ``9.0``, ``gfx942``."""
        return [gpu.gfx or f"{gpu.capability // 10}.{gpu.capability % 10}" for gpu in self.gpus]

    @property
    def groups(self) -> dict[tuple[GpuMark, ...], list[str]]:
        """The operators by their marks, those that run on most GPUs last."""
        groups: dict[tuple[GpuMark, ...], list[str]] = {}
        for operator, marks in self.operators.items():
            groups.setdefault(marks, []).append(operator)
        return dict(sorted(groups.items(), key=lambda group: -sum(mark is GpuMark.NONE for mark in group[0])))


def gpu_row_json(row: GpuRow) -> GpuRowJson:
    """Return what the document of a matrix has of an extension."""
    names = [gpu.target for gpu in row.gpus]
    return GpuRowJson.of(
        row,
        file=dict(zip(names, row.file, strict=True)),
        operators={operator: dict(zip(names, marks, strict=True)) for operator, marks in row.operators.items()},
        gaps=[GpuGapJson(stage="gpu", reason=reason) for reason in row.gaps],
    )
