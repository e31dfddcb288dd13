"""Make ``abiscan/torches/data/stable_abi.txt``: what the headers of torch say about its stable ABI.

    python -m tools.build_stable_data [--wrappers FILE]

Read from the torch of this Python: the C functions that ``TORCH_TARGET_VERSION`` gates, and those that are deprecated.
FILE is a table of the wrappers of operators, separated by tabs: the wrapper in ``torch/csrc/stable/ops.h``, its
operators, and the release since which it exists; without it, those in the data file are kept. The dates are those of
the uploads to the package index.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from abiscan.torches import shims

OUTPUT: Final = Path(shims.__file__).with_name("data") / "stable_abi.txt"
RELEASED: Final = {
    "2.2": "2024-01-30",
    "2.3": "2024-04-24",
    "2.4": "2024-07-24",
    "2.5": "2024-10-17",
    "2.6": "2025-01-29",
    "2.7": "2025-04-23",
    "2.8": "2025-08-06",
    "2.9": "2025-10-15",
    "2.10": "2026-02-10",
    "2.11": "2026-03-23",
    "2.12": "2026-05-13",
    "2.13": "2026-07-08",
    "2.14": "2026-09-02",
    "2.15": "2026-10-28",
}
_GATE: Final = re.compile(r"#if.*TORCH_FEATURE_VERSION >= TORCH_VERSION_(\d+)_(\d+)_0")
_FUNCTION: Final = re.compile(r"\b((?:aoti_torch|torch)_\w+)\s*\(")


def gates(text: str) -> Iterator[tuple[str, str]]:
    """The functions of a header that need a target version, with that version."""
    open_conditions: list[str | None] = []
    for line in text.splitlines():
        directive = line.lstrip()
        if directive.startswith("#if"):
            gate = _GATE.match(directive)
            open_conditions.append(f"{gate[1]}.{gate[2]}" if gate else None)
        elif directive.startswith("#endif") and open_conditions:
            open_conditions.pop()
        elif (function := _FUNCTION.search(line)) and not directive.startswith(("//", "*", "#")):
            version = next(filter(None, reversed(open_conditions)), None)
            if version:
                yield function[1], version


def wrappers(table: str) -> Iterator[str]:
    """Lines for the operators that have a wrapper."""
    for line in table.splitlines()[1:]:
        names, operators, since, _ = line.split("\t")
        release = re.match(r"[\d.]+", since)
        assert release is not None
        several = [name.strip() for name in names.split(",")]
        for number, operator in enumerate(part.strip().partition(" ")[0] for part in operators.split(",")):
            if operator.startswith("aten::"):
                yield f"wrapper {operator} {several[min(number, len(several) - 1)]} {release[0].rstrip('.')}"


def main() -> int:
    """Write the data file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wrappers", type=Path, help="the table of wrappers")
    table = parser.parse_args().wrappers
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    csrc = Path(spec.origin).parent / "include/torch/csrc"
    headers = [csrc / "stable/c/shim.h", *sorted((csrc / "inductor/aoti_torch").glob("**/*.h"))]
    gated = dict(gate for header in headers for gate in gates(header.read_text("utf-8")))
    deprecated = set(_FUNCTION.findall((csrc / "inductor/aoti_torch/c/shim_deprecated.h").read_text("utf-8")))
    kept = [line for line in OUTPUT.read_text("utf-8").splitlines() if line.startswith("wrapper ")] if not table else []
    lines = [
        *(f"released {release} {date}" for release, date in RELEASED.items()),
        *(f"gate {name} {version}" for name, version in sorted(gated.items())),
        *(f"deprecated {name}" for name in sorted(deprecated)),
        *(kept or sorted(wrappers(table.read_text("utf-8")))),
    ]
    OUTPUT.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    print(f"{OUTPUT.name}: {len(gated)} gates, {len(deprecated)} deprecated, {len(lines)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
