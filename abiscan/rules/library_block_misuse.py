"""The extension uses a `TORCH_LIBRARY` block, or `RegisterOperators`, for what it is not there for.

**What it finds.** A definition in a block of kernels, a fallback outside of one or without a key, a schema or kernel
of another namespace than that of its block, a kernel whose key is not that of its block, a block for the namespace
`_`; with `RegisterOperators`, two kernels for one key in one `op(…)`, an operator with neither a schema nor a
kernel to infer one from, and a kind of alias analysis that does not go with the schema.

**Why it fails.** torch checks each of them as it is registered. Most cannot have worked with any torch, so the
extension has hardly been loaded since it was written. Others depend on the release: an explicit namespace in a schema
fails on 1.6 alone, an alias annotation without `AliasAnalysisKind::FROM_SCHEMA` up to 1.4.

**Fix.** Report it to those who make the extension: the message names the line.

**Limits.** A schema with the namespace of its own block looks as one without it.

**Example.** `def("op"): Cannot define an operator inside of a TORCH_LIBRARY_IMPL block.  All def()s should be placed in
the (unique) TORCH_LIBRARY block for their namespace.`
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.rules.registration import place_of, refusal, refusals

_WHAT = {
    "L1": "opens a block for the namespace _, which only kernels may have",
    "L1b": "opens a TORCH_LIBRARY for the namespace _, which only kernels may have",
    "L2": "gives a dispatch key to a block that defines operators",
    "L3": "defines {subject} in a block of kernels",
    "L4": "defines {subject} in the block of another namespace",
    "L5": "defines {subject} with neither a schema nor a C++ function to infer one from",
    "L6": "registers a kernel of {subject} in the block of another namespace",
    "L7": "registers a kernel of {subject} for another dispatch key than that of its block",
    "L8": "registers a fallback in a block that defines operators",
    "L9": "registers a fallback without a dispatch key",
    "L10": "registers a fallback for {subject} in one namespace alone",
    "R3": "registers two kernels of {subject} for one dispatch key at once",
    "R4": "registers two kernels of {subject} without a dispatch key at once",
    "R5": "defines {subject} with neither a schema nor a kernel to infer one from",
    "R6": "defines {subject} without a schema, and with kernels that have no C++ type to infer one from",
    "R9": "asks for the alias analysis of {subject} to be told from its schema, which is inferred and tells nothing",
    "R10": "defines {subject} by a schema that says what aliases what, and does not ask for that to be used",
}
# What a release accepts that another one refuses.
_OF_RELEASES = ("L4", "R10")


def check(linkage: Linkage) -> Iterator[Finding]:
    """Say which of the checks it is."""
    for reaction in refusals(linkage, _WHAT):
        message, subject = reaction.outcome.message, reaction.outcome.subject
        assert message is not None
        where = place_of(reaction.outcome.event)
        yield refusal(
            RULE.name,
            linkage,
            reaction,
            f"{reaction.object} {_WHAT[message.id].format(subject=subject)}",
            [Evidence(subject=subject, readable=f"at {where}" if where else None, object=reaction.object)],
            "report it to those who make the extension: no torch accepts this"
            if message.id not in _OF_RELEASES
            else None,
        )


RULE = rule("library-block-misuse", __doc__, check)
