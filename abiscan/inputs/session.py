"""What one run shares: the facts kept between runs, and who hears what takes seconds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from abiscan.inputs.files import Files
from abiscan.inputs.store import Store

Progress: TypeAlias = Callable[[str], None]
"""Is told, in a few words, what begins now and takes seconds."""


def _silent(_: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One run.

    ``store`` keeps the facts of large libraries, ``progress`` is told what takes seconds.
    """

    store: Store
    progress: Progress = _silent

    @classmethod
    def of_user(cls, progress: Progress = _silent) -> Session:
        """A run that keeps facts in the user's cache folder."""
        return cls(store=Store(_cache_folder()), progress=progress)

    def files(self) -> Files:
        """The files of the disk, with no wheel laid over them yet; facts of large ones are kept."""
        return Files(self.store.facts_of)


def _cache_folder() -> Path:
    """Where facts are kept; a folder that cannot exist for a user who has no home."""
    import platformdirs

    with contextlib.suppress(RuntimeError):
        folder = Path(platformdirs.user_cache_dir("abiscan", appauthor=False))
        if folder.parts[0] != "~":  # which older releases of platformdirs return, instead of an error
            return folder
    return Path(os.devnull, "abiscan")
