"""An operator with a kernel of the stable ABI has a type that this torch cannot pass through the stable ABI.

**What it finds.** Kernels registered through the stable ABI, and operators called by name through it, whose schema has
an argument or a result of a type that this torch does not convert: `Scalar`, `complex`, `Storage`, `Stream`,
`SymBool`, `Dict`, tuples and classes in every release so far; lists and `str` before 2.10; `Generator` before
2.13.

**Why it fails.** It registers without complaint. torch converts the arguments for the kernel when the operator is
called, and then raises `Not yet supported conversion from IValue to StableIValue for schema type: …`. If the type is
optional or in a list, only calls with a value raise.

**Fix.** Change the schema: `float` or `Tensor` instead of `Scalar`, `int` instead of `SymBool`. Or register this
operator with `TORCH_LIBRARY`, which ties the extension to a release.

**Limits.** Only schemas that could be read. A schema in another package is not known.

**Example.** `Not yet supported conversion from IValue to StableIValue for schema type: Scalar`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.dispatch.stable import Uncrossable
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.crossing import uncrossable_calls, uncrossable_kernels
from abiscan.linkage.linkage import ExtensionLoad, Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.words import listed

_FIX = "use types that cross in the schema (float or Tensor for Scalar), or register the operator with TORCH_LIBRARY"


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for the kernels, one for the calls."""
    load, registering = linkage.load, linkage.load.registering
    if registering is None:
        return
    # Apart: the first can be mended in the schema by the author, the second only by whoever owns the operator.
    failing = uncrossable_kernels(registering)
    if failing:
        yield _make_finding(load, failing, "registers kernels through the stable ABI for operators")
    called = uncrossable_calls(registering)
    if called:
        yield _make_finding(load, called, "calls operators through the stable ABI")


def _make_finding(load: ExtensionLoad, failing: dict[str, Uncrossable], subject: str) -> Finding:
    types = listed(dict.fromkeys(str(value.type) for value in failing.values()))
    return Finding(
        rule=RULE.name,
        effect=Effect.CALL_FAILS,
        message=f"{load.name} {subject} with types that {load.release} cannot convert ({types}): {listed(failing)}",
        evidence=tuple(
            Evidence(
                subject=name,
                readable=f"{name}: {value.place} is a {value.type}; {_name_calls(value)} raises",
                object=load.name,
            )
            for name, value in failing.items()
        ),
        fix=_FIX,
        says=next(iter(failing.values())).message,
    )


def _name_calls(value: Uncrossable) -> str:
    return "every call" if value.always else "a call with a value"


RULE = rule("stable-type-unsupported", __doc__, find_problems, [TorchData.OPERATORS])
