"""The reading of a package's Python code: what its imports do on a target, and how it uses its libraries."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from abiscan.python.explore import Explored, explore, run
from abiscan.python.installed import Surroundings
from abiscan.python.library import PythonCode
from abiscan.python.machine import Limits
from abiscan.python.model import Answer, ImportOutcome, OtherTorch, Raised, Reading, World
from abiscan.python.questions import Answered, AskedWorld, Questions
from abiscan.python.sources import PackageFiles, PackageSources
from abiscan.python.systems import LINUX, PythonSystem
from abiscan.python.unreached import unreached
from abiscan.python.uses import Elsewhere, Later, WillingImports, classify, later

_SECONDS = 5.0
_MOST_SUBMODULES = 20


def _of_no_torch(_library: str) -> Sequence[OtherTorch]:
    return ()


class PackageReader:
    """Reads a package for one target after the other: its sources once, and its imports once for targets that agree.

    :param modules: the names that it is imported by; if there are none, its metadata or its files say
    :param built_for: answers for a library by its path, and always alike
    :param system: the one that it is for
    """

    def __init__(
        self,
        package: PackageSources,
        modules: Sequence[str] = (),
        built_for: Callable[[str], Sequence[OtherTorch]] = _of_no_torch,
        system: PythonSystem = LINUX,
    ) -> None:
        self._files = PackageFiles(package, system)
        self._modules = modules or self._files.top_level()
        self._built_for = built_for
        self._code: dict[tuple[tuple[int, int] | Answer, Surroundings], tuple[PythonCode, Elsewhere]] = {}
        self._answered: dict[Surroundings, Answered] = {}
        self._patience = 1.0

    def read(
        self, fresh: Callable[[], World], surroundings: Surroundings | None = None, *, seconds: float = _SECONDS
    ) -> Reading:
        """Read what importing the package does.

        :param fresh: gives a world of the target in which nothing is loaded yet
        :param seconds: of processor time that it may take; half as many for each target before that took all of it
        """
        surroundings = surroundings or Surroundings()
        answered = self._answered.setdefault(surroundings, Answered())
        known = answered.reading(fresh)
        if known is None:
            questions, limits = Questions(fresh), Limits.seconds(seconds * self._patience)
            with _without_collector():
                known = self._read(questions.world, surroundings, limits)
            answered.keep(questions, known)
            if limits.reached:
                self._patience /= 2  # or else it would take all releases of torch minutes
        return known

    def _read(self, fresh: Callable[[], AskedWorld], surroundings: Surroundings, limits: Limits) -> Reading:
        python = fresh().python
        code = PythonCode(self._files, self._modules, python, surroundings)
        code, elsewhere = self._code.setdefault((python, surroundings), (code, {}))
        return _read(code, fresh, self._built_for, limits, elsewhere)


def read(
    package: PackageSources,
    modules: Sequence[str],
    fresh: Callable[[], World],
    *,
    surroundings: Surroundings | None = None,
    built_for: Callable[[str], Sequence[OtherTorch]] = _of_no_torch,
    system: PythonSystem = LINUX,
    seconds: float = _SECONDS,
) -> Reading:
    """Read what importing a package does on one target: see ``PackageReader``."""
    return PackageReader(package, modules, built_for, system).read(fresh, surroundings, seconds=seconds)


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
        fresh, limits = Questions(world_factory).world, Limits.seconds(seconds)
        library = PythonCode(PackageFiles(package), modules, fresh().python, surroundings)
        return tuple(explore(library, fresh, name, limits).outcome for name in modules)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Syntax trees are many objects and no garbage: collecting while they are made takes as long as making them.

    Nor are they looked through afterwards, in the first collection: they join the oldest objects.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _read(
    library: PythonCode,
    fresh: Callable[[], AskedWorld],
    built_for: Callable[[str], Sequence[OtherTorch]],
    limits: Limits,
    elsewhere: Elsewhere,
) -> Reading:
    names = library.modules
    main = [explore(library, fresh, name, limits) for name in names]
    if not library.files.libraries:
        return Reading(imports=tuple(one.outcome for one in main))
    library.has_requirements = True
    cut_short = [one.outcome.module for one in main if one.outcome.raised is not None]
    willing = WillingImports(library, fresh, limits, elsewhere)
    whole = [explore(library, willing.world, name, limits, willing.run(name)) for name in cut_short]
    groups = tuple(one.runs for one in (*main, *whole))
    after = later(library, willing, names, [run for one in main for run in one.runs], limits)
    uses = classify(library, fresh(), groups, after)
    uses |= unreached(library, willing, names, uses, built_for)
    library.has_requirements = False
    apart = [explore(library, fresh, name, limits) for name in _with_own_libraries(main, after)]
    outcomes = (one.outcome for one in (*main, *apart))
    return Reading(imports=tuple(_compared(one, library, willing, limits) for one in outcomes), uses=uses)


def _compared(outcome: ImportOutcome, library: PythonCode, willing: WillingImports, limits: Limits) -> ImportOutcome:
    """An outcome, compared with the import where every library loads if one of those that failed may be behind it."""
    raised = outcome.raised
    failed = any(isinstance(load.raised, Raised) for load in outcome.loads)
    if not failed or not isinstance(raised, Raised) or raised.cause is not None:
        return outcome
    same = run(library, willing.world(), outcome.module, {}, limits).raised == raised
    return replace(outcome, regardless=same)


def _with_own_libraries(main: Sequence[Explored], after: Later) -> list[str]:
    """The public submodules that load a library which importing the package does not load."""
    loaded = {attempt.path for one in main for run in one.runs for attempt in run.trace.attempts}
    return [
        name
        for name, attempts in after.by_module.items()
        if any(one.path not in loaded for one in attempts) and not any(part.startswith("_") for part in name.split("."))
    ][:_MOST_SUBMODULES]
