"""What a lock says, whichever tool has written it."""

from __future__ import annotations

import contextlib
import enum
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct
from packaging.markers import Marker
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from abiscan.errors import InputError
from abiscan.index.hashes import sound_hash
from abiscan.index.system import System
from abiscan.inputs.requirement import unreadable_requirement
from abiscan.inputs.variants import variant_label
from abiscan.regex import regex

MOST_PACKAGES: Final = 20_000
"""More entries than any project has; what has more is damaged, or meant to keep us busy."""

_LONGEST_MARKER: Final = 20_000
_LAST_PATCH: Final = 99
_LOCK_MARKER: Final = regex(r"\b(?:extras|dependency_groups)\b")


class LockedFile(Struct, frozen=True, kw_only=True):
    """A file of a package, as a lock names it.

    :ivar name: of the wheel, or of the archive of source code
    :ivar url: None for one on this machine
    :ivar path: on this machine, None for one on a server
    :ivar sha256: None if the lock does not state it
    """

    name: str
    url: str | None = None
    path: str | None = None
    sha256: str | None = None
    size: int | None = None


class FromWhere(enum.Enum):
    """Where a package in a lock comes from."""

    INDEX = "an index"
    DIRECT = "an address"
    SOURCE_TREE = "source code"
    CONDA = "a channel of conda"


class LockedPackage(Struct, frozen=True, kw_only=True):
    """A package in a lock, as one environment has it.

    :ivar name: its canonical name
    :ivar files: its wheels, or conda packages; empty if the lock names none, so that an index has to be asked
    :ivar sources: its archives of source code
    :ivar hashes: the SHA-256 that a file from an index may have; empty if any will do
    :ivar index: the address of the index that it comes from, None for that of the settings
    :ivar requires: the names of what it requires here; None if the lock does not say it
    """

    name: str
    version: str | None
    files: tuple[LockedFile, ...] = ()
    sources: tuple[LockedFile, ...] = ()
    hashes: frozenset[str] = frozenset()
    index: str | None = None
    requires: tuple[str, ...] | None = None
    origin: FromWhere = FromWhere.INDEX

    def __str__(self) -> str:
        return f"{self.name}=={self.version}" if self.version else self.name

    def choose_file(self, system: System) -> LockedFile | None:
        """Return the file that an installer takes on a system, None if none is for it."""
        if self.origin is FromWhere.CONDA:
            return self.files[0]
        fitting = [(rank, file) for file in self.files if (rank := rank_wheel(file.name, system)) is not None]
        return min(fitting, key=lambda pair: pair[0])[1] if fitting else None


class ProjectPart(Struct, frozen=True, kw_only=True):
    """What of a project is asked for, in the words of uv.

    :ivar extras: the names after ``--extra``
    :ivar groups: the names after ``--group``
    :ivar dev: whether the groups count that are installed by default
    """

    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    dev: bool = True


class Lock(Protocol):
    """A lock that was read."""

    @property
    def path(self) -> Path:
        """Its file."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is installed but what is in it."""

    def admits(self, system: System) -> bool:
        """Whether it is for a system, as far as it says."""

    def select(self, system: System, selection: ProjectPart) -> tuple[LockedPackage, ...]:
        """Return what is installed on a system.

        :raises InputError: it contradicts itself, or lacks an extra or a group that is asked for
        """

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that it is for, as ``System.of`` takes them; empty if it does not name any."""

    @property
    def tool(self) -> str:
        """The tool that writes such locks."""

    @property
    def registries(self) -> tuple[str, ...]:
        """The addresses of indexes and the folders that its packages come from, the most frequent first; empty if they
        are those of the settings.
        """

    @property
    def extras(self) -> tuple[str, ...]:
        """The extras of the project."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of the project."""

    @property
    def defaults(self) -> tuple[str, ...]:
        """The groups that are installed if nobody asks."""


@contextlib.contextmanager
def understood(path: Path) -> Iterator[None]:
    """Reject a lock that is not what its tool writes, wherever that shows.

    :raises InputError: what is raised in the meantime says so
    """
    try:
        yield
    except (TypeError, AttributeError, LookupError, ValueError, RecursionError) as error:
        problem = f"is not what its tool writes: {type(error).__name__}: {error}"
        raise InputError(str(path), problem, "lock the project again") from error


