"""Before an install: what will be installed, and whether it will work together.

An installer reports what it would do (``Plan``). From that follows which torch will be installed, and every wheel with
compiled extensions is checked against it before anything is installed.
"""

from __future__ import annotations

import re
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from abiscan.errors import InputError
from abiscan.hooks.judgement import Judgement, fitting, judge
from abiscan.inputs import interpreter, packages, system
from abiscan.inputs.packages import FetchedWheel
from abiscan.inputs.session import Session
from abiscan.inputs.sources import Source, uses_torch
from abiscan.inputs.version import TorchVersion, number_of
from abiscan.torches import embedded
from abiscan.torches.torch import ReleaseNumber, TorchAt, TorchChoice, TorchOf

_PURE: Final = re.compile(r"-none-any\.whl$")
_OF_CUDA: Final = re.compile(r"(nvidia|cuda)-")
# The metadata say what torch requires; some installers do not show them, and these packages have gigabytes.
_OF_TORCH: Final = re.compile(r"(nvidia|cuda)-|(pytorch-)?triton$")
# From this version on, the default CUDA wheels require CUDA from other wheels, which identifies them.
_CUDA_BESIDE: Final = TorchVersion("2.0")
_LARGE: Final = 100 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One package that would be installed.

    ``url`` is the address of its file, with the hash as the fragment; None if only the name is known. ``wheel`` says
    whether the file is a wheel; otherwise, it has to be built first. ``requires`` has the requirements in its metadata,
    if they are known.
    """

    name: str
    version: str
    url: str | None
    wheel: bool
    requires: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an installer would install, and for which interpreter."""

    python: str | None
    packages: tuple[Planned, ...]

    def get(self, name: str) -> Planned | None:
        """The package of that name that would be installed; None if there is none."""
        return next((planned for planned in self.packages if canonicalize_name(planned.name) == name), None)


class Installer(Protocol):
    """pip, or a replacement for it."""

    def plan(self, arguments: Sequence[str], *, silent: bool = False) -> Plan:
        """What ``install`` with these arguments would do.

        :param silent: hide its error messages from the user
        :raises InstallerError: it fails
        """

    def index_options(self, arguments: Sequence[str]) -> list[str]:
        """The arguments that say where packages come from, as pip spells them."""


class InstallerError(Exception):
    """The installer failed, with an exit code.

    :param said: its error output, if the user has not seen it yet
    """

    def __init__(self, code: int, said: str = "") -> None:
        super().__init__(said)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallCheck:
    """Messages for the user, one line each: ``problems`` prevent the install, ``notes`` do not."""

    problems: tuple[str, ...]
    notes: tuple[str, ...]


def check(installer: Installer, arguments: Sequence[str], session: Session) -> InstallCheck:
    """Check what would be installed, before it is installed.

    :param arguments: the arguments of ``install``
    :raises InstallerError: the installer itself fails
    :raises InputError: the interpreter or its torch cannot be read
    """
    session.progress("resolving what would be installed")
    plan = installer.plan(arguments)
    with tempfile.TemporaryDirectory(prefix="abiscan-") as folder:
        inspection = _Inspection(plan, Path(folder), installer.index_options(arguments), installer, session)
        problems = tuple(inspection.problems())
        return InstallCheck(problems=problems, notes=tuple(inspection.notes))


