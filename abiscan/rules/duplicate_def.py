"""The extension defines an operator that is already defined.

**What it finds.** From torch 1.8 on, a `def` of an operator (name and overload) that is already defined by this
torch, by a library that the extension loads, or by the extension itself.

**Why it fails.** An operator can be defined only once, even if the schemas are identical. This happens when torch
takes over an operator that an extension used to define, or when two extensions contain the same sources.

**Fix.** Install a build of the extension made for this torch. In the source: define only operators that torch does
not have, and register kernels for the rest with `TORCH_LIBRARY_IMPL`.

**Limits.** Operators defined in Python code are not seen.

**Example.** `Tried to register an operator (aten::tanh(Tensor self) -> Tensor) with the same name and overload name
multiple times.`
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.rules.registration import compare_schemas, list_places, list_refusals, other_side, refusal_finding


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding, for the second definition."""
    load = linkage.load
    # Dispatcher::registerDef (aten/src/ATen/core/dispatch/Dispatcher.cpp) looks at the name alone.
    for reaction in list_refusals(load, ("D1",)):
        difference, both = compare_schemas(load, reaction)
        subject, second = reaction.outcome.subject, other_side(load, reaction)
        cause = f"{reaction.object} defines {subject}, which {second} already defines ({difference})"
        yield refusal_finding(RULE.name, linkage, reaction, cause, [both, *list_places(reaction)])


RULE = rule("duplicate-def", __doc__, find_problems, [TorchData.OPERATORS])
