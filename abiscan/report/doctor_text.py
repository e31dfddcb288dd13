"""The state of an environment, as text: how much works, what does not, cause by cause, and what to type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from abiscan.results.changes import change_lines
from abiscan.results.doctor import Ailment, Diagnosis, ProblemKind
from abiscan.results.package import PackageVerdict
from abiscan.words import clean, first_line, listed


def render_diagnosis(diagnosis: Diagnosis, console: Console) -> None:
    """Write what was looked at, the failures by cause, what works in part, what is not known, and what to type."""
    torch = f"torch {diagnosis.torch.version or '(unknown version)'}"
    if diagnosis.torch.error is not None:
        console.print(_label("torch itself cannot be imported", diagnosis.torch.error, "bold red"), soft_wrap=True)
    fails = any(ailment.effect for ailment in diagnosis.ailments)
    console.print(Text(str(diagnosis.counts), style="red" if fails else "green"), soft_wrap=True)
    console.print(Text(f"environment {clean(diagnosis.chosen)}, {torch}"), soft_wrap=True)
    if others := diagnosis.environment.describe_others():
        console.print(Text(others), soft_wrap=True)
    _render_ailments(
        [item for item in diagnosis.ailments if item.effect and item.trouble is not ProblemKind.TORCH_ITSELF],
        {str(item): item.failing_modules for item in diagnosis.distributions},
        console,
    )
    _render_lines("in part", (f"{item} {lost}" for item in diagnosis.distributions for lost in item.lacking), console)
    unmet = (*diagnosis.torch.unmet, *(line for item in diagnosis.distributions for line in item.unmet))
    _render_lines("requirements", unmet, console)
    _render_ailments([item for item in diagnosis.ailments if not item.effect], {}, console)
    subjects = {item.subject for item in diagnosis.ailments}
    unknown = [item for item in diagnosis.distributions if item.verdict is PackageVerdict.UNKNOWN]
    _render_lines("unknown", (f"{item}: {item.error}" for item in unknown if str(item) not in subjects), console)
    _render_lines("imported", _trial_lines(diagnosis), console)
    for finding in diagnosis.process:
        console.print()
        console.print(Text(clean(finding.message), style="yellow"), soft_wrap=True)
        if finding.says is not None:
            console.print(Text(f"  {clean(finding.says)}"), soft_wrap=True)
        console.print(Text(f"  {clean(finding.fix)}"), soft_wrap=True)
    _render_commands(diagnosis, console)
    _render_unsolved(diagnosis, console)


def _render_ailments(
    ailments: Sequence[Ailment], failing_modules: Mapping[str, Sequence[str]], console: Console
) -> None:
    """Write a table of what is wrong, each with what fails for it.

    :param failing_modules: by distribution, the modules that fail beside others that work
    """
    if not ailments:
        return
    # Two columns without lines: what is copied from a terminal or a log has no frame around it.
    rows = list[tuple[Text, Text]]()
    subjects = {ailment.name for ailment in ailments}
    for ailment in ailments:
        if ailment.because_of in subjects:
            continue
        style = "bold red" if ailment.effect else "yellow"
        modules = _format_modules(failing_modules.get(ailment.subject, ()))
        rows.append((Text(clean(ailment.subject), style=style), Text(f"{_format_problem(ailment)}{modules}")))
        following = [
            clean(f"{item.subject}{_format_modules(failing_modules.get(item.subject, ()))}")
            for item in ailments
            if item.because_of == ailment.name
        ]
        if following:
            verb = "fails" if len(following) == 1 else "fail"
            rows.append((Text(), Text(f"{', '.join(following)} {verb} for the same reason")))
    console.print()
    _render_rows(rows, console)


def _render_rows(rows: Sequence[tuple[Text, Text]], console: Console) -> None:
    """Write two columns: on a terminal, each is wrapped; elsewhere, a line ends where its text does."""
    if not console.is_terminal:
        width = max(first.cell_len for first, _ in rows)
        for first, second in rows:
            first.pad_right(width - first.cell_len + 2)
            console.print(Text.assemble(first, second), soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False, show_header=False)
    for _ in range(2):
        table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _trial_lines(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield what became of the imports that were tried, and what to report where that was not predicted."""
    for state in diagnosis.distributions:
        for module in state.modules:
            if module.imported is None:
                continue
            came = "works" if module.imported.works else "fails" if module.imported.works is False else "unknown"
            error = f": {module.imported.error}" if module.imported.error else ""
            yield f"{module.name}: {came}{error}"
            if module.differs:
                predicted = module.error or module.verdict.value
                yield f"  the prediction was different ({predicted}): please report it, with the file that this writes"
                yield f"  (names of packages and their files, nothing else): abiscan --trace FILE check {state.name}"


