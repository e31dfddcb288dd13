"""The public submodules of a package that importing it does not reach, and whose import fails, or may fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Final

from abiscan.python.importing.explore import explore_failure
from abiscan.python.importing.runs import UNFINISHED, Runs
from abiscan.python.importing.uses import try_import
from abiscan.python.interpreter.imports import PythonInterpreter
from abiscan.python.interpreter.machine import Choices, Exhausted
from abiscan.python.interpreter.models.companions import may_miss
from abiscan.python.language.dynamic_names import absolute_name, package_of
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer, ImportOutcome, Raised
from abiscan.python.package.sources import is_for_users
from abiscan.python.torch_api.torch_names import DEVICE_MODULES, TorchNames

_MOST_IN_TURN: Final = 200
_MOST_APART: Final = 40
_MOST_WAYS: Final = 2
_OPERATORS: Final = "torch.ops."


def failing_submodules(
    runs: Runs,
    imports: Sequence[ImportOutcome],
    names: TorchNames,
    companions: Sequence[Sequence[TorchNames]],
    counts: Callable[[ImportOutcome], bool],
) -> tuple[ImportOutcome, ...]:
    """Return the outcomes of the imports of public submodules that fail: of a package and what is in it, the package.

    Those that seem to use what this torch lacks and could not be followed to their end are among them: their outcome is
    unknown.

    :param imports: what importing the package does, which succeeds
    :param companions: for each package other than torch, its versions that may be there
    :param counts: whether an import that fails does so for certain, and because of torch
    """
    suspects = _suspected_sources(runs.library, names, companions)
    reached = frozenset[str]().union(*(outcome.imported for outcome in imports))
    waiting = [file for file in suspects if file not in reached]
    if not waiting:
        return ()
    runs.begin_after(outcome.module for outcome in imports if outcome.module in runs.library.modules)
    search = _Search(runs, reached, counts)
    search.follow(waiting)
    # Those that import a module which fails may fail, too: the public one may be among these.
    while importers := search.list_importers():
        search.follow(importers)
    return tuple(outcome for name, outcome in (search.failing | search.unfinished).items() if _is_public(name))


def _suspected_sources(library: PythonCode, names: TorchNames, companions: Sequence[Sequence[TorchNames]]) -> list[str]:
    """Return the sources that seem to use, as they are imported, what this torch lacks, or a package next to it."""
    uses = library.all_torch_uses
    gone = tuple(
        use for use in names.lacking(uses) if use.split(".")[1] not in DEVICE_MODULES and _was_there(names, use)
    )
    operators = any(use.startswith(_OPERATORS) for use in uses)
    return [
        file
        for file in library.sources
        if is_for_users(file)
        and (
            library.uses_any_at_import(file, gone)
            or _imports_absent(library, file, names)
            or library.loads_saved(file)
            or library.outline(file).infers_schemas
            or (operators and _looks_up_operator(library, file))
            or any(may_miss(library, file, versions) for versions in companions)
            or any(names.refuses(function, keywords) for function, keywords in library.torch_calls(file))
            or _imports_failing(library, file)
        )
    ]


def _imports_failing(library: PythonCode, file: str) -> bool:
    """Whether a source imports another package for torch whose own import fails in this environment."""
    around = library.surroundings
    if not around.has_others:
        return False
    plain, _ = library.imports(file, package_of(file))
    tops = {line.module.partition(".")[0] for line in plain} - {"torch"}
    others = (top for top in sorted(tops) if library.find(top) is None and around.mentions(top, "torch"))
    return any(isinstance(around.import_error(top, None), Raised) for top in others)


def _was_there(names: TorchNames, use: str) -> bool:
    """Whether some release has what this torch lacks; a text may mention names that none has."""
    lacking = names.first_lacking(use)
    return lacking is not None and (names.was_there(lacking) or names.was_compiled(lacking))


def _imports_absent(library: PythonCode, file: str, names: TorchNames) -> bool:
    """Whether a source imports a module that this torch does not have; it may have a function of that name. Or a name
    of one, whatever the releases that are known have.
    """
    package = package_of(file)
    # Few of its imports can name one: what the others stand for need not be looked up.
    lines = [line for line in library.outline(file).imports if absolute_name(package, line.module).startswith("torch")]
    targets = {target for line in lines for target in library.resolved(line, package).targets}
    absent = any(names.has_module(target) is False for target in targets if _is_of_core(target))
    taken = (f"{line.module}.{name}" for line in lines if not line.nested for name in line.names if name != "*")
    return absent or any(names.first_lacking(name) is not None for name in taken if _is_of_core(name))


def _is_of_core(name: str) -> bool:
    return name.startswith("torch.") and name.split(".")[1] not in DEVICE_MODULES


def _looks_up_operator(library: PythonCode, file: str) -> bool:
    return any(library.uses_at_import(file, use) for use in library.torch_uses(file) if use.startswith(_OPERATORS))


class _Search:
    """Follows imports of submodules, each once, until there are too many.

    All are imported one after the other in one process, so that what they share is run once. Those that fail there are
    then imported in a process of their own each, on all paths past the conditions that are not known.

    :param reached: the files that the imports so far have run to their end
    """

    def __init__(self, runs: Runs, reached: frozenset[str], counts: Callable[[ImportOutcome], bool]) -> None:
        self._runs, self._library, self._reached, self._counts = runs, runs.library, reached, counts
        self._followed: dict[str, bool] = {}
        """Whether each import that was followed succeeds."""
        self._ways: list[Choices] = []
        """What imports succeed with that fail on their usual path."""
        self._imports: dict[str, frozenset[str]] = {}
        self._asked = 0
        self.failing: dict[str, ImportOutcome] = {}
        self.unfinished: dict[str, ImportOutcome] = {}

    def follow(self, files: Iterable[str]) -> None:
        """Import modules by their files, those that are less deep first."""
        # Each package before what is in it: if it fails, that is what users see of all its modules.
        in_order = sorted(files, key=lambda path: (path.count("/"), path))
        chains = [tuple(accumulate(_parts_of(file), "{}.{}".format)) for file in in_order]
        with suppress(Exhausted):
            self._import_in_turn(tuple(dict.fromkeys(name for chain in chains for name in chain))[:_MOST_IN_TURN])
        for chain in chains:
            for name in chain:
                if not self._succeeds(name):
                    break

    def _import_in_turn(self, names: tuple[str, ...]) -> None:
        def work(machine: PythonInterpreter) -> frozenset[str]:
            failing: list[str] = []
            with suppress(Exhausted):
                for name in names:
                    if not name.startswith(tuple(failing)) and not try_import(machine, name):
                        failing.append(f"{name}.")
            # Not those in ``sys.modules``: a body may have put something else in its own place there.
            return frozenset(machine.trace.imported) - machine.trace.unfinished

        self._reached |= self._runs.run_cached(("import in turn", names), work)

    def _succeeds(self, name: str) -> bool:
        located = self._library.locate(name)
        if located is None or located.file is None or located.file in self._reached:
            return located is not None
        if name not in self._followed:
            if len(self._followed) >= _MOST_APART:
                return False
            explored = explore_failure(self._runs, name, self._may_count, self._ways)
            outcome = explored.outcome
            self._followed[name] = outcome.raised is None
            ways = [run.choices for run in explored.runs if run.raised is None and run.choices not in ({}, *self._ways)]
            self._ways = [*self._ways, *ways][:_MOST_WAYS]
            if outcome.raised is None:
                self._reached |= outcome.imported
            elif self._counts(outcome):
                self.failing[name] = outcome
            elif outcome.raised is Answer.UNKNOWN and any(UNFINISHED in gap for gap in outcome.gaps):
                self.unfinished[name] = outcome
        return self._followed[name]

    def _may_count(self, usual: ImportOutcome) -> bool:
        """Whether a failing import may be due to torch, if it ends like this on its usual path."""
        # Other paths only show that it is not certain.
        return usual.raised is Answer.UNKNOWN or self._counts(usual)

    def list_importers(self) -> list[str]:
        """Return the sources that import what has failed since the last time, and were not followed."""
        fresh = list(self.failing)[self._asked :]
        self._asked = len(self.failing)
        if not fresh:
            return []
        if not self._imports:
            self._imports = {
                file: _imported_by(self._library, file)
                for file in self._library.sources
                if file not in self._reached and is_for_users(file)
            }
        wanted = frozenset(fresh)
        return [file for file, imported in self._imports.items() if not imported.isdisjoint(wanted)]


def _imported_by(library: PythonCode, file: str) -> frozenset[str]:
    """Return the modules that a source imports outside of functions, and the packages that these are in."""
    plain, nested = library.imports(file, package_of(file))
    targets = {target for line in (*plain, *nested) for target in line.targets}
    return frozenset(name for target in targets for name in accumulate(target.split("."), "{}.{}".format))


def _parts_of(file: str) -> list[str]:
    return file.removesuffix(".py").removesuffix("/__init__").split("/")


def _is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))
