"""Python code of a package asks for the subclasses of a class of torch that lost them.

**What it finds.** `isinstance` and `issubclass` with a class that torch keeps for compatibility alone: since torch 2.0,
the schedulers of `torch.optim.lr_scheduler` derive from `LRScheduler`, and `_LRScheduler` is one of its subclasses. So
do functions that get it to look for its subclasses, by their words: `from_subclasses(_LRScheduler)`,
`register(superclass=_LRScheduler)`.

**Why it fails.** Nothing raises in torch: the answer is no for every class of torch. What the package does then is its
own: it rejects a scheduler, or finds none.

**Fix.** Use an older torch, or a version of the package for this torch. In your own package, ask for the new class
where torch has it.

**Limits.** Nothing is said if the package has the name of the new class anywhere. Whether the question matters, and
whether `_LRScheduler` is asked for besides other classes, is not looked at.

**Example.** `pyro-ppl asks in 2 places for torch.optim.lr_scheduler._LRScheduler, from which no class of torch 2.0.0
derives`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from abiscan.findings import Confidence, Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.words import listed, plural, ranges

if TYPE_CHECKING:
    from abiscan.python.later.lost_bases import BaseQuestion
    from abiscan.torches.name_history import NameHistory

_SHOWN: Final = 20


def find_problems(linkage: Linkage) -> Iterator[Finding]:  # noqa: ARG001 - it is about Python code
    """Find nothing in an extension: see ``list_findings``."""
    yield from ()


def list_findings(
    questions: Sequence[BaseQuestion], history: NameHistory, package: str, torch: str
) -> Iterator[Finding]:
    """Yield the finding about the questions for one class, of which there is at least one.

    :param history: the releases that have the class which the others derive from now
    :param torch: the torch, in words
    """
    first = questions[0]
    without = ranges(history.lacking, history.releases)
    yield Finding(
        rule=RULE.name,
        effect=Effect.CALL_FAILS,
        confidence=Confidence.POSSIBLE,
        message=f"{package} asks in {plural(len(questions), 'place')} for {first.name}, from which no class of {torch}"
        " derives",
        evidence=tuple(
            Evidence(subject=f"{question.file}:{question.line}", instead=question.successor) for question in questions
        ),
        fix=f"use torch {without}, where they do, or a version of {package} for {torch}",
        symptom=f"{package} finds none of {listed(first.no_longer, _SHOWN)}, or rejects them",
    )


RULE = rule("lost-torch-base", __doc__, find_problems)
