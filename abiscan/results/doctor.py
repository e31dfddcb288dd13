"""The result of ``abiscan doctor``: the state of an environment. Its JSON Schema is ``schema/doctor-v1.json``."""

from __future__ import annotations

import enum

from msgspec import Struct

from abiscan.findings import Effect
from abiscan.results.changes import PackageChange
from abiscan.results.document import Document
from abiscan.results.fields import Text


class Trouble(enum.Enum):
    """The kind of a problem."""

    BROKEN = "broken"
    """A package does not work with this torch."""

    CPU_TORCH = "cpu-torch"
    """A package was built for a torch with a GPU; this one has none."""

    SECOND_LIBTORCH = "second-libtorch"
    """There is another copy of torch's libraries, which a process may also load."""

    NO_GPU_CODE = "no-gpu-code"
    """A package has no code that a GPU of this machine runs."""

    STALE_BUILD = "stale-build"
    """Something that torch compiled on the fly was compiled for another torch."""

    UNKNOWN = "unknown"
    """It could not be checked."""


class Ailment(Struct, frozen=True, kw_only=True):
    """One problem.

    :ivar subject: NAME==VERSION, a folder, or a setting
    :ivar effect: None if unknown
    :ivar cause: what lies behind the message, None if unknown: was built for torch 2.5.1
    :ivar message: what the loader says, or what is wrong
    :ivar commands: alternative fixes, the most reliable first
    :ivar stays: why no version of it from an index is proposed, where one may be a stranger's
    """

    subject: str
    trouble: Trouble
    effect: Effect | None
    cause: str | None = None
    message: Text
    extensions: tuple[str, ...]
    commands: tuple[str, ...]
    stays: str | None = None

    @property
    def severity(self) -> int:
        """The severity of its effect, for sorting; -1 if unknown."""
        return self.effect.severity if self.effect else -1


class Diagnosis(Document, frozen=True, kw_only=True):
    """The state of an environment.

    :ivar environment: its folder or interpreter, and why it was chosen
    :ivar torch: version of the torch with its local version label, None if unknown
    :ivar python: path of its interpreter
    :ivar ailments: worst first
    :ivar solution: the command after which the packages work together, None if none was found or needed
    :ivar advice: what that command installs, and why, if it is known: install torchaudio==2.11.0: the newest that works
        with the torch 2.13.0 you have
    :ivar changes: what that command changes, package by package
    :ivar unreachable: the index that cannot be read, and why, if that is why no solution was looked for
    :ivar healthy: the packages without a problem
    :ivar incomplete: what some of these work without, and why: torchopt==0.7.2 works without torchopt/_C.so (silently):
        …
    """

    environment: str
    torch: str | None
    python: str | None
    ailments: tuple[Ailment, ...]
    solution: str | None = None
    advice: str | None = None
    changes: tuple[PackageChange, ...] = ()
    unreachable: str | None = None
    healthy: tuple[str, ...]
    incomplete: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: no problems; 1: a problem; 3: something could not be checked, but no problem was found."""
        # Only what could not be checked has no effect.
        if any(ailment.effect for ailment in self.ailments):
            return 1
        return 3 if self.ailments else 0
