"""What one run shares: the facts cached between runs, and the callback for progress messages."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from abiscan.inputs import isolation
from abiscan.inputs.files import Files
from abiscan.inputs.store import Store

Progress: TypeAlias = Callable[[str], None]
"""Called with a few words at the beginning of each step that takes seconds."""


def _silent(_: str) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One run.

    ``store`` caches the facts of large libraries, ``progress`` is called before each step that takes seconds, ``jobs``
    is the number of processes that the command line shares the work among: see ``branches``.
    """

    store: Store
    progress: Progress = _silent
    jobs: int = 1

    @classmethod
    def of_user(cls, progress: Progress = _silent, *, jobs: int = 1) -> Session:
        """A run that caches facts in the user's cache folder."""
        folder = _cache_folder()
        isolation.may_write(folder, make=True)
        return cls(store=Store(folder), progress=progress, jobs=jobs)

    def files(self) -> Files:
        """The files on the disk, with no wheel mounted yet; the facts of large ones are cached."""
        return Files(self.store.facts_of)


def _cache_folder() -> Path:
    """The folder for cached facts; one that cannot exist if the user has no home."""
    import platformdirs

    with contextlib.suppress(RuntimeError):
        folder = Path(platformdirs.user_cache_dir("abiscan", appauthor=False))
        if folder.parts[0] != "~":  # which older releases of platformdirs return, instead of an error
            return folder
    return Path(os.devnull, "abiscan")
