"""A table of a report: laid out by rich where it is styled or has to be squeezed, without it where it is plain."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from abiscan.report.marks import STYLES

if TYPE_CHECKING:
    from rich.table import Table

_BEFORE: Final = 2
"""The spaces before a column, except the first one."""
_AFTER: Final = 1
"""The spaces after a column, except the last one."""
_MARKUP: Final = "[:"
"""What rich reads as the beginning of a style or a picture, in headers."""


class StyledTable(Struct, frozen=True, kw_only=True):
    """Rows with a name, and a cell in each column, in the middle of it.

    :ivar columns: the headers, of one line or more
    :ivar rows: names, each with its cells
    :ivar name_width: how wide the names are at least
    """

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]
    name_width: int

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, _AFTER, 0, _BEFORE))
        table.add_column("", overflow="fold", min_width=self.name_width)
        for header in self.columns:
            table.add_column(header, justify="center", no_wrap=True)
        for name, cells in self.rows:
            table.add_row(Text(name), *(Text(text, style=STYLES[text[0]]) for text in cells))
        return table

    def plain_lines(self, width: int) -> list[str] | None:
        """Return the lines that rich prints of it to a file of some width; None if only rich can tell."""
        # Headers with fewer lines than others stand at the bottom.
        headers = [header.split("\n")[::-1] for header in self.columns]
        lines = [("", *texts) for texts in itertools.zip_longest(*headers, fillvalue="")][::-1]
        lines += [(name, *cells) for name, cells in self.rows]
        # rich counts the width of characters, and replaces control characters.
        if not all(_is_narrow(text) for line in lines for text in line) or any(
            sign in header for header in self.columns for sign in _MARKUP
        ):
            return None
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        widths[0] = max(widths[0], self.name_width, 1)
        if sum(widths) + (_BEFORE + _AFTER) * (len(widths) - 1) > width:
            return None
        gap = " " * (_BEFORE + _AFTER)
        return [
            gap.join(
                (f"{name:<{widths[0]}}", *(f"{text:^{room}}" for text, room in zip(texts, widths[1:], strict=True)))
            )
            for name, *texts in lines
        ]


def _is_narrow(text: str) -> bool:
    """Whether each character of a text is surely one that is printed, one column wide."""
    return text.isprintable() and (text.isascii() or all(one.isascii() or one in STYLES for one in text))
