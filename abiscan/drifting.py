"""How the classes of torch that extensions were compiled with differ from those of a torch."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field

from packaging.version import Version

from abiscan.errors import NotElfError
from abiscan.files import ElfSource, Files
from abiscan.linkage.layout_drift import LayoutDrift, Shared, layout_drift
from abiscan.linkage.model import Resolution
from abiscan.linkage.registering import Registering
from abiscan.ownership import is_torch_symbol
from abiscan.releases.model import TorchRelease
from abiscan.sources import Extension, Target
from abiscan.typeinfo import CxxClass, classes


@dataclass(slots=True, kw_only=True)
class Drifts:
    """Compares layouts, extension by extension."""

    files: Files
    _candidates: dict[str, tuple[Version, ...]] = field(default_factory=dict)

    def of(
        self,
        target: Target,
        extension: Extension,
        resolution: Resolution,
        registering: Registering | None,
        release: TorchRelease,
    ) -> tuple[LayoutDrift, ...]:
        """What differs for an extension and for the libraries it brings along; nothing if the load ends before."""
        if resolution.error is not None or release.version is None:
            return ()
        shared = self._shared(target, extension, resolution, registering)
        found = (layout_drift(each, release.version) for each in shared)
        return tuple(each for each in found if each is not None)

    def _shared(
        self, target: Target, extension: Extension, resolution: Resolution, registering: Registering | None
    ) -> Iterator[Shared]:
        if not any(name.startswith("_Z") and is_torch_symbol(name) for name in extension.facts.imports):
            return  # the stable ABI, or nothing of torch
        candidates = registering.built_for if registering else self._built_for(target)
        for module in resolution.closure.new:
            source = self.files.source(module.path)
            if registering is None or module.facts is None or source is None or module.name not in registering.brought:
                continue
            yield Shared(
                name=module.name,
                facts=module.facts,
                classes=_classes(source),
                registrations=registering.brought[module.name],
                candidates=candidates,
            )
        yield Shared(
            name=posixpath.basename(extension.path),
            facts=extension.facts,
            classes=_classes(extension.source),
            registrations=registering.own if registering else None,
            candidates=candidates,
        )

    def _built_for(self, target: Target) -> tuple[Version, ...]:
        if target.name not in self._candidates:
            from abiscan.inventory import candidates  # noqa: PLC0415 - brings the emulator, which is not needed here

            self._candidates[target.name] = candidates(target)
        return self._candidates[target.name]


def _classes(source: ElfSource) -> tuple[CxxClass, ...]:
    try:
        return classes(source.open())
    except NotElfError:
        return ()  # damaged where no loader looks
