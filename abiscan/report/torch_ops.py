"""What a torch itself registers: in the JSON of ``ops_json``, and for people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TextIO

from abiscan.releases.api_version import api_versions, printed
from abiscan.releases.model import TorchRelease
from abiscan.releases.operators import Operators
from abiscan.report.characters import clean
from abiscan.report.ops_rows import VERSION, fallback_row, kernel_row, operator_row


def as_json(release: TorchRelease, found: Operators) -> str:
    """A JSON text that ends in a newline."""
    from abiscan.emulation import Phase  # noqa: PLC0415 - the text does without

    phase = Phase.STATIC_INIT.value
    document = {
        "version": VERSION,
        "path": release.package,
        "built_for": [release.version] if release.version else [],
        "libraries": [],
        "operators": [
            operator_row(
                name=operator.name,
                schema=printed(operator.schema),
                inferred=False,
                jit_only=False,
                tags=operator.tags,
                file=operator.file,
                line=operator.line,
                phase=phase,
            )
            for operator in found.operators.values()
        ],
        "kernels": [
            kernel_row(
                operator=kernel.operator,
                key=kernel.key,
                signature=kernel.signature,
                inferred_schema=kernel.schema,
                boxed=kernel.signature is None,
                fallthrough=kernel.fallthrough,
                file=kernel.file,
                line=kernel.line,
                phase=phase,
            )
            for kernel in found.kernels
        ],
        "fallbacks": [
            fallback_row(
                key=fallback.key,
                fallthrough=fallback.fallthrough,
                file=fallback.file,
                line=fallback.line,
                phase=phase,
            )
            for fallback in found.fallbacks
        ],
        "classes": [],
        "registries": [],
        "lookups": [],
        "gaps": [{"stage": "emulation", "reason": gap, "address": None, "symbol": None} for gap in found.gaps],
    }
    return json.dumps(document, indent=1) + "\n"


def print_text(release: TorchRelease, found: Operators, stream: TextIO) -> None:
    """One line for each operator, kernel, fallback and gap."""
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


def versions_as_json(release: TorchRelease, found: Operators) -> str:
    """The version of the interface of each operator, as a JSON text that ends in a newline."""
    versions = {name: str(version) for name, version in sorted(api_versions(found).items())}
    document = {"version": VERSION, "torch": release.build, "api_versions": versions, "gaps": found.gaps}
    return json.dumps(document, indent=1) + "\n"


def print_versions(release: TorchRelease, found: Operators, stream: TextIO) -> None:
    """The version of the interface of each operator, a line each."""
    versions = api_versions(found)
    lines = [f"{release}: {len(versions)} operators, {len(found.gaps)} gaps"]
    lines += [f"{version} {name}" for name, version in sorted(versions.items())]
    lines += [f"gap {gap}" for gap in found.gaps]
    _write(lines, stream)