class _Inspection:
    def __init__(
        self,
        plan: Plan,
        folder: Path,
        options: Sequence[str],
        installer: Installer,
        session: Session,
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._options = options
        self._installer = installer
        self._session = session
        self.notes: list[str] = []

    def problems(self) -> Iterator[str]:
        """One line for each package that will not work with the resulting torch."""
        for planned in self._plan.packages:
            if not planned.wheel:
                self.notes.append(f"{planned} is not checked: it will be built from source")
        suspects = [planned for planned in self._plan.packages if self._may_have_extensions(planned)]
        torch = self._plan.get("torch")
        if not suspects and torch is None:
            return
        choice = self._torch(torch)
        if choice is None:
            for planned in suspects:
                if any(_names_torch(text) for text in planned.requires):
                    self.notes.append(f"{planned} is not checked: torch will not be installed")
            return
        build = choice.open(self._session.files(), self._session).build
        # They are installed together, so one may need libraries of another.
        wheels = {planned: wheel for planned in suspects if (wheel := self._downloaded(planned))}
        for planned in wheels:
            yield from self._of_wheel(planned, wheels, choice, build)
        if torch is not None:
            yield from self._of_installed(choice, build)

    def _may_have_extensions(self, planned: Planned) -> bool:
        """Whether a package is a wheel for one kind of machine, and not a dependency of torch itself."""
        name = urllib.parse.urlsplit(planned.url).path if planned.url else ""
        package = canonicalize_name(planned.name)
        return (
            planned.wheel
            and not _PURE.search(name)
            and package not in self._below_torch()
            and not _OF_TORCH.match(package)
        )

    def _below_torch(self) -> set[str]:
        """torch and its dependencies: none of them can depend on torch."""
        names, below = ["torch"], set[str]()
        while names:
            name = names.pop()
            if name not in below:
                below.add(name)
                planned = self._plan.get(name)
                names += [needed for text in planned.requires if (needed := _needed(text))] if planned else []
        return below

    def _torch(self, planned: Planned | None) -> TorchChoice | None:
        """The torch that will be installed afterwards."""
        if planned is None:
            choice = TorchOf(self._plan.python)
            try:
                choice.open(self._session.files(), self._session)
            except InputError:
                return None
            return choice
        if build := _embedded_build(planned):
            return ReleaseNumber(build)
        if not planned.wheel:
            return None
        return TorchAt(self._wheel(planned).path)

    def _wheel(self, planned: Planned) -> FetchedWheel:
        """The file of a package that would be installed, downloaded unless it is local."""
        self._session.progress(f"downloading {planned}")
        if planned.url is None:
            requirement = f"{planned.name}=={planned.version}"
        elif planned.url.startswith("file:"):
            return FetchedWheel(path=Path(urllib.request.url2pathname(urllib.parse.urlsplit(planned.url).path)))
        else:
            requirement = f"{planned.name} @ {planned.url}"
        return FetchedWheel(path=packages.fetch(requirement, self._folder, self._plan.python, self._options))

    def _downloaded(self, planned: Planned) -> FetchedWheel | None:
        """The file of a package, None if it cannot be downloaded."""
        try:
            return self._wheel(planned)
        except InputError as error:
            self.notes.append(f"{planned} is not checked: {error.problem}")
            return None

    def _of_wheel(
        self, planned: Planned, wheels: Mapping[Planned, FetchedWheel], choice: TorchChoice, build: str | None
    ) -> Iterator[str]:
        wheel = wheels[planned]
        try:
            self._session.progress(f"checking {planned}")
            judgement = judge(wheel, choice, self._session, [other for other in wheels.values() if other is not wheel])
        except InputError as error:
            self.notes.append(f"{planned} is not checked: {error.problem}")
            return
        if judgement is None:
            return
        if judgement.is_broken:
            yield _line(str(planned), judgement, build, self._ways_out(planned, wheel, build))
        elif judgement.is_unknown:
            self.notes.append(f"{planned} could not be checked completely: {judgement.error}")

    def _ways_out(self, planned: Planned, wheel: FetchedWheel, build: str | None) -> str:
        self._session.progress(f"looking for a torch that works with {planned}")
        ways = [_fits(wheel, planned.name, planned.version, build, self._session)]
        if build and wheel.path.stat().st_size < _LARGE and (other := self._other(planned, build)):
            ways.append(f"{planned.name} {other} works with torch {build}")
        return "; ".join(filter(None, ways)) or f"use a build of {planned.name} made for this torch"

    def _other(self, planned: Planned, build: str) -> str | None:
        """The version that the installer would choose for this torch, if it works with it."""
        requirements = [planned.name, f"torch=={number_of(build)}"]
        try:
            plan = self._installer.plan([*self._options, *requirements], silent=True)
            other = plan.get(canonicalize_name(planned.name))
            if other is None or not other.wheel or other.version == planned.version:
                return None
            torch = self._torch(plan.get("torch"))
            judgement = judge(self._wheel(other), torch, self._session) if torch else None
        except (InstallerError, InputError):
            return None
        return other.version if judgement and not judgement.is_broken and not judgement.is_unknown else None

    def _of_installed(self, choice: TorchChoice, build: str | None) -> Iterator[str]:
        """Packages that stay installed, but would run with a different torch."""
        files = self._session.files()
        for distribution in packages.installed(interpreter.search_path(self._plan.python)):
            name = canonicalize_name(distribution.name)
            if name == "torch" or self._plan.get(name) is not None or not uses_torch(distribution, files):
                continue
            self._session.progress(f"checking {distribution}")
            judgement = judge(distribution, choice, self._session)
            if judgement is not None and judgement.is_broken:
                fits = _fits(distribution, distribution.name, distribution.version, build, self._session)
                way = fits or f"install a build of {distribution.name} made for it in the same command"
                yield _line(f"the installed {distribution.name} {distribution.version}", judgement, build, way)


def _line(subject: str, judgement: Judgement, build: str | None, way: str) -> str:
    return f"{subject} will not work with torch {build}: {judgement.error}; {way}"


def _fits(source: Source, name: str, version: str, build: str | None, session: Session) -> str:
    """Which torch it works with, and what to type; pip can only tell builds of one release apart by their index."""
    number_here = number_of(build) if build else None
    fits = fitting(source, session)
    other_numbers = list(dict.fromkeys(number for fit in fits if (number := number_of(fit)) != number_here))
    if other_numbers:
        command = f"abiscan pip install {name}=={version} torch=={other_numbers[0]}"
        return f"it works with torch {', '.join(other_numbers)} ({command})"
    return f"it works with torch {', '.join(fits)}" if fits else ""


def _embedded_build(torch: Planned) -> str | None:
    """The full version of the embedded build of a torch: the package index has one build of each release.

    The requirements of that build show whether it is for CUDA.
    """
    version = TorchVersion.parse(torch.version)
    if version is None:
        return None
    machine = system.machine()
    builds = [
        build
        for release, build_machine, build in embedded.builds()
        if build_machine is machine and release == version.of_release
    ]
    if version.local:
        return next((build for build in builds if TorchVersion(build) == version), None)
    cuda = version < _CUDA_BESIDE or any(_OF_CUDA.match(name) for text in torch.requires if (name := _needed(text)))
    return next((build for build in builds if ("+cu" in build) == cuda), None)


def _needed(text: str) -> str | None:
    """The name of the required package; None for a requirement of an extra."""
    try:
        requirement = Requirement(text)
    except (InvalidRequirement, RecursionError):
        return None
    applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    return canonicalize_name(requirement.name) if applies else None


def _names_torch(text: str) -> bool:
    return _needed(text) == "torch"
