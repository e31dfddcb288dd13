"""What a torch itself registers: in the JSON of ``ops_json``, and for people."""

from __future__ import annotations

import json

from rich.console import Console

from abiscan.emulation import Phase
from abiscan.mangling import demangle_type
from abiscan.releases.api_version import api_versions, printed
from abiscan.releases.model import TorchRelease
from abiscan.releases.operators import Operators
from abiscan.report.ops_json import VERSION
from abiscan.report.text import clean


def as_json(release: TorchRelease, found: Operators) -> str:
    """A JSON text that ends in a newline."""
    phase = Phase.STATIC_INIT.value
    document = {
        "version": VERSION,
        "path": release.package,
        "built_for": [release.version] if release.version else [],
        "libraries": [],
        "operators": [
            {
                "name": operator.name,
                "schema": printed(operator.schema),
                "inferred": False,
                "jit_only": False,
                "tags": list(operator.tags),
                "file": operator.file,
                "line": operator.line,
                "phase": phase,
            }
            for operator in found.operators.values()
        ],
        "kernels": [
            {
                "operator": kernel.operator,
                "dispatch_key": kernel.key,
                "signature": demangle_type(kernel.signature) if kernel.signature else None,
                "inferred_schema": kernel.schema,
                "boxed": kernel.signature is None,
                "fallthrough": kernel.fallthrough,
                "file": kernel.file,
                "line": kernel.line,
                "phase": phase,
            }
            for kernel in found.kernels
        ],
        "fallbacks": [
            {
                "dispatch_key": fallback.key,
                "fallthrough": fallback.fallthrough,
                "file": fallback.file,
                "line": fallback.line,
                "phase": phase,
            }
            for fallback in found.fallbacks
        ],
        "classes": [],
        "registries": [],
        "lookups": [],
        "gaps": [{"stage": "emulation", "reason": gap, "address": None, "symbol": None} for gap in found.gaps],
    }
    return json.dumps(document, indent=1) + "\n"


def print_text(release: TorchRelease, found: Operators, console: Console) -> None:
    """One line for each operator, kernel, fallback and gap."""
    console.print(
        f"{release}: {len(found.operators)} operators, {len(found.kernels)} kernels, {len(found.fallbacks)} fallbacks, "
        f"{len(found.gaps)} gaps",
        soft_wrap=True,
        markup=False,
    )
    lines = [f"operator {printed(operator.schema) or operator.name}" for operator in found.operators.values()]
    lines += [f"kernel {kernel.operator} {kernel.key or '(catch all)'}" for kernel in found.kernels]
    lines += [f"fallback {fallback.key}" for fallback in found.fallbacks]
    lines += [f"gap {gap}" for gap in found.gaps]
    for line in lines:
        console.out(clean(line), highlight=False)


def versions_as_json(release: TorchRelease, found: Operators) -> str:
    """The version of the interface of each operator, as a JSON text that ends in a newline."""
    versions = {name: str(version) for name, version in sorted(api_versions(found).items())}
    document = {"version": VERSION, "torch": release.build, "api_versions": versions, "gaps": found.gaps}
    return json.dumps(document, indent=1) + "\n"


def print_versions(release: TorchRelease, found: Operators, console: Console) -> None:
    """The version of the interface of each operator, a line each."""
    versions = api_versions(found)
    console.print(f"{release}: {len(versions)} operators, {len(found.gaps)} gaps", soft_wrap=True, markup=False)
    for name, version in sorted(versions.items()):
        console.out(f"{version} {clean(name)}", highlight=False)
    for gap in found.gaps:
        console.out(clean(f"gap {gap}"), highlight=False)
