"""The state of an environment, as text: a table of problems."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from abiscan.results.changes import change_lines
from abiscan.results.doctor import Ailment, Diagnosis, Trouble
from abiscan.words import clean, first_line


def render_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Write the environment, a table of problems, and what to type; two lines if there are no problems."""
    torch = f"torch {diagnosis.torch or '(unknown version)'}"
    console.print(Text(f"environment {clean(diagnosis.environment)}, {torch}"), soft_wrap=True)
    if not diagnosis.ailments:
        count = len(diagnosis.healthy)
        if not count:
            console.print(Text(f"no extensions of torch are installed ({torch})"))
        else:
            everything = "the only extension fits" if count == 1 else f"all {count} extensions fit"
            in_part = len(diagnosis.incomplete)
            partly = "" if not in_part else ", in part" if count == 1 else f", {in_part} of them in part"
            console.print(Text(f"{everything} {torch}{partly}"))
        _render_incomplete(diagnosis, console)
        return
    # Two columns without lines: what is copied from a terminal or a log has no frame around it.
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, show_header=False)
    for _ in range(2):
        table.add_column(overflow="fold")
    for ailment in diagnosis.ailments:
        style = "bold red" if ailment.effect else "yellow"
        table.add_row(Text(clean(ailment.subject), style=style), Text(_format_problem(ailment)))
    console.print()
    console.print(table)
    _render_incomplete(diagnosis, console)
    # One installation may mend several packages: it is typed once.
    commands = list(dict.fromkeys(command for ailment in diagnosis.ailments for command in ailment.commands))
    if diagnosis.advice is not None:
        console.print(Text(f"\n{clean(diagnosis.advice)}"), soft_wrap=True)
    if commands:
        console.print(Text("\nto fix this, type:" if len(commands) == 1 else "\nto fix these, type:"))
    for command in commands:
        console.print(Text(f"  {clean(command)}"), soft_wrap=True)  # in one line, to be copied
    for line in change_lines(diagnosis.changes):
        console.print(Text(clean(line)), soft_wrap=True)
    _render_unsolved(diagnosis, console)


def _render_unsolved(diagnosis: Diagnosis, console: Console) -> None:
    """Write what was not looked for, and why; what was not found."""
    for ailment in diagnosis.ailments:
        if ailment.stays is not None:
            why = f"did not look for other versions of {ailment.subject}: {ailment.stays}"
            console.print(Text(f"\n{clean(why)}"), soft_wrap=True)
    # What could not be checked has no effect, and nothing was looked for either.
    unsolved = [
        ailment.subject
        for ailment in diagnosis.ailments
        if ailment.effect and not ailment.commands and ailment.stays is None
    ]
    names = ", ".join(map(clean, unsolved))
    if diagnosis.unreachable is not None:
        why = f"since an index cannot be read: {diagnosis.unreachable}"
        console.print(Text(f"\ndid not look for versions that work, {clean(why)}"), soft_wrap=True)
    elif unsolved:
        console.print(Text(f"\nfound nothing on the index that works together: looked for other versions of {names}"))


def _render_incomplete(diagnosis: Diagnosis, console: Console) -> None:
    if diagnosis.incomplete:
        console.print(Text("\nin part:"))
    for line in diagnosis.incomplete:
        console.print(Text(f"  {clean(line)}"), soft_wrap=True)


def _format_problem(ailment: Ailment) -> str:
    error = clean(first_line(ailment.message))
    return f"{clean(ailment.cause)}: {error}" if ailment.cause else f"{_WORDS[ailment.trouble]}{error}"


_WORDS: Final = {
    Trouble.BROKEN: "does not work: ",
    Trouble.CPU_TORCH: "does not work: ",
    Trouble.SECOND_LIBTORCH: "",
    Trouble.NO_GPU_CODE: "cannot use the GPU: ",
    Trouble.STALE_BUILD: "compiled for another torch: ",
    Trouble.UNKNOWN: "could not be checked: ",
}
