"""The hashes that indexes and locks state."""

from __future__ import annotations

from typing import Final

from abiscan.regex import regex

_SHA256: Final = regex(r"[0-9a-f]{64}")


def sound_hash(stated: object) -> str | None:
    """Return a SHA-256 as an index states it, in lower case; None if it is none, or cannot be that of anything."""
    text = stated.lower() if isinstance(stated, str) else ""
    return text if _SHA256.fullmatch(text) and text.strip("0") else None
