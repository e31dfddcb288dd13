"""Whether releases changed anything for an extension: one line per release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.text import Text

from abiscan.results.api_history import ApiHistory
from abiscan.words import clean, listed, plural

_SHOWN: Final = 4


def render_history(history: ApiHistory, console: Console, *, verbose: bool) -> None:
    """Write one line per release: its number, the API version of the operators that are used, what changed.

    :param verbose: also list every operator that changed
    """
    for line in _history_lines(history, verbose=verbose):
        # Soft wrapping leaves a line as it is: ``grep`` finds it whole, also in a narrow terminal.
        console.print(line, soft_wrap=True)


def _history_lines(history: ApiHistory, *, verbose: bool) -> Iterator[Text]:
    yield Text.assemble(
        (clean(history.target), "bold"), f": uses {plural(len(history.operators), 'operator')} of torch"
    )
    for number, release in enumerate(history.releases):
        changed = [f"{change.operator} ({', '.join(change.what)})" for change in release.changes]
        # The first release has nothing before it, so it is neither changed nor unchanged.
        summary = f"changed: {listed(changed, _SHOWN)}" if changed else "unchanged" if number else ""
        if verbose and changed:
            summary = f"changed: {len(changed)}"
        line = Text(f"torch {clean(release.torch)}  {release.version}")
        if summary:
            line.append(f"  {clean(summary)}", style="yellow" if changed else "green")
        if release.gaps:
            line.append(f"  ({plural(release.gaps, 'gap')})", style="dim")
        yield line
        if verbose:
            yield from (Text(f"    {clean(change)}") for change in changed)
