"""How the signs of verdicts look: their colours on a terminal, and their classes on a page."""

from __future__ import annotations

from typing import Final

STYLES: Final = {"✓": "green", "◐": "yellow", "✗": "bold red", "?": "yellow", "!": "bold red", "·": "dim"}
CLASSES: Final = {"✓": "loads", "◐": "partly", "✗": "fails", "?": "unknown", "!": "unknown", "·": "none"}
