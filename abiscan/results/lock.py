"""The results for locks: the environments that one describes, and what becomes of them by another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from abiscan.findings import Effect, Finding
from abiscan.results.doctor import Counts, DistributionState, TorchHealth
from abiscan.results.document import Document
from abiscan.results.fields import Text
from abiscan.results.package import PackageVerdict

_FAILING: Final = (PackageVerdict.IMPORT_FAILS, PackageVerdict.CORRUPTS)


class LockedState(Struct, frozen=True, kw_only=True):
    """One environment of a lock.

    :ivar python: its minor version
    :ivar platform: as wheels call it, without the age of the system
    :ivar torch: its torch, whose version is None if there is none
    :ivar judged_as: the build of torch that it was checked on, None if nothing uses torch, or none is known
    :ivar distributions: those that use torch
    :ivar process: what concerns every process of the environment
    :ivar counts: what becomes of the distributions
    :ivar hardware: what does not run on the GPUs and processors that it is checked for
    """

    python: str
    platform: str
    torch: TorchHealth
    judged_as: str | None
    distributions: tuple[DistributionState, ...]
    process: tuple[Finding, ...]
    counts: Counts
    hardware: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        return f"Python {self.python} on {self.platform}"

    @property
    def exit_code(self) -> int:
        """0: everything works; 1: something does not; 3: something could not be checked, and nothing is worse."""
        harmful = any(finding.effect is not Effect.NOTE for finding in (*self.process, *self.hardware))
        if self.counts.fail or harmful or self.torch.imports is False:
            return 1
        return 3 if self.counts.unknown else 0


def count_verdicts(distributions: Sequence[DistributionState]) -> Counts:
    """Count what becomes of distributions."""
    verdicts = Counter(item.verdict for item in distributions)
    return Counts(
        looked_at=len(distributions),
        work=verdicts[PackageVerdict.WORKS],
        fail=sum(verdicts[verdict] for verdict in _FAILING),
        without_part=verdicts[PackageVerdict.WORKS_WITHOUT],
        unknown=verdicts[PackageVerdict.UNKNOWN],
    )


class LockReport(Document, frozen=True, kw_only=True):
    """What becomes of each environment that a lock describes.

    :ivar lock: its file, as the user named it
    :ivar environments: those that were asked for
    """

    lock: str
    environments: tuple[LockedState, ...]

    @property
    def exit_code(self) -> int:
        """That of the worst environment."""
        codes = {item.exit_code for item in self.environments}
        return next((code for code in (1, 3) if code in codes), 0)


class VersionChange(Struct, frozen=True, kw_only=True):
    """A package that two locks have in different versions.

    :ivar before: None if it comes in addition
    :ivar after: None if it goes
    """

    name: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return f"{self.name} {self.before or '(absent)'} -> {self.after or '(absent)'}"


class OutcomeChange(Struct, frozen=True, kw_only=True):
    """A distribution that one lock lets work, and another does not.

    :ivar version: after the change, or before it if it goes
    :ivar before: what it came to; None if it was not there
    :ivar after: what it comes to; None if it is not there any more
    :ivar error: what is wrong with it: after the change if it becomes worse, before it if it becomes better
    :ivar cause: the distribution that it fails for, and that fails itself
    :ivar environments: those in which it is so: ``Python 3.12 on linux_x86_64``
    """

    name: str
    version: str
    before: PackageVerdict | None
    after: PackageVerdict | None
    error: Text | None
    cause: str | None = None
    environments: tuple[str, ...] = ()


class LockFit(Document, frozen=True, kw_only=True):
    """The smallest change of a lock after which what uses torch works.

    :ivar lock: its file, as the user named it
    :ivar torch: the torch that it works with then
    :ivar broken: what does not work as it is, and why
    :ivar changes: the packages that have to have another version
    :ivar unknown: what could not be checked, in these versions
    :ivar command: what to type, in the words of the tool that writes such locks; None if nothing has to change
    :ivar obstacle: what stands in the way if nothing is found
    """

    lock: str
    torch: str | None
    broken: tuple[Text, ...]
    changes: tuple[VersionChange, ...]
    unknown: tuple[Text, ...]
    command: str | None
    obstacle: str | None = None

    @property
    def exit_code(self) -> int:
        """0: found, or nothing has to change; 1: nothing fits."""
        return 0 if self.obstacle is None else 1

    def to_requirements(self) -> str:
        """Return the versions as a file of requirements."""
        return "".join(f"{change.name}=={change.after}\n" for change in self.changes)


class LockComparison(Document, frozen=True, kw_only=True):
    """What an update of a lock does.

    :ivar old: the file of the lock before
    :ivar new: that of the lock after
    :ivar torch: the change of torch, None if it stays
    :ivar worse: what works before, and not after
    :ivar better: what does not work before, and does after
    :ivar still: what works neither before nor after
    :ivar unknown: what could not be checked
    :ivar changes: the packages that change, torch first
    :ivar environments: those that were compared: ``Python 3.12 on linux_x86_64``
    """

    old: str
    new: str
    torch: VersionChange | None
    worse: tuple[OutcomeChange, ...]
    better: tuple[OutcomeChange, ...]
    still: tuple[OutcomeChange, ...]
    unknown: tuple[OutcomeChange, ...]
    changes: tuple[VersionChange, ...]
    environments: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """1: something becomes worse; 3: it is not known of something that changes; 0 otherwise."""
        if self.worse:
            return 1
        return 3 if self.unknown else 0