def rank_wheel(name: str, system: System) -> tuple[int, int] | None:
    """Return how well a wheel fits a system, the lowest the best; None if it does not."""
    if variant_label(name):  # no released installer takes one
        return None
    try:
        _, _, build, tags = parse_wheel_filename(name)
    except (InvalidWheelFilename, InvalidVersion):
        return None
    ranks = [system.tags[tag] for tag in tags if tag in system.tags]
    return (min(ranks), -(build[0] if build else 0)) if ranks else None


def markers_for(system: System) -> dict[str, str]:
    """Return what markers are evaluated in: the last patch of a Python, since markers tell its first ones apart."""
    return {**system.environment, "python_full_version": f"{system.environment['python_version']}.{_LAST_PATCH}"}


@functools.lru_cache(maxsize=10_000)
def _parse_marker(text: str) -> Marker:
    return Marker(text)


def _unreadable() -> tuple[type[Exception], ...]:
    """Return what reading a marker and evaluating it may raise."""
    return *unreadable_requirement(), ValueError, KeyError, TypeError


def applies(marker: object, environment: Mapping[str, str], subject: str) -> bool:
    """Whether a marker is true in an environment; no marker is.

    :raises InputError: it cannot be read
    """
    if marker is None:
        return True
    try:
        # A text that is too long is cut off, and cannot be read then.
        return _parse_marker(str(marker)[:_LONGEST_MARKER]).evaluate(dict(environment))
    except _unreadable() as error:
        shown = str(marker)[:80]
        raise InputError(subject, f"has a marker that cannot be read: {shown!r}", "lock the project again") from error


def applies_in_lock(
    marker: str | None, environment: Mapping[str, str], subject: str, extras: Sequence[str], groups: Sequence[str]
) -> bool:
    """Whether a marker is true that may name extras and groups: ``'cpu' in extras`` (PEP 751), ``extra == 'cpu'``.

    :raises InputError: it cannot be read
    """
    if marker is None:
        return True
    if not _LOCK_MARKER.search(marker):
        return any(applies(marker, {**environment, "extra": extra}, subject) for extra in extras or ("",))
    try:
        names = {"extras": frozenset(extras), "dependency_groups": frozenset(groups)}
        return _parse_marker(marker).evaluate({**environment, **names}, context="lock_file")
    except _unreadable() as error:
        raise InputError(
            subject, f"has a marker that cannot be read: {marker[:80]!r}", "lock the project again"
        ) from error


def sound_version(text: object, subject: str) -> str | None:
    """Return a version as a lock has it.

    :raises InputError: it is none
    """
    if text is None:
        return None
    try:
        return str(Version(str(text)))
    except InvalidVersion as error:
        raise InputError(subject, f"has an invalid version: {str(text)[:80]!r}", "lock the project again") from error


def sound_name(text: object, subject: str) -> str:
    """Return the canonical name of a package as a lock has it.

    :raises InputError: it is none
    """
    if not isinstance(text, str) or not text:
        raise InputError(subject, f"has an entry without a name: {str(text)[:80]!r}", "lock the project again")
    return canonicalize_name(text)


def stated_hash(text: object, subject: str) -> str | None:
    """Return the SHA-256 that a lock states for a file; None if it states none, or a hash of another kind.

    :raises InputError: it is one that no file has
    """
    kind, _, digits = str(text or "").rpartition(":")
    if not digits or kind not in ("", "sha256"):
        return None
    digest = sound_hash(digits)
    if digest is None:
        raise InputError(subject, f"has a SHA-256 that no file has: {digits[:80]!r}", "lock the project again")
    return digest


def require_few(packages: Sequence[object], subject: str) -> None:
    """Reject a lock that no tool has written.

    :raises InputError: it has more entries than any project
    """
    if len(packages) > MOST_PACKAGES:
        problem = f"has {len(packages):,} packages, more than {MOST_PACKAGES:,}"
        raise InputError(subject, problem, "no project has as many; the lock is damaged or malicious")


def require_names(asked: Sequence[str], known: Sequence[str], kind: str, subject: str) -> None:
    """Reject an extra or a group that a lock does not have.

    :param kind: ``extra`` or ``group``
    :raises InputError: it has none of that name
    """
    canonical = {canonicalize_name(name) for name in known}
    for name in asked:
        if canonicalize_name(name) not in canonical:
            there = f"there are {', '.join(sorted(known))}" if known else "there are none"
            raise InputError(subject, f"has no {kind} {name}", there)
