"""The extension registers kernels for operators that nothing defines.

**What it finds.** `m.impl("name", …)` for an operator that is defined neither by this torch nor by anything loaded
with the extension.

**Why it matters.** It loads, and torch does not complain. But the operator does not exist: the kernel is never
called, and looking up the operator fails. This is how an operator that torch renamed or removed shows up. In a
namespace that is not torch's, Python code or another library of the package may define the operator; that is a
`note`. If the Python code of the package defines it, the note says where.

**Fix.** Install a build of the extension made for this torch, or a torch that has the operator.

**Limits.** Python code is read only for a package as a whole, and not all of it can be followed. What torch itself
defines in Python as it is imported is recorded for the latest releases; for others, what it may define is a gap.

**Example.** `_C.so has kernels for operators that torch 2.13.0 does not have: aten::refine_names`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.outcomes import OutcomeKind
from abiscan.findings import Confidence, Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.registering import Reaction
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.rules.advice import other_build
from abiscan.rules.registration import place_of
from abiscan.torches import embedded_python
from abiscan.words import listed


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for torch's namespaces, one for all others."""
    load, registering = linkage.load, linkage.load.registering
    if registering is None or registering.operators is None:
        return
    defined = registering.operators.operators
    dead = [
        reaction
        for reaction in registering.reactions
        if reaction.outcome.kind is OutcomeKind.DEAD and reaction.outcome.subject not in defined
    ]
    if not dead:
        return
    # torch defines some of its operators in Python as it is imported, which its libraries do not show.
    from_python = embedded_python.definitions(load.release.torch_version) or frozenset()
    dead = [reaction for reaction in dead if reaction.outcome.subject not in from_python]
    # Of an embedded torch, only the operators that matter are looked up, but all of its namespaces.
    namespaces = {*registering.operators.namespaces, *(name.partition("::")[0] for name in defined)}
    of_torch = [reaction for reaction in dead if reaction.outcome.subject.partition("::")[0] in namespaces]
    # Three answers of different weight: torch does not have it (a fault), nobody is seen to have it (a note), the code
    # of the package has it (a note that says where).
    places = load.defined_in_python
    in_python = [reaction for reaction in dead if _base_name(reaction) in places]
    of_torch = [reaction for reaction in of_torch if reaction not in in_python]
    of_others = [reaction for reaction in dead if reaction not in of_torch and reaction not in in_python]
    if of_torch:
        yield Finding(
            rule=RULE.name,
            effect=Effect.CALL_FAILS,
            message=f"{load.name} has kernels for operators that {load.release} does not have: {_names_of(of_torch)}",
            evidence=tuple(map(_make_evidence, of_torch)),
            fix=other_build(linkage),
        )
    if of_others:
        yield Finding(
            rule=RULE.name,
            effect=Effect.NOTE,
            message=(
                f"{load.name} has kernels for operators that neither torch nor any library loaded with it defines: "
                f"{_names_of(of_others)}"
            ),
            evidence=tuple(map(_make_evidence, of_others)),
            fix="no action needed if Python code or another library of the package defines them before they are called",
            confidence=Confidence.POSSIBLE,
        )

    if in_python:
        different = dict.fromkeys(map(_base_name, in_python))
        named = listed(f"{name} (defined at {places[name]})" for name in different)
        yield Finding(
            rule=RULE.name,
            effect=Effect.NOTE,
            message=f"{load.name} has kernels for operators that Python code of the package defines: {named}",
            evidence=tuple(_make_evidence(reaction, places[_base_name(reaction)]) for reaction in in_python),
            fix="no action needed: the package defines them",
        )


def _base_name(reaction: Reaction) -> str:
    """Return the operator, without its overload."""
    # Python code defines operators by name, and overloads in the text of the schema, which may be computed.
    return reaction.outcome.subject.partition(".")[0]


def _names_of(reactions: list[Reaction]) -> str:
    return listed(dict.fromkeys(reaction.outcome.subject for reaction in reactions))


def _make_evidence(reaction: Reaction, defined: str | None = None) -> Evidence:
    place = place_of(reaction.outcome.event)
    places = [*([f"registered at {place}"] if place else []), *([f"defined at {defined}"] if defined else [])]
    return Evidence(
        subject=reaction.outcome.subject,
        readable=", ".join([reaction.outcome.subject, *places]),
        object=reaction.object,
    )


RULE = rule("impl-without-def", __doc__, find_problems, [TorchData.OPERATORS])
