"""GPUs, looked up by the names that people use for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from abiscan.cpu.processors import Cpu
from abiscan.gpu.drivers import Driver
from abiscan.regex import regex

if TYPE_CHECKING:
    from abiscan.inputs.target_system import LinuxSystem

_CAPABILITY: Final = regex(r"(?:sm_?|compute_?)?([0-9]{1,2})\.?([0-9])[af]?", re.IGNORECASE)
_GFX: Final = regex(r"gfx[0-9a-f]{3,4}(?::[a-z]+[+-])*", re.IGNORECASE)

# NVIDIA, "CUDA GPU Compute Capability"; AMD, "Accelerator and GPU hardware specifications".
_NAMES: Final[tuple[tuple[str, int | str], ...]] = (
    ("GB10", 121),
    ("DGX SPARK", 121),
    ("RTX PRO 2000", 120),
    ("RTX PRO 4000", 120),
    ("RTX PRO 4500", 120),
    ("RTX PRO 5000", 120),
    ("RTX PRO 6000", 120),
    ("RTX 5050", 120),
    ("RTX 5060", 120),
    ("RTX 5070", 120),
    ("RTX 5080", 120),
    ("RTX 5090", 120),
    ("JETSON T4000", 110),
    ("JETSON T5000", 110),
    ("JETSON THOR", 110),
    ("B300", 103),
    ("GB300", 103),
    ("B200", 100),
    ("GB200", 100),
    ("H100", 90),
    ("H200", 90),
    ("GH200", 90),
    ("H20", 90),
    ("H800", 90),
    ("RTX 4050", 89),
    ("RTX 4060", 89),
    ("RTX 4070", 89),
    ("RTX 4080", 89),
    ("RTX 4090", 89),
    ("RTX 2000 ADA", 89),
    ("RTX 4000 ADA", 89),
    ("RTX 4500 ADA", 89),
    ("RTX 5000 ADA", 89),
    ("RTX 6000 ADA", 89),
    ("L4", 89),
    ("L20", 89),
    ("L40", 89),
    ("L40S", 89),
    ("ORIN", 87),
    ("JETSON AGX ORIN", 87),
    ("JETSON ORIN NANO", 87),
    ("JETSON ORIN NX", 87),
    ("RTX 3050", 86),
    ("RTX 3060", 86),
    ("RTX 3070", 86),
    ("RTX 3080", 86),
    ("RTX 3090", 86),
    ("RTX A2000", 86),
    ("RTX A4000", 86),
    ("RTX A5000", 86),
    ("RTX A6000", 86),
    ("A2", 86),
    ("A10", 86),
    ("A10G", 86),
    ("A16", 86),
    ("A40", 86),
    ("A30", 80),
    ("A100", 80),
    ("A800", 80),
    ("T4", 75),
    ("RTX 2060", 75),
    ("RTX 2070", 75),
    ("RTX 2080", 75),
    ("TITAN RTX", 75),
    ("GTX 1650", 75),
    ("GTX 1660", 75),
    ("V100", 70),
    ("TITAN V", 70),
    ("P100", 60),
    ("GTX 1060", 61),
    ("GTX 1070", 61),
    ("GTX 1080", 61),
    ("P4", 61),
    ("P40", 61),
    ("MI100", "gfx908"),
    ("MI210", "gfx90a"),
    ("MI250", "gfx90a"),
    ("MI300A", "gfx942"),
    ("MI300X", "gfx942"),
    ("MI325X", "gfx942"),
    ("MI350X", "gfx950"),
    ("MI355X", "gfx950"),
    ("RX 7900 XTX", "gfx1100"),
    ("RX 7900 XT", "gfx1100"),
    ("RX 9070", "gfx1201"),
    ("RX 9070 XT", "gfx1201"),
)
_GPU_BY_NAME: Final = dict(_NAMES)
NAMES: Final = tuple(_GPU_BY_NAME)
"""What a GPU can be called, besides its compute capability or target."""
KNOWN_CAPABILITIES: Final = tuple(sorted({known for known in _GPU_BY_NAME.values() if isinstance(known, int)}))
"""The compute capabilities of the GPUs that are known by name."""

_SUFFIXES: Final = (
    " LAPTOP GPU",
    " BLACKWELL",
    " SUPER",
    " TI",
    " PCIE",
    " SXM",
    " SXM2",
    " SXM4",
    " SXM5",
    " NVL",
    " GENERATION",
    " SERVER EDITION",
    " WORKSTATION EDITION",
    " HBM3",
)
_MAKERS: Final = ("NVIDIA ", "GEFORCE ", "TESLA ", "AMD ", "INSTINCT ", "RADEON ")


class Gpu(Struct, frozen=True, kw_only=True):
    """A GPU.

    :ivar name: what the user wrote
    :ivar capability: the compute capability of NVIDIA's (120 for 12.0), 0 for AMD's
    :ivar gfx: the target of AMD's (``gfx942``), None for NVIDIA's
    """

    name: str
    capability: int = 0
    gfx: str | None = None

    @property
    def target(self) -> str:
        """The target that is compiled for it: ``sm_120``, ``gfx942``."""
        return self.gfx or f"sm_{self.capability}"

    def __str__(self) -> str:
        number = self.gfx or f"{self.capability // 10}.{self.capability % 10}"
        plain = self.name.lower() in (number.lower(), self.target.lower())
        return self.target if plain else f"{self.name} ({self.target})"


def find_gpu(text: str) -> Gpu | None:
    """Look up the GPU that a text names: ``12.1``, ``sm_121``, ``RTX 5090``, ``gfx942``.

    Return None if it is unknown.
    """
    text = " ".join(text.split())
    if _GFX.fullmatch(text):
        return Gpu(name=text, gfx=text.lower())
    # 12.0 is 120: the last digit is the minor version of the compute capability.
    if match := _CAPABILITY.fullmatch(text):
        return Gpu(name=text, capability=int(match[1]) * 10 + int(match[2]))
    model = _GPU_BY_NAME.get(_strip_name(text))
    if isinstance(model, str):
        return Gpu(name=text, gfx=model)
    return Gpu(name=text, capability=model) if model else None


def _strip_name(text: str) -> str:
    """Strip a name of its maker, and of what says nothing about the architecture: memory, form, edition."""
    name = text.upper().replace("-", " ")
    name = re.sub(r" ?[0-9]+ ?GB\b.*", "", name)
    for maker in _MAKERS:
        name = name.removeprefix(maker)
    # Suffixes come in any order and number, so until none is left; but a name that is in the table keeps its own.
    changed = True
    while changed:
        changed = False
        for suffix in _SUFFIXES:
            if name.endswith(suffix) and name not in _GPU_BY_NAME:
                name, changed = name.removesuffix(suffix), True
    return re.sub(r"\b(RTX|GTX)([0-9])", r"\1 \2", name)


class Hardware(Struct, frozen=True, kw_only=True):
    """What an extension will run on.

    :ivar gpus: the GPUs
    :ivar driver: the version of their driver, None if unknown
    :ivar cpus: the processors
    :ivar system: the system, None for this one, or for any
    """

    gpus: tuple[Gpu, ...] = ()
    driver: Driver | None = None
    cpus: tuple[Cpu, ...] = ()
    system: LinuxSystem | None = None
