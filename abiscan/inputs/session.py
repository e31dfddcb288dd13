"""What one run shares: the folder of what is kept between runs, and the callback for progress messages."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from abiscan.inputs import isolation
from abiscan.inputs.index_options import FROM_SETTINGS, IndexOptions

if TYPE_CHECKING:
    from abiscan.inputs.files import Files

Progress: TypeAlias = Callable[[str], None]
"""Called with a few words at the beginning of each step that takes seconds."""


def _silent(_: str) -> None:
    """Report nothing."""


class Session(Struct, frozen=True, kw_only=True):
    """One run.

    ``folder`` is the cache: the folder of what is kept between runs, created when something is. ``progress`` is called
    before each step that takes seconds, ``jobs`` is the number of processes that share the work: see ``branches``.
    ``index`` says where packages that are named by version come from, ``cpus`` for which processors packages have to
    be, and ``system`` for which system, as the user named them.
    """

    folder: Path
    progress: Progress = _silent
    jobs: int = 1
    index: IndexOptions = FROM_SETTINGS
    cpus: tuple[str, ...] = ()
    system: str | None = None

    @classmethod
    def of_user(
        cls,
        progress: Progress = _silent,
        *,
        jobs: int = 1,
        index: IndexOptions = FROM_SETTINGS,
        cpus: tuple[str, ...] = (),
        system: str | None = None,
    ) -> Session:
        """Return a run that uses the user's cache folder."""
        folder = _cache_folder()
        isolation.may_write(folder, make=True)
        return cls(folder=folder, progress=progress, jobs=jobs, index=index, cpus=cpus, system=system)

    def files(self) -> Files:
        """Return the files on the disk, with no wheel mounted yet."""
        from abiscan.inputs.files import Files  # a result that was kept needs none

        return Files()


def _cache_folder() -> Path:
    """Return the user's cache folder; one that cannot exist if the user has no home."""
    import platformdirs

    with contextlib.suppress(RuntimeError):
        folder = Path(platformdirs.user_cache_dir("abiscan", appauthor=False))
        if folder.parts[0] != "~":  # which older releases of platformdirs return, instead of an error
            return folder
    return Path(os.devnull, "abiscan")
