"""The Python names of packages next to torch, version by version, and which versions go with each release of torch.

``data/companions`` and ``data/triton.txt``, ``torchvision.txt``, … are made by ``tools/record_companions.py``: the
versions that go with embedded releases of torch - torch requires its Triton, torchvision, torchaudio and torchtext
require their torch - and one release of each minor version of numpy. A column is a version and the package.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from abiscan import release_data
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.torches.marks import MarkTable
from abiscan.torches.release_names import ReleaseNames
from abiscan.torches.release_sets import ReleaseSets

WITH_TORCH: Final = ("torchaudio", "torchtext", "torchvision", "triton")
"""The packages whose version follows from that of torch."""
_BY_MINOR: Final = frozenset({"numpy", "torchaudio", "torchtext", "torchvision"})
"""Those that keep their names within a minor version, so that one release of each is recorded."""
_PATCHES: Final = 20
"""The patch releases of a minor version that a requirement is asked about."""


class CompanionsOf(Struct, frozen=True):
    """The packages that come with a release of torch; see ``torch_names.Companions``.

    :ivar torch: the release; None if it is not embedded
    """

    torch: str | None

    def matching(self, package: str, specifier: str) -> Sequence[TorchNames]:
        """Return the names of the versions of a package that a requirement allows."""
        return _matching_versions(package, specifier)

    def versions(self, package: str) -> Sequence[str]:
        """Return the versions of a package in the data, the oldest first."""
        return versions(package)

    def required(self, package: str, machine: str) -> str | None:
        """Return which versions of a package go with this torch; of Triton, with its builds with CUDA."""
        words = _versions_by_torch(package).get(self.torch or "", ()) if package in WITH_TORCH else ()
        version, machines = (words[0], words[1:]) if words else (None, ())
        return f"=={version}" if version and (not machines or machine in machines) else None


def versions(package: str) -> tuple[str, ...]:
    """Return the versions of a package in the data, oldest first; of all but Triton, minor versions."""
    return tuple(column.split()[0] for column in table().columns if column.endswith(f" {package}"))


def column_of(package: str, version: str) -> str:
    """Return the version in the data that stands for a version of a package."""
    return ".".join(version.split(".")[:2]) if package in _BY_MINOR else version


def names(package: str, version: str) -> TorchNames:
    """Return the names of a version of a package that is in the data."""
    return _names_in(package, table().numbers[f"{version} {package}"])


@functools.cache
def _matching_versions(package: str, specifier: str) -> Sequence[TorchNames]:
    try:
        allowed = SpecifierSet(specifier)
    except InvalidSpecifier:
        return ()
    return tuple(names(package, version) for version in versions(package) if _allows(allowed, package, version))


def _allows(allowed: SpecifierSet, package: str, version: str) -> bool:
    candidates = [f"{version}.{patch}" for patch in range(_PATCHES)] if package in _BY_MINOR else [version]
    return any(candidate in allowed for candidate in candidates)


@functools.cache
def _names_in(package: str, column: int) -> TorchNames:
    source = ReleaseNames(table(), _sets(), column)
    return TorchNames(source, _was_there, _was_compiled, _is_written, _signatures_of, top=package)


def _was_there(name: str) -> bool:
    owner, _, last = name.rpartition(".")
    return last in table().marks_of(owner) or bool(table().marks_of(name))


def _was_compiled(_name: str) -> bool:
    return False


def _is_written(name: str) -> bool:
    return _sets().is_written(name)


def _signatures_of(_module: str, _function: str) -> frozenset[str]:
    return frozenset()


@functools.cache
def _sets() -> ReleaseSets:
    return ReleaseSets(table())


@functools.cache
def _versions_by_torch(package: str) -> dict[str, tuple[str, ...]]:
    text = release_data.folder("torches").joinpath(f"{package}.txt").read_text("utf-8")
    return {torch: tuple(words) for torch, *words in map(str.split, text.splitlines())}


@functools.cache
def table() -> MarkTable:
    """Return the data, opened on first use."""
    return MarkTable.of("companions")
