"""What an installation does to the packages around it: those that stay and import what changes, those that it lacks.

The wheels of a plan are unpacked into a folder that lies over the environment. A package that stays is read there and
in the environment as it is: if it can be imported now, and not then, the installation is to blame. That also tells a
failure from a mistake of the reading, which would be the same both times.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec.structs
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from abiscan.environments.examination import list_users
from abiscan.environments.judgement import Fitness, Judgement, Problem, judge_package
from abiscan.environments.model import WholeEnvironment
from abiscan.errors import InputError, StoppedError
from abiscan.hooks.plan import Plan, Planned
from abiscan.inputs import interpreter, package_files, packages
from abiscan.inputs.files import Wheel
from abiscan.inputs.isolation import turn_of
from abiscan.inputs.packages import Distribution, FetchedWheel, is_library
from abiscan.inputs.requirement import parse_applying, required_by
from abiscan.inputs.session import Session
from abiscan.inputs.spreading import find_metadata
from abiscan.regex import regex
from abiscan.torches.torch import TorchOf
from abiscan.words import listed

_CODE: Final = regex(r"\.py$|\.dist-info/[^/]+$")


def requirements_in(wheel: FetchedWheel) -> tuple[str, ...]:
    """Return what the metadata in a wheel require.

    :raises InputError: it cannot be read
    """
    archive = Wheel(wheel.path)
    name = find_metadata(archive.list_members())
    return required_by(archive.read_text(name), wheel.path.name) if name is not None else ()


class Neighbourhood:
    """The packages of an environment, as they are and as they would be.

    :param files: the wheels that would be installed
    :param folder: where they are unpacked
    """

    def __init__(self, plan: Plan, files: Mapping[Planned, Path], folder: Path, session: Session) -> None:
        self._plan = plan
        self._files = files
        self._folder = folder
        self._session = session
        self._search_path = interpreter.search_path(plan.python)
        self._unpacked: set[Planned] = set()

    @property
    def is_touched(self) -> bool:
        """Whether something that is installed changes, or something is left out that is required."""
        return bool(self._changes or self._lacking)

    def judge_requested(self, name: str, notes: list[str]) -> Judgement | None:
        """Return what becomes of a package once everything of the plan is installed."""
        self._unpack(self._files)
        distribution = self._before.planned(str(self._folder), self._plan.removed).find(name)
        if distribution is None:
            return None
        # It does not work now, so whatever its import raises then counts, certain or not.
        return self._judge(distribution, notes, over=True)

    def find_broken(self, notes: list[str]) -> Iterator[Problem]:
        """Yield the packages that stay and cannot be imported any more."""
        if not self._changes:
            return
        words = "|".join(re.escape(module) for modules in self._changes.values() for module in modules)
        beside = listed(map(str, self._changes))
        imports = re.compile(rf"^[ \t]*(?:import|from)[ \t]+(?:[\w., \t]+,[ \t]*)?(?:{words})\b".encode(), re.MULTILINE)
        for distribution in list_users(self._before, self._session.files()):
            name = canonicalize_name(distribution.name)
            if self._plan.find_planned(name) or name in self._plan.removed or not _mentions(distribution, imports):
                continue
            self._session.progress(f"checking {distribution}")
            self._unpack(self._changes)
            then = self._judge(distribution, notes, over=True)
            if then is None or then.fitness is not Fitness.FAILS:
                continue
            problem = Problem(
                name=distribution.name,
                version=distribution.version,
                source=distribution,
                judgement=then,
                beside=beside,
            )
            now = self._judge(distribution, notes, over=False)
            if now is None or now.fitness is not Fitness.FAILS:
                yield problem
            else:
                notes.append(f"{problem} does not work now, and will not work with {beside}: see abiscan doctor")

    def find_lacking(self, notes: list[str]) -> Iterator[Problem]:
        """Yield the packages of the plan that cannot be imported without what they require, and it leaves out."""
        if not self._lacking:
            return
        self._unpack(self._files)
        unpacked = {canonicalize_name(item.name): item for item in packages.list_installed([str(self._folder)])}
        for planned, requirements in self._lacking.items():
            missing = listed(map(str, requirements))
            distribution = unpacked.get(canonicalize_name(planned.name))
            judgement = (
                self._judge(distribution, notes, over=True, compared=False) if distribution is not None else None
            )
            if distribution is not None and judgement is not None and judgement.fitness is Fitness.FAILS:
                yield Problem(
                    name=planned.name,
                    version=planned.version,
                    source=FetchedWheel(path=self._files[planned]),
                    judgement=judgement,
                    beside=f"what would be installed, without {missing}",
                )
            else:
                notes.append(f"{planned} requires {missing}, which will not be there")

    @functools.cached_property
    def _before(self) -> WholeEnvironment:
        """The environment as it is."""
        return WholeEnvironment.installed(self._plan.python)

    @functools.cached_property
    def _changes(self) -> dict[Planned, frozenset[str]]:
        """What would be replaced by another version, and its modules as they are now."""
        changes = {}
        for planned in self._files:
            there = packages.find_installed(planned.name, self._search_path)
            if there is not None and there.version != planned.version:
                members = package_files.of_distribution(there).members
                modules = (path.partition("/")[0].removesuffix(".py") for path in members if path.endswith(".py"))
                changes[planned] = frozenset(filter(str.isidentifier, modules))
        return {planned: modules for planned, modules in changes.items() if modules}

    @functools.cached_property
    def _lacking(self) -> dict[Planned, list[Requirement]]:
        """What requires something that will not be there, or not in a version that it admits."""
        lacking = {planned: list(self._list_lacking(path)) for planned, path in self._files.items()}
        return {planned: requirements for planned, requirements in lacking.items() if requirements}

    def _list_lacking(self, wheel: Path) -> Iterator[Requirement]:
        try:
            lines = requirements_in(FetchedWheel(path=wheel))
        except InputError:  # which is said where it is checked
            return
        for requirement in filter(None, map(parse_applying, lines)):
            name = canonicalize_name(requirement.name)
            planned = self._plan.find_planned(name)
            if planned is not None and not planned.wheel:
                continue  # what is built has no version yet
            there = packages.find_installed(name, self._search_path) if name not in self._plan.removed else None
            now = planned or there
            with contextlib.suppress(InvalidVersion):
                if now is None or not requirement.specifier.contains(now.version, prereleases=True):
                    yield requirement

    def _judge(
        self, distribution: Distribution, notes: list[str], *, over: bool, compared: bool = True
    ) -> Judgement | None:
        choice = TorchOf(self._plan.python, over=str(self._folder) if over else None)
        try:
            with turn_of(str(distribution)):
                judgement = judge_package(distribution, choice, self._session, compared=compared)
        except StoppedError as error:
            notes.append(f"{distribution} is not checked: {error.problem}")
            return None
        except InputError:  # it has nothing to do with torch, or cannot be read now either
            return None
        return self._as_installed(judgement, distribution.site) if judgement is not None and over else judgement

    def _as_installed(self, judgement: Judgement, site: str) -> Judgement:
        """Return a verdict whose error has the paths that files have once they are installed."""
        package = judgement.package
        if package is None or package.error is None or package.error.message is None:
            return judgement
        text = package.error.message.replace(self._folder.as_posix(), site)
        error = msgspec.structs.replace(package.error, message=text)
        return msgspec.structs.replace(judgement, package=msgspec.structs.replace(package, error=error))

    def _unpack(self, wanted: Iterable[Planned]) -> None:
        """Put the code and the libraries of wheels into the folder, as if they were installed there."""
        for planned in wanted:
            if planned not in self._unpacked:
                self._unpacked.add(planned)
                _unpack_wheel(Wheel(self._files[planned]), self._folder)


def _unpack_wheel(wheel: Wheel, folder: Path) -> None:
    """Write the code, the metadata and the libraries of a wheel, at the paths that they have once installed."""
    inside = f"{folder.as_posix()}/"
    for path, name in wheel.list_places(folder.as_posix()):
        if path.startswith(inside) and (is_library(name) or _CODE.search(name)):
            try:
                wheel.extract_member(name, Path(path))
            except (InputError, OSError):  # two members for one place, or one that is damaged: it is not there
                continue


def _mentions(distribution: Distribution, imports: re.Pattern[bytes]) -> bool:
    """Whether code of a package imports something, wherever it does."""
    package = package_files.of_distribution(distribution)
    return any(imports.search(package.read(path)) for path in package.members if path.endswith(".py"))
