"""The reading of a package's Python code: what its imports do on a target, and how it uses its libraries."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from abiscan.python.importing.explore import (
    Explored,
    ends_unknown,
    explore_import,
    explore_loads,
    explore_with_large_bodies,
)
from abiscan.python.importing.runs import RunCache, Runs
from abiscan.python.importing.unreached import unreached_uses
from abiscan.python.importing.uses import (
    ALL_LOAD,
    ALL_LOAD_WITH_LARGE_BODIES,
    LoadsBeyondImport,
    classify_libraries,
    load_on_demand,
)
from abiscan.python.interpreter.machine import Limits
from abiscan.python.interpreter.values import forget_sizes
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import (
    Answer,
    ImportOutcome,
    OtherTorch,
    PythonLine,
    PythonNeed,
    Raised,
    Reading,
    World,
)
from abiscan.python.package.sources import PackageFiles, PackageSources, is_test
from abiscan.python.package.systems import LINUX, PythonSystem
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.regex import regex

if TYPE_CHECKING:
    from abiscan.python.importing.conflicts import Conflict
    from abiscan.python.later.dropped_modules import DroppedImport
    from abiscan.python.later.lost_bases import BaseQuestion
    from abiscan.python.later.mentions import LaterUse
    from abiscan.python.later.numpy_needs import NumpyNeed
    from abiscan.python.later.saved_modules import AddedAttribute
    from abiscan.python.later.version_refusals import OwnRefusal
    from abiscan.python.torch_api.operator_calls import Overload

_LIMITS: Final = Limits()
_ASKS_VERSION: Final = regex(
    rb"torch(?:\.version)?\.__version__[ \t]*(?:[\])}<>=!,.:;[#\\\r\n]|(?:in|not)\b|\Z)"
    rb"|RequirementCache|compare_version"
)
"""What asks for the version of torch, and is not a word in a sentence."""
_WORDS_ASKING: Final = (b"__version__", b"RequirementCache", b"compare_version")
"""What each match of that has in it: to look for words is many times as fast."""
_MOST_SUBMODULES = 20
_OPERATORS: Final = "torch.ops."
_OPTIMIZERS: Final = ("torch.optim.Optimizer", "torch.optim.optimizer.Optimizer")


def _asks_version(code: PythonCode) -> bool:
    files = (file for word in _WORDS_ASKING for file in code.sources_with(word))
    return any(_ASKS_VERSION.search(code.source(file)) for file in files)


def _of_no_torch(_library: str) -> Sequence[OtherTorch]:
    return ()


class PackageReader:
    """Reads a package for one target after the other: its code is run once for targets that answer alike.

    :param modules: the names that it is imported by; if there are none, its metadata or its files say
    :param other_modules: the other modules that it installs: only what importing them does is read
    :param built_for: returns the torches that a library was built for, by its path; the same each time
    :param system: the operating system of the target
    """

    def __init__(
        self,
        package: PackageSources,
        modules: Sequence[str] = (),
        built_for: Callable[[str], Sequence[OtherTorch]] = _of_no_torch,
        system: PythonSystem = LINUX,
        other_modules: Sequence[str] = (),
    ) -> None:
        self._files = PackageFiles(package, system)
        self._modules = modules or self._files.top_level()
        self._other_modules = other_modules
        self._built_for = built_for
        self._code: dict[tuple[tuple[int, int] | Answer, Surroundings], PythonCode] = {}
        self._done: dict[tuple[tuple[str | None, ...], Surroundings], RunCache] = {}
        """The runs: those of Pythons for which the same files are modules are one, where these answer alike."""
        self._open_loads: tuple[PythonLine, ...] | None = None

    def read(
        self, fresh: Callable[[], World], surroundings: Surroundings | None = None, *, limits: Limits = _LIMITS
    ) -> Reading:
        """Read what importing the package does.

        :param fresh: gives a world of the target in which nothing is loaded yet
        """
        code, done = self._code_for(fresh(), surroundings)
        with _without_collector():
            runs = Runs(code, fresh, limits, done)
            reading = _read_modules(runs, self._built_for)
            return replace(reading, other_outcomes=tuple(_read_others(runs, self._other_modules, reading)))

    def ends_unknown(self, fresh: Callable[[], World], surroundings: Surroundings | None) -> bool:
        """Whether the end of an import of the package is not known on a target.

        These runs are the first of ``read``, and a small part of it.
        """
        code, done = self._code_for(fresh(), surroundings)
        with _without_collector():
            runs = Runs(code, fresh, _LIMITS, done)
            return any(ends_unknown(runs, name) for name in code.modules)

    def later_uses(
        self,
        world: World,
        surroundings: Surroundings | None = None,
        own: Callable[[], Mapping[str, Sequence[Overload]]] = dict,
        imports: Sequence[ImportOutcome] = (),
    ) -> tuple[LaterUse, ...]:
        """Return the uses of names that the torch of a target lacks: see ``later_names``.

        :param imports: what importing the package does
        """
        names = world.torch_names
        if not names:
            return ()
        from abiscan.python.later.device_modules import uses_on_cpus
        from abiscan.python.later.kept_keywords import kept_keywords
        from abiscan.python.later.known_torch import facts_of
        from abiscan.python.later.later_names import later_uses
        from abiscan.python.later.mentions import LaterUse

        with _without_collector():
            code = self._code_for(world, surroundings)[0]
            imported = frozenset[str]().union(*(outcome.imported for outcome in imports))
            on_cpus = (
                LaterUse(name=use.name, file=use.file, line=use.line, function=use.function, how="device")
                for use in uses_on_cpus(code, names)
            )
            beside = (*_companions_of(code, world), *_others_of(code))
            later = later_uses(code, names, beside, own, imported, facts_of(world, code.files.system))
            named = {(use.name, use.error) for use in later}
            passed = tuple(kept_keywords(code, names))
            if code.sources_with(b".defaults"):
                from abiscan.python.later.passed_defaults import passed_defaults

                passed += tuple(passed_defaults(code, names))
            if code.sources_with(b"getattr(torch"):
                from abiscan.python.later.looked_up_names import looked_up_names

                passed += tuple(looked_up_names(code, names))
            kept = (use for use in passed if (use.name, use.error) not in named)
            bare: Iterable[LaterUse] = ()
            if not code.all_torch_uses.isdisjoint(_OPTIMIZERS):  # few packages have one of their own
                from abiscan.python.later.uninitialised import uninitialised_optimizers

                bare = uninitialised_optimizers(code, names)
            return tuple(sorted((*later, *kept, *on_cpus, *bare)))

    def own_refusals(self, world: World, surroundings: Surroundings | None = None) -> tuple[OwnRefusal, ...]:
        """Return the functions that refuse the torch of a target themselves: see ``version_refusals``."""
        names = world.torch_names
        code = self._code_for(world, surroundings)[0]
        # Few packages ask, and to follow what all their conditions call takes longer.
        if not names or names.release is None or not _asks_version(code):
            return ()
        from abiscan.python.later.version_refusals import own_refusals
        from abiscan.python.later.version_tests import KnownTorch

        with _without_collector():
            return tuple(own_refusals(code, KnownTorch(release=names.release)))

    def base_questions(self, world: World, surroundings: Surroundings | None = None) -> tuple[BaseQuestion, ...]:
        """Return where the package asks for classes of torch that lost their subclasses: see ``lost_bases``."""
        names = world.torch_names
        code = self._code_for(world, surroundings)[0]
        if not names or "torch.optim.lr_scheduler._LRScheduler" not in code.all_torch_uses:
            return ()
        from abiscan.python.later.lost_bases import base_questions

        with _without_collector():
            return tuple(sorted(base_questions(code, names)))

    def conflicts(self, fresh: Callable[[], World], surroundings: Surroundings | None = None) -> tuple[Conflict, ...]:
        """Return the imports that fail if a package is there which is not required: see ``conflicts``."""
        world = fresh()
        if not world.torch_names:
            return ()
        from abiscan.python.importing.conflicts import conflicts

        with _without_collector():
            code, done = self._code_for(world, surroundings)
            return tuple(conflicts(Runs(code, fresh, _LIMITS, done)))

    def open_loads(self, world: World, surroundings: Surroundings | None = None) -> tuple[PythonLine, ...]:
        """Return where files are loaded that the torch of a target may refuse: see ``loaded_files``."""
        names = world.torch_names
        code = self._code_for(world, surroundings)[0]
        if not names or "torch.load" not in code.all_torch_uses:
            return ()
        from abiscan.python.later.loaded_files import open_loads, refuses_objects

        if not refuses_objects(names):
            return ()
        # The same for each torch that does, and a matrix has a dozen of them.
        if self._open_loads is None:
            self._open_loads = tuple(open_loads(code))
        return self._open_loads

    def old_modules(
        self, world: World, surroundings: Surroundings | None = None
    ) -> tuple[tuple[AddedAttribute, ...], tuple[PythonLine, ...]]:
        """Return what modules lack that an older torch has saved, and where they are loaded: see ``saved_modules``."""
        names = world.torch_names
        code = self._code_for(world, surroundings)[0]
        if not names or "torch.load" not in code.all_torch_uses:
            return (), ()
        from abiscan.python.later.loaded_files import refuses_objects
        from abiscan.python.later.saved_modules import added_attributes, loads_of_modules

        # What refuses whole objects by its default is another finding.
        attributes = () if refuses_objects(names) else added_attributes(names)
        lines = tuple(loads_of_modules(code)) if attributes else ()
        return (attributes, lines) if lines else ((), ())

    def dropped_imports(self, world: World, surroundings: Surroundings | None = None) -> tuple[DroppedImport, ...]:
        """Return what the code imports that new releases of other packages no longer have: see ``dropped_modules``."""
        code = self._code_for(world, surroundings)[0]
        # What the module knows of, by its words: few packages have any of it.
        if "torch.utils.cpp_extension" not in code.all_torch_uses and not (
            code.sources_with(b"pkg_resources") or code.sources_with(b"torchdata")
        ):
            return ()
        from abiscan.python.later.dropped_modules import dropped_imports

        torch = world.torch_version
        return tuple(dropped_imports(code, None if isinstance(torch, Answer) else torch, world.torch_names))

    def numpy_needs(self, world: World, surroundings: Surroundings | None = None) -> tuple[NumpyNeed, ...]:
        """Return what fails with newer numpys that may be installed: see ``numpy_needs``."""
        code = self._code_for(world, surroundings)[0]
        if not world.torch_names or not any(b"numpy" in code.source(file) for file in code.sources):
            return ()
        from abiscan.python.later.numpy_needs import numpy_needs

        with _without_collector():
            return tuple(numpy_needs(code, world))

    def python_needs(self, world: World, surroundings: Surroundings | None = None) -> tuple[PythonNeed, ...]:
        """Return what fails on newer Pythons that may import the package: see ``compile_limits``, ``standard_needs``,
        and ``dataclass_defaults``.
        """
        from abiscan.python.package.compile_limits import compile_needs

        code = self._code_for(world, surroundings)[0]
        needs = tuple(compile_needs(code, world))
        if code.with_lost:
            from abiscan.python.later.standard_needs import standard_needs

            needs = (*needs, *standard_needs(code, world))
        if not any(b"@dataclass" in code.source(file) for file in code.sources):
            return needs
        from abiscan.python.later.dataclass_defaults import default_needs

        return (*needs, *default_needs(code, world))

    def failing_submodules(
        self,
        fresh: Callable[[], World],
        surroundings: Surroundings | None,
        imports: Sequence[ImportOutcome],
        counts: Callable[[ImportOutcome], bool],
    ) -> tuple[ImportOutcome, ...]:
        """Return the imports of public submodules that fail where those of the package succeed: see ``submodules``."""
        world = fresh()
        if not world.torch_names:
            return ()
        from abiscan.python.importing.submodules import failing_submodules

        with _without_collector():
            code, done = self._code_for(world, surroundings)
            runs = Runs(code, fresh, _LIMITS, done)
            return failing_submodules(runs, imports, world.torch_names, _companions_of(code, world), counts)

    def misses_names(self, world: World, surroundings: Surroundings | None = None) -> bool:
        """Whether a module seems to use, as it is imported, a name that the torch of a target lacks, or an operator.

        This is a look at the sources, which takes a small part of the time that reading them takes.
        """
        names = world.torch_names
        if names is None:
            return True
        from abiscan.python.interpreter.models.companions import may_miss

        code = self._code_for(world, surroundings)[0]
        companions = _companions_of(code, world)
        return any(
            names.misses(code, file)
            or any(may_miss(code, file, versions) for versions in companions)
            or any(code.uses_at_import(file, use) for use in code.torch_uses(file) if use.startswith(_OPERATORS))
            for file in (*code.sources, *self._files.importable_sources(self._other_modules))
        )

    def _code_for(self, world: World, surroundings: Surroundings | None) -> tuple[PythonCode, RunCache]:
        key = world.python, surroundings or Surroundings()
        if key not in self._code:
            twin = next((code for (_, around), code in self._code.items() if around == key[1]), None)
            self._code[key] = PythonCode(self._files, self._modules, *key) if twin is None else twin.on(key[0])
        done = self._done.setdefault((self._files.extensions(key[0]), key[1]), RunCache())
        return self._code[key], done


def read_package(
    package: PackageSources,
    modules: Sequence[str],
    fresh: Callable[[], World],
    *,
    surroundings: Surroundings | None = None,
    built_for: Callable[[str], Sequence[OtherTorch]] = _of_no_torch,
    system: PythonSystem = LINUX,
    limits: Limits = _LIMITS,
) -> Reading:
    """Read what importing a package does on one target: see ``PackageReader``."""
    return PackageReader(package, modules, built_for, system).read(fresh, surroundings, limits=limits)


def follow_imports(
    package: PackageSources,
    modules: Sequence[str],
    fresh: Callable[[], World],
    *,
    surroundings: Surroundings,
) -> tuple[ImportOutcome, ...]:
    """Return what the imports alone do, as ``read``."""
    with _without_collector():
        library = PythonCode(PackageFiles(package), modules, fresh().python, surroundings)
        runs = Runs(library, fresh, _LIMITS, RunCache())
        return tuple(explore_with_large_bodies(runs, name).outcome for name in modules)


def _companions_of(code: PythonCode, world: World) -> tuple[Sequence[TorchNames], ...]:
    """Return the versions that may be there of each package other than torch that a package mentions."""
    from abiscan.python.interpreter.models.companions import names_of

    return tuple(names_of(world, code, package) for package in code.companions)


def _others_of(code: PythonCode) -> Iterator[Sequence[TorchNames]]:
    """Yield the names of each other package that is there and that a package imports."""
    others = code.other_names
    if others is not None:
        tops = dict.fromkeys(top for file in code.sources if code.is_for_users(file) for top in others.tops_in(file))
        yield from ((others.of(top),) for top in tops)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Stop the garbage collector for a while: syntax trees are many objects and no garbage.

    Nor does the first collection afterwards go through them: they join the oldest objects.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        forget_sizes()
        if enabled:
            # Freezing moves all objects into the permanent generation, and unfreezing from there into the oldest one
            # (gc_freeze and gc_unfreeze in Modules/gcmodule.c). What others have frozen would be unfrozen, too.
            if not _has_frozen_objects():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@functools.cache
def _has_frozen_objects() -> bool:
    """Whether this process keeps objects from all collections: asked once, since they are counted one by one."""
    return gc.get_freeze_count() > 0


def _read_modules(runs: Runs, built_for: Callable[[str], Sequence[OtherTorch]]) -> Reading:
    library = runs.library
    names = tuple(library.modules)
    main = [explore_with_large_bodies(runs, name) for name in names]
    if not library.files.libraries:
        return Reading(imports=tuple(explored.outcome for explored in main))
    # What follows asks how the libraries are meant to be used, so what the package requires is assumed to be installed.
    # The import itself was followed with what is really there.
    library.assumptions.has_requirements = True
    # An import that fails here does not get to all of its loads: those are seen where every library loads.
    failed = [explored.outcome.module for explored in main if explored.outcome.raised is not None]
    whole = [explore_loads(runs.of(ALL_LOAD), name) for name in failed]
    groups = (*(explored.runs for explored in main), *whole)
    imports = [run for explored in main for run in explored.runs]
    after = load_on_demand(runs, names, imports, [run for group in whole for run in group])
    uses = classify_libraries(library, runs.world(), groups, after)
    uses |= unreached_uses(runs, names, uses, built_for)
    library.assumptions.has_requirements = False
    # Public submodules with a library of their own are imports that users do, too, with what is really there again.
    apart = [explore_import(runs, name) for name in _with_own_libraries(library, main, after)]
    return Reading(imports=tuple(_compare_with_all_loading(explored, runs) for explored in (*main, *apart)), uses=uses)


def _read_others(runs: Runs, modules: Sequence[str], reading: Reading) -> Iterator[ImportOutcome]:
    """Yield the outcomes of the imports of other modules; what others have imported is not read again."""
    done = [outcome for outcome in reading.imports if outcome.raised is None]
    for name in modules[:_MOST_SUBMODULES]:
        located = runs.library.locate(name)
        if located is not None and any(located.file in outcome.imported for outcome in done):
            yield ImportOutcome(module=name, raised=None)
            continue
        outcome = explore_import(runs, name).outcome
        if outcome.raised is None:
            done.append(outcome)
        yield outcome


def _compare_with_all_loading(explored: Explored, runs: Runs) -> ImportOutcome:
    """Return an outcome that says, where loads have failed, if the import raises the same when they succeed."""
    outcome, raised = explored.outcome, explored.outcome.raised
    failed = any(isinstance(load.raised, Raised) for load in outcome.loads)
    # An exception with a cause names what it comes from; without one, it may only be the consequence of a failed load.
    if not failed or not isinstance(raised, Raised) or raised.cause is not None:
        return outcome
    kind = ALL_LOAD_WITH_LARGE_BODIES if explored.with_large_bodies else ALL_LOAD
    return replace(outcome, regardless=runs.of(kind).run(outcome.module).raised == raised)


def _with_own_libraries(library: PythonCode, main: Sequence[Explored], after: LoadsBeyondImport) -> list[str]:
    """Return the public submodules, without tests, that load a library which importing the package does not load."""
    loaded = {attempt.path for explored in main for run in explored.runs for attempt in run.trace.attempts}
    return [
        name
        for name, attempts in after.by_module.items()
        if any(explored.path not in loaded for explored in attempts)
        and not any(part.startswith("_") for part in name.split("."))
        and not ((located := library.locate(name)) and is_test(located.file or ""))
    ][:_MOST_SUBMODULES]
