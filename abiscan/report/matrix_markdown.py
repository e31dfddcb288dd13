"""The matrix in Markdown: one table of packages, or of files that belong to none, by releases."""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.report.markdown import as_code, plain
from abiscan.report.matrix_text import group_adjacent, titled_rows
from abiscan.results.matrix import Matrix, format_advice, format_cell, format_legend


def render_matrix(matrix: Matrix) -> str:
    """Return the table, what to require, and what the signs mean."""
    return "".join(f"{line}\n" for line in _matrix_lines(matrix))


def _matrix_lines(matrix: Matrix) -> Iterator[str]:
    titled = titled_rows(matrix)
    rows = [row for row, _ in titled]
    if rows:
        # Newest first: what most readers ask about.
        runs = group_adjacent(matrix.columns[::-1], lambda column: [format_cell(row, column) for row in rows])
        heads = ["-".join(dict.fromkeys((run[-1].release, run[0].release))) for run in runs]
        yield f"| | {' | '.join(f'torch {head}' for head in heads)} |"
        yield f"|---|{':-:|' * len(heads)}"
        for row, title in titled:
            cells = (plain(format_cell(row, run[0])) for run in runs)
            yield f"| {as_code(title)} | {' | '.join(cells)} |"
        yield ""
        yield format_legend(matrix)
        yield ""
    for target in matrix.targets:
        declared = next(row.declared for row, _ in titled if row.target == target)
        yield f"- {as_code(target)}: {plain(format_advice(matrix, target, declared))}"
    for unchecked in matrix.unchecked:
        yield f"- {as_code(unchecked.target)}: {plain(unchecked.said)}"
