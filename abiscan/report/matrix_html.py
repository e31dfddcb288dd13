"""The matrix as one self-contained HTML page, made from ``matrix.html``: it needs no other file and no network.

Each cell with a problem links to its findings, which releases with the same findings share. Names come from files that
may be hostile: everything is escaped, and the page forbids itself to load anything.
"""

from __future__ import annotations

import html
import itertools
import string
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Final

import abiscan
from abiscan.extension.built_for import span
from abiscan.findings import Finding
from abiscan.report.characters import clean
from abiscan.report.sarif import level
from abiscan.results.check import Result
from abiscan.results.matrix import Column, Matrix, PackageRow, Row, advice, cell, legend, trouble
from abiscan.results.package import PackageResult
from abiscan.words import first_line

_EVIDENCE_SHOWN: Final = 25
_CLASSES: Final = {"✓": "loads", "◐": "partly", "✗": "fails", "?": "unknown", "·": "none"}
_WORDS: Final = {"✓": "loads", "◐": "works without a part", "✗": "fails", "?": "unknown", "·": "no build"}


def render(matrix: Matrix) -> str:
    """The page. Its findings should be explained: see ``Judge.judge``."""
    template = resources.files("abiscan.report").joinpath("matrix.html").read_text("utf-8")
    targets = []
    for number, target in enumerate(dict.fromkeys(row.target for row in matrix.rows)):
        rows = [row for row in matrix.rows if row.target == target]
        targets.append("\n".join(_target(f"t{number}", rows, matrix)))
    return string.Template(template).substitute(
        targets="\n".join(targets),
        legend=_text(legend(packages=bool(matrix.packages))),
        version=_text(abiscan.__version__),
    )


def _target(anchor: str, rows: Sequence[Row], matrix: Matrix) -> Iterator[str]:
    target, package = rows[0].target, matrix.package(rows[0].target)
    shown: list[Row | PackageRow] = [*([package] if package else []), *rows]
    yield f"<h2>{_text(target)}</h2>"
    yield f"<p>{_text(advice(matrix, target, rows[0].declared))}</p>"
    checked = {name for row in rows for name in row.results}
    columns = [column for column in matrix.columns if checked.intersection(column.builds)]
    yield '<div class="scroll" tabindex="0" role="region" aria-label="files by releases"><table>'
    heads = "".join(
        f'<th scope="col" class="release"><button>{_text(column.release)}</button></th>' for column in columns
    )
    yield f'<thead><tr><th scope="col"><button>file</button></th>{heads}</tr></thead><tbody>'
    details = []
    for number, row in enumerate(shown):
        anchors = _anchors(f"{anchor}f{number}", row)
        cells = "".join(_cell(row, column, anchors) for column in columns)
        yield f'<tr><th scope="row">{_text(_name(row))}</th>{cells}</tr>'
        details += [*([_origin(row)] if isinstance(row, Row) else []), *_details(row, anchors)]
    yield "</tbody></table></div>"
    yield from details


def _name(row: Row | PackageRow) -> str:
    if isinstance(row, Row):
        return row.path
    return f"{row.name} {row.version}" if row.version else row.name


def _anchors(prefix: str, row: Row | PackageRow) -> dict[str, str]:
    """The anchor of each release with a problem; adjacent releases with the same problem share one."""
    anchors: dict[str, str] = {}
    groups = itertools.groupby(
        row.results, lambda release: (trouble(row.results[release], torch=""), _rules(row.results[release]))
    )
    for number, ((problem, rules), releases) in enumerate(groups):
        if problem or rules:
            anchors |= dict.fromkeys(releases, f"{prefix}r{number}")
    return anchors


def _rules(result: Result | PackageResult) -> tuple[str, ...]:
    return tuple(finding.rule for finding in result.findings)


def _cell(row: Row | PackageRow, column: Column, anchors: dict[str, str]) -> str:
    text = cell(row, column)
    sign, builds = text[0], text[2:]
    anchor = next((anchors[name] for name in column.builds if name in anchors), None)
    label = f"{_WORDS[sign]} on torch {column.release}{f', {builds} build' if builds else ''}"
    shown = f'<span role="img" aria-label="{_text(label)}" title="{_text(label)}">{_text(text)}</span>'
    if anchor:
        shown = f'<a href="#{anchor}">{shown}</a>'
    return f'<td class="{_CLASSES[sign]}" data-verdict="{_CLASSES[sign]}">{shown}</td>'


def _origin(row: Row) -> str:
    built_for = row.built_for
    if not built_for.releases:
        return f"<p><code>{_text(row.path)}</code>: the torch it was built for is unknown</p>"
    clues = "".join(f"<li>{_text(clue.seen)}: {_text(span(clue.releases))}</li>" for clue in built_for.clues)
    summary = f"<code>{_text(row.path)}</code> was built for {_text(span(built_for.releases))}"
    return f"<details><summary>{summary}</summary><ul>{clues}</ul></details>"


def _details(row: Row | PackageRow, anchors: dict[str, str]) -> Iterator[str]:
    for anchor, group in itertools.groupby(anchors, anchors.__getitem__):
        releases = list(group)
        result = row.results[releases[0]]
        versions = "-".join(dict.fromkeys((releases[0], releases[-1])))
        problem = first_line(trouble(result, versions if len(releases) > 1 else None) or "notes")
        summary = f"<code>{_text(_name(row))}</code> on torch {_text(versions)}: {_text(problem)}"
        findings = "".join(map(_finding, result.findings))
        reasons = (f": {gap}" if isinstance(gap, str) else f" ({gap.stage}): {gap.reason}" for gap in result.gaps)
        gaps = "".join(f"<li>gap{_text(reason)}</li>" for reason in reasons)
        first = f"<p class='faint'>Details are from torch {_text(releases[0])}.</p>" if len(releases) > 1 else ""
        yield f'<details id="{anchor}"><summary>{summary}</summary>{first}<ul>{findings}{gaps}</ul></details>'


def _finding(finding: Finding) -> str:
    shown_evidence = finding.evidence[:_EVIDENCE_SHOWN]
    proofs = "".join(
        f"<li><code>{_text(evidence.readable or evidence.subject)}</code>"
        + (f" <span class='faint'>({_text(evidence.object)})</span>" if evidence.object else "")
        + (f"<br>found: <code>{_text(evidence.instead)}</code>" if evidence.instead else "")
        + "</li>"
        for evidence in shown_evidence
    )
    if hidden := len(finding.evidence) - len(shown_evidence):
        proofs += f"<li class='faint'>… {hidden} more</li>"
    return (
        f"<li><strong>{level(finding.effect)}[{_text(finding.rule)}]</strong> {_text(finding.message)}<ul>{proofs}</ul>"
        f"<p>Fix: {_text(finding.fix)}</p></li>"
    )


def _text(text: str) -> str:
    return html.escape(clean(text))
