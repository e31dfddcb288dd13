"""What a report is about, one answer for each: a package, or a file that belongs to none. Views format them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from abiscan.findings import Effect
from abiscan.gaps import Gap
from abiscan.results.causes import Cause, group_causes
from abiscan.results.package import PackageResult, VerdictCondition
from abiscan.words import first_line

if TYPE_CHECKING:
    from abiscan.results.check import Report, Result, Suppressed


class ReportAnswer(Struct, frozen=True, kw_only=True):
    """One answer of a report: for a package, or, where that is None, for a file alone.

    A library of a package has no answer of its own: what it does to the package is in that of the package.

    :ivar judged: the result that it is made of
    :ivar name: the package and its version, or the path of the file in its target
    :ivar title: the same, with the target of a file
    :ivar error: what users see, in one line, which may be empty; None if nothing fails
    :ivar cause: what is behind that; empty if that is not known
    """

    report: Report
    judged: PackageResult | Result
    package: PackageResult | None = None
    name: str
    title: str
    error: str | None
    cause: str = ""
    gaps: Sequence[Gap]

    @property
    def verdict(self) -> str:
        """The verdict, in its own word."""
        return str(self.judged.verdict.value)

    @property
    def machine(self) -> str | None:
        """What it is built for: ``aarch64``, ``Windows on x86_64``; None for Python code alone."""
        return self.judged.machine

    @property
    def torch(self) -> str:
        """The torch in words, with the machine and the system where they are not these."""
        return self.judged.torch_name

    @property
    def causes(self) -> Sequence[Cause]:
        """What is wrong, the worst first."""
        if isinstance(self.judged, PackageResult):
            return group_causes(self.report, self.judged)
        return [Cause(finding=finding, files=(), harmful=True) for finding in self.judged.findings]

    @property
    def conditions(self) -> Sequence[VerdictCondition]:
        """What the verdict depends on, and is not known to be there."""
        return self.package.conditions if self.package else ()

    @property
    def fix(self) -> str | None:
        """What to do about the worst of what is wrong; None if nothing is."""
        return next((cause.finding.fix for cause in self.causes if cause.harmful), None)

    @property
    def suppressed(self) -> Iterator[tuple[Result, Suppressed]]:
        """The findings that the user accepts, each with the file that it is about."""
        judged = self.judged
        files = [file for _, file in self.report.files(judged)] if isinstance(judged, PackageResult) else [judged]
        return ((file, item) for file in files for item in file.suppressed)

    def fails(self, fail_on: Effect = Effect.CORRUPTS, *, strict: bool = False) -> bool:
        """Return whether it makes the exit code 1."""
        if isinstance(self.judged, PackageResult):
            return self.report.is_failure(self.judged, fail_on, strict=strict)
        return self.judged.is_failure(fail_on, strict=strict)


def answers_of(report: Report) -> Iterator[ReportAnswer]:
    """Yield the answers of a report: those for packages, then those for files that belong to none."""
    for package in report.packages:
        yield ReportAnswer(
            report=report,
            judged=package,
            package=package,
            name=package.title,
            title=package.title,
            error=first_line(str(package.error)) if package.error else None,
            cause=(package.error.cause if package.error else None) or "",
            gaps=[Gap(stage="python", reason=reason) for reason in package.gaps],
        )
    for result in report.alone:
        title = result.target if result.target.endswith(result.path) else f"{result.target}: {result.path}"
        error = result.predicted_error.line if result.predicted_error else None
        yield ReportAnswer(report=report, judged=result, name=result.path, title=title, error=error, gaps=result.gaps)
