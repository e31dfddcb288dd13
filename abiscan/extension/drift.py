"""How the classes of torch that an extension was compiled with differ from those of the torch at hand."""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.binary.elf import SharedObject
from abiscan.binary.ownership import is_torch_symbol
from abiscan.binary.typeinfo import CxxClass, classes
from abiscan.errors import NotElfError
from abiscan.extension.examined import ExaminedExtension
from abiscan.inputs.files import ElfSource, Files
from abiscan.linkage.layout_drift import LayoutDrift, Shared, layout_drift, shared
from abiscan.linkage.model import Resolution
from abiscan.linkage.registering import Registering


def drifts(
    examined: ExaminedExtension, files: Files, resolution: Resolution, registering: Registering | None, torch: str
) -> tuple[LayoutDrift, ...]:
    """What differs for an extension and for the libraries it brings along.

    :param registering: what the torch does about their registrations, None where there are none
    :param torch: the number of the release that they are loaded into
    """
    found = (layout_drift(each, torch) for each in _objects(examined, files, resolution, registering))
    return tuple(each for each in found if each is not None)


def _objects(
    examined: ExaminedExtension, files: Files, resolution: Resolution, registering: Registering | None
) -> Iterator[Shared]:
    """What each object shares with torch; read once for all torches."""
    if not _uses_cxx(examined.facts):
        return
    origin = registering.built_for if registering else examined.origin.releases
    known = examined.shared_types
    for module in resolution.closure.new if registering else ():
        source = files.source(module.path)
        registrations = registering.brought.get(module.name) if registering else None
        if registrations is None or module.facts is None or source is None:
            continue
        if module.path not in known:
            known[module.path] = shared(module.name, module.facts, _classes(source), registrations, origin)
        yield known[module.path]
    location = examined.extension.location
    if location not in known:
        own = registering.own if registering else None
        known[location] = shared(examined.name, examined.facts, _classes(examined.extension.source), own, origin)
    yield known[location]


def _uses_cxx(facts: SharedObject) -> bool:
    """Whether an object uses anything of torch but C functions, which share no class."""
    return any(name.startswith("_Z") and is_torch_symbol(name) for name in facts.imports)


def _classes(source: ElfSource) -> tuple[CxxClass, ...]:
    try:
        return classes(source.open())
    except NotElfError:
        return ()  # damaged where no loader looks
