"""The extension registers its operators in a namespace that is the name of a macro.

**What it finds.** `TORCH_LIBRARY`, `TORCH_LIBRARY_FRAGMENT` and `TORCH_LIBRARY_IMPL` blocks whose namespace is
`TORCH_EXTENSION_NAME`, or another name in capitals that ends in `NAME` or `NAMESPACE`.

**Why it matters.** These macros of torch take the namespace as it is written and do not expand macros in it. So
`torch.ops.my_extension` has no operators, they are in `torch.ops.TORCH_EXTENSION_NAME`, and two extensions that do the
same cannot be loaded together.

**Fix.** Write the namespace out, or define a macro of your own that expands its argument before it passes it on, as
`TORCH_LIBRARY_EXPAND` of several packages does.

**Limits.** A namespace that is meant to be in capitals looks the same.

**Example.** `TORCH_EXTENSION_NAME::twice`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.regex import regex

_MACRO: Final = regex(r"(?:[A-Z][A-Z0-9]*_)+(?:NAME|NAMESPACE)")


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding per namespace."""
    load = linkage.load
    own = load.registering.own if load.registering else None
    namespaces = dict.fromkeys(library.namespace for library in own.libraries if library.namespace) if own else {}
    for namespace in filter(_MACRO.fullmatch, namespaces):
        assert own is not None
        blocks = [library for library in own.libraries if library.namespace == namespace]
        operators = sorted({operator.name for operator in own.operators if operator.name.startswith(f"{namespace}::")})
        yield Finding(
            rule=RULE.name,
            effect=Effect.NOTE,
            message=(
                f"{load.name} registers in the namespace {namespace}, a macro that was not expanded: its operators "
                f"are in torch.ops.{namespace}"
            ),
            evidence=tuple(
                Evidence(subject=subject, object=load.name)
                for subject in (operators or dict.fromkeys(block.place for block in blocks))
            ),
            fix="write the namespace out, or expand the macro before TORCH_LIBRARY gets it",
        )


RULE = rule("unexpanded-namespace", __doc__, find_problems)
