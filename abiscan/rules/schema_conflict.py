"""The extension defines an operator with a different schema than this torch.

**What it finds.** Up to torch 1.7, a `def` (or `RegisterOperators().op("aten::…(…)")`) of an operator that is already
defined with a different schema. Argument names, defaults, list sizes and alias annotations all count. So does the
alias analysis kind, if both definitions give one.

**Why it fails.** These releases allow an operator to be defined again if the schema is the same, so backends repeated
the schemas of the torch they were built for. A release that adds an argument breaks all of them.

**Fix.** Install a build of the extension made for this torch, or the torch it was built for.

**Limits.** From 1.8 on, any second definition is rejected, whatever its schema: that is `duplicate-def`. Operators
registered in Python code are not seen.

**Example.** `Tried to register multiple operators with the same name and the same overload name but different
schemas: aten::_embedding_bag(…) vs aten::_embedding_bag(…, bool include_last_offset=False)`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.rules.registration import compare_schemas, list_refusals, other_side, refusal_finding


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Compare the two definitions that torch found to differ, in their schemas or alias analysis kinds."""
    load = linkage.load
    for reaction in list_refusals(load, ("D2",)):
        difference, both = compare_schemas(load, reaction)
        subject, second = reaction.outcome.subject, other_side(load, reaction)
        cause = f"{reaction.object} defines {subject} with a different schema than {second}: {difference}"
        yield refusal_finding(RULE.name, linkage, reaction, cause, [both])
    # The schemas may be equal here: the kinds of alias analysis are compared next to them.
    for reaction in list_refusals(load, ("D3", "D4", "D5")):
        _, both = compare_schemas(load, reaction)
        subject, second = reaction.outcome.subject, other_side(load, reaction)
        cause = f"{reaction.object} defines {subject} with a different alias analysis kind than {second}"
        yield refusal_finding(RULE.name, linkage, reaction, cause, [both])


RULE = rule("schema-conflict", __doc__, find_problems, [TorchData.OPERATORS])
