"""The environment that a plan leads to: what stays of the one that is there, with the wheels that would be installed.

The wheels are unpacked into a folder that lies over the environment, so that everything in it is examined as it would
be once they are installed.
"""

from __future__ import annotations

import bisect
import contextlib
import csv
import functools
import itertools
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from abiscan.environments import examination
from abiscan.environments.examination import list_required, list_users
from abiscan.environments.model import WholeEnvironment, modules_of
from abiscan.errors import InputError
from abiscan.hooks.plan import Plan, Planned
from abiscan.inputs import branches, package_files
from abiscan.inputs.files import Wheel
from abiscan.inputs.packages import Distribution, is_library
from abiscan.inputs.session import Session

_FEWEST_TO_SHARE: Final = 4
"""How many wheels to unpack make another process worth its start."""


class PlannedEnvironment:
    """An environment, as it is and as it would be.

    :param before: as it is
    :param files: the wheels that would be installed
    :param folder: where they are unpacked
    """

    def __init__(
        self, before: WholeEnvironment, plan: Plan, files: Mapping[Planned, Path], folder: Path, session: Session
    ) -> None:
        self.before = before
        self._plan = plan
        self._files = files
        self._folder = folder
        self._session = session

    def unpack(self, *, libraries: bool = True) -> WholeEnvironment:
        """Return the environment as it would be, with the torch that is there.

        :param libraries: whether the libraries are looked at there: else they are empty
        """
        first, rest = _halve(list(self._files.values()))
        beside = self._folder.with_name(f"{self._folder.name}-rest")
        unpack = functools.partial(_unpack_wheels, libraries=libraries)
        with branches.found_aside(lambda: unpack(rest, beside), examination.count_jobs(self._session)) as wait:
            unpack(first, self._folder)
            wait()
        _move_new(beside, self._folder)
        shutil.rmtree(beside)
        self._list_torch()
        return self.before.planned(str(self._folder), self._plan.removed)

    def _list_torch(self) -> None:
        """Write down that a torch is there of which nothing was downloaded: others require it."""
        torch = self._plan.find_planned("torch")
        if torch is not None and torch not in self._files:
            folder = self._folder / f"torch-{torch.version}.dist-info"
            folder.mkdir(exist_ok=True)
            text = f"Metadata-Version: 2.1\nName: torch\nVersion: {torch.version}\n"
            (folder / "METADATA").write_text(text, encoding="utf-8")

    @functools.cached_property
    def changes(self) -> dict[Planned, Distribution]:
        """What would be replaced by another version, and what it is now."""
        there = {planned: self.before.find(planned.name) for planned in self._files}
        return {planned: item for planned, item in there.items() if item and item.version != planned.version}

    @functools.cached_property
    def staying(self) -> tuple[Distribution, ...]:
        """The distributions that use torch and stay."""
        return tuple(self._without_changed(list_users(self.before, self._session.files())))

    def _without_changed(self, distributions: Iterable[Distribution]) -> Iterator[Distribution]:
        gone = {*self._plan.removed, *(canonicalize_name(planned.name) for planned in self._plan.packages)}
        return (item for item in distributions if canonicalize_name(item.name) not in gone)

    def list_touched(self, requested: Collection[str]) -> list[Distribution]:
        """Return those that stay and import something that changes, or are requested.

        What does not use torch is asked what it requires, since only what others require counts of it.
        """
        changing = list(self._replaced_and_removed())
        if not changing and not requested:
            return []
        words = "|".join(re.escape(module) for item in changing for module in modules_of(item)) or r"(?!)"
        imports = re.compile(rf"^[ \t]*(?:import|from)[ \t]+(?:[\w., \t]+,[ \t]*)?(?:{words})\b".encode(), re.MULTILINE)
        users = [item for item in self.staying if canonicalize_name(item.name) in requested or _mentions(item, imports)]
        names = {canonicalize_name(item.name) for item in changing}
        required = list_required(self.before, self.staying, self._session.files())
        return users + [
            item
            for item in self._without_changed(required)
            if canonicalize_name(item.name) in requested or names & self.before.required_names(item)
        ]

    def _replaced_and_removed(self) -> Iterator[Distribution]:
        yield from self.changes.values()
        yield from filter(None, map(self.before.find, sorted(self._plan.removed)))

    def is_built(self, name: str) -> bool:
        """Whether a package would be built from source."""
        planned = self._plan.find_planned(canonicalize_name(name))
        return planned is not None and not planned.wheel

    def as_installed(self, text: str) -> str:
        """Return a text with the paths that files have once they are installed."""
        torch = self.before.find("torch")
        return text.replace(self._folder.as_posix(), torch.site) if torch is not None else text


def _halve(paths: Sequence[Path]) -> tuple[Sequence[Path], Sequence[Path]]:
    """Return the first and the last of some files, about as large as each other."""
    sizes = list(itertools.accumulate(path.stat().st_size if path.is_file() else 0 for path in paths))
    half = bisect.bisect(sizes, sizes[-1] / 2) if len(paths) >= _FEWEST_TO_SHARE else len(paths)
    return paths[:half], paths[half:]


def _unpack_wheels(paths: Sequence[Path], folder: Path, *, libraries: bool) -> None:
    """Unpack wheels into a new folder; of two files with one path, the first counts."""
    shutil.rmtree(folder, ignore_errors=True)  # what a process has left that ended early
    folder.mkdir()
    for path in paths:
        with contextlib.suppress(InputError):  # it cannot be read, which is said where it is checked
            _unpack_wheel(Wheel(path), folder, libraries=libraries)


def _move_new(source: Path, target: Path) -> None:
    """Move what is in one folder, and not in another, to there."""
    for path in list(source.iterdir()):
        there = target / path.name
        if not os.path.lexists(there):
            shutil.move(path, there)  # it copies where Landlock denies to rename (before Linux 5.19)
        elif path.is_dir() and there.is_dir():
            _move_new(path, there)


def _unpack_wheel(wheel: Wheel, folder: Path, *, libraries: bool) -> None:
    """Write the files of a wheel, at the paths that they have once installed: code may read its data as it is imported.

    Installers write a RECORD of their own: what that of the wheel leaves out is installed, too.
    """
    inside, record, rows = f"{folder.as_posix()}/", None, list[tuple[str, str, str]]()
    made = set[str]()
    for path, name in wheel.list_places(folder.as_posix()):
        if not path.startswith(inside):
            continue
        rows.append((path.removeprefix(inside), "", ""))
        if path.endswith(".dist-info/RECORD"):
            record = Path(path)
        else:
            with contextlib.suppress(InputError, OSError):  # one that is damaged is not there
                parent = path.rpartition("/")[0]
                if parent not in made:  # there are thousands of files, in hundreds of folders
                    Path(parent).mkdir(parents=True, exist_ok=True)
                    made.add(parent)
                if libraries or not is_library(name):
                    wheel.extract_member(name, path)
                else:
                    Path(path).touch()
    if record is not None:
        with contextlib.suppress(OSError):  # another wheel has written there
            record.parent.mkdir(parents=True, exist_ok=True)
            with record.open("x", encoding="utf-8", newline="") as stream:
                csv.writer(stream).writerows(rows)


def _mentions(distribution: Distribution, imports: re.Pattern[bytes]) -> bool:
    """Whether code of a package imports something, wherever it does."""
    package = package_files.of_distribution(distribution)
    return any(imports.search(package.read(path)) for path in package.members if path.endswith(".py"))
