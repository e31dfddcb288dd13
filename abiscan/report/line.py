"""Lines of a report, and how they are printed: by rich where they are styled, without it where they are plain."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from abiscan.regex import regex

if TYPE_CHECKING:
    from rich.text import Text

_STYLING: Final = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""What makes rich write styles to what is no terminal."""
_WIDTH: Final = 80
"""What rich takes where there is no terminal."""
_WORD: Final = regex(r"\S+")


class StyledLine:
    """A line: its parts, some with styles of their own, as pairs; and the style of all of it."""

    __slots__ = ("_parts", "_style")

    def __init__(self, *parts: str | tuple[str, str], style: str = "") -> None:
        self._parts = list(parts)
        self._style = style

    def append(self, part: str) -> None:
        """Add a part at the end."""
        self._parts.append(part)

    def __len__(self) -> int:
        return len(self.plain)

    @property
    def plain(self) -> str:
        """The line without styles."""
        return "".join(part if isinstance(part, str) else part[0] for part in self._parts)

    def plain_lines(self, _width: int) -> list[str] | None:
        """Return what rich prints of it to a file, None if only rich can tell."""
        # It replaces control characters.
        return [self.plain] if self.plain.isprintable() else None

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text.assemble(*self._parts, style=self._style)


def wrapped(text: Text, width: int) -> Text:
    """Return a line broken at spaces to fit a terminal, with a hanging indent.

    A word that has no room stays whole, for the terminal to break: a symbol or a path is copied and searched for.
    """
    from rich.cells import cell_len

    words = [match.span() for match in _WORD.finditer(text.plain)]
    if not words or cell_len(text.plain) <= width:
        return text
    # Under the words after the label, if there is one: "  = fix: ".
    indent = words[0][0] + (4 if text.plain.startswith("= ", words[0][0]) else 2)
    used = 0
    ends: list[int] = []
    for (begin, end), previous in zip(words, [0, *(end for _, end in words)], strict=False):
        needed = cell_len(text.plain[previous:end])
        if used and used + needed > width:
            ends += (previous, begin)
            used = indent + cell_len(text.plain[begin:end])
        else:
            used += needed
    # Of the parts, every other one is the spaces in whose place the line ends.
    lines = text.divide(ends)[::2]
    return type(text)(f"\n{'':{indent}}").join(lines)


class Page(Protocol):
    """What lines and tables are printed to, such as a console of rich; its width is in columns."""

    width: int

    @property
    def is_terminal(self) -> bool:
        """Whether it is shown as it is printed."""

    def print(self, *objects: Any, soft_wrap: bool | None = None) -> None:
        """Print a line, or a table."""


class PlainPage:
    """Prints what a console of rich prints to a file, without the time that importing rich takes.

    :param console: makes the console, for what only rich can print
    """

    is_terminal = False

    def __init__(self, stream: TextIO, console: Callable[[TextIO], Page]) -> None:
        self._stream = stream
        self._console = console
        self.width = _width_as_rich_finds_it()

    def print(self, *objects: Any, soft_wrap: bool | None = None) -> None:
        """Print a line, or a table."""
        (printed,) = objects or (StyledLine(),)
        lines = printed.plain_lines(self.width)
        if lines is not None:
            self._stream.writelines(f"{line}\n" for line in lines)
            return
        console = self._console(self._stream)
        console.width = self.width
        console.print(printed, soft_wrap=soft_wrap)


def _width_as_rich_finds_it() -> int:
    """Return the width that rich's consoles have: one of the standard streams may be a terminal, whichever is written
    to.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit():
        return int(columns)
    for stream in range(3):
        with contextlib.suppress(OSError):
            return os.get_terminal_size(stream).columns or _WIDTH
    return _WIDTH


def is_plain(stream: TextIO) -> bool:
    """Whether rich would write no styles to a stream."""
    # The variables are those that rich itself looks at.
    return not stream.isatty() and not any(os.environ.get(name) for name in _STYLING)
