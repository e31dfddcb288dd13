"""How a package uses each of its libraries: from what its import loads, and from what it may load later."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any, Final

from msgspec import Struct

from abiscan.python.importing.runs import Run, Runs, WorldKind, load_everything
from abiscan.python.interpreter.conventions import fits_target, parts_named_by
from abiscan.python.interpreter.imports import PythonInterpreter
from abiscan.python.interpreter.machine import STEPS_WITH_LARGE_BODIES, Attempt, Exhausted, ProcessEnded, Unreadable
from abiscan.python.interpreter.questions import AskedWorld
from abiscan.python.interpreter.values import Class, NotKnown, PythonFunction, PythonModule, Thrown, Why
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import (
    Answer,
    HowLoaded,
    LibraryUse,
    LoadedBy,
    NoResult,
    OtherTorch,
    PythonLine,
    Raised,
    World,
)
from abiscan.python.torch_api.torch_names import TorchNames

_MOST_MODULES = 200
_MOST_CHOICES = 6
_STEPS_OF_FUNCTION: Final = 100_000


class _OtherTorchWorld:
    """The world of a target, with another torch in it."""

    def __init__(self, world: World, torch: OtherTorch) -> None:
        self.torch_version, self.cuda = torch.version, torch.cuda
        # What it has of the target's is also in ``_around_torch``.
        self.python, self.machine = world.python, world.machine
        self.oldest_python, self.newest_python = world.oldest_python, world.newest_python
        self.cxx11_abi: bool | Answer = Answer.UNKNOWN
        self.torch_names: TorchNames | None = None
        self.cpu, self.gpus = world.cpu, world.gpus

    def load(self, path: str | None, loader: LoadedBy) -> Raised | Answer | None:
        """Answer a question that nobody asks: see ``AllLoadWorld``."""
        return Answer.UNKNOWN

    def operator(self, name: str) -> bool | Answer:
        """Answer a question that nobody asks."""
        return Answer.UNKNOWN

    def call(self, operator: str) -> int | bool | str | NoResult | None:
        """Answer a question that nobody asks."""
        return NoResult(reason=f"{operator} is not called")

    def refused_load(self, path: str) -> str | None:
        """Say nothing of what it loads."""
        return None


class AllLoadWorld:
    """A world in which every library loads and every operator is there: to see what the code may get to."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._has_loaded = False

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._world, name)
        self.__dict__[name] = value  # while something is read, nothing of the target changes but what loads lead to
        return value

    def load(self, _path: str | None, _loader: LoadedBy) -> Raised | Answer | None:
        """Let the library load."""
        self._has_loaded = True
        return None

    def operator(self, name: str) -> bool | Answer:
        """Say that an operator may be there once something is loaded."""
        may_be_new = self._has_loaded and not name.startswith("aten::")
        return Answer.UNKNOWN if may_be_new else self._world.operator(name)

    def call(self, operator: str) -> NoResult:
        """Leave open what the operator returns."""
        return NoResult(reason=f"{operator} is assumed to be there")


class RefusingWorld(AllLoadWorld):
    """A world in which some libraries do not load: to see what the code tries instead."""

    def __init__(self, world: World, refused: Container[str | None]) -> None:
        super().__init__(world)
        self.refused = refused

    def load(self, path: str | None, loader: LoadedBy) -> Raised | Answer | None:
        """Let the library load, unless it is one of those that are refused."""
        self._has_loaded = True
        error = "ImportError" if loader is LoadedBy.IMPORT else "OSError"
        return Raised(exception=error, message=None, at=None) if path in self.refused else None


ALL_LOAD: Final = WorldKind(world=AllLoadWorld, goes_on=True)
ALL_LOAD_WITH_LARGE_BODIES: Final = WorldKind(world=AllLoadWorld, large_bodies=STEPS_WITH_LARGE_BODIES)


