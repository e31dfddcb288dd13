"""What could not be analysed: the one type for it, whoever says so, by emulating code or without."""

from __future__ import annotations

from msgspec import Struct


class Gap(Struct, frozen=True, kw_only=True):
    """Something that could not be analysed, and at which stage.

    The last five fields are those of a gap in code. Of a function that was ``started`` and did not get to its end,
    ``address`` is the program counter, or, where it stopped in an imported function, where that would have returned to.

    :ivar expected: it never can be: the torch is a release number, or for another machine, so the libraries of its
        system are taken for granted; ``--strict`` does not count it
    :ivar rules: the rules that had no answer because something is unknown about the torch
    :ivar decides: what is behind it could have made the load fail, or ended the process
    :ivar address: where it is, in the file's own space
    :ivar symbol: the nearest symbol
    :ivar called: the imported function in which it is, or the one called last, if that has no double and so just
        returned zero
    :ivar lost: the calls that register and that it did not get to, counted by what they register
    """

    stage: str
    reason: str
    expected: bool = False
    rules: tuple[str, ...] = ()
    decides: bool = False
    address: int | None = None
    symbol: str | None = None
    started: int | None = None
    called: str | None = None
    lost: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return f"{self.stage}: {self.reason}"
