"""Before an install: what will be installed afterwards, and whether it works together.

An installer reports what it would do (``Plan``). That tells which torch will be there, and every wheel with compiled
extensions is checked against it before anything is installed.
"""

from __future__ import annotations

import re
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
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
# Metadata tells what torch needs; for an installer that shows none, these are known to be gigabytes.
_OF_TORCH: Final = re.compile(r"(nvidia|cuda)-|(pytorch-)?triton$")
# From this version on, the default CUDA wheels require CUDA from other wheels, which identifies them.
_CUDA_BESIDE: Final = TorchVersion("2.0")
_LARGE: Final = 100 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One package that would be installed.

    ``url`` is where its file lies, with its hash as the fragment; None if only its name is known. ``wheel`` says
    whether it is one, or has to be built first. ``requires`` are the requirements in its metadata, if they are known.
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
        """What it would install of a name."""
        return next((one for one in self.packages if canonicalize_name(one.name) == name), None)


class Installer(Protocol):
    """pip, or what stands in for it."""

    def plan(self, arguments: Sequence[str], *, silent: bool = False) -> Plan:
        """What ``install`` with these arguments would do.

        :param silent: keep its complaints from the user
        :raises InstallerError: it will not
        """

    def index_options(self, arguments: Sequence[str]) -> list[str]:
        """Those of the arguments that say where packages come from, as pip spells them."""


class InstallerError(Exception):
    """The installer failed, with an exit code.

    :param said: its error output, if the user has not seen it yet
    """

    def __init__(self, code: int, said: str = "") -> None:
        super().__init__(said)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallCheck:
    """What to tell the user, one line each: ``problems`` prevent the install, ``notes`` do not."""

    problems: tuple[str, ...]
    notes: tuple[str, ...]


def check(installer: Installer, arguments: Sequence[str], session: Session) -> InstallCheck:
    """Check what would be installed, before it is.

    :param arguments: those of ``install``
    :param progress: is told what is done
    :raises InstallerError: the installer itself refuses
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
        for one in self._plan.packages:
            if not one.wheel:
                self.notes.append(f"{one} is not checked: it will be built from source")
        suspects = [one for one in self._plan.packages if self._may_have_extensions(one)]
        torch = self._plan.get("torch")
        if not suspects and torch is None:
            return
        choice = self._torch(torch)
        if choice is None:
            for one in suspects:
                if any(_names_torch(text) for text in one.requires):
                    self.notes.append(f"{one} is not checked: torch will not be installed")
            return
        build = choice.open(self._session.files(), self._session).build
        for one in suspects:
            yield from self._of_wheel(one, choice, build)
        if torch is not None:
            yield from self._of_installed(choice, build)

    def _may_have_extensions(self, one: Planned) -> bool:
        """Whether a wheel is for one kind of machine, and not one that torch itself needs."""
        name = urllib.parse.urlsplit(one.url).path if one.url else ""
        own = canonicalize_name(one.name)
        return one.wheel and not _PURE.search(name) and own not in self._below_torch() and not _OF_TORCH.match(own)

    def _below_torch(self) -> set[str]:
        """torch and what it needs: none of that can need torch."""
        names, found = ["torch"], set[str]()
        while names:
            name = names.pop()
            if name not in found:
                found.add(name)
                planned = self._plan.get(name)
                names += [needed for text in planned.requires if (needed := _needed(text))] if planned else []
        return found

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

    def _of_wheel(self, one: Planned, choice: TorchChoice, build: str | None) -> Iterator[str]:
        try:
            wheel = self._wheel(one)
            self._session.progress(f"checking {one}")
            judgement = judge(wheel, choice, self._session)
        except InputError as error:
            self.notes.append(f"{one} is not checked: {error.problem}")
            return
        if judgement is None:
            return
        if judgement.broken:
            yield _line(str(one), judgement, build, self._ways_out(one, wheel, build))
        elif judgement.unknown:
            self.notes.append(f"{one} could not be checked completely: {judgement.error}")

    def _ways_out(self, one: Planned, wheel: FetchedWheel, build: str | None) -> str:
        self._session.progress(f"looking for a torch that works with {one}")
        ways = [_fits(wheel, one.name, one.version, build, self._session)]
        if build and wheel.path.stat().st_size < _LARGE and (other := self._other(one, build)):
            ways.append(f"{one.name} {other} works with torch {build}")
        return "; ".join(filter(None, ways)) or f"use a build of {one.name} made for this torch"

    def _other(self, one: Planned, build: str) -> str | None:
        """The version that the installer would choose for this torch, if that one fits it."""
        wanted = [one.name, f"torch=={number_of(build)}"]
        try:
            plan = self._installer.plan([*self._options, *wanted], silent=True)
            other = plan.get(canonicalize_name(one.name))
            if other is None or not other.wheel or other.version == one.version:
                return None
            torch = self._torch(plan.get("torch"))
            judgement = judge(self._wheel(other), torch, self._session) if torch else None
        except (InstallerError, InputError):
            return None
        return other.version if judgement and not judgement.broken and not judgement.unknown else None

    def _of_installed(self, choice: TorchChoice, build: str | None) -> Iterator[str]:
        """Packages that stay installed, but would run with a different torch."""
        files = self._session.files()
        for distribution in packages.installed(interpreter.search_path(self._plan.python)):
            name = canonicalize_name(distribution.name)
            if name == "torch" or self._plan.get(name) is not None or not uses_torch(distribution, files):
                continue
            self._session.progress(f"checking {distribution}")
            judgement = judge(distribution, choice, self._session)
            if judgement is not None and judgement.broken:
                fits = _fits(distribution, distribution.name, distribution.version, build, self._session)
                way = fits or f"install a build of {distribution.name} made for it in the same command"
                yield _line(f"the installed {distribution.name} {distribution.version}", judgement, build, way)


def _line(subject: str, judgement: Judgement, build: str | None, way: str) -> str:
    return f"{subject} will not work with torch {build}: {judgement.error}; {way}"


def _fits(source: Source, name: str, version: str, build: str | None, session: Session) -> str:
    """Which torch it fits, and what to type; pip tells builds of one release apart by their index only."""
    here = number_of(build) if build else None
    fits = fitting(source, session)
    others = list(dict.fromkeys(number for fit in fits if (number := number_of(fit)) != here))
    if others:
        return f"it works with torch {', '.join(others)} (abiscan pip install {name}=={version} torch=={others[0]})"
    return f"it works with torch {', '.join(fits)}" if fits else ""


def _embedded_build(torch: Planned) -> str | None:
    """The embedded build that a torch is, by its full version: the package index has one of each release.

    Its requirements tell whether that one is for CUDA.
    """
    version = TorchVersion.parse(torch.version)
    if version is None:
        return None
    machine = system.machine()
    builds = [build for release, of, build in embedded.builds() if of is machine and release == version.of_release]
    if version.local:
        return next((build for build in builds if TorchVersion(build) == version), None)
    cuda = version < _CUDA_BESIDE or any(_OF_CUDA.match(name) for text in torch.requires if (name := _needed(text)))
    return next((build for build in builds if ("+cu" in build) == cuda), None)


def _needed(text: str) -> str | None:
    """The name that a requirement asks for, unless an extra does."""
    try:
        requirement = Requirement(text)
    except (InvalidRequirement, RecursionError):
        return None
    wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    return canonicalize_name(requirement.name) if wanted else None


def _names_torch(text: str) -> bool:
    return _needed(text) == "torch"
