"""The torch classes that an extension was compiled with, compared with those of the torch it is loaded into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from abiscan.binary.elf import SharedObject
from abiscan.binary.ownership import is_torch_symbol
from abiscan.binary.typeinfo import CxxClass, classes
from abiscan.errors import NotElfError
from abiscan.extension.examined import ExaminedExtension
from abiscan.inputs.files import ElfSource, Files
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.layout_drift import LayoutDrift, SharedClasses, collect_shared, compare_layouts
from abiscan.linkage.model import Resolution
from abiscan.linkage.registering import Registering
from abiscan.torches import embedded, string_abi
from abiscan.torches.headers import lines_of, releases_asserting
from abiscan.torches.torch_layouts import TorchLayouts


def find_drifts(
    examined: ExaminedExtension,
    files: Files,
    resolution: Resolution,
    registering: Registering | None,
    torch: TorchLayouts,
) -> tuple[LayoutDrift, ...]:
    """Find the layout differences that affect an extension and the libraries it brings along.

    :param registering: how the torch reacts to their registrations, None if there are none
    :param torch: the layouts of the torch that they are loaded into
    """
    # Built from the very headers of this torch: there is nothing to compare.
    if _is_built_for(examined, torch):
        return ()
    compared = (
        compare_layouts(shared_types, torch)
        for shared_types in _shared_by_objects(examined, files, resolution, registering)
    )
    return tuple(drift for drift in compared if drift is not None)


def _is_built_for(examined: ExaminedExtension, torch: TorchLayouts) -> bool:
    """Tell whether an extension inlines more of the assertions in a torch's own headers than in those of any release.

    If as many are in those of a release, the ``std::string`` tells them apart: that of Debian's torch 1.13.1 is another
    one than that of the package index.
    """
    own, inlined = 0, Counter[TorchVersion]()
    for place in examined.extension.assertions if torch.assertions else ():
        own += any(line in torch.assertions for line in lines_of(place))
        releases = releases_asserting(place)
        inlined.update(releases[1] if releases else ())
    most, cxx11 = max(inlined.values(), default=0), string_abi.of_names(examined.facts.imports)
    # The releases with as many assertions whose std::string is that of the extension.
    alike = (
        count
        for release, count in inlined.items()
        if embedded.uses_cxx11_strings(str(release), examined.facts.machine) is cxx11
    )
    return own > most or (own == most and cxx11 is not None and cxx11 is torch.cxx11 and own > max(alike, default=0))


def _shared_by_objects(
    examined: ExaminedExtension, files: Files, resolution: Resolution, registering: Registering | None
) -> Iterator[SharedClasses]:
    """Yield the classes that each object shares with torch; they are read once for all torches."""
    if not _uses_cxx(examined.facts):
        return
    origin = registering.built_for if registering else examined.owner.origins[examined.path].releases
    shared_types = examined.shared_types
    # Libraries count if they register something: others pass no object to torch while they are loaded.
    for module in resolution.closure.new if registering else ():
        source = files.find_source(module.path)
        registrations = registering.bundled.get(module.name) if registering else None
        if registrations is None or module.facts is None or source is None:
            continue
        if module.path not in shared_types:
            shared_types[module.path] = collect_shared(
                module.name, module.facts, _read_classes(source), registrations, origin
            )
        yield shared_types[module.path]
    location = examined.extension.location
    if location not in shared_types:
        own = registering.own if registering else None
        shared_types[location] = collect_shared(
            examined.name, examined.facts, _read_classes(examined.extension.source), own, origin
        )
    yield shared_types[location]


def _uses_cxx(facts: SharedObject) -> bool:
    """Tell whether an object uses anything of torch but C functions, which share no class."""
    return any(name.startswith("_Z") and is_torch_symbol(name) for name in facts.imports)


def _read_classes(source: ElfSource) -> tuple[CxxClass, ...]:
    """Read the classes in the type information of a file."""
    try:
        return classes(source.open_elf())
    except NotElfError:
        return ()  # damaged in a part that the loader does not read
