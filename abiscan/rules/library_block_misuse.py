"""The extension misuses a `TORCH_LIBRARY` block or `RegisterOperators`.

**What it finds.** A definition in a `TORCH_LIBRARY_IMPL` block; a fallback outside such a block or without a key; a
schema or kernel for a different namespace than its block; a kernel for a different key than its block; a block for
the namespace `_`. With `RegisterOperators`: two kernels for one key in one `op(…)`, an operator with neither a schema
nor a kernel to infer one from, and an alias analysis kind that does not fit the schema.

**Why it fails.** Torch checks all of this at registration. Most of it has never worked with any torch, so the
extension has probably not been loaded since it was written. The rest depends on the release: an explicit namespace in
a schema fails only on 1.6, and an alias annotation without `AliasAnalysisKind::FROM_SCHEMA` fails up to 1.4.

**Fix.** Report it to the extension's maintainers: the message names the source line.

**Limits.** A schema that repeats the namespace of its own block looks the same as one without a namespace.

**Example.** `def("op"): Cannot define an operator inside of a TORCH_LIBRARY_IMPL block.  All def()s should be placed
in the (unique) TORCH_LIBRARY block for their namespace.`
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.messages import UNKNOWN_KEY
from abiscan.findings import Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.rules.registration import list_refusals, place_of, refusal_finding

_WHAT = {
    "L1": "opens a block for the namespace _, which only TORCH_LIBRARY_IMPL allows",
    "L1b": "opens a TORCH_LIBRARY for the namespace _, which only TORCH_LIBRARY_IMPL allows",
    "L2": "gives a dispatch key to a block that defines operators",
    "L3": "defines {subject} in a TORCH_LIBRARY_IMPL block",
    "L4": "defines {subject} in a block for another namespace",
    "L5": "defines {subject} without a schema, and without a C++ function to infer one from",
    "L6": "registers a kernel for {subject} in a block for another namespace",
    "L7": "registers a kernel for {subject} with a different dispatch key than its block",
    "L8": "registers a fallback outside a TORCH_LIBRARY_IMPL block",
    "L9": "registers a fallback without a dispatch key",
    "L10": "registers a fallback for {subject} in a block for a single namespace",
    UNKNOWN_KEY: "opens a STABLE_TORCH_LIBRARY_IMPL for {subject} with a dispatch key that this torch does not have",
    "R3": "registers two kernels for {subject} and one dispatch key in one op()",
    "R4": "registers two kernels for {subject} without a dispatch key in one op()",
    "R5": "defines {subject} without a schema, and without a kernel to infer one from",
    "R6": "defines {subject} without a schema, and no kernel has a C++ type to infer one from",
    "R9": "sets AliasAnalysisKind::FROM_SCHEMA for {subject}, whose schema is inferred",
    "R10": "defines {subject} with alias annotations, but without AliasAnalysisKind::FROM_SCHEMA",
}
# Accepted by some releases, rejected by others.
_RELEASE_CHECKS = ("L4", "R10", UNKNOWN_KEY)


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Say which of the checks failed."""
    # The keys are the ids of torch's messages in ``dispatch``: L for those about blocks, R for ``RegisterOperators``.
    for reaction in list_refusals(linkage.load, _WHAT):
        message, subject = reaction.outcome.message, reaction.outcome.subject
        assert message is not None
        place = place_of(reaction.outcome.event)
        yield refusal_finding(
            RULE.name,
            linkage,
            reaction,
            f"{reaction.object} {_WHAT[message.id].format(subject=subject)}",
            [Evidence(subject=subject, readable=f"at {place}" if place else None, object=reaction.object)],
            "report it to the extension's maintainers: no torch accepts this"
            if message.id not in _RELEASE_CHECKS
            else None,
        )


RULE = rule("library-block-misuse", __doc__, find_problems, [TorchData.OPERATORS])
