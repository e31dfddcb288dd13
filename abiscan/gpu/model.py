"""The terms: containers of code for GPUs, and the code in them."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

from msgspec import Struct


class CodeKind(enum.Enum):
    """What a piece of code is."""

    PTX = "ptx"
    """An assembly language, which the driver translates for the GPU at hand."""

    CUBIN = "cubin"
    """Machine code for NVIDIA's GPUs."""

    LTO = "lto-ir"
    """An intermediate form for the device linker, which no GPU runs."""

    HIP = "hip"
    """Machine code for AMD's GPUs, or SPIR-V."""


class Compression(enum.Enum):
    """How a piece of code is compressed."""

    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Entry(Struct, frozen=True, kw_only=True):
    """One piece of code in a container.

    :ivar kind: what it is
    :ivar architecture: 90 for ``sm_90`` and ``compute_90``, 0 for AMD's code
    :ivar variant: the letter after the architecture: ``a`` for code that only runs on that GPU, ``f`` for its family
    :ivar gfx: the target of AMD's code (``gfx90a:xnack-``), None for NVIDIA's
    :ivar ptx_isa: the version of PTX, None for machine code
    :ivar compression: how it is compressed
    :ivar size: its bytes in the file
    :ivar offset: where in the file the code itself begins
    """

    kind: CodeKind
    architecture: int = 0
    variant: str = ""
    gfx: str | None = None
    ptx_isa: tuple[int, int] | None = None
    compression: Compression = Compression.NONE
    size: int = 0
    offset: int = 0

    @property
    def target(self) -> str:
        """The name of what it was compiled for: ``sm_90a``, ``compute_80``, ``gfx942``."""
        if self.gfx is not None:
            return self.gfx
        prefix = {CodeKind.PTX: "compute", CodeKind.LTO: "lto"}.get(self.kind, "sm")
        return f"{prefix}_{self.architecture}{self.variant}"


class Container(Struct, frozen=True, kw_only=True):
    """A container, at an address of the object.

    :ivar address: its virtual address
    :ivar entries: the code in it
    :ivar relocatable: whether it is input of the device linker, which no GPU runs
    :ivar unknown: the numbers of kinds of code that are in it, but not known
    """

    address: int
    entries: tuple[Entry, ...]
    relocatable: bool = False
    unknown: tuple[int, ...] = ()


class GpuCode(Struct, frozen=True, kw_only=True):
    """All containers of one object.

    :ivar containers: in the order of the file
    :ivar toolkit: the newest version of CUDA that the code itself names, None if it names none
    :ivar gaps: what could not be read, one sentence each
    """

    containers: tuple[Container, ...] = ()
    toolkit: tuple[int, int] | None = None
    gaps: tuple[str, ...] = ()

    @property
    def entries(self) -> Iterator[Entry]:
        """All code, relocatable code included."""
        return (entry for container in self.containers for entry in container.entries)

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of all targets that GPUs run, without repetition."""
        return targets_of(self.containers)


def targets_of(containers: Iterable[Container]) -> tuple[str, ...]:
    """Return the names of the targets that GPUs run, in order of architecture."""
    entries = {
        entry.target: entry
        for container in containers
        for entry in container.entries
        if not container.relocatable and entry.kind is not CodeKind.LTO
    }
    return tuple(sorted(entries, key=lambda name: (entries[name].kind.value, entries[name].architecture, name)))
