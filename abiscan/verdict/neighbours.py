"""Libraries of other packages that an extension needs, which the Python code of those packages loads before it."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from abiscan.errors import InputError
from abiscan.inputs import packages
from abiscan.inputs.files import Files
from abiscan.inputs.sources import Source, library_paths
from abiscan.regex import regex
from abiscan.torches.torch import Torch

# torch alone decides whether these are loaded: its own libraries know where they are.
_TORCH_PACKAGES: Final = regex(r"torch$|(nvidia|cuda)-")


class OtherPackages:
    """The libraries that the targets of one command and the packages installed alongside a torch bring.

    :param sources: the targets
    :param files: what they were read from
    """

    def __init__(self, sources: Sequence[Source], files: Files, torch: Torch) -> None:
        self._sources = sources
        self._files = files
        self._torch = torch

    def find(self, name: str) -> Iterator[str]:
        """Yield the paths of the libraries that go by a name, those of the targets first."""
        # Targets of the command go first: they are about to be installed, perhaps in place of what is there.
        yield from self._given.get(name, ())
        yield from self._installed.get(name, ())

    @functools.cached_property
    def _given(self) -> dict[str, list[str]]:
        if len(self._sources) < 2:
            return {}  # what a target brings itself is found before all else
        site = posixpath.dirname(self._torch.package)
        results: dict[str, list[str]] = {}
        for path in (path for source in self._sources for path in self._library_paths(source, site)):
            # A target that cannot be read is no gap of another one, unless that needs it, and reads it.
            facts = self._files.object_at(path, remember=False)
            for name in {posixpath.basename(path), (facts and facts.soname) or posixpath.basename(path)}:
                results.setdefault(name, []).append(path)
        return results

    def _library_paths(self, source: Source, site: str) -> list[str]:
        try:
            return library_paths(source, self._files, site)
        except InputError:
            return []  # it is a target, too: its own turn says what is wrong with it

    @functools.cached_property
    def _installed(self) -> dict[str, list[str]]:
        """The libraries of the environment, by base name: to read the soname of each would take too long."""
        if not self._torch.here:
            return {}
        interpreter = self._torch.interpreter
        over = (interpreter.over,) if interpreter is not None and interpreter.over else ()
        folders = (*over, posixpath.dirname(self._torch.package))
        kept = (item for item in packages.list_installed(folders) if not _TORCH_PACKAGES.match(item.name))
        return _by_name(path for distribution in kept for path in distribution.objects)


def _by_name(paths: Iterable[str]) -> dict[str, list[str]]:
    results: dict[str, list[str]] = {}
    for path in paths:
        results.setdefault(posixpath.basename(path), []).append(path)
    return results
