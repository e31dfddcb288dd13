"""The matrix as one self-contained HTML page, made from ``matrix.html``: it needs no other file and no network.

The newest releases come first, and adjacent ones with the same answer share a column. Each cell with a problem links to
its findings. Names come from files that
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
from abiscan.report.matrix_text import runs
from abiscan.report.sarif import level
from abiscan.results.check import Result
from abiscan.results.matrix import Matrix, Row, advice, legend, mark, trouble, working
from abiscan.results.unchecked import Unchecked
from abiscan.words import first_line

_EVIDENCE_SHOWN: Final = 25
_CLASSES: Final = {"✓": "loads", "✗": "fails", "?": "unknown", "·": "none"}
_WORDS: Final = {"✓": "loads", "✗": "fails", "?": "unknown", "·": "no build"}


def render(matrix: Matrix) -> str:
    """The page. Its findings should be explained: see ``Judge.judge``."""
    template = resources.files("abiscan.report").joinpath("matrix.html").read_text("utf-8")
    names = list(dict.fromkeys(row.target for row in matrix.rows))
    targets = []
    for number, target in enumerate(names):
        rows = [row for row in matrix.rows if row.target == target]
        targets.append("\n".join(_target(f"t{number}", rows, matrix)))
    return string.Template(template).substitute(
        answers="\n".join(_answers(names, matrix)),
        targets="\n".join((*targets, *_unchecked(matrix.unchecked))),
        legend=_text(legend()),
        version=_text(abiscan.__version__),
    )


def _answers(targets: Sequence[str], matrix: Matrix) -> Iterator[str]:
    """The answers for several targets, before the tables that explain them."""
    if len(targets) > 1:
        yield '<ul class="answers">'
        for number, target in enumerate(targets):
            yield f'<li><a href="#t{number}">{_text(target)}</a> {_badge(target, matrix)}</li>'
        yield "</ul>"


def _badge(target: str, matrix: Matrix) -> str:
    releases = working(matrix, target)
    words = f"torch {releases}" if releases else "no torch"
    return f'<span class="badge {"loads" if releases else "fails"}">{_text(words)}</span>'


def _unchecked(targets: Sequence[Unchecked]) -> Iterator[str]:
    if targets:
        yield "<h2>Not checked</h2><ul>"
        yield from (f"<li>{_text(str(target))}</li>" for target in targets)
        yield "</ul>"


def _target(anchor: str, rows: Sequence[Row], matrix: Matrix) -> Iterator[str]:
    yield f'<h2 id="{anchor}">{_text(rows[0].target)} {_badge(rows[0].target, matrix)}</h2>'
    yield f"<p>{_text(advice(matrix, rows[0]))}</p>"
    anchors = [_anchors(f"{anchor}f{number}", row) for number, row in enumerate(rows)]

    def answer(release: str) -> object:
        return [(mark(row.results.get(release)), known.get(release)) for row, known in zip(rows, anchors, strict=True)]

    # What users ask about is the newest release, so that is where they begin to read.
    releases = [release for release in reversed(matrix.releases) if any(release in row.results for row in rows)]
    columns = {_span(run[::-1]): run[0] for run in runs(releases, answer)}
    yield '<div class="scroll" tabindex="0" role="region" aria-label="files by releases"><table>'
    heads = "".join(f'<th scope="col" class="release"><button>{_text(name)}</button></th>' for name in columns)
    yield f'<thead><tr><th scope="col"><button>file</button></th>{heads}</tr></thead><tbody>'
    for row, known in zip(rows, anchors, strict=True):
        cells = "".join(_cell(row.results.get(release), known.get(release), name) for name, release in columns.items())
        yield f'<tr><th scope="row">{_text(row.path)}</th>{cells}</tr>'
    yield "</tbody></table></div>"
    for row, known in zip(rows, anchors, strict=True):
        yield _origin(row)
        yield from _details(row, known)


def _span(releases: Sequence[str]) -> str:
    """Adjacent releases, oldest first: ``2.5.0-2.6.0``."""
    return "-".join(dict.fromkeys((releases[0], releases[-1])))


def _anchors(prefix: str, row: Row) -> dict[str, str]:
    """The anchor of each release with a problem; adjacent releases with the same problem share one."""
    anchors: dict[str, str] = {}
    groups = itertools.groupby(
        row.results, lambda release: (trouble(row.results[release], torch=""), _rules(row.results[release]))
    )
    for number, ((problem, rules), releases) in enumerate(groups):
        if problem or rules:
            anchors |= dict.fromkeys(releases, f"{prefix}r{number}")
    return anchors


def _rules(result: Result) -> tuple[str, ...]:
    return tuple(finding.rule for finding in result.findings)


def _cell(result: Result | None, anchor: str | None, release: str) -> str:
    sign = mark(result)
    label = f"{_WORDS[sign]} on torch {release}"
    cell = f'<span role="img" aria-label="{_text(label)}" title="{_text(label)}">{sign}</span>'
    if anchor:
        cell = f'<a href="#{anchor}">{cell}</a>'
    return f'<td class="{_CLASSES[sign]}" data-verdict="{_CLASSES[sign]}">{cell}</td>'


def _origin(row: Row) -> str:
    built_for = row.built_for
    if not built_for.releases:
        return f"<p><code>{_text(row.path)}</code>: the torch it was built for is unknown</p>"
    clues = "".join(f"<li>{_text(clue.seen)}: {_text(span(clue.releases))}</li>" for clue in built_for.clues)
    summary = f"<code>{_text(row.path)}</code> was built for {_text(span(built_for.releases))}"
    return f"<details><summary>{summary}</summary><ul>{clues}</ul></details>"


def _details(row: Row, anchors: dict[str, str]) -> Iterator[str]:
    groups = [(anchor, list(group)) for anchor, group in itertools.groupby(anchors, anchors.__getitem__)]
    for anchor, releases in reversed(groups):
        result = row.results[releases[0]]
        versions = _span(releases)
        problem = first_line(trouble(result, versions if len(releases) > 1 else None) or "notes")
        summary = f"<code>{_text(row.path)}</code> on torch {_text(versions)}: {_text(problem)}"
        findings = "".join(map(_finding, result.findings))
        gaps = "".join(f"<li>gap ({_text(gap.stage)}): {_text(gap.reason)}</li>" for gap in result.gaps)
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
