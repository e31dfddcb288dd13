"""The result of ``abiscan release``: wheels before they are out. Its JSON Schema is ``schema/release-v1.json``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from abiscan.findings import Effect
from abiscan.results.document import Document, JsonObject
from abiscan.results.unchecked import Unchecked, exit_code_of


class ReleaseProblem(Struct, frozen=True, kw_only=True):
    """What is wrong with a wheel, or with the wheels of a release as a whole.

    :ivar rule: the rule that reports it; None for what no rule of ``abiscan check`` is about
    """

    rule: str | None
    effect: Effect
    message: str
    fix: str


class ReleaseWheel(JsonObject, frozen=True, kw_only=True, omit_defaults=False):
    """A wheel: what it is for, what it says of that, and what to write into it.

    :ivar target: as the user named it
    :ivar python: its tags for Python and its ABI: ``cp311-cp311``
    :ivar platform: its tag for the system: ``manylinux_2_28_x86_64``
    :ivar machine: what its libraries are built for; null for Python code alone
    :ivar declared: its requirement on torch
    :ivar works_on: the releases of torch on which all of it works, of those with wheels for its Python
    :ivar unknown_on: those of which that is not known
    :ivar glibc: the oldest glibc of a manylinux tag whose systems have all symbol versions that it needs
    :ivar stable_abi: whether it is tied to releases of torch, in words; null without extensions
    :ivar minimum_torch: since which release the stable ABI that it uses is there; null if it is tied
    :ivar gpus: the GPUs that its code is for
    :ivar operators: the operators that it defines
    :ivar requires_dist: the requirement to write; null if it stays
    :ivar tags: the tags to write; null if they stay
    :ivar stamp: the command that stamps it for its guard; null without a guard
    :ivar written: the corrected wheel; null if none was written
    """

    target: str
    name: str
    version: str | None
    python: str
    platform: str
    machine: str | None
    declared: str | None
    works_on: Sequence[str]
    unknown_on: Sequence[str]
    glibc: str | None
    stable_abi: str | None
    minimum_torch: str | None
    gpus: Sequence[str]
    operators: Sequence[str]
    problems: Sequence[ReleaseProblem]
    requires_dist: str | None = None
    tags: str | None = None
    stamp: str | None = None
    written: str | None = None


class ReleaseReportJson(JsonObject, frozen=True, kw_only=True):
    """The document of ``abiscan release``.

    :ivar problems: those of the wheels as a whole
    :ivar against: the wheels that they were compared with
    """

    wheels: Sequence[ReleaseWheel]
    problems: Sequence[ReleaseProblem]
    against: Sequence[str]
    unchecked: Sequence[Unchecked]


class ReleaseReport(Document, frozen=True, kw_only=True):
    """The verdict on a release."""

    wheels: tuple[ReleaseWheel, ...]
    problems: tuple[ReleaseProblem, ...]
    against: tuple[str, ...] = ()
    unchecked: tuple[Unchecked, ...] = ()

    def _contents(self) -> ReleaseReportJson:
        return ReleaseReportJson.of(self)

    def is_ready(self, fail_on: Effect = Effect.CORRUPTS) -> bool:
        """Whether nothing speaks against publishing the wheels."""
        return not self.unchecked and not _are_harmful(self._all_problems(), fail_on)

    def _all_problems(self) -> Iterable[ReleaseProblem]:
        return (*self.problems, *(problem for wheel in self.wheels for problem in wheel.problems))

    def exit_code(self, fail_on: Effect = Effect.CORRUPTS, *, strict: bool = False) -> int:
        """Return the worst of all wheels: 1 for a problem at or above ``fail_on``, 2 for a wheel that cannot be read, 3
        where nothing is known of any release of torch.

        :param strict: whether what is unknown on some release is a failure, too
        """
        unknown = any(wheel.unknown_on and not wheel.works_on for wheel in self.wheels)
        return exit_code_of(
            failed=_are_harmful(self._all_problems(), fail_on)
            or (strict and any(wheel.unknown_on for wheel in self.wheels)),
            unknown=unknown,
            unchecked=self.unchecked,
        )


def _are_harmful(problems: Iterable[ReleaseProblem], fail_on: Effect) -> bool:
    return any(problem.effect.severity >= fail_on.severity for problem in problems)
