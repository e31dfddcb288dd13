"""The verdict on a package as text: one headline, then what is missing, then the causes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from abiscan.binary.mangling import demangle
from abiscan.findings import REFUSED_BY_PACKAGE, Effect
from abiscan.python.package.model import Channel, HowLoaded
from abiscan.regex import regex
from abiscan.report.fixes import FIX, fix_lines, shared_fixes
from abiscan.report.line import StyledLine
from abiscan.results.causes import Cause, group_causes
from abiscan.results.check import Report, Result
from abiscan.results.needs import newest_needs
from abiscan.results.package import PackageResult, PackageVerdict, UsedLibrary
from abiscan.words import clean, first_line, listed, plural

_STYLES: Final = {
    PackageVerdict.WORKS: "green",
    PackageVerdict.WORKS_WITHOUT: "yellow",
    PackageVerdict.CORRUPTS: "bold red",
    PackageVerdict.IMPORT_FAILS: "bold red",
    PackageVerdict.UNKNOWN: "yellow",
}
_SAID: Final = {Channel.WARNING: "it warns", Channel.LOG: "it logs", Channel.PRINT: "it prints", Channel.NOTHING: ""}
_MANGLED: Final = regex(r"\b_Z\w+")
_EVIDENCE_SHOWN: Final = 2
_FILES_SHOWN: Final = 4
_CAUSES_SHOWN: Final = 4
_LIBRARIES_SHOWN: Final = 3
_OPERATORS_SHOWN: Final = 3
_MODULES_SHOWN: Final = 4
_SCREEN_COLUMNS: Final = 80
_SCREEN_ROWS: Final = 46
"""The lines of a screen, less those around a report: the command, what is left out, the prompt."""
_WIDTH: Final = 160
"""How much of a line is shown: the C++ name of a function may have thousands of characters."""


def format_headline(package: PackageResult, *, verbose: bool = False) -> StyledLine:
    """Return the verdict on a package, in one line."""
    return StyledLine(
        (clean(package.subject), "bold"),
        f" ({package.elsewhere})" if package.elsewhere else "",
        ": ",
        (_make_readable(package.summary, verbose=verbose), _STYLES[package.verdict]),
    )


def list_lines(report: Report, package: PackageResult, verbosity: int) -> Iterator[StyledLine]:
    """Yield everything about a package, the headline first.

    :param verbosity: -1: the headline only; 0: the causes with some evidence; 1: all evidence, gaps and files
    """
    verbose = verbosity > 0
    if verbosity < 0:
        yield format_headline(package)
        return
    beginning = [format_headline(package, verbose=verbose), *_explain_verdict(package, verbose=verbose)]
    yield from beginning
    for _, result in report.files(package):
        if result.before_torch and verbose:
            notice = f"{result.path} before import torch: ImportError: {result.before_torch}"
            yield StyledLine(f"  = {clean(notice)}")
    # Sorted by what the import fails with, so that the first one shown is the one that users see.
    causes = group_causes(report, package, unused=verbose)
    if package.verdict is PackageVerdict.IMPORT_FAILS and not verbose:
        causes = tuple(cause for cause in causes if cause.finding.effect is not Effect.NOTE)
    listed_causes = causes if verbose else causes[:_CAUSES_SHOWN]
    # Of what is shown: a fix that only hidden findings share would stand below nothing.
    shared = shared_fixes(cause.finding for cause in listed_causes if _is_whole(cause, verbose=verbose))
    blocks = [list(_cause_lines(cause, shared, verbose=verbose)) for cause in listed_causes]
    # A report that scrolls away hides its own headline; whole findings are left out, never half of one.
    shown = blocks if verbose else _on_one_screen(blocks, _count_rows([*beginning, *fix_lines(shared)]))
    yield from (line for block in shown for line in block)
    yield from fix_lines(shared)
    if hidden := len(causes) - len(shown):
        yield StyledLine(f"… {plural(hidden, 'more finding')} (use -v to show them)", style="dim")
    for result in (result for library, result in report.files(package) if verbose or library.used is not False):
        for suppressed in result.suppressed:
            yield StyledLine(f"suppressed[{suppressed.finding.rule}]: {clean(suppressed.finding.message)}", style="dim")
            yield StyledLine(f"  = reason: {clean(suppressed.reason)}", style="dim")
    yield from list_system_needs(
        report, [result for library, result in report.files(package) if library.used is not False]
    )
    if package.unread:
        yield StyledLine(f"  = gap: {clean(package.unread)}", style="yellow")
    if verbose:
        yield from _library_lines(report, package)


def list_system_needs(report: Report, results: Sequence[Result]) -> Iterator[StyledLine]:
    """Yield which versions files need of a system, unless they were compared with those of one."""
    compared = report.system is not None or any(result.here for result in results)
    if not compared and (needed := newest_needs([result.needs for result in results]).summary):
        yield StyledLine(f"  = needs {needed}")


def _on_one_screen(blocks: Sequence[Sequence[StyledLine]], used: int) -> Sequence[Sequence[StyledLine]]:
    """Return the first of some blocks of lines, as many as there is room for on a screen; one at least."""
    ends = itertools.accumulate((_count_rows(block) for block in blocks), initial=used)
    # ``initial`` adds the beginning itself to the ends, which is no block.
    fitting = sum(end <= _SCREEN_ROWS for end in ends) - 1
    return blocks[: max(fitting, 1)]


def _count_rows(lines: Iterable[StyledLine]) -> int:
    # A line takes as many rows as a terminal of eighty columns breaks it into.
    return sum(max(1, -(-len(line) // _SCREEN_COLUMNS)) for line in lines)


def _explain_verdict(package: PackageResult, *, verbose: bool) -> Iterator[StyledLine]:
    """Yield what is behind the verdict, and what importing the package alone does not show."""
    error = package.error
    if error and error.cause and error.cause != error.message:
        # The loader's text does not always name the library whose load it ends.
        library = next((item for item in package.libraries if item.used and item.error == error.cause), None)
        subject = f"{library.path}: " if library and not error.cause.startswith(library.path) else ""
        where = f" (loaded at {library.loaded_at})" if library and library.loaded_at else ""
        yield StyledLine(
            f"  = cause: {clean(subject)}{_make_readable(first_line(error.cause), verbose=verbose)}{clean(where)}"
        )
    if error and error.of_package:
        # Only of numpy is a name known to be absent whose text is not.
        saying = rf"(?i)module '?{re.escape(error.of_package)}(?:\.[\w.]+)?'? has no attribute"
        lacks = error.message is None or re.match(saying, error.message) is not None
        is_absent = error.of_module == error.of_package or (error.exception == "AttributeError" and lacks)
        absent = f"{error.of_package} does not have it in the version that is there; another one may"
        raised = f"raised by importing {error.of_package}: check that package, too"
        yield StyledLine(f"  = {clean(absent if is_absent else raised)}")
    is_for_another = package.built_for and package.torch not in package.built_for
    if package.error and is_for_another and not package.fails_for_another:
        built_for = "-".join(dict.fromkeys((package.built_for[0], package.built_for[-1])))
        yield StyledLine(f"  = built for torch {clean(built_for)}")
    if package.verdict is not PackageVerdict.IMPORT_FAILS:
        yield from _missing_lines(package, verbose=verbose)
        yield from _loads_in_package_lines(package)
    for condition in package.unmet:
        yield StyledLine(f"  = condition: {clean(condition.why)}")
    # Modules that import the one which is at fault end in the same error.
    by_error: dict[str, list[str]] = {}
    for module in package.modules:
        if module.error and module.error != package.error:
            by_error.setdefault(str(module.error), []).append(module.name)
    for text, names in by_error.items():
        if package.lost and text == str(package.lost[0].error) and tuple(names) == package.lost_modules:
            continue  # the headline says so
        shown = listed(names, len(names) if verbose else _MODULES_SHOWN)
        verb = "fails" if len(names) == 1 else "fail"
        yield StyledLine(f"  = import {clean(shown)} {verb}: {_make_readable(text, verbose=verbose)}")
    if package.verdict is PackageVerdict.UNKNOWN and not verbose:
        reasons = (*package.gaps[:_LIBRARIES_SHOWN], *(f"whether {item}" for item in package.undecided))
        yield from (
            StyledLine(f"  = unknown: {clean(reason)}", style="yellow") for reason in reasons[: 2 * _LIBRARIES_SHOWN]
        )


def _loads_in_package_lines(package: PackageResult) -> Iterator[StyledLine]:
    """Yield why the package works although a library that it uses fails by itself."""
    for library in package.libraries:
        if library.loads_in_package:
            where = f" ({library.loaded_at})" if library.loaded_at else ""
            within = "within a library that needs it" if library.how is HowLoaded.NEEDED else "as the package loads it"
            yield StyledLine(f"  = {clean(library.path)} fails by itself, and loads {within}{clean(where)}")


def _missing_lines(package: PackageResult, *, verbose: bool) -> Iterator[StyledLine]:
    """Yield what the package goes on without."""
    without = package.without
    shown = without if verbose else without[:_LIBRARIES_SHOWN]
    yield from (StyledLine(f"  = without {_format_library(library, verbose=verbose)}") for library in shown)
    if hidden := len(without) - len(shown):
        yield StyledLine(f"    … {hidden} more (use -v to show them)", style="dim")
    # Ten libraries that are skipped with one warning are told once.
    notice = dict.fromkeys((library.told, library.told_text) for library in without)
    for channel, text in notice:
        if channel and text:
            yield StyledLine(f"  = {_SAID[channel]}: {_make_readable(' '.join(text.split()), verbose=verbose)}")
    if names := package.missing_operators:
        yield StyledLine(f"  = missing: {clean(listed(names, len(names) if verbose else _OPERATORS_SHOWN))}")


def _format_library(library: UsedLibrary, *, verbose: bool) -> str:
    where = f" ({library.loaded_at})" if library.loaded_at else ""
    error = f": {_make_readable(first_line(library.error), verbose=verbose)}" if library.error else ""
    if library.skipped:
        error = ": the package does not load it on this torch"
    return f"{clean(library.path)}{clean(where)}{error}"


def _is_whole(cause: Cause, *, verbose: bool) -> bool:
    """Return whether more than the first line of a finding is shown: of a note, which asks for nothing, it is not."""
    return verbose or cause.harmful or cause.finding.effect is not Effect.NOTE


def _cause_lines(cause: Cause, shared: Collection[str], *, verbose: bool) -> Iterator[StyledLine]:
    finding = cause.finding
    label, style = ("error", "bold red") if cause.harmful else ("warning", "yellow")
    if finding.effect is Effect.NOTE:
        label, style = "note", "cyan"
    yield StyledLine(
        (f"{label}[{finding.rule}]", style), (f": {_make_readable(finding.message, verbose=verbose)}", "bold")
    )
    if not _is_whole(cause, verbose=verbose):
        return
    shown = finding.evidence if verbose else finding.evidence[:_EVIDENCE_SHOWN]
    for evidence in shown:
        yield StyledLine("    ", _make_readable(evidence.readable or evidence.subject, verbose=verbose))
        if verbose and evidence.readable and evidence.readable != evidence.subject:
            yield StyledLine(f"      {clean(evidence.subject)}", style="dim")
        if evidence.instead:
            yield StyledLine(("      found: ", "dim"), _make_readable(first_line(evidence.instead), verbose=verbose))
    if hidden := len(finding.evidence) - len(shown):
        yield StyledLine(f"    … {hidden} more (use -v to show them)", style="dim")
    if finding.says:
        notice = finding.says if verbose else first_line(finding.says)
        speaker = "the package" if finding.rule == REFUSED_BY_PACKAGE else "torch"
        yield StyledLine(f"  = {speaker} says: {_make_readable(notice, verbose=verbose)}")
    if len(cause.files) > 1:
        names = listed(cause.files, len(cause.files) if verbose else _FILES_SHOWN)
        yield StyledLine(f"  = {plural(len(cause.files), 'file')}: {clean(names)}")
    if finding.fix not in shared:
        yield StyledLine("  = ", FIX, f": {clean(finding.fix)}")
    yield StyledLine(f"  = help: abiscan explain {finding.rule}", style="dim")


def _library_lines(report: Report, package: PackageResult) -> Iterator[StyledLine]:
    for library in package.libraries:
        verdict = library.verdict.value if library.verdict else "not checked"
        where = f", {library.loaded_at}" if library.loaded_at else ""
        why = f" ({library.convention})" if library.convention else ""
        yield StyledLine(f"  {clean(library.path)}: {verdict}; {library.use}{clean(where + why)}", style="dim")
    for module in package.modules:
        yield StyledLine(f"  import {clean(module.name)}: {module.verdict.value}", style="dim")
    for condition in package.undecided:
        yield StyledLine(("condition", "yellow"), f": {clean(condition)}")
    for reason in package.gaps:
        yield StyledLine(("gap[python]", "yellow"), f": {clean(reason)}")
    for _, result in report.files(package):
        for gap in result.gaps:
            yield StyledLine((f"gap[{gap.stage}]", "yellow"), f": {clean(result.path)}: {clean(gap.reason)}")


def _make_readable(text: str, *, verbose: bool) -> str:
    """Return text with C++ names for people; the names that the loader uses are shown with ``-v``."""
    return clean(text if verbose else _shorten_text(_MANGLED.sub(lambda name: demangle(name.group()), text)))


def _shorten_text(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
