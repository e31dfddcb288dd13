"""How messages count and list things. Every room uses it, so it imports nothing from the project."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection, Iterable
from typing import Final

_SHOWN: Final = 3


def plural(count: int, noun: str, many: str | None = None) -> str:
    """A count with its noun: ``1 class``, ``2 classes``.

    :param many: the plural, if it is not the noun with an ``s``
    """
    return f"{count} {noun if count == 1 else many or f'{noun}s'}"


def listed(names: Iterable[str], shown: int = _SHOWN) -> str:
    """The first few names, and how many more there are: ``a, b, c, and 2 more``."""
    names = list(names)
    more = f", and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def ranges(chosen: Collection[str], among: Iterable[str]) -> str:
    """Releases, with those that follow each other ``among`` all releases as a range: ``2.4.0, 2.6.0-2.9.1``."""
    runs = [list(run) for is_chosen, run in itertools.groupby(among, chosen.__contains__) if is_chosen]
    return ", ".join("-".join(dict.fromkeys((run[0], run[-1]))) for run in runs)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question that names the most similar of the known words; empty if none is similar."""
    closest = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {closest[0]}?" if closest else ""


def first_line(text: str) -> str:
    """The first line of ``text`` that is not empty: messages may have several.

    If it ends in a colon, what it announces follows it, up to an empty line.
    """
    first, _, rest = text.strip().partition("\n")
    if not first.rstrip().endswith(":"):
        return first
    announced = itertools.takewhile(bool, map(str.strip, rest.strip().splitlines()))
    return " ".join((first.rstrip(), *announced))
