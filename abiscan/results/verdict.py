"""The words that results judge a file with."""

from __future__ import annotations

import enum


class Verdict(enum.Enum):
    """Whether a file loads, and whether it is then safe to use."""

    LOADS = "loads"
    CORRUPTS = "corrupts"
    """It loads, and may then read or write the wrong memory."""
    FAILS = "fails"
    UNKNOWN = "unknown"


class How(enum.Enum):
    """How a failure appears: it raises a Python exception, or ends the process."""

    RAISES = "raises"
    ABORTS = "aborts"