def _render_lines(title: str, lines: Iterable[str], console: Console) -> None:
    lines = list(lines)
    if lines:
        console.print(Text(f"\n{title}:", style="bold"))
    for line in lines:
        console.print(Text(f"  {clean(line)}"), soft_wrap=True)


def _render_commands(diagnosis: Diagnosis, console: Console) -> None:
    for remedy in diagnosis.way_out:
        if remedy.advice is not None:
            console.print()
            console.print(Text(clean(remedy.advice)), soft_wrap=True)
    # One installation may mend several packages: it is typed once.
    commands = list(dict.fromkeys(command for ailment in diagnosis.ailments for command in ailment.commands))
    changes = {remedy.command: remedy.changes for remedy in diagnosis.way_out}
    if commands:
        console.print(Text(f"\nto fix {'this' if len(commands) == 1 else 'these'}, type:", style="bold green"))
    for command in commands:
        console.print(Text(f"  {clean(command)}", style="bold"), soft_wrap=True, no_wrap=True)  # to be copied
        for line in change_lines(changes.get(command, ())) if len(commands) > 1 else ():
            console.print(Text(f"    {clean(line)}"), soft_wrap=True)
    for line in change_lines(changes.get(commands[0], ())) if len(commands) == 1 else ():
        console.print(Text(clean(line)), soft_wrap=True)


def _render_unsolved(diagnosis: Diagnosis, console: Console) -> None:
    """Write what was not looked for, and why; what was not found."""
    for ailment in diagnosis.ailments:
        if ailment.stays is not None:
            why = f"did not look for other versions of {ailment.subject}: {ailment.stays}"
            console.print()
            console.print(Text(clean(why)), soft_wrap=True)
    # What could not be checked has no effect, and nothing was looked for either.
    unsolved = [
        ailment.subject
        for ailment in diagnosis.ailments
        if ailment.effect and not ailment.commands and ailment.stays is None and ailment.because_of is None
    ]
    names = ", ".join(map(clean, unsolved))
    if diagnosis.unreachable is not None:
        why = f"since an index cannot be read: {diagnosis.unreachable}"
        console.print()
        console.print(Text(f"did not look for versions that work, {clean(why)}"), soft_wrap=True)
    elif unsolved:
        console.print()
        nothing = "found no versions on the index that work together"
        console.print(Text(f"{nothing}: looked for other versions of {names}"), soft_wrap=True)
    broken = [ailment for ailment in diagnosis.ailments if ailment.effect]
    if broken and not any(ailment.commands for ailment in broken):
        first = next((ailment for ailment in broken if ailment.because_of is None), broken[0])
        again = f"abiscan fit {clean(first.name)} looks for versions of one package to the end"
        if diagnosis.unreachable is not None:
            again = "run abiscan doctor again once the index can be read"
        console.print()
        console.print(Text(f"no command is proposed: {again}"), soft_wrap=True)


def _label(what: str, text: str, style: str) -> Text:
    return Text.assemble((what, style), f": {clean(text)}")


def _format_modules(names: Sequence[str]) -> str:
    return f" (import {listed(names)})" if names else ""


def _format_problem(ailment: Ailment) -> str:
    error = clean(first_line(ailment.message))
    return f"{clean(ailment.cause)}: {error}" if ailment.cause else f"{_WORDS[ailment.trouble]}{error}"


_WORDS: Final = {
    ProblemKind.BROKEN: "does not work: ",
    ProblemKind.CPU_TORCH: "does not work: ",
    ProblemKind.SECOND_LIBTORCH: "",
    ProblemKind.NO_GPU_CODE: "cannot use the GPU: ",
    ProblemKind.STALE_BUILD: "compiled for another torch: ",
    ProblemKind.UNKNOWN: "could not be checked: ",
}