def with_other_torch(torch: OtherTorch) -> WorldKind:
    """Return a kind of world in which every library loads, with another torch in place of the target's."""
    return WorldKind(
        world=lambda world: AllLoadWorld(_OtherTorchWorld(world, torch)),
        decides=lambda world: (torch, *_around_torch(world)),
    )


def _around_torch(world: World) -> tuple[Hashable, ...]:
    """Return what a world with another torch in it has of the target's."""
    return world.python, world.oldest_python, world.newest_python, world.machine, world.cpu, world.gpus


class LoadsBeyondImport(Struct, frozen=True, kw_only=True):
    """What the code may load beyond its usual import.

    :ivar loads_after_failure: what it loads in place of what fails
    :ivar by_module: what the import of other modules of the package loads, by their names
    :ivar loads_on_demand: what functions load that the import does not call
    """

    loads_after_failure: list[Attempt]
    by_module: dict[str, list[Attempt]]
    loads_on_demand: list[Attempt]

    def attempts(self) -> Iterable[Attempt]:
        """Yield all attempts."""
        yield from self.loads_after_failure
        yield from (attempt for attempts in self.by_module.values() for attempt in attempts)
        yield from self.loads_on_demand


def list_loads_after_failure(runs: Runs, modules: Sequence[str]) -> list[Attempt]:
    """Return what the package tries to load, one after the other, if all that it can do without does not load."""
    all_load = runs.of(ALL_LOAD)
    attempts = [attempt for name in modules for attempt in all_load.run(name).trace.attempts]
    # In each round, the libraries that the package has loaded so far and can do without fail, to see what it tries
    # next.
    tried = list(attempts)
    refused: frozenset[str | None] = frozenset()
    for _ in range(_MOST_CHOICES - 1):
        guarded = {attempt.path for attempt in attempts if attempt.guarded}
        if guarded <= refused:
            break
        refused |= guarded
        one_refused = runs.of(WorldKind(world=functools.partial(RefusingWorld, refused=refused)))
        attempts = one_refused.run_cached(("import", modules), functools.partial(_attempts_of, modules=modules))
        tried.extend(attempts)
    return tried


def _attempts_of(machine: PythonInterpreter, modules: Sequence[str]) -> list[Attempt]:
    with suppress(Exhausted):
        for name in modules:
            try_import(machine, name)
    return machine.trace.attempts


def try_import(machine: PythonInterpreter, name: str) -> bool:
    """Import a module; return whether that succeeds."""
    try:
        machine.import_module(name)
    except (Thrown, ProcessEnded, RecursionError, Unreadable):
        return False
    return True


def load_on_demand(
    runs: Runs, modules: Sequence[str], imports: Sequence[Run], whole: Sequence[Run]
) -> LoadsBeyondImport:
    """Import the modules that the package's import does not reach, and call the functions that nothing called.

    :param imports: what importing the package does
    :param whole: what it does where every library loads, if it fails here
    """
    library = runs.library
    if load_everything(library, imports):
        return LoadsBeyondImport(loads_after_failure=[], by_module={}, loads_on_demand=[])
    imported = {file for run in imports for file in run.trace.imported}
    by_module: dict[str, list[Attempt]] = {}
    in_functions: list[Attempt] = []
    failing: list[Attempt] = []
    with suppress(Exhausted):
        # All modules in one run, so that what they share is run once. It goes on from the import that it begins with,
        # which is asked for below, too.
        all_load = runs.of(ALL_LOAD)
        first = library.loading_sources[0].partition("/")[0].removesuffix(".py") if library.loading_sources else ""
        if first in modules:
            all_load.run(first)
        tried, in_functions = all_load.run_cached("all modules", _try_all, after=first)
        for name, attempts in tried:
            located = library.locate(name)
            if located is not None and located.file not in imported:
                by_module.setdefault(name, attempts)
        failing = [] if load_everything(library, whole) else list_loads_after_failure(runs, modules)
    in_functions = [*in_functions, *_imported_in_functions(library)]
    return LoadsBeyondImport(loads_after_failure=failing, by_module=by_module, loads_on_demand=in_functions)


