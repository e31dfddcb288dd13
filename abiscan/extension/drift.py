"""How the classes of torch that extensions were compiled with differ from those of a torch."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from abiscan.binary.elf import SharedObject
from abiscan.binary.ownership import is_torch_symbol
from abiscan.binary.typeinfo import CxxClass, classes
from abiscan.errors import NotElfError
from abiscan.extension.built_for import Origins
from abiscan.inputs.files import ElfSource, Files
from abiscan.inputs.sources import Extension, Target
from abiscan.linkage.layout_drift import LayoutDrift, Shared, layout_drift, shared
from abiscan.linkage.model import Resolution
from abiscan.linkage.registering import Registering


class Drifts:
    """Compares layouts, torch by torch; what is shared is read once.

    :param origins: what the extensions were built for
    """

    def __init__(self, origins: Origins) -> None:
        self._origins = origins
        self._shared: dict[tuple[str, str], Shared] = {}

    def of(
        self,
        files: Files,
        target: Target,
        extension: Extension,
        resolution: Resolution,
        registering: Registering | None,
        torch: str,
    ) -> tuple[LayoutDrift, ...]:
        """What differs for an extension and for the libraries it brings along.

        :param torch: the number of the release that they are loaded into
        """
        objects = self._objects(files, target, extension, resolution, registering)
        found = (layout_drift(each, torch) for each in objects)
        return tuple(each for each in found if each is not None)

    def _objects(
        self,
        files: Files,
        target: Target,
        extension: Extension,
        resolution: Resolution,
        registering: Registering | None,
    ) -> Iterator[Shared]:
        if not _uses_cxx(extension.facts):
            return
        origin = registering.built_for if registering else self._origins.of(target, extension).releases
        for module in resolution.closure.new if registering else ():
            source = files.source(module.path)
            registrations = registering.brought.get(module.name) if registering else None
            if registrations is None or module.facts is None or source is None:
                continue
            key = target.name, module.path
            if key not in self._shared:
                self._shared[key] = shared(module.name, module.facts, _classes(source), registrations, origin)
            yield self._shared[key]
        key = target.name, extension.location
        if key not in self._shared:
            own, name = registering.own if registering else None, posixpath.basename(extension.path)
            self._shared[key] = shared(name, extension.facts, _classes(extension.source), own, origin)
        yield self._shared[key]


def _uses_cxx(facts: SharedObject) -> bool:
    """Whether an object uses anything of torch but C functions, which share no class."""
    return any(name.startswith("_Z") and is_torch_symbol(name) for name in facts.imports)


def _classes(source: ElfSource) -> tuple[CxxClass, ...]:
    try:
        return classes(source.open())
    except NotElfError:
        return ()  # damaged where no loader looks
