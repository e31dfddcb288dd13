"""What a rule reports: findings, their effect and their evidence."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from abiscan.linkage.linkage import Linkage
    from abiscan.linkage.unknown_torch_data import TorchData


METADATA_RULES: Final = frozenset(("declared-requirement-wrong", "variant-property-wrong"))
"""The rules about what a wheel states: their findings are about other systems than the one at hand."""

REFUSED_BY_PACKAGE: Final = "refused-by-package"
"""The rule whose findings quote the package, instead of torch."""

PYTHON_RULES: Final = frozenset((REFUSED_BY_PACKAGE, "lost-torch-base", "missing-torch-name", "rejected-torch-call"))
"""The rules about what the Python code of a package does once it is called."""


@functools.total_ordering
class Effect(enum.Enum):
    """What a finding leads to, the mildest first."""

    NOTE = "note"
    """No harm by itself, but worth knowing."""

    OVERRIDES = "overrides"
    """It works, but replaces part of torch or of another extension."""

    CALL_FAILS = "call-fails"
    """It loads, but calling the affected operator raises."""

    CORRUPTS = "corrupts"
    """It loads, but may read or write the wrong memory."""

    LOAD_FAILS = "load-fails"
    """Importing or loading it raises."""

    ABORTS = "aborts"
    """Loading it ends the process."""

    @property
    def severity(self) -> int:
        """The position in the order above, from 0."""
        return list(Effect).index(self)

    def __lt__(self, other: object) -> bool:
        return self.severity < other.severity if isinstance(other, Effect) else NotImplemented


class Confidence(enum.Enum):
    """How sure it is that the effect comes about, if what the finding names is used at all."""

    CERTAIN = "certain"
    """The files leave no other possibility."""

    POSSIBLE = "possible"
    """It depends on what the files do not say: what else is loaded, which build it was, or how it is called."""


class Evidence(Struct, frozen=True, kw_only=True):
    """One piece of evidence for a finding.

    :ivar subject: the symbol, library or version concerned, as the file spells it
    :ivar readable: the same in readable form, None if it is readable already
    :ivar object: the base name of the object that it is in
    :ivar instead: what is there in its place, None if nothing
    :ivar since: the first release of torch that has it, None for the oldest one that is embedded
    :ivar until: the last release that has it, None for the newest
    """

    subject: str
    readable: str | None = None
    object: str | None = None
    instead: str | None = None
    since: str | None = None
    until: str | None = None


class Finding(Struct, frozen=True, kw_only=True):
    """One problem, with all its evidence.

    :ivar rule: the name of the rule that reports it
    :ivar effect: what it leads to
    :ivar message: what is wrong, in one sentence
    :ivar evidence: everything that shows the cause
    :ivar fix: what to do about it
    :ivar says: what torch itself, or a package that refuses it, says about it, word for word, if it says anything
    :ivar symptom: what users see if the package hides the error itself
    :ivar confidence: how sure it is
    """

    rule: str
    effect: Effect
    message: str
    evidence: tuple[Evidence, ...]
    fix: str
    says: str | None = None
    symptom: str | None = None
    confidence: Confidence = Confidence.CERTAIN


class Documented(Struct, frozen=True, kw_only=True):
    """A kind of finding: ``summary`` is one line; ``documentation`` the whole text, in Markdown."""

    name: str
    summary: str
    documentation: str


class Rule(Documented, frozen=True, kw_only=True):
    """A check and its documentation.

    :ivar name: as users write it
    :ivar summary: one line
    :ivar documentation: the whole text, in Markdown
    :ivar check: yields the findings of one load
    :ivar needs: the data of the torch without which it cannot find everything
    """

    check: Callable[[Linkage], Iterator[Finding]]
    needs: frozenset[TorchData] = frozenset()


def rule(
    name: str, documentation: str | None, check: Callable[[Linkage], Iterator[Finding]], needs: Iterable[TorchData] = ()
) -> Rule:
    """Make a rule that is documented by the docstring of its module, whose first line is the summary."""
    # The docstring is for users as well: ``abiscan explain`` and the pages of the documentation are made of it.
    assert documentation is not None
    text = documentation.strip()
    summary = text.partition("\n")[0]
    return Rule(name=name, summary=summary, documentation=text, check=check, needs=frozenset(needs))
