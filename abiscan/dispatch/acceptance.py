"""What a release of torch accepts and others reject, as far as only a running torch shows it.

``data/acceptance.json`` has the answers of some releases, collected by ``tools/build_acceptance_data.py``: the words
that they read as types in a schema, and the dispatch keys for which they accept a second fallback.
"""

from __future__ import annotations

import functools
import json

from msgspec import Struct

from abiscan import release_data
from abiscan.inputs.version import MinorVersion, TorchVersion


class Acceptance(Struct, frozen=True, kw_only=True):
    """What one release accepts.

    :ivar type_words: the words that it reads as types in a schema
    :ivar repeatable_fallbacks: the keys for which it never rejects a fallback: a second one replaces the first or, for
        a key that does not stand for a backend, torch registers nothing
    """

    type_words: frozenset[str]
    repeatable_fallbacks: frozenset[str]


def acceptance_of(release: MinorVersion) -> Acceptance:
    """Return what a minor version accepts: the answers of its newest release, or of the nearest older minor version."""
    answers = _read_answers()
    older = [minor for minor in answers if minor <= release]
    return answers[older[-1] if older else next(iter(answers))]


def is_known(release: MinorVersion) -> bool:
    """Whether a release of this very minor version was asked."""
    return release in _read_answers()


@functools.cache
def _read_answers() -> dict[MinorVersion, Acceptance]:
    """Read the answers by minor version, oldest first."""
    text = release_data.folder("dispatch").joinpath("acceptance.json").read_text("utf-8")
    answers = json.loads(text)
    return {
        version.minor_version: Acceptance(
            type_words=frozenset(answers[str(version)]["type_words"]),
            repeatable_fallbacks=frozenset(answers[str(version)]["repeatable_fallbacks"] or ()),
        )
        for version in sorted(map(TorchVersion, answers))
    }
