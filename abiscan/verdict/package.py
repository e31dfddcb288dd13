"""The verdict on a package on one torch: it follows from what importing it does, and from its libraries' results."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from abiscan.binary.elf import SharedObject
from abiscan.extension.examined import ExaminedTarget
from abiscan.findings import Finding, Rule
from abiscan.gpu.devices import Hardware
from abiscan.inputs.files import Files
from abiscan.python.importing.certainty import chain
from abiscan.python.package.model import (
    PROCESS_ENDS,
    Answer,
    Channel,
    HowLoaded,
    ImportOutcome,
    LibraryUse,
    Load,
    Raised,
    Skipped,
)
from abiscan.python.torch_api.torch_names import COMPANIONS
from abiscan.results.check import Result
from abiscan.results.package import (
    ImportFailure,
    ModuleResult,
    MostLikely,
    PackageResult,
    PackageVerdict,
    UsedLibrary,
)
from abiscan.results.verdict import How, Verdict
from abiscan.rules import (
    lost_torch_base,
    missing_torch_name,
    no_kernel_image,
    platform_tag_wrong,
    refused_by_package,
    rejected_torch_call,
)
from abiscan.torches.name_history import call_history, default_history, history
from abiscan.verdict.conditions import conditions_of
from abiscan.verdict.package_reading import PackageFacts, ReadPackage, is_lost
from abiscan.verdict.systems import system_of
from abiscan.verdict.world import PackageWorld

if TYPE_CHECKING:
    from abiscan.python.later.mentions import LaterUse
    from abiscan.verdict.image_world import ImageWorld

# The package is imported by then, whether or not one of these loads.
_OPTIONAL = (HowLoaded.GUARDED, HowLoaded.CONDITIONAL, HowLoaded.ON_DEMAND, HowLoaded.UNKNOWN)


def later_findings(
    find_uses: Callable[[], Iterable[LaterUse]], facts: PackageFacts, result: PackageResult, rules: Container[Rule]
) -> Iterator[Finding]:
    """Yield what fails later in the package's code for the names that this torch lacks, and the calls that it rejects.

    Nothing if the package cannot be imported.

    :param find_uses: finds those uses
    """
    if result.verdict is PackageVerdict.IMPORT_FAILS:
        return
    torch = f"torch {result.torch}" if result.torch else "this torch"
    found = (*find_uses(), *(use for need in facts.numpy_needs for use in need.calls))
    if missing_torch_name.RULE in rules:
        doubtful = [use for use in found if use.doubtful and not use.error]
        yield from missing_torch_name.list_doubtful(doubtful, result.name, torch, result.torch)
    counted = (use for use in found if use.error or not use.doubtful)
    for (name, error), group in groupby(counted, attrgetter("name", "error")):
        uses = tuple(group)
        if not error and missing_torch_name.RULE in rules:
            is_recorded = name.partition(".")[0] in {"torch", *COMPANIONS}
            known = history(name) if is_recorded else None
            yield from missing_torch_name.list_findings(uses, known, result.name, torch, result.torch)
        elif error and rejected_torch_call.RULE in rules:
            taking, advice, needs = call_history(name, uses[0].arguments), None, None
            if uses[0].how in {"default", "omission", "package"}:
                from abiscan.python.torch_api.changed_defaults import BY_FUNCTION  # few packages make such a call

                changed = BY_FUNCTION[name]
                taking, advice, needs = default_history(changed), changed.advice, changed.needs
            elif uses[0].how == "uninitialised":
                from abiscan.python.later.uninitialised import UNINITIALISED  # few packages have such a class

                taking, advice = default_history(UNINITIALISED), UNINITIALISED.advice
            yield from rejected_torch_call.list_findings(uses, taking, result.name, torch, advice, needs)


def other_later_findings(package: ReadPackage, result: PackageResult, rules: Container[Rule]) -> Iterator[Finding]:
    """Yield what the package's code makes of this torch itself: what it refuses, and what it does not recognise.

    Nothing if the package cannot be imported.
    """
    if result.verdict is PackageVerdict.IMPORT_FAILS:
        return
    torch = f"torch {result.torch}" if result.torch else "this torch"
    if refused_by_package.RULE in rules:
        yield from refused_by_package.list_findings(package.own_refusals(), result.name, torch)
    if lost_torch_base.RULE in rules:
        for _, group in groupby(package.base_questions(), attrgetter("name")):
            questions = tuple(group)
            yield from lost_torch_base.list_findings(questions, history(questions[0].successor), result.name, torch)


def beyond_tag(facts: PackageFacts, files: Files) -> Iterator[Finding]:
    """Yield what libraries that do not use torch need of the system beyond what the tag of their wheel promises."""
    target = facts.target.target
    if target.metadata is not None:
        libraries = {posixpath.basename(path): item for path, item in _libraries_without_torch(facts, files)}
        yield from platform_tag_wrong.compare_with_tag(libraries, target.metadata.wheel, target.siblings)


def without_code(facts: PackageFacts, files: Files, hardware: Hardware) -> Iterator[Finding]:
    """Yield the libraries that do not use torch and have code for GPUs, none of which a given GPU runs."""
    if not hardware.gpus:
        return
    from abiscan.extension.gpu import read_extension_gpu

    for path, item in _libraries_without_torch(facts, files):
        source = files.find_source(posixpath.join(facts.package.root, path))
        code = read_extension_gpu(source, item, None) if source else None
        if code is None or code.code.gaps:
            continue
        for gpu in hardware.gpus:
            if code.is_for_maker_of(gpu):
                yield from no_kernel_image.of_library(posixpath.basename(path), code.on(gpu, hardware.driver))


def _libraries_without_torch(facts: PackageFacts, files: Files) -> Iterator[tuple[str, SharedObject]]:
    """Yield the libraries that the Python code may load, and that have no results of their own: those without torch."""
    checked = set(facts.files.values())
    for path, use in facts.reading.uses.items():
        if path not in checked and use.how not in (HowLoaded.NEVER, HowLoaded.ALTERNATIVE):
            item = files.object_at(posixpath.join(facts.package.root, path), remember=False)
            if item is not None:
                yield path, item


def package_result(facts: PackageFacts, results: Sequence[Result]) -> PackageResult:
    """Return the verdict on a package on one torch.

    :param results: those of its libraries, each checked by itself
    """
    outcome, process = facts.outcome, facts.process
    libraries = tuple(_used_libraries(facts, results))
    main = _module(outcome, process) if outcome else None
    others = tuple(_module(item, process) for item in facts.others)
    # A module that users import and that does not work counts, whatever it is called.
    error = next((module.error for module in (main, *others) if module and module.error), None)
    submodules = tuple(_module(item, process) for item in facts.submodules)
    apart = tuple(_module(item, process) for item in facts.apart)
    lost = tuple(module for module in submodules if not _is_unknown(module))
    lost += tuple(module for item, module in zip(facts.apart, apart, strict=True) if is_lost(item))
    verdict = _make_verdict(outcome, error, libraries, lost)
    if verdict in (PackageVerdict.WORKS, PackageVerdict.WORKS_WITHOUT) and any(map(_is_unknown, others)):
        verdict = PackageVerdict.UNKNOWN
    # Next to a part that is certainly lost, one that may be lost says nothing new.
    if verdict is PackageVerdict.WORKS and any(map(_is_unknown, submodules)):
        verdict = PackageVerdict.UNKNOWN
    return PackageResult(
        target=facts.target.target.name,
        name=facts.package.name,
        version=facts.package.version,
        torch=process.release_number,
        torch_build=process.build,
        machine=system_of(facts.target.target).machine(facts.target.target),
        module=outcome.module if outcome else None,
        verdict=verdict,
        error=error,
        built_for=_built_for(facts.target, libraries),
        libraries=libraries,
        modules=(*((main,) if main else ()), *others, *submodules, *apart),
        lost_modules=tuple(module.name for module in lost),
        lacking=_lacking(outcome, process) if outcome and libraries else facts.lacking_alone(),
        needs=_needed_libraries(outcome, process) if error and outcome else (),
        not_installed=process.missing_requirements,
        conditions=conditions_of(facts, libraries) if error is None else (),
        undecided=_undecided(facts),
        most_likely=_most_likely(outcome) if outcome and verdict is PackageVerdict.UNKNOWN else None,
        gaps=_import_gaps(facts),
        unread=process.unread,
        is_python=facts.target.target.is_python,
        unsure=facts.unsure,
    )


def _built_for(target: ExaminedTarget, libraries: Iterable[UsedLibrary]) -> tuple[str, ...]:
    used = {library.file for library in libraries if library.used}
    # The releases that all used libraries have in common; one that is not used may be for any torch.
    origins = [extension.origin.releases for extension in target.extensions if extension.path in used]
    common = (
        [release for release in origins[0] if all(release in releases_of for releases_of in origins)] if origins else []
    )
    return tuple(map(str, common))


def _make_verdict(
    outcome: ImportOutcome | None,
    error: ImportFailure | None,
    libraries: Iterable[UsedLibrary],
    lost: Sequence[ModuleResult],
) -> PackageVerdict:
    if error is not None:
        return PackageVerdict.IMPORT_FAILS
    if outcome is not None and outcome.raised is Answer.UNKNOWN:
        return PackageVerdict.UNKNOWN
    if outcome is not None and any(need.kind == "compiler" for need in outcome.needs):
        return PackageVerdict.UNKNOWN
    # From the worst to the best. A library whose use is not known counts where memory may be corrupted, which nobody
    # must miss.
    libraries = tuple(libraries)
    used = [library for library in libraries if library.used is not False]
    if any(library.verdict is Verdict.CORRUPTS for library in used):
        return PackageVerdict.CORRUPTS
    if any(map(_is_doubtful, used)):
        return PackageVerdict.UNKNOWN
    is_whole = not lost and not any(item.is_missing for item in libraries)
    return PackageVerdict.WORKS if is_whole else PackageVerdict.WORKS_WITHOUT


def _is_doubtful(library: UsedLibrary) -> bool:
    """Whether the verdict depends on a library that could not be read, or on how the package uses it."""
    if library.verdict is Verdict.UNKNOWN:
        return library.used is True
    return library.verdict is Verdict.FAILS and library.used is None and library.how is HowLoaded.UNKNOWN


def _find_failure(outcome: ImportOutcome, process: PackageWorld | ImageWorld) -> ImportFailure | None:
    """Return the failure that users see; None if the import succeeds, or if that is unknown."""
    # The end of the process is no exception, and nothing of the package runs after it.
    ends = [(load.raised, load.at) for load in outcome.loads]
    raised = outcome.raised
    if isinstance(raised, Raised) and raised.at is not None:
        ends.append((raised, raised.at))
    for end, at in ends:
        if isinstance(end, Raised) and end.exception == PROCESS_ENDS:
            line = at.line if at.file else None
            return ImportFailure(
                how=How.ABORTS,
                exception=None,
                message=end.message,
                file=at.file,
                line=line,
                cause=None,
                of_package=end.of_other,
            )
    if not isinstance(raised, Raised):
        return None
    return ImportFailure(
        how=How.RAISES,
        exception=raised.exception,
        message=raised.message,
        file=raised.at.file if raised.at else None,
        line=raised.at.line if raised.at and raised.at.file else None,
        cause=_find_cause(raised, () if outcome.regardless else outcome.loads),
        exact=raised.message is not None
        and raised.exact
        and (process.is_exact or not _quotes_loader(raised.message, outcome.loads)),
        of_package=next((error.of_other for error in chain(raised) if error.of_other), None),
    )


def _quotes_loader(message: str, loads: Iterable[Load]) -> bool:
    """Whether the text of an exception has that of the system in it."""
    texts = (_origin(load.raised).message for load in loads if isinstance(load.raised, Raised))
    return any(text and text in message for text in texts)


def _find_cause(raised: Raised, loads: Iterable[Load]) -> str | None:
    """Return the reason for an exception: what it was raised from, or else a load that failed before and was caught."""
    # The exception that it was raised from is better than a guess: an earlier failed load that was caught, and has
    # another message.
    first = _origin(raised)
    if first is not raised:
        return first.message
    failures = (_origin(load.raised) for load in loads if isinstance(load.raised, Raised))
    return next((failure.message for failure in failures if failure.message != raised.message), None)


def _origin(raised: Raised) -> Raised:
    while raised.cause is not None:
        raised = raised.cause
    return raised


def _module(outcome: ImportOutcome, process: PackageWorld | ImageWorld) -> ModuleResult:
    error = _find_failure(outcome, process)
    if error is not None:
        return ModuleResult(name=outcome.module, verdict=PackageVerdict.IMPORT_FAILS, error=error)
    unknown = outcome.raised is Answer.UNKNOWN
    verdict = PackageVerdict.UNKNOWN if unknown else PackageVerdict.WORKS
    return ModuleResult(name=outcome.module, verdict=verdict, error=None)


def _is_unknown(module: ModuleResult) -> bool:
    return module.verdict is PackageVerdict.UNKNOWN


def _undecided(facts: PackageFacts) -> tuple[str, ...]:
    """Return the conditions in the code that decide how an import ends, and that nothing is known of."""
    outcomes = [item for item in (facts.outcome, *facts.others) if item]
    return tuple(dict.fromkeys(str(condition) for outcome in outcomes for condition in outcome.conditions))


def _import_gaps(facts: PackageFacts) -> tuple[str, ...]:
    """Return what could not be followed, of the other modules where that leaves open whether their import works."""
    others = (
        f"import {item.module}: {gap.removeprefix(f'import {item.module}: ')}"
        for item in (*facts.others, *facts.submodules)
        if item.raised is Answer.UNKNOWN
        for gap in item.gaps
    )
    return tuple(dict.fromkeys((*(facts.outcome.gaps if facts.outcome else ()), *others)))


def _most_likely(outcome: ImportOutcome) -> MostLikely | None:
    end = outcome.usual_end
    if end is None or end.raised.exception == PROCESS_ENDS:
        return None
    return MostLikely(exception=end.raised.exception, message=end.raised.message, ways=end.ways, of=end.of)


def _lacking(outcome: ImportOutcome, process: PackageWorld | ImageWorld) -> tuple[str, ...]:
    doubtful = (load.path for load in outcome.loads if load.path and not isinstance(load.raised, Raised))
    attempts = (process.attempts[path] for path in doubtful if path in process.attempts)
    return tuple(dict.fromkeys(name for attempt in attempts for name in attempt.lacking))


def _needed_libraries(outcome: ImportOutcome, process: PackageWorld | ImageWorld) -> tuple[str, ...]:
    """Return the libraries without which the import would not end the process: the load would fail, and be caught."""
    # Up to the load that ends the process: only what was there for this one, and for those before, has led to it.
    needs: dict[str, None] = {}
    for load in outcome.loads:
        if load.guarded and load.path and load.path in process.attempts:
            needs.update(dict.fromkeys(process.attempts[load.path].needs))
            if isinstance(load.raised, Raised) and load.raised.exception == PROCESS_ENDS:
                return tuple(needs)
    return ()


def _used_libraries(facts: PackageFacts, results: Sequence[Result]) -> Iterator[UsedLibrary]:
    """Yield the libraries that use torch, or that the code loads."""
    outcome, uses, process = facts.outcome, facts.reading.uses, facts.process
    loads = {load.path: load for load in (outcome.loads if outcome else ()) if load.path}
    files = facts.files
    by_path = {files[result.path]: result for result in results}
    # In the order of the reading; a library that neither uses torch nor is loaded says nothing about the package.
    for path in dict.fromkeys((*uses, *by_path, *loads)):
        use, load, result = uses.get(path), loads.get(path), by_path.get(path)
        if result is None and load is None:
            continue
        how = use.how if use else HowLoaded.UNKNOWN
        attempt = process.attempts.get(path)
        failing = load is not None and load.raised is not None
        channel, told_text = _told(use, load if failing and how in _OPTIONAL else None)
        skipped = use.skipped if use else None
        yield UsedLibrary(
            path=path,
            loaded_at=str(load.at) if load else _place(use),
            how=how,
            used=False if skipped else _is_used(path, how, load, process),
            file=result.path if result else None,
            aborts=result is not None
            and result.predicted_error is not None
            and result.predicted_error.how is How.ABORTS,
            doubt=next((gap.reason for gap in result.gaps if not gap.expected), None) if result else None,
            verdict=result.verdict if result else (Verdict.FAILS if failing else Verdict.LOADS),
            error=attempt.problem if attempt and failing else None,
            told=channel,
            told_text=told_text,
            skipped=skipped,
            operators=process.operators_of(path) if channel else (),
            convention=use.convention if use else None,
        )


def _told(use: LibraryUse | None, missed: Load | None) -> tuple[Channel | None, str | None]:
    """Return how users learn that the package goes on without a library, and in which words; None if it does not.

    :param missed: the load that failed, if the package goes on
    """
    if missed is not None:
        return missed.told, missed.told_text
    if use is not None and use.skipped is Skipped.GUARD:
        return (use.message.how, use.message.text) if use.message else (Channel.NOTHING, None)
    return None, None


def _place(use: LibraryUse | None) -> str | None:
    return str(use.at) if use and use.at else None


def _is_used(path: str, how: HowLoaded, load: Load | None, process: PackageWorld | ImageWorld) -> bool | None:
    """Whether importing the package uses a library; None if that is unknown, or depends on what is called then."""
    if load is not None or process.has(path):
        return True
    if how in (HowLoaded.ALTERNATIVE, HowLoaded.NEVER):
        return False
    return True if how in (HowLoaded.IMPORT, HowLoaded.GUARDED) else None
