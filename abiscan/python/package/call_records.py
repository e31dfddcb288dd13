"""What is kept of calls that only compute, and what a run notes of them: see ``kept_calls``."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import Final, Protocol

from msgspec import Struct, field

MOST_PARTS: Final = 1_000_000
"""How many parts are kept at a time. A single reading cannot make as many."""


class Cache(Protocol):
    """A cache of a function: ``functools.lru_cache``."""

    results: dict[str, object]


class KeptCall(Struct, frozen=True, kw_only=True):
    """What a call gave.

    :ivar value: its result; it and ``cached`` are never handed out, only copies
    :ivar cached: what it put into caches of functions: which of those that it can see, under which key, and what
    :ivar steps: how many steps it took
    :ivar parts: how many parts it has
    :ivar depth: how many calls were around it
    :ivar called: the functions that were called
    :ivar looked_at: how many values were looked at to keep calls inside of it
    """

    value: object
    cached: tuple[tuple[int, str, object], ...]
    steps: int
    parts: int
    depth: int
    called: frozenset[ast.AST]
    looked_at: int


class KeptCalls(Struct):
    """The calls that are kept for a package, and which names its functions use."""

    calls: dict[Hashable, KeptCall] = field(default_factory=dict)
    parts: int = 0
    names: dict[ast.AST, tuple[str, ...] | None] = field(default_factory=dict)
    """None for a function that may do more than compute."""

    def keep(self, key: Hashable, call: KeptCall) -> None:
        """Keep a call; those before it go, if there are too many."""
        if self.parts + call.parts > MOST_PARTS:
            self.calls.clear()
            self.parts = 0
        self.calls[key] = call
        self.parts += call.parts


class CallRecord(Struct):
    """What a run notes of calls that only compute.

    :ivar used: those that it has made or taken from the kept ones, and the steps of each
    :ivar steps: how many these took, or would have taken: the run does not count them
    :ivar tries: how many calls of a function were watched in vain since one was kept
    :ivar cached: what functions have put into their caches during the calls that are watched
    :ivar watched: how many calls are watched, one inside of another
    :ivar looked_at: how many values were looked at, to tell calls from each other
    """

    used: dict[Hashable, int] = field(default_factory=dict)
    steps: int = 0
    tries: dict[ast.AST, int] = field(default_factory=dict)
    cached: list[tuple[Cache, str, object]] = field(default_factory=list)
    watched: int = 0
    looked_at: int = 0
