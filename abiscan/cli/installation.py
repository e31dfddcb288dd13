"""Whether abiscan's own files are as they were installed: asked after an error that nothing else explains."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

import abiscan

_PACKAGE: Final = Path(abiscan.__file__).parent
_FIX: Final = "install abiscan again, e.g. pip install --force-reinstall --no-deps abiscan"


def describe_damage(error: Exception) -> str | None:
    """Return what is wrong with the installation, and what to do; None if nothing is, or nobody recorded how it was.

    :param error: what went wrong
    """
    # Only after an unexplained error: hashing the data files takes a second that no good run should pay.
    damaged = list(dict.fromkeys((*_find_missing(error), *_list_changed())))
    if not damaged:
        return None
    return f"the installation of abiscan is damaged: {', '.join(damaged)} ({_FIX})"


def _find_missing(error: Exception) -> Iterator[str]:
    """Yield the file of the package that an error is about."""
    if isinstance(error, OSError) and isinstance(error.filename, str):
        path = Path(error.filename)
        if path.is_relative_to(_PACKAGE):
            yield f"{path.relative_to(_PACKAGE.parent)}: {error.strerror}"


def _list_changed() -> Iterator[str]:
    """Yield the files whose bytes are not those that the installer recorded."""
    try:
        recorded = distribution("abiscan").files or ()
    except PackageNotFoundError:
        return
    for file in recorded:
        path = Path(str(file.locate()))
        if file.hash is None or not path.is_relative_to(_PACKAGE):
            continue
        try:
            # RECORD has urlsafe base64 without padding (packaging specifications, "Recording installed projects").
            digest = hashlib.new(file.hash.mode, path.read_bytes()).digest()
        except (OSError, ValueError) as error:
            yield f"{file}: {getattr(error, 'strerror', None) or error}"
            continue
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            yield f"{file} is not what was installed"
