"""Whether an extension is stable: whether it takes nothing of torch but the C functions of its stable ABI."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from abiscan.binary.elf import Machine, SharedObject
from abiscan.binary.ownership import gpu_library, is_torch_library, is_torch_symbol, without_version
from abiscan.extension.counterparts import Counterpart, find_counterpart
from abiscan.inputs.files import ElfSource
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded, shims

_LOADS_THE_OTHERS: Final = "libtorch.so"  # an empty library that needs the others
_BEGINNINGS: Final = (b"\0aoti_torch_", b"\0torch_")
_LONGEST_NAME: Final = 200
_FIRST_PORT: Final = TorchVersion("2.9.0")  # the first release with torch/csrc/stable/ops.h


class Tie(enum.Enum):
    """What an extension takes of torch."""

    STABLE = "stable"
    """Only C functions of the stable ABI, or nothing at all."""

    TIED = "tied"
    """Symbols of C++, which tie it to a few releases."""

    MIXED = "mixed"
    """Both: one symbol of C++ is enough to tie it."""


class Stability(Struct, frozen=True, kw_only=True):
    """What ties one extension to releases of torch.

    :ivar state: what it takes of torch
    :ivar minimum: the release from which on all its C functions are exported without a break; matters only if it is
        stable
    :ivar rebuilt: the release that the same code would need if it was compiled for an older ``TORCH_TARGET_VERSION``:
        without what only headers take because the target version has it
    :ivar deciding: the C functions that are new in ``minimum``
    :ivar functions: all its C functions
    :ivar looked_up: C functions that it looks for at run time and does without
    :ivar removed: C functions that the newest release lacks
    :ivar deprecated: C functions that are deprecated
    :ivar target_at_least: the lowest target version whose headers declare all of its C functions
    :ivar target_below: the lowest target version with which it would not look for functions at run time
    :ivar promised_until: the days on which torch's promise to keep the functions ends: for the oldest, and for the
        newest
    :ivar unused: needed libraries of torch from which it takes nothing
    :ivar cuda: the major version of CUDA that it is linked with, None if there is none
    :ivar cuda_releases: the releases built for that version
    :ivar counterparts: the symbols of C++, each with what replaces it
    """

    state: Tie
    minimum: TorchVersion | None
    rebuilt: TorchVersion | None
    deciding: tuple[str, ...]
    functions: tuple[str, ...]
    looked_up: tuple[str, ...]
    removed: tuple[str, ...]
    deprecated: tuple[str, ...]
    target_at_least: TorchVersion | None
    target_below: TorchVersion | None
    promised_until: tuple[dt.date, dt.date] | None
    unused: tuple[str, ...]
    cuda: str | None
    cuda_releases: tuple[TorchVersion, ...]
    counterparts: tuple[Counterpart, ...]

    @property
    def after_port(self) -> TorchVersion | None:
        """The first release that a port to the stable ABI would run on; None for what is stable already.

        That is also the target version to compile it for.
        """
        if self.state is Tie.STABLE:
            return None
        since = (symbol.since for symbol in self.counterparts if symbol.since)
        return max([_FIRST_PORT, *([self.rebuilt] if self.rebuilt else []), *since])

    @property
    def port_headers(self) -> TorchVersion | None:
        """The first release whose headers have all that a port would use."""
        headers = (symbol.headers for symbol in self.counterparts if symbol.headers)
        return max([self.after_port, *headers]) if self.after_port else None


def find_ties(facts: SharedObject, siblings: Iterable[SharedObject] = ()) -> tuple[str, ...]:
    """List the symbols of torch that an extension takes besides the C functions of the stable ABI.

    :param siblings: the libraries that come with it: what they define is not torch's, whatever its name
    """
    sibling_facts = tuple(siblings)
    return tuple(
        name
        for name in sorted(facts.imports)
        if is_torch_symbol(name)
        # A C function of libtorch_python is no part of the stable ABI.
        and not (shims.is_shim(name) and _is_of_stable_abi(name, facts.machine))
        and not any(sibling.symbols.find(name) for sibling in sibling_facts)
    )


def find_looked_up(source: ElfSource, facts: SharedObject) -> tuple[str, ...]:
    """List the C functions that an extension looks up by name at run time, so that it does without them.

    Headers from 2.14 on do so for functions that are newer than the target version (``TORCH_DYNAMIC_VERSION_CALL`` in
    ``torch/csrc/stable/macros.h``). Their names are constants of the extension.
    """
    # Without dlsym, names among the constants are texts, and nothing is looked up.
    if "dlsym" not in facts.imports:
        return ()
    file = source.open_elf()
    texts = (
        bytes(file.data[position + 1 : position + _LONGEST_NAME]).partition(b"\0")[0]
        for beginning in _BEGINNINGS
        for position in file.find_in_data(beginning)
    )
    names = {text.decode() for text in texts if text.isascii()}
    return tuple(
        name for name in sorted(names) if name not in facts.imports and shims.exported_since(name, facts.machine)
    )


def describe_stability(
    facts: SharedObject, siblings: Iterable[SharedObject] = (), looked_up: tuple[str, ...] = ()
) -> Stability:
    """Describe what ties an extension to releases of torch.

    :param looked_up: see ``find_looked_up``
    """
    machine = facts.machine
    tied = find_ties(facts, siblings)
    functions = tuple(
        name for name in sorted(facts.imports) if shims.is_shim(name) and _is_of_stable_abi(name, machine)
    )
    since = {name: shims.exported_since(name, machine) for name in functions}
    available_since = {name: release for name, release in since.items() if release}
    minimum = max(available_since.values(), default=None)
    # Functions that only headers call are called because of the target version: an older one would not need them.
    own = [release for name, release in available_since.items() if not shims.taken_by_headers(name)]
    promises = [until for until in map(shims.promised_until, available_since.values()) if until]
    cuda = next((library.version.partition(".")[0] for library in map(gpu_library, facts.needed) if library), None)
    return Stability(
        state=Tie.STABLE if not tied else Tie.MIXED if functions else Tie.TIED,
        minimum=minimum,
        rebuilt=min(minimum, max([_FIRST_PORT, *own])) if minimum else None,
        deciding=tuple(name for name, release in available_since.items() if release == minimum),
        functions=functions,
        looked_up=looked_up,
        removed=tuple(name for name, release in since.items() if release is None),
        deprecated=tuple(filter(shims.is_deprecated, functions)),
        target_at_least=max(filter(None, map(shims.gate_version, functions)), default=None),
        target_below=min(filter(None, map(shims.gate_version, looked_up)), default=None),
        promised_until=(min(promises), max(promises)) if promises else None,
        unused=_unused_libraries(facts),
        cuda=cuda,
        cuda_releases=tuple(
            release for release, majors in embedded.cuda_majors(machine).items() if cuda is not None and cuda in majors
        ),
        counterparts=tuple(find_counterpart(name, machine) for name in tied),
    )


def _is_of_stable_abi(name: str, machine: Machine) -> bool:
    """Tell whether the function is one of the libraries that the stable ABI is in."""
    return any(library != "libtorch_python.so" for library in embedded.libraries_exporting(name, machine))


def _unused_libraries(facts: SharedObject) -> tuple[str, ...]:
    """List the needed libraries of torch that have never exported anything that the extension imports."""
    used = {library for name in facts.imports for library in embedded.libraries_exporting(name, facts.machine)}
    return tuple(
        library
        for library in facts.needed
        if is_torch_library(library) and without_version(library) not in {*used, _LOADS_THE_OTHERS}
    )
