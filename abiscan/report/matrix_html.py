"""The matrix as a page of HTML.

The newest releases come first, and adjacent ones with the same answer share a column. Each cell with a problem links to
its findings.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from abiscan.extension.built_for import span
from abiscan.findings import Confidence, Finding
from abiscan.report.marks import CLASSES
from abiscan.report.matrix_text import group_adjacent
from abiscan.report.page import escaped, fill_page
from abiscan.report.sarif import level_of
from abiscan.results.check import Result
from abiscan.results.gpus import LEGEND as GPU_LEGEND
from abiscan.results.gpus import SYMBOLS, GpuMark, GpuRow
from abiscan.results.matrix import (
    Column,
    Matrix,
    PackageRow,
    Row,
    describe_problem,
    format_advice,
    format_cell,
    format_legend,
    format_working,
    mark_of,
    name_of_row,
)
from abiscan.results.package import PackageResult
from abiscan.results.rule_page import is_address, page_of
from abiscan.results.unchecked import Unchecked
from abiscan.words import first_line

_EVIDENCE_SHOWN: Final = 25
_GPU_CLASSES: Final = {
    GpuMark.NATIVE: "loads",
    GpuMark.JIT: "loads",
    GpuMark.SOME: "partly",
    GpuMark.NONE: "fails",
}
_WORDS: Final = {"✓": "loads", "◐": "works without a part", "✗": "fails", "?": "unknown", "·": "no build"}


def render_page(matrix: Matrix) -> str:
    """Return the page. Its findings should be explained: see ``Checker.check``."""
    # The order of the command line: anchors are numbers, since names may have any character.
    names = matrix.targets
    targets = ["\n".join(_target_html(f"t{number}", target, matrix)) for number, target in enumerate(names)]
    return fill_page(
        "Which torch releases does it load on?",
        _answers_html(names, matrix),
        (*targets, *_unchecked_html(matrix.unchecked)),
        format_legend(matrix),
    )


def _answers_html(targets: Sequence[str], matrix: Matrix) -> Iterator[str]:
    """Yield the answers for several targets, before the tables that explain them."""
    if len(targets) > 1:
        yield '<ul class="answers">'
        for number, target in enumerate(targets):
            yield f'<li><a href="#t{number}">{escaped(target)}</a> {_format_badge(target, matrix)}</li>'
        yield "</ul>"


def _format_badge(target: str, matrix: Matrix) -> str:
    releases = format_working(matrix, target)
    package = matrix.package(target)
    rows = [package] if package else [row for row in matrix.rows if row.target == target]
    if releases:
        kind, words = "loads", f"torch {releases}"
    elif any(mark_of(row, column) == "?" for row in rows for column in matrix.columns):
        kind = words = "unknown"
    else:
        kind, words = "fails", "no torch"
    return f'<span class="badge {kind}">{escaped(words)}</span>'


def _unchecked_html(targets: Sequence[Unchecked]) -> Iterator[str]:
    if targets:
        yield "<h2>Not checked</h2><ul>"
        yield from (f"<li>{escaped(str(target))}</li>" for target in targets)
        yield "</ul>"


def _target_html(anchor: str, target: str, matrix: Matrix) -> Iterator[str]:
    rows, package = [row for row in matrix.rows if row.target == target], matrix.package(target)
    shown: list[Row | PackageRow] = [*([package] if package else []), *rows]
    yield f'<h2 id="{anchor}">{escaped(target)} {_format_badge(target, matrix)}</h2>'
    yield f"<p>{escaped(format_advice(matrix, target, shown[0].declared))}</p>"
    anchors = [_anchors_by_release(f"{anchor}f{number}", row) for number, row in enumerate(shown)]

    # Columns are merged only if they link to the same details, not just if their signs are equal.
    def answer(column: Column) -> object:
        return [
            (format_cell(row, column), _find_anchor(column, item)) for row, item in zip(shown, anchors, strict=True)
        ]

    # What users ask about is the newest release, so that is where they begin to read.
    checked = {name for row in shown for name in row.results}
    columns = [column for column in reversed(matrix.columns) if checked.intersection(column.builds)]
    # Newest first on the page, but a span reads from old to new.
    spans = {_format_span([column.release for column in run[::-1]]): run[0] for run in group_adjacent(columns, answer)}
    yield '<div class="scroll" tabindex="0" role="region" aria-label="files by releases"><table>'
    heads = "".join(f'<th scope="col" class="release"><button>{escaped(name)}</button></th>' for name in spans)
    yield f'<thead><tr><th scope="col"><button>file</button></th>{heads}</tr></thead><tbody>'
    for row, item in zip(shown, anchors, strict=True):
        cells = "".join(_format_cell(row, column, _find_anchor(column, item), name) for name, column in spans.items())
        yield f'<tr><th scope="row">{escaped(name_of_row(row))}</th>{cells}</tr>'
    yield "</tbody></table></div>"
    for gpu_row in matrix.gpus or ():
        if gpu_row.target == target:
            yield from _gpus_html(gpu_row)
    for row in matrix.rows:
        if row.target == target and row.cpu:
            yield f"<p><code>{escaped(row.path)}</code> needs {escaped(row.cpu)} to load</p>"
    for row, item in zip(shown, anchors, strict=True):
        if isinstance(row, Row):
            yield _format_origin(row)
        yield from _details_html(row, item)


def _gpus_html(row: GpuRow) -> Iterator[str]:
    """Yield the operators of one file by GPUs; those with the same marks together."""
    yield f"<h3><code>{escaped(row.path)}</code> by GPU</h3>"
    yield '<div class="scroll" tabindex="0" role="region" aria-label="operators by GPUs"><table>'
    heads = "".join(f'<th scope="col" class="release">{escaped(name)}</th>' for name in row.names)
    yield f'<thead><tr><th scope="col">operators</th>{heads}</tr></thead><tbody>'
    # A file whose launches could not be attributed to operators still has a line of its own.
    for marks, operators in row.groups.items() if row.operators else [(row.file, ["the whole file"])]:
        cells = "".join(
            f'<td class="{_GPU_CLASSES[mark]}"><span role="img" aria-label="{mark.value}" title="{mark.value}">'
            f"{SYMBOLS[mark]}</span></td>"
            for mark in marks
        )
        yield f'<tr><th scope="row">{escaped(", ".join(operators))}</th>{cells}</tr>'
    yield f"</tbody></table></div><p class='faint'>{escaped(GPU_LEGEND)}</p>"
    if row.gaps:
        yield f"<ul>{''.join(f'<li>gap (gpu): {escaped(reason)}</li>' for reason in row.gaps)}</ul>"


def _format_span(releases: Sequence[str]) -> str:
    """Return adjacent releases, oldest first: ``2.5.0-2.6.0``."""
    return "-".join(dict.fromkeys((releases[0], releases[-1])))


def _anchors_by_release(prefix: str, row: Row | PackageRow) -> dict[str, str]:
    """Return the anchor of each release with a problem; adjacent releases with the same problem share one."""
    anchors: dict[str, str] = {}
    # Without the version of torch in it, the text of one problem is the same on all releases.
    groups = itertools.groupby(
        row.results,
        lambda release: (describe_problem(row.results[release], torch=""), _rules_of(row.results[release])),
    )
    for number, ((problem, rules), releases) in enumerate(groups):
        if problem or rules:
            anchors |= dict.fromkeys(releases, f"{prefix}r{number}")
    return anchors


def _rules_of(result: Result | PackageResult) -> tuple[str, ...]:
    return tuple(finding.rule for finding in result.findings)


def _find_anchor(column: Column, anchors: dict[str, str]) -> str | None:
    return next((anchors[name] for name in column.builds if name in anchors), None)


def _format_cell(row: Row | PackageRow, column: Column, anchor: str | None, releases: str) -> str:
    text = format_cell(row, column)
    # A cell is a sign, perhaps with a star, and after a space the builds that it is for.
    sign, (marked, _, builds) = text[0], text.partition(" ")
    condition = ", on a condition" if marked != sign else ""
    label = f"{_WORDS[sign]} on torch {releases}{f', {builds} build' if builds else ''}{condition}"
    shown = f'<span role="img" aria-label="{escaped(label)}" title="{escaped(label)}">{escaped(text)}</span>'
    if anchor:
        shown = f'<a href="#{anchor}">{shown}</a>'
    return f'<td class="{CLASSES[sign]}" data-verdict="{CLASSES[sign]}">{shown}</td>'


def _format_origin(row: Row) -> str:
    built_for = row.built_for
    if not built_for.releases:
        return f"<p><code>{escaped(row.path)}</code>: the torch it was built for is unknown</p>"
    clues = "".join(f"<li>{escaped(clue.seen)}: {escaped(span(clue.releases))}</li>" for clue in built_for.clues)
    summary = f"<code>{escaped(row.path)}</code> was built for {escaped(span(built_for.releases))}"
    return f"<details><summary>{summary}</summary><ul>{clues}</ul></details>"


def _details_html(row: Row | PackageRow, anchors: dict[str, str]) -> Iterator[str]:
    groups = [(anchor, list(group)) for anchor, group in itertools.groupby(anchors, anchors.__getitem__)]
    # In the order of the columns: the newest release first.
    for anchor, releases in reversed(groups):
        result = row.results[releases[0]]
        versions = _format_span(releases)
        problem = first_line(describe_problem(result, versions if len(releases) > 1 else None) or "notes")
        summary = f"<code>{escaped(name_of_row(row))}</code> on torch {escaped(versions)}: {escaped(problem)}"
        findings = "".join(map(_format_finding, result.findings))
        reasons = (f": {gap}" if isinstance(gap, str) else f" ({gap.stage}): {gap.reason}" for gap in result.gaps)
        gaps = "".join(f"<li>gap{escaped(reason)}</li>" for reason in reasons)
        first = f"<p class='faint'>Details are from torch {escaped(releases[0])}.</p>" if len(releases) > 1 else ""
        yield f'<details id="{anchor}"><summary>{summary}</summary>{first}<ul>{findings}{gaps}</ul></details>'


def _format_finding(finding: Finding) -> str:
    shown_evidence = finding.evidence[:_EVIDENCE_SHOWN]
    proofs = "".join(
        f"<li><code>{escaped(evidence.readable or evidence.subject)}</code>"
        + (f" <span class='faint'>({escaped(evidence.object)})</span>" if evidence.object else "")
        + (f"<br>found: <code>{escaped(evidence.instead)}</code>" if evidence.instead else "")
        + "</li>"
        for evidence in shown_evidence
    )
    if hidden := len(finding.evidence) - len(shown_evidence):
        proofs += f"<li class='faint'>… {hidden} more</li>"
    sure = (
        "" if finding.confidence is Confidence.CERTAIN else f" <span class='faint'>({finding.confidence.value})</span>"
    )
    page = escaped(page_of(finding.rule))
    link = f'<a href="{page}">{page}</a>' if is_address(page) else page
    return (
        f"<li><strong>{level_of(finding.effect)}[{escaped(finding.rule)}]</strong>{sure} "
        f"{escaped(finding.message)}"
        f"<ul>{proofs}</ul>"
        f'<p>Fix: {escaped(finding.fix)}</p><p class="faint">{link}</p></li>'
    )
