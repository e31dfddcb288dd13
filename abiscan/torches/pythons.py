"""The Pythons that each torch release has wheels for: pip cannot install it in any other.

``data/pythons.txt`` is made by ``tools/build_python_data.py`` from the package index; it has a line for each release.
"""

from __future__ import annotations

import functools
from importlib import resources

from abiscan.inputs.version import TorchVersion


def runs_in(release: TorchVersion, python: str | None) -> bool:
    """Whether there is a wheel of a release for a Python (``3.11``); True for None, and for a release not listed."""
    pythons = _list_pythons().get(str(release))
    return python is None or pythons is None or python in pythons


def newest(release: str | None) -> tuple[int, int] | None:
    """Return the newest Python that a release has wheels for; None for a release not listed."""
    versions = [python.split(".") for python in _list_pythons().get(release or "", ())]
    return max(((int(major), int(minor)) for major, minor in versions), default=None)


def is_known(release: str) -> bool:
    """Whether the Pythons of a release are listed."""
    return release in _list_pythons()


@functools.cache
def _list_pythons() -> dict[str, frozenset[str]]:
    text = resources.files("abiscan.torches").joinpath("data/pythons.txt").read_text("utf-8")
    return {words[0]: frozenset(words[1:]) for words in map(str.split, text.splitlines())}
