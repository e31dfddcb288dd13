"""What a rule says: findings, their effect and their evidence."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from abiscan.linkage.linkage import Linkage


class Effect(enum.Enum):
    """What happens to a user who meets the finding, the mildest first."""

    NOTE = "note"
    """Nothing by itself; worth knowing."""

    OVERRIDES = "overrides"
    """It works, and silently replaces something of torch."""

    CALL_FAILS = "call-fails"
    """It loads; calling what is concerned raises."""

    CORRUPTS = "corrupts"
    """It loads and may read or write memory that is not its own."""

    LOAD_FAILS = "load-fails"
    """Importing or loading it raises."""

    ABORTS = "aborts"
    """Loading it ends the process."""

    @property
    def severity(self) -> int:
        """Its place in the order above, from 0."""
        return list(Effect).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One proof of a finding.

    ``subject`` is the symbol, library or version concerned, as the file spells it; ``readable`` the same for people;
    ``object`` the base name of the object it was seen in; ``instead`` what the target torch has in its place.
    """

    subject: str
    readable: str | None = None
    object: str | None = None
    instead: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One cause of trouble, with everything that shows it.

    ``says`` is what torch itself says about it, word for word, where it says anything; ``symptom`` what users see who
    do not see the error itself, since the package ignores it.
    """

    rule: str
    effect: Effect
    message: str
    evidence: tuple[Evidence, ...]
    fix: str
    says: str | None = None
    symptom: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A check and its documentation.

    ``summary`` is one line; ``documentation`` the whole text, in Markdown.
    """

    name: str
    summary: str
    documentation: str
    check: Callable[[Linkage], Iterator[Finding]]


def rule(name: str, documentation: str | None, check: Callable[[Linkage], Iterator[Finding]]) -> Rule:
    """A rule documented by the docstring of its module, whose first line is the summary."""
    assert documentation is not None
    text = documentation.strip()
    return Rule(name=name, summary=text.partition("\n")[0], documentation=text, check=check)
