"""Which of the words of a command name locks: told by their names, before any of them is read."""

from __future__ import annotations

import os
from typing import Final

_SUFFIXES: Final = (".lock", ".toml", ".txt")


def is_lock_name(word: str) -> bool:
    """Whether a word is the name of a lock: nothing else that is checked is called so."""
    return word.endswith(_SUFFIXES) and not word.startswith("-") and not os.path.isdir(word)  # noqa: PTH112 - any word
