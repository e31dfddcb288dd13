"""The other packages that a command names: what a target imports of them, where no environment has them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from abiscan.errors import InputError
from abiscan.inputs import observed_fs, package_files
from abiscan.inputs.package_files import Package
from abiscan.inputs.packages import FetchedWheel, is_library
from abiscan.inputs.sources import Source, open_archive
from abiscan.inputs.wheel_tag import is_for_any_system, platform_tag
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.model import Answer, Raised
from abiscan.python.package.sources import normalized
from abiscan.regex import regex

_Error: TypeAlias = Callable[[str, str | None], Raised | Answer | None]
_SYSTEM: Final = regex(r"(linux|win|macos).*?(x86_64|amd64|aarch64|arm64|32|)$")
"""The system and the processor that a platform tag is for."""


class GivenPackage(Struct, frozen=True, kw_only=True):
    """A package in a file that a command names.

    :ivar modules: the names of its top-level modules
    """

    source: Path | FetchedWheel
    package: Package
    modules: tuple[str, ...]

    @property
    def identity(self) -> tuple[object, ...]:
        """What tells it from others, of other runs as well."""
        path = _path_of(self.source)
        status = observed_fs.stat_file(path)
        return str(path), status and (status.st_ino, status.st_size, status.st_mtime_ns)


def list_given(sources: Sequence[Source], site: str) -> tuple[GivenPackage, ...]:
    """Return those of some targets that are packages which are not installed yet.

    :param site: the folder that they are to be installed in
    """
    given = []
    for source in sources:
        if not isinstance(source, Path | FetchedWheel):
            continue
        try:
            archive = open_archive(source)
            package = package_files.of_archive(archive, site) if archive else None
        except (InputError, OSError):
            continue  # it is a target, too: its own turn says what is wrong with it
        if package is not None:
            given.append(GivenPackage(source=source, package=package, modules=_modules_of(package)))
    return tuple(given)


class GivenNeighbours:
    """The packages that one target of a command imports of the others.

    :param packages: by their top-level modules
    :param own: the target itself, by its top-level modules
    """

    def __init__(self, packages: Mapping[str, GivenPackage], own: Mapping[str, GivenPackage]) -> None:
        self._packages = packages
        self._all = {**own, **packages}
        self._error: _Error = lambda _module, _name: None
        self._around: dict[Surroundings, Surroundings] = {}

    @classmethod
    def of(cls, target: Source, given: Sequence[GivenPackage]) -> GivenNeighbours | None:
        """Return those for a target, None if there are none: of several with the same module, the one with its tags."""
        name = _path_of(target).name if isinstance(target, Path | FetchedWheel) else ""
        by_module: dict[str, list[GivenPackage]] = {}
        for other in given:
            if other.source != target and _are_for_one_system(_path_of(other.source).name, name):
                for module in other.modules:
                    by_module.setdefault(module, []).append(other)
        chosen = {module: _choose(others, name) for module, others in by_module.items()}
        packages = {module: other for module, other in chosen.items() if other is not None}
        own = {module: other for other in given if other.source == target for module in other.modules}
        return cls(packages, own) if packages else None

    @property
    def identity(self) -> tuple[object, ...]:
        """What tells these packages, with the target, from others: what imports raise is the same for each of them."""
        return tuple((module, *other.identity) for module, other in sorted(self._all.items()))

    def find(self, module: str) -> GivenPackage | None:
        """Return the package that a top-level module is in."""
        return self._packages.get(module)

    def around(self, surroundings: Surroundings, error: _Error) -> Surroundings:
        """Return the surroundings of a package once these are installed, too: what an environment has, is that one's.

        :param error: returns what imports raise on the torch that is asked about
        """
        # One for all torches: what is read with the same packages is read once.
        self._error = error
        if surroundings not in self._around:
            versions = (
                (normalized(other.package.name), other.package.version)
                for other in self._all.values()
                if other.package.version and not isinstance(surroundings.version(other.package.name), str)
            )
            self._around[surroundings] = replace(
                surroundings,
                installed=functools.partial(self._has, surroundings),
                import_error=functools.partial(self._find_error, surroundings),
                planned=(*surroundings.planned, *dict.fromkeys(versions)),
            )
        return self._around[surroundings]

    def _has(self, surroundings: Surroundings, module: str) -> bool | Answer:
        there = surroundings.installed(module)
        return True if module in self._all else there

    def _find_error(self, surroundings: Surroundings, module: str, name: str | None) -> Raised | Answer | None:
        is_known = surroundings.has_others or module.partition(".")[0] in self._packages
        return self._error(module, name) if is_known else None


def _modules_of(package: Package) -> tuple[str, ...]:
    code = (path.partition("/") for path in package.members if path.endswith(".py") or is_library(path))
    names = (top if below else top.partition(".")[0] for top, _, below in code)
    return tuple(dict.fromkeys(filter(str.isidentifier, names)))


def _choose(others: Sequence[GivenPackage], target: str) -> GivenPackage | None:
    """Return the one of some packages that is installed with a target; None if that is not known."""
    if len(others) > 1:
        others = [other for other in others if _tags_of(_path_of(other.source).name) == _tags_of(target)]
    return others[0] if len(others) == 1 else None


def _are_for_one_system(first: str, second: str) -> bool:
    """Whether one system can have two wheels, by their tags."""
    if is_for_any_system(first) or not second.endswith(".whl"):
        return True
    systems = [_SYSTEM.search(platform_tag(wheel)) for wheel in (first, second)]
    names = [system.groups() if system else ("linux", "x86_64") for system in systems]
    return names[0] == names[1]


def _tags_of(wheel: str) -> list[str]:
    return wheel.removesuffix(".whl").split("-")[-3:]


def _path_of(source: Path | FetchedWheel) -> Path:
    return source if isinstance(source, Path) else source.path
