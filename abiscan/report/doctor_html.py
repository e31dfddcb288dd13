"""The state of an environment as a page of HTML: how much works, what does not, and what to type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from abiscan.report.page import escaped, fill_page
from abiscan.report.sarif import level_of
from abiscan.results.changes import change_lines
from abiscan.results.doctor import Diagnosis, DistributionState
from abiscan.results.package import PackageVerdict

_CLASSES: Final = {
    PackageVerdict.WORKS: ("loads", "works"),
    PackageVerdict.WORKS_WITHOUT: ("partly", "works without a part"),
    PackageVerdict.CORRUPTS: ("fails", "corrupts memory"),
    PackageVerdict.IMPORT_FAILS: ("fails", "import fails"),
    PackageVerdict.UNKNOWN: ("unknown", "unknown"),
}
_ORDER: Final = (
    PackageVerdict.CORRUPTS,
    PackageVerdict.IMPORT_FAILS,
    PackageVerdict.WORKS_WITHOUT,
    PackageVerdict.UNKNOWN,
    PackageVerdict.WORKS,
)


def render_page(diagnosis: Diagnosis) -> str:
    """Return the page."""
    return fill_page(
        "Does this environment work with its torch?",
        _answer_html(diagnosis),
        (
            *_command_html(diagnosis),
            *_distribution_html(diagnosis),
            *_problem_html(diagnosis),
            *_rest_html(diagnosis),
        ),
        f"environment {diagnosis.chosen}",
    )


def _answer_html(diagnosis: Diagnosis) -> Iterator[str]:
    torch = f"torch {diagnosis.torch.version or '(unknown version)'}"
    if diagnosis.torch.error is not None:
        error = escaped(diagnosis.torch.error)
        yield f'<p><span class="badge fails">torch itself cannot be imported</span> <code>{error}</code></p>'
    yield f"<p>{escaped(str(diagnosis.counts))} &mdash; {escaped(torch)}</p>"
    if others := diagnosis.environment.describe_others():
        yield f"<p>{escaped(others)}</p>"


def _command_html(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield what to type: one installation may mend several packages, and is shown once."""
    commands = dict.fromkeys(command for ailment in diagnosis.ailments for command in ailment.commands)
    changes = {remedy.command: remedy for remedy in diagnosis.way_out}
    if commands:
        yield "<h2>What to type</h2><ul>"
    for command in commands:
        remedy = changes.get(command)
        lines = "".join(f"<br>{escaped(line)}" for line in change_lines(remedy.changes)) if remedy else ""
        advice = f"<br>{escaped(remedy.advice)}" if remedy and remedy.advice else ""
        yield f"<li><code>{escaped(command)}</code><span class='faint'>{advice}{lines}</span></li>"
    if commands:
        yield "</ul>"


def _distribution_html(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the table of distributions, what fails first."""
    if not diagnosis.distributions:
        return
    yield "<h2>Distributions that use torch, and what they require</h2>"
    yield '<div class="scroll" tabindex="0" role="region" aria-label="distributions"><table class="texts">'
    heads = "".join(f'<th scope="col"><button>{name}</button></th>' for name in ("distribution", "verdict", "why"))
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    for item in sorted(diagnosis.distributions, key=_rank):
        kind, word = _CLASSES[item.verdict]
        yield (
            f'<tr><th scope="row">{escaped(str(item))}</th><td class="{kind}" data-verdict="{kind}">{word}</td>'
            f"<td>{'<br>'.join(map(escaped, _reasons(item)))}</td></tr>"
        )
    yield "</tbody></table></div>"


def _rank(item: DistributionState) -> tuple[int, bool, str]:
    """Return the place of a distribution: what fails for itself comes first."""
    return _ORDER.index(item.verdict), item.cause is not None, item.name.lower()


def _reasons(item: DistributionState) -> Iterator[str]:
    if item.failing_modules and item.error is not None:
        yield f"import {', '.join(item.failing_modules)}"
    if item.cause is not None:
        yield f"fails for {item.cause}"
    yield from filter(None, (item.error,))
    yield from item.lacking
    yield from item.unmet


def _problem_html(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield what is wrong, without what fails for another distribution."""
    causes = [item for item in diagnosis.ailments if item.because_of is None]
    yield from _items_html(
        "Causes",
        (
            f"<strong>{level_of(item.effect) if item.effect else 'unknown'}</strong> {escaped(item.subject)}"
            f"{f' {escaped(item.cause)}' if item.cause else ''}: {escaped(item.message)}"
            f"{f'<br>{escaped(item.stays)}' if item.stays else ''}"
            for item in causes
        ),
    )


def _rest_html(diagnosis: Diagnosis) -> Iterator[str]:
    yield from _items_html("Requirements of torch that are not met", map(escaped, diagnosis.torch.unmet))
    yield from _items_html(
        "Every process of the environment",
        (
            f"<strong>{level_of(item.effect)}[{escaped(item.rule)}]</strong> {escaped(item.message)}"
            f"{f'<br><code>{escaped(item.says)}</code>' if item.says else ''}<p>Fix: {escaped(item.fix)}</p>"
            for item in diagnosis.process
        ),
    )
    if diagnosis.unreachable is not None:
        yield f"<p>no other versions were looked for: {escaped(diagnosis.unreachable)}</p>"


def _items_html(title: str, items: Iterable[str]) -> Iterator[str]:
    lines = "".join(f"<li>{item}</li>" for item in items)
    if lines:
        yield f"<h2>{title}</h2><ul>{lines}</ul>"


_PARTS: Final = (_command_html, _distribution_html, _problem_html, _rest_html)
