"""Whether a package leaves its libraries out on a torch, going by the first file of its import.

Packages that guard their libraries by the version of torch do that first. The other files are not read, so the answer
counts only if all of the libraries depend on that guard: whatever is undecided, none of them is loaded on this torch,
and all of them are on another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

from abiscan.python.importing.explore import explore_import
from abiscan.python.importing.runs import Run, RunCache, Runs
from abiscan.python.importing.unreached import asks_for_torch
from abiscan.python.importing.uses import ALL_LOAD, with_other_torch
from abiscan.python.interpreter.machine import Limits
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import OtherTorch, PythonLine, World
from abiscan.python.package.sources import PackageFiles, PackageSources

_LIMITS: Final = Limits(total=400_000)


class LeftOut(Struct, frozen=True, kw_only=True):
    """The libraries of a package are not loaded.

    :ivar torch: a torch on which they are
    :ivar at: the line that loads the first of them there
    """

    torch: OtherTorch
    at: PythonLine


def first_file(package: PackageSources, module: str) -> str | None:
    """Return the file that the import of a module begins with; None if it has no source."""
    stem = module.replace(".", "/")
    members = set(package.members())
    return next((path for path in (f"{stem}/__init__.py", f"{stem}.py") if path in members), None)


def left_out(
    package: PackageSources,
    module: str,
    libraries: Iterable[str],
    world_factory: Callable[[], World],
    torches: Iterable[OtherTorch],
    *,
    surroundings: Surroundings,
) -> LeftOut | None:
    """Tell whether importing a module loads none of the libraries here, and all of them on one of other torches."""
    begin = first_file(package, module)
    if begin is None:
        return None
    # Whether it is worth a run at all is a question to the text of one file.
    library = PythonCode(PackageFiles(_Beginning(package, begin)), (module,), world_factory().python, surroundings)
    if not (library.outline(begin).loads and asks_for_torch(library.source(begin))):
        return None

    all_runs = Runs(library, world_factory, _LIMITS, RunCache())

    def runs(torch: OtherTorch | None) -> Sequence[Run]:
        # What is installed here goes with this torch, and says nothing about another one.
        library.surroundings = surroundings if torch is None else Surroundings()
        return explore_import(all_runs.of(ALL_LOAD if torch is None else with_other_torch(torch)), module).runs

    # No way past what is undecided may load or raise here; on the other torch, every way must load all of them.
    if any(run.trace.attempts or run.raised is not None for run in runs(None)):
        return None
    libraries_left = set(libraries)
    for torch in torches:
        loads = [{attempt.path: attempt for attempt in run.trace.attempts} for run in runs(torch)]
        if all(libraries_left <= load.keys() for load in loads):
            return LeftOut(torch=torch, at=loads[0][min(libraries_left)].at)
    return None


class _Beginning(Struct, frozen=True):
    """The files of a package, as if its other code were empty."""

    package: PackageSources
    first: str

    def members(self) -> Sequence[str]:
        """Return the paths of all its files."""
        return self.package.members()

    def read(self, path: str) -> bytes:
        """Return the bytes of one of them."""
        return self.package.read(path) if path == self.first or not path.endswith(".py") else b""

    def needed(self, path: str) -> Sequence[str]:
        """Return the libraries that one of its libraries needs."""
        return self.package.needed(path)
