"""What is the matter with an environment: the types behind ``abiscan doctor``, and its two views."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import abiscan
from abiscan.findings import Effect
from abiscan.report.characters import clean

if TYPE_CHECKING:
    from rich.console import Console

VERSION: Final = 1


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


def as_json(diagnosis: Diagnosis) -> str:
    """The diagnosis as JSON, version 1, whose schema is ``schema/doctor-v1.json``."""
    document = {
        "version": VERSION,
        "tool": {"name": "abiscan", "version": abiscan.__version__},
        "torch": diagnosis.torch,
        "python": diagnosis.python,
        "ailments": [
            {
                "subject": ailment.subject,
                "trouble": ailment.trouble.value,
                "effect": ailment.effect.value if ailment.effect else None,
                "message": ailment.message,
                "extensions": list(ailment.extensions),
                "commands": list(ailment.commands),
            }
            for ailment in diagnosis.ailments
        ],
        "healthy": list(diagnosis.healthy),
    }
    return json.dumps(document, indent=1) + "\n"


def print_text(diagnosis: Diagnosis, console: Console) -> None:
    """A table of what is wrong; one line if nothing is."""
    from rich.table import Table  # noqa: PLC0415 - a healthy environment needs none
    from rich.text import Text  # noqa: PLC0415

    torch = f"torch {diagnosis.torch or '(unknown version)'}"
    if not diagnosis.ailments:
        count = len(diagnosis.healthy)
        what = "no extension of torch" if not count else "the extension" if count == 1 else f"all {count} extensions"
        console.print(Text(f"{what} here{' fits' if count == 1 else ' fit' if count else ', beside'} {torch}"))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), show_edge=False)
    for title in (f"with {torch}", "what is wrong", "what to type"):
        table.add_column(title, overflow="fold")
    for ailment in diagnosis.ailments:
        more = len(ailment.extensions) - 1
        rest = f"\n({more} more of its extensions, too)" if ailment.trouble is Trouble.BROKEN and more > 0 else ""
        style = "bold red" if ailment.effect else "yellow"
        table.add_row(
            Text(clean(ailment.subject), style=style),
            Text(f"{_WORDS[ailment.trouble]}{clean(ailment.message)}{rest}"),
            Text("\nor: ".join(map(clean, ailment.commands))),
        )
    console.print(table)


_WORDS: Final = {
    Trouble.BROKEN: "does not load: ",
    Trouble.CPU_TORCH: "made for a torch with CUDA, and this one is for CPUs: ",
    Trouble.SECOND_LIBTORCH: "",
    Trouble.STALE_BUILD: "compiled for another torch: ",
    Trouble.UNKNOWN: "could not be judged: ",
}
