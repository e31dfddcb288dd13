"""A target and its extensions, with everything that is determined once for all torches they are checked on."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from abiscan.binary.elf import Machine, SharedObject
from abiscan.binary.ownership import is_of_gpu_vendor
from abiscan.binary.registration_api import registers_anything
from abiscan.extension.built_for import BuiltFor, infer_built_for
from abiscan.inputs import isolation
from abiscan.inputs.files import ElfSource
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Extension, Source, Target, name_of, read_target
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded

if TYPE_CHECKING:
    from abiscan.cpu.needs import CpuAtLoad, CpuReach
    from abiscan.extension.gpu import ExtensionGpu
    from abiscan.extension.inventory import Inventory
    from abiscan.linkage.layout_drift import SharedClasses
    from abiscan.linkage.model import Module
    from abiscan.registrations import NotRun, Registrations

_WORTH_SPLITTING: Final = 16 << 20
"""The size of extensions, in bytes, from which on their initialisers take longer than starting processes."""


def examine(source: Source, session: Session, *, python: bool = False) -> ExaminedTarget:
    """Read a target that is not installed next to a particular torch.

    :param python: whether it may be a package that is Python code alone
    :raises InputError: it cannot be read, or contains nothing that uses torch
    """
    isolation.begin_target(name_of(source))
    target = read_target(source, session.files(), embedded.SITE, f"{embedded.SITE}/torch")
    if not (python and target.is_python):
        target.require_extensions()
    return ExaminedTarget(target, folder=session.folder)


def is_own_code(target: Target, module: Module) -> bool:
    """Whether code of a target itself runs while a module is loaded: not that of CUDA, and of the system."""
    return (
        module.facts is not None
        and module.facts.initialises
        and target.brings(module.path)
        and not is_of_gpu_vendor(module.name)
    )


class ExaminedTarget:
    """A target, and what is known of its extensions.

    :param target: as it was read next to one torch
    :param twin: the same target next to another torch: what is already known about it is reused
    :param folder: where registrations are kept between runs; None to keep none
    """

    def __init__(self, target: Target, twin: ExaminedTarget | None = None, *, folder: Path | None = None) -> None:
        self.target = target
        self.folder = folder
        twins = {extension.path: extension for extension in twin.extensions} if twin else {}
        self.extensions: tuple[ExaminedExtension, ...] = tuple(
            ExaminedExtension(self, extension, twins.get(extension.path)) for extension in target.extensions
        )
        self._libraries: dict[object, Registrations] = twin._libraries if twin else {}
        self._cpu: dict[object, CpuAtLoad] = twin._cpu if twin else {}
        self._features: dict[Machine, frozenset[str] | None] = twin._features if twin else {}
        self.operator_results: dict[object, int | bool | str | NotRun | None] = twin.operator_results if twin else {}
        """What operators without arguments return: see ``operator_results``."""

    @functools.cached_property
    def origins(self) -> dict[str, BuiltFor]:
        """What each extension was built for, by path, as far as can be inferred without emulating it."""
        return infer_built_for(self.target)

    def recover(self, jobs: int) -> None:
        """Recover what the extensions register with several processes, if there are enough of them.

        Whoever needs it finds it without this, one extension after the other.
        """
        unknown = [extension for extension in self.extensions if extension.needs_recovery]
        if (
            jobs < 2
            or len(unknown) < 2
            or sum(extension_left.extension.source.size for extension_left in unknown) < _WORTH_SPLITTING
        ):
            return
        from abiscan.emulation import prepare
        from abiscan.extension.inventory import recover_registrations
        from abiscan.inputs import branches

        origins = self.origins
        # Before the processes are started, so that they share what is imported and read.
        for machine in {extension.facts.machine for extension in unknown}:
            prepare(machine)

        def recover_one(extension: ExaminedExtension) -> Registrations:
            built_for = origins[extension.path].releases
            return recover_registrations(extension.extension.source, extension.facts, built_for, self.folder)

        for extension, get_result in branches.share_in_order(unknown, recover_one, lambda _: self.target.name, jobs):
            extension.recovered = get_result()

    def registrations_of_library(
        self, identity: object, source: ElfSource, facts: SharedObject, built_for: Sequence[TorchVersion]
    ) -> Registrations:
        """Return what a library that extensions of this target bring along registers.

        :param identity: distinguishes it from other files
        :param built_for: the releases that the extension which brings it along may have been built for
        """
        from abiscan.extension.inventory import argument_tail, recover_registrations

        # Everything that depends on the releases belongs to the key, or the extension that asks first would decide for
        # the others.
        key = identity, argument_tail(built_for, facts.machine)
        if key not in self._libraries:
            self._libraries[key] = recover_registrations(source, facts, built_for, self.folder)
        return self._libraries[key]

    def features_in_code(self, machine: Machine) -> frozenset[str] | None:
        """Return the features that any code of its libraries uses, executed or not; None if that is not known."""
        if machine not in self._features:
            from abiscan.emulation.cpu_reach import features_in

            features: frozenset[str] | None = frozenset()
            for library in self.target.libraries.values():
                if library.facts.machine is machine and features is not None:
                    own = features_in(library.source.open_elf(), machine)
                    features = None if own is None else features | own
            self._features[machine] = features
        return self._features[machine]

    def cpu_of_library(self, identity: object, source: ElfSource, facts: SharedObject) -> CpuAtLoad:
        """Return what a library needs of the processor while it is loaded.

        :param identity: distinguishes it from other files
        """
        if identity not in self._cpu:
            from abiscan.extension.inventory import find_cpu_at_load

            self._cpu[identity] = find_cpu_at_load(source, facts, self.folder)
        return self._cpu[identity]


class ExaminedExtension:
    """One extension of a target, and what is known of it.

    :param twin: the same extension of the same target, next to another torch
    """

    def __init__(self, owner: ExaminedTarget, extension: Extension, twin: ExaminedExtension | None) -> None:
        self.owner = owner
        self.extension = extension
        self._twin = twin
        self._inventory: Inventory | None = None
        self.recovered: Registrations | None = None
        """What it registers, if that was recovered ahead."""
        self._gpu: tuple[ExtensionGpu | None] | tuple[()] = ()  # empty until it is read
        self._operator_needs: dict[str, CpuReach] | None = None
        self.shared_types: dict[str, SharedClasses] = twin.shared_types if twin else {}
        """Which classes it, and each library that it brings along, share with torch, by path: see ``drift``."""

    @property
    def target(self) -> Target:
        """The target that it belongs to."""
        return self.owner.target

    @property
    def path(self) -> str:
        """Its path inside the target."""
        return self.extension.path

    @property
    def name(self) -> str:
        """The base name of its file."""
        return posixpath.basename(self.path)

    @property
    def facts(self) -> SharedObject:
        """The facts read from its ELF file."""
        return self.extension.facts

    @property
    def origin(self) -> BuiltFor:
        """What it was built for: recovers its registrations, which narrow it down."""
        return self.inventory.origin if registers_anything(self.facts.imports) else self.owner.origins[self.path]

    @functools.cached_property
    def called_at_start(self) -> tuple[str, ...]:
        """The imported functions that its static initialisers call for certain, in order: found on first access."""
        from abiscan.extension.inventory import find_called_at_start

        return find_called_at_start(self.extension.source, self.facts, self.owner.folder)

    @property
    def needs_recovery(self) -> bool:
        """Whether it registers anything, and nothing of that is known yet."""
        return self._twin is None and self._inventory is None and registers_anything(self.facts.imports)

    @property
    def gpu(self) -> ExtensionGpu | None:
        """The code for GPUs in it, and which operators launch it: read on first access."""
        if self._twin:
            return self._twin.gpu
        if not self._gpu:
            from abiscan.extension.gpu import LinkedLibrary, read_extension_gpu

            inventory = self.inventory if registers_anything(self.facts.imports) else None
            linked = [
                LinkedLibrary(source=library.source, registrations=functools.partial(self._registrations_of, library))
                for library in self.target.list_linked(self.extension)
            ]
            self._gpu = (read_extension_gpu(self.extension.source, self.facts, inventory, linked),)
        return self._gpu[0]

    @property
    def operator_needs(self) -> dict[str, CpuReach]:
        """What its operators may use of the processor when they are called: read on first access."""
        if self._twin:
            return self._twin.operator_needs
        if self._operator_needs is None:
            from abiscan.extension.operator_needs import find_operator_needs

            kernels = self.inventory.registrations.kernels if registers_anything(self.facts.imports) else ()
            linked = [library.source for library in self.target.list_linked(self.extension)] if kernels else []
            self._operator_needs = find_operator_needs(self.extension.source, self.facts, kernels, linked)
        return self._operator_needs

    def _registrations_of(self, library: Extension) -> Registrations:
        """Return what a library of the same package registers."""
        extensions = (
            examined_extension
            for examined_extension in self.owner.extensions
            if examined_extension.extension.location == library.location
        )
        # A library that is itself an extension of the target is recovered once, as an extension.
        if extension := next(extensions, None):
            return extension.inventory.registrations
        built_for = self.origin.releases
        return self.owner.registrations_of_library(library.location, library.source, library.facts, built_for)

    @property
    def inventory(self) -> Inventory:
        """What it registers: recovered on first access."""
        if self._twin:
            return self._twin.inventory
        if self._inventory is None:
            # The emulator takes longer to import than many checks take.
            from abiscan.extension.inventory import recover_inventory

            origin, folder = self.owner.origins[self.path], self.owner.folder
            self._inventory = recover_inventory(self.extension, origin, folder, self.recovered)
        return self._inventory
