"""Words for messages: counts, lists, ranges of releases; and characters that may be printed.

Every room uses it, so it imports nothing from the project but ``regex``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from abiscan.regex import regex

_SHOWN: Final = 3
_STYLED: Final = regex(r"\x1b\[[0-9;]*m|[^\n\t\x20-\x7e]")
_COMMAND: Final = regex(r"^(\s*):(?=:)|#(?=#\[)", re.MULTILINE)
_ESCAPES: Final = {"#": "\\x23", ":": "\\x3a"}


def plural(count: int, noun: str, many: str | None = None) -> str:
    """Return a count with its noun: ``1 class``, ``2 classes``.

    :param many: the plural, if it is not the noun with an ``s``
    """
    return f"{count} {noun if count == 1 else many or f'{noun}s'}"


def listed(names: Iterable[str], shown: int = _SHOWN) -> str:
    """Join the first few names, and say how many more there are: ``a, b, c, and 2 more``."""
    names = list(names)
    more = f", and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def ranges(chosen: Collection[str], among: Iterable[str]) -> str:
    """Join releases; those that follow each other ``among`` all releases become a range: ``2.4.0, 2.6.0-2.9.1``."""
    # Adjacent means adjacent in ``among``: 2.4.1 and 2.5.0 follow each other if there is nothing between.
    runs = [list(run) for is_chosen, run in itertools.groupby(among, chosen.__contains__) if is_chosen]
    return ", ".join("-".join(dict.fromkeys((run[0], run[-1]))) for run in runs)


def clean(text: str) -> str:
    """Escape what is no character: names in a hostile file must steer neither a terminal nor its reader.

    That is control characters, ends of lines among them, marks that turn the direction of writing, invisible
    characters, spaces that are none, and what Unicode does not define. Everything that is printed passes through here.
    """
    return (
        text
        if text.isprintable()
        else "".join(char if char.isprintable() else _escape_character(char) for char in text)
    )


def clean_lines(text: str, *, styled: bool = False) -> str:
    """Clean several lines, and keep the line breaks between them.

    :param styled: whether codes for colours stay, of a text whose parts are clean
    """
    if not styled:
        return "\n".join(map(clean, text.split("\n")))
    return _STYLED.sub(lambda match: match[0] if len(match[0]) > 1 else clean(match[0]), text)


def without_commands(text: str, escapes: Mapping[str, str] = _ESCAPES) -> str:
    """Escape lines that GitHub's runner would take for commands.

    Those are ``::name::`` at the beginning of a line, and ``##[name]`` anywhere.

    :param escapes: what stands for ``#`` and for ``:`` in this kind of text
    """
    return _COMMAND.sub(lambda match: (match[1] or "") + escapes[match[0][-1]], text)


def _escape_character(char: str) -> str:
    """Return the escape of a character, as Python writes it."""
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Suggest the most similar of the known words, as a question; return an empty text if none is similar."""
    import difflib

    closest = difflib.get_close_matches(word, list(candidates), n=1)
    return f"did you mean {closest[0]}?" if closest else ""


def first_line(text: str) -> str:
    """Return the first line of ``text`` that is not empty: messages may have several.

    If it ends in a colon, what it announces follows it, up to an empty line.
    """
    first, _, more_lines = text.strip().partition("\n")
    if not first.rstrip().endswith(":"):
        return first
    # A line such as "Likely causes:" says nothing by itself.
    announced = itertools.takewhile(bool, map(str.strip, more_lines.strip().splitlines()))
    return " ".join((first.rstrip(), *announced))
