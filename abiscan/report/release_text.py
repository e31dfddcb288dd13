"""The verdict on a release, as text: each wheel, then what is wrong with all of them, then what to write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from abiscan.findings import Effect
from abiscan.report.fixes import FIX
from abiscan.report.line import Page, StyledLine
from abiscan.results.release import ReleaseProblem, ReleaseReport, ReleaseWheel
from abiscan.torches import embedded
from abiscan.words import clean, listed, plural, ranges

_GPUS_SHOWN: Final = 8


def render_release(report: ReleaseReport, page: Page, fail_on: Effect) -> None:
    """Print the verdict."""
    for wheel in report.wheels:
        for line in _wheel_lines(wheel, fail_on):
            page.print(line, soft_wrap=True)
        page.print(StyledLine())
    for problem in report.problems:
        for line in _problem_lines(problem, fail_on):
            page.print(line, soft_wrap=True)
    page.print(_format_summary(report, fail_on), soft_wrap=True)


def _format_summary(report: ReleaseReport, fail_on: Effect) -> StyledLine:
    wheels = plural(len(report.wheels), "wheel")
    against = f", compared with {plural(len(report.against), 'wheel')}" if report.against else ""
    ready = report.is_ready(fail_on)
    return StyledLine(
        (f"{'ready' if ready else 'not ready'}", "green" if ready else "bold red"), f": {wheels}{against}"
    )


def _wheel_lines(wheel: ReleaseWheel, fail_on: Effect) -> Iterator[StyledLine]:
    yield StyledLine((clean(wheel.target), "bold"))
    declared = f"requires {wheel.declared}" if wheel.declared else "requires no torch"
    yield StyledLine(f"  torch: works on {_format_releases(wheel.works_on)}; {clean(declared)}")
    if wheel.unknown_on:
        yield StyledLine(f"  torch: unknown on {_format_releases(wheel.unknown_on)}", style="yellow")
    needs = f"needs glibc {wheel.glibc}" if wheel.glibc else "needs no particular glibc"
    yield StyledLine(f"  system: {needs}; tagged {clean(wheel.platform)}")
    if wheel.stable_abi:
        yield StyledLine(f"  stable ABI: {clean(wheel.stable_abi)}")
    if wheel.gpus:
        yield StyledLine(f"  GPUs: {clean(listed(wheel.gpus, _GPUS_SHOWN))}")
    for problem in wheel.problems:
        yield from _problem_lines(problem, fail_on)
    for what in _correction_lines(wheel):
        yield StyledLine(("write", "bold green"), f": {clean(what)}")
    if wheel.written:
        yield StyledLine(("written", "green"), f": {clean(wheel.written)}")


def _correction_lines(wheel: ReleaseWheel) -> Iterator[str]:
    if wheel.requires_dist:
        yield f"Requires-Dist: {wheel.requires_dist}"
    if wheel.tags:
        yield f"Tag: {wheel.tags}"
    if wheel.stamp:
        yield wheel.stamp


def _problem_lines(problem: ReleaseProblem, fail_on: Effect) -> Iterator[StyledLine]:
    is_error = problem.effect.severity >= fail_on.severity
    label, style = ("error", "bold red") if is_error else ("warning", "yellow")
    rule = f"[{problem.rule}]" if problem.rule else ""
    yield StyledLine((f"{label}{rule}", style), f": {clean(problem.message)}")
    yield StyledLine("  = ", FIX, f": {clean(problem.fix)}")


def _format_releases(names: Sequence[str]) -> str:
    return ranges(names, map(str, embedded.versions())) or "no release"
