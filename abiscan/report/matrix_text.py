"""The matrix as text: files by releases, with adjacent releases of the same result in one column."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from abiscan.binary.mangling import demangle
from abiscan.extension.built_for import Clue, Kind, span
from abiscan.findings import PYTHON_RULES, Effect
from abiscan.regex import regex
from abiscan.report.line import Page, StyledLine
from abiscan.report.marks import STYLES
from abiscan.report.table import StyledTable
from abiscan.results.gpus import LEGEND as GPU_LEGEND
from abiscan.results.gpus import SYMBOLS, GpuMark, GpuRow
from abiscan.results.matrix import (
    Column,
    Matrix,
    PackageRow,
    Row,
    best_of,
    cuda_versions,
    describe_problem,
    format_advice,
    format_cell,
    format_legend,
    has_condition,
    name_of_row,
    rules_of,
    verdict_mark,
)
from abiscan.words import clean, first_line, listed, plural, ranges

_GOOD: Final = frozenset("✓◐")
_COLUMN: Final = 10  # the minimum width of a column, including the space between columns
_MANGLED: Final = regex(r"\b_Z\w+")
_Release = TypeVar("_Release", str, Column)


def render_matrix(matrix: Matrix, page: Page, *, verbose: bool = False) -> None:
    """Print the matrix.

    :param verbose: with the first cause of each failure, and all clues to the torch that a file was built for
    """
    rows: tuple[Row | PackageRow, ...] = (*matrix.rows, *matrix.packages)
    names = [clean(name) for name in (*map(name_of_row, rows), *(title for _, title in titled_rows(matrix)))]
    # Names are wrapped on a terminal only, where they have up to half of its width; elsewhere, they are searched for.
    if names and not page.is_terminal:
        page.width = max(page.width, 2 * max(map(len, names)))
    for number, target in enumerate(matrix.targets):
        if number:
            page.print()
        for part in _target_blocks(matrix, target, page.width, verbose=verbose):
            page.print(part, soft_wrap=isinstance(part, StyledLine))
    for part in _overview(matrix, page.width):
        page.print(part, soft_wrap=isinstance(part, StyledLine))
    for unchecked in matrix.unchecked:
        if unchecked.readable:  # what cannot be read is an error, and on stderr
            page.print(StyledLine(clean(str(unchecked))), soft_wrap=True)
    if matrix.targets:
        page.print(StyledLine(format_legend(matrix), style="dim"), soft_wrap=True)


def _target_blocks(matrix: Matrix, target: str, width: int, *, verbose: bool) -> Iterator[StyledLine | StyledTable]:
    """Yield everything about one target."""
    rows, package = [row for row in matrix.rows if row.target == target], matrix.package(target)
    yield StyledLine(clean(target), style="bold")
    yield from _origin_lines(rows, packaged=package is not None, verbose=verbose)
    # What a package does with its files is what counts.
    # Files of a package are shown only if asked for: most users install packages.
    shown: list[Row | PackageRow] = [*([package] if package else []), *(rows if verbose or not package else [])]
    yield from _release_tables(shown, matrix.columns, width)
    yield StyledLine(f"  {clean(format_advice(matrix, target, shown[0].declared))}")
    yield from (
        *(_condition_lines(package, matrix.columns) if package else ()),
        *(_note_lines(package) if package else ()),
        *_stable_abi_line(matrix, target),
        *_cuda_lines(matrix, target),
        *_cpu_lines(rows),
        *_all_gpus(matrix, target, verbose=verbose),
    )
    if verbose:
        yield from (line for row in shown for line in _cause_lines(row))


def _overview(matrix: Matrix, width: int) -> Iterator[StyledLine | StyledTable]:
    """Yield all targets in one table, each with the verdict on its package or on its files; nothing for a single
    target.
    """
    if len(matrix.targets) < 2:
        return
    titled = titled_rows(matrix)
    rows = [row for row, _ in titled]
    # Of rows, since a target that is no package has one for each file.
    somewhere = sum(any(verdict_mark(result) in _GOOD for result in row.results.values()) for row in rows)
    count = plural(len(matrix.targets), "target")
    yield StyledLine()
    yield StyledLine(f"{count}: {somewhere} of {plural(len(rows), 'row')} work on some release")
    yield from _release_tables(rows, matrix.columns, width, [title for _, title in titled])


def titled_rows(matrix: Matrix) -> list[tuple[Row | PackageRow, str]]:
    """Return the rows that count for all targets, sorted by these: of a package its own, otherwise those of files.

    Each has a title, with the target of a file where another target has a file of the same path.
    """
    packages = {target: matrix.package(target) for target in sorted(matrix.targets)}
    rows: list[Row | PackageRow] = []
    for target, package in packages.items():
        rows += [package] if package else [row for row in matrix.rows if row.target == target]
    names = Counter(map(name_of_row, rows))
    return [(row, f"{row.target}: {name}" if names[name := name_of_row(row)] > 1 else name) for row in rows]


def _cuda_lines(matrix: Matrix, target: str) -> Iterator[StyledLine]:
    """Yield which releases were built for which CUDA, if that is why a target fails on some."""
    if by_version := cuda_versions(matrix, target):
        covered_releases = [release for releases in by_version.values() for release in releases]
        words = (f"CUDA {version}: torch {ranges(names, covered_releases)}" for version, names in by_version.items())
        yield StyledLine(f"  {'; '.join(words)}")


def _cpu_lines(rows: Sequence[Row]) -> Iterator[StyledLine]:
    """Yield what the files need of the processor to be loaded, as far as it was read; those that need the same
    together.
    """
    needed: dict[str, list[str]] = {}
    for row in rows:
        if row.cpu:
            needed.setdefault(row.cpu, []).append(row.path)
    for cpu, paths in needed.items():
        selected = "" if len(paths) == len(rows) else f": {listed(paths)}"
        yield StyledLine(f"  needs {cpu} to load{clean(selected)}")


def _all_gpus(matrix: Matrix, target: str, *, verbose: bool) -> Iterator[StyledLine]:
    for row in matrix.gpus or ():
        if row.target == target:
            yield from _gpu_lines(row, verbose=verbose)


def _gpu_lines(row: GpuRow, *, verbose: bool) -> Iterator[StyledLine]:
    """Yield the operators of one file by GPUs; those with the same marks together."""
    yield StyledLine(f"  {clean(row.path)} by GPU:")
    yield StyledLine("  ", *(f"{name:>{len(name) + 2}}" for name in row.names))
    groups = row.groups if row.operators else {row.file: ["the whole file"]}
    for marks, operators in groups.items():
        for shown in operators if verbose else [listed(operators)]:
            yield StyledLine("  ", *_styled_signs(row.names, marks), f"   {clean(shown)}")
    yield StyledLine(f"  {GPU_LEGEND}", style="dim")
    yield from (StyledLine(f"  gap[gpu]: {clean(reason)}", style="yellow") for reason in row.gaps)


def _styled_signs(names: Sequence[str], marks: Sequence[GpuMark]) -> Iterator[tuple[str, str]]:
    for name, sign in zip(names, map(SYMBOLS.__getitem__, marks), strict=True):
        yield f"{sign:>{len(name) + 2}}", STYLES.get(sign, "cyan")


def _stable_abi_line(matrix: Matrix, target: str) -> Iterator[StyledLine]:
    if target in matrix.stable_abi:
        yield StyledLine(f"  stable ABI: {matrix.stable_abi[target]} (abiscan stable)")


def _origin_lines(rows: Sequence[Row], *, packaged: bool, verbose: bool) -> Iterator[StyledLine]:
    """Yield what the files were built for, and the best clue to it; files with the same answer are shown together."""
    by_releases: dict[object, list[Row]] = {}
    for row in rows:
        by_releases.setdefault(row.path if verbose else row.built_for.releases, []).append(row)
    # A package of wheels from several builds: one line would be wrong, and ten would hide the verdict.
    if len(by_releases) > 1 and packaged and not verbose:
        yield StyledLine("  built for different torches, file by file (use -v to show them)")
        return
    for together in by_releases.values():
        built_for = together[0].built_for
        files = clean(together[0].path) + (f" and {len(together) - 1} more" if len(together) > 1 else "")
        if len(together) == len(rows):
            files = "all files" if len(rows) > 1 else files
        if not built_for.releases:
            yield StyledLine(f"  {files}: built for an unknown torch")
            continue
        yield StyledLine(f"  {files}: built for {span(built_for.releases)}")
        clues = built_for.clues if verbose else _choose_clues(together)
        yield from (StyledLine(f"    {clean(_format_clue(clue))}", style="dim") for clue in clues)


def _choose_clues(rows: Sequence[Row]) -> list[Clue]:
    """Return of all clues in some files, the one that leaves the fewest releases; clues from other files do not
    count.
    """
    # What the siblings of a file were built for says something about it, but it is their clue.
    clues = [clue for row in rows for clue in row.built_for.clues if clue.kind is not Kind.SIBLINGS]
    return sorted(clues, key=lambda clue: len(clue.releases))[:1]


def _format_clue(clue: Clue) -> str:
    readable = _MANGLED.sub(lambda name: demangle(name.group()), clue.seen)
    return f"{readable}: {span(clue.releases)}"


def _release_tables(
    rows: Sequence[Row | PackageRow], columns: Sequence[Column], width: int, titles: Sequence[str] = ()
) -> Iterator[StyledTable]:
    """Yield as many tables as fit the width of the terminal, one below the other.

    :param titles: of the rows; by default their names
    """
    # Columns are merged over all rows: the table stays one table.
    groups = group_adjacent(columns, lambda column: [format_cell(row, column) for row in rows])
    names = [*map(clean, titles or map(name_of_row, rows))]
    # At least one column, however narrow the terminal is.
    room = max((width - max(map(len, names)) - 4) // _COLUMN, 1)
    for start in range(0, len(groups), room):
        part = groups[start : start + room]
        yield StyledTable(
            columns=["\n- ".join(dict.fromkeys((run[0].release, run[-1].release))) for run in part],
            rows=[(name, [format_cell(row, run[0]) for run in part]) for name, row in zip(names, rows, strict=True)],
            name_width=min(max(map(len, names)), width // 2),
        )


def _condition_lines(row: PackageRow, columns: Sequence[Column]) -> Iterator[StyledLine]:
    """Yield what the verdicts in the cells depend on, once for all releases that have it in common."""
    by_condition: dict[str, list[str]] = {}
    for column in columns:
        best = best_of([row.results[name] for name in column.builds if name in row.results])
        if best and has_condition(best):
            by_condition.setdefault(best.condition.removeprefix(", "), []).append(column.release)
    for condition, releases in by_condition.items():
        spans = ranges(releases, [column.release for column in columns])
        yield StyledLine(f"  * {spans}: {clean(condition)}")


def _note_lines(row: PackageRow) -> Iterator[StyledLine]:
    """Yield what certainly fails later in the code of a package, once for all releases on which it does."""
    notes: dict[tuple[str, str, str | None], list[str]] = {}
    places: dict[tuple[str, str, str | None], Sequence[str]] = {}
    for release, result in row.results.items():
        for finding in result.own_findings:
            if finding.rule not in PYTHON_RULES or finding.effect is Effect.NOTE:
                continue
            key = finding.rule, finding.message.partition(" ")[0], finding.says
            notes.setdefault(key, []).append(release)
            places.setdefault(key, [evidence.subject for evidence in finding.evidence])
    for key, releases in notes.items():
        rule, name, _ = key
        spans = ranges(releases, list(row.results))
        yield StyledLine((f"  {rule}", "yellow"), clean(f" {spans}: {name} ({listed(places[key], 2)})"))


def _cause_lines(row: Row | PackageRow) -> Iterator[StyledLine]:
    """Yield the first cause of each failure, once for adjacent releases with the same cause."""

    def cause(release: str, torch: str | None = "") -> tuple[str, tuple[str, ...], str] | None:
        result = row.results.get(release)
        # Compared without the version of torch, printed with the span of all releases that share it.
        text = describe_problem(result, torch) if result else None
        return (verdict_mark(result), tuple(rules_of(result)[:1]), text) if result and text else None

    for run in group_adjacent(list(row.results), cause):
        versions = "-".join(dict.fromkeys((run[0], run[-1])))
        if first := cause(run[0], versions if len(run) > 1 else None):
            sign, rules, text = first
            yield StyledLine(
                f"  {clean(name_of_row(row))} ",
                (sign, STYLES[sign]),
                f" {versions}: ",
                *(f"{rule}: " for rule in rules),
                clean(first_line(text)),
            )


def group_adjacent(releases: Sequence[_Release], answer: Callable[[_Release], object]) -> list[list[_Release]]:
    """Return adjacent releases with the same answer, grouped."""
    return [list(group) for _, group in itertools.groupby(releases, answer)]
