"""The words for the verdict on a file."""

from __future__ import annotations

import enum

from msgspec import Struct

from abiscan.inputs import system
from abiscan.words import first_line


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


class PredictedError(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first error of the load.

    :ivar object: base name of the library the text begins with
    :ivar message: the text after that; empty if the process ends without one
    :ivar signal: the signal that ends the process, where that is known
    :ivar exact: if false, a ? in the text stands for something unknown
    """

    how: How
    object: str | None
    message: str
    signal: int | None = None
    exact: bool = True

    def __str__(self) -> str:
        return f"{self.object}: {self.message}" if self.object else self.message

    @property
    def line(self) -> str:
        """The error in one line."""
        first = first_line(self.message)
        return f"{self.object}: {first}" if self.object else first


def torch_in_words(build: str | None, machine: str | None, named_system: str | None) -> str:
    """Return a torch, with the place that a verdict is for: ``torch 2.13.0+cpu (aarch64, debian12)``.

    :param machine: what the libraries are for, which is said where it is not this one
    :param named_system: the system that the user named
    """
    here = system.own_machine()
    places = [place for place in (machine, named_system) if place and not (here and place == here.value)]
    torch = f"torch {build}" if build else "this torch"
    return f"{torch} ({', '.join(places)})" if places else torch
