"""What ties extensions to releases of torch, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from abiscan.binary.mangling import demangle
from abiscan.extension.counterparts import Counterpart, Means
from abiscan.extension.stability import Tie
from abiscan.report.characters import clean
from abiscan.results.stable import StableReport, StableRow, short
from abiscan.words import listed, plural

_STYLES = {Tie.STABLE: "green", Tie.TIED: "bold red", Tie.MIXED: "bold red"}


def render(report: StableReport, console: Console, *, verbose: bool = False) -> None:
    """Print a paragraph for each extension.

    :param verbose: with every symbol that ties an extension, and every function that decides
    """
    target = None
    for row in report.rows:
        if row.target != target:
            if target is not None:
                console.print()
            target = row.target
            console.print(Text(clean(target), style="bold"), soft_wrap=True)
        console.print(_head(row), soft_wrap=True)
        for line in (*_facts(row, verbose=verbose), *_groups(row, verbose=verbose)):
            console.print(Text(f"    {clean(line)}"), soft_wrap=True)
    for unchecked in report.unchecked:
        if unchecked.readable:
            console.print(Text(clean(str(unchecked))), soft_wrap=True)


def _head(row: StableRow) -> Text:
    found = row.stability
    state = (found.state.value, _STYLES[found.state])
    if found.state is not Tie.STABLE:
        words = f", uses {plural(len(found.counterparts), 'symbol')} of C++ from torch"
        if found.functions:
            words += f", and {plural(len(found.functions), 'function')} of the stable ABI"
    elif found.removed:
        words = f", but torch has removed {listed(found.removed)}"
    elif found.minimum is None:
        words = ", uses nothing of torch"
    else:
        words = f", torch {short(found.minimum)} or newer"
    return Text.assemble(f"  {clean(row.path)}: ", state, words)


def _facts(row: StableRow, *, verbose: bool) -> Iterator[str]:
    found = row.stability
    if found.state is Tie.STABLE and found.minimum:
        shown = len(found.deciding) if verbose else 3
        yield f"new in torch {short(found.minimum)}: {listed(found.deciding, shown)}"
        if row.compiled_with:
            least = f"{short(found.target_at_least)} or newer, " if found.target_at_least else ""
            yield f"compiled with the headers of torch {row.compiled_with}; target version: {least}at most that"
    if found.promised_until and found.state is Tie.STABLE:
        oldest, newest = found.promised_until
        yield f"torch promises to keep the oldest of its functions until {oldest}, the newest until {newest}"
    if found.deprecated:
        yield f"deprecated: {listed(found.deprecated, len(found.deprecated))}"
    if found.cuda:
        releases = list(map(str, found.cuda_releases))
        built = f"torch {releases[0]}-{releases[-1]}" if releases else "no known torch"
        yield f"needs CUDA {found.cuda}: {built}"
    if found.unused:
        yield f"uses nothing of {', '.join(found.unused)}: link with -Wl,--as-needed"


def _groups(row: StableRow, *, verbose: bool) -> Iterator[str]:
    found = row.stability
    if not found.counterparts:
        return
    if found.state is Tie.MIXED and not verbose:
        names = (demangle(each.symbol) for each in found.counterparts)
        yield f"tied by {listed(names)}"
    groups: dict[tuple[str, Means | None], list[Counterpart]] = {}
    for each in found.counterparts:
        groups.setdefault((each.group, each.means), []).append(each)
    for (group, _), of_group in sorted(groups.items(), key=lambda item: -len(item[1])):
        share = round(100 * len(of_group) / len(found.counterparts))
        yield f"{share:3} %  {group}: {_replacement(of_group)}"
        if verbose:
            yield from (f"         {demangle(each.symbol)}{_by(each)}" for each in of_group)
    own = sum(each.means is Means.OWN_CODE for each in found.counterparts)
    own = sum(each.means is Means.OWN_CODE for each in found.counterparts)
    named = sum(each.is_named for each in found.counterparts) - own
    yield (
        f"a port would run on torch {short(found.after_port)} or newer: {named} of "
        f"{plural(len(found.counterparts), 'symbol')} have a counterpart, {own} need code of the extension's own, "
        f"{len(found.counterparts) - named - own} have nothing"
    )


def _replacement(group: Sequence[Counterpart]) -> str:
    first = group[0]
    if first.means is None:
        return f"{plural(len(group), 'symbol')} of no known kind"
    if first.what is None:
        return f"{plural(len(group), 'symbol')}, nothing in the stable ABI"
    whats = list(dict.fromkeys(each.what for each in group if each.what))
    since = max((each.since for each in group if each.since), default=None)
    words = f"{plural(len(group), 'symbol')}, {first.means.value}: {listed(whats)}"
    return f"{words} (torch {short(since)})" if since else words


def _by(each: Counterpart) -> str:
    return f" → {each.what}" if each.what else ""
