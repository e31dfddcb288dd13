"""A look at a package, of which little is read: whether it certainly does not work on a torch.

Some versions leave their libraries out by themselves, which the file shows that their import begins with. Most need a
symbol that the torch does not have, and a few kilobytes of a library show that. So the package's code is followed with
libraries that fail for such a symbol. Nothing else is known about the others, so the package counts as failing only if
it fails whether they load or not.
"""

from __future__ import annotations

import functools
import itertools
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec.structs
from msgspec import Struct

from abiscan.binary.beginning import DynamicNames, names_at_beginning
from abiscan.binary.elf import Machine
from abiscan.binary.ownership import is_torch_symbol
from abiscan.cpu.processors import Cpu
from abiscan.errors import InputError
from abiscan.inputs import package_files
from abiscan.inputs.files import Wheel, WheelMember
from abiscan.inputs.libraries import Libraries
from abiscan.inputs.packages import SHARED_OBJECT, RemoteWheel
from abiscan.inputs.session import Session
from abiscan.inputs.spreading import installed_path
from abiscan.inputs.version import TorchVersion
from abiscan.python.importing.guards import left_out
from abiscan.python.package.model import Answer, ImportOutcome, LoadedBy, NoResult, OtherTorch, Raised, World
from abiscan.python.package.sources import PackageFiles as SourceFiles
from abiscan.python.package.systems import LINUX
from abiscan.python.reading import follow_imports
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.torches import embedded
from abiscan.torches.torch import TorchChoice
from abiscan.verdict.package_reading import CodeFiles, main_import, modules_of, surroundings_of
from abiscan.verdict.world import torch_versions

_SMALL: Final = 1 << 20
"""A library of this size is read completely if its beginning does not show its symbols."""


class Glance(Struct, frozen=True, kw_only=True):
    """What the look has shown.

    ``reason`` says why it does not work, None if it may. ``loaded`` are the libraries that it loads, or tries to, as
    long as nothing else fails; ``libraries`` are all of the package.
    """

    reason: str | None
    loaded: frozenset[str] = frozenset()
    libraries: frozenset[str] = frozenset()

    @property
    def spare(self) -> frozenset[str]:
        """The libraries that are variants of one that is loaded, such as those for other versions of FFmpeg."""
        variants = {_without_digits(path) for path in self.loaded}
        return frozenset(
            path for path in self.libraries if path not in self.loaded and _without_digits(path) in variants
        )


def reject_quickly(
    source: RemoteWheel, choice: TorchChoice, session: Session, python: tuple[int, int], machine: Machine
) -> Glance:
    """Look at a wheel.

    :param python: that of the user
    :raises InputError: the wheel or the torch cannot be read
    """
    files = session.files()
    torch = choice.open(files, session)
    release = torch.for_linux().release_for(machine)
    site = posixpath.dirname(torch.package)
    wheel = Wheel(source.path, source.stream())
    package = package_files.of_archive(wheel, site)
    members = {
        posixpath.relpath(installed_path(name, site), site): wheel.find_member(name)
        for name in wheel.list_members()
        if SHARED_OBJECT.search(name)
    }
    if package is None or not members:
        return Glance(reason=None)
    sources, surroundings = CodeFiles(package), surroundings_of(torch, package)
    version, cuda = torch_versions(torch, release.build, files)
    modules = tuple(modules_of(package.name, sources))
    lacking = _Lacking(members, Libraries(release.own_libraries, files), machine)
    world = _World(torch_version=version, cuda=cuda, python=python, machine=machine.value, lacking=lacking)
    # Libraries of other projects and of other Pythons say nothing about this torch.
    own = [path for path in members if not _is_vendored(path) and not _is_for_other_python(path, python)]
    if own and modules and release.build is not None:
        by_distance = _sort_by_distance(_candidate_torches(machine), TorchVersion(release.build))
        guard = left_out(sources, modules[0], own, lambda: world, by_distance, surroundings=surroundings)
        if guard is not None:
            elsewhere = TorchVersion(guard.torch.version).of_release
            return Glance(reason=f"leaves its libraries out, which it loads with torch {elsewhere} ({guard.at})")
    # The code is announced all at once, so it takes few requests.
    code = set(SourceFiles(sources).importable_sources(modules))
    wheel.announce_reads(
        name for name in wheel.list_members() if posixpath.relpath(installed_path(name, site), site) in code
    )

    def imported(world: World) -> ImportOutcome | None:
        return main_import(package.name, follow_imports(sources, modules, lambda: world, surroundings=surroundings))

    outcome = imported(world)
    loaded = [load.path for load in outcome.loads if load.path is not None] if outcome else []
    reason = _find_failing(outcome, lacking)
    # Two runs bound the truth: one in which every other library loads, one in which none does. Only what fails in both
    # fails for sure.
    if (
        reason is not None
        and _find_failing(imported(msgspec.structs.replace(world, others_load=False)), lacking) is None
    ):
        reason = None
    return Glance(reason=reason, loaded=frozenset(loaded), libraries=frozenset(members))


