"""The extension defines an operator with a schema that this torch cannot parse.

**What it finds.** A schema that uses a type this torch does not know (one added in a later release, or a custom class
that is not registered yet), that has a syntax error, or that has more than 64 arguments.

**Why it fails.** The torch that loads the extension parses its schemas, at load time.

**Fix.** Install the torch that the extension was built for, or a newer one. A syntax error fails on every torch:
report it to the extension's maintainers.

**Limits.** A custom class that another library registers is known only if that library is a target of the same
command, or installed alongside torch. While a library that the extension needs is missing, an unknown class is a gap.

**Example.** `unknown type specifier … op(Tensor self, Tenzor other) -> Tensor`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.schema import is_of_syntax
from abiscan.findings import Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.rules.registration import list_refusals, place_of, refusal_finding


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding, for the schema at which torch stops."""
    # G1 has the words of the parser; K11 is the limit of 64 arguments, which is checked after parsing.
    for reaction in list_refusals(linkage.load, ("G1", "K11")):
        outcome = reaction.outcome
        assert outcome.message is not None
        problem = outcome.problem or outcome.message.text
        place = place_of(outcome.event)
        yield refusal_finding(
            RULE.name,
            linkage,
            reaction,
            f"{reaction.object} has a schema that {linkage.load.release} cannot parse: {problem}",
            [
                Evidence(
                    subject=outcome.subject,
                    readable=outcome.subject + (f", at {place}" if place else ""),
                    object=reaction.object,
                )
            ],
            # A syntax error fails everywhere; an unknown type may be known to a newer torch.
            "correct the schema, or report it to the extension's maintainers: no torch accepts it"
            if is_of_syntax(problem)
            else None,
        )


RULE = rule("bad-schema-string", __doc__, find_problems, [TorchData.OPERATORS])
