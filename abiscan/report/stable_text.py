"""What ties extensions to releases of torch, as text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from abiscan.binary.mangling import demangle
from abiscan.extension.counterparts import Counterpart, Means
from abiscan.extension.stability import Tie
from abiscan.inputs.version import TorchVersion
from abiscan.results.stable import StableReport, StableRow, StableSummary, short_name
from abiscan.words import clean, listed, plural

_STYLES = {Tie.STABLE: "green", Tie.TIED: "bold red", Tie.MIXED: "bold red"}


def render_stability(report: StableReport, console: Console, *, verbose: bool = False) -> None:
    """Print a paragraph for each extension; those of a target of which the same is said share one.

    :param verbose: with every symbol that ties an extension, and every function that decides
    """
    for number, (target, of_target) in enumerate(itertools.groupby(report.rows, lambda row: row.target)):
        rows = list(of_target)
        if number:
            console.print()
        console.print(Text(clean(target), style="bold"), soft_wrap=True)
        paragraphs: dict[tuple[str, ...], list[StableRow]] = {}
        for row in rows:
            notice = (_format_words(row), *_facts(row, verbose=verbose), *_symbol_groups(row, verbose=verbose))
            # Equal texts are the criterion: what would be said twice is said once.
            paragraphs.setdefault((row.stability.state.value, *notice), []).append(row)
        for (state, words, *lines), alike in paragraphs.items():
            paths = listed([clean(row.path) for row in alike], len(alike) if verbose else 2)
            style = _STYLES[alike[0].stability.state]
            console.print(Text.assemble(f"  {paths}: ", (state, style), words), soft_wrap=True)
            for line in lines:
                console.print(Text(f"    {clean(line)}"), soft_wrap=True)
        if len(rows) > 1:
            for line in _in_all(rows):
                console.print(Text(f"  {clean(line)}"), soft_wrap=True)
    for unchecked in report.unchecked:
        if unchecked.readable:
            console.print(Text(clean(str(unchecked))), soft_wrap=True)


def _format_words(row: StableRow) -> str:
    """Return what follows the state."""
    result = row.stability
    if result.state is not Tie.STABLE:
        words = f", uses {plural(len(result.counterparts), 'symbol')} of C++ from torch"
        return (
            f"{words}, and {plural(len(result.functions), 'function')} of the stable ABI" if result.functions else words
        )
    if result.removed:
        return f", but torch has removed {listed(result.removed)}"
    return f", torch {short_name(result.minimum)} or newer" if result.minimum else ", uses nothing of torch"


def _facts(row: StableRow, *, verbose: bool) -> Iterator[str]:
    result = row.stability
    if result.state is Tie.STABLE and result.minimum:
        shown = len(result.deciding) if verbose else 3
        yield f"new in torch {short_name(result.minimum)}: {listed(result.deciding, shown)}"
        if row.compiled_with:
            least = f"{short_name(result.target_at_least)} or newer, " if result.target_at_least else ""
            most = f"below {short_name(result.target_below)}" if result.target_below else "at most that"
            yield f"compiled with the headers of torch {row.compiled_with}; target version: {least}{most}"
        if result.rebuilt and result.rebuilt < result.minimum:
            yield (
                f"the target version decides this: compiled with {_flag_for(result.rebuilt)}, it would use nothing "
                f"newer than torch {short_name(result.rebuilt)}"
            )
    if result.looked_up:
        yield f"looks up at run time, and works without: {listed(result.looked_up)}"
    if result.promised_until and result.state is Tie.STABLE:
        oldest, newest = result.promised_until
        yield f"torch promises to keep functions for two years: the oldest until {oldest}, the newest until {newest}"
    if result.deprecated:
        yield f"deprecated: {listed(result.deprecated, len(result.deprecated))}"
    if result.cuda:
        releases = list(map(str, result.cuda_releases))
        built = f"torch {releases[0]}-{releases[-1]}" if releases else "no known torch"
        yield f"needs CUDA {result.cuda}: {built}"
    if result.unused:
        yield f"uses nothing of {', '.join(result.unused)}: link with -Wl,--as-needed"


def _symbol_groups(row: StableRow, *, verbose: bool) -> Iterator[str]:
    result = row.stability
    if not result.counterparts:
        return
    if result.state is Tie.MIXED and not verbose:
        names = (demangle(counterpart.symbol) for counterpart in result.counterparts)
        yield f"tied by {listed(names)}"
    groups: dict[tuple[str, Means | None], list[Counterpart]] = {}
    for counterpart in result.counterparts:
        groups.setdefault((counterpart.group, counterpart.means), []).append(counterpart)
    # The largest group first: it is most of the work of a port.
    for (group, _), of_group in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield f"{_format_share(of_group, result.counterparts)}  {group}: {_format_replacement(of_group)}"
        if verbose:
            yield from (
                f"         {demangle(counterpart.symbol)}{_format_counterpart(counterpart)}" for counterpart in of_group
            )
    yield f"a port would run on torch {short_name(result.after_port)} or newer{_condition_of(result.counterparts)}"
    yield _summarise_work(result.counterparts)
    if result.after_port:
        headers = f"torch {short_name(result.port_headers)} or newer, whose headers have all of these"
        yield f"compile it with {_flag_for(result.after_port)} and {headers}"


def _in_all(rows: Sequence[StableRow]) -> Iterator[str]:
    """Yield what holds for a target with several extensions."""
    summary = StableSummary.of([row.stability for row in rows])
    yield f"in all: {summary}"
    rebuilt = max((row.stability.rebuilt for row in rows if row.stability.rebuilt), default=None)
    if rebuilt and summary.minimum and rebuilt < summary.minimum:
        yield f"compiled with {_flag_for(rebuilt)}: torch {short_name(rebuilt)} or newer"
    # By symbol: several extensions of a target use the same ones, and a port solves each once.
    symbols = {counterpart.symbol: counterpart for row in rows for counterpart in row.stability.counterparts}
    if symbols:
        yield _summarise_work(list(symbols.values()))


_KINDS_OF_WORK: Final = (
    ("of classes that a port does not use", (Means.VANISHES,)),
    ("with a counterpart", (Means.HEADER_ONLY, Means.WRAPPER, Means.SHIM, Means.OPERATOR)),
    ("to be written in the extension itself", (Means.OWN_CODE,)),
    ("without a counterpart", (Means.NOTHING,)),
    ("not classified", (None,)),
)


def _summarise_work(symbols: Sequence[Counterpart]) -> str:
    """Return how much there is to do for all symbols."""
    counted = [(words, [symbol for symbol in symbols if symbol.means in means]) for words, means in _KINDS_OF_WORK]
    parts = [
        f"{len(of_kind)} {words} ({_format_share(of_kind, symbols).strip()})" for words, of_kind in counted if of_kind
    ]
    return f"{plural(len(symbols), 'symbol')}, {', '.join(parts)}"


def _condition_of(symbols: Sequence[Counterpart]) -> str:
    """Return the condition under which there can be a port."""
    has_all = all(symbol.is_named for symbol in symbols)
    return "" if has_all else ", if it can do without what has no counterpart"


def _format_share(part: Sequence[Counterpart], whole: Sequence[Counterpart]) -> str:
    return f"{round(100 * len(part) / len(whole)):3} %"


def _flag_for(release: TorchVersion) -> str:
    """Return the definition that compiles for a release."""
    # torch/headeronly/version.h: one byte each for major and minor version, the rest zero.
    return f"-DTORCH_TARGET_VERSION=0x{release.major:02x}{release.minor:02x}000000000000"


def _format_replacement(group: Sequence[Counterpart]) -> str:
    first = group[0]
    if first.means is None:
        return f"{plural(len(group), 'symbol')} of no known kind"
    if first.what is None:
        return f"{plural(len(group), 'symbol')}, nothing in the stable ABI"
    whats = list(dict.fromkeys(item.what for item in group if item.what))
    since = max((item.since for item in group if item.since), default=None)
    headers = max((item.headers for item in group if item.headers), default=None)
    words = f"{plural(len(group), 'symbol')}, {first.means.value}: {listed(whats)}"
    with_headers = f", headers of {short_name(headers)}" if headers and since and headers > since else ""
    return f"{words} (torch {short_name(since)}{with_headers})" if since else words


def _format_counterpart(item: Counterpart) -> str:
    return f" → {item.what}" if item.what else ""
