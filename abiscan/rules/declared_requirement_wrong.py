"""The wheel's requirement on torch does not match the releases it works with.

**What it finds.** The torch requirement in a wheel's metadata (`Requires-Dist`), compared with all embedded releases:
releases that it allows although the wheel does not load on them or corrupts memory, and releases that it excludes
although the whole wheel loads on them. Only `abiscan check --torch declared` checks this. With another torch, a `note`
says that the metadata exclude it, if nothing else keeps the package from being imported there: pip installs another
torch, or refuses to. Another says that the torch requires another version of the package itself, as its builds with
CUDA do of Triton.

**Why it fails.** pip trusts the metadata. If a requirement allows too much, pip may install the wheel next to a torch
on which importing it raises: today if that release is out, otherwise on the day it is. `torch` without a version, or
no requirement at all, allows everything. The effect is `load-fails`. A release that is excluded needlessly is a
`note`: the wheel loads on it, but nobody may have tested that.

**Fix.** Declare the requirement that the finding suggests.

**Limits.** Each release number stands for one build of it, as listed by `abiscan releases`; a local version label
(`+cpu`) in a requirement is ignored. Only releases with a wheel for the wheel's own Python and machine count.
Releases newer than the newest embedded one are unknown, so an upper bound is suggested only where a known release
fails.

**Example.** `torch>=2.5 in the metadata allows torch 2.6.0-2.9.1, on which _C.so fails`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.promises import Declaration, ReleaseOutcome
from abiscan.words import ranges


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield the findings about the metadata of the wheel that the extension is in."""
    if linkage.promises.declaration is not None:
        yield from list_findings(linkage.promises.declaration, linkage.load.name)


def list_findings(declaration: Declaration, name: str) -> Iterator[Finding]:
    """Yield one finding for releases that are wrongly admitted, one for releases that are needlessly excluded.

    :param name: the extension or package that fails on the former
    """
    # If a release is allowed and fails, pip will install it; if one is excluded and works, users only miss it.
    broken = [outcome for outcome in declaration.outcomes if outcome.admitted and outcome.error]
    excluded = [outcome for outcome in declaration.outcomes if not outcome.admitted and outcome.wheel_works]
    if broken:
        yield Finding(
            rule=RULE.name,
            effect=Effect.LOAD_FAILS,
            message=f"{_what(declaration)} allows {_spans_of(declaration, broken)}, on which {name} fails",
            evidence=tuple(
                Evidence(subject=f"torch {outcome.release}", object=name, instead=outcome.error) for outcome in broken
            ),
            fix=_format_fix(declaration),
        )
    if excluded:
        yield Finding(
            rule=RULE.name,
            effect=Effect.NOTE,
            message=f"{_what(declaration)} excludes {_spans_of(declaration, excluded)}, on which the whole wheel loads",
            evidence=tuple(Evidence(subject=f"torch {outcome.release}") for outcome in excluded),
            fix=f"if the wheel is tested there, {_format_fix(declaration)}",
        )


def list_excluding(requirement: str, name: str, torch: str) -> Iterator[Finding]:
    """Yield the finding about a requirement that excludes the torch which the package is to be used with."""
    yield Finding(
        rule=RULE.name,
        effect=Effect.NOTE,
        message=f"{requirement} in the metadata excludes {torch}: pip does not install {name} beside it",
        evidence=(Evidence(subject=torch),),
        fix=f"use a torch that it admits, or a version of {name} for {torch}",
    )


def list_other_version(name: str, version: str, torch: str, required: str) -> Iterator[Finding]:
    """Yield the finding about a package of which torch requires another version.

    :param required: which, as ``==3.2.0``
    """
    yield Finding(
        rule=RULE.name,
        effect=Effect.NOTE,
        message=f"torch {torch} with CUDA requires {name}{required}: pip calls {name} {version} incompatible with it",
        evidence=(Evidence(subject=f"torch {torch}"),),
        fix=f"use {name}{required}, or a torch that requires {name} {version}",
    )


def _what(declaration: Declaration) -> str:
    if declaration.requirement is None:
        return "metadata without a torch requirement"
    return f"{declaration.requirement} in the metadata"


def _format_fix(declaration: Declaration) -> str:
    if declaration.suggestion is None:
        return "build the wheel for a released torch: it works on no known release"
    return f"declare {declaration.suggestion}: it allows exactly the known releases on which the whole wheel works"


def _spans_of(declaration: Declaration, chosen: Sequence[ReleaseOutcome]) -> str:
    """Return ``torch 2.4.0, 2.6.0-2.9.1``: a range skips no known release."""
    releases = [outcome.release for outcome in chosen]
    # Over the releases that were checked, so a range says nothing of those that were not.
    return f"torch {ranges(releases, (outcome.release for outcome in declaration.outcomes))}"


RULE = rule("declared-requirement-wrong", __doc__, find_problems)
