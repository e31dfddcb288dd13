"""The state of an environment, as text: a table of problems."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from abiscan.report.characters import clean
from abiscan.results.doctor import Diagnosis, Trouble
from abiscan.words import first_line


def render(diagnosis: Diagnosis, console: Console) -> None:
    """A table of problems; one line if there are none."""
    torch = f"torch {diagnosis.torch or '(unknown version)'}"
    if not diagnosis.ailments:
        count = len(diagnosis.healthy)
        if not count:
            console.print(Text(f"no extensions of torch are installed ({torch})"))
        else:
            everything = "the only extension fits" if count == 1 else f"all {count} extensions fit"
            console.print(Text(f"{everything} {torch}"))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 1, 0), show_edge=False)
    for title in (f"with {torch}", "problem", "fix"):
        table.add_column(title, overflow="fold")
    for ailment in diagnosis.ailments:
        further = len(ailment.extensions) - 1
        others = (
            f"\n(and {further} more of its extensions)" if ailment.trouble is Trouble.BROKEN and further > 0 else ""
        )
        style = "bold red" if ailment.effect else "yellow"
        table.add_row(
            Text(clean(ailment.subject), style=style),
            Text(f"{_WORDS[ailment.trouble]}{clean(first_line(ailment.message))}{others}"),
            Text("\nor: ".join(map(clean, ailment.commands))),
        )
    console.print(table)


_WORDS: Final = {
    Trouble.BROKEN: "does not work: ",
    Trouble.CPU_TORCH: "built for a GPU, but this torch is a CPU build: ",
    Trouble.SECOND_LIBTORCH: "",
    Trouble.NO_GPU_CODE: "cannot use the GPU: ",
    Trouble.STALE_BUILD: "compiled for another torch: ",
    Trouble.UNKNOWN: "could not be checked: ",
}
