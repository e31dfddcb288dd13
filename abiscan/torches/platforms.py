"""The platforms that a torch is looked for on: Linux on a machine, or Windows and macOS.

Here it is decided, once, which embedded releases and which builds of them are for a platform.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.errors import InputError
from abiscan.inputs import system
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded, torch_images
from abiscan.torches.torch import ReleaseNumber

if TYPE_CHECKING:
    from abiscan.index.system import System


class TorchPlatform(Protocol):
    """A platform of torch, with what differs in what is embedded for it."""

    def releases(self) -> tuple[TorchVersion, ...]:
        """Return the embedded releases, oldest first."""

    def build_of(self, number: str, cuda: str | None = None) -> ReleaseNumber:
        """Return the build of a release for a CUDA, or the default one: that of the public index.

        :param cuda: ``12.6``, or ``cpu``
        :raises InputError: there is no such build
        """

    def find_build(self, version: TorchVersion, *, cuda: bool) -> str | None:
        """Return the embedded build that an index has as a version, by its full version; None if there is none.

        :param cuda: whether what the index has is for CUDA, if the version does not say it
        """

    def require_releases(self, platform: str) -> None:
        """Raise if nothing is embedded that an index for the platform may have.

        :param platform: its tag, ``win_amd64``
        :raises InputError: there is nothing
        """


def platform_of(system: System) -> TorchPlatform:
    """Return the platform of torch that an index is asked for."""
    return LinuxPlatform(system.machine) if system.images is None else ImagePlatform(*system.images)


def own_platform() -> TorchPlatform:
    """Return the platform that abiscan runs on."""
    images = system.own_image_system()
    return LinuxPlatform(system.own_machine()) if images is None else ImagePlatform(*images)


def local_tag(cuda: str) -> str:
    """Return the local tag of the builds for a CUDA, ``12.6``, or for ``cpu``."""
    return cuda if cuda == "cpu" else f"cu{cuda.replace('.', '')}"


class LinuxPlatform(Struct, frozen=True):
    """Linux, for which all builds of a release are embedded.

    :ivar machine: None if torch has no builds for it
    """

    machine: Machine | None

    def releases(self) -> tuple[TorchVersion, ...]:
        """Return the embedded releases, oldest first."""
        return embedded.versions(self.machine) if self.machine else ()

    def build_of(self, number: str, cuda: str | None = None) -> ReleaseNumber:
        """Return the build of a release for a CUDA; by default one with CUDA, if there is one."""
        builds = self._builds_of(TorchVersion.parse(number))
        if cuda is None:
            return ReleaseNumber(next((build for build in builds if "+cu" in build), number))
        build = f"{number}+{local_tag(cuda)}"
        if build not in builds:
            raise InputError(build, "is not a known build", f"known are {', '.join(builds) or 'none'}")
        return ReleaseNumber(build)

    def find_build(self, version: TorchVersion, *, cuda: bool) -> str | None:
        """Return the embedded build that an index has as a version."""
        builds = self._builds_of(version.of_release)
        if version.local:
            return next((build for build in builds if TorchVersion(build) == version), None)
        return next((build for build in builds if ("+cu" in build) == cuda), None)

    def require_releases(self, platform: str) -> None:
        """Raise nothing: the releases of Linux are all embedded."""

    def _builds_of(self, release: TorchVersion | None) -> list[str]:
        return [
            build for version, machine, build in embedded.builds() if version == release and machine is self.machine
        ]


class ImagePlatform(Struct, frozen=True):
    """Windows or macOS, for which one build of the newest releases is embedded."""

    system: ImageSystem
    machine: Machine

    def releases(self) -> tuple[TorchVersion, ...]:
        """Return the embedded releases, oldest first."""
        return torch_images.releases(self.system, self.machine)

    def build_of(self, number: str, cuda: str | None = None) -> ReleaseNumber:
        """Return the build of a release for a CUDA, which is looked up only when it is opened."""
        return ReleaseNumber(f"{number}+{local_tag(cuda)}" if cuda else number)

    def find_build(self, version: TorchVersion, *, cuda: bool) -> str | None:  # noqa: ARG002 - there is one build
        """Return the embedded build that an index has as a version."""
        builds = torch_images.builds(self.system, self.machine)
        return next((str(build) for build in builds if version in (build, build.of_release)), None)

    def require_releases(self, platform: str) -> None:
        """Raise: only the newest releases are embedded, and the index may have older ones."""
        problem = f"no release of torch for {self.system.value} on {self.machine.value} is embedded and on the index"
        raise InputError(platform, problem, "pass the wheel of a torch with --torch")
