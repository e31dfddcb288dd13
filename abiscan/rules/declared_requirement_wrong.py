"""What the wheel requires of torch is not what it works with.

**What it finds.** The requirement on torch in the metadata of a wheel (`Requires-Dist`), held against all releases in
the package: those that it admits and on which the wheel does not load, or corrupts memory; and those that it excludes
and on which all of the wheel loads. It is looked for by `abiscan check --torch declared`.

**Why it fails.** pip believes the metadata. A requirement that admits too much lets it put the wheel beside a torch on
which importing it raises: today, if the release is out, or on the day when it is. `torch` without a version, and no
requirement at all, admit everything. That is an error of the release, `load-fails`. A release excluded for nothing is a
`note`: it loads there, which is not to say that anybody tested it.

**Fix.** Declare the requirement that the finding names.

**Limits.** A release number stands for one build of it, as `abiscan releases` lists them: a local tag (`+cpu`) in a
requirement is left aside. Only releases with a wheel for the wheel's own Python and machine count. What comes after the
newest release in the package is not known, so an upper bound is only suggested where a known release fails.

**Example.** `torch>=2.5 in the metadata admits torch 2.6.0 to 2.9.1, on which _C.so fails`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.declaration import Declaration, ReleaseOutcome
from abiscan.linkage.linkage import Linkage


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding for what is admitted wrongly, one for what is excluded for nothing."""
    declaration = linkage.declaration
    if declaration is None:
        return
    broken = [outcome for outcome in declaration.outcomes if outcome.admitted and outcome.error]
    spared = [outcome for outcome in declaration.outcomes if not outcome.admitted and outcome.wheel_works]
    if broken:
        yield Finding(
            rule=RULE.name,
            effect=Effect.LOAD_FAILS,
            message=f"{_what(declaration)} admits {_spans(declaration, broken)}, on which {linkage.name} fails",
            evidence=tuple(
                Evidence(subject=f"torch {outcome.release}", object=linkage.name, instead=outcome.error)
                for outcome in broken
            ),
            fix=_fix(declaration),
        )
    if spared:
        yield Finding(
            rule=RULE.name,
            effect=Effect.NOTE,
            message=f"{_what(declaration)} excludes {_spans(declaration, spared)}, on which all of it loads, too",
            evidence=tuple(Evidence(subject=f"torch {outcome.release}") for outcome in spared),
            fix=f"{_fix(declaration)}, if it is tested there",
        )


def _what(declaration: Declaration) -> str:
    if declaration.requirement is None:
        return "metadata without torch"
    return f"{declaration.requirement} in the metadata"


def _fix(declaration: Declaration) -> str:
    if declaration.suggestion is None:
        return "build the wheel for a released torch: it works on none"
    return f"declare {declaration.suggestion}: the releases on which all of the wheel works"


def _spans(declaration: Declaration, chosen: Sequence[ReleaseOutcome]) -> str:
    """``torch 2.4.0, 2.6.0 to 2.9.1``: neighbours among all known releases together."""
    runs = [
        [outcome.release for outcome in run]
        for is_chosen, run in itertools.groupby(declaration.outcomes, chosen.__contains__)
        if is_chosen
    ]
    return "torch " + ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


RULE = rule("declared-requirement-wrong", __doc__, check)
