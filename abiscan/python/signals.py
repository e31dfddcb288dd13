"""How statements end that do not go on with the next one: what running them gives, None where they do."""

from __future__ import annotations

import enum
from typing import Literal

from msgspec import Struct


class Returned(Struct, frozen=True, eq=False):
    """``return``, with its value."""

    value: object


class Jump(enum.Enum):
    """What ends a loop, or a round of one."""

    BREAK = "break"
    CONTINUE = "continue"


BREAK: Literal[Jump.BREAK] = Jump.BREAK
CONTINUE: Literal[Jump.CONTINUE] = Jump.CONTINUE

Signal = Returned | Jump
