"""What the metadata of a package promise, for rules to compare with what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from abiscan.cpu.processors import Cpu
from abiscan.gpu.variants import GpuPromise
from abiscan.inputs.variants import VariantProperty, WheelVariant

if TYPE_CHECKING:
    from abiscan.inputs.requirement import TorchRequirement


class ReleaseOutcome(Struct, frozen=True, kw_only=True):
    """What happens with a wheel on one release of torch.

    :ivar release: the release
    :ivar admitted: whether the metadata of the wheel admit it
    :ivar error: the first problem with the extension, None if it loads
    :ivar wheel_works: whether all extensions of the wheel load and work there
    """

    release: str
    admitted: bool
    error: str | None
    wheel_works: bool


class Declaration(Struct, frozen=True, kw_only=True):
    """A torch requirement and its outcome for each release.

    :ivar requirement: None if the metadata do not require torch
    :ivar outcomes: oldest release first
    :ivar suggestion: the requirement that admits exactly the releases on which the whole wheel works; None if it works
        on none
    """

    requirement: str | None
    outcomes: tuple[ReleaseOutcome, ...]
    suggestion: str | None


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


class Promises(Struct, frozen=True, kw_only=True):
    """What the metadata of its package say about an extension.

    :ivar package: the name of the package, empty if unknown
    :ivar package_version: its version, empty if unknown
    :ivar wheel: the file name of the wheel, empty if unknown
    :ivar requires_torch: the requirement on torch, None if there is none, or it is unknown
    :ivar declaration: what is declared, compared with all releases, if that is checked
    :ivar variant: what the wheel says of the systems that it is for, None if it is of no variant
    """

    package: str = ""
    package_version: str = ""
    wheel: str = ""
    requires_torch: TorchRequirement | None = None
    declaration: Declaration | None = None
    variant: Promise | None = None
