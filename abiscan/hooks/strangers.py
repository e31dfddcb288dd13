"""Which packages an index may replace.

Anybody can publish a package under the name of one that is private, so a name alone proves nothing. What was installed
from an address is not replaced from an index, nor is what has a version that no index has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from packaging.version import InvalidVersion, Version

from abiscan.inputs.session import Session

if TYPE_CHECKING:
    from abiscan.index.client import Index


class Known(Struct, frozen=True, kw_only=True):
    """A package as somebody has it: ``origin`` is the address that it was installed from, None if that is unknown."""

    name: str
    version: str
    origin: str | None = None


def explain_strangers(
    asked: Iterable[Known], python: str | None, options: Sequence[str], session: Session
) -> dict[Known, str]:
    """Return those packages that what an index has under their names is not to replace, and why.

    :param python: the interpreter whose indexes are asked
    :param options: where packages come from, as pip spells it
    :raises UnreachableError: an index cannot be read
    """
    asked = list(asked)
    reasons = {known: reason for known in asked if (reason := explain_origin(known.origin))}
    unknown = [known for known in asked if known not in reasons]
    if not unknown:
        return reasons
    # Whoever asks no index does not wait for these imports.
    from abiscan.hooks.fitting import FOLDER, settings_of
    from abiscan.index.client import Index
    from abiscan.index.system import System

    settings = settings_of(python, options)
    with contextlib.closing(Index(settings, System.of(), session.folder / FOLDER)) as index:
        for known in unknown:
            if not _has_version(index, known):
                reasons[known] = _explain_absence(f"{known.name} {known.version}", is_asked=bool(settings.index_urls))
    return reasons


def explain_origin(origin: str | None) -> str | None:
    """Return why a package that was installed from an address is not to be replaced; None for one that was not."""
    return f"it was installed from {origin}, and an index may have another package of that name" if origin else None


def _explain_absence(version: str, *, is_asked: bool) -> str:
    """Return why nothing is known of a version that was not there.

    :param is_asked: whether an index was asked, and not only folders of wheels
    """
    if is_asked:
        return f"no index has {version}, so what one has by that name may be another package"
    return f"no index was asked, and what --find-links names does not have {version}"


def _has_version(index: Index, known: Known) -> bool:
    try:
        # A version has several builds, of which each index has others: 0.24.0+cpu is 0.24.0.
        public = Version(known.version).public
    except InvalidVersion:
        return False
    return any(offered.public == public for offered in index.versions(known.name))
