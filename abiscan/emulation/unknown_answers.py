"""Whether what an object registers depends on what a function returns that the emulator does not know.

A function without a double returns zero. The parts of a run that called one are run once more, in a process of their
own, where it returns something else. If they take the same way through the code and register the same, nothing that
they do depends on the answer. If they do not, the answer decided a branch, was an address, or became a part of what was
registered, and what was recovered may be wrong: a gap for each function of which that is true.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

OTHERS: Final = (1, 0xFFFF_FFFF_FFFF_FFFF)
"""True and a success that is no zero; -1, which is negative as any signed type, and much as any unsigned one."""

_INSTRUCTIONS_MORE: Final = 100_000  # than the run takes where functions return zero

Part: TypeAlias = Callable[[Any], object]
"""Runs one initialiser, or what the import of a module runs, in the process that it is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What is compared of two runs: the way they take, and what they register."""

    instructions: int
    way: int
    stops: int
    registered: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Asked:
    """A part of a run that called functions without a double, by where these return to.

    ``start`` is the function that it begins with, in the file's own space.
    """

    part: Part
    start: int
    footprint: Footprint
    functions: Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependence:
    """A function whose answer matters, and where a call of it returns to."""

    function: str
    address: int


class Again(Protocol):
    """The object in a new process, where nothing has run."""

    def run_again(self, asked: Asked, answers: Mapping[str, int], instructions: int) -> Footprint:
        """Run a part, where functions without a double return these answers, or zero."""

    def close(self) -> None:
        """End the process."""


def dependences(
    asked: Sequence[Asked], anew: Callable[[], Again], may_register: Callable[[Asked], bool]
) -> Iterator[Dependence]:
    """The functions whose answers matter.

    :param anew: makes a new process
    :param may_register: whether it matters what a part does
    """

    def footprints(parts: Iterable[Asked], answers: Mapping[str, int]) -> list[Footprint]:
        with contextlib.closing(anew()) as process:
            return [
                process.run_again(each, answers, each.footprint.instructions + _INSTRUCTIONS_MORE) for each in parts
            ]

    def differing(usual: Mapping[Asked, Footprint], names: Iterable[str]) -> Iterator[Asked]:
        """The parts that do something else where these functions return something else, and that may register."""
        left = list(usual)
        for other in OTHERS:
            found = dict(zip(left, footprints(left, dict.fromkeys(names, other)), strict=True)) if left else {}
            left = [each for each in left if found[each] == usual[each]]
            yield from (each for each in found if each not in left and may_register(each))

    every = {name for each in asked for name in each.functions.values()}
    suspects = list(differing({each: each.footprint for each in asked}, every))
    if not suspects:
        return
    # They may take another way than in the whole run even so, since the other parts did not run before.
    usual = dict(zip(suspects, footprints(suspects, {}), strict=True))
    suspects = list(differing(usual, every))
    for name, address in {name: address for each in suspects for address, name in each.functions.items()}.items():
        if any(True for _ in differing(usual, [name])):
            yield Dependence(function=name, address=address)
