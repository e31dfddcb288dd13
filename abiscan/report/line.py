"""Lines of a report, and how they are printed: by rich where they are styled, without it where they are plain."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from abiscan.regex import regex

if TYPE_CHECKING:
    from rich.text import Text

_STYLING: Final = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""What makes rich write styles to what is no terminal."""
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
    """What lines are printed to, such as a console of rich."""

    def print(self, *objects: Any, soft_wrap: bool | None = None) -> None:
        """Print a line."""


class PlainPage:
    """Prints what a console of rich prints to a file, without the time that importing rich takes.

    :param console: makes the console, for lines with characters that rich replaces
    """

    def __init__(self, stream: TextIO, console: Callable[[TextIO], Page]) -> None:
        self._stream = stream
        self._console = console

    def print(self, *objects: Any, soft_wrap: bool | None = None) -> None:
        """Print a line."""
        lines = [line.plain for line in objects]
        # rich replaces control characters and counts the width of others, so only it can print such a line as it would.
        if all(line.isprintable() for line in lines):
            self._stream.write(f"{' '.join(lines)}\n")
        else:
            self._console(self._stream).print(*objects, soft_wrap=soft_wrap)


def is_plain(stream: TextIO) -> bool:
    """Whether rich would write no styles to a stream."""
    # The variables are those that rich itself looks at.
    return not stream.isatty() and not any(os.environ.get(name) for name in _STYLING)
