"""How messages count and list things. Texts of every room use it, so nothing of the project may come in."""

from __future__ import annotations

from collections.abc import Iterable
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
