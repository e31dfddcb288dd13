"""The result of ``abiscan fit``: versions that work together. Its JSON Schema is ``schema/fit-v1.json``."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from abiscan.inputs.addresses import format_command
from abiscan.results.document import Document, JsonObject
from abiscan.results.fields import Count


class Rejected(Struct, frozen=True, kw_only=True):
    """A newer version, and why it does not work."""

    version: str
    reason: str


class Fitting(Struct, frozen=True, kw_only=True):
    """The version of a package that was found.

    :ivar note: what it goes on without, or what could not be checked
    :ivar proven: false if a part of it could not be checked; note says which
    :ivar rejected: the newer versions, newest first
    :ivar variant: the variant of its wheel, which only an installer chooses that knows variants
    """

    name: str
    version: str
    note: str | None = None
    proven: bool = True
    rejected: Sequence[Rejected] = ()
    variant: str | None = None


class PublishedElsewhere(Struct, frozen=True, kw_only=True):
    """Where a project publishes builds that are not on the index.

    :ivar page: for people
    :ivar command: what to type to look there
    """

    name: str
    page: str
    command: str

    def __str__(self) -> str:
        return f"builds of {self.name} are published at {self.page}; type: {self.command}"


class FitReportJson(JsonObject, frozen=True, kw_only=True):
    """The document of ``abiscan fit``."""

    torch: str | None
    packages: Sequence[Fitting]
    obstacle: str | None
    torch_instead: str | None
    command: str | None
    elsewhere: Sequence[PublishedElsewhere]
    bytes_read: Count


class FitReport(Document, frozen=True, kw_only=True):
    """What was found.

    :ivar torch: the full version of the torch that the versions work with
    :ivar packages: empty if nothing fits
    :ivar obstacle: what stands in the way if nothing fits
    :ivar torch_instead: if nothing fits, another torch that the packages have versions for
    :ivar elsewhere: if nothing fits, where packages have builds that are not on the index
    :ivar bytes_read: what was received from the indexes
    :ivar installed: whether that torch is already there
    :ivar options: those that pip needs to find the same versions
    """

    torch: str | None
    installed: bool
    packages: Sequence[Fitting] = ()
    obstacle: str | None = None
    torch_instead: str | None = None
    options: Sequence[str] = ()
    elsewhere: Sequence[PublishedElsewhere] = ()
    bytes_read: int = 0

    def _contents(self) -> FitReportJson:
        return FitReportJson.of(self)

    @property
    def pins(self) -> tuple[str, ...]:
        """The packages as requirements; with torch, unless it is already there."""
        if not self.packages:
            return ()
        # The local tag names a build, and no index of packages by that name has it: pip would find nothing.
        torch = () if self.installed or self.torch is None else (f"torch=={self.torch.partition('+')[0]}",)
        return (*torch, *(f"{package.name}=={package.version}" for package in self.packages))

    @property
    def command(self) -> str | None:
        """The command to type, without the passwords of its addresses."""
        return format_command(["pip", "install", *self.options, *self.pins]) if self.packages else None

    @property
    def exit_code(self) -> int:
        """0: found; 1: nothing fits."""
        return 0 if self.packages else 1

    def to_requirements(self) -> str:
        """Return the versions as a file of requirements."""
        torch = f"# with torch {self.torch}\n" if self.torch else ""
        return torch + "".join(f"{pin}\n" for pin in self.pins)
