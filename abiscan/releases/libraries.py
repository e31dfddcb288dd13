"""The libraries of a torch, read when somebody asks for one."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from abiscan.elf import SharedObject
from abiscan.files import Files
from abiscan.linkage.names import is_torch_library
from abiscan.releases.model import TorchRelease


class TorchLibraries(Mapping[str, SharedObject]):
    """Base name → facts. Only torch's own: what else a wheel puts into ``torch/lib`` (cuDNN, OpenMP) is left out."""

    def __init__(self, release: TorchRelease, files: Files) -> None:
        self._files = files
        self._paths = {
            name: path
            for name, path in ((posixpath.basename(path), path) for path in release.libraries)
            if is_torch_library(name)
        }

    def __getitem__(self, name: str) -> SharedObject:
        facts = self._files.object_at(self._paths[name])
        if facts is None:
            raise KeyError(name)
        return facts

    def __iter__(self) -> Iterator[str]:
        return (name for name, path in self._paths.items() if self._files.object_at(path) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
