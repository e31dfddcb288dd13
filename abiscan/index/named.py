"""The targets that have a name: what is installed, or what the indexes have."""

from __future__ import annotations

import contextlib
from pathlib import Path

from abiscan.errors import NoWheelError
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.packages import Distribution, FetchedSource, FetchedWheel, resolve_target


def fetch_target(
    word: str, folder: Path, python: str | None, options: IndexOptions
) -> Path | Distribution | FetchedWheel | FetchedSource:
    """Return what a ``TARGET`` stands for, as ``resolve_target`` does; of a version without a wheel, its source
    distribution.

    :raises InputError: there is none, either
    """
    try:
        return resolve_target(word, folder, python, options.words)
    except NoWheelError as error:
        return _download_source(error, folder, python, options)


def _download_source(error: NoWheelError, folder: Path, python: str | None, options: IndexOptions) -> FetchedSource:
    """Return the source distribution of what no wheel is of; raise the error if there is none, either."""
    from packaging.requirements import Requirement
    from packaging.version import InvalidVersion, Version

    from abiscan.index.client import Index, settings_of_pip
    from abiscan.index.system import System

    requirement = Requirement(error.subject)
    try:
        (version,) = {Version(clause.version) for clause in requirement.specifier if clause.operator == "=="}
    except (InvalidVersion, ValueError):
        raise error from None
    with contextlib.closing(Index(settings_of_pip(python, options), System.of(), folder / "index")) as index:
        source = index.download_source(requirement.name, version, folder)
    if source is None:
        raise error
    return FetchedSource(path=source, requirement=error.subject)
