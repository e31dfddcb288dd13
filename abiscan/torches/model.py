"""What is known about a torch."""

from __future__ import annotations

import posixpath

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.binary.ownership import is_torch_library, without_version
from abiscan.inputs.interpreter import PythonTag
from abiscan.inputs.version import TorchVersion, number_of


class TorchRelease(Struct, frozen=True, kw_only=True):
    """A torch, by its files.

    :ivar build: its full version with the local tag (``2.13.0+cpu``); None if unknown
    :ivar package: the folder ``…/torch``
    :ivar libraries: its shared objects by path, those of ``lib`` sorted
    :ivar global_libraries: what ``import torch`` loads with RTLD_GLOBAL
    :ivar local_libraries: what it loads without
    :ivar preloaded: what it loads before those, as far as it loads: see ``abiscan.torches.preloaded``
    :ivar same_as: the embedded build whose libraries are the same files; only looked for if the build is not embedded
    :ivar judged_as: the embedded build of the same release that stands for a build of which nothing else is known
    """

    build: str | None
    package: str
    machine: Machine
    python: PythonTag | None
    libraries: tuple[str, ...]
    global_libraries: tuple[str, ...]
    local_libraries: tuple[str, ...]
    preloaded: tuple[str, ...] = ()
    same_as: str | None = None
    judged_as: str | None = None

    @property
    def own_libraries(self) -> dict[str, str]:
        """Base name → path of torch's own libraries, without others that wheels put next to them (cuDNN, OpenMP).

        A distribution's names have a version (``libtorch_cpu.so.1.13``), which is left out.
        """
        own: dict[str, str] = {}
        for path in self.libraries:
            if is_torch_library(name := posixpath.basename(path)):
                own.setdefault(without_version(name), path)  # the name without a version is before those with one
        return own

    @property
    def version(self) -> str | None:
        """The number of the release, without the local tag of the build: ``2.13.0``."""
        return number_of(self.build) if self.build else None

    @property
    def torch_version(self) -> TorchVersion | None:
        """The version, whose rules it follows; None if it is unknown or not valid."""
        build = self.same_as or self.build
        return TorchVersion.parse(build) if build else None

    def __str__(self) -> str:
        return f"torch {self.build or '(unknown version)'}"