def _find_failing(outcome: ImportOutcome | None, lacking: _Lacking) -> str | None:
    """Return how the package fails because a library that it tries to load lacks a symbol; None if it may work."""
    if outcome is None or outcome.raised is Answer.UNKNOWN:
        return None
    tried = dict.fromkeys(load.path for load in outcome.loads if load.path is not None)
    lacks = {path: symbol for path in tried if (symbol := lacking.find_lacking(path)) is not None}
    if isinstance(outcome.raised, Raised):
        return next((f"import fails - {path}: undefined symbol: {symbol}" for path, symbol in lacks.items()), None)
    # Of several variants, one is enough.
    enough = {_without_digits(path) for path in tried if path not in lacks}
    survived = {load.path for load in outcome.loads if load.told is not None}
    missed = (path for path in lacks if path in survived and _without_digits(path) not in enough)
    return next((f"works without {path}: undefined symbol: {lacks[path]}" for path in missed), None)


@functools.cache
def _candidate_torches(machine: Machine) -> tuple[OtherTorch, ...]:
    """Return the torches that a package may be built for, newest first: a build of each release, if possible with
    CUDA.
    """
    builds: dict[TorchVersion, TorchVersion] = {}
    for release, own_value, build in reversed(embedded.builds()):
        version = TorchVersion(build)
        if own_value is machine and (release not in builds or (version.cuda and not builds[release].cuda)):
            builds[release] = version
    # The first one of a minor version is not always embedded, and packages compare with it.
    # Packages compare versions as texts or tuples, so every torch needs a full version.
    first = {
        f"{item.major}.{item.minor}.0{f'+{item.local}' if item.local else ''}": item.cuda for item in builds.values()
    }
    result = {**first, **{str(item): item.cuda for item in builds.values()}}
    return tuple(OtherTorch(version=name, cuda=result[name]) for name in sorted(result, key=TorchVersion, reverse=True))


def _sort_by_distance(torches: Sequence[OtherTorch], to: TorchVersion) -> Iterator[OtherTorch]:
    """Return torches, newest first, in the order of how near they are to one of them."""
    newer = [torch for torch in torches if TorchVersion(torch.version).of_release > to.of_release]
    older = [torch for torch in torches if TorchVersion(torch.version).of_release < to.of_release]
    # Outwards from the torch that was asked about: what a package accepts is mostly near to it.
    pairs = itertools.zip_longest(reversed(newer), older)
    return (torch for pair in pairs for torch in pair if torch is not None)


def _without_digits(path: str) -> str:
    return re.sub(r"\d+", "", path)


