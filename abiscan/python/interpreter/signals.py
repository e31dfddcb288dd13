"""How statements end that do not go on with the next one: what running them gives, None where they do."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct


class Returned(Struct, frozen=True, eq=False):
    """``return``, with its value."""

    value: object


class Either(Returned, frozen=True, eq=False):
    """What a function returns after a condition that is not known, on whichever way: so far, that is not known.

    :ivar taken: what runs if the condition holds
    :ivar other: what runs if it does not, before the statements that follow
    """

    taken: Callable[[Any, Any], Any]
    other: Callable[[Any, Any], Any]


class Jump(enum.Enum):
    """What ends a loop, or a round of one."""

    BREAK = "break"
    CONTINUE = "continue"


BREAK: Literal[Jump.BREAK] = Jump.BREAK
CONTINUE: Literal[Jump.CONTINUE] = Jump.CONTINUE

Signal = Returned | Jump
