"""A torch to check against, embedded or installed, and how a user names one."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec.structs
from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.errors import InputError, NoTorchError
from abiscan.inputs import interpreter as python
from abiscan.inputs import observed_fs, system
from abiscan.inputs.addresses import without_credentials
from abiscan.inputs.files import Files, check_existence
from abiscan.inputs.interpreter import Interpreter, PythonTag
from abiscan.inputs.libraries import Libraries
from abiscan.inputs.session import Session
from abiscan.inputs.version import TorchVersion
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.regex import regex
from abiscan.torches import embedded, embedded_names, embedded_operators, torch_layouts
from abiscan.torches.embedded_operators import EmbeddedOperators, OperatorSource
from abiscan.torches.model import TorchRelease
from abiscan.torches.torch_layouts import TorchLayouts
from abiscan.words import did_you_mean

if TYPE_CHECKING:
    from abiscan.torches.operator_store import OwnOperators
    from abiscan.torches.torch_images import TorchImageFiles, TorchImages

NEWEST: Final = "latest"
"""What users may write for the newest embedded release."""

_TORCH_SPECIFIER: Final = regex(r"^\s*torch\s*(?=[=<>!~])")
_EXACTLY: Final = regex(r"^\s*===?\s*(?![^,]*[,*])")
_FIX: Final = "pass a release number that abiscan releases lists, latest, or the folder or the wheel of a torch"


class Torch(Protocol):
    """An opened torch."""

    @property
    def package(self) -> str:
        """The folder of its package."""

    @property
    def build(self) -> str | None:
        """Its full version, None if unknown: ``2.13.0+cpu``; for an embedded torch, as the user wrote it."""

    @property
    def interpreter(self) -> Interpreter | None:
        """The Python that it runs in, None if it is not for a particular one."""

    @property
    def here(self) -> bool:
        """Whether it will run on this system, with the libraries of this system."""

    def for_linux(self) -> LinuxTorch:
        """Return it as a torch for Linux.

        :raises InputError: it is for another system
        """

    def has_images(self, system: ImageSystem, machine: Machine) -> bool:
        """Whether it has libraries for another system than Linux."""

    def images(self, system: ImageSystem, machine: Machine) -> TorchImages:
        """Return its libraries for another system than Linux.

        :raises InputError: it has none for that system and machine
        """


class LinuxTorch(Torch, Protocol):
    """A torch for Linux: all that is known of its files, its dispatcher and its classes."""

    def release_for(self, machine: Machine, *, allow_similar_build: bool = False) -> TorchRelease:
        """Return what is known about it, for an extension that is built for a given machine.

        :param allow_similar_build: whether another build of its release may stand in: see ``TorchRelease.judged_as``
        :raises InputError: it does not exist for that machine
        """

    def operators(self, release: TorchRelease) -> OperatorSource:
        """Return the operators in its dispatcher.

        :param release: the result of ``release_for``
        """

    def exports(self, release: TorchRelease) -> Mapping[str, AbstractSet[str]]:
        """Return all names that its own libraries export, by library.

        :param release: the result of ``release_for``
        """

    def layouts(self, release: TorchRelease) -> TorchLayouts:
        """Return the memory layouts of its classes.

        :param release: the result of ``release_for``
        """

    def python_names(self, release: TorchRelease) -> TorchNames | None:
        """Return the names of its Python modules; None if nothing is known of them.

        :param release: the result of ``release_for``
        """


class EmbeddedTorch(Struct, frozen=True, kw_only=True):
    """An embedded release, on no particular system.

    :ivar build: the number that the user wrote
    :ivar files: where its libraries are put
    :ivar python: the Python that it is to run in; None for any
    :ivar planned_for: the Python of the environment that it is to be installed in, which finds everything else there
    """

    build: str
    files: Files
    python: PythonTag | None = None
    planned_for: Interpreter | None = None

    @property
    def package(self) -> str:
        """A folder that no real torch is in."""
        return posixpath.join(embedded.SITE, "torch")

    @property
    def interpreter(self) -> Interpreter | None:
        """The Python that it is to run in, known by its version alone."""
        return Interpreter(tag=self.python) if self.python else None

    @property
    def here(self) -> bool:
        """False, since its system is unknown."""
        return False

    def for_linux(self) -> LinuxTorch:
        """Return itself."""
        return self

    def release_for(self, machine: Machine, *, allow_similar_build: bool = False) -> TorchRelease:
        """Return the build for a machine.

        :raises InputError: none is embedded
        """
        read = embedded.release_like if allow_similar_build else embedded.release
        return read(self.build, machine, self.files)

    def operators(self, release: TorchRelease) -> OperatorSource:
        """Return the operators in its dispatcher, from the embedded data."""
        return EmbeddedOperators(release.judged_as or self.build, release.machine)

    def exports(self, release: TorchRelease) -> Mapping[str, AbstractSet[str]]:
        """Return all names that its own libraries export, by library."""
        return embedded.exports(release.judged_as or self.build, release.machine)

    def layouts(self, release: TorchRelease) -> TorchLayouts:
        """Return the memory layouts of its classes, from the embedded data."""
        return torch_layouts.of_release(str(release.version), release.machine)

    def python_names(self, release: TorchRelease) -> TorchNames | None:
        """Return the names of its Python modules, from the embedded data."""
        return embedded_names.names(release.version) if release.version else None

    def has_images(self, system: ImageSystem, machine: Machine) -> bool:
        """Whether the release is embedded for another system than Linux."""
        from abiscan.torches import torch_images

        return torch_images.has_release(self.build, system, machine)

    def images(self, system: ImageSystem, machine: Machine) -> TorchImages:
        """Return its libraries for another system than Linux, from the embedded data."""
        from abiscan.torches import torch_images

        return torch_images.of_release(self.build, system, machine)


class InstalledTorch(Struct, frozen=True, kw_only=True, dict=True):
    """A torch with files of its own: in a folder, or in a wheel as if it were installed."""

    release: TorchRelease
    interpreter: Interpreter | None
    files: Files
    session: Session

    @property
    def package(self) -> str:
        """The folder of its package."""
        return self.release.package

    @property
    def build(self) -> str | None:
        """Its full version, None if its files do not state it."""
        return self.release.build

    @property
    def here(self) -> bool:
        """Whether it is built for the machine that abiscan runs on."""
        return self.release.machine is system.own_machine()

    def for_linux(self) -> LinuxTorch:
        """Return itself."""
        return self

    def release_for(self, machine: Machine, *, allow_similar_build: bool = False) -> TorchRelease:  # noqa: ARG002 - it is itself
        """Return the torch itself, for any extension."""
        return self.release

    def operators(self, release: TorchRelease) -> OperatorSource:  # noqa: ARG002 - it is itself
        """Return the operators in its dispatcher: embedded, cached, or read from its libraries."""
        return self._operators

    @cached_property
    def _operators(self) -> OwnOperators:
        """The operators, which are read once for all extensions."""
        from abiscan.torches.operator_store import OwnOperators

        return OwnOperators(release=self.release, files=self.files, session=self.session)

    def exports(self, release: TorchRelease) -> Mapping[str, AbstractSet[str]]:
        """Return all names that its own libraries export, by library."""
        libraries = Libraries(release.own_libraries, self.files)
        return {name: frozenset(facts.symbols.starting_with("")) for name, facts in libraries.items()}

    def layouts(self, release: TorchRelease) -> TorchLayouts:  # noqa: ARG002 - it is itself
        """Return the memory layouts of its classes: those of its release, or what its own headers show."""
        return self._layouts

    @cached_property
    def _layouts(self) -> TorchLayouts:
        """The layouts, which are read once for all extensions: there are thousands of headers."""
        return torch_layouts.of_installed(self.release, self.files, self.session)

    def python_names(self, release: TorchRelease) -> TorchNames | None:
        """Return the names of its Python modules, from its files if they are on the disk of a machine like its own."""
        folder = Path(self.package)
        if self.here and observed_fs.is_dir(folder):
            from abiscan.torches import unlisted_torch_names

            return unlisted_torch_names.names(
                folder, self.session.folder, is_embedded=self._operators.embedded is not None
            )
        return embedded_names.names(release.version) if release.version else None

    def has_images(self, system: ImageSystem, machine: Machine) -> bool:  # noqa: ARG002 - it is for Linux alone
        """Return False: it is for Linux."""
        return False

    def images(self, system: ImageSystem, machine: Machine) -> TorchImages:  # noqa: ARG002 - it is for Linux alone
        """Reject a target for another system.

        :raises InputError: always
        """
        fix = f"pass a release number, or a torch for {system.value}"
        raise InputError(self.package, f"is a torch for Linux, the target is for {system.value}", fix)


class ImageTorch(Struct, frozen=True, kw_only=True):
    """A torch for Windows or macOS in files of its own. What is read of it are the names that its libraries export."""

    contents: TorchImageFiles
    interpreter: Interpreter | None = None

    @property
    def package(self) -> str:
        """The folder of its package, or the wheel."""
        return self.contents.package

    @property
    def build(self) -> str | None:
        """Its full version, None if its files do not state it."""
        return self.contents.build

    @property
    def here(self) -> bool:
        """False, since its system is not looked at."""
        return False

    def for_linux(self) -> LinuxTorch:
        """Reject it, since what asks needs a torch for Linux.

        :raises InputError: always
        """
        fix = "pass a release number, or a torch for Linux"
        raise InputError(self.package, "is not a torch for Linux, which this needs", fix)

    def has_images(self, system: ImageSystem, machine: Machine) -> bool:
        """Whether it is for that system and machine."""
        return self.contents.has(system, machine)

    def images(self, system: ImageSystem, machine: Machine) -> TorchImages:
        """Return its libraries."""
        return self.contents.on(system, machine)


class TorchChoice(Protocol):
    """The torch that a user chose, before any of its files are read."""

    def open(self, files: Files, session: Session) -> Torch:
        """Open it.

        :param files: its libraries are put there if they are not on disk
        :raises InputError: there is no such torch
        """


class ReleaseNumber(Struct, frozen=True):
    """An embedded release, by its number or the full version of a build: ``2.6.0``, ``2.13.0+cu130``.

    ``python`` is the Python that it is to run in, None for any that it has wheels for. ``environment`` is where it is
    to be installed, with everything else that is there.
    """

    number: str
    python: PythonTag | None = None
    environment: TorchOf | None = None

    def open(self, files: Files, session: Session) -> Torch:  # noqa: ARG002 - no step takes seconds
        """Open it. Whether it is embedded is only checked for a particular machine.

        :raises InputError: the Python of the environment cannot be run
        """
        planned_for = self.environment.find_interpreter()[0] if self.environment else None
        return EmbeddedTorch(build=self.number, files=files, python=self.python, planned_for=planned_for)


class TorchAt(Struct, frozen=True):
    """The torch at a path (a folder, a library, a wheel), with the interpreter that it belongs to."""

    path: Path

    def open(self, files: Files, session: Session) -> Torch:
        """Open it.

        :raises InputError: there is none
        """
        from abiscan.torches import from_libs, torch_images

        # For Windows and macOS only the names of exports are read; everything else needs ELF.
        if contents := torch_images.find_images(self.path):
            tag = contents.python
            return ImageTorch(contents=contents, interpreter=Interpreter(tag=tag) if tag else None)
        release = match_embedded(from_libs.from_path(self.path, files), files)
        interpreter = python.of_torch(Path(release.package), release.python)
        return InstalledTorch(release=release, interpreter=interpreter, files=files, session=session)


class TorchOf(Struct, frozen=True):
    """The torch of an interpreter, or of the running one for None.

    ``over`` is a folder of packages that lies over what is installed, as if it had been installed already.
    """

    executable: str | None
    over: str | None = None

    def open(self, files: Files, session: Session) -> Torch:
        """Open it.

        :raises InputError: it has none
        """
        from abiscan.torches import from_libs, torch_images

        interpreter, package = self.find_interpreter()
        if package is None:
            raise NoTorchError(str(interpreter.executable), "has no torch", "name one with --torch or --python")
        if contents := torch_images.find_images(package):
            return ImageTorch(contents=contents, interpreter=interpreter)
        release = match_embedded(from_libs.from_path(package, files), files)
        return InstalledTorch(release=release, interpreter=interpreter, files=files, session=session)

    def find_interpreter(self) -> tuple[Interpreter, Path | None]:
        """Return the interpreter, and the folder of its torch; None if it has none.

        :raises InputError: it cannot be run
        """
        if self.executable is None:
            interpreter, package = python.running_interpreter(), python.installed_torch()
        else:
            interpreter, package = python.ask_interpreter(self.executable)
        return msgspec.structs.replace(interpreter, over=self.over), package


def match_embedded(release: TorchRelease, files: Files) -> TorchRelease:
    """Return an installed torch; if its version is not embedded, with the embedded build that has the same files."""
    version = release.torch_version
    if version is not None and version.of_release in embedded.versions(release.machine):
        return release
    from abiscan.torches import from_libs

    same = embedded_operators.find_build(from_libs.identify_libraries(release, files), release.machine)
    return msgspec.structs.replace(release, same_as=same)


def torch_choice(spec: str) -> TorchChoice:
    """Return the torch that SPEC stands for: a path if it exists, otherwise a release number, or ``latest``.

    :raises InputError: it is nothing of that kind, or no path can have that name
    """
    if not spec:
        raise InputError('""', "is not a torch", _FIX)
    path = Path(spec)
    # A path first: a folder may be called ``2.6.0``.
    if check_existence(path):
        return TorchAt(path)
    number = _find_number(spec)
    if not embedded.is_version(number):
        hint = did_you_mean(spec, (NEWEST, *map(str, embedded.versions())))
        raise InputError(without_credentials(spec), "does not exist, and is not a release number", hint or _FIX)
    return ReleaseNumber(number)


def torch_choices(spec: str) -> tuple[TorchChoice, ...]:
    """Return the torches that SPEC stands for: all embedded releases that a version specifier admits, otherwise one
    torch.

    :raises InputError: it is a specifier that admits no release; it is nothing that stands for a torch
    """
    # A number is read as that release alone: ``2.6`` is no specifier, while ``>=2.6`` can be nothing else.
    if spec and not check_existence(Path(spec)) and not embedded.is_version(_find_number(spec)):
        versions = embedded.admitted_releases(_TORCH_SPECIFIER.sub("", spec))
        if versions:
            return tuple(ReleaseNumber(str(version)) for version in versions)
    return (torch_choice(spec),)


def each_build(choices: Iterable[TorchChoice]) -> Iterator[TorchChoice]:
    """Yield the choices, with all embedded builds of a release that is named by its number alone."""
    for choice in choices:
        yield choice
        if isinstance(choice, ReleaseNumber):
            others = (full for machine in Machine for full in embedded.extra_builds(machine))
            release = TorchVersion(choice.number)
            if release.local is None:
                yield from (ReleaseNumber(full) for full in others if TorchVersion(full).of_release == release)


def drop_duplicates(choices: Iterable[TorchChoice]) -> list[TorchChoice]:
    """Return the choices without those that mean the same build as another one: ``2.13.0+cpu`` if ``2.13.0`` does."""
    choices = list(choices)
    meant: dict[TorchChoice, frozenset[object]] = {
        choice: embedded.default_builds(choice.number) for choice in choices if isinstance(choice, ReleaseNumber)
    }
    # ``2.13.0`` may mean a build on each machine, ``2.13.0+cpu`` one of them: the wider choice covers the narrower one.
    contained = {choice for choice, builds in meant.items() if builds and any(builds < more for more in meant.values())}
    # Of two names for the same build the one that was named first stays, as the user wrote it.
    first: dict[object, TorchChoice] = {}
    for choice in choices:
        first.setdefault(meant.get(choice) or choice, choice)
    return [choice for choice in first.values() if choice not in contained]


def _find_number(spec: str) -> str:
    """Return the release number in SPEC: ``2.6.0`` in ``2.6`` or ``torch==2.6.0``, the newest one in ``latest``."""
    if spec == NEWEST:
        return str(embedded.versions()[-1])
    # As people copy it from a list of requirements.
    number = _EXACTLY.sub("", _TORCH_SPECIFIER.sub("", spec))
    version = TorchVersion.parse(number)
    return next((str(release) for release in embedded.versions() if release == version), number)
