"""What the properties of a variant wheel promise, next to what one extension in it needs."""

from __future__ import annotations

from msgspec import Struct

from abiscan.cpu.processors import Cpu
from abiscan.gpu.variants import GpuPromise
from abiscan.inputs.variants import VariantProperty, WheelVariant


class Promise(Struct, frozen=True, kw_only=True):
    """The properties of a wheel, as far as they can be compared with one extension in it.

    :ivar variant: what the wheel says
    :ivar cpu: the least processor that it admits, None if it says nothing of them
    :ivar code: the features that any code of the wheel uses, None if that is not known
    :ivar gpu: what it says about GPUs, None if it says nothing of them
    :ivar unknown: the properties whose meaning is not known
    """

    variant: WheelVariant
    cpu: Cpu | None = None
    code: frozenset[str] | None = None
    gpu: GpuPromise | None = None
    unknown: tuple[VariantProperty, ...] = ()
