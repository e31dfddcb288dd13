"""Which code runs on which GPU, with which driver.

The rules are those of the CUDA programming guide ("Compute capability and binary compatibility") and of
``DEVICE_REQUIREMENT`` in ``torch/cuda/__init__.py``; for AMD, those of ``hipamd/src/hip_fatbin.cpp`` in ROCm's clr.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from abiscan.gpu import drivers
from abiscan.gpu.devices import Gpu
from abiscan.gpu.drivers import Driver
from abiscan.gpu.model import CodeKind, Compression, Container, Entry

_TEGRA: Final = frozenset({53, 62, 72, 87})
_OLD_NAME: Final = {101: 110}  # Thor, up to CUDA 12.9
_UNIFIED: Final = (13, 2)
"""From this version of CUDA on, code for 70, 80 and 86 runs on Jetson as well."""
_UNIFIED_CODE: Final = frozenset({70, 80, 86})

_GENERIC: Final = (
    ("gfx9-4-generic", ("gfx940", "gfx941", "gfx942", "gfx950")),
    ("gfx9-generic", ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c")),
    ("gfx10-1-generic", ("gfx1010", "gfx1011", "gfx1012", "gfx1013")),
    ("gfx10-3-generic", ("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036")),
    ("gfx11-generic", ("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153")),
    ("gfx12-generic", ("gfx1200", "gfx1201")),
)
_SPIRV: Final = "amdgcnspirv"


class CodeFit(enum.Enum):
    """How a GPU gets its code, the best first."""

    NATIVE = "native"
    """There is machine code for it."""

    JIT = "jit"
    """There is PTX, which the driver translates."""

    PTX_TOO_NEW = "ptx-too-new"
    """There is PTX, but of a version that the driver does not know."""

    COMPRESSION_TOO_NEW = "compression-too-new"
    """There is code, but compressed in a way that the driver does not know."""

    NONE = "none"
    """There is nothing for it."""

    @property
    def runs(self) -> bool:
        """Whether a kernel can be launched."""
        return self in (CodeFit.NATIVE, CodeFit.JIT)


class Choice(Struct, frozen=True, kw_only=True):
    """What the runtime chooses for a GPU.

    :ivar fit: how it gets code
    :ivar entry: the piece of code, None if there is none
    """

    fit: CodeFit
    entry: Entry | None = None


def fits_gpu(entry: Entry, gpu: Gpu, toolkit: tuple[int, int] | None = None) -> bool:
    """Whether a piece of code is for a GPU, whatever the driver.

    :param toolkit: the CUDA that compiled it; None if that is not known: then what only a newer one can is assumed
    """
    if entry.kind is CodeKind.LTO or (entry.gfx is None) != (gpu.gfx is None):
        return False
    if entry.gfx is not None and gpu.gfx is not None:
        return _fits_hip(entry.gfx, gpu.gfx)
    code = _OLD_NAME.get(entry.architecture, entry.architecture)
    # CUDA programming guide, "Binary Compatibility": machine code for X.y runs on X.z with z >= y. PTX for X.y is
    # translated for every capability that is not lower. The suffixes a and f restrict that to one GPU and to a family.
    same_family = gpu.capability // 10 == code // 10 and gpu.capability >= code
    if entry.variant == "a":
        return gpu.capability == code
    if entry.variant == "f":
        return same_family
    if entry.kind is CodeKind.PTX:
        return gpu.capability >= code
    return same_family and _same_kind_of_board(code, gpu.capability, toolkit)


def _same_kind_of_board(code: int, capability: int, toolkit: tuple[int, int] | None) -> bool:
    """Tell whether a GPU is on the kind of board that machine code is for: Jetson and others do not share it."""
    if code in _TEGRA:
        return capability == code
    if capability not in _TEGRA:
        return True
    return code in _UNIFIED_CODE and (toolkit is None or toolkit >= _UNIFIED)


def _fits_hip(code: str, gpu: str) -> bool:
    """Tell whether AMD's code is for exactly that target, or for the generic one of its family.

    A feature that the code leaves open may be on or off.
    """
    name, *features = code.split(":")
    gpu_name, *of_gpu = gpu.split(":")
    if name == _SPIRV:
        return True
    if name != gpu_name and not any(name == generic and gpu_name in family for generic, family in _GENERIC):
        return False
    gpu_features = {feature[:-1]: feature[-1] for feature in of_gpu}
    return all(gpu_features.get(feature[:-1], feature[-1]) == feature[-1] for feature in features)


def choose_code(
    containers: Iterable[Container], gpu: Gpu, driver: Driver | None = None, toolkit: tuple[int, int] | None = None
) -> Choice:
    """Choose what the runtime takes for a GPU from containers with the same kernel: machine code first, newest first.

    :param driver: the driver; None for one that knows everything
    """
    # Invariant: ``best`` is the best of the containers so far, and of equals the first.
    best = Choice(fit=CodeFit.NONE)
    for container in containers:
        if not container.relocatable:
            choice = _choose_entry(container, gpu, driver, toolkit)
            if _ORDER.index(choice.fit) < _ORDER.index(best.fit):
                best = choice
    return best


_ORDER: Final = tuple(CodeFit)


def _choose_entry(container: Container, gpu: Gpu, driver: Driver | None, toolkit: tuple[int, int] | None) -> Choice:
    """Choose a piece of code from one container."""
    fitting = [entry for entry in container.entries if fits_gpu(entry, gpu, toolkit)]
    # Machine code is preferred even to newer PTX: the driver translates only if it finds none.
    for kind in (CodeKind.HIP, CodeKind.CUBIN, CodeKind.PTX):
        of_kind = [entry for entry in fitting if entry.kind is kind]
        if of_kind:
            # That for the GPU itself before that for its family, and the newest before older ones.
            entry = max(of_kind, key=lambda entry: (entry.architecture, entry.variant == "a", entry.variant == "f"))
            return Choice(fit=_fit_of_driver(entry, driver), entry=entry)
    return Choice(fit=CodeFit.NONE)


def _fit_of_driver(entry: Entry, driver: Driver | None) -> CodeFit:
    """Tell what a driver makes of a piece of code that is for the GPU."""
    native = CodeFit.JIT if entry.kind is CodeKind.PTX else CodeFit.NATIVE
    if driver is None or entry.kind is CodeKind.HIP:
        return native
    if entry.compression is Compression.ZSTD and driver < drivers.ZSTD:
        return CodeFit.COMPRESSION_TOO_NEW
    if entry.ptx_isa is not None and drivers.knows_ptx(driver, entry.ptx_isa) is False:
        return CodeFit.PTX_TOO_NEW
    return native
