"""Which files are locks, and who reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from abiscan.errors import InputError
from abiscan.inputs import observed_fs
from abiscan.locks.conda_lists import EXPLICIT, read_explicit, read_pixi_lock
from abiscan.locks.model import Lock, understood
from abiscan.locks.pdm_lock import read_pdm_lock
from abiscan.locks.pinned_requirements import read_pinned
from abiscan.locks.poetry_lock import read_poetry_lock
from abiscan.locks.pylock import read_pylock
from abiscan.locks.toml_file import read_text, read_toml
from abiscan.locks.uv_lock import UvLock

_BY_NAME: Final[dict[str, Callable[[Path], Lock]]] = {
    "uv.lock": UvLock.read,
    "poetry.lock": read_poetry_lock,
    "pdm.lock": read_pdm_lock,
    "pixi.lock": read_pixi_lock,
}
_FIX: Final = "pass a uv.lock, pylock.toml, poetry.lock, pdm.lock, pixi.lock, or a file of pinned requirements"


def read_lock(path: Path) -> Lock:
    """Read a lock, whatever it is called.

    :raises InputError: it cannot be read, or is none
    """
    if not observed_fs.is_file(path):
        raise InputError(str(path), "does not exist", _FIX)
    with understood(path):
        return _read(path)


def _read(path: Path) -> Lock:
    if reader := _BY_NAME.get(path.name):
        return reader(path)
    if path.suffix == ".txt":
        return read_explicit(path) if EXPLICIT in read_text(path) else read_pinned(path)
    if path.suffix == ".toml":
        return read_pylock(path)
    # A copy of a lock is called anything: what only one tool writes tells whose it is.
    if read_text(path).lstrip().startswith(("version: ", "environments:")):
        return read_pixi_lock(path)
    contents = read_toml(path)
    metadata = contents.get("metadata")
    fields = metadata.keys() if isinstance(metadata, dict) else ()
    if "lock-version" in fields:
        return read_poetry_lock(path)
    if "lock_version" in fields:
        return read_pdm_lock(path)
    if "lock-version" in contents:
        return read_pylock(path)
    if "version" in contents:
        return UvLock.read(path)
    raise InputError(str(path), "is not a lock file of a known kind", _FIX)
