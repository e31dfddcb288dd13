"""What to do about findings: said once if several of them need the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from abiscan.findings import Finding
from abiscan.report.line import StyledLine
from abiscan.words import clean, listed

FIX: Final = ("fix", "bold green")
"""The label of what to do, which stands out of what is wrong."""


def shared_fixes(findings: Iterable[Finding]) -> Mapping[str, tuple[str, ...]]:
    """Return the fixes that several findings have, with the rules of those findings: none for a fix of all of them."""
    rules: dict[str, list[str]] = {}
    for finding in findings:
        rules.setdefault(finding.fix, []).append(finding.rule)
    for_all = len(rules) == 1
    return {fix: () if for_all else tuple(dict.fromkeys(named)) for fix, named in rules.items() if len(named) > 1}


def fix_lines(shared: Mapping[str, Collection[str]]) -> Iterator[StyledLine]:
    """Yield the lines for shared fixes, which stand below the findings."""
    for fix, rules in shared.items():
        yield StyledLine(FIX, f"{f' for {listed(rules)}' if rules else ''}: {clean(fix)}")
