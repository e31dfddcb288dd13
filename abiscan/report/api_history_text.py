"""Whether releases changed anything for an extension: a line for each release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.text import Text

from abiscan.report.characters import clean
from abiscan.results.api_history import ApiHistory

_SHOWN: Final = 4


def render(found: ApiHistory, console: Console, *, verbose: bool) -> None:
    """A line for each release: its number, the version of what is used of it, what changed.

    :param verbose: every operator that changed, a line each
    """
    for line in _lines(found, verbose=verbose):
        console.print(line, soft_wrap=True)


def _lines(found: ApiHistory, *, verbose: bool) -> Iterator[Text]:
    yield Text.assemble((clean(found.target), "bold"), f": uses {len(found.operators)} operators of torch")
    for number, release in enumerate(found.releases):
        changed = [f"{change.operator} ({', '.join(change.what)})" for change in release.changes]
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        what = f"changed: {', '.join(changed[:_SHOWN])}{more}" if changed else "the same" if number else ""
        if verbose and changed:
            what = f"changed: {len(changed)}"
        line = Text(f"torch {clean(release.torch)}  {release.version}")
        if what:
            line.append(f"  {clean(what)}", style="yellow" if changed else "green")
        if release.gaps:
            line.append(f"  (not everything could be read: {release.gaps})", style="dim")
        yield line
        if verbose:
            yield from (Text(f"    {clean(line)}") for line in changed)
