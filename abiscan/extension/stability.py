"""Whether an extension is stable: whether it takes nothing of torch but the C functions of its stable ABI."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from abiscan.binary.elf import Machine, SharedObject
from abiscan.binary.ownership import gpu_library, is_torch_library, is_torch_symbol
from abiscan.extension.counterparts import Counterpart, counterpart
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded, shims

_LOADS_THE_OTHERS: Final = "libtorch.so"  # an empty library that needs the others
_FIRST_PORT: Final = TorchVersion("2.9.0")  # the first release with torch/csrc/stable/ops.h


class Tie(enum.Enum):
    """What an extension takes of torch."""

    STABLE = "stable"
    """Only C functions of the stable ABI, or nothing at all."""

    TIED = "tied"
    """Symbols of C++, which tie it to a few releases."""

    MIXED = "mixed"
    """Both: one symbol of C++ is enough to tie it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """What ties one extension to releases of torch.

    ``minimum`` is the release from which on all its C functions are exported without a break, ``deciding`` are those
    that are new in that release; both matter only if it is stable. ``removed`` are C functions that the newest
    release lacks. ``target_at_least`` is the lowest ``TORCH_TARGET_VERSION`` whose headers declare all of them,
    ``promised_until`` the days on which torch's promise to keep them ends: for the oldest, and for the newest.
    ``unused`` are needed libraries of torch from which it takes nothing. ``cuda`` is the major version of CUDA that it
    is linked with, and ``cuda_releases`` are the releases built for it. ``counterparts`` are the symbols of C++, each
    with what replaces it.
    """

    state: Tie
    minimum: TorchVersion | None
    deciding: tuple[str, ...]
    functions: tuple[str, ...]
    removed: tuple[str, ...]
    deprecated: tuple[str, ...]
    target_at_least: TorchVersion | None
    promised_until: tuple[dt.date, dt.date] | None
    unused: tuple[str, ...]
    cuda: str | None
    cuda_releases: tuple[TorchVersion, ...]
    counterparts: tuple[Counterpart, ...]

    @property
    def after_port(self) -> TorchVersion | None:
        """The first release that a port to the stable ABI would run on; None for what is stable already."""
        if self.state is Tie.STABLE:
            return None
        since = (each.since for each in self.counterparts if each.since)
        return max([_FIRST_PORT, *([self.minimum] if self.minimum else []), *since])


def ties(facts: SharedObject, siblings: Iterable[SharedObject] = ()) -> tuple[str, ...]:
    """The symbols of torch that an extension takes beside the C functions of the stable ABI.

    :param siblings: the libraries that come with it: what they define is not torch's, whatever its name
    """
    beside = tuple(siblings)
    return tuple(
        name
        for name in sorted(facts.imports)
        if is_torch_symbol(name)
        and not (shims.is_shim(name) and _is_of_stable_abi(name, facts.machine))
        and not any(sibling.symbols.find(name) for sibling in beside)
    )


def stability(facts: SharedObject, siblings: Iterable[SharedObject] = ()) -> Stability:
    """What ties an extension to releases of torch."""
    machine = facts.machine
    tied = ties(facts, siblings)
    functions = tuple(
        name for name in sorted(facts.imports) if shims.is_shim(name) and _is_of_stable_abi(name, machine)
    )
    since = {name: shims.exported_since(name, machine) for name in functions}
    known = {name: release for name, release in since.items() if release}
    minimum = max(known.values(), default=None)
    promises = [until for until in map(shims.promised_until, known.values()) if until]
    cuda = next((library.version.partition(".")[0] for library in map(gpu_library, facts.needed) if library), None)
    return Stability(
        state=Tie.STABLE if not tied else Tie.MIXED if functions else Tie.TIED,
        minimum=minimum,
        deciding=tuple(name for name, release in known.items() if release == minimum),
        functions=functions,
        removed=tuple(name for name, release in since.items() if release is None),
        deprecated=tuple(filter(shims.is_deprecated, functions)),
        target_at_least=max(filter(None, map(shims.gate, functions)), default=None),
        promised_until=(min(promises), max(promises)) if promises else None,
        unused=_unused(facts),
        cuda=cuda,
        cuda_releases=tuple(
            release for release, majors in embedded.cuda_majors(machine).items() if cuda is not None and cuda in majors
        ),
        counterparts=tuple(counterpart(name, machine) for name in tied),
    )


def _is_of_stable_abi(name: str, machine: Machine) -> bool:
    """Whether the function is one of the libraries that the stable ABI is in."""
    return any(library != "libtorch_python.so" for library in embedded.libraries_exporting(name, machine))


def _unused(facts: SharedObject) -> tuple[str, ...]:
    """The needed libraries of torch that have never exported anything that the extension imports."""
    used = {library for name in facts.imports for library in embedded.libraries_exporting(name, facts.machine)}
    return tuple(
        library
        for library in facts.needed
        if is_torch_library(library) and library not in used and library != _LOADS_THE_OTHERS
    )