class _Lacking:
    """The first symbol that each library of a package needs of torch, and the torch lacks.

    :param members: the libraries by path
    :param torch: the libraries of the torch
    """

    def __init__(self, members: Mapping[str, WheelMember], torch: Libraries, machine: Machine) -> None:
        self._members = members
        self._torch = torch
        self._machine = machine
        self._names: dict[str, DynamicNames | None] = {}
        self._symbols: dict[str, str | None] = {}

    def find_lacking(self, path: str) -> str | None:
        """Return the first such symbol of a library; None if there is none, as far as can be seen."""
        if path not in self._symbols:
            names = self._names_of(path)
            undefined = names.undefined if names is not None and names.machine is self._machine else ()
            self._symbols[path] = next((name for name in undefined if self._is_lacking(name, path)), None)
        return self._symbols[path]

    def _is_lacking(self, name: str, path: str) -> bool:
        if not is_torch_symbol(name):
            return False
        # The library of torch that has the symbol in other releases says where this torch would have to have it.
        exporting = embedded.libraries_exporting(name, self._machine)
        # An extension that needs a library of CUDA fails because of that on a torch for CPUs, and not because of a
        # symbol.
        if exporting.isdisjoint(self._torch) or any(facts.symbols.find(name) for facts in self._torch.values()):
            return False
        # Another library of the package may bring it; if its names cannot be had, it counts as if it did.
        return not any(self._may_define(item, name) for item in self._add_needed(path, set()))

    def _add_needed(self, path: str, results: set[str]) -> set[str]:
        """Return the libraries of the package that a library may need, and what these need."""
        names = self._names_of(path)
        for member in self._members:
            if member not in results and (names is None or names.may_need(posixpath.basename(member))):
                results.add(member)
                if not _is_vendored(member):
                    self._add_needed(member, results)
        return results

    def _may_define(self, path: str, name: str) -> bool:
        if _is_vendored(path):
            return False
        names = self._names_of(path)
        return names is None or name in names.defined

    def _names_of(self, path: str) -> DynamicNames | None:
        """Return the names of a library; None if they cannot be had without reading much."""
        if path not in self._names:
            member = self._members.get(path)
            names = names_at_beginning(member.read_head) if member else None
            if names is None and member is not None and member.size <= _SMALL:
                try:
                    names = DynamicNames.of(member.open_elf().facts())
                except InputError:
                    names = None
            self._names[path] = names
        return self._names[path]


def _is_vendored(path: str) -> bool:
    """Whether it is a library from elsewhere, which ``auditwheel`` put into the wheel: it has no symbols of torch."""
    return path.partition("/")[0].endswith(".libs")


def _is_for_other_python(path: str, python: tuple[int, int]) -> bool:
    """Whether its name has the tag of another version of Python, which does not import it."""
    tag = posixpath.basename(path).partition(".")[1:]
    return ".cpython-" in path and not LINUX.accepts_tag("".join(tag), python)


class _World(Struct, kw_only=True):
    """A world in which the libraries that lack a symbol of torch do not load; see ``World``."""

    torch_version: str | Answer
    cuda: str | Answer | None
    python: tuple[int, int] | Answer
    machine: str
    lacking: _Lacking
    cxx11_abi: bool | Answer = Answer.UNKNOWN
    torch_names: TorchNames | None = None
    cpu: Cpu | None = None
    gpus: tuple[tuple[int, int], ...] = ()
    others_load: bool = True

    @property
    def oldest_python(self) -> tuple[int, int] | None:
        """The interpreter itself."""
        return self.python if isinstance(self.python, tuple) else None

    newest_python = oldest_python

    def load(self, path: str | None, loader: LoadedBy) -> Raised | Answer | None:
        """Return an error for a library that lacks a symbol."""
        if self.others_load and (path is None or self.lacking.find_lacking(path) is None):
            return None
        exception = "ImportError" if loader is LoadedBy.IMPORT else "OSError"
        return Raised(exception=exception, message=None, at=None)

    def operator(self, name: str) -> bool | Answer:  # noqa: ARG002 - the libraries are not read that far
        """It may be there."""
        return Answer.UNKNOWN

    def call(self, operator: str) -> int | bool | str | NoResult | None:
        """Nobody knows what it returns."""
        return NoResult(reason=f"{operator} was not read")

    def refused_load(self, path: str) -> str | None:  # noqa: ARG002 - saved files are not read that far
        """It may be loaded."""
        return None
