"""What to say about an error that nothing explains: abiscan's own files are damaged, or it has a bug."""

from __future__ import annotations

import base64
import functools
import hashlib
import logging
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, PackagePath, distribution
from pathlib import Path
from typing import Final

import abiscan

_log = logging.getLogger("abiscan.inputs")

_PACKAGE: Final = Path(abiscan.__file__).parent
_FIX: Final = "install abiscan again, e.g. pip install --force-reinstall --no-deps abiscan"


def describe_fault(error: Exception) -> str:
    """Return what to tell the user about an error that nobody expected. The trace gets the whole traceback."""
    import traceback  # a good run has none

    for line in "".join(traceback.format_exception(error)).splitlines():
        _log.debug("%s", line)
    if damage := describe_damage(error):
        return damage
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE)]
    places = [f" ({Path(frame.filename).relative_to(_PACKAGE.parent).as_posix()}:{frame.lineno})" for frame in own]
    # As Python puts it, also where it has no text, or one that cannot be had.
    words = traceback.format_exception_only(error)[-1].rstrip()
    return f"internal error, please report it: {words}{places[-1] if places else ''}"


def describe_damage(error: Exception) -> str | None:
    """Return what is wrong with the installation, and what to do; None if nothing is, or nobody recorded how it was.

    :param error: what went wrong
    """
    if isinstance(error, ImportError) and (absent := tuple(_absent_requirements())):
        return f"abiscan requires what is not installed: {', '.join(absent)} (pip install {' '.join(absent)})"
    # Only after an unexplained error: hashing the data files takes a second that no good run should pay.
    damaged = list(dict.fromkeys((*_find_missing(error), *_changed_files(_PACKAGE))))
    if not damaged:
        return None
    return f"the installation of abiscan is damaged: {', '.join(damaged)} ({_FIX})"


def _absent_requirements() -> Iterator[str]:
    """Yield the distributions that abiscan requires and that are not there, as with ``pip install --no-deps``."""
    from packaging.requirements import Requirement

    try:
        required = [Requirement(text) for text in distribution("abiscan").requires or ()]
    except PackageNotFoundError:
        return
    for requirement in required:
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            try:
                distribution(requirement.name)
            except PackageNotFoundError:
                yield requirement.name


def _find_missing(error: Exception) -> Iterator[str]:
    """Yield the file of the package that an error is about."""
    if isinstance(error, OSError) and isinstance(error.filename, str):
        path = Path(error.filename)
        if path.is_relative_to(_PACKAGE):
            yield f"{path.relative_to(_PACKAGE.parent)}: {error.strerror}"


@functools.cache
def _changed_files(package: Path) -> tuple[str, ...]:
    """Return the files whose bytes are not those that the installer recorded."""
    try:
        recorded = distribution("abiscan").files or ()
    except PackageNotFoundError:
        return ()
    return tuple(_files_with_other_hash(package, recorded))


def _files_with_other_hash(package: Path, recorded: Iterable[PackagePath]) -> Iterator[str]:
    for file in recorded:
        path = Path(str(file.locate()))
        if file.hash is None or not path.is_relative_to(package):
            continue
        try:
            # RECORD has urlsafe base64 without padding (packaging specifications, "Recording installed projects").
            digest = hashlib.new(file.hash.mode, path.read_bytes()).digest()
        except (OSError, ValueError) as error:
            yield f"{file}: {getattr(error, 'strerror', None) or error}"
            continue
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            yield f"{file} is not what was installed"
