"""The answer of ``abiscan doctor``: the state of an environment. Its JSON Schema is ``schema/doctor-v1.json``."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from abiscan.findings import Effect
from abiscan.results.document import rendered, tool


class Trouble(enum.Enum):
    """What kind of trouble."""

    BROKEN = "broken"
    """A package and the torch do not fit."""

    CPU_TORCH = "cpu-torch"
    """A package was built for a torch with a GPU; this one has none."""

    SECOND_LIBTORCH = "second-libtorch"
    """There is another copy of torch's libraries, which a process may load beside the first."""

    STALE_BUILD = "stale-build"
    """Something that torch compiled on the fly was compiled for another torch."""

    UNKNOWN = "unknown"
    """It could not be judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ailment:
    """One trouble.

    ``subject`` is ``NAME==VERSION``, a folder, or a setting; ``message`` is what the loader says, or what is wrong;
    ``commands`` are ways out, each to be typed as it is, the surest first; ``effect`` is None if nothing could be told.
    """

    subject: str
    trouble: Trouble
    effect: Effect | None
    message: str
    extensions: tuple[str, ...]
    commands: tuple[str, ...]

    @property
    def severity(self) -> int:
        """Its place among others."""
        return self.effect.severity if self.effect else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The state of an environment; its ailments worst first."""

    torch: str | None
    python: str | None
    ailments: tuple[Ailment, ...]
    healthy: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0: all is well; 1: something is not; 3: something could not be judged, and nothing worse."""
        if any(ailment.effect for ailment in self.ailments):
            return 1
        return 3 if self.ailments else 0

    def to_json(self) -> str:
        """The JSON document, version 1."""
        return rendered(
            {
                "tool": tool(),
                "torch": self.torch,
                "python": self.python,
                "ailments": [
                    {
                        "subject": ailment.subject,
                        "trouble": ailment.trouble.value,
                        "effect": ailment.effect.value if ailment.effect else None,
                        "message": ailment.message,
                        "extensions": list(ailment.extensions),
                        "commands": list(ailment.commands),
                    }
                    for ailment in self.ailments
                ],
                "healthy": list(self.healthy),
            }
        )
