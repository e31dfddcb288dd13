"""What to do about findings: said once if several of them need the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from abiscan.findings import Finding
from abiscan.report.line import StyledLine
from abiscan.words import clean

FIX: Final = ("fix", "bold green")
"""The label of what to do, which stands out of what is wrong."""


def shared_fixes(findings: Iterable[Finding]) -> Mapping[str, int]:
    """Return the fixes that several findings have, with how many."""
    counts = Counter(finding.fix for finding in findings)
    return {fix: count for fix, count in counts.items() if count > 1}


def fix_lines(shared: Mapping[str, int]) -> Iterator[StyledLine]:
    """Yield the lines for shared fixes, which stand below the findings."""
    for fix, count in shared.items():
        yield StyledLine(FIX, f" for {'both' if count == 2 else f'all {count}'}: {clean(fix)}")
