"""The Pythons that each torch release has wheels for: pip cannot install it in any other.

``data/pythons.txt`` is made by ``tools/build_python_data.py`` from the package index; it has a line for each release.
"""

from __future__ import annotations

import functools
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from abiscan import release_data
from abiscan.inputs.version import TorchVersion

_LAST_PATCH: Final = 99


def runs_in(release: TorchVersion, python: str | None) -> bool:
    """Whether there is a wheel of a release for a Python (``3.11``); True for None, and for a release not listed."""
    pythons = _pythons_by_release().get(str(release))
    return python is None or pythons is None or python in pythons


def newest(release: str | None) -> tuple[int, int] | None:
    """Return the newest Python that a release has wheels for; None for a release not listed."""
    versions = [python.split(".") for python in _pythons_by_release().get(release or "", ())]
    return max(((int(major), int(minor)) for major, minor in versions), default=None)


def admitted(release: str | None, required: str) -> list[tuple[int, int]]:
    """Return the Pythons that a release has wheels for and a package admits, the oldest first.

    :param required: its ``Requires-Python``; empty for any
    """
    try:
        specifier = SpecifierSet(required)
    except InvalidSpecifier:
        return []
    # Some patch release of each counts: which one it is, nobody knows.
    listed = (
        python
        for python in _pythons_by_release().get(release or "", ())
        if any(specifier.contains(f"{python}.{patch}") for patch in (0, _LAST_PATCH))
    )
    return sorted((int(major), int(minor)) for major, minor in (python.split(".") for python in listed))


def is_known(release: str) -> bool:
    """Whether the Pythons of a release are listed."""
    return release in _pythons_by_release()


@functools.cache
def _pythons_by_release() -> dict[str, frozenset[str]]:
    text = release_data.folder("torches").joinpath("pythons.txt").read_text("utf-8")
    return {words[0]: frozenset(words[1:]) for words in map(str.split, text.splitlines())}
