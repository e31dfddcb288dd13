"""The extension defines an operator with a schema that this torch cannot read.

**What it finds.** A schema with a type that this torch does not know (a type that is newer than it, or a custom class
that is not registered yet), with a mistake in its syntax, or with more than 64 arguments.

**Why it fails.** Schemas are parsed by the torch that loads the extension, when it does.

**Fix.** Install the torch that the extension was built for, or newer. A mistake in the syntax fails everywhere: report
it to those who make the extension.

**Limits.** Custom classes that another library registers first are only known if it is loaded in the same process.

**Example.** `unknown type specifier … op(Tensor self, Tenzor other) -> Tensor`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.rules.registration import place_of, refusal, refusals


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for the schema at which torch stops."""
    for reaction in refusals(linkage, ("G1", "K11")):
        outcome = reaction.outcome
        assert outcome.message is not None
        problem = outcome.problem or outcome.message.text
        where = place_of(outcome.event)
        yield refusal(
            RULE.name,
            linkage,
            reaction,
            f"{reaction.object} has a schema that {linkage.release} cannot read: {problem}",
            [
                Evidence(
                    subject=outcome.subject,
                    readable=outcome.subject + (f", at {where}" if where else ""),
                    object=reaction.object,
                )
            ],
        )


RULE = rule("bad-schema-string", __doc__, check)
