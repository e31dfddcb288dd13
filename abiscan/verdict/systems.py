"""The systems that targets are for: Linux, or Windows and macOS.

Here it is decided, once, for which of them a target, a torch or this machine is, and what differs then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from abiscan.binary.elf import Machine
from abiscan.extension.built_for import releases_exporting_imports
from abiscan.extension.examined import ExaminedTarget
from abiscan.findings import Rule
from abiscan.inputs import sources, system
from abiscan.inputs.files import Files
from abiscan.inputs.image_files import main_image
from abiscan.inputs.package_files import Package
from abiscan.inputs.packages import Distribution
from abiscan.inputs.sources import Target
from abiscan.inputs.version import TorchVersion
from abiscan.python.package.systems import LINUX, PythonSystem
from abiscan.results.check import Result
from abiscan.torches import embedded
from abiscan.torches.torch import EmbeddedTorch, Torch

if TYPE_CHECKING:
    from abiscan.verdict.image_world import ImageWorld

Layouts: TypeAlias = Callable[[], Mapping[str, Mapping[str, str]]]
"""Finds, by extension and release, which class it cannot share with that torch."""


class TargetSystem(Protocol):
    """A kind of system, with what differs for targets that are for it."""

    def python(self, target: Target) -> PythonSystem:
        """Return the system as Python code sees it."""

    def check_images(self, target: Target, torch: Torch, rules: Sequence[Rule]) -> tuple[Result, ...] | None:
        """Return the results for the images of a target; None where its libraries are extensions, which are linked.

        :raises InputError: the torch does not exist for the system
        """

    def is_embedded(self, torch: EmbeddedTorch, target: Target, has_build: Callable[[Machine], bool]) -> bool:
        """Whether an embedded torch exists for the target, or needs not to.

        :param has_build: whether it exists for Linux on a machine
        """

    def image_world(self, torch: Torch, target: Target, package: Package) -> ImageWorld | None:
        """Return the process that imports a package with images; None where its libraries are extensions."""

    def relied_on(self, target: ExaminedTarget, torch: Torch, find_layouts: Layouts) -> dict[str, Any]:
        """Return what the libraries of a target need from the torch that they were built for, for its stamp.

        :raises InputError: the torch is for another system
        """

    def builds_for(self, target: Target) -> tuple[tuple[TorchVersion, str], ...]:
        """Return the embedded builds that have what a target imports, as far as that is known, with their releases."""

    def machine(self, target: Target) -> str | None:
        """Return what the libraries of a target are built for: ``aarch64``, ``Windows on x86_64``.

        None for Linux if it has none, or libraries for several machines.
        """

    def describe_platform(self, target: Target) -> str:
        """Return what a target is built for, in words of a message."""

    def uses_torch(self, distribution: Distribution, files: Files) -> bool:
        """Whether an installed package has an extension of torch for the system."""


def system_of(target: Target) -> TargetSystem:
    """Return the system that a target is for; Linux, if it has no library."""
    return _IMAGES if target.images else _LINUX


def own_system() -> TargetSystem:
    """Return the system that abiscan runs on."""
    return _IMAGES if system.own_image_system() else _LINUX


class _Linux:
    """Linux: extensions are emulated, linked and checked by all rules."""

    def python(self, _target: Target) -> PythonSystem:
        return LINUX

    def check_images(self, _target: Target, _torch: Torch, _rules: Sequence[Rule]) -> None:
        return None

    def is_embedded(self, _torch: EmbeddedTorch, target: Target, has_build: Callable[[Machine], bool]) -> bool:
        machines = {extension.facts.machine for extension in target.extensions}
        return not machines or any(map(has_build, machines))

    def image_world(self, _torch: Torch, _target: Target, _package: Package) -> None:
        return None

    def relied_on(self, target: ExaminedTarget, torch: Torch, find_layouts: Layouts) -> dict[str, Any]:
        from abiscan.verdict.reliance import relied_on_by_extensions

        return relied_on_by_extensions(target, torch.for_linux(), find_layouts)

    def builds_for(self, target: Target) -> tuple[tuple[TorchVersion, str], ...]:
        # Python code alone is for the machine at hand, if abiscan knows it.
        here = system.own_machine()
        machines = {extension.facts.machine for extension in target.extensions} or ({here} if here else set())
        if len(machines) != 1:
            return ()
        (machine,) = machines
        releases = releases_exporting_imports(target.extensions) if target.extensions else embedded.versions(machine)
        return tuple(
            (release, build)
            for release, build_machine, build in embedded.builds()
            if build_machine is machine and release in releases
        )

    def machine(self, target: Target) -> str | None:
        machines = {library.facts.machine.value for library in (*target.extensions, *target.libraries.values())}
        return machines.pop() if len(machines) == 1 else None

    def describe_platform(self, target: Target) -> str:
        return target.extensions[0].facts.machine.value

    def uses_torch(self, distribution: Distribution, files: Files) -> bool:
        return sources.uses_torch(distribution, files)


class _Images:
    """Windows and macOS: the imports of images are compared with exports. Targets for Linux do not import it."""

    def python(self, target: Target) -> PythonSystem:
        from abiscan.verdict.image_world import SYSTEMS

        return SYSTEMS[target.images[0].system]

    def check_images(self, target: Target, torch: Torch, rules: Sequence[Rule]) -> tuple[Result, ...]:
        from abiscan.verdict.images import check_images

        return check_images(target, torch, rules)

    def is_embedded(self, torch: EmbeddedTorch, target: Target, _has_build: Callable[[Machine], bool]) -> bool:
        from abiscan.verdict.images import exists_for_images

        return exists_for_images(torch, target)

    def image_world(self, torch: Torch, target: Target, package: Package) -> ImageWorld:
        from abiscan.verdict.image_world import ImageWorld

        return ImageWorld(torch, target, package)

    def relied_on(self, target: ExaminedTarget, torch: Torch, _find_layouts: Layouts) -> dict[str, Any]:
        from abiscan.verdict.reliance import relied_on_by_images

        return relied_on_by_images(target.target, torch)

    def builds_for(self, target: Target) -> tuple[tuple[TorchVersion, str], ...]:
        from abiscan.torches import torch_images

        image = main_image(target.images)
        releases = {release for machine in image.images for release in torch_images.releases(image.system, machine)}
        return tuple((release, str(release)) for release in releases)

    def machine(self, target: Target) -> str:
        image = main_image(target.images)
        return f"{image.system.value} on {' and '.join(machine.value for machine in image.images)}"

    def describe_platform(self, target: Target) -> str:
        # Of the releases for these systems, only the newest are embedded.
        return f"{self.machine(target)} among the embedded ones"

    def uses_torch(self, distribution: Distribution, _files: Files) -> bool:
        return sources.images_use_torch(distribution)


_LINUX: Final = _Linux()
_IMAGES: Final = _Images()
