"""From facts about a package to the conditions of its verdict: only what decides whether it works becomes one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from packaging.version import Version

from abiscan.binary.ownership import gpu_library
from abiscan.python.package.model import HowLoaded, LoadedBy
from abiscan.regex import regex
from abiscan.results.package import ConditionKind, UsedLibrary, VerdictCondition
from abiscan.results.verdict import Verdict
from abiscan.verdict.package_reading import PackageFacts
from abiscan.words import listed, plural

if TYPE_CHECKING:
    from abiscan.python.later.numpy_needs import NumpyNeed

_SOFTWARE: Final = {"FFmpeg": regex(r"lib(av(codec|device|filter|format|util)|sw(resample|scale)|postproc)\.so")}
"""What several libraries belong to that users install as one, by its name."""


def conditions_of(facts: PackageFacts, libraries: Sequence[UsedLibrary]) -> tuple[VerdictCondition, ...]:
    """Return what the verdict on a package depends on, each once. The import itself does not fail."""
    conditions: dict[tuple[ConditionKind, str], VerdictCondition] = {}
    for condition in (
        *_external_libraries(facts, libraries),
        *_cuda_of_modules(facts, libraries),
        *_loads_before_torch(facts),
        *_needs(facts),
        *_yet_to_be_built(facts),
        *_refused_files(facts),
        *_old_modules(facts),
        *_dropped_modules(facts),
        *_older_numpy(facts),
        *_older_python(facts),
        *_conflicting_packages(facts),
    ):
        conditions.setdefault((condition.kind, condition.name), condition)
    return tuple(conditions.values())


def _loads_before_torch(facts: PackageFacts) -> Iterator[VerdictCondition]:
    """Yield that torch is to be imported first, where the package loads a library that needs it before it does so."""
    for load in facts.outcome.loads if facts.outcome else ():
        if not load.before_torch or load.raised is not None or load.path is None:
            continue
        if words := facts.process.lacking_torch(load.path):
            why = f"{load.at} loads {load.path} before torch is imported, which fails by itself: {words}"
            yield VerdictCondition(kind=ConditionKind.REQUIREMENT, name="torch", why=why)


def _yet_to_be_built(facts: PackageFacts) -> Iterator[VerdictCondition]:
    """Yield the part of source code that is compiled where it is installed, for the torch that is there."""
    if file := facts.package.built_by:
        torch = f"torch {facts.process.release_number}" if facts.process.release_number else "this torch"
        name, why = f"what {file} builds", f"{file} compiles an extension of torch: it will be built here, for {torch}"
        yield VerdictCondition(kind=ConditionKind.COMPILER, name=name, why=why, met=_is_there(facts, "c++"))


def _refused_files(facts: PackageFacts) -> Iterator[VerdictCondition]:
    """Yield what the files have to be that the code loads and that keep more than tensors, going by what it takes."""
    if not facts.open_loads:
        return
    first, *others = map(str, facts.open_loads)
    places = f"{first} and {plural(len(others), 'other line')} leave" if others else f"{first} leaves"
    why = (
        f"{places} it to torch.load what files may hold: since torch 2.6 tensors and plain values alone "
        "(UnpicklingError: Weights only load failed, for anything else)"
    )
    yield VerdictCondition(kind=ConditionKind.FILE, name="files of tensors and plain values", why=why)


def _old_modules(facts: PackageFacts) -> Iterator[VerdictCondition]:
    """Yield which torch must have saved the modules that the code loads as a whole."""
    attributes, lines = facts.old_modules
    if not lines:
        return
    first, *others = map(str, lines)
    places = f"{first} and {plural(len(others), 'other line')} load" if others else f"{first} loads"
    newest = max(attributes, key=lambda item: Version(item.since))
    lacking = "; ".join(
        f"{item.cls} has none of before {item.since} (AttributeError: '{item.cls.rpartition('.')[2]}' object has no "
        f"attribute '{item.name}')"
        for item in attributes
    )
    why = f"{places} whole modules, which keep the attributes that they were saved with: {lacking}"
    name = f"modules that torch>={newest.since} saved"
    yield VerdictCondition(kind=ConditionKind.FILE, name=name, why=why)


def _dropped_modules(facts: PackageFacts) -> Iterator[VerdictCondition]:
    """Yield the packages of which a release has to be there that still has a module."""
    for item in facts.dropped:
        dropped, (first, *others) = item.dropped, item.lines
        places = f"{first} and {plural(len(others), 'other line')} import" if others else f"{first} imports"
        name, gone = dropped.requirement(with_name=item.name is not None), f"{dropped.until} no longer has it"
        if item.name is not None:
            gone = f"{dropped.nameless} has no {dropped.module}.{item.name}, and {dropped.until} no {dropped.module}"
        through = f", which imports {item.name} from {dropped.module} in this torch" if item.name else ""
        why = f"{places} {item.module}{through}; {dropped.distribution} {gone}"
        yield VerdictCondition(kind=ConditionKind.REQUIREMENT, name=name, why=why)


def _older_numpy(facts: PackageFacts) -> Iterator[VerdictCondition]:
    """Yield below which numpy modules can be imported, and arrays be made of tensors.

    What a function calls is a finding: see ``package.later_findings``.
    """
    needs = [need for need in facts.numpy_needs if need.lines]
    if needs:
        # All of it works with what works with the first that fails.
        below = min((need.below for need in needs), key=Version)
        torch = f"torch {facts.process.release_number}" if facts.process.release_number else "this torch"
        why = "; ".join(_numpy_words(need, torch) for need in needs)
        yield VerdictCondition(kind=ConditionKind.NUMPY, name=f"numpy<{below.removesuffix('.0')}", why=why)


def _older_python(facts: PackageFacts) -> Iterator[VerdictCondition]:
    """Yield below which Python the code runs that fails on newer ones whatever happens."""
    for need in facts.python_needs:
        name = f"Python<{'.'.join(map(str, need.below))}"
        met = False if need.is_refused else None
        yield VerdictCondition(kind=ConditionKind.PYTHON, name=name, why=need.why, met=met)


def _numpy_words(need: NumpyNeed, torch: str) -> str:
    first, *others = map(str, need.lines)
    if need.name is None:
        return f"{torch} was compiled for numpy 1: with numpy 2, {first} raises RuntimeError: Numpy is not available"
    places = f"{first} and {plural(len(others), 'other line')} use" if others else f"{first} uses"
    from abiscan.python.torch_api import numpy_texts  # few packages have such a name

    says = numpy_texts.missing_name(need.name) or "AttributeError"
    return f"{places} np.{need.name.partition('.')[2]}, which numpy {need.below} no longer has ({says})"


def _conflicting_packages(facts: PackageFacts) -> Iterator[VerdictCondition]:
    """Yield the packages that must not be installed."""
    for conflict in facts.conflicts:
        raised = conflict.raised
        why = (
            f"{facts.package.name} does not require {conflict.package}: where it is installed, "
            f"import {conflict.module} raises {raised.exception}: {raised.message or '…'} ({raised.at})"
        )
        yield VerdictCondition(kind=ConditionKind.CONFLICT, name=conflict.package, why=why)


def _is_there(facts: PackageFacts, tool: str) -> bool | None:
    """Whether a tool is there, if this is the machine; None if it is not known, or not all that is needed."""
    if not facts.here:
        return None
    from abiscan.inputs import build_tools  # few packages compile something

    return None if build_tools.has_tool(tool) else False


def _external_libraries(facts: PackageFacts, libraries: Sequence[UsedLibrary]) -> Iterator[VerdictCondition]:
    """Yield the libraries that are assumed to be there because nothing says that they are not.

    Without them, the load of a library of the package would fail, and with it the import, or a part of the package.
    """
    for library in libraries:
        attempt = facts.process.attempts.get(library.path)
        if attempt is None or attempt.words is not None or library.used is not True or library.told is not None:
            continue
        # On this machine, only what it lacks is in doubt, and only where a requirement may yet bring it.
        names = attempt.lacking if facts.here else attempt.needs
        for name in names:
            yield VerdictCondition(
                kind=ConditionKind.LIBRARY,
                name=_software(name),
                why=_why(library, name, facts.process.missing_requirements),
                met=False if facts.here else None,
            )


def _cuda_of_modules(facts: PackageFacts, libraries: Sequence[UsedLibrary]) -> Iterator[VerdictCondition]:
    """Yield the libraries of CUDA that a module needs which users import themselves, beside a torch without CUDA."""
    if facts.process.cuda is not None:
        return
    for library in libraries:
        is_public = not library.path.rpartition("/")[2].startswith(("_", "lib"))
        if is_public and library.how is HowLoaded.ON_DEMAND and library.verdict in {Verdict.LOADS, Verdict.UNKNOWN}:
            process = facts.process.fresh()
            process.load(library.path, LoadedBy.IMPORT)
            attempt = process.attempts.get(library.path)
            if attempt is None or attempt.words is not None:
                continue
            for name in filter(gpu_library, attempt.needs):
                met = False if facts.here and name in attempt.lacking else None
                why = f"{library.path} needs {name}, which this build of torch does not bring"
                yield VerdictCondition(kind=ConditionKind.LIBRARY, name=name, why=why, met=met)


def _needs(facts: PackageFacts) -> Iterator[VerdictCondition]:
    """Yield what the Python code takes to be there."""
    for outcome in (facts.outcome, *facts.others):
        for need in outcome.needs if outcome else ():
            why = f"{need.why} ({need.at})"
            yield VerdictCondition(kind=ConditionKind(need.kind), name=need.name, why=why, met=need.is_there)


def _why(library: UsedLibrary, name: str, requirements: Iterable[str]) -> str:
    missing = listed(requirements)
    brought = f"; {missing}, which the package requires, is not installed here" if missing else ""
    guarded = " (a failure is caught)" if library.how is HowLoaded.GUARDED else ""
    return f"{library.path} needs {name}{guarded}{brought}"


def _software(name: str) -> str:
    return next((software for software, pattern in _SOFTWARE.items() if pattern.match(name)), name)