def _try_all(machine: PythonInterpreter) -> tuple[list[tuple[str, list[Attempt]]], list[Attempt]]:
    """Return what the import of each module that may load something tries, and what the functions then do."""
    tried: list[tuple[str, list[Attempt]]] = []
    in_functions: list[Attempt] = []
    library = machine.library
    with suppress(Exhausted):
        for path in library.loading_sources[:_MOST_MODULES]:
            parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
            for name in accumulate(parts, "{}.{}".format):  # each package is imported before what is in it
                before = len(machine.trace.attempts)
                succeeds = try_import(machine, name)
                tried.append((name, machine.trace.attempts[before:]))
                if not succeeds:
                    break
        before = len(machine.trace.attempts)
        _call_all(library, machine)
        in_functions = machine.trace.attempts[before:]
    return tried, in_functions


def _imported_in_functions(library: PythonCode) -> Iterable[Attempt]:
    """Yield the extension modules that functions import when they are called, whoever calls them."""
    for path, extension, line in library.extensions_in_functions:
        at = PythonLine(file=path, line=line)
        yield Attempt(path=extension, loader=LoadedBy.IMPORT, at=at, raised=None, guarded=False)


def _call_all(library: PythonCode, machine: PythonInterpreter) -> None:
    most_steps = machine.most_steps
    for module in list(machine.modules.values()):
        if not isinstance(module, PythonModule) or module.file is None or not library.outline(module.file).loads:
            continue
        # Every function that may load something and that nothing has called, with arguments that are not known: what it
        # loads, the package loads on demand.
        for function in list(_functions_of(module)):
            if function.node not in machine.trace.called and library.acts(function.node):
                unknown: list[object] = [NotKnown(parameter.arg, Why.ARGUMENT) for parameter in function.node.args.args]
                # A loop that the arguments would end must not take the steps of all others.
                machine.most_steps = min(machine.steps + _STEPS_OF_FUNCTION, most_steps)
                with suppress(Thrown, ProcessEnded, RecursionError, Exhausted):
                    machine.call(function, unknown, {})
                machine.most_steps = most_steps
                machine.count_steps(0)


def _functions_of(module: PythonModule) -> Iterable[PythonFunction]:
    for value in list(module.names.values()):
        inner = getattr(value, "function", value)
        if isinstance(inner, PythonFunction) and inner.scope.module is module:
            yield inner
        if isinstance(value, Class) and value.module == module.name:
            yield from (function for function in value.names.values() if isinstance(function, PythonFunction))


def classify_libraries(
    library: PythonCode, world: AskedWorld, runs: tuple[tuple[Run, ...], ...], after: LoadsBeyondImport
) -> dict[str, LibraryUse]:
    """Return each library of the package, and how it is used."""
    # From the strongest to the weakest evidence: a load during the import, a load at some other time, the name next to
    # that of a library that is used, and the needs of such libraries. What remains is never loaded, if no load was seen
    # whose path is not known.
    at_import: dict[str, LibraryUse] = {}
    for group in reversed(runs):  # the first module that loads one counts
        at_import.update(_at_import(group))
    beyond = _first_attempts(after.attempts())
    uses: dict[str, LibraryUse] = {}
    for path in library.files.libraries:
        if path in at_import:
            uses[path] = at_import[path]
        elif path in beyond:
            attempt = beyond[path]
            how = HowLoaded.CONDITIONAL if attempt in after.loads_after_failure else HowLoaded.ON_DEMAND
            uses[path] = LibraryUse(path=path, how=how, at=attempt.at)
    _mark_alternatives(library, world, uses)
    _mark_needed(library, uses)
    how, at = _use_without_load(runs, after)
    for path in library.files.libraries:
        if path in uses:
            continue
        if _no_python_imports(library, path):
            uses[path] = LibraryUse(path=path, how=HowLoaded.NEVER, at=None, unimportable=True)
        else:
            uses[path] = LibraryUse(path=path, how=how, at=at)
    return uses


