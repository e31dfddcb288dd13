"""The extension looks up operators that this torch does not have.

**What it finds.** `findSchemaOrThrow("aten::name", "overload")` in the code of the extension, or
`torch_call_dispatcher` of the stable ABI, for an operator that is defined neither by this torch nor by anything
loaded with the extension.

**Why it fails.** It loads. When the lookup runs, torch throws `Could not find schema for …`, or `bad optional access`
up to 1.5. In a namespace that is not torch's, Python code or another library of the package may define the operator;
that is a `note`.

**Fix.** Install a build of the extension made for this torch, or a torch that has the operator.

**Limits.** A name that is not a constant is not known; `abiscan ops` lists such calls as gaps. A lookup that may fail
(`findSchema`) is not reported.

**Example.** `Could not find schema for aten::_cat.`
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.calls import lookup_message
from abiscan.dispatch.messages import has_message
from abiscan.findings import Confidence, Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.rules.advice import other_build
from abiscan.words import listed


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for torch's namespaces, one for all others."""
    load, registering = linkage.load, linkage.load.registering
    if registering is None or registering.operators is None:
        return
    of_torch = registering.operators.operators
    loaded = (registering.own, *registering.bundled.values())
    defined = {*of_torch, *(operator.name for registrations in loaded for operator in registrations.operators)}
    implemented = {kernel.operator for registrations in loaded for kernel in registrations.kernels}
    needed = (lookup.operator for lookup in registering.own.lookups if lookup.throws)
    # Releases without that check find an operator that has a kernel but no schema, too.
    available = defined if has_message("S2", registering.release) else defined | implemented
    absent = list(dict.fromkeys(name for name in needed if name not in available))
    # In a namespace of torch's, nobody else defines operators; in any other, Python code may.
    namespaces = {*registering.operators.namespaces, *(name.partition("::")[0] for name in of_torch)}
    for of_torch_alone, effect, confidence in (
        (True, Effect.CALL_FAILS, Confidence.CERTAIN),
        (False, Effect.NOTE, Confidence.POSSIBLE),
    ):
        names = [name for name in absent if (name.partition("::")[0] in namespaces) is of_torch_alone]
        if names:
            messages = [lookup_message(registering.release, name, implemented=name in implemented) for name in names]
            yield Finding(
                rule=RULE.name,
                effect=effect,
                message=f"{load.name} looks up operators that {load.release} does not have: {listed(names)}",
                evidence=tuple(
                    Evidence(subject=name, readable=f"{name}: {message.text}", object=load.name)
                    for name, message in zip(names, messages, strict=True)
                ),
                fix=other_build(linkage),
                says=messages[0].text,
                confidence=confidence,
            )


RULE = rule("missing-operator-lookup", __doc__, find_problems, [TorchData.OPERATORS])
