"""The reading of a package's Python code: what its imports do on a target, and how it uses its libraries."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from abiscan.python.explore import Explored, explore
from abiscan.python.installed import Surroundings
from abiscan.python.library import PythonCode
from abiscan.python.machine import Limits
from abiscan.python.model import ImportOutcome, OtherTorch, Reading, World
from abiscan.python.sources import PackageFiles, PackageSources
from abiscan.python.unreached import unreached
from abiscan.python.uses import Later, Willing, classify, later

_SECONDS = 5.0
_MOST_SUBMODULES = 20


def _of_no_torch(_library: str) -> Sequence[OtherTorch]:
    return ()


def read(
    package: PackageSources,
    modules: Sequence[str],
    world_factory: Callable[[], World],
    *,
    surroundings: Surroundings | None = None,
    built_for: Callable[[str], Sequence[OtherTorch]] = _of_no_torch,
    seconds: float = _SECONDS,
) -> Reading:
    """Read what importing a package does.

    ``modules`` are the names that it is imported by; if there are none, its metadata or its files say.
    ``world_factory`` gives a world in which nothing is loaded yet. ``built_for`` answers for a library by its path.
    """
    with _without_collector():
        return _read(
            PackageFiles(package),
            modules,
            world_factory,
            surroundings or Surroundings(),
            built_for,
            Limits.seconds(seconds),
        )


def follow(
    package: PackageSources,
    modules: Sequence[str],
    world_factory: Callable[[], World],
    *,
    surroundings: Surroundings,
    seconds: float = _SECONDS,
) -> tuple[ImportOutcome, ...]:
    """What the imports alone do, as ``read``."""
    with _without_collector():
        library = PythonCode(PackageFiles(package), world_factory().python, surroundings)
        limits = Limits.seconds(seconds)
        return tuple(explore(library, world_factory, name, limits).outcome for name in modules)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Syntax trees are many objects and no garbage: collecting while they are made takes as long as making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read(
    files: PackageFiles,
    modules: Sequence[str],
    world_factory: Callable[[], World],
    surroundings: Surroundings,
    built_for: Callable[[str], Sequence[OtherTorch]],
    limits: Limits,
) -> Reading:
    library = PythonCode(files, world_factory().python, surroundings)
    names = modules or files.top_level()
    main = [explore(library, world_factory, name, limits) for name in names]
    if not files.libraries:
        return Reading(imports=tuple(one.outcome for one in main))
    library.has_requirements = True
    cut_short = [one.outcome.module for one in main if one.outcome.raised is not None]
    whole = [explore(library, lambda: Willing(world_factory()), name, limits) for name in cut_short]
    groups = tuple(one.runs for one in (*main, *whole))
    after = later(library, world_factory(), names, [run for one in main for run in one.runs], limits)
    uses = classify(library, world_factory(), groups, after)
    uses |= unreached(library, world_factory, names, uses, built_for, limits)
    library.has_requirements = False
    apart = [explore(library, world_factory, name, limits) for name in _with_own_libraries(main, after)]
    return Reading(imports=tuple(one.outcome for one in (*main, *apart)), uses=uses)


def _with_own_libraries(main: Sequence[Explored], after: Later) -> list[str]:
    """The public submodules that load a library which importing the package does not load."""
    loaded = {attempt.path for one in main for run in one.runs for attempt in run.trace.attempts}
    return [
        name
        for name, attempts in after.by_module.items()
        if any(one.path not in loaded for one in attempts) and not any(part.startswith("_") for part in name.split("."))
    ][:_MOST_SUBMODULES]
