"""Which characters may reach a terminal."""

from __future__ import annotations

from typing import Final

_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0))}


def clean(text: str) -> str:
    """``text`` without control characters: names in a hostile file must not steer the terminal."""
    return text if text.isprintable() else text.translate(_CONTROL)
