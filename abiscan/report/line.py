"""Lines of a report, and how they are printed: by rich where they are styled, without it where they are plain."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

if TYPE_CHECKING:
    from rich.text import Text

_STYLING: Final = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""What makes rich write styles to what is no terminal."""


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
