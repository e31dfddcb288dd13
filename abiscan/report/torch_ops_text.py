"""What torch itself registers, as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from abiscan.results.torch_operators import TorchApiVersions, TorchOperators
from abiscan.torches.api_version import format_schema
from abiscan.words import clean, plural


def render_torch(result: TorchOperators, stream: TextIO) -> None:
    """Write one line per operator, kernel, fallback and gap."""
    registered = result.operators
    counts = (
        plural(len(registered.operators), "operator"),
        plural(len(registered.kernels), "kernel"),
        plural(len(registered.fallbacks), "fallback"),
        plural(len(registered.gaps), "gap"),
    )
    # One thing for each line, its kind first: made for ``grep`` and ``diff``.
    lines = [f"{result.release}: {', '.join(counts)}"]
    lines += [
        f"operator {format_schema(operator.schema) or operator.name}" for operator in registered.operators.values()
    ]
    lines += [f"kernel {kernel.operator} {kernel.key or '(catch all)'}" for kernel in registered.kernels]
    lines += [f"fallback {fallback.key}" for fallback in registered.fallbacks]
    lines += [f"gap {gap}" for gap in registered.gaps]
    _write_lines(lines, stream)


def _write_lines(lines: Iterable[str], stream: TextIO) -> None:
    """Write tens of thousands of lines, without rich: it would take seconds."""
    stream.writelines(clean(line) + "\n" for line in lines)


def render_versions(result: TorchApiVersions, stream: TextIO) -> None:
    """Write the API version of each operator, one per line."""
    lines = [f"{result.release}: {plural(len(result.versions), 'operator')}, {plural(len(result.gaps), 'gap')}"]
    lines += [f"{version} {name}" for name, version in result.versions.items()]
    lines += [f"gap {gap}" for gap in result.gaps]
    _write_lines(lines, stream)
