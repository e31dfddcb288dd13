"""A self-contained HTML page, made from ``page.html``: it needs no other file and no network.

Names and texts come from files that may be hostile: everything is escaped, and the page forbids itself to load
anything.
"""

from __future__ import annotations

import html
import string
from collections.abc import Iterable
from importlib import resources

import abiscan
from abiscan.words import clean


def fill_page(title: str, answers: Iterable[str], targets: Iterable[str], legend: str) -> str:
    """Return the page with its parts, of which the title and the legend are still plain text."""
    template = resources.files("abiscan.report").joinpath("page.html").read_text("utf-8")
    # ``substitute`` does not look at what it has put in, so a "$" in a name means nothing.
    return string.Template(template).substitute(
        title=escaped(title),
        answers="\n".join(answers),
        targets="\n".join(targets),
        legend=escaped(legend),
        version=escaped(abiscan.__version__),
    )


def escaped(text: str) -> str:
    """Return text as HTML."""
    return html.escape(clean(text))
