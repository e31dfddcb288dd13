"""The result of ``abiscan doctor``: the state of an environment. Its JSON Schema is ``schema/doctor-v1.json``."""

from __future__ import annotations

import enum

from msgspec import Struct

from abiscan.findings import Effect
from abiscan.results.changes import PackageChange
from abiscan.results.document import Document, give_shape


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


@give_shape("subject trouble effect cause message extensions commands stays?")
class Ailment(Struct, frozen=True, kw_only=True):
    """One problem.

    ``subject`` is ``NAME==VERSION``, a folder, or a setting; ``message`` is the loader's error, or what is wrong;
    ``cause`` is what lies behind that error, if it is known: ``was built for torch 2.5.1``; ``commands`` are
    alternative fixes, ready to type, the most reliable first; ``effect`` is None if unknown. ``stays`` says why no
    version of it from an index is proposed, if one may be a stranger's.
    """

    subject: str
    trouble: Trouble
    effect: Effect | None
    message: str
    extensions: tuple[str, ...]
    commands: tuple[str, ...]
    cause: str | None = None
    stays: str | None = None

    @property
    def severity(self) -> int:
        """The severity of its effect, for sorting; -1 if unknown."""
        return self.effect.severity if self.effect else -1


@give_shape("environment torch python ailments solution advice changes unreachable healthy incomplete")
class Diagnosis(Document, frozen=True, kw_only=True):
    """The state of an environment; its problems are in ``ailments``, worst first.

    ``environment`` names it, and says why it was chosen; ``solution`` is the one command after which the packages in it
    work together, None if there is none to be found, or no need of one; ``advice`` says what that installs, and why;
    ``changes`` are all that it changes.
    ``unreachable`` says which index cannot be read, if that is why nothing was looked for. ``healthy`` are the packages
    without a problem, ``incomplete`` says of some of these what they work without.
    """

    environment: str
    torch: str | None
    python: str | None
    ailments: tuple[Ailment, ...]
    healthy: tuple[str, ...]
    incomplete: tuple[str, ...] = ()
    solution: str | None = None
    advice: str | None = None
    changes: tuple[PackageChange, ...] = ()
    unreachable: str | None = None

    @property
    def exit_code(self) -> int:
        """0: no problems; 1: a problem; 3: something could not be checked, but no problem was found."""
        # Only what could not be checked has no effect.
        if any(ailment.effect for ailment in self.ailments):
            return 1
        return 3 if self.ailments else 0
