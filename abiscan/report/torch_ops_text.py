"""What a torch itself registers, for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from abiscan.report.characters import clean
from abiscan.results.operators import TorchApiVersions, TorchOperators
from abiscan.torches.api_version import printed


def render(result: TorchOperators, stream: TextIO) -> None:
    """One line for each operator, kernel, fallback and gap."""
    release, found = result.release, result.operators
    counts = f"{len(found.operators)} operators, {len(found.kernels)} kernels, {len(found.fallbacks)} fallbacks"
    lines = [f"{release}: {counts}, {len(found.gaps)} gaps"]
    lines += [f"operator {printed(operator.schema) or operator.name}" for operator in found.operators.values()]
    lines += [f"kernel {kernel.operator} {kernel.key or '(catch all)'}" for kernel in found.kernels]
    lines += [f"fallback {fallback.key}" for fallback in found.fallbacks]
    lines += [f"gap {gap}" for gap in found.gaps]
    _write(lines, stream)


def _write(lines: Iterable[str], stream: TextIO) -> None:
    """Tens of thousands of lines, as they are."""
    stream.writelines(clean(line) + "\n" for line in lines)


def render_versions(result: TorchApiVersions, stream: TextIO) -> None:
    """The version of the interface of each operator, a line each."""
    lines = [f"{result.release}: {len(result.versions)} operators, {len(result.gaps)} gaps"]
    lines += [f"{version} {name}" for name, version in result.versions.items()]
    lines += [f"gap {gap}" for gap in result.gaps]
    _write(lines, stream)
