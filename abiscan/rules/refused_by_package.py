"""Python code of a package refuses this torch itself, when it is called.

**What it finds.** Functions and methods that begin with a condition on the version of torch which certainly holds in
this release, and that raise there: `if not _TORCH_GREATER_EQUAL_2_1: raise ModuleNotFoundError("PyTorch 2.1 …")`, or
an `assert`. If the import of the package itself raises, the verdict is `import-fails`, and this rule is silent.

**Why it fails.** The maintainers know that the function does not work with this release, and say so at run time. The
package can be imported, whatever its metadata require.

**Fix.** Use a torch that the message asks for, or a version of the package for this torch. In your own package, require
that torch in the metadata, if the package is of little use without the function.

**Limits.** A condition counts if it is about the version of torch alone (`Version`, `parse`, tuples, constants and
functions of the package, `RequirementCache("torch>=2.1")`), and if nothing before it in the function may return.
Names that are bound more than once are not known. What callers ask before they call the function is not looked at: the
finding is `possible`.

**Example.** `litdata refuses torch 2.0.0 in 1 function`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from abiscan.findings import REFUSED_BY_PACKAGE, Confidence, Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.words import plural

if TYPE_CHECKING:
    from abiscan.python.later.version_refusals import OwnRefusal


def find_problems(linkage: Linkage) -> Iterator[Finding]:  # noqa: ARG001 - it is about Python code
    """Find nothing in an extension: see ``list_findings``."""
    yield from ()


def list_findings(refusals: Sequence[OwnRefusal], package: str, torch: str) -> Iterator[Finding]:
    """Yield the finding about the functions that refuse a torch.

    :param torch: the torch, in words
    """
    if not refusals:
        return
    first = min(refusals)
    yield Finding(
        rule=RULE.name,
        effect=Effect.CALL_FAILS,
        confidence=Confidence.POSSIBLE,
        message=f"{package} refuses {torch} in {plural(len(refusals), 'function')}",
        evidence=tuple(
            Evidence(subject=f"{refusal.file}:{refusal.line}", object=refusal.function)
            for refusal in sorted(refusals, key=lambda refusal: (refusal.file, refusal.line))
        ),
        fix=f"use a torch that {package} asks for, or a version of {package} for {torch}",
        says=first.error,
    )


RULE = rule(REFUSED_BY_PACKAGE, __doc__, find_problems)
