"""Digests of what torch's dispatcher was recorded to have, so that the data in the package are checked everywhere.

Made from the recorded truth: ``python -m tests.oracle.dispatcher_digests TRUTH`` reads
``TRUTH/torch-<version>.json.gz`` (``dumps``: the text of ``torch._C._dispatch_dump`` of each operator; for 1.5.0
``probe``: the keys of each) and writes ``dispatchers.json``. Only what C++ registers counts. Schemas are left out:
torch prints them, the data have their text.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from abiscan.dispatch.operators import Operators

FILE: Final = Path(__file__).with_name("dispatchers.json")

# "CPU: registered at FILE:LINE :: SCHEMA [ boxed unboxed ]" (OperatorEntry::dumpState, KernelFunction::dumpState)
KERNEL: Final = re.compile(
    r"(?P<key>\w+)(\[alias\])?( \(inactive\))?: (fallthrough )?"
    r"registered (?:at (?P<file>.*?):(?P<line>\d+)|by RegisterOperators) :: (?P<schema>.*?) \[ .* \]"
)
DEFINITION: Final = re.compile(r"debug: registered (?:at (?P<file>.*):(?P<line>\d+)|by RegisterOperators)")
OF_PYTHON: Final = re.compile(r".*\.py|/dev/null")


def kernels_in(dumps: Mapping[str, str]) -> Iterator[tuple[str, str | None, str | None, int | None, str | None]]:
    """Operator, key, file, line and inferred schema of each kernel in dumps."""
    for name, dump in dumps.items():
        for match in filter(None, map(KERNEL.fullmatch, dump.splitlines())):
            if not OF_PYTHON.fullmatch(match["file"] or ""):
                schema = None if match["schema"] == "(none)" else match["schema"]
                yield name, match["key"], match["file"], line_of(match), schema


def operators_in(dumps: Mapping[str, str]) -> Iterator[tuple[str, str, str | None, int | None]]:
    """Name, schema as torch prints it, file and line of each operator in dumps."""
    for name, dump in dumps.items():
        schema = re.search("^schema: (.*)$", dump, re.MULTILINE)
        match = re.search(f"^{DEFINITION.pattern}$", dump, re.MULTILINE)
        if schema is not None and match is not None and not OF_PYTHON.fullmatch(match["file"] or ""):
            yield name, schema[1], match["file"], line_of(match)


def line_of(match: re.Match[str]) -> int | None:
    return int(match["line"]) if match["line"] else None


def digest(rows: Iterable[object]) -> list[object]:
    """How many rows, and a hash of them in whatever order they came."""
    lines = sorted(map(json.dumps, rows))
    return [len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()]


def of_dumps(dumps: Mapping[str, str]) -> dict[str, list[object]]:
    """The digests of a recorded dispatcher."""
    return {
        "kernels": digest(kernels_in(dumps)),
        "operators": digest((name, file, line) for name, _, file, line in operators_in(dumps)),
    }


def of_probe(probe: Mapping[str, list[str]]) -> dict[str, list[object]]:
    """The digest of a recorded probe: CATCH-ALL is the kernel without a key."""
    return {
        "keys": digest((name, sorted({key.partition(" ")[0] for key in keys})) for name, (_, *keys) in probe.items())
    }


def of_operators(found: Operators) -> dict[str, list[object]]:
    """The same digests of what was read from libraries."""
    keys: dict[str, set[str]] = {name: set() for name in found.operators}
    for kernel in found.kernels:
        keys.setdefault(kernel.operator, set()).add(kernel.key or "CATCH-ALL")
    return {
        "kernels": digest((k.operator, k.key, k.file, k.line, k.schema) for k in found.kernels),
        "operators": digest((o.name, o.file, o.line) for o in found.operators.values()),
        "keys": digest((name, sorted(found)) for name, found in keys.items()),
    }


def main(truth: Path) -> None:
    digests = {}
    for path in sorted(truth.glob("torch-*.json.gz")):
        recorded = json.loads(gzip.decompress(path.read_bytes()))
        version = path.name.removeprefix("torch-").removesuffix(".json.gz")
        digests[version] = of_dumps(recorded["dumps"]) if "dumps" in recorded else of_probe(recorded["probe"])
    FILE.write_text(json.dumps(digests, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
