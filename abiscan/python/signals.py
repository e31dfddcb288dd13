"""What ends a function, a loop, or a round of one."""

from __future__ import annotations


class ReturnSignal(Exception):  # noqa: N818 - it ends a function, it is no error
    """``return``."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


class BreakSignal(Exception):  # noqa: N818 - it ends a loop
    """``break``."""


class ContinueSignal(Exception):  # noqa: N818 - it ends a round of a loop
    """``continue``."""
