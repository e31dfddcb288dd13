"""The state of an environment, for people: a table of what is wrong."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from abiscan.report.characters import clean
from abiscan.results.doctor import Diagnosis, Trouble


def render(diagnosis: Diagnosis, console: Console) -> None:
    """A table of what is wrong; one line if nothing is."""
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
