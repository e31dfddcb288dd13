"""The extension fetches operators by name that this torch does not have.

**What it finds.** `findSchemaOrThrow("aten::name", "overload")` in the code of the extension, or the stable ABI's
`torch_call_dispatcher`, for an operator that neither this torch nor anything that is loaded with the extension defines.

**Why it fails.** It loads. When the code runs that fetches the operator, torch throws `Could not find schema for …`;
up to 1.5, `bad optional access`. For a namespace that is not torch's, the definition may stand in Python code or in
another library of the package, which is then a `note`.

**Fix.** Install a build of the extension made for this torch, or the torch that has the operator.

**Limits.** A name that is not a constant is not known; `abiscan ops` lists such calls as gaps. What code only asks for
(`findSchema`), and copes without, is no finding.

**Example.** `Could not find schema for aten::_cat.`
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.calls import lookup_message
from abiscan.dispatch.messages import has_message
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.rules.advice import other_build
from abiscan.rules.registration import listed


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for torch's namespaces, one for those of others."""
    registering = linkage.registering
    if registering is None or registering.operators is None:
        return
    has = registering.operators.operators
    loaded = (registering.own, *registering.brought.values())
    defined = {*has, *(operator.name for one in loaded for operator in one.operators)}
    implemented = {kernel.operator for one in loaded for kernel in one.kernels}
    needed = (one.operator for one in registering.own.lookups if one.throws)
    found = defined if has_message("S2", registering.release) else defined | implemented
    absent = list(dict.fromkeys(name for name in needed if name not in found))
    own = {*registering.operators.namespaces, *(name.partition("::")[0] for name in has)}
    for names, effect in (
        ([name for name in absent if name.partition("::")[0] in own], Effect.CALL_FAILS),
        ([name for name in absent if name.partition("::")[0] not in own], Effect.NOTE),
    ):
        if names:
            messages = [lookup_message(registering.release, name, implemented=name in implemented) for name in names]
            yield Finding(
                rule=RULE.name,
                effect=effect,
                message=f"{linkage.name} fetches operators that {linkage.release} does not have: {listed(names)}",
                evidence=tuple(
                    Evidence(subject=name, readable=f"{name}: {message.text}", object=linkage.name)
                    for name, message in zip(names, messages, strict=True)
                ),
                fix=other_build(linkage),
                says=messages[0].text,
            )


RULE = rule("missing-operator-lookup", __doc__, check)