def _use_without_load(
    runs: tuple[tuple[Run, ...], ...], after: LoadsBeyondImport
) -> tuple[HowLoaded, PythonLine | None]:
    """Return how libraries are used that no load was seen of: perhaps by a load whose path could not be followed."""
    at_import = (attempt for group in runs for run in group for attempt in run.trace.attempts)
    if any(attempt.path is None for attempt in (*at_import, *after.loads_after_failure)):
        return HowLoaded.UNKNOWN, None
    unclear = next((attempt.at for attempt in after.attempts() if attempt.path is None), None)
    return (HowLoaded.NEVER, None) if unclear is None else (HowLoaded.ON_DEMAND, unclear)


def _first_attempts(attempts: Iterable[Attempt]) -> dict[str, Attempt]:
    """Return the first attempt to load each library."""
    first: dict[str, Attempt] = {}
    for attempt in attempts:
        if attempt.path is not None:
            first.setdefault(attempt.path, attempt)
    return first


def _at_import(group: Sequence[Run]) -> dict[str, LibraryUse]:
    """Return the libraries that the import of one module loads."""
    runs = [(run, _first_attempts(run.trace.attempts)) for run in group]
    uses: dict[str, LibraryUse] = {}
    for path in {path for _, first in runs for path in first}:
        firsts = [(run, first.get(path)) for run, first in runs]
        attempts = [attempt for _, attempt in firsts if attempt is not None]
        # A library is always loaded if every usual run loads it. Runs with packages that are not required only add
        # libraries.
        usual = [attempt for run, attempt in firsts if not run.optional]
        how = HowLoaded.IMPORT if all(usual) else HowLoaded.CONDITIONAL
        if how is HowLoaded.IMPORT and any(attempt.guarded or attempt.told is not None for attempt in attempts):
            how = HowLoaded.GUARDED
        uses[path] = LibraryUse(path=path, how=how, at=attempts[0].at)
    return uses


def _mark_alternatives(library: PythonCode, world: AskedWorld, uses: dict[str, LibraryUse]) -> None:
    """Mark the libraries next to one that is used which are for another version of torch, CUDA or Python."""
    names = {path: parts_named_by(path) for path in library.files.libraries}
    # The names of files count only where nothing better is known: in a group of names that differ in nothing but the
    # target.
    alike = Counter(name.pattern for name in names.values())
    used: dict[str, LibraryUse] = {}
    for use in uses.values():
        used.setdefault(names[use.path].pattern, use)
    for path in library.files.libraries:
        if path in uses or not names[path].parts:
            continue
        sibling = used.get(names[path].pattern)
        if sibling is not None and sibling.how is not HowLoaded.ALTERNATIVE and sibling.convention is None:
            uses[path] = LibraryUse(path=path, how=HowLoaded.ALTERNATIVE, at=sibling.at)
            continue
        fitting = fits_target(names[path], world)
        if fitting is None or alike[names[path].pattern] < 2:
            continue
        target = " and ".join(f"{kind} {value}" for kind, value in names[path].parts)
        how = HowLoaded.IMPORT if fitting else HowLoaded.ALTERNATIVE
        uses[path] = LibraryUse(path=path, how=how, at=None, convention=f"its name says {target}")
        used.setdefault(names[path].pattern, uses[path])


def _mark_needed(library: PythonCode, uses: dict[str, LibraryUse]) -> None:
    """Mark the libraries that others of the package need."""
    for path in library.files.with_needed(uses):
        if path not in uses:
            uses[path] = LibraryUse(path=path, how=HowLoaded.NEEDED, at=None)


def _no_python_imports(library: PythonCode, path: str) -> bool:
    name = library.files.importable_name(path)
    if name is None or not library.files.system.tagged.search(path):
        return False
    located = library.locate(name)
    return located is None or located.file != path
