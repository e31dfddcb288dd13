"""The extension is of a build for CPUs, and this torch is one with CUDA.

**What it finds.** Operators that a package defines with a kernel for CPUs and none for CUDA, if the version of the
package says that it is a build for CPUs (`0.21.0+cpu`), on a torch with CUDA.

**Why it matters.** Everything loads. Calling such an operator with tensors on a GPU raises `Could not run '…' with
arguments from the 'CUDA' backend`. It comes from mixed environments: torch from one index, or from conda, and the
extension from another.

**Fix.** Install the build of the package for CUDA, from the index that the torch is from.

**Limits.** A build for CPUs whose version does not say so is not noticed. Kernels that Python code registers are not
seen.

**Example.** `Could not run 'torchvision::nms' with arguments from the 'CUDA' backend.`
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import ExtensionLoad, Linkage
from abiscan.linkage.registering import Registering
from abiscan.rules.registration import key_of
from abiscan.words import listed

_FOR_CUDA: Final = frozenset({"CUDA", "CompositeImplicitAutograd", "CompositeExplicitAutograd", ""})
"""Kernels for these take tensors on a GPU; the last one is for a kernel without a key."""


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for all operators."""
    load, package, version = linkage.load, linkage.promises.package, linkage.promises.package_version
    if not version.partition("+")[2].startswith("cpu") or load.torch_cuda is None or load.registering is None:
        return
    operators = _operators_without_cuda(load, load.registering)
    if operators:
        yield Finding(
            rule=RULE.name,
            effect=Effect.NOTE,
            message=(
                f"{package} {version} is a build for CPUs, and {load.release} one with CUDA: "
                f"{load.name} has no CUDA kernel for {listed(operators)}"
            ),
            evidence=tuple(Evidence(subject=operator, object=load.name) for operator in operators),
            fix=f"install the build of {package} for CUDA {load.torch_cuda}, from the index that the torch is from",
            says=f"Could not run '{operators[0]}' with arguments from the 'CUDA' backend.",
        )


def _operators_without_cuda(load: ExtensionLoad, registering: Registering) -> list[str]:
    everything = (registering.own, *registering.bundled.values())
    keys: dict[str, set[str]] = {}
    for registrations in everything:
        for kernel in registrations.kernels:
            keys.setdefault(kernel.operator, set()).add(key_of(load, kernel) or "")
    defined = {operator.name for registrations in everything for operator in registrations.operators}
    return sorted(name for name in defined & keys.keys() if "CPU" in keys[name] and not keys[name] & _FOR_CUDA)


RULE = rule("cpu-build", __doc__, find_problems)
